// SPDX-License-Identifier: Apache-2.0
/* Exec control as a handler of the listener: execve and execveat, and what waits or is traced. */
#include "base/mem.h"
#include "exec/exec_thread.h"
#include "exec/trace.h"
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000 /* Linux 6.14: asks, and executes nothing */
#endif

static void on_exec(struct listener *l, const struct seccomp_notif *n, void *arg)
{
	struct exec_control *c = arg;

	if (c->listener == NULL) /* it stays the same; other threads see it with a waiting exec */
		c->listener = l;
	if (n->data.nr == SYS_execveat && (n->data.args[4] & AT_EXECVE_CHECK) != 0)
		listener_send(l, n->id, 0);
	else
		verify_on_exec(c, n);
}

/* ---- waiting execs ---- */

static struct exec_case *find_pending(struct exec_control *c, uint64_t pending)
{
	struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link)
		if (k->state == CASE_PARKED && k->pending == pending)
			return k;
	return NULL;
}

static struct resumed *take_resumed(struct exec_control *c)
{
	struct resumed *r;

	pthread_mutex_lock(&c->lock);
	r = STAILQ_FIRST(&c->resumed);
	if (r != NULL)
		STAILQ_REMOVE_HEAD(&c->resumed, link);
	pthread_mutex_unlock(&c->lock);
	return r;
}

static void on_resumed(struct exec_control *c)
{
	struct resumed *r;

	while ((r = take_resumed(c)) != NULL) {
		struct exec_case *k = find_pending(c, r->pending);

		if (k != NULL) {
			c->nparked--;
			k->state = CASE_READ;
			k->pending = 0;
			k->verdict = r->verdict;
			verify_apply(c, k);
		}
		free(r);
	}
}

/* Waiting callers that died. */
static void drop_dead(struct exec_control *c)
{
	struct exec_case *k, *next;

	for (k = LIST_FIRST(&c->cases); k != NULL; k = next) {
		struct pollfd p = {k->pidfd, POLLIN, 0};

		next = LIST_NEXT(k, link);
		if (k->state != CASE_PARKED || poll(&p, 1, 0) <= 0)
			continue;
		if (c->ops.gone != NULL)
			c->ops.gone(c->ops.arg, k->pending);
		record_case(c, k, EXEC_FAILED, NULL);
		if (!k->seized) {
			verify_forget(c, k);
			continue;
		}
		k->state = CASE_LEFTOVER; /* until it is reaped */
		c->nparked--;
	}
}

/* ---- as the listener's handler ---- */

static size_t under_way(void *arg, struct pollfd *p, size_t room, int *timeout_ms)
{
	struct exec_control *c = arg;
	struct exec_case *k;
	size_t n = 0;

	if (LIST_EMPTY(&c->cases))
		return 0;
	p[n++] = (struct pollfd){c->child_fd, POLLIN, 0};
	LIST_FOREACH (k, &c->cases, link) {
		if (k->state == CASE_PARKED && n < room)
			p[n++] = (struct pollfd){k->pidfd, POLLIN, 0};
		if (k->seized)
			*timeout_ms = SETTLE_MS;
	}
	return n;
}

static void turn(struct listener *l, void *arg)
{
	struct exec_control *c = arg;
	struct signalfd_siginfo info[2]; /* the thread's and the process's */

	if (read(c->child_fd, info, sizeof(info)) < 0)
		ensure(errno == EAGAIN);
	verify_reap(c);
	on_resumed(c);
	drop_dead(c);
	verify_settle(c);
	verify_retry(c);
}

static void end(void *arg)
{
	struct exec_control *c = arg;
	struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link)
		if (k->state == CASE_PARKED && c->ops.gone != NULL)
			c->ops.gone(c->ops.arg, k->pending);
}

struct listener_handler exec_control_handler(struct exec_control *c)
{
	static const int calls[] = {SYS_execve, SYS_execveat};

	return (struct listener_handler){calls, ARRAY_LEN(calls), on_exec, under_way, turn, end, c};
}

/* ---- the face ---- */

int exec_control_open(const struct exec_control_ops *ops, struct exec_control **out,
		      struct err *err)
{
	struct exec_control *c = mem_new(struct exec_control);
	sigset_t child;
	int r;

	c->ops = *ops;
	c->programs.root = ops->root;
	LIST_INIT(&c->cases);
	STAILQ_INIT(&c->resumed);
	STAILQ_INIT(&c->deferred);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->telling, NULL);
	/* A thread that takes SIGCHLD would take it away from the descriptor. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, NULL);
	c->child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->child_fd == -1) {
		r = err_errno(err, E_ENFORCEMENT, "exec_policy",
			      "no descriptor can be had for the exec thread");
	} else {
		errno = trace_available();
		r = errno == 0 ? 0
			       : err_errno(err, E_ENFORCEMENT, "exec_policy",
					   "processes cannot be traced (let the container use "
					   "ptrace, lower kernel.yama.ptrace_scope, or list "
					   "exec_policy in sandbox.allow_unenforced)");
	}
	if (r < 0)
		exec_control_close(c);
	else
		*out = c;
	return r;
}

void exec_control_close(struct exec_control *c)
{
	struct deferred *d;
	struct resumed *r;

	if (c == NULL)
		return;
	while (!LIST_EMPTY(&c->cases))
		verify_forget(c, LIST_FIRST(&c->cases));
	while ((r = take_resumed(c)) != NULL)
		free(r);
	while ((d = STAILQ_FIRST(&c->deferred)) != NULL) {
		STAILQ_REMOVE_HEAD(&c->deferred, link);
		free(d);
	}
	program_cache_done(&c->programs);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->telling);
	mem_cleanup_fd(&c->child_fd);
	free(c);
}

void exec_control_resume(struct exec_control *c, uint64_t pending, const struct verdict *v)
{
	struct resumed *r = mem_new(struct resumed);

	r->pending = pending;
	r->verdict = *v;
	pthread_mutex_lock(&c->lock);
	STAILQ_INSERT_TAIL(&c->resumed, r, link);
	pthread_mutex_unlock(&c->lock);
	listener_wake(c->listener);
}

void exec_control_settle(struct exec_control *c)
{
	pthread_mutex_lock(&c->telling);
	pthread_mutex_unlock(&c->telling);
}

uint64_t exec_control_count(const struct exec_control *c, enum exec_outcome outcome)
{
	return atomic_load_explicit(&c->count[outcome], memory_order_relaxed);
}
