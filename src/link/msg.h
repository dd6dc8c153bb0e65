// SPDX-License-Identifier: Apache-2.0
/* link/msg.h - the messages between the processes: one table with number, sender, receiver, state,
 * descriptors.
 *
 * Numbers are for ever; a field may be added at the end of a struct. The version before and the
 * version after understand each other. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "model/limits.h"

enum link_side {
	SIDE_API,
	SIDE_LAUNCHER,
	SIDE_WARDEN,
	SIDE_INIT,
	SIDE_LEADER,
	SIDE_PROCESS,
	SIDE_CHECK
};
/* NEW: only the greeting of that link is legal. OPEN: all others. ENDING: after an END message;
 * only results, ends. */
enum link_state { LINK_NEW, LINK_OPEN, LINK_ENDING };

/*  name, number, sender, receiver, legal in (bit set of 1<<state), next state, min fds, max fds */
#define IN_NEW 1
#define IN_OPEN 2
#define IN_ENDING 4
#define IN_LIVE (IN_OPEN | IN_ENDING)
#define IN_ANY (IN_NEW | IN_LIVE)
// clang-format off
#define MSG_TABLE(X) \
	/* API child <-> launcher. Descriptors: hello: config, keys, listeners; create: the asking \
	 * connection; created and found: warden link, rings, and created the policy's snapshot; \
	 * lost: a dead session's rings, to drain; hup: log, config, keys. gone: a warden \
	 * died; remove: sweep what a session left; idle: nothing lives, an auto-started server may \
	 * end; policies: which there are, asked for or because some were read again; limit: \
	 * narrower limits for a living session. */ \
	X(launcher_hello,      1, LAUNCHER, API, IN_NEW,  OPEN,   0, 15) \
	X(launcher_create,     2, API, LAUNCHER, IN_OPEN, OPEN,   0, 1) \
	X(launcher_created,    3, LAUNCHER, API, IN_LIVE, OPEN,   3, 15) \
	X(launcher_refused,    4, LAUNCHER, API, IN_LIVE, OPEN,   0, 0) \
	X(launcher_found,      5, LAUNCHER, API, IN_OPEN, OPEN,   3, 15) \
	X(launcher_lost,       6, LAUNCHER, API, IN_LIVE, OPEN,   0, 15) \
	X(launcher_found_all,  7, LAUNCHER, API, IN_OPEN, OPEN,   0, 0) \
	X(launcher_gone,       8, LAUNCHER, API, IN_LIVE, OPEN,   0, 0) \
	X(launcher_remove,     9, API, LAUNCHER, IN_LIVE, OPEN,   0, 0) \
	X(launcher_stop,      10, LAUNCHER, API, IN_OPEN, ENDING, 0, 0) \
	X(launcher_hup,       11, LAUNCHER, API, IN_OPEN, OPEN,   0, 3) \
	X(launcher_idle,      12, API, LAUNCHER, IN_LIVE, OPEN,   0, 0) \
	X(launcher_ready,     13, API, LAUNCHER, IN_LIVE, OPEN,   0, 0) \
	X(launcher_ask,       14, API, LAUNCHER, IN_LIVE, OPEN,   0, 0) \
	X(launcher_policies,  15, LAUNCHER, API, IN_LIVE, OPEN,   0, 0) \
	X(launcher_limit,     16, API, LAUNCHER, IN_LIVE, OPEN,   0, 0) \
	X(launcher_limited,   17, LAUNCHER, API, IN_LIVE, OPEN,   0, 0) \
	/* API child <-> warden. exec: stdout file, stderr file; taken: stdin bytes consumed; \
	 * bell: the ring has records; settings: the log; patch: descriptors of the version before, which are closed. */ \
	X(warden_hello,       20, API, WARDEN,   IN_NEW,  OPEN,   0, 0) \
	X(warden_state,       21, WARDEN, API,   IN_NEW | IN_OPEN, OPEN, 0, 0) \
	X(warden_exec,        22, API, WARDEN,   IN_OPEN, OPEN,   2, 2) \
	X(warden_started,     23, WARDEN, API,   IN_LIVE, OPEN,   0, 0) \
	X(warden_refused,     24, WARDEN, API,   IN_LIVE, OPEN,   0, 0) \
	X(warden_output,      25, WARDEN, API,   IN_LIVE, OPEN,   0, 0) \
	X(warden_result,      26, WARDEN, API,   IN_LIVE, OPEN,   0, 0) \
	X(warden_ack,         27, API, WARDEN,   IN_LIVE, OPEN,   0, 0) \
	X(warden_stdin,       28, API, WARDEN,   IN_OPEN, OPEN,   0, 0) \
	X(warden_taken,       29, WARDEN, API,   IN_LIVE, OPEN,   0, 0) \
	X(warden_window,      30, API, WARDEN,   IN_OPEN, OPEN,   0, 0) \
	X(warden_kill,        31, API, WARDEN,   IN_OPEN, OPEN,   0, 0) \
	X(warden_patch,       32, API, WARDEN,   IN_OPEN, OPEN,   0, 15) \
	X(warden_end,         33, API, WARDEN,   IN_OPEN, ENDING, 0, 0) \
	X(warden_failed,      34, WARDEN, API,   IN_ANY,  ENDING, 0, 0) \
	X(warden_bell,        35, WARDEN, API,   IN_LIVE, OPEN,   0, 0) \
	X(warden_settings,    36, API, WARDEN,   IN_LIVE, OPEN,   0, 1) \
	/* warden <-> init. ready: root, state socket, an eventfd that makes init end all that \
	 * runs (its link is read by the spare leader)[, listener]; spawn: stdin, stdout, stderr, \
	 * leader's link[, the program]. */ \
	X(init_ready,         40, INIT, WARDEN,  IN_NEW,  OPEN,   3, 4) \
	X(init_spawn,         41, WARDEN, INIT,  IN_OPEN, OPEN,   4, 5) \
	X(init_failed,        42, INIT, WARDEN,  IN_ANY,  ENDING, 0, 0) \
	X(init_ended,         43, INIT, WARDEN,  IN_OPEN, OPEN,   0, 0) \
	/* leader <-> warden. started: pidfd of the command; empty: no child is left; spawn: the \
	 * next command's stdin, stdout, stderr[, the program]. */ \
	X(leader_started,     50, LEADER, WARDEN, IN_NEW | IN_OPEN, OPEN, 1, 1) \
	X(leader_failed,      51, LEADER, WARDEN, IN_NEW | IN_OPEN, ENDING, 0, 0) \
	X(leader_exit,        52, LEADER, WARDEN, IN_NEW | IN_OPEN, OPEN, 0, 0) \
	X(leader_empty,       53, LEADER, WARDEN, IN_OPEN, OPEN,   0, 0) \
	X(leader_spawn,       54, WARDEN, LEADER, IN_OPEN, OPEN,   3, 4) \
	/* warden <-> a process of the session beside init. hello: the actor table; bell: its ring \
	 * has records; ask: what the actor table does not tell; actor: the answer; over: a command \
	 * has ended; settings: the log. */ \
	X(process_hello,      60, WARDEN, PROCESS, IN_NEW,  OPEN,   1, 1) \
	X(process_ready,      61, PROCESS, WARDEN, IN_OPEN, OPEN,   0, 0) \
	X(process_failed,     62, PROCESS, WARDEN, IN_ANY,  ENDING, 0, 0) \
	X(process_bell,       63, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0) \
	X(process_ask,        64, PROCESS, WARDEN, IN_LIVE, OPEN,   0, 0) \
	X(process_actor,      65, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 0) \
	X(process_over,       66, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 0) \
	X(process_settings,   67, WARDEN, PROCESS, IN_LIVE, OPEN,   0, 1) \
	/* launcher <-> agentsh-check. ask: one snapshot, if there is nothing to compile; policy: \
	 * the snapshot. */ \
	X(check_ask,          70, LAUNCHER, CHECK, IN_NEW,  OPEN,   0, 1) \
	X(check_policy,       71, CHECK, LAUNCHER, IN_OPEN, OPEN,   0, 1)
