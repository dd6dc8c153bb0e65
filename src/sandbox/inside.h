// SPDX-License-Identifier: Apache-2.0
/* sandbox/inside.h - what agentsh-init does between its start and READY, one function a step;
 * private to this folder.
 *
 * Process agentsh-init, one thread, PID 1 of its namespace. The order is init.c's table; each step
 * writes the entries of the walls that it raised. Errors are E_ENFORCEMENT and name the call and
 * the path. */
#pragma once
#include "base/err.h"
#include "model/file_view.h"
#include "sandbox/command_walls.h"
#include "sandbox/sandbox.h"

#define INSIDE_WORKSPACE "workspace"
#define INSIDE_HOME "home/agent"
#define INSIDE_USER "agent"
/* They cover a hidden path; no user may open them. */
#define INSIDE_VOID_DIR "run/agentsh/.void"
#define INSIDE_VOID_FILE "run/agentsh/.nothing"

struct inside {
	struct sandbox_plan plan;
	struct wall_report walls;
	uint32_t namespaces;	     /* CLONE_NEW… that init was given; 0: none */
	int tree_fd;		     /* owned; the workspace, detached */
	int root_fd;		     /* owned; the new root's mount */
	int etc_fd;		     /* owned; /etc of the new root */
	struct sandbox_trees view;   /* owned; of the file-system lists, placed last */
	struct sandbox_trees served; /* owned; of plan.served, from the mount of agentsh-fs */
	int state_fd;		     /* owned; listener of captures */
	int listener_fd;	     /* owned; of execs, for the warden */
	int ruleset_fd;		     /* owned; the Landlock rules so far; -1: none */
	bool bounded;		     /* the bounding set is empty */
	struct command_walls walls_of_commands;
	struct strv writable; /* without namespaces: real paths */
	struct strv shown; /* the workspace's paths: as the session sees it, as rules name it; … */
	struct file_view files; /* without namespaces: what the session sees */
};
void inside_done(struct inside *in);
/* The plan on its way from the stub to init: a sealed memfd. */
int plan_seal(const struct sandbox_plan *plan, int *fd, struct err *err);
int plan_load(int fd, struct sandbox_plan *plan, struct err *err);
/* No user namespace: a launcher of root made the other namespaces. */
bool inside_by_root(const struct inside *in);
/* The ids that the session sees as its own. */
uint32_t inside_uid(const struct inside *in);
uint32_t inside_gid(const struct inside *in);
/* A read-only file of our own below dir. */
int inside_file(int dir, const char *path, const char *text, struct err *err);

/* In a user namespace: maps our one uid and gid to themselves, or to root. */
int inside_map_ids(struct inside *in, struct err *err);
/* A new root of our own, on top of the old one: /etc, the file-system lists, scratch space,
 * /run/agentsh. */
int inside_root(struct inside *in, struct err *err);
int inside_etc(struct inside *in, struct err *err);
/* The files of /etc that only this session has. */
int inside_names(struct inside *in, struct err *err);
/* Binds the paths of the file-system lists: first, wide, those that contain a mount of ours, and
 * after that mount the others. */
int inside_view(struct inside *in, bool wide, struct err *err);
/* After the pivot: places the trees that came with the assignment. */
int inside_view_late(struct inside *in, struct err *err);
/* Places a tree at an absolute path, also where another one is, and makes the mount point. */
int inside_put(const struct inside *in, int tree, const char *path, struct err *err);
/* With the mount of agentsh-fs, detached: opens what it serves. */
int inside_open_served(struct inside *in, int mount, struct err *err);
/* Places what it serves besides the workspace. */
int inside_served(struct inside *in, struct err *err);
/* After that: covers blocked paths, and makes parts of the workspace read-only. */
int inside_covers(struct inside *in, struct err *err);
/* Shows the workspace where the plan wants it, with those covers; fills in->shown. */
int inside_workspace(struct inside *in, struct err *err);
/* The first step of that: fills in->shown with the workspace's own paths. */
int inside_choose_paths(struct inside *in, struct err *err);
/* Mounts every writable directory above a path on itself: a mount cannot be renamed. By another
 * name of a directory above it, the next session would find the path uncovered. */
