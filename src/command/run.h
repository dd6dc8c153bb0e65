// SPDX-License-Identifier: Apache-2.0
/* command/run.h - a command's life: asked, started, watched, ended, told.
 *
 * A command is over when its first process is over (leader_exit), never at the end of a pipe. Then
 * what the pipes hold is taken; what it left behind is ended (killed as a tree) or kept, by the
 * session's choice. */
#pragma once
#include "base/process_tree.h"
#include "cgroup/cgroup.h"
#include "command/leaders.h"
#include "command/limit_counters.h"
#include "command/output_writer.h"
#include "link/link.h"
#include "model/event.h"
#include "shell/capture_in.h"
#include <sys/queue.h>

struct commands;

enum run_phase {
	RUN_HELD,     /* waits for room in the journal */
	RUN_ASKING,   /* the gate was asked about its initial exec, and an approver is to answer */
	RUN_STARTING, /* init was asked */
	RUN_RUNNING,
	RUN_ENDING, /* the tree is being killed; the result waits for the leader */
	RUN_KEPT,   /* told; background processes live on and their output is taken */
	RUN_DEAD,   /* freed at the end of the turn */
};
enum run_why { WHY_ITSELF, WHY_TIMEOUT, WHY_KILL, WHY_CLIENT_GONE, WHY_SESSION_END, WHY_LEADER };

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
	bool answered;		      /* the gate has answered, after a while */
	struct watch *deadline, *retry, *listen;
	int64_t give_up_us;
	unsigned rounds;
	struct tree_root root; /* the leader */
	pid_t pid;	       /* of the first process; 0: not known */
	int pidfd;
	int signal; /* asked for before there was a process; 0: none */
	uint64_t grace_ms;
	bool signal_tree;
	int64_t mono_us, wall_us;      /* start */
	struct cgroup_counters before; /* at the start */
	struct limits_use use;	       /* once it is seen not to be brief */
	bool scratch_full;	       /* was seen while it ran */
	struct output out[2];
	struct input in;
	struct captured captured;
	char *privileged; /* a program that POLICY_NO_PRIVILEGE refused; NULL: none */
	bool recorded;	  /* its start is in the journal */
	bool orphaned;	  /* its leader is dead, and all that it led */
	bool replaced;	  /* its first process has executed another program */
	bool began, exited, empty;
	struct leader_exit end;
	struct strv background;
	bool tell_started, tell_output, tell_taken;
};
TAILQ_HEAD(run_list, run);

/* Takes the request and both output files, or calls refuse. run_start_held starts it. */
void run_exec(struct commands *cs, struct warden_exec *ask, uint32_t req, int fd[2]);
/* Starts the commands that wait; false: one has to wait until the journal has room. */
bool run_start_held(struct commands *cs);
struct run *run_find(struct commands *cs, const char *command_id); /* not over; NULL */
void run_stdin(struct run *r, const struct warden_stdin *m);
void run_kill(struct run *r, const struct warden_kill *m);
/* Asks every process of every command to end (TERM); what has not begun is not begun. */
void run_terminate_all(struct commands *cs);
/* Ends every command, background processes too. */
void run_kill_all(struct commands *cs);
/* There is no reader any more: output past the quota is counted and dropped. */
void run_unbind(struct run *r);
void run_unbind_all(struct commands *cs); /* the API child went away */
/* Where the reader of stream 1 or 2 is, and what may be produced. */
void run_window(struct run *r, const struct warden_window *m);
/* Whether the API child must be told of output as it comes: a reader waits for it, or the file's
 * size does not tell the total. */
bool run_reports_output(const struct run *r);
void run_free_dead(struct commands *cs);
void run_free_all(struct commands *cs); /* at the end of the process */
struct captured *run_owner_of(pid_t pid, bool *later, void *commands);

void run_refuse(struct run *r, const struct err *err); /* before it started; it is over */

/* command_start.c: a message of its leader. */
void run_on_leader(struct run *r, struct link_msg *m);
/* command_start.c: an accepted request becomes a process or a builtin. */
void run_start(struct run *r);
/* What its execs, or those of all commands, have come to. */
void run_take_news(struct run *r);
void run_take_all_news(struct commands *cs);

/* Its leader has ended with this command; orphans: some of its processes may live on. */
void run_spawn_over(struct run *r, bool orphans);
void run_listen(struct run *r); /* takes its output as it comes */
/* The leader with a pidfd, from now on; false: it is dead. */
bool run_hold_leader(struct run *r);

/* command_ending.c: from the end of the first process to the result. */
void run_record_start(struct run *r);			      /* into the journal, once */
void run_on_exit(struct run *r, const struct leader_exit *m); /* leader_exit */
void run_on_empty(void *run, void *msg, struct link_msg *m);  /* leader_empty; a peer_row */
void run_begin_kill(struct run *r, enum run_why why);
void run_abandon(struct run *r); /* a start that hangs */
/* It waits and has no process: it is over as if a signal had ended it. */
void run_give_up(struct run *r, enum run_why why, int sig);
void run_leader_died(struct run *r);		  /* and all that it led */
void run_not_executed(struct run *r, int errnum); /* the exec failed: 126, 127 */
void run_finish_builtin(struct run *r, int status, const struct strv *env_before);
/* It has executed something: the API child is told, once. */
void run_began(struct run *r);
/* It is over. What it has is closed at the end of the turn, behind the answer. */
void run_retire(struct run *r);
