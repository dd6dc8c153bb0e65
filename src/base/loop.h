// SPDX-License-Identifier: Apache-2.0
/* base/loop.h - the loop of a process: watched descriptors, timers, deferred calls.
 *
 * Only loop.c sees libevent. Everything here runs on the thread that calls loop_run. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct watch;
typedef void watch_fn(void *arg);

/* Why a descriptor cannot be watched. */
#define LOOP_FULL "epoll_ctl failed (fs.epoll.max_user_watches counts the watches of this user)"

/* The loop calls turn after each callback; turn may be NULL. NULL/errno: no epoll. */
struct loop *loop_new(watch_fn *turn, void *arg);
void loop_free(struct loop *l); /* after all its watches; NULL is fine */
void loop_run(struct loop *l);	/* until loop_stop, which may have been called before */
void loop_stop(struct loop *l); /* ready watches that were not called yet wait for the next run */
void loop_turn(struct loop *l); /* sleeps until something is ready, and calls it */
/* Whether another descriptor can be watched: the kernel limits that per user. E_RESOURCE_LIMIT
 * names the limit. */
int loop_room(const struct loop *l, struct err *err);

/* All are made stopped; fn may be NULL if the turn does the work. A readable watch
 * repeats; a writable watch and a timer fire once. */
struct watch *watch_readable(struct loop *l, int fd, watch_fn *fn, void *arg);
struct watch *watch_writable(struct loop *l, int fd, watch_fn *fn, void *arg);
struct watch *watch_timer(struct loop *l, watch_fn *fn, void *arg);
/* A timer that also counts the time in which the machine is suspended. NULL/errno: no descriptor
 * can be had for it. */
struct watch *watch_boot_timer(struct loop *l, watch_fn *fn, void *arg);
/* Repeats, once for each change (EPOLLET): it costs no system call to leave it on. */
enum watch_change { WATCH_READABLE = 0x02, WATCH_WRITABLE = 0x04, WATCH_CLOSED = 0x80 };
struct watch *watch_edges(struct loop *l, int fd, unsigned changes, watch_fn *fn, void *arg);
/* The reason of the last call: enum watch_change; 0 after watch_soon. */
unsigned watch_seen(const struct watch *w);

/* Descriptors. -1: the kernel takes no more watches of this user. The watch works all the same, but
 * the loop looks at its descriptor every 10 ms only: a caller that can do without it frees it. */
int watch_start(struct watch *w);
void watch_after(struct watch *w, uint64_t ms); /* timers; replaces an earlier time */
int64_t watch_due_us(const struct watch *w);	/* timers, by their own clock; 0: not set */
void watch_soon(struct watch *w);		/* calls at the end of this turn; any watch */
void watch_stop(struct watch *w);		/* NULL is fine */
void watch_free(struct watch *w);		/* NULL is fine; also from its own callback */