// clang-format on

enum msg_type {
#define X(name, number, from, to, in, next, minfd, maxfd) MSG_##name = (number),
	MSG_TABLE(X)
#undef X
};

#define MSG_STRUCT_MAX 512 /* bytes of the largest struct */
struct msg_row {
	const char *name;
	uint16_t number;
	enum link_side from, to;
	unsigned in;
	enum link_state next;
	uint8_t min_fds, max_fds;
	const struct fields *fields;
};
const struct msg_row *msg_row(unsigned number); /* NULL if unknown */
void msg_done(enum msg_type type, void *obj);	/* frees the struct's owned parts, zeroes it */
size_t msg_max(const struct msg_row *row);	/* most bytes that its payload can have */
/* Name of the first field of obj that is over its row's max, or NULL. */
const char *msg_oversized(const struct msg_row *row, const void *obj);

/* ENDING is entered by warden_end, launcher_stop, warden_failed, init_failed, leader_failed,
 * process_failed and never left; a row's "next OPEN" received while ENDING keeps ENDING. Sending
 * advances the sender's state as receiving does the receiver's; what the peer sent before it could
 * know of our own step is judged by the state it still saw. */

/* ---- payloads; each has a fields table of the same name + _fields in msg.c ---- */

/* Listeners are named in the order of their descriptors: after config and keys. */
struct launcher_hello {
	uint32_t version;
	uint32_t privileged; /* 1: root launcher with separate uids */
	uint32_t auto_started;
	uint32_t owner_uid;    /* who started the server: admin on the unix socket */
	struct strv listeners; /* "unix PATH", "tcp 127.0.0.1:8080" */
	char *state_dir, *runtime_dir;
	struct strv overrides; /* "key=value" from flags and environment, applied over the file */
	uint32_t has_config, has_keys; /* whether these descriptors come first */
	uint32_t accept_loss;	       /* of what a damaged redo file held */
	uint64_t share_mb; /* memory of the machine or of the server's group: "75%" is a part of it
			    */
};
/* Limits in a message: all as text, and a few as numbers, as the version before reads them. */
enum {
	OLD_max_memory_mb,
	OLD_max_cpu_percent,
	OLD_pids_max,
	OLD_max_disk_mb,
	OLD_io_read_bps_max,
	OLD_io_write_bps_max,
	MSG_OLD_LIMITS
};
void msg_put_limits(const struct limits *l, uint64_t old[MSG_OLD_LIMITS], struct strv *text);
int msg_get_limits(const uint64_t old[MSG_OLD_LIMITS], const struct strv *text, struct limits *out,
		   struct err *err);