int inside_hold_above(const struct sandbox_plan *p, const char *path, struct err *err);
/* The path at which the session sees its workspace; the canonical one if there are several. */
const char *inside_workspace_path(const struct inside *in);
/* The parts of the root that are in no list; a session may read them. Ends with NULL. */
extern const char *const inside_readable[];
int inside_dev(struct inside *in, struct err *err);
int inside_proc(struct inside *in, struct err *err);
/* Enters the new root and unmounts the old one. */
int inside_pivot(struct inside *in, struct err *err);
/* Adds the session's own names, home, space and workspace, then makes the root read-only. */
int inside_session(struct inside *in, struct err *err);
/* Brings loopback up; the network namespace has nothing else. */
int inside_net(struct inside *in, struct err *err);
/* The hostname; and the report of the namespaces that only the clone makes. */
int inside_hostname(struct inside *in, struct err *err);
/* Empties the bounding set of capabilities; init executes no program. */
int inside_bounds(struct inside *in, struct err *err);
int inside_identity(struct inside *in, struct err *err);
int inside_no_new_privs(struct inside *in, struct err *err);
/* The open files of commands, and of init itself. */
int inside_limits(struct inside *in, struct err *err);
/* No process of the session can read init's memory. */
int inside_undumpable(struct inside *in, struct err *err);
/* Landlock rules with the same rights as the mounts, for init and all that it starts. The rules
 * that do not depend on the session are made before. */
int inside_rules(struct inside *in, struct err *err);
int inside_landlock(struct inside *in, struct err *err);
/* The rights (LANDLOCK_…) that the policy gives to no command at a path. */
unsigned inside_withheld(const struct sandbox_plan *plan, const char *path);
struct landlock_ask;
struct landlock_rule;
/* All rules of a session with namespaces, with that; *rules is the caller's. */
struct landlock_ask inside_landlock_rules(const struct inside *in, struct landlock_rule **rules);
int inside_enter_landlock(struct inside *in, const struct landlock_ask *ask, struct err *err);
/* Devices of the host that every session may use. */
#define INSIDE_DEVICES 6
extern const struct inside_device {
	const char *path;
	unsigned major, minor;
} inside_devices[INSIDE_DEVICES];
/* Makes null, an open /dev/null, the three standard descriptors: no descriptor of the host, not
 * even a terminal, may stay open. */
int inside_take_stdio(int null, struct err *err);
/* Opens a path (O_PATH, following links) and gives its real path; *fd is -1 if it does not exist.
 * real has room for PATH_MAX. */
int inside_resolve(const char *path, char *real, int *fd, struct err *err);
/* Of view.c and etc.c, also for a session without mounts: whether a list may show this path;
 * whether it is read-only in every list; the absolute paths of /etc that are shown. */
int inside_may_show(const struct sandbox_plan *plan, const char *path, const char *real,
		    struct err *err);
bool inside_is_system(const char *path);
void inside_etc_paths(struct strv *out);

/* inside_bare.c: the steps of a session without namespaces. */
int bare_place(struct inside *in, struct err *err);
int bare_check_proc(char *mountinfo, struct err *err); /* cuts it */
int bare_separation(struct inside *in, struct err *err);
int bare_landlock(struct inside *in, struct err *err);

/* file_places.c: the view of a session with namespaces; a place of a view, with these rights of
 * Landlock (LANDLOCK_…). */
enum place_kind {
	PLACE_WRITABLE,
	PLACE_READ_ONLY,
	PLACE_DEVICE,
	PLACE_TERMINALS,
	PLACE_PROC,
	PLACE_DIRECTORY,
	PLACE_LINK
};
void inside_describe(const struct inside *in, struct file_view *out);
void places_add(struct file_view *files, const char *path, enum place_kind kind, unsigned access);

/* The filter, for init and all that it starts; listener_fd gets its execs. The last step. */
int inside_seccomp(struct inside *in, struct err *err);

/* Ids and capabilities of the child that becomes init. It shares the stub's memory, so these only
 * make system calls. */
struct identity {
	uint32_t uid, gid;
	bool change;   /* take uid, gid and no supplementary groups; else only capabilities are
			  dropped */
	uint64_t caps; /* that stay, also for the next program; bits 1 << CAP_… */
};
/* Takes the ids, and loses every capability of the old ones. 0 or errno. */
int identity_become(const struct identity *who);
/* Before exec: lets the capabilities that init needs survive the exec of a process that is not uid
 * 0. 0 or errno. */
int identity_keep_caps(void);
