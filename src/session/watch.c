// SPDX-License-Identifier: Apache-2.0
#include "session/watch.h"
#include "base/mem.h"
#include <event2/event.h>

struct watch {
	struct event *ev;
	watch_fn *fn;
	void *arg;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	const struct watch *w = arg;

	w->fn(w->arg);
}

static struct watch *make(struct event_base *base, int fd, short what, watch_fn *fn, void *arg)
{
	struct watch *w = mem_new(struct watch);

	*w = (struct watch){.fn = fn, .arg = arg};
	w->ev = event_new(base, fd, what, on_event, w);
	ensure(w->ev != NULL);
	return w;
}

struct watch *watch_readable(struct event_base *base, int fd, watch_fn *fn, void *arg)
{
	struct watch *w = make(base, fd, EV_READ | EV_PERSIST, fn, arg);

	if (watch_start(w) == 0)
		return w;
	watch_free(w);
	return NULL;
}

struct watch *watch_writable(struct event_base *base, int fd, watch_fn *fn, void *arg)
{
	return make(base, fd, EV_WRITE, fn, arg);
}

struct watch *watch_timer(struct event_base *base, watch_fn *fn, void *arg)
{
	return make(base, -1, 0, fn, arg);
}

int watch_start(struct watch *w)
{
	return event_add(w->ev, NULL);
}

void watch_after(struct watch *w, int64_t ms)
{
	const struct timeval tv = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};

	ensure(event_add(w->ev, &tv) == 0); /* a timer needs memory only */
}

void watch_stop(struct watch *w)
{
	if (w == NULL)
		return;
	event_del(w->ev);
}

void watch_free(struct watch *w)
{
	if (w == NULL)
		return;
	event_free(w->ev);
	free(w);
}
