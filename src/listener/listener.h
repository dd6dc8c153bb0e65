// SPDX-License-Identifier: Apache-2.0
/* listener/listener.h - the thread that receives the session's seccomp notifications.
 *
 * A table that is handed in says which handler serves which system call. A call without a handler
 * fails with ENOSYS, one of another architecture with EACCES. Handlers run on the thread, one call
 * at a time. A handler may keep a caller waiting and answer later, also on the thread. The filter
 * must have been loaded with WAIT_KILLABLE_RECV. */
#pragma once
#include "base/err.h"
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define LISTENER_POLLED 1100 /* descriptors that all handlers may have polled at a time */

struct listener;

struct listener_handler {
	const int *calls; /* numbers of its system calls; borrowed */
	size_t ncalls;
	void (*begin)(void *arg); /* the thread starts; may be NULL */
	void (*on)(struct listener *l, const struct seccomp_notif *n, void *arg);
	/* The next two may be NULL. under_way writes the descriptors that the handler waits for,
	 * at most room, lowers *timeout_ms (-1: none), and returns the count; 0: nothing is under
	 * way. While no handler has anything under way the thread blocks in the receiving ioctl,
	 * which is five to ten times cheaper than poll and receive. */
	size_t (*under_way)(void *arg, struct pollfd *out, size_t room, int *timeout_ms);
	/* After each poll, before the next notification is received. */
	void (*turn)(struct listener *l, void *arg);
	void (*end)(void *arg); /* the thread ends; callers that wait get ENOSYS; may be NULL */
	void *arg;
	/* Which calls of these numbers it serves; NULL: all. */
	bool (*takes)(const struct seccomp_notif *n);
};

/* Starts the thread and takes fd, also when it fails. Handlers are copied; the first that has a
 * call serves it. Handles SIGRTMIN in the process. */
int listener_start(const struct listener_handler *handlers, size_t n, int fd, struct listener **out,
		   struct err *err);
void listener_stop(struct listener *l); /* NULL is fine */
/* Any thread: ends the poll of a thread that has something under way. */
void listener_wake(struct listener *l);

/* ---- for handlers, on the thread ---- */

/* False: the caller died, and its thread id may belong to another process. */
bool listener_valid(const struct listener *l, uint64_t id);
/* Answers a call. errnum 0 lets the kernel execute it. A caller that died is ignored. */
void listener_send(struct listener *l, uint64_t id, int errnum);
/* Answers a call that the handler made in the caller's place: it returns 0. */
void listener_done(struct listener *l, uint64_t id);
/* The call returns a copy of fd, close-on-exec. 0 or an errno. */
int listener_give(struct listener *l, uint64_t id, int fd);
