// SPDX-License-Identifier: Apache-2.0
/* command/run.h - the commands of one session: request, start, run, end, result.
 *
 * A command is over when its first process is over (leader_exit), never at the end of a pipe. Then
 * the rest of its pipes is read, and the processes that it left are killed as a tree or kept, as
 * the session's settings say.
 *
 * Everything runs on the loop thread of the owner, the warden. At the end of each loop turn the
 * owner calls run_start_held, sends the messages that are due, and calls run_free. */
#pragma once
#include "base/clock.h"
#include "base/process_tree.h"
#include "cgroup/cgroup.h"
#include "command/leaders.h"
#include "command/limit_counters.h"
#include "command/output_writer.h"
#include "command/results.h"
#include "event/recorder.h"
#include "exec/exec.h"
#include "shell/capture_in.h"
#include "shell/session_root.h"
#include "shell/shell_memory.h"

enum run_phase {
	RUN_HELD,     /* waits for its start, or for room in the journal */
	RUN_LOOKING,  /* a lookup of its program or directory is under way */
	RUN_ASKING,   /* its initial exec waits for an approver's answer */
	RUN_STARTING, /* init was asked */
	RUN_RUNNING,
	RUN_ENDING,	/* the tree is being killed; the result waits for the leader */
	RUN_EXPLAINING, /* it is over; a lookup for its result is under way */
	RUN_KEPT,	/* has its result; background processes live on, and their output is read */
	RUN_DEAD, /* over; closed and freed at the end of the turn, after its messages are sent */
};
enum run_why {
	WHY_ITSELF,
	WHY_TIMEOUT,
	WHY_KILL,
	WHY_CLIENT_GONE,
	WHY_SESSION_END,
	WHY_LIMIT,
	WHY_LEADER
};

struct lookup;
/* q: the answers, borrowed; NULL: the session's file system does not answer. */
typedef void looked_fn(struct run *r, struct lookup *q);

struct run {
	TAILQ_ENTRY(run) next;
	struct commands *cs;
	struct warden_exec ask; /* owned */
	uint32_t req;
	char *line; /* for people */
	char *cwd;  /* it starts in */
	enum run_phase phase;
	enum run_why why;
	struct strv given;	      /* a script's environment at its start */
	struct strv dropped;	      /* names of its request's variables: policy_drops_env */
	struct leader *leader;	      /* from the spawn on */
	uint32_t spawn;		      /* its number; 0: none */
	struct exec_initial *initial; /* NULL: not found, or not looked for */
	struct init_spawn start;      /* what the leader is to do; empty once it was asked */
	struct lookup *look;	      /* under way; NULL: none */
	struct lookup *looked;	      /* its answers, until then is called */
	looked_fn *then; /* after the lookup, or the gate's answer; NULL: neither came */
	struct watch *deadline, *retry, *listen, *patience;
	int64_t give_up_us;
	unsigned rounds;
	struct tree_root root; /* the leader */
	pid_t pid;	       /* of the first process; 0: not known */
	int pidfd;
	int signal; /* requested before there was a process; 0: none */
	uint64_t grace_ms;
	bool signal_tree;
	int64_t mono_us, wall_us;      /* start */
	struct cgroup_counters before; /* at the start */
	struct limits_use use;	       /* once it is seen not to be brief */
	bool scratch_full;	       /* was seen while it ran */
	char *limit;		       /* that it reached, for people; NULL: none */
	char *tree_full;	       /* the same of one by which its calls fail */
	struct output out[2];
	struct input in;
	struct captured captured;
	bool mismatched; /* killed, because the kernel loaded another program than was decided on */
	char *privileged; /* a program that POLICY_NO_PRIVILEGE refused; NULL: none */
	bool recorded;	  /* its start is in the journal */
	bool orphaned;	  /* its leader is dead, and all that it led */
	bool replaced;	  /* its first process has executed another program */
	bool began, exited, empty;
	struct leader_exit end;
	struct strv background;
	struct warden_result result; /* while it is made */
	char *missing;		     /* the program that was not found; NULL: none */
	enum run_phase after;	     /* EXPLAINING: what comes next */
	bool tell_started, tell_output, tell_taken;
};
TAILQ_HEAD(run_list, run);

struct commands {
	/* From the start; borrowed. */
	const char *session_id;
	struct link *init; /* starts new leaders */
	const struct clock *clock;
	struct loop *loop;
	struct recorder *recorder;
	struct shell_memory *memory;
	const struct warden_hello *settings;
	/* The leader of this command died without being asked to. */
	void (*leader_died)(void *owner, const char *command_id);
	/* A result is due; returns how many processes are asked for their last events of it. */
	unsigned (*settle)(void *owner, const char *command_id);
	/* The title of a process of the session that has died or is dying, or NULL. */
	const char *(*dying)(void *owner);
	/* The command has ended; processes of it may live on. */
	void (*over)(void *owner, const char *command_id);
	void *owner;
	/* From the time when init is ready. The owner opens and closes them. */
	bool namespaces;	   /* the session has them, and a root of its own */
	int root_fd, null_fd;	   /* the session's root and its /dev/null */
	const char *state_program; /* reports a shell's state; a word of the shell */
	char *shell;		   /* runs scripts */
	struct gate *gate;
	struct gate_asker asker; /* the loop's thread */
	struct actor_table *actors;
	struct exec_control *control; /* NULL: execs are not watched */
	struct exec_looker *looker;
	const struct workspace_names *names; /* of the workspace */
	struct walker *walker;		     /* makes the calls that may hang; NULL: none does */
	struct capture_in *captures;
	/* What the owner does with the session. */
	bool closed;   /* it ends: no command is accepted */
	bool in_grace; /* it ends, and every process has been asked to end */
	bool sweeping; /* init ends all that runs; no command starts meanwhile */
	/* The commands' own. */
	struct run_list runs; /* in the order of their requests */
	struct leader_list idle;
	struct results results;
	struct limit_counters limits;
	uint64_t started; /* commands so far */
};

