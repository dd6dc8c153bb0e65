// SPDX-License-Identifier: Apache-2.0
/* launcher/launcher_state.h - the state that the files of this folder share. Private to launcher/.
 *
 * Start and stop: launcher.c, server_options.c (flags), settings.c (configuration and keys).
 * RUNTIME and the state directory: runtime_dir.c, listen.c. Children: child.c.
 * The API child: api_child.c, api_link.c. A request for a session: requester.c (who asks),
 * admit.c, workspace_check.c, policy_snapshots.c, check_run.c (agentsh-check).
 * A session: make.c, making.c, stub.c, pool.c (prepared sandboxes), group.c (control groups),
 * session_uids.c, choose_limits.c, change_limits.c. Its files: meta.c, session_files.c, own_dir.c.
 * Its end: deaths.c, orphans.c. Sessions of an earlier launcher or API child: adopt.c. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/id.h"
#include "base/loop.h"
#include "cgroup/cgroup.h"
#include "config/config.h"
#include "launcher/check_run.h"
#include "launcher/child.h"
#include "launcher/launcher.h"
#include "link/peer.h"
#include "model/process_table.h"
#include "model/wall.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"
#include "spawn/assignment.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

struct launcher;

/* ---- settings.c ---- */

struct settings_source {
	enum config_mode mode;
	char *path;	       /* absolute; NULL: none */
	bool must_exist;       /* named by flag or variable */
	struct strv overrides; /* environment, then flags */
};
/* One consistent reading of the files; SIGHUP makes another one. */
struct settings {
	struct config config;
	struct api_keys keys;
	struct buf config_text, keys_text;
	bool has_config, has_keys;
	struct strv
		kept; /* "key=value" of what only a restart can change, as it was at the start */
};
int settings_source_init(const struct launcher_options *o, enum config_mode mode,
			 struct settings_source *out, struct err *err);
void settings_source_done(struct settings_source *s);
/* Reads and checks everything. All problems of a file, one a line, go to report. */
int settings_load(const struct settings_source *src, struct settings *out, struct buf *report,
		  struct err *err);
void settings_done(struct settings *s);
/* stderr, or the file of logging.output, opened for appending; *fd > 2 is owned. It is the stderr
 * of the API child and of wardens as well. */
int settings_open_log(const struct settings *s, int *fd, struct err *err);
void settings_start_log(const struct settings *s, int fd);

/* ---- runtime_dir.c, listen.c ---- */

struct runtime {
	char *runtime, *socket;
	int runtime_fd, lock_fd, sessions_fd;
	int claim_fd;	     /* of the state directory */
	int unix_fd, tcp_fd; /* listening; tcp_fd -1: none */
	char *http;	     /* "127.0.0.1:8080" as bound, or NULL */
	dev_t socket_dev;
	ino_t socket_ino;
};
#define RUNTIME_NONE                         \
	((struct runtime){.runtime_fd = -1,  \
			  .lock_fd = -1,     \
			  .sessions_fd = -1, \
			  .claim_fd = -1,    \
			  .unix_fd = -1,     \
			  .tcp_fd = -1})
/* Makes and opens RUNTIME. E_FORBIDDEN if others could change what lies in it. */
int runtime_open(const struct config *c, bool privileged, struct runtime *p, struct err *err);
/* Takes RUNTIME/server.lock. While another process has it, waits up to timeout_ms: with auto_start
 * until the server that has it answers on its socket (*other); else only while that server is dead
 * and a child that it had just forked keeps the lock. E_CONFLICT "already running (pid N)",
 * E_UNAVAILABLE. */
int runtime_take(struct runtime *p, bool auto_start, int timeout_ms, bool *other, struct err *err);
/* With the lock: RUNTIME/sessions and the state directory, which belongs to the API child. */
int runtime_prepare(const struct config *c, bool privileged, struct runtime *p, struct err *err);
/* After runtime_prepare: claims the state directory. E_CONFLICT if another server has it; *other is
 * then the socket of that one, NULL if it cannot be told. */
