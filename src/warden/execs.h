// SPDX-License-Identifier: Apache-2.0
/* warden/execs.h - the listener thread of a session and its handlers, wired together.
 *
 * The thread writes the events of execs into the journal by itself. The loop is woken for the first
 * after a pause, for what was refused and for many; while they come one after the other it looks by
 * the clock. */
#pragma once
#include "exec/attributes.h"
#include "exec/exec.h"
#include "exec/held_calls.h"
#include "model/wall.h"
#include <pthread.h>

#define EXECS_LOOK_MS 20 /* between two looks by the clock */

struct execs_setup {
	struct exec_setup exec; /* its wants are taken, also on failure */
	int listener;		/* the same */
	/* NULL where the session has namespaces; else its filter sends more calls
	 * (sandbox/seccomp_table.c). own_trees: where chmod and utime are made for their callers;
	 * borrowed, real paths. state_socket: a thread asks for a socket; the connected one that it
	 * gets, or -errno. */
	const struct strv *own_trees;
	int (*state_socket)(void *arg, pid_t tid);
	bool holds;		 /* the filter sends changes of directories, for an approver */
	void (*wake)(void *arg); /* listener's thread: execs_pause is to be called */
	void *arg;
};
struct execs {
	struct execs_setup setup;
	struct exec_control *control; /* NULL: execs are not watched */
	struct held_calls *held;      /* NULL: none */
	struct listener *listener;
	struct attributes attributes;
	bool told_lost;
	pthread_mutex_t lock; /* of what follows */
	unsigned untold;      /* execs since the last look */
	bool awaited;	      /* the loop comes without being woken */
};
/* Starts the thread and writes the wall's entry. */
int execs_open(struct execs *x, const struct execs_setup *s, struct wall_report *walls,
	       struct err *err);
void execs_close(struct execs *x); /* also one that was never opened, and is zero */
/* Listener's thread: the event of an exec is in the journal. */
void execs_tell(struct execs *x, enum gate_outcome outcome);
/* True, once: the kernel does not check the execs any more (err says why), and they are compared at
 * their stop. Writes the wall's entry. */
bool execs_lost(struct execs *x, struct wall_report *walls, struct err *err);
/* True: nothing came since the last call, and the next exec wakes the loop. False: look again. */
bool execs_pause(struct execs *x);