/* Takes the request and both output files, or calls refuse. run_start_held starts it. */
void run_exec(struct commands *cs, struct warden_exec *ask, uint32_t req, int fd[2]);
/* Starts the commands that wait; false: one has to wait until the journal has room. */
bool run_start_held(struct commands *cs);
struct run *run_find(struct commands *cs, const char *command_id); /* not over; NULL */
void run_stdin(struct commands *cs, const struct warden_stdin *m);
void run_kill(struct run *r, const struct warden_kill *m);
/* Asks every process of every command to end (TERM), and refuses commands that have not started. */
void run_terminate_all(struct commands *cs);
/* Ends every command, background processes too. */
void run_kill_all(struct commands *cs);
/* Without a reader, output past the quota is counted and dropped. */
void run_unbind(struct run *r);
/* Where the reader of stream 1 or 2 is, and what may be produced. */
void run_window(struct commands *cs, const struct warden_window *m);
/* New output needs a message: a reader waits, or the file's size is not the total. */
bool run_reports_output(const struct run *r);
/* Frees what is over, or all at the end of the process. */
void run_free(struct commands *cs, bool all);
struct captured *run_owner_of(pid_t pid, bool *later, void *commands);

void run_refuse(struct run *r, const struct err *err); /* before it started; it is over */

/* command_start.c: a message of its leader. */
void run_on_leader(struct run *r, struct link_msg *m);
/* command_start.c: an accepted request becomes a process or a builtin. */
void run_start(struct run *r);
/* Takes the results of the execs of all commands from exec control. */
void run_take_all_news(struct commands *cs);

/* Its leader has ended with this command; orphans: some of its processes may live on. */
void run_spawn_over(struct run *r, bool orphans);
void run_listen(struct run *r); /* reads its output as it comes */
/* Opens a pidfd of the leader; false: it is dead. */
bool run_hold_leader(struct run *r);

/* command_ending.c: from the end of the first process to the result. */
void run_record_start(struct run *r);			      /* into the journal, once */
void run_on_exit(struct run *r, const struct leader_exit *m); /* leader_exit */
void run_on_empty(void *run, void *msg, struct link_msg *m);  /* leader_empty; a peer_row */
void run_begin_kill(struct run *r, enum run_why why);
/* The result, unless it is there (RUN_KEPT), and the last output; then it is over. */
void run_end(struct run *r);
/* Ends a command that waits and has no process, as if a signal had ended it. */
void run_give_up(struct run *r, enum run_why why, int sig);
void run_leader_died(struct run *r);		  /* and all that it led */
void run_not_executed(struct run *r, int errnum); /* the exec failed: 126, 127 */
void run_finish_builtin(struct run *r, int status, const struct strv *env_before);
/* How execs of all commands have ended so far. */
struct exec_counts commands_exec_counts(const struct commands *cs);

/* ---- lookup.c, similar.c: questions about the session's files ---- */

/* Questions, and the answers to those that are asked. It is independent of its command, which may
 * be over before a file system answers. */
struct lookup {
	struct strv texts; /* owns what is lent below */
	struct walk *walk; /* NULL: not under way */
	int root_fd;
	struct gate *gate;		     /* NULL: the session's names are not shown */
	const struct workspace_names *names; /* of the workspace */
	struct exec_looker *looker;
	bool lent; /* the looker */
	const char *cwd;
	struct root_enter enter;      /* may this directory be entered? */
	struct exec_initial_ask find; /* which program is this? Without a path: not asked */
	struct strv find_argv;
	int errnum; /* of finding it; then enter is about cwd, if it was not asked */
	struct exec_initial *initial;
	const char *missing, *search; /* which programs have a similar name? NULL: not asked */
	struct strv similar;
};
struct lookup *lookup_new(const struct run *r);
void lookup_enter(struct lookup *q, const char *path);
void lookup_find(struct lookup *q, const struct exec_initial_ask *ask);
void lookup_similar(struct lookup *q, const struct run *r, const char *missing);
/* Takes the lookup. Where nothing can hang, then is called at once. Else the command is in this
 * phase until the lookup is over, or for a limited time. A command that was LOOKING is then HELD:
 * run_start_held calls then. */
void run_look(struct run *r, struct lookup *q, enum run_phase phase, looked_fn *then);
void run_take_lookups(struct commands *cs); /* that are over */
void run_go_on(struct run *r);		    /* calls then */
void run_hurry(struct run *r);		    /* EXPLAINING: the result is delivered now */
void run_drop_lookup(struct run *r);	    /* and its answers; there may be none */

/* Adds absolute paths of programs with a name like the one that was not found, at most one of each
 * directory in which it was looked for and which the policy lets be listed. */
void similar_programs(struct lookup *q);