int runtime_claim(const struct config *c, bool privileged, struct runtime *p, char **other,
		  struct err *err);
/* Opens or makes a file of the state directory with the rights of the directory's owner: a link
 * that the owner has put there leads nowhere else. -1/errno. */
int runtime_state_file(const char *path, bool privileged, uid_t owner);
/* With the lock: binds and listens. */
int runtime_listen(const struct config *c, bool privileged, struct runtime *p, struct err *err);
/* As open, with the rights of another user for files, if the server is privileged: setfsuid takes
 * root's capabilities for files away meanwhile. -1/errno. */
int open_as(const char *path, int flags, bool privileged, uid_t uid, gid_t gid);
/* Removes the socket, if it is ours, and closes everything. */
void runtime_done(struct runtime *p);

/* ---- requester.c ---- */

struct requester {
	uid_t uid;
	gid_t gid;
	bool admin;
};
/* The peer of a connection that was accepted from our unix socket. E_UNAUTHENTICATED for any other
 * descriptor. */
int requester_connected(const struct runtime *p, bool privileged, int fd, struct requester *out,
			struct err *err);
/* A connection to our TCP listener: proves nothing but that, for auth.type none. */
int requester_by_tcp(const struct runtime *p, int fd, struct err *err);
int requester_has_key(const struct api_keys *keys, const struct bytes *key, struct requester *out,
		      struct err *err);

struct identity_ask {
	bool privileged;
	const struct config *config;
	struct requester who;	/* proven */
	struct requester owner; /* of the workspace */
};
struct session_identity {
	struct requester
		self; /* the session runs as this user where the owners of files cannot be mapped */
	struct requester files; /* owner of the files that it makes */
};
/* For which user the session acts. E_FORBIDDEN for the uids of agentsh itself. */
int identity_choose(const struct identity_ask *ask, struct session_identity *out, struct err *err);
/* Owner of a path as the caller sees it; the caller itself where that fails (then opening it will
 * fail, too). */
struct requester requester_owns(const char *path, bool privileged, struct requester caller);
gid_t requester_primary_gid(uid_t uid);

/* ---- session_uids.c ---- */

struct uids {
	int fd; /* where the next one is kept; -1: nowhere */
	uint32_t next;
};
/* With the state directory: reads which uid is next. */
void uids_open(struct launcher *l);
/* A uid that no process has. E_RESOURCE_LIMIT: there is none left. */
int uids_allot(struct launcher *l, uint32_t *uid, struct err *err);
/* The same for what cannot wait: prepared sandboxes give their uids back if no other is left. */
int uids_need(struct launcher *l, uint32_t *uid, struct err *err);

/* ---- policy_snapshots.c ---- */

/* The policy, if a session has used it; borrowed until the loop goes on. */
struct checked *policies_find(const struct launcher *l, const char *name);
/* Fills ask with the files of these policies, those of all sets (texts) and the places of the view;
 * an ask for a session without namespaces has its workspace and its own places already. */
void policies_question(const struct launcher *l, const struct strv *names, bool texts,
		       struct check_ask *ask);
/* A session uses it from now on: takes what c has. The API child is told. */
struct checked *policies_add(struct launcher *l, struct checked *c);
/* Whether a client that is not an admin may choose this policy for a session. E_POLICY_DENIED. */
int policies_selectable(const struct config *c, const char *name, struct err *err);
/* Whether there are such policies as the configuration lists. E_BAD_REQUEST, with the place. */
int policies_check(const struct config *c, struct err *err);
/* Has what is in use compiled anew, and tells the API child of what has changed and what could not.
 */
void policies_reload(struct launcher *l);
/* launcher_ask; fails only if the message cannot be read. */
void policies_ask(void *launcher, void *msg, struct link_msg *m);
void policies_free(struct launcher *l);

/* ---- meta.c ---- */

/* RUNTIME/sessions/ID.meta: written before a creation is answered. Another version may have made
 * the session, with other processes. */
