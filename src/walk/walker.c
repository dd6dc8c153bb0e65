// SPDX-License-Identifier: Apache-2.0
#include "walk/walker.h"
#include "base/mem.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <time.h>

#define STACK_BYTES (1024 * 1024)

enum walk_state { WALK_WAITS, WALK_RUNS, WALK_OVER };

struct walk {
	TAILQ_ENTRY(walk) next;
	struct walker *walker;
	struct walk_job job;
	enum walk_state state;
	bool given_up;
};

/* A thread that hangs keeps it. */
struct walker {
	pthread_mutex_t lock; /* of everything */
	pthread_cond_t work, left;
	TAILQ_HEAD(, walk) waiting;
	void (*begin)(void *arg), (*end)(void *arg);
	void *arg;
	unsigned threads, idle, nwaiting;
	bool stopping;
	bool abandoned; /* nothing of the owner is there any more */
};

/* With the lock. */
static void take_out(struct walker *w, struct walk *k)
{
	TAILQ_REMOVE(&w->waiting, k, next);
	w->nwaiting--;
}

/* With the lock. */
static void run_walk(struct walker *w, struct walk *k)
{
	take_out(w, k);
	k->state = WALK_RUNS;
	pthread_mutex_unlock(&w->lock);
	k->job.run(k->job.arg);
	pthread_mutex_lock(&w->lock);
	k->state = WALK_OVER;
	if (!k->given_up) {
		k->job.wake(k->job.to);
		return;
	}
	pthread_mutex_unlock(&w->lock);
	k->job.drop(k->job.arg);
	free(k);
	pthread_mutex_lock(&w->lock);
}

static void *serve(void *arg)
{
	struct walker *w = arg;
	struct walk *k;

	prctl(PR_SET_NAME, "walker", 0, 0, 0);
	w->begin(w->arg);
	pthread_mutex_lock(&w->lock);
	while (!w->stopping) {
		k = TAILQ_FIRST(&w->waiting);
		if (k != NULL) {
			run_walk(w, k);
			continue;
		}
		w->idle++;
		pthread_cond_wait(&w->work, &w->lock);
		w->idle--;
	}
	if (!w->abandoned)
		w->end(w->arg);
	w->threads--;
	pthread_cond_signal(&w->left);
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* With the lock. Signals are the business of other threads. */
static bool add_thread(struct walker *w)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&thread, &attr, serve, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	w->threads += r == 0;
	return r == 0;
}

struct walker *walker_new(void (*begin)(void *arg), void (*end)(void *arg), void *arg)
{
	struct walker *w = mem_new(struct walker);
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	pthread_cond_init(&w->left, &attr);
	pthread_condattr_destroy(&attr);
	TAILQ_INIT(&w->waiting);
	w->begin = begin;
	w->end = end;
	w->arg = arg;
	return w;
}

bool walker_free(struct walker *w)
{
	struct timespec until;

	if (w == NULL)
		return true;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += WALKER_END_MS / 1000;
	pthread_mutex_lock(&w->lock);
	ensure(TAILQ_EMPTY(&w->waiting));
	w->stopping = true;
	pthread_cond_broadcast(&w->work);
	while (w->threads > 0 && pthread_cond_timedwait(&w->left, &w->lock, &until) == 0)
		;
	w->abandoned = w->threads > 0;
	pthread_mutex_unlock(&w->lock);
	if (w->abandoned)
		return false;
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->left);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return true;
}

struct walk *walk_start(struct walker *w, const struct walk_job *job)
{
	struct walk *k = mem_new(struct walk);
	bool served;

	k->walker = w;
	k->job = *job;
	pthread_mutex_lock(&w->lock);
	served = w->idle > w->nwaiting || w->threads == WALKER_THREADS || add_thread(w) ||
		 w->threads > 0;
	if (served) {
		TAILQ_INSERT_TAIL(&w->waiting, k, next);
		w->nwaiting++;
		pthread_cond_signal(&w->work);
	}
	pthread_mutex_unlock(&w->lock);
	if (served)
		return k;
	job->drop(job->arg);
	free(k);
	return NULL;
}

bool walk_over(struct walk *k)
{
	bool over;

	pthread_mutex_lock(&k->walker->lock);
	over = k->state == WALK_OVER;
	pthread_mutex_unlock(&k->walker->lock);
	return over;
}

bool walk_end(struct walk *k)
{
	struct walker *w = k->walker;
	const struct walk_job job = k->job;
	enum walk_state state;

	pthread_mutex_lock(&w->lock);
	state = k->state;
	k->given_up = true; /* read by the thread, if it runs */
	if (state == WALK_WAITS)
		take_out(w, k);
	pthread_mutex_unlock(&w->lock);
	if (state == WALK_RUNS)
		return false;
	free(k);
	if (state == WALK_WAITS)
		job.drop(job.arg);
	return state == WALK_OVER;
}

static void wake_poll(void *fd)
{
	eventfd_write(*(const int *)fd, 1);
}

bool walk_within(struct walker *w, const struct walk_job *job, int ms)
{
	cleanup_fd int fd = eventfd(0, EFD_CLOEXEC);
	const struct walk_job waited = {job->run, job->drop, job->arg, wake_poll, &fd};
	struct walk *k = walk_start(w, &waited);
	struct pollfd p = {fd, POLLIN, 0};

	if (k == NULL)
		return false;
	poll(&p, 1, ms);
	return walk_end(k);
}
