// SPDX-License-Identifier: Apache-2.0
/* Requests that wait until the ring of events has room, or until an approver has answered. They
 * hold no worker: one thread runs them in their order when there is room.
 *
 * The lock is taken before the gate's. */
#include "base/clock.h"
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <sys/queue.h>
#include <time.h>

#define AGAIN_NS 2000000

struct parked {
	TAILQ_ENTRY(parked) next;
	struct watch_park *park;
	struct fs_request q;
	/* while it is held */
	struct gate_case k;
	struct op op;
	char *path, *to;	  /* owned */
	_Alignas(8) char bytes[]; /* what q leads to */
};

struct watch_park {
	struct fs *fs;
	struct gate *gate;
	const struct gate_asker *asker;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	TAILQ_HEAD(parked_list, parked) waiting; /* may run when there is room */
	struct parked_list held;		 /* by the gate */
	pthread_t thread;
	bool started, stop;
};

static void free_parked(struct parked *one)
{
	free(one->path);
	free(one->to);
	free(one);
}

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
		free_parked(one);
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
	one->path = one->to = NULL;
	at = one->bytes;
	one->q = *q;
	one->q.arg = keep(&at, q->arg, arg);
	one->q.data = keep(&at, q->data, q->data_len);
	for (unsigned i = 0; i < 2; i++)
		one->q.name[i] = keep(&at, q->name[i], name[i]);
	return one;
}

static void free_all(struct parked_list *list)
{
	struct parked *one;

	while ((one = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, one, next);
		free_parked(one);
	}
}

struct watch_park *watch_park_new(struct fs *fs, const struct fs_watch_setup *s)
{
	struct watch_park *p = mem_new(struct watch_park);

	p->fs = fs;
	p->gate = s->gate;
	p->asker = s->asker;
	TAILQ_INIT(&p->held);
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
	TAILQ_FOREACH (one, &p->held, next)
		gate_gone(p->gate, &one->k);
	p->stop = true;
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (p->started)
		pthread_join(p->thread, NULL);
	free_all(&p->waiting);
	free_all(&p->held);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* With the lock. */
static bool start(struct watch_park *p)
{
	p->started = p->started || pthread_create(&p->thread, NULL, run_parked, p) == 0;
	return p->started;
}

bool watch_park(struct watch_park *p, const struct fs_request *q)
{
	struct parked *one = copy_request(q);
	bool started;

	pthread_mutex_lock(&p->lock);
	started = start(p);
	if (started)
		TAILQ_INSERT_TAIL(&p->waiting, one, next);
	pthread_cond_signal(&p->changed);
	pthread_mutex_unlock(&p->lock);
	if (!started)
		free_parked(one);
	return started;
}

/* ---- held by the gate ---- */

/* With the lock: it runs, with the answer. */
static void go_on(struct watch_park *p, struct parked *one, enum gate_why why)
{
	TAILQ_REMOVE(&p->held, one, next);
	one->q.answered = true;
	one->q.why = why;
	TAILQ_INSERT_TAIL(&p->waiting, one, next);
	pthread_cond_signal(&p->changed);
}

static void resume(struct gate_case *k, void *arg)
{
	struct parked *one = arg;
	struct watch_park *p = one->park;

	pthread_mutex_lock(&p->lock);
	strcpy(one->q.granted.approval_id, k->approval_id);
	go_on(p, one, verdict_allows(&k->verdict) ? GATE_WHY_POLICY : k->why);
	pthread_mutex_unlock(&p->lock);
}

bool watch_park_hold(struct watch_park *p, const struct fs_request *q, struct gate_case *k)
{
	struct parked *one;
	bool held = false;

	k->why = GATE_WHY_UNASKED;
	if (p->asker == NULL)
		return false;
	one = copy_request(q);
	one->park = p;
	one->q.began_us = clock_mono_us(&clock_system);
	one->q.granted.ops = 1U << k->op->file.op | k->also;
	file_grant_name(&one->q.granted, k->op->file.path, k->to);
	one->op = *k->op;
	one->op.file.path = one->path = mem_strdup(k->op->file.path);
	one->k = *k;
	one->k.why = GATE_WHY_POLICY;
	one->k.op = &one->op;
	one->k.to = one->to = k->to != NULL ? mem_strdup(k->to) : NULL;
	pthread_mutex_lock(&p->lock);
	if (start(p)) {
		const struct gate_waiter waiter = {p->asker, resume, one};

		TAILQ_INSERT_TAIL(&p->held, one, next);
		held = gate_hold(p->gate, &one->k, &waiter) == GATE_PENDING;
		if (!held) {
			TAILQ_REMOVE(&p->held, one, next);
			k->why = one->k.why;
		}
	}
	pthread_mutex_unlock(&p->lock);
	if (!held)
		free_parked(one);
	return held;
}

/* With the lock. */
static bool interrupt_held(struct watch_park *p, uint64_t unique)
{
	struct parked *one;

	TAILQ_FOREACH (one, &p->held, next)
		if (one->q.unique == unique)
			break;
	/* else it is about to go on */
	if (one != NULL && gate_gone(p->gate, &one->k))
		go_on(p, one, GATE_WHY_INTERRUPTED);
	return one != NULL;
}

bool watch_park_interrupt(struct watch_park *p, uint64_t unique)
{
	const struct fs_reply r = {.error = EINTR};
	struct parked *one;
	bool held;

	pthread_mutex_lock(&p->lock);
	TAILQ_FOREACH (one, &p->waiting, next)
		if (one->q.unique == unique)
			break;
	if (one != NULL)
		TAILQ_REMOVE(&p->waiting, one, next);
	held = one == NULL && interrupt_held(p, unique);
	pthread_mutex_unlock(&p->lock);
	if (one == NULL)
		return held;
	free_parked(one);
	fs_transport_answer(p->fs->transport, unique, &r);
	return true;
}
