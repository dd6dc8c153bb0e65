// SPDX-License-Identifier: Apache-2.0
/* warden/execs.h - the session's execs: decided by the policy on a thread of their own, told to the
 * loop.
 *
 * The exec thread decides; it records a command's first exec itself, before it lets it go, and
 * packs one event for each other exec into a queue; the loop's thread takes them into the journal,
 * at the latest before it tells of the command's end. It is woken for the first after a pause, for
 * what was refused and for a long queue; while they come one after the other it takes them by the
 * clock. The actor table (gate/actor.h) says which command an exec belongs to. */
#pragma once
#include "exec/exec.h"
#include "gate/actor.h"
#include "link/msg.h"
#include "model/event.h"
#include "model/wall.h"

struct execs;

#define EXECS_TAKE_MS 20 /* between two takes by the clock */

struct execs_setup {
	int policy_fd;		    /* borrowed */
	int root;		    /* the session's, borrowed; -1: see exec/exec.h */
	int listener;		    /* taken, also on failure */
	struct actor_table *actors; /* borrowed */
	const char *helper;	    /* our program that tells of a shell's state; borrowed */
	/* Of a session without namespaces, whose filter sends more (sandbox/seccomp_bare.c), else
	 * NULL. own_trees: where chmod and utime are made for their callers; borrowed, real paths.
	 * state_socket: a thread asks for a socket; the connected one that it gets, or -errno. */
	const struct strv *own_trees;
	int (*state_socket)(void *arg, pid_t tid);
	void (*wake)(void *arg); /* exec thread: there is something to take */
	/* Exec thread: a command's first exec, into the journal before it is let go. */
	void (*first)(void *arg, const struct event *e);
	void *arg;
};
/* Starts the thread and writes the wall's entry. */
int execs_open(const struct execs_setup *s, struct execs **out, struct wall_report *walls,
	       struct err *err);
void execs_close(struct execs *x); /* NULL is fine */

/* Before the spawn, and after its entry in the actor table. first is the event of the initial exec,
 * without the pids; it is borrowed until execs_over. Returns the key that the initial exec must
 * show. Only the leader learns the key, and it is good once. 0: execs are not watched. */
uint64_t execs_expect(struct execs *x, uint32_t spawn, const struct event *first);
/* The process of the initial exec; 0 if that was not seen. */
pid_t execs_initial_pid(struct execs *x, uint32_t spawn);
void execs_over(struct execs *x, uint32_t spawn); /* the command is over */

/* The last exec of a running command, if it failed because the program was missing or could not be
 * executed: its errno and its path, or its name if several directories were searched. 0: it did not
 * fail. *path is the caller's to free. */
int execs_last_failure(struct execs *x, uint32_t spawn, char **path);

/* Calls fn for each that waits, in their order. */
typedef void exec_told_fn(const struct event *e, void *arg);
void execs_take(struct execs *x, exec_told_fn *fn, void *arg);
/* True: nothing waits, and the next will wake the loop. False: it is to come again by itself, as it
 * is after each wake. */
bool execs_pause(struct execs *x);
struct exec_counts execs_counts(const struct execs *x); /* NULL: none */