#define META_NAME 16
#define META_PROCESSES 8
struct meta {
	struct meta_process {
		char name[META_NAME];
		uint64_t pid, start; /* see meta_start_time */
	} process[META_PROCESSES];   /* the main process is the first */
	size_t n;
	uint64_t uid, gid, owner_uid;
	uint64_t group; /* number of its cgroup; 0: none */
};
void meta_add(struct meta *m, enum process process, pid_t pid, uint64_t start);
/* The process inside of the namespaces; its pid is 0 if there is none. */
const struct meta_process *meta_inside(const struct meta *m);
int meta_save(int dir, const char *id, const struct meta *m, struct err *err);
int meta_load(int dir, const char *id, struct meta *out, struct err *err);
uint64_t meta_start_time(pid_t pid); /* clock ticks since boot; 0 if it has gone */
/* A descriptor of the process if it is still the one that was written down; else -1. */
int meta_pidfd(const struct meta_process *p);
void meta_kill(const struct meta_process *p);
void meta_kill_others(const struct meta *m); /* all but the main process */

/* ---- session_files.c ---- */

/* Ring and ack of the main process; those of the other rings follow, two by two. */
enum session_file {
	FILE_SOCK,
	FILE_META,
	FILE_NEW,
	FILE_RING,
	FILE_ACK,
	SESSION_FILES = FILE_RING + 2 * PROCESS_RINGS
};
#define SESSION_FILE_NAME_MAX (ID_MAX + 32)
void session_files_name(char out[SESSION_FILE_NAME_MAX], const char *id, enum session_file kind);
/* Splits "ID.kind"; -1 if the name has another form. */
int session_files_parse(const char *name, char id[ID_MAX + 1], enum session_file *kind);
bool session_files_any(int dir, const char *id);
/* Removes what a dead session cannot use (socket, half-written record), or all. */
void session_files_remove(int dir, const char *id, bool all);
int session_files_open(int dir, const char *id, enum session_file kind, int flags); /* -1/errno */
/* For the API process: the rings that are there, by name, and the descriptors (owned) of each: the
 * ring to read, the ack to write. Returns how many descriptors: 0 without the main process's. */
#define RINGS_FDS (2 * PROCESS_RINGS)
size_t session_files_rings(int dir, const char *id, struct strv *names, int fd[RINGS_FDS]);
/* Binds ID.sock (not yet listening); connects to it. -1/errno */
int session_files_bind(int dir, const char *id);
int session_files_connect(int dir, const char *id);

/* ---- own_dir.c: home and tmp of a session without namespaces ---- */

/* *path is owned by the caller. */
int own_dir_make(struct launcher *l, const char *id, char **path, struct err *err);
/* Where they will be; owned by the caller. */
char *own_dir_path(const struct launcher *l, const char *id);
/* Has them removed, if the session has any, once its processes are dead. */
bool own_dir_drop(struct launcher *l, const char *id, const struct meta *m);
/* Those of sessions that no longer live. */
void own_dirs_sweep(struct launcher *l);

/* ---- a session as the launcher sees it ---- */

#define MAIN_PROCESS (&process_table[process_of(PROCESS_MAIN)])

enum entry_state { ENTRY_MAKING, ENTRY_ALIVE, ENTRY_DEAD };
struct making;
struct session_entry {
	TAILQ_ENTRY(session_entry) next;
	struct launcher *l;
	char id[ID_MAX + 1];
	enum entry_state state;
	bool adopted; /* an earlier launcher started it */
	bool told;    /* the API child that runs now knows of it */
	bool silent;  /* its creation was never answered: all its files go */
	bool removed; /* the API child has removed it */
	bool killed;  /* by the launcher; its death follows */
	int probe_fd; /* connection made when it was adopted, for the first launcher_found; or -1 */
	struct child warden;   /* pidfd -1 when dead; pid 0 if it was adopted */
	struct watch *leaving; /* its session is over: when it is killed at the latest */
	struct meta meta;
	struct making *making; /* only while MAKING */
	char reason[128];
	uint64_t oom_kills; /* of a dead one, see struct launcher_gone */
};

