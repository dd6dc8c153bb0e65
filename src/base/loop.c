// SPDX-License-Identifier: Apache-2.0
#include "base/loop.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 10		   /* for descriptors that epoll does not take */
#define MS_MAX (UINT64_MAX / 8000) /* the longest time in microseconds */

struct watch {
	struct event ev;
	struct loop *loop;
	watch_fn *fn;
	void *arg;
	LIST_ENTRY(watch) next; /* in the loop's polled list */
	int64_t due_us;		/* timers; 0: not set */
	unsigned seen;		/* enum watch_change */
	bool on, polled;
	bool boot; /* ev's descriptor is a timerfd of our own */
};

struct loop {
	struct event_base *base;
	watch_fn *turn;
	void *arg;
	bool stopped;
	bool told;		   /* the log says that epoll has no room */
	LIST_HEAD(, watch) polled; /* started, but epoll has no room for them */
	struct watch *again;	   /* looks at them */
	struct watch *spare;	   /* to see whether epoll has room */
};

#define CHANGES (WATCH_READABLE | WATCH_WRITABLE | WATCH_CLOSED)
_Static_assert(WATCH_READABLE == EV_READ && WATCH_WRITABLE == EV_WRITE && WATCH_CLOSED == EV_CLOSED,
	       "the changes have libevent's numbers");

static void on_event(evutil_socket_t fd, short what, void *arg);

static struct watch *make(struct loop *l, int fd, short what, watch_fn *fn, void *arg)
{
	struct watch *w = mem_new(struct watch);

	w->loop = l;
	w->fn = fn;
	w->arg = arg;
	ensure(event_assign(&w->ev, l->base, fd, what, on_event, w) == 0);
	return w;
}

/* ---- descriptors for which epoll has no room ---- */

static void unpoll(struct watch *w)
{
	if (w->polled)
		LIST_REMOVE(w, next);
	w->polled = false;
}

/* Tries to watch each descriptor again, and polls the others one by one. */
static void on_again(void *arg)
{
	struct loop *l = arg;
	struct watch *w, *next;

	for (w = LIST_FIRST(&l->polled); w != NULL; w = next) {
		const bool writes = (event_get_events(&w->ev) & EV_WRITE) != 0;
		struct pollfd pfd = {event_get_fd(&w->ev), writes ? POLLOUT : POLLIN, 0};

		next = LIST_NEXT(w, next);
		if (event_add(&w->ev, NULL) == 0)
			unpoll(w);
		else if (poll(&pfd, 1, 0) > 0)
			event_active(&w->ev, writes ? EV_WRITE : EV_READ, 0);
	}
	if (LIST_EMPTY(&l->polled)) {
		l->told = false;
		return;
	}
	if (!l->told)
		log_warn("epoll takes no more watches of this user (fs.epoll.max_user_watches)");
	l->told = true;
	watch_after(l->again, POLL_MS);
}

int watch_start(struct watch *w)
{
	if (w->on)
		return w->polled ? -1 : 0;
	w->on = true;
	if (event_add(&w->ev, NULL) == 0)
		return 0;
	LIST_INSERT_HEAD(&w->loop->polled, w, next);
	w->polled = true;
	watch_after(w->loop->again, POLL_MS);
	return -1;
}

int loop_room(const struct loop *l, struct err *err)
{
	if (event_add(&l->spare->ev, NULL) == 0) {
		event_del(&l->spare->ev);
		return 0;
	}
	return err_set(err, E_RESOURCE_LIMIT, "fs.epoll.max_user_watches",
		       "no more descriptors can be watched: the processes of user %u hold all that "
		       "fs.epoll.max_user_watches lets one user have; end those that do",
		       (unsigned)geteuid());
}

/* ---- the loop ---- */

struct loop *loop_new(watch_fn *turn, void *arg)
{
	const int spare = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct event_config *config;
	struct event_base *base;
	struct loop *l;

