// SPDX-License-Identifier: Apache-2.0
/* warden/loop.h - the process's one loop (libevent below): watched descriptors and timers.
 *
 * libevent's `struct event` is not ours; only loop.c sees it. After each callback the loop calls
 * `turn`, where what the callback left to do is done once: answers are flushed, dead objects freed.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct loop;
struct watch;
typedef void watch_fn(void *arg);

/* turn may be NULL. NULL/errno: the kernel gives no epoll. */
struct loop *loop_new(watch_fn *turn, void *arg);
/* Whether another descriptor can be watched: what epoll takes is limited per user. E_RESOURCE_LIMIT
 * names the limit. A watch that is started all the same works, but is looked at every 10 ms. */
int loop_room(const struct loop *l, struct err *err);
void loop_free(struct loop *l); /* after all its watches */
void loop_run(struct loop *l);	/* until loop_stop */
void loop_stop(struct loop *l);

/* Made stopped. A readable watch repeats, a writable one and a timer fire once. */
struct watch *watch_readable(struct loop *l, int fd, watch_fn *fn, void *arg);
struct watch *watch_writable(struct loop *l, int fd, watch_fn *fn, void *arg);
struct watch *watch_timer(struct loop *l, watch_fn *fn, void *arg);
void watch_start(struct watch *w);		   /* descriptors */
void watch_after_ms(struct watch *w, uint64_t ms); /* timers; replaces an earlier time */
void watch_stop(struct watch *w);		   /* NULL is fine */
void watch_free(struct watch *w);		   /* NULL is fine; also from its own callback */