/* ---- api_link.c: the link to the API child ---- */

struct api_child {
	struct child child;
	struct peer peer; /* closed: none */
	struct watch *again;
	bool telling; /* found_all is still owed */
	bool stop_told;
	int64_t started_us;
	unsigned fast_deaths; /* in a row */
};

enum { PROGRAM_API = PROCESSES, PROGRAM_CHECK, PROGRAMS }; /* behind those of the process table */
const char *program_name(size_t i);
struct programs {
	int fd[PROGRAMS];
	char *state_path; /* of what is there when a session is made */
};

/* ---- group.c: cgroups, told apart by a number each ---- */

struct grave;
struct groups {
	struct cgroup_host host;
	int64_t share_mb; /* "75%" of memory is a part of this */
	char prefix[16];  /* of the ids of this server's groups, whichever launcher made them */
	uint64_t next;
	STAILQ_HEAD(, grave) graves; /* those whose processes are still dying */
	struct watch *again;
	uint64_t again_ms;
	struct strv strangers; /* of other servers, empty when this one started */
	struct watch *later;   /* to look at them once more */
};

/* ---- orphans.c: what a session without namespaces has lost ---- */

struct orphans {
	struct watch *again; /* NULL: no such session was made */
	unsigned looks;	     /* still to do */
	unsigned quiet;	     /* of the last, without any */
	pid_t *remover;	     /* owned; that remove directories */
	size_t n;
};
void orphans_start(struct launcher *l); /* from now on they come to us */
void orphans_stop(struct launcher *l);
void orphans_look(struct launcher *l); /* a warden is dead */
void orphans_expect(struct launcher *l,
		    pid_t remover); /* a child of ours that removes directories */

/* ---- pool.c ---- */

TAILQ_HEAD(pooled_list, pooled);
struct pool {
	struct pooled_list list;
	struct watch *refill;
	uint32_t owner_uid, owner_gid; /* of the last session's files */
	int mounts;   /* tells that the host's mounts have changed; only with refill */
	bool failing; /* the last one that was tried could not be prepared, which was said */
};

struct launcher {
	struct loop *loop;
	bool privileged, auto_start, accept_loss, stopping;
	bool ready;   /* the API child has listened once, and we have said so */
	int ready_fd; /* where to say so, or -1 */
	uid_t owner_uid;
	struct settings_source source;
	struct settings settings;
	struct runtime place;
	struct programs programs;
	struct strv guarded; /* of workspace_guard */
	TAILQ_HEAD(, session_entry) entries;
	SLIST_HEAD(, snapshot) policies; /* that sessions have used */
	struct checks checks;
	struct groups groups;
	struct pool pool;
	struct orphans orphans;
	struct uids uids;
	size_t alive, total;
	struct api_child api;
	int signal_fd, log_fd;
	struct watch *signals, *deadline;
	struct watch *config_look; /* NULL: the server does not look at its file by itself */
	struct stat config_seen;   /* the file as it was read; zeros: there was none */
	struct rlimit nofile;	   /* as it was given to us */
	int status;
};

/* Takes the API child's end: from now on messages flow. */
int api_link_start(struct launcher *l, int fd, struct err *err);
void api_link_stop(struct launcher *l);
/* The child is dead or dying: its last words count (sessions to remove), then the link is closed.
 */
void api_link_end(struct launcher *l);
/* Sends a message, or queues it; the struct's owned parts and the descriptors are taken. Without a
 * link it is dropped. */
void api_link_post(struct launcher *l, enum msg_type type, uint32_t req, void *obj, const int *fds,
		   size_t nfds);
/* Something may be owed: it is sent in the next turn, as far as the socket takes it. */
void api_link_kick(struct launcher *l);
void api_link_refuse(struct launcher *l, uint32_t req, const char *id, const struct err *why);

