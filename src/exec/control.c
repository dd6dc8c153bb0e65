// SPDX-License-Identifier: Apache-2.0
/* Exec control as a handler of the listener: execve and execveat, waiting and traced execs. */
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
	struct exec_case *k, *next;

	if (read(c->child_fd, info, sizeof(info)) < 0)
		ensure(errno == EAGAIN);
	verify_reap(c);
	gate_resume(c->setup.gate, &c->asker);
	for (k = LIST_FIRST(&c->cases); k != NULL; k = next) {
		struct pollfd p = {k->pidfd, POLLIN, 0};

		next = LIST_NEXT(k, link);
		if (k->state != CASE_PARKED || poll(&p, 1, 0) <= 0)
			continue;
		/* The caller died while it waited. */
		gate_gone(c->setup.gate, &k->gate);
		commands_record(c, k, GATE_FAILED);
		k->state = CASE_LEFTOVER; /* until it is reaped, if it is seized */
		if (!k->seized)
			verify_forget(c, k);
	}
	verify_settle(c);
	verify_retry(c);
}

static void end(void *arg)
{
	struct exec_control *c = arg;
	struct exec_case *k;

	LIST_FOREACH (k, &c->cases, link)
		gate_gone(c->setup.gate, &k->gate);
}

struct listener_handler exec_control_handler(struct exec_control *c)
{
	static const int calls[] = {SYS_execve, SYS_execveat};

	return (struct listener_handler){calls, ARRAY_LEN(calls), on_exec, under_way, turn, end, c};
}

/* ---- the face ---- */

static void wake(void *arg)
{
	listener_wake(((struct exec_control *)arg)->listener);
}

int exec_control_open(const struct exec_setup *s, struct exec_control **out, struct err *err)
{
	struct exec_control *c = mem_new(struct exec_control);
	sigset_t child;
	int r;

	c->setup = *s;
	c->loader_any = !policy_restricts(gate_policy(s->gate), OP_EXEC);
	c->actors = actor_reader_new(s->actors);
	c->asker = (struct gate_asker){wake, c};
	c->programs = exec_looker_new(s->root);
	LIST_INIT(&c->cases);
	LIST_INIT(&c->commands);
	STAILQ_INIT(&c->deferred);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->telling, NULL);
	/* A thread that does not block SIGCHLD would consume it before the descriptor. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, NULL);
	c->child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->child_fd == -1) {
		r = err_errno(err, E_ENFORCEMENT, "exec_policy",
			      "no descriptor can be had for the listener thread (raise "
			      "RLIMIT_NOFILE)");
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

	if (c == NULL)
		return;
	while (!LIST_EMPTY(&c->cases))
		verify_forget(c, LIST_FIRST(&c->cases));
	while ((d = STAILQ_FIRST(&c->deferred)) != NULL) {
		STAILQ_REMOVE_HEAD(&c->deferred, link);
		free(d);
	}
	commands_free(c);
	actor_reader_free(c->actors);
	exec_looker_free(c->programs);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->telling);
	mem_cleanup_fd(&c->child_fd);
	free(c);
}

void exec_control_settle(struct exec_control *c)
{
	pthread_mutex_lock(&c->telling);
	pthread_mutex_unlock(&c->telling);
}

uint64_t exec_control_count(const struct exec_control *c, enum gate_outcome outcome)
{
	return atomic_load_explicit(&c->count[outcome], memory_order_relaxed);
}
