// SPDX-License-Identifier: Apache-2.0
/* exec/exec.h - every execve and execveat of a session: read, decided by the gate, and compared
 * with the decision.
 *
 * The listener's thread receives the session's seccomp notifications. What an exec loads is
 * compared by the kernel's exec check where there is one, else by this thread at the exec stop
 * (ptrace belongs to a thread, so receiver and tracer are one). Only the initial exec of a command
 * is not compared. A caller's strings can always change between our read and the kernel's: by
 * another thread, by a shared mapping, or by the kernel itself, which replaces pages after
 * MADV_FREE and in MAP_DROPPABLE mappings by zeros when memory is short. */
#pragma once
#include "gate/gate.h"
#include "listener/listener.h"
#include "model/workspace_names.h"

/* ---- the initial exec of a command, which is decided before there is a process ---- */

/* Finds programs, and remembers those that no process of the session can change. One thread's. */
struct exec_looker;
/* root_fd: the session's root. names: by which its workspace is seen, or NULL. Both are borrowed.
 */
struct exec_looker *exec_looker_new(int root_fd, const struct workspace_names *names);
void exec_looker_free(struct exec_looker *l); /* NULL is fine */
/* From now on it finds only programs for which it asks no file system that may not answer. */
void exec_looker_stay_near(struct exec_looker *l);
/* For a walk: one that finds every program, and may hang; then it is given back. */
struct exec_looker *exec_looker_lend(struct exec_looker *l);
void exec_looker_return(struct exec_looker *l, struct exec_looker *lent);

#define EXEC_FAR 0x10000 /* above every errno: the answer needs calls that may hang */

struct exec_initial;
struct exec_initial_ask {
	const char *path, *cwd;
	const char *search;	 /* PATH, for a path without a slash; NULL: a default */
	bool exact;		 /* as execve: neither PATH is searched, nor is a shell used */
	const struct strv *argv; /* what the policy sees; copied */
	const char *command_id;	 /* may be NULL */
	const char *request_id;	 /* may be NULL; borrowed for the life of the result */
};
/* Which program the kernel would load. 0, or the errno that it would give; or EXEC_FAR. A program
 * that cannot be read is found, and denied; with exact it is EPERM. */
int exec_initial_find(struct exec_looker *l, const struct exec_initial_ask *ask,
		      struct exec_initial **out);
/* Found by a walk: belongs to this looker from now on. */
void exec_initial_adopt(struct exec_initial *i, struct exec_looker *l);
void exec_initial_free(struct exec_initial *i); /* NULL is fine */
const struct op *exec_initial_op(const struct exec_initial *i);
/* Asks the gate, which is borrowed from now on. */
enum gate_answer exec_initial_decide(struct exec_initial *i, struct gate *g,
				     const struct gate_waiter *waiter);
/* It is not executed, because nothing waits for it any more. Writes its event. */
void exec_initial_gone(struct exec_initial *i);
/* After the answer: changes path and argv to what must be executed so that it is what was decided:
 * by a path that always leads to the same file, else by the program's descriptor (*fd, borrowed;
 * -1: by path), with what a script's first line adds to argv. 0; or an errno: it is hidden from
 * the session, or what it is redirected to cannot be executed; or EXEC_FAR: that is to be found by
 * a walk, and given to exec_initial_redirect before the next try; or a negative code: it is denied,
 * and its event is written. */
int exec_initial_apply(struct exec_initial *i, char **path, struct strv *argv, int *fd,
		       struct err *err);
struct exec_initial_ask exec_initial_target(const struct exec_initial *i); /* strings borrowed */
void exec_initial_redirect(struct exec_initial *i, struct exec_initial *target); /* takes it */
/* Writes its event; pids are 0 where execs are not watched. */
void exec_initial_settle(const struct exec_initial *i, pid_t pid, pid_t ppid);

/* ---- all other execs ---- */

struct exec_control;
struct exec_wants; /* bpf/exec_wants.h */
struct walker;	   /* walk/walker.h */

struct exec_setup {
	struct gate *gate;	    /* borrowed */
	struct actor_table *actors; /* borrowed */
	int root; /* of every caller, borrowed: the filter lets no process change its root */
	/* Our own program that reports a shell's state: no rule and no event is about it. Its path
	 * cannot be changed from inside. Borrowed. */
	const char *helper;
	const struct workspace_names *names; /* of the workspace, or NULL; borrowed */
	/* The kernel's exec check of this session; NULL: execs are compared at their stop.
	 * Borrowed. */
	struct exec_wants *wants;
	/* Makes the calls that may hang; NULL: no file system of the session does. Borrowed. */
	struct walker *walker;
};
/* Blocks SIGCHLD in the calling thread: called before there are other threads. */
int exec_control_open(const struct exec_setup *s, struct exec_control **out, struct err *err);
/* For listener_start. When the listener stops, execs that wait fail. */
struct listener_handler exec_control_handler(struct exec_control *c);
/* When the listener has stopped: tracees that are not yet verified die. NULL is fine. */
void exec_control_close(struct exec_control *c);
/* Records what the kernel has found out about the execs that it checks. How many of them may still
 * be under way; any thread. */
size_t exec_control_look(struct exec_control *c);
/* How many execs had this outcome; any thread. */
uint64_t exec_control_count(struct exec_control *c, enum gate_outcome outcome);
/* The errno that showed that the kernel does not check any more; 0: it does, or never did. Any
 * thread. */
int exec_control_lost(const struct exec_control *c);

/* ---- commands, for the thread that starts them; NULL for c: execs are not watched ---- */

/* Before the spawn, and after its entry in the actor table. The initial exec is borrowed until
 * exec_over. Returns the key that it must show, or 0. Only the leader learns the key, and it is
 * good once: an exec that shows it is let go without a look, and its event is written before. */
uint64_t exec_expect(struct exec_control *c, uint32_t spawn, const struct exec_initial *i);
void exec_over(struct exec_control *c, uint32_t spawn);
/* The last exec of a command, if it failed because the program was missing or could not be
 * executed: its errno and its path, or its name if several directories were searched. 0: it did not
 * fail. *path is the caller's to free. */
int exec_last_failure(struct exec_control *c, uint32_t spawn, char **path);
/* What execs of a command have come to since the last call. Every exec that went on, or failed,
 * before this call is counted and recorded. */
struct exec_news {
	pid_t pid; /* of its initial process; 0: not seen yet */
	bool any;
	bool replaced;	  /* its initial process has executed another program */
	bool killed;	  /* its initial process loaded another program than was decided on */
	char *privileged; /* what POLICY_NO_PRIVILEGE refused; the caller's to free */
};
void exec_take_news(struct exec_control *c, uint32_t spawn, struct exec_news *out);
/* How many execs had each outcome, with one look at what the kernel has found out. */
void exec_outcomes(struct exec_control *c, uint64_t out[GATE_OUTCOMES]);
