// SPDX-License-Identifier: Apache-2.0
/* sandbox/sandbox.h - how a session's sandbox is made: namespaces, root, identity. See
 * docs/architecture/session.md.
 *
 * Used by the launcher (workspace tree), by the stub (forked from the launcher: clones init,
 * becomes the warden) and by agentsh-init (inside). Each function that raises a wall writes its
 * entry into the wall report. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/fields.h"
#include "model/file_view.h"
#include "model/wall.h"
#include <sys/types.h>

/* The launcher's decisions, in plain strings and numbers. init gets them as a sealed memfd. */
struct sandbox_plan {
	char *session_id;
	char *hostname;	   /* inside: the session id, cut */
	uint32_t uid, gid; /* of warden, init and every process of the session: never 0 with a
			      privileged launcher */
	uint32_t owner_uid, owner_gid; /* their files in the workspace are the session's own */
	uint32_t privileged;	       /* 0: user namespace, all processes have our own uid */
	uint32_t idmap;		       /* mounts of the host map owner <-> uid */
	struct strv unenforced;	       /* walls that may be missing, by configuration */
	char *state_program;  /* path on the host of agentsh-state, bound read-only into the session
			       */
	char *acmd_program;   /* the same of the program that is als, acat and so on; NULL: none */
	uint32_t root_inside; /* uid and gid are shown as 0 in a user namespace */
	/* The file-system lists: absolute paths, the same on the host and inside, besides those
	 * below /workspace. Monitored paths are bound like passthrough. */
	struct strv read_only_paths, passthrough_paths, monitored_paths, blocked_paths;
	struct strv kept_out; /* real paths of the server's directories: no list may show them, and
				 they are covered where they lie in a system directory */
	/* This session's own, by names below /workspace: host paths of the lists or of the server's
	 * programs that its workspace contains. */
	struct strv shut_inside, blocked_inside;
	uint32_t open_files, open_files_max; /* RLIMIT_NOFILE of a command; 0: the default */
	uint32_t exec_control;		     /* the warden decides about every exec */
	uint32_t scratch_mb; /* of /tmp, home and so on together; 0: no limit was asked for */
	/* Rights that the policy gives to no command at a path of the lists or of sandbox_places:
	 * "NUMBER PATH", the number of enum landlock_access. */
	struct strv withheld;
	/* The next two are set if the session has no namespaces, because the machine does not offer
	 * them and the configuration lets all of them be missing. It sees the host's own files,
	 * behind Landlock and the filter. */
	char *workspace; /* its real path, which is where the session sees it */
	char *own_dir;	 /* with SANDBOX_OWN_HOME and SANDBOX_OWN_TMP, the session's own */
	/* Where the session is to see the workspace (SANDBOX_AT_… bits), its real path, and its
	 * place on its disk (mnt_origin), by which init finds other ways to it. */
	uint32_t workspace_at;
	char *real_path, *backing;
	/* The workspace is a linked worktree of git, by this name of a repository that is also
	 * among passthrough_paths; NULL: it is not. */
	char *repository, *worktree;
	/* The real path of the kept home; NULL: the session's home ends with it. With a server of
	 * root the home comes as the last tree. */
	char *home;
	/* Paths of toolchains, shown read-only at their own names; they come with the session. */
	struct strv toolchains;
	uint32_t namespaces; /* CLONE_NEW… that init was given; set by the stub */
	uint32_t trees;	     /* of sandbox_view, which come with the assignment */
	/* Of each of them: its path, and as for `backing` its place on its disk; "": not known. */
	struct strv late;
	uint32_t fuse; /* agentsh-fs serves directories, and decides about what is in them */
	/* Empty: the workspace and the monitored directories. Else it serves these alone, by their
	 * canonical paths, and the workspace is a mount. */
	struct strv enforced_paths;
	/* What it serves, by canonical paths, each with its place as above; set by
	 * sandbox_serve. None is in another one. */
	struct strv served;
	uint32_t trash; /* the assignment brings a directory for it behind the trees */
	uint32_t holds; /* changes of its directories wait for an approver; set by the warden */
	/* Absolute paths of the session's view; /workspace: wherever the workspace is shown. What
	 * is done below them is recorded by the kernel's program (bpf/file_layout.h). Empty: only
	 * what is refused outside of trees that agentsh-fs serves. */
	struct strv recorded_paths;
};
/* The session has a process agentsh-fs. */
static inline bool sandbox_has_fs(const struct sandbox_plan *plan)
{
	return plan->fuse != 0 || plan->recorded_paths.n > 0;
}
#define SANDBOX_AT_WORKSPACE 1U
#define SANDBOX_AT_REAL 2U
#define SANDBOX_OWN_HOME "home"
#define SANDBOX_OWN_TMP "tmp"
/* Where every session may write, by name inside; ends with NULL. */
extern const char *const sandbox_places[];
extern const struct fields sandbox_plan_fields;
void sandbox_plan_done(struct sandbox_plan *p);
/* The part of a plan by which a sandbox is prepared, as bytes: two plans of the same recipe can
 * have the same prepared sandbox. It lacks what belongs to one session (names, ids, space). */