	if (spare == -1)
		return NULL;
	config = event_config_new();
	ensure(config != NULL);
	event_config_require_features(config, EV_FEATURE_ET | EV_FEATURE_EARLY_CLOSE);
	/* Times are read when they are needed: a cached time would make timers early. */
	event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV | EVENT_BASE_FLAG_NO_CACHE_TIME);
	base = event_base_new_with_config(config);
	event_config_free(config);
	if (base == NULL) {
		close(spare);
		return NULL;
	}
	l = mem_new(struct loop);
	l->base = base;
	l->turn = turn;
	l->arg = arg;
	LIST_INIT(&l->polled);
	l->again = watch_timer(l, on_again, l);
	l->spare = watch_readable(l, spare, NULL, NULL);
	return l;
}

void loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	close(event_get_fd(&l->spare->ev));
	watch_free(l->spare);
	watch_free(l->again);
	event_base_free(l->base);
	free(l);
}

void loop_turn(struct loop *l)
{
	event_base_loop(l->base, EVLOOP_NO_EXIT_ON_EMPTY | EVLOOP_ONCE);
}

void loop_run(struct loop *l)
{
	while (!l->stopped)
		loop_turn(l);
	l->stopped = false;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
	event_base_loopbreak(l->base);
}

/* ---- watches ---- */

/* The callback may free its own watch. */
static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;
	const struct loop *l = w->loop;
	uint64_t expired;

	if (w->boot && (what & EV_READ) != 0 &&
	    read(fd, &expired, sizeof(expired)) != (ssize_t)sizeof(expired))
		return; /* it was set anew in this turn */
	if ((event_get_events(&w->ev) & EV_PERSIST) == 0) {
		w->on = false;
		unpoll(w);
	}
	w->due_us = 0;
	w->seen = what & CHANGES;
	if (w->fn != NULL)
		w->fn(w->arg);
	if (l->turn != NULL)
		l->turn(l->arg);
}

struct watch *watch_readable(struct loop *l, int fd, watch_fn *fn, void *arg)
{
	return make(l, fd, EV_READ | EV_PERSIST, fn, arg);
}

struct watch *watch_writable(struct loop *l, int fd, watch_fn *fn, void *arg)
{
	return make(l, fd, EV_WRITE, fn, arg);
}

struct watch *watch_edges(struct loop *l, int fd, unsigned changes, watch_fn *fn, void *arg)
{
	return make(l, fd, (short)(changes | EV_PERSIST | EV_ET), fn, arg);
}

struct watch *watch_timer(struct loop *l, watch_fn *fn, void *arg)
{
	return make(l, -1, 0, fn, arg);
}

struct watch *watch_boot_timer(struct loop *l, watch_fn *fn, void *arg)
{
	const int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	struct watch *w;

	if (fd < 0)
		return NULL;
	w = watch_readable(l, fd, fn, arg);
	w->boot = true;
	return w;
}

unsigned watch_seen(const struct watch *w)
{
	return w->seen;
}

int64_t watch_due_us(const struct watch *w)
{
	return w->due_us;
}

/* libevent's clock is the coarse one, which is up to a tick behind: the difference is added, so
 * that no timer is early. */
void watch_after(struct watch *w, uint64_t ms)
{
	const int64_t us = (int64_t)(ms < MS_MAX ? ms : MS_MAX) * 1000;
	struct timespec coarse = {0};
	int64_t now, wait;

	if (w->boot) {
		/* Zero would disarm it. */
		const struct itimerspec at = {{0}, {us / 1000000, us % 1000000 * 1000 + 1}};

		w->due_us = clock_boot_us(&clock_system) + us;
		ensure(timerfd_settime(event_get_fd(&w->ev), 0, &at, NULL) == 0);
		watch_start(w);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse); /* first: a tick now makes it late */
	now = clock_mono_us(&clock_system);
	wait = us > 0 ? now + us - coarse.tv_sec * INT64_C(1000000) - coarse.tv_nsec / 1000 : 0;
	w->due_us = now + us;
	w->on = true;
	/* A timer needs memory only. */
	ensure(event_add(&w->ev, &(struct timeval){wait / 1000000, wait % 1000000}) == 0);
}

void watch_soon(struct watch *w)
{
	event_active(&w->ev, 0, 0);
}

void watch_stop(struct watch *w)
{
	if (w == NULL)
		return;
	event_del(&w->ev);
	unpoll(w);
	w->on = false;
	w->due_us = 0;
}

void watch_free(struct watch *w)
{
	if (w == NULL)
		return;
	watch_stop(w);
	if (w->boot)
		close(event_get_fd(&w->ev));
	free(w);
}