/* Prints the ready line once; called when the API child listens. */
void launcher_say_ready(struct launcher *l);

/* ---- api_child.c ---- */

int api_child_start(struct launcher *l, struct err *err);
/* Greets the API child at the other end of the link (taken). */
int api_child_connect(struct launcher *l, int fd, struct err *err);
void api_child_hup(struct launcher *l);

/* ---- workspace_check.c ---- */

/* Whether a directory, a real path, may be a workspace at all. E_FORBIDDEN. What it contains and
 * a session must not change or see goes to plan. */
int workspace_check(const struct launcher *l, const char *workspace, struct sandbox_plan *plan,
		    struct err *err);
/* At start: the directories from where the server's programs, their libraries and what is found by
 * its PATH come, by their real paths. */
void workspace_guard(struct strv *out);

/* ---- admit.c, make.c, making.c, stub.c ---- */

/* What the plans of this server's sessions have in common; owned by the caller. */
void make_recipe(const struct launcher *l, struct sandbox_plan *out);
/* A request for a session that was let in. */
struct creation {
	struct check_job job;
	struct launcher_create ask; /* owned */
	struct requester who;	    /* proven */
	uint32_t req;
	int64_t asked_by; /* when the API child that asks was started */
	/* Of a session without namespaces: where its directories will be; owned, else NULL. */
	char *workspace, *own_dir;
	struct checked *policy; /* borrowed */
	struct err uncovered;	/* what the policy does not cover of the request */
	char hash[HASH_HEX];	/* of what the policy must cover; "": nothing */
};
/* launcher_create: answers by launcher_created or launcher_refused, now or later. m's descriptors
 * stay the caller's. */
void admit_session(void *launcher, void *msg, struct link_msg *m);
/* Forks the stub; launcher_created follows. The session is not made if it fails. */
int make_session(struct launcher *l, const struct creation *c, struct err *err);
/* The stub of a session_entry has its assignment: what it reports decides the answer. answer and
 * the descriptors are taken: report_fd, and those that go with the answer. */
#define MAKING_FDS 2 /* warden link, policy (or -1); the rings are opened for the answer */
void making_begin(struct session_entry *w, uint32_t req, const struct launcher_created *answer,
		  const int fd[MAKING_FDS], int report_fd);
/* Reads the stub's reports; answers once they end. A dead session_entry (pidfd -1) has nothing more
 * to say.
 */
void make_finish(void *session_entry);
/* The API child that asked has gone. */
void make_abandon(struct session_entry *w);

struct stub {
	const struct launcher *l;
	const struct sandbox_plan *plan;
	uint64_t group;	  /* 0: none */
	bool makes_group; /* else it is there */
	bool born_in_it;
	int tree_fd;	  /* where a user namespace is needed, else -1 */
	struct idmap map; /* to be made ahead; shown_uid 0: none */
	int sock;	  /* for assignment */
};
/* The forked child: prepares the sandbox, waits for its assignment, starts the session's processes
 * and becomes the main one. */
_Noreturn void stub_main(const struct stub *s, pid_t parent);

/* ---- choose_limits.c ---- */

/* Scratch files are the session's memory: where that is limited (by walls) they have half of it at
 * most, and at least 1 MB; else nobody could end what fills it. 0 MB: not limited. */
void limits_share(int64_t memory_mb, struct wall_report *walls, uint32_t *scratch_mb);
/* 1 << WALL_…: what must be up. */
uint64_t limits_required(const struct launcher_create *ask);

/* ---- change_limits.c ---- */

/* launcher_limit: narrower limits for a living session. Fails only if the message cannot be read.
 */
void narrow_session(void *launcher, void *msg, struct link_msg *m);

/* ---- group.c ---- */

