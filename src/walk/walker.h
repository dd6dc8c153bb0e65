// SPDX-License-Identifier: Apache-2.0
/* walk/walker.h - calls that may hang, made on threads of their own.
 *
 * A system call about a file waits until the file system's server has answered (FUSE, NFS). If the
 * server is stopped, the call may wait for ever, and nothing can end it. A loop hands such calls to
 * a walker and goes on. It is woken when they are over, and gives one up when it has waited long
 * enough. A thread that hangs stays until its call returns; other threads serve the next calls. */
#pragma once
#include <stdbool.h>

#define WALKER_THREADS 8   /* more calls wait until one of them returns */
#define WALK_MS 30000	   /* after which a call is given up: a slow server needs some seconds */
#define WALKER_END_MS 1000 /* for threads that work while the walker is freed */

struct walker;
struct walk; /* one call */

struct walk_job {
	void (*run)(void *arg);	 /* on a thread of the walker */
	void (*drop)(void *arg); /* frees arg of a walk that was given up; on any thread */
	void *arg;		 /* belongs to the walk until it is over */
	void (*wake)(void *to);	 /* the walk is over; any thread, with a lock held */
	void *to;
};

/* begin and end are called on each thread when it starts and ends. */
struct walker *walker_new(void (*begin)(void *arg), void (*end)(void *arg), void *arg);
/* All walks must have ended. False: a thread hangs, and what its job uses must not be freed; its
 * end is not called. NULL is fine. */
bool walker_free(struct walker *w);

/* NULL: no thread can be had; the job is dropped. */
struct walk *walk_start(struct walker *w, const struct walk_job *job);
bool walk_over(struct walk *k);
/* Frees the walk. True: it is over, and arg is the caller's. False: it was given up. It wakes no
 * loop afterwards. */
bool walk_end(struct walk *k);
/* Starts a walk and waits for it, at most this long; the job's wake is not used. As walk_end. */
bool walk_within(struct walker *w, const struct walk_job *job, int ms);