struct launcher_create {
	char *session_id, *workspace, *policy;
	struct bytes key; /* API key, at most 128 bytes, or empty: then fd 0 is the connection */
	struct strv unenforced; /* walls that the session may lack: must be in the configuration */
	char *background;	/* "end" or "keep" */
	uint64_t old_limits[MSG_OLD_LIMITS]; /* what the client asks for; the launcher lowers it */
	uint64_t required;		     /* 1 << WALL_…: what the client itself asked for */
	/* What the policy must cover; the names of the variables are enough. */
	struct strv domains, ports, variables;
	struct strv limits;
};
/* Rings are named in the order of their descriptors: ring and ack of each, the warden's first. The
 * version before has only the warden's, and no names. */
struct launcher_created {
	char *session_id, *workspace, *policy_name, *policy_version;
	uint32_t owner_uid, session_uid, session_gid;
	struct strv walls; /* wall_pack */
	struct strv rings;
};
struct launcher_refused {
	char *session_id, *code, *subject, *message;
	char *policy; /* E_POLICY_DENIED: the denial as a JSON object */
};
struct launcher_found {
	char *session_id;
	struct strv rings;
};
struct launcher_lost {
	char *session_id, *reason;
	struct strv rings;
};
struct launcher_gone {
	char *session_id, *reason;
	uint64_t oom_kills; /* of the session's group in all, where a SIGKILL may be one of them */
};
struct launcher_remove {
	char *session_id;
};
/* Asks for launcher_policies; reload: after reading the files of those in use again. */
struct launcher_ask {
	uint32_t ticket, reload;
};
/* Lists that belong together have the same length. ticket 0: nobody asked. */
struct launcher_policies {
	uint32_t ticket;
	struct strv name, version, description; /* version "": no session has used it yet */
	struct strv loaded;			/* names of those that are new or have changed */
	struct strv failed, why;		/* broken ones, whose old snapshot stays */
};
/* What a living session may use from now on; 0: as before. Answered in the order of the asking. */
struct launcher_limit {
	char *session_id;
	uint64_t old_limits[MSG_OLD_LIMITS];
	struct strv limits;
	uint64_t optional; /* 1 << WALL_…: asked for, and may be missing */
};
struct launcher_limited {
	char *session_id;
	char *code, *subject, *message; /* code NULL: done; else nothing has changed */
	struct strv walls;		/* wall_pack, of what has changed */
};
struct msg_empty {
	uint32_t unused;
};

