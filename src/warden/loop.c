// SPDX-License-Identifier: Apache-2.0
#include "warden/loop.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#define POLL_MS 10 /* for what epoll does not take */

struct loop {
	struct event_base *base;
	watch_fn *turn;
	void *arg;
	LIST_HEAD(, watch) polled; /* started, but epoll has no room for them */
	struct event *again;	   /* looks at them */
	int spare_fd;		   /* to see whether epoll has room */
	struct event *spare;
};

struct watch {
	struct loop *loop;
	struct event *ev; /* owned */
	watch_fn *fn;
	void *arg;
	bool on;
	bool polled;	/* in the loop's list */
	int64_t due_us; /* timers */
	LIST_ENTRY(watch) next;
};

static void on_nothing(evutil_socket_t fd, short what, void *arg)
{
}

static void poll_soon(struct loop *l)
{
	event_add(l->again, &(const struct timeval){.tv_usec = POLL_MS * 1000});
}

/* Whatever can be watched again is; the rest is asked one by one. */
static void on_again(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;
	struct watch *w, *next;

	for (w = LIST_FIRST(&l->polled); w != NULL; w = next) {
		const bool writes = (event_get_events(w->ev) & EV_WRITE) != 0;
		struct pollfd pfd = {event_get_fd(w->ev), writes ? POLLOUT : POLLIN, 0};

		next = LIST_NEXT(w, next);
		if (event_add(w->ev, NULL) == 0) {
			LIST_REMOVE(w, next);
			w->polled = false;
		} else if (poll(&pfd, 1, 0) > 0) {
			event_active(w->ev, writes ? EV_WRITE : EV_READ, 0);
		}
	}
	if (!LIST_EMPTY(&l->polled))
		poll_soon(l);
}

struct loop *loop_new(watch_fn *turn, void *arg)
{
	struct loop *l = mem_new(struct loop);

	*l = (struct loop){.base = event_base_new(), .turn = turn, .arg = arg, .spare_fd = -1};
	LIST_INIT(&l->polled);
	if (l->base != NULL)
		l->spare_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->spare_fd == -1) {
		const int errnum = errno;

		loop_free(l);
		errno = errnum;
		return NULL;
	}
	l->again = event_new(l->base, -1, 0, on_again, l);
	l->spare = event_new(l->base, l->spare_fd, EV_READ, on_nothing, l);
	ensure(l->again != NULL && l->spare != NULL); /* only memory can be missing */
	return l;
}

int loop_room(const struct loop *l, struct err *err)
{
	if (event_add(l->spare, NULL) == 0) {
		event_del(l->spare);
		return 0;
	}
	return err_set(err, E_RESOURCE_LIMIT, "fs.epoll.max_user_watches",
		       "no watch can be had for a command: the processes of user %u hold all that "
		       "fs.epoll.max_user_watches lets one user have; end those that do",
		       (unsigned)geteuid());
}

void loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	if (l->again != NULL)
		event_free(l->again);
	if (l->spare != NULL)
		event_free(l->spare);
	if (l->base != NULL)
		event_base_free(l->base);
	mem_cleanup_fd(&l->spare_fd);
	free(l);
}

void loop_run(struct loop *l)
{
	event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY);
}

void loop_stop(struct loop *l)
{
	event_base_loopbreak(l->base);
}

static void arm(struct watch *w, int64_t us)
{
	const struct timeval tv = {.tv_sec = (time_t)(us / 1000000),
				   .tv_usec = (suseconds_t)(us % 1000000)};

	ensure(event_add(w->ev, &tv) == 0); /* a timer needs memory only */
	w->on = true;
}

static void unpoll(struct watch *w)
{
	if (w->polled)
		LIST_REMOVE(w, next);
	w->polled = false;
}

/* The callback may free its own watch. libevent's clock is coarse, and old by what this turn took:
 * a timer may come early. */
static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;
	const struct loop *l = w->loop;
	const int64_t left = fd < 0 ? w->due_us - clock_mono_us(&clock_system) : 0;

	if (left > 0) {
		arm(w, left);
		return;
	}
	if ((event_get_events(w->ev) & EV_PERSIST) == 0) {
		w->on = false;
		unpoll(w);
	}
	w->fn(w->arg);
	if (l->turn != NULL)
		l->turn(l->arg);
}

static struct watch *make(struct loop *l, int fd, short what, watch_fn *fn, void *arg)
{
	struct watch *w = mem_new(struct watch);

	*w = (struct watch){.loop = l, .fn = fn, .arg = arg};
	w->ev = event_new(l->base, fd, what, on_event, w);
	ensure(w->ev != NULL);
	return w;
}

struct watch *watch_readable(struct loop *l, int fd, watch_fn *fn, void *arg)
{
	return make(l, fd, EV_READ | EV_PERSIST, fn, arg);
}

struct watch *watch_writable(struct loop *l, int fd, watch_fn *fn, void *arg)
{
	return make(l, fd, EV_WRITE, fn, arg);
}

struct watch *watch_timer(struct loop *l, watch_fn *fn, void *arg)
{
	return make(l, -1, 0, fn, arg);
}

void watch_start(struct watch *w)
{
	if (w->on)
		return;
	w->on = true;
	if (event_add(w->ev, NULL) == 0)
		return;
	if (LIST_EMPTY(&w->loop->polled))
		log_warn("epoll takes no more watches of this user (fs.epoll.max_user_watches)");
	LIST_INSERT_HEAD(&w->loop->polled, w, next);
	w->polled = true;
	poll_soon(w->loop);
}

void watch_after_ms(struct watch *w, uint64_t ms)
{
	w->due_us = clock_mono_us(&clock_system) + (int64_t)ms * 1000;
	arm(w, (int64_t)ms * 1000);
}

void watch_stop(struct watch *w)
{
	if (w == NULL || !w->on)
		return;
	event_del(w->ev);
	unpoll(w);
	w->on = false;
}

void watch_free(struct watch *w)
{
	if (w == NULL)
		return;
	unpoll(w);
	event_free(w->ev);
	free(w);
}