void sandbox_recipe(const struct sandbox_plan *plan, struct buf *out);

/* Fingerprint of the host paths that the recipe uses, never 0. It changes if a directory, file or
 * link of them has been replaced, but not with mounts further below. */
uint64_t sandbox_fingerprint(const struct sandbox_plan *plan);

/* The user namespace of an idmapped mount, which exchanges the owner's ids and the session's.
 * Needs CAP_SETUID, CAP_SETGID and CAP_SETFCAP. It takes longer than all mounts of a session
 * together. E_ENFORCEMENT "uid". */
struct idmap {
	uint32_t disk_uid, disk_gid;   /* as in the file system */
	uint32_t shown_uid, shown_gid; /* of the session's processes */
};
int sandbox_idmap(const struct idmap *m, int *userns, struct err *err);

/* Launcher: opens the workspace with the caller's fsuid/fsgid (when privileged), checks that it is
 * a directory owned by uid or listed, clones the tree (open_tree CLONE|RECURSIVE) and, with
 * plan->idmap, maps owners. *tree_fd is a detached mount, *real its real path.
 * E_FORBIDDEN, E_NOT_FOUND, E_BAD_REQUEST name the path; E_ENFORCEMENT the wall. Unprivileged:
 * *tree_fd is an O_PATH directory. */
struct sandbox_workspace_ask {
	const char *path;
	uint32_t uid, gid;
	const struct strv *listed; /* from the configuration */
	int userns;		   /* with plan->idmap: of sandbox_idmap */
	char *fs;	 /* SANDBOX_FS bytes for the file system that cannot be mapped; or NULL */
	char **backing;	 /* for a plan's; or NULL */
	bool toolchains; /* show those in the user's home */
	int *repository; /* owned descriptor of the plan's; -1, NULL: it is not shown */
};
#define SANDBOX_FS 32
int sandbox_workspace(const struct sandbox_workspace_ask *ask, const struct sandbox_plan *plan,
		      int *tree_fd, char **real, struct err *err);

/* Launcher, before that: looks whether the workspace is a linked worktree of git. If the repository
 * proves it, and the client owns it, adds it and the workspace's real path to the plan, and opens
 * it. */
void sandbox_worktree(const struct sandbox_workspace_ask *ask, struct sandbox_plan *plan);

/* The view of files that a session of this plan gets on this machine, with namespaces. */
void sandbox_file_view(const struct sandbox_plan *plan, struct file_view *out);

/* Launcher of root: the writable host paths of the file-system lists, as detached trees, one per
 * path; the owners are mapped as those of the workspace. -1: the path does not exist. init cannot
 * make them: when its uid is known it has left the host's root. */