struct warden_hello {
	uint32_t version;
	struct strv env; /* session environment, only used the first time (fresh session) */
	char *cwd, *shell;
	uint64_t orphan_timeout_ms, command_timeout_ms, output_quota, env_max;
	uint32_t full_ring_drops; /* events.full_ring: drop */
	uint32_t keep_background;
	char *agent_id;
};
/* Execs of the session so far, by what became of them. */
struct exec_counts {
	uint64_t verified, unused, refused, mismatched, failed;
};
/* One per living or unacknowledged command follows as warden_started / warden_result after this. */
struct warden_state {
	uint32_t version, fresh; /* fresh: hello's environment was taken */
	char *session_id, *cwd;
	struct strv env, aliases, dir_stack, walls;
	uint64_t commands; /* started so far */
	uint32_t last_exit;
	uint64_t ring_pos; /* written so far */
	struct exec_counts execs;
};
struct warden_exec {
	char *command_id, *script, *argv0, *cwd, *request_id;
	struct strv argv; /* command + args; empty for a script */
	struct strv env;  /* additions for this command only */
	struct bytes stdin_data;
	uint64_t timeout_ms;
	uint32_t stdin_open; /* more stdin follows by warden_stdin */
	uint32_t flow;	     /* output waits for warden_window */
	uint32_t stdio;	     /* enum spawn_stdio */
	uint32_t cols, rows, umask_plus1;
	uint32_t report_output; /* a reader is attached: warden_output while it runs */
	struct strv acks;	/* as warden_ack, to spare a message */
};
/* A command that is over at once is told by its result alone. */
struct warden_started {
	char *command_id;
	uint32_t pid;
	uint64_t time_us; /* wall clock */
};
struct warden_refused {
	char *command_id, *code, *subject, *message, *rule, *reason;
	char *policy; /* the denial as a JSON object */
};
/* Of each stream: bytes produced, those that the file keeps, where the ring begins, lines. */
struct warden_output {
	char *command_id;
	uint64_t stdout_bytes, stderr_bytes;
	uint64_t stdout_kept, stderr_kept, stdout_from, stderr_from, stdout_lines, stderr_lines;
};
struct warden_result {
	char *command_id;
	uint32_t exit_code;
	uint32_t signal;  /* 0: none */
	char *error_code; /* "E_COMMAND_TIMEOUT", "ENOENT", NULL */
	char *error_message, *error_path;
	uint64_t started_us, finished_us; /* wall clock */
	uint64_t duration_us;
	uint64_t stdout_bytes, stderr_bytes, stdout_lines, stderr_lines; /* produced */
	uint64_t stdout_kept, stderr_kept;				 /* in the file */
	uint64_t cpu_us, maxrss_kb, read_bytes, write_bytes;
	char *cwd;		 /* of the session afterwards */
	struct strv env_changed; /* names */
	struct strv env;	 /* whole environment if env_changed is not empty */
	struct strv background;	 /* "ended PID text" or "kept PID text" */
	uint64_t ring_end;	 /* position of its last event in the warden's ring */
	char *capture;		 /* "taken", "none", "refused: why" for scripts */
	struct exec_counts execs;
	struct strv similar;  /* paths of programs whose names are nearly that of a missing one */
	struct strv warnings; /* sentences */
	uint64_t stdout_from, stderr_from; /* as in warden_output */
	struct strv ring_ends; /* "NAME POSITION" of each other ring: its events are before that */
};
struct warden_acks {
	struct strv command_ids; /* their results are stored */
};
struct warden_stdin {
	char *command_id;
	struct bytes data;
	uint32_t eof;
};
struct warden_taken {
	char *command_id;
	uint64_t total;
};
struct warden_window {
	char *command_id;
	uint32_t stream;  /* 1 stdout, 2 stderr */
	uint64_t allowed; /* total bytes that may be produced */
	uint64_t read;	  /* the slowest reader's position; UINT64_MAX: there is no reader */
};
struct warden_kill {
	char *command_id;
	uint32_t signal;
	uint64_t grace_ms; /* then KILL to the tree; 0 with signal KILL: at once */
	uint32_t tree;	   /* 1: signal to the whole tree */
	uint32_t client_gone;
};
struct warden_patch {
	struct strv set;   /* NAME=value */
	struct strv unset; /* NAME */
	char *cwd;
	uint64_t command_timeout_ms;
	struct strv walls;    /* wall_pack, of limits that have become narrower */
	struct strv counters; /* unused; the version before sends them */
};
/* What may change while a session lives (SIGHUP). */
struct warden_settings {
	uint64_t orphan_timeout_ms, output_quota;
	uint32_t full_ring_drops;
	uint32_t log_level, log_format; /* enums of base/log.h */
};
struct warden_end {
	char *reason;
	uint64_t grace_ms; /* between TERM and KILL to all that runs; 0: KILL at once */
};
struct warden_failed {
	char *reason;
};

