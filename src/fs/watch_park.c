// SPDX-License-Identifier: Apache-2.0
/* Requests that wait until the ring of events has room. They hold no worker: one thread runs them
 * in their order when there is room. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <sys/queue.h>
#include <time.h>

#define AGAIN_NS 2000000

struct parked {
	TAILQ_ENTRY(parked) next;
	struct fs_request q;
	_Alignas(8) char bytes[]; /* what q leads to */
};

struct watch_park {
	struct fs *fs;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	TAILQ_HEAD(, parked) waiting;
	pthread_t thread;
	bool started, stop;
};

/* With the lock: the first one, when it may run. NULL: stop. */
static struct parked *next_one(struct watch_park *p)
{
	struct timespec until;
	struct parked *one;

	while (!p->stop && (TAILQ_EMPTY(&p->waiting) || !watch_has_room(p->fs->watch))) {
		if (TAILQ_EMPTY(&p->waiting)) {
			pthread_cond_wait(&p->changed, &p->lock);
			continue;
		}
		/* the reader of the ring does not tell when there is room again */
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += AGAIN_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_clockwait(&p->changed, &p->lock, CLOCK_MONOTONIC, &until);
	}
	one = p->stop ? NULL : TAILQ_FIRST(&p->waiting);
	if (one != NULL)
		TAILQ_REMOVE(&p->waiting, one, next);
	return one;
}

static void *run_parked(void *arg)
{
	struct watch_park *p = arg;
	cleanup_free char *out = mem_alloc(FS_MAX_IO);
	struct parked *one;

	pthread_mutex_lock(&p->lock);
	while ((one = next_one(p)) != NULL) {
		struct fs_reply r = {.out = out, .size = FS_MAX_IO};

		pthread_mutex_unlock(&p->lock);
		fs_run(p->fs, &one->q, &r);
		if (!r.parked)
			fs_transport_answer(p->fs->transport, one->q.unique, &r);
		free(one);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* Copies what is there to *at and returns the copy. */
static const void *keep(char **at, const void *p, size_t len)
{
	char *copy = *at;

	if (p == NULL)
		return NULL;
	memcpy(copy, p, len);
	*at += (len + 7) & ~(size_t)7;
	return copy;
}

static struct parked *copy_request(const struct fs_request *q)
{
	const size_t arg = fs_opcode_fixed(q->opcode);
	size_t name[2], room = arg + q->data_len + 32;
	struct parked *one;
	char *at;

	for (unsigned i = 0; i < 2; i++) {
		name[i] = q->name[i] != NULL ? strlen(q->name[i]) + 1 : 0;
		room += name[i];
	}
	one = mem_alloc(sizeof(*one) + room);
	at = one->bytes;
	one->q = *q;
	one->q.arg = keep(&at, q->arg, arg);
	one->q.data = keep(&at, q->data, q->data_len);
	for (unsigned i = 0; i < 2; i++)
		one->q.name[i] = keep(&at, q->name[i], name[i]);
	return one;
}

struct watch_park *watch_park_new(struct fs *fs)
{
	struct watch_park *p = mem_new(struct watch_park);

	p->fs = fs;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	TAILQ_INIT(&p->waiting);
	return p;
}

void watch_park_free(struct watch_park *p)
{
	struct parked *one;

	if (p == NULL)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (p->started)
		pthread_join(p->thread, NULL);
	while ((one = TAILQ_FIRST(&p->waiting)) != NULL) {
		TAILQ_REMOVE(&p->waiting, one, next);
		free(one);
	}
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

bool watch_park(struct watch_park *p, const struct fs_request *q)
{
	struct parked *one = copy_request(q);
	bool started;

	pthread_mutex_lock(&p->lock);
	p->started = p->started || pthread_create(&p->thread, NULL, run_parked, p) == 0;
	started = p->started;
	if (started)
		TAILQ_INSERT_TAIL(&p->waiting, one, next);
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (!started)
		free(one);
	return started;
}

bool watch_park_interrupt(struct watch_park *p, uint64_t unique)
{
	const struct fs_reply r = {.error = EINTR};
	struct parked *one;

	pthread_mutex_lock(&p->lock);
	TAILQ_FOREACH (one, &p->waiting, next)
		if (one->q.unique == unique)
			break;
	if (one != NULL)
		TAILQ_REMOVE(&p->waiting, one, next);
	pthread_mutex_unlock(&p->lock);
	if (one == NULL)
		return false;
	free(one);
	fs_transport_answer(p->fs->transport, unique, &r);
	return true;
}