struct sandbox_trees {
	int *fd; /* owned */
	size_t n;
	struct strv env; /* owned; of toolchains */
};
void sandbox_trees_add(struct sandbox_trees *t, int fd); /* takes fd */
struct toolchains;
int sandbox_view(struct sandbox_plan *plan, const struct sandbox_workspace_ask *ask,
		 const struct toolchains *tools, struct sandbox_trees *out, struct err *err);
/* The same with the toolchains of the user who asks, if ask->toolchains is set. */
int sandbox_view_of_user(struct sandbox_plan *plan, const struct sandbox_workspace_ask *ask,
			 struct sandbox_trees *out, struct err *err);
void sandbox_trees_done(struct sandbox_trees *t);

/* Main process: chooses what agentsh-fs serves, which are the workspace and the directories of
 * monitored_paths, or those of enforced_paths. The trees of all but the workspace are taken out of
 * view, or opened in the workspace, and added to out; the trees of what lies in them are closed.
 * view and out NULL: only the plan is filled. A monitored path in the workspace is a part of it,
 * one in another monitored path a part of that. E_ENFORCEMENT: an enforced path cannot be served.
 */
int sandbox_serve(struct sandbox_plan *plan, int workspace, struct sandbox_trees *view,
		  struct sandbox_trees *out, struct err *err);
/* Whether a canonical path is in one of these directories. */
bool sandbox_serves(const struct sandbox_plan *plan, const char *path);
/* Adds the paths at which a mount of the machine shows a part of one of these directories in
 * another one, which would be a second name of its files. workspace: its real path. */
int sandbox_doubles(const struct sandbox_plan *plan, const char *workspace, struct strv *out,
		    struct err *err);

/* Homes that outlive their sessions. The key is who may find what a session leaves there. */
#define HOME_NAME 33
struct home_key {
	uint32_t uid; /* proven */
	const char *agent, *policy, *workspace;
};
void home_name(const struct home_key *k, char out[HOME_NAME]);
char *home_path(const char *state, const char *name); /* owned by the caller */
struct home_ask {
	const char *state; /* the server's state directory */
	struct sandbox_plan *plan;
	const char *workspace; /* its real path */
	/* Of root's server: its owner on the disk and in the session, and a user namespace with
	 * this map or -1. NULL: the home belongs to the user of the server. */
	const struct idmap *map;
	int userns;
	uint32_t readers; /* gid, for the trash */
};
/* Launcher: makes the home if it does not exist. With a map its detached tree is added to view. The
 * plan then names it.
 * E_UNAVAILABLE names the path; E_ENFORCEMENT "uid" if its file system cannot be mapped. */
int home_keep(const struct home_ask *ask, const char *name, struct sandbox_trees *view,
	      struct err *err);
/* Launcher: makes STATE/trash/ID for the files that the session deletes, and adds its tree to view,
 * as the last one. With plan->idmap userns has the map of the workspace. */
int trash_make(const struct home_ask *ask, struct sandbox_trees *view, struct err *err);
struct home {
	int parent, dir; /* owned */
	int report;	 /* owned; of the child that trims it */
	uint32_t uid;	 /* owner on the disk */
};
#define HOME_NONE ((struct home){-1, -1, -1, 0})
/* Launcher. name: also "trash/ID" of the trash of a session. E_NOT_FOUND. */
int home_open(const char *state, const char *name, struct home *out, struct err *err);
void home_close(struct home *h);
/* Forks a child that takes the owner's uid (drop) and no power, and removes the oldest caches until
 * at most keep bytes are left; 0: all. It dies with the launcher. */
int home_trim(struct home *h, bool drop, uint64_t keep, pid_t *pid, struct err *err);
_Noreturn void home_trim_run(const struct home *h, bool drop, pid_t parent, uint64_t keep);
/* After its end: the bytes that are left. purge: removes the home itself. A problem, or NULL. */
const char *home_trimmed(const struct home *h, const char *name, bool purge, uint64_t *left);