struct init_ready {
	struct strv walls;
	uint32_t pid;
	/* Only of a session without namespaces: where things are on the machine. */
	char *workspace, *own_dir, *state_program;
	struct strv writable; /* trees, by real paths */
};
struct init_spawn {
	uint32_t id;
	struct strv argv, env;
	char *path; /* to execute; only a name if the program comes as a descriptor */
	char *cwd;
	uint32_t umask, stdio, cols, rows, new_session;
	/* A command that is over within this time is told by leader_exit alone. */
	uint32_t brief_ms;
	uint64_t key; /* the sixth argument of its exec, by which that is known */
};
struct init_failed {
	char *wall, *message;
};
/* Sent with SCM_CREDENTIALS, so that the warden learns the leader's pid in its own namespace. */
struct leader_started {
	uint32_t unused;
};
struct leader_failed {
	uint32_t stage; /* enum spawn_stage */
	uint32_t errnum;
};
/* leader_exit: the command's first process ended; empty tells that nothing else is left and that
 * the leader waits for a leader_spawn (of the shape of init_spawn). leader_empty has the same shape
 * and comes later, when the last descendant is gone. */
struct leader_exit {
	uint32_t status; /* as by wait */
	uint32_t empty;
	uint64_t cpu_us, maxrss_kb, read_bytes, write_bytes;
};

struct process_failed {
	char *message;
};
/* As struct actor_query and struct actor of gate/actor.h. spawn 0: no command was found. */
struct process_ask {
	uint32_t id, ppid, process;
	uint64_t asked_us;
};
struct process_actor {
	uint32_t pid, ppid, leader, spawn;
	char *command_id;
};
struct process_over {
	char *command_id;
};
struct process_settings {
	uint32_t full_ring_drops;
	uint32_t log_level, log_format; /* enums of base/log.h */
};

/* Policies to compile, or one to look at where its snapshot comes with the message. The files of
 * the policies stand first, then those of all sets. */
struct check_ask {
	uint32_t policies;	   /* how many of the files are policies */
	struct strv name, file;	   /* of each file */
	struct strv error;	   /* why it cannot be read, or "" */
	struct bytes length, text; /* uint32_t for each file; all texts, one behind the other */
	uint32_t shadow;	   /* approvals.mode: shadow */
	char *workspace, *home;	   /* NULL: as policy_options has them */
	struct strv places;	   /* of the session's view, absolute paths */
	struct strv domains, ports, variables; /* that a session asks for */
};
/* One answer for each policy, in their order. With a snapshot, code says that the policy does not
 * cover what the session asks for. Without one, code says why there is none. */
struct check_policy {
	char *name;
	char *code, *subject, *message; /* code NULL: all is well */
	char *denial;			/* E_POLICY_DENIED: the denial as a JSON object */
	char *report;			/* warnings, one a line */
	char *version, *description;
	uint32_t file_rules;  /* it restricts what files may be touched */
	struct strv limits;   /* limits_pack */
	struct strv withheld; /* of the plan: rights that no file of a place needs */
};
