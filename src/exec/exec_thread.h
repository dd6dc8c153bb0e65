// SPDX-License-Identifier: Apache-2.0
/* exec/exec_thread.h - the state of exec control; private to this folder. */
#pragma once
#include "bpf/exec_wants.h"
#include "exec/exec.h"
#include "exec/program_cache.h"
#include "walk/walker.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#define KEYS_AT_ONCE 32 /* getrandom gives 256 bytes at once */
#define SETTLE_MS 20	/* after which an exec without a stop is looked at */
#define ROOM_MS 5000	/* after which an exec that waits for room is refused */
#define FOLD_PIDS 16	/* processes of which the last refusal is remembered */
#define FOLD_NAME 64

enum case_state {
	CASE_DEFERRED, /* looked at when another exec of its process is over */
	CASE_WALKING,  /* a walk looks for its program */
	CASE_READ,     /* being decided */
	CASE_PARKED,   /* its caller waits in the notification for the gate's answer */
	CASE_DECIDED,  /* allowed; let go when another exec is over */
	CASE_LOADING,  /* let go: the exec stop, or a sign of its failure, comes next */
	CASE_INJECTED, /* redirect: our own execve comes next */
	CASE_LEFTOVER, /* recorded; only to be detached or reaped */
};

struct exec_case {
	LIST_ENTRY(exec_case) link;
	struct exec_control *control;
	enum case_state state;
	pid_t tid;	 /* the caller's thread, and the process once it has executed */
	pid_t pid, ppid; /* the caller's process */
	struct seccomp_notif notif;
	int pidfd;	/* PARKED: readable when it is dead; else -1 */
	bool helper;	/* our own program: no event */
	bool by_kernel; /* the kernel compares what it loads, and not the exec stop */
	bool was_read;	/* path, args and cwd are known */
	bool seized, interrupted;
	bool injected; /* our execve was put into it */
	int64_t began_us, let_go_us;
	struct exec_walk *walk; /* WALKING; else NULL */
	int64_t walk_us;	/* it began */
	int64_t full_us;	/* DECIDED: waits since then for room in the kernel's map; else 0 */
	uint64_t latency_us;
	struct args args;
	struct image image;
	struct image target; /* of a redirect, once it is looked up */
	char *path, *cwd;
	/* Of a mismatch, while it is recorded: what the kernel loaded; see struct gate_report. */
	const char *loaded;
	bool same_program;
	struct gate_case gate; /* its op is the image's; "" is the path of an unreadable exec */
};

struct exec_command;

struct exec_control {
	struct exec_setup setup;
	bool loader_any;	   /* ld.so may load a file that can be replaced */
	struct listener *listener; /* set by the first notification */
	int child_fd;		   /* signalfd: a tracee has stopped or ended */
	atomic_uint_fast64_t count[GATE_OUTCOMES];
	/* Held from when a caller goes on until that is recorded, and for the next five. */
	pthread_mutex_t telling;
	LIST_HEAD(, exec_case) loading; /* let go, and checked by the kernel */
	size_t nloading;
	uint64_t done_before; /* the kernel's counts, of the cases that were seen to be over */
	uint64_t mismatches;
	atomic_int lost;      /* errno: the kernel does not check any more */
	pthread_mutex_t lock; /* of the commands and the refusals */
	LIST_HEAD(, exec_command) commands;
	struct past_refusal {
		pid_t pid;
		char name[FOLD_NAME];
	} refused[FOLD_PIDS];
	unsigned next_refused;
	/* the loop's */
	uint64_t keys[KEYS_AT_ONCE];
	size_t nkeys; /* left */
	/* the listener's */
	struct actor_reader *actors;
	struct gate_asker asker;
	struct exec_looker *programs;
	LIST_HEAD(, exec_case) cases;
	bool full; /* the kernel's map: execs wait for room, and the next one behind them */
};

/* ---- initial.c ---- */

const char *exec_initial_request(const struct exec_initial *i); /* "" if there is not one */

/* ---- exec_commands.c ---- */

/* True for the initial exec of a command, which has shown its key. */
bool commands_begin(struct exec_control *c, pid_t pid, uint64_t key);
/* An exec fails before it is decided, with the errno that the kernel would give. */
void commands_note_failure(struct exec_control *c, const struct exec_case *k, int errnum);
/* Settles a case. Repeated refusals of a PATH search are one. */
void commands_settle(struct exec_control *c, struct exec_case *k, enum gate_outcome outcome);
/* Counts it as well. */
void commands_record(struct exec_control *c, struct exec_case *k, enum gate_outcome outcome);
void commands_free(struct exec_control *c);

/* ---- initial.c ---- */

/* Whether ld.so may open, after the decision, a program that the session can replace. */
bool exec_loads_any(const struct policy *policy, const struct workspace_names *names);

/* ---- loading.c; with `telling` held ---- */

/* Writes what the kernel must see, and takes the case out of the listener's list. 0 or a negative
 * errno; -E2BIG: too many execs are under way. */
int loading_add(struct exec_control *c, struct exec_case *k);
/* True: no other exec of the case's process is under way. */
bool loading_is_free(struct exec_control *c, const struct exec_case *k);
/* The kernel lets the next exec of this process go; with traced, only that of a thread that this
 * thread traces. False: too many execs are under way. */
bool loading_pass(struct exec_control *c, pid_t pid, bool traced);
/* Records what became of cases. */
void loading_look(struct exec_control *c);

/* ---- stops.c; on the listener's thread ---- */

/* Whether another thread of the caller's process is seized. */
bool stops_seized_other(const struct exec_control *c, pid_t tid);
/* The next exec of the case's thread stops it. False: it cannot be traced. */
bool stops_seize(struct exec_case *k);
/* A stop is asked for, at which the seized thread is detached. */
void stops_release(struct exec_case *k);
/* Looks after all tracees that have stopped or ended. */
void stops_reap(struct exec_control *c);
/* An exec that neither stopped nor is still under way has failed: a stop is asked for. */
void stops_settle(struct exec_control *c);

/* ---- exec_walks.c; on the listener's thread ---- */

/* Reads the call out of its caller. 0: decide it; EPERM: it cannot be read; EXEC_FAR: read it by a
 * walk; else the errno that the kernel would give. */
int exec_case_read(struct exec_case *k, struct exec_looker *programs);
/* Looks up the target of a redirect in the caller's root. 0, an errno or EXEC_FAR. */
int exec_case_find_target(struct exec_case *k, struct exec_looker *programs);
/* Reads the case by a walk, or with target only finds the target. False: no thread can be had. */
bool walks_start(struct exec_control *c, struct exec_case *k, bool target);
/* True: the walk is over, and *r is what it found out. */
bool walks_take(struct exec_control *c, struct exec_case *k, int *r, bool *target);
void walks_drop(struct exec_case *k); /* gives its walk up, if it has one */

/* ---- control.c ---- */

/* Frees what the case has, and the case; it is in no list. */
void exec_case_dispose(struct exec_case *k);

/* In no list yet. */
struct exec_case *exec_case_new(struct exec_control *c, const struct seccomp_notif *n,
				enum case_state state);
void exec_case_free(struct exec_control *c, struct exec_case *k); /* also out of its list */
/* The listener's cases. */
struct exec_case *exec_case_add(struct exec_control *c, const struct seccomp_notif *n,
				enum case_state state);
struct exec_case *exec_case_find(struct exec_control *c, pid_t tid); /* NULL if there is not one */
/* The case ends without an exec stop: its exec has failed. NULL is fine. */
void exec_case_give_up(struct exec_control *c, struct exec_case *k);