/* Stub, still privileged: clones init (agentsh-init by init_fd, an O_RDONLY|O_CLOEXEC descriptor of
 * the program) into new namespaces with init_link as its link (SIDE_INIT). In unprivileged mode
 * makes the user namespace; init writes its maps first of all. init dies when the other end of its
 * link is closed. The working directory is / afterwards.
 *
 * A prepared init has done the steps of the plan's recipe. Then it sends SANDBOX_PREPARED over
 * assignment and waits; it ends when assignment is closed. sandbox_bind_init gives it the session.
 * Only if no user namespace is needed this plan may be another one of the same recipe, and tree_fd
 * may be -1 in the first step. */
struct sandbox_start {
	const struct sandbox_plan *plan;
	int init_fd, init_link, tree_fd;
};
#define SANDBOX_PREPARED 'p'
struct sandbox_prepared {
	pid_t pid;
	int assignment; /* owned */
};
int sandbox_prepare_init(const struct sandbox_start *s, struct sandbox_prepared *out,
			 struct err *err);
/* With plan->fuse the last tree of view is the mount of agentsh-fs. */
int sandbox_bind_init(const struct sandbox_prepared *p, int plan_fd, int tree_fd,
		      const struct sandbox_trees *view, struct err *err);
/* Whether the session has a user namespace: always with a server of a normal user; with one of root
 * if the session sees its uid as 0. */
bool sandbox_user_namespace(const struct sandbox_plan *plan);

/* Launcher, for a plan of a normal user: whether the session has to do without namespaces. False
 * where they can be made, and where unenforced does not name every one of them. */
bool sandbox_without_namespaces(const struct sandbox_plan *plan);

/* Stub: executes a program with args and a few variables of the environment. Only returns on
 * failure. */
int sandbox_execute(int program_fd, char *const argv[], struct err *err);
/* Stub, before that: takes the session's uid, gids (no supplementary groups), drops every
 * capability and the bounding set, sets no_new_privs and, if it may, securebits. */
int sandbox_become_user(const struct sandbox_plan *plan, struct err *err);
/* The same for another child of root's server; the program that it executes then has these
 * capabilities (bits 1 << CAP_…), and can get no others. */
int sandbox_become_holder(uint32_t uid, uint32_t gid, uint64_t caps, struct err *err);
/* A process of the session that was started with capabilities drops them. Those of `permitted`
 * (bits 1 << CAP_…) it may make effective again. */
int sandbox_drop_caps(uint64_t permitted, struct err *err);

/* Paths of the session's view by which a shell reports its state. */
#define CAPTURE_DIR "/run/agentsh"
#define CAPTURE_SOCKET "/run/agentsh/state.sock"
#define CAPTURE_PROGRAM "/run/agentsh/bin/state"
#define CAPTURE_PROOF "/run/agentsh/session" /* SHM-3: holds the session id */

/* Descriptors of agentsh-init at its start. */
enum { INIT_LINK_FD = 3, INIT_PLAN_FD, INIT_ASSIGNMENT_FD };
/* agentsh-init: everything inside, in the order of docs/architecture/session.md; then READY is sent
 * and the loop runs until the link closes. Returns the exit status of the program. */
int sandbox_init_main(int link_fd, int plan_fd, int assignment_fd);

/* The bound of a living session's scratch file system, from outside. Runs in the launcher of root.
 */
#define SCRATCH_MB 1024 /* of a session without a limit of its own, and at most */

/* The root directory of an init, O_PATH; -1/errno, also while it is still the host's. */
int scratch_root(pid_t init);
/* Its bound now, in bytes. 0 or -code. */
int scratch_get(int root, uint64_t *bytes, struct err *err);
/* Sets it and writes the entry of disk_limit. E_CONFLICT: more is in use; E_ENFORCEMENT. */
int scratch_set(int root, uint64_t bytes, struct wall_report *walls, struct err *err);
/* Lowers it to bytes, or to the space that is in use if this is more. Never raises it. */
int scratch_lower(int root, uint64_t bytes, struct wall_report *walls, struct err *err);