#define GROUP_ID_MAX 40
void groups_open(struct launcher *l);  /* once RUNTIME is known */
void groups_close(struct launcher *l); /* waits a while for what is still dying */
uint64_t group_next(struct launcher *l);
void group_id(const struct launcher *l, uint64_t number, char out[GROUP_ID_MAX]);
/* A group without limits. Never fails: where it cannot be made there is none. */
void group_make(const struct launcher *l, uint64_t number);
/* As fork; the child is born in the group (*born) where that can be. */
pid_t group_fork(const struct launcher *l, uint64_t number, bool *born);
/* Removes a group as soon as it is empty; kills the processes in it. 0 is fine. */
void group_drop(struct launcher *l, uint64_t number);
/* Drops the groups that an earlier launcher has left: no session and no stub has them. */
void groups_sweep(struct launcher *l);
/* Notes the empty groups of other servers in the same cgroup; those that are still empty after a
 * while belong to nobody any more and are removed. */
void groups_sweep_strangers(struct launcher *l);

/* ---- pool.c ---- */

/* A sandbox without a session: a stub that waits for its assignment. */
struct pooled {
	TAILQ_ENTRY(pooled) next;
	struct launcher *l;
	struct child stub;
	int sock;
	uint64_t group;	   /* number of its control group; 0: none */
	struct idmap map;  /* uid and gid of its session, owner of the files; shown_uid 0: none */
	int userns;	   /* owned; the user namespace with that map; -1: none */
	struct buf recipe; /* owned; of the plan that it was prepared for */
	uint64_t fingerprint; /* of the host when it was prepared */
	bool ready;
	bool listed; /* in the pool */
	struct watch *readable;
};
void pool_start(struct launcher *l); /* fills it soon; also after a reload, with new ones */
void pool_stop(struct launcher *l);
void pool_empty(struct launcher *l); /* and fills it again soon */
/* One that is ready for such a session, or NULL. It stays in the pool until it is taken. */
struct pooled *pool_find(struct launcher *l, const struct sandbox_plan *plan);
/* From now on it is the caller's: released or discarded. */
void pool_take(struct pooled *p);
/* The user namespace with such a map, owned by the caller; -1: it has none. */
int pooled_userns(struct pooled *p, const struct idmap *map);
void pool_discard(struct pooled *p); /* with its group */
/* One that is not prepared yet, for this plan, in a group that is there (0: none). NULL:
 * E_UNAVAILABLE. */
struct pooled *pool_make(struct launcher *l, const struct sandbox_plan *plan, uint64_t group,
			 int tree_fd, struct err *err);
/* Lets go of one that has its assignment; the child is the caller's. */
struct child pool_release(struct pooled *p);

/* ---- deaths.c ---- */

struct session_entry *entry_find(struct launcher *l, const char *id);
struct session_entry *entry_new(struct launcher *l, const char *id);
/* Takes the child and watches it; after a failure it is dead. */
int entry_watch(struct session_entry *w, struct child warden, struct err *err);
void entry_free(struct session_entry *w);
void entry_kill(struct session_entry *w);
/* What launcher_remove asks: a living one has a moment to end by itself, then it is killed. */
void entry_remove(struct session_entry *w);
void entries_kill(struct launcher *l); /* but those that are about to end */

/* ---- adopt.c ---- */

/* Reads RUNTIME/sessions at start: living wardens are adopted, the rest is lost. */
int adopt_scan(struct launcher *l, struct err *err);
/* Posts the next session that the API child does not know, else found_all; false if nothing is
 * owed. */
bool adopt_tell(struct launcher *l);

/* ---- launcher.c ---- */

void launcher_init(struct launcher *l); /* an empty one with a loop; launcher_done frees */
void launcher_done(struct launcher *l);

void launcher_stop(struct launcher *l, const char *why);
/* Posts launcher_stop, once, when the API child knows every session; false if nothing is owed. */
bool launcher_stop_tell(struct launcher *l);
/* SIGHUP: reads the files again; what cannot be used changes nothing and is logged. */
void launcher_reload(struct launcher *l);
/* The same if the file has changed; only in a server that a command has started. */
void launcher_look(void *launcher);
/* Ends the loop once the API child and every warden have gone. */
void launcher_maybe_end(struct launcher *l);
