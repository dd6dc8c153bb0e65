// SPDX-License-Identifier: Apache-2.0
#include "event/writer.h"
#include "base/loop.h"
#include "base/mem.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>

struct writer {
	pthread_t thread;
	bool started;
	int fd; /* eventfd: a job has ended */
	struct watch *ended;
	writer_fn *job, *done;
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t change;
	/* Below the lock. */
	bool busy, stop;
};

static void *work(void *arg)
{
	struct writer *w = arg;
	const uint64_t one = 1;

	pthread_mutex_lock(&w->lock);
	for (;;) {
		while (!w->stop && !w->busy)
			pthread_cond_wait(&w->change, &w->lock);
		if (!w->busy)
			break;
		pthread_mutex_unlock(&w->lock);
		w->job(w->arg);
		pthread_mutex_lock(&w->lock);
		w->busy = false;
		pthread_cond_signal(&w->change);
		ensure(write(w->fd, &one, sizeof(one)) == sizeof(one));
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void on_ended(void *arg)
{
	struct writer *w = arg;
	uint64_t n;

	if (read(w->fd, &n, sizeof(n)) == sizeof(n))
		w->done(w->arg);
}

void writer_begin(struct writer *w)
{
	pthread_mutex_lock(&w->lock);
	ensure(!w->busy);
	w->busy = true;
	pthread_cond_signal(&w->change);
	pthread_mutex_unlock(&w->lock);
}

bool writer_idle(struct writer *w)
{
	bool idle;

	pthread_mutex_lock(&w->lock);
	idle = !w->busy;
	pthread_mutex_unlock(&w->lock);
	return idle;
}

void writer_wait(struct writer *w)
{
	pthread_mutex_lock(&w->lock);
	while (w->busy)
		pthread_cond_wait(&w->change, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

int writer_start(const char *path, struct loop *loop, writer_fn *job, writer_fn *done, void *arg,
		 struct writer **out, struct err *err)
{
	struct writer *w = mem_new(struct writer);
	sigset_t all, old;
	int rc = 0;

	w->job = job;
	w->done = done;
	w->arg = arg;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->change, NULL);
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		rc = err_errno(err, E_UNAVAILABLE, path, "cannot make an eventfd for '%s'", path);
	} else {
		w->ended = watch_readable(loop, w->fd, on_ended, w);
		if (watch_start(w->ended) < 0)
			rc = err_set(err, E_UNAVAILABLE, path,
				     "cannot watch the writer of '%s': " LOOP_FULL, path);
	}
	if (rc == 0) {
		/* Signals are for the loop's thread. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		errno = pthread_create(&w->thread, NULL, work, w);
		w->started = errno == 0;
		if (!w->started)
			rc = err_errno(err, E_UNAVAILABLE, path, "cannot start a thread for '%s'",
				       path);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (rc < 0)
		writer_stop(w);
	else
		*out = w;
	return rc;
}

void writer_stop(struct writer *w)
{
	if (w == NULL)
		return;
	if (w->started) {
		pthread_mutex_lock(&w->lock);
		w->stop = true;
		pthread_cond_signal(&w->change);
		pthread_mutex_unlock(&w->lock);
		pthread_join(w->thread, NULL);
	}
	watch_free(w->ended);
	if (w->fd >= 0)
		close(w->fd);
	pthread_cond_destroy(&w->change);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
