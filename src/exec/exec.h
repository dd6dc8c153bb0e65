// SPDX-License-Identifier: Apache-2.0
/* exec/exec.h - every execve and execveat of a session, read, decided and held to the decision.
 *
 * The listener's thread receives the session's seccomp notifications and traces each exec that it
 * lets go (ptrace belongs to a thread, so receiver and tracer are one). The callbacks run on that
 * thread; the functions below are for the thread that started it.
 *
 * The filter must send execve and execveat here. Every exec is verified at its
 * stop, except the first one of a command. A caller's strings can always change between our read
 * and the kernel's: by another thread, by a shared mapping, or by the kernel itself, which replaces
 * pages after MADV_FREE and in MAP_DROPPABLE mappings by zeros when memory is short. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "listener/listener.h"
#include "model/op.h"
#include "model/verdict.h"
#include <stdint.h>
#include <sys/types.h>

struct exec_control;

/* One exec as it was asked for. Borrowed: lives for the call that it is handed to. The record of
 * one that could not be read has what is known: an empty path, no argv. */
struct exec_attempt {
	struct op op;		  /* OP_EXEC; argv is what the kernel will give to op.exec.path */
	const char *const *argv;  /* as the caller gave it */
	size_t argc;		  /* of argv */
	bool argv_cut;		  /* more than EXEC_ARGS_KEPT bytes: the rest is only hashed */
	const char *const *chain; /* resolved: the file, its interpreter, … */
	size_t nchain;
	const char *cwd;
	pid_t pid, ppid;  /* of the process, in our namespace */
	int64_t asked_us; /* when we were asked, on the monotonic clock; the caller lived then */
};

enum exec_outcome {
	EXEC_VERIFIED,	 /* ran; compared at the exec stop */
	EXEC_REFUSED,	 /* EACCES, and never ran */
	EXEC_MISMATCHED, /* something else than was decided; killed before its first instruction */
	EXEC_FAILED,	 /* let go, and failed in the kernel or its caller died */
};
#define EXEC_OUTCOMES (EXEC_FAILED + 1)

/* What became of it; once per exec. Repeated refusals of a PATH search are one. */
struct exec_record {
	const struct exec_attempt *req;
	const struct verdict *verdict;
	enum exec_outcome outcome;
	const char *ran;     /* MISMATCHED: the program that was loaded, if it could be read */
	uint64_t latency_us; /* from the notification to the answer */
};

struct exec_control_ops {
	/* Fills *out and returns 0, or returns an id that is not 0: the exec waits for
	 * exec_control_resume with it. Strings of the verdict live until its record. */
	uint64_t (*decide)(void *arg, const struct exec_attempt *req, struct verdict *out);
	void (*record)(void *arg, const struct exec_record *rec);
	/* An exec fails before it is decided, with the errno that the kernel would give: there is
	 * no such program, or it cannot be executed. May be NULL. */
	void (*failed)(void *arg, const struct exec_attempt *req, int errnum);
	/* The caller of a waiting exec died; its id is not to be resumed any more. May be NULL. */
	void (*gone)(void *arg, uint64_t pending);
	/* True for the exec of our leader's child, which is in our memory and decided already. key
	 * is what lies behind the call's arguments: only our leader knows what belongs there. It
	 * is let go without a look; a key must be good for one exec. */
	bool (*is_first_exec)(void *arg, pid_t pid, uint64_t key);
	void *arg;
	/* The root of every caller, borrowed: the filter refuses chroot, pivot_root, setns and new
	 * namespaces. -1: each caller's own is looked up. */
	int root;
	/* ld.so may load a program that the session can replace after the decision. */
	bool loader_any;
};

/* ops is copied. Blocks SIGCHLD in the calling thread: called before there are other threads. */
int exec_control_open(const struct exec_control_ops *ops, struct exec_control **out,
		      struct err *err);
/* For listener_start. When the listener stops, execs that wait fail. */
struct listener_handler exec_control_handler(struct exec_control *c);
/* When the listener has stopped: tracees that are not yet verified die. NULL is fine. */
void exec_control_close(struct exec_control *c);
/* Answers a waiting exec; an id that is not waiting is ignored. The verdict's strings live until
 * its record. */
void exec_control_resume(struct exec_control *c, uint64_t pending, const struct verdict *v);
/* Returns when every exec that went on, or failed, before the call is counted and recorded. */
void exec_control_settle(struct exec_control *c);
/* How many execs had this outcome; any thread. */
uint64_t exec_control_count(const struct exec_control *c, enum exec_outcome outcome);

/* ---- the first exec of a command, which is decided before there is a process ---- */

/* Looks, and remembers programs that nobody in the session can change. One thread's. */
struct exec_looker;
struct exec_looker *exec_looker_new(int root_fd); /* the session's root, borrowed */
void exec_looker_free(struct exec_looker *l);	  /* NULL is fine */

struct exec_first;
struct exec_first_ask {
	const char *path, *cwd;
	char **argv; /* borrowed for the life of the result; argv[argc] is NULL */
	size_t argc;
};
/* Which program the kernel would load. 0; or the errno that it would give; EPERM: it cannot be
 * read. */
int exec_first_look(struct exec_looker *l, const struct exec_first_ask *ask,
		    struct exec_first **out);
const struct op *exec_first_op(const struct exec_first *f);
/* Refuses what cannot be held to any decision: ld.so would load a file that can be replaced. NULL:
 * nothing to object to. */
const struct verdict *exec_first_objection(const struct exec_first *f);
/* How it is executed so that it is what was looked at: by a path that always leads to the same
 * file, else by the program's descriptor, with what a script's first line adds to argv. */
struct exec_first_way {
	int fd; /* -1: by path; borrowed, like all of it */
	const char *path;
	const struct strv *head; /* takes the place of argv[0]; empty: that stays */
};
struct exec_first_way exec_first_way(const struct exec_first *f);
void exec_first_free(struct exec_first *f); /* NULL is fine */
