// SPDX-License-Identifier: Apache-2.0
#include "warden/loop.h"
#include "base/clock.h"
#include "base/mem.h"
#include <event2/event.h>

struct loop {
	struct event_base *base;
	watch_fn *turn;
	void *arg;
};

struct watch {
	struct loop *loop;
	struct event *ev; /* owned */
	watch_fn *fn;
	void *arg;
	bool on;
	int64_t due_us; /* timers */
};

struct loop *loop_new(watch_fn *turn, void *arg)
{
	struct loop *l = mem_new(struct loop);

	*l = (struct loop){.base = event_base_new(), .turn = turn, .arg = arg};
	ensure(l->base != NULL);
	return l;
}

void loop_free(struct loop *l)
{
	if (l == NULL)
		return;
	event_base_free(l->base);
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

	ensure(event_add(w->ev, &tv) == 0);
	w->on = true;
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
	if ((event_get_events(w->ev) & EV_PERSIST) == 0)
		w->on = false;
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
	ensure(event_add(w->ev, NULL) == 0);
	w->on = true;
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
	w->on = false;
}

void watch_free(struct watch *w)
{
	if (w == NULL)
		return;
	event_free(w->ev);
	free(w);
}
