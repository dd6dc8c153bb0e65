// SPDX-License-Identifier: Apache-2.0
/* Operations that wait: for a lock that another process holds, for a lease that the host has to
 * give back, for the disk. Each runs on a thread of its own, so that no worker waits, and there are
 * at most CALLS_MAX.
 *
 * INTERRUPT starts the thread's timer. Its signal ends the waiting system call; the timer repeats
 * it, because the first one may come before the call. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <time.h>

#define CALLS_MAX 1024
#define CALL_STACK 131072
#define REPEAT_NS 1000000

struct slow_call {
	LIST_ENTRY(slow_call) link;
	struct fs *fs;
	struct fs_request q;
	timer_t timer;
	bool has_timer, interrupted;
	_Alignas(8) char arg[sizeof(struct fuse_setattr_in)]; /* the longest of those that wait */
	_Alignas(8) char out[sizeof(struct fuse_attr_out)];
	char name[NAME_MAX + 1];
};

struct slow_calls {
	pthread_mutex_t lock;
	LIST_HEAD(, slow_call) all;
	unsigned running;
	pthread_cond_t one_gone;
};

static void on_signal(int sig)
{
	(void)sig;
}

struct slow_calls *slow_calls_new(void)
{
	struct slow_calls *s = mem_new(struct slow_calls);
	struct sigaction act = {.sa_handler = on_signal}; /* without SA_RESTART */

	sigaction(SIGRTMIN + 1, &act, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->one_gone, NULL);
	return s;
}

bool slow_call_is_disk(uint32_t opcode)
{
	return opcode == FUSE_FSYNC || opcode == FUSE_FSYNCDIR || opcode == FUSE_SYNCFS ||
	       opcode == FUSE_FALLOCATE || opcode == FUSE_COPY_FILE_RANGE ||
	       opcode == FS_OP_COPY_FILE_RANGE_64;
}

/* With the lock. */
static void interrupt(struct slow_call *c)
{
	const struct itimerspec soon = {{0, REPEAT_NS}, {0, 1}};

	c->interrupted = true;
	if (c->has_timer)
		timer_settime(c->timer, 0, &soon, NULL);
}

bool fs_interrupt(void *ctx, uint64_t unique)
{
	struct slow_calls *s = ((struct fs *)ctx)->slow;
	struct slow_call *c;

	if (watch_interrupt(ctx, unique))
		return true;
	pthread_mutex_lock(&s->lock);
	LIST_FOREACH (c, &s->all, link)
		if (c->q.unique == unique)
			break;
	if (c != NULL && !slow_call_is_disk(c->q.opcode))
		interrupt(c);
	pthread_mutex_unlock(&s->lock);
	return c != NULL;
}

void slow_calls_free(struct slow_calls *s)
{
	struct slow_call *c;

	if (s == NULL)
		return;
	pthread_mutex_lock(&s->lock);
	LIST_FOREACH (c, &s->all, link)
		interrupt(c);
	while (s->running > 0)
		pthread_cond_wait(&s->one_gone, &s->lock);
	pthread_mutex_unlock(&s->lock);
	pthread_cond_destroy(&s->one_gone);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void *run_call(void *arg)
{
	struct slow_call *c = arg;
	struct slow_calls *s = c->fs->slow;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1};
	struct fs_reply r = {.out = c->out, .size = sizeof(c->out)};
	sigset_t set;
	bool stop;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	pthread_mutex_lock(&s->lock);
	c->has_timer = timer_create(CLOCK_MONOTONIC, &event, &c->timer) == 0;
	stop = c->interrupted || !c->has_timer; /* without a timer it could not be ended later */
	pthread_mutex_unlock(&s->lock);
	r.error = EINTR;
	while (!stop) {
		r.error = 0;
		fs_run(c->fs, &c->q, &r);
		if (r.error != EINTR)
			break;
		pthread_mutex_lock(&s->lock);
		stop = c->interrupted;
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_lock(&s->lock);
	LIST_REMOVE(c, link);
	if (c->has_timer)
		timer_delete(c->timer);
	pthread_mutex_unlock(&s->lock);
	fs_transport_answer(c->fs->transport, c->q.unique, &r);
	free(c);
	pthread_mutex_lock(&s->lock);
	s->running--;
	pthread_cond_broadcast(&s->one_gone);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

bool slow_call_start(struct fs *fs, const struct fs_request *q)
{
	struct slow_calls *s = fs->slow;
	const size_t arg = fs_opcode_fixed(q->opcode);
	struct slow_call *c = mem_new(struct slow_call);
	pthread_attr_t attr;
	pthread_t thread;
	bool started = false;

	ensure(arg <= sizeof(c->arg) && q->data == NULL && q->name[1] == NULL);
	if (arg > 0)
		memcpy(c->arg, q->arg, arg);
	c->fs = fs;
	c->q = *q;
	c->q.arg = c->arg;
	if (q->name[0] != NULL)
		c->q.name[0] = strcpy(c->name, q->name[0]);
	c->q.may_wait = true;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, CALL_STACK);
	pthread_mutex_lock(&s->lock);
	if (s->running < CALLS_MAX && pthread_create(&thread, &attr, run_call, c) == 0) {
		LIST_INSERT_HEAD(&s->all, c, link);
		s->running++;
		started = true;
	}
	pthread_mutex_unlock(&s->lock);
	pthread_attr_destroy(&attr);
	if (!started)
		free(c);
	return started;
}
