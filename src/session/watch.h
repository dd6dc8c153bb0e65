// SPDX-License-Identifier: Apache-2.0
/* session/watch.h - descriptors and timers of the loop.
 *
 * A thin cover over libevent, because libevent and model/event.h both name a `struct event`. Loop
 * thread. */
#pragma once
#include <stdint.h>

struct event_base;
struct watch;
typedef void watch_fn(void *arg);

/* Calls fn whenever fd (borrowed) is readable; runs at once. NULL: epoll has no room for it
 * (fs.epoll.max_user_watches). */
struct watch *watch_readable(struct event_base *base, int fd, watch_fn *fn, void *arg);
/* Calls fn once after each watch_start, when fd (borrowed) is writable. */
struct watch *watch_writable(struct event_base *base, int fd, watch_fn *fn, void *arg);
/* Calls fn once after each watch_after. */
struct watch *watch_timer(struct event_base *base, watch_fn *fn, void *arg);
int watch_start(struct watch *w);	       /* -1: no room */
void watch_after(struct watch *w, int64_t ms); /* replaces an earlier time */
void watch_stop(struct watch *w);	       /* NULL is fine */
void watch_free(struct watch *w);	       /* NULL is fine */
