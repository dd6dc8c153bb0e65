// SPDX-License-Identifier: Apache-2.0
/* exec/exec_thread.h - the exec thread's state, shared by the files of this folder that run on it;
 * private to this folder. */
#pragma once
#include "exec/exec_case.h"
#include "listener/listener.h"
#include <pthread.h>
#include <stdatomic.h>

#define PARKED_MAX 1024 /* execs that wait at a time; more are refused */
#define SETTLE_MS 20	/* after which an exec without a stop is looked at */
#define FOLD_PIDS 16	/* processes whose last refusal is remembered */
#define FOLD_NAME 64

struct resumed {
	STAILQ_ENTRY(resumed) link;
	uint64_t pending;
	struct verdict verdict;
};

/* An exec that is looked at when another one of its process is over. */
struct deferred {
	STAILQ_ENTRY(deferred) link;
	struct seccomp_notif notif;
};

struct exec_control {
	struct exec_control_ops ops;
	struct listener *listener; /* from the first exec on */
	int child_fd;		   /* signalfd: a tracee has stopped or ended */
	atomic_uint_fast64_t count[EXEC_OUTCOMES];
	pthread_mutex_t telling; /* held from when a caller goes on until that is recorded */
	pthread_mutex_t lock;	 /* of resumed */
	STAILQ_HEAD(, resumed) resumed;
	/* the thread's own */
	struct program_cache programs;
	LIST_HEAD(, exec_case) cases;
	STAILQ_HEAD(, deferred) deferred; /* none if cases is empty */
	unsigned nparked;
	struct past_refusal {
		pid_t pid;
		char name[FOLD_NAME];
	} refused[FOLD_PIDS];
	unsigned next_refused;
};

/* ---- record.c ---- */

/* Counts and hands out what became of a case; ran may be NULL. */
void record_case(struct exec_control *c, const struct exec_case *k, enum exec_outcome outcome,
		 const char *ran);

/* ---- verify.c ---- */

extern const struct verdict verify_can_be_swapped;

/* A notification of execve or execveat. */
void verify_on_exec(struct exec_control *c, const struct seccomp_notif *n);
/* Does what the case's verdict says. */
void verify_apply(struct exec_control *c, struct exec_case *k);
/* Ends a case; a parked one is unparked. */
void verify_forget(struct exec_control *c, struct exec_case *k);
/* Looks after all tracees that have stopped or ended. */
void verify_reap(struct exec_control *c);
/* An exec that neither stopped nor is still under way has failed: a stop is asked for. */
void verify_settle(struct exec_control *c);
/* Looks at those that were deferred. */
void verify_retry(struct exec_control *c);
