// SPDX-License-Identifier: Apache-2.0
/* The exec thread. It blocks in the receiving ioctl while nothing is under way (five to ten times
 * cheaper than poll and receive), else it polls the listener, SIGCHLD of its tracees and the queue
 * of resumed execs. */
#include "base/mem.h"
#include "exec/attributes.h"
#include "exec/listener.h"
#include "exec/state.h"
#include "exec/trace.h"
#include <errno.h>
#include <linux/audit.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#define WAKE SIGRTMIN  /* ends a blocking receive */
#define STOP_TICK_MS 5 /* between two signals to a thread that is to end */
#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif
#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000 /* Linux 6.14: asks, and executes nothing */
#endif

/* ---- notifications ---- */

static bool still_waits(void *arg, uint64_t id)
{
	const struct exec_control *c = arg;

	return listener_valid(c->listener, id);
}

static void on_socket(struct exec_control *c, const struct seccomp_notif *n)
{
	const int fd = c->ops.state_socket != NULL ? c->ops.state_socket(c->ops.arg, (pid_t)n->pid)
						   : -EPERM;

	if (fd < 0 || listener_give(c->listener, n->id, fd) != 0)
		listener_send(c->listener, n->id, fd < 0 ? -fd : EPERM);
	if (fd >= 0)
		close(fd);
}

/* Changes of a file's attributes; what nobody knows is refused. */
static void on_other(struct exec_control *c, const struct seccomp_notif *n)
{
	const int root = c->ops.own_trees == NULL ? c->ops.root : -1;
	const struct attributes_ask ask = {n, root, c->ops.own_trees, still_waits, c};
	const int r = attributes_change(&ask);

	if (r == 0)
		listener_done(c->listener, n->id);
	else
		listener_send(c->listener, n->id, r);
}

static void on_notification(struct exec_control *c, const struct seccomp_notif *n)
{
	const bool known = n->pid != 0 && n->data.arch == NATIVE_ARCH;

	switch (known ? n->data.nr : -1) {
	case SYS_execveat:
		if ((n->data.args[4] & AT_EXECVE_CHECK) != 0)
			listener_send(c->listener, n->id, 0);
		else
			hold_on_exec(c, n);
		return;
	case SYS_execve:
		hold_on_exec(c, n);
		return;
	case SYS_socket:
		on_socket(c, n);
		return;
	case -1:
		listener_send(c->listener, n->id, EACCES);
		return;
	default:
		on_other(c, n);
		return;
	}
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
	uint64_t n;

	if (read(c->wake_fd, &n, sizeof(n)) != sizeof(n))
		return;
	while ((r = take_resumed(c)) != NULL) {
		struct exec_case *k = find_pending(c, r->pending);

		if (k != NULL) {
			c->nparked--;
			k->state = CASE_READ;
			k->pending = 0;
			k->verdict = r->verdict;
			hold_apply(c, k);
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
			hold_forget(c, k);
			continue;
		}
		k->state = CASE_LEFTOVER; /* until it is reaped */
		c->nparked--;
	}
}

/* ---- the loop ---- */

/* False: nobody is left who could ask. */
static bool receive(struct exec_control *c)
{
	struct pollfd p = {c->listener, POLLIN, 0};
	union listener_notif n;
	int r = listener_recv(c->listener, &n);

	if (r == 0)
		on_notification(c, &n.notif);
	else if (r == ENOENT)
		return poll(&p, 1, 0) <= 0 || (p.revents & POLLHUP) == 0;
	return r == 0 || r == EINTR || r == ENOENT;
}

enum { POLL_LISTENER, POLL_CHILD, POLL_WAKE, POLL_FIXED };

static size_t fill_poll(struct exec_control *c, struct pollfd *p, bool *tracees)
{
	struct exec_case *k;
	size_t n = POLL_FIXED;

	p[POLL_LISTENER] = (struct pollfd){c->listener, POLLIN, 0};
	p[POLL_CHILD] = (struct pollfd){c->child_fd, POLLIN, 0};
	p[POLL_WAKE] = (struct pollfd){c->wake_fd, POLLIN, 0};
	LIST_FOREACH (k, &c->cases, link) {
		if (k->state == CASE_PARKED)
			p[n++] = (struct pollfd){k->pidfd, POLLIN, 0};
		*tracees |= k->seized;
	}
	return n;
}

/* One turn while something is under way. */
static bool turn(struct exec_control *c)
{
	struct pollfd p[POLL_FIXED + PARKED_MAX];
	struct signalfd_siginfo info;
	bool tracees = false, alive = true;
	const size_t n = fill_poll(c, p, &tracees);

	poll(p, n, tracees ? SETTLE_MS : -1);
	if ((p[POLL_CHILD].revents & POLLIN) != 0)
		while (read(c->child_fd, &info, sizeof(info)) > 0)
			;
	hold_reap(c);
	on_resumed(c);
	drop_dead(c);
	if ((p[POLL_LISTENER].revents & POLLIN) != 0)
		alive = receive(c);
	else if ((p[POLL_LISTENER].revents & POLLHUP) != 0)
		alive = false;
	if (tracees)
		hold_settle(c);
	hold_retry(c);
	return alive;
}

static void *run(void *arg)
{
	struct exec_control *c = arg;
	struct exec_case *k;
	bool alive = true;

	prctl(PR_SET_NAME, "exec", 0, 0, 0);
	while (alive && !atomic_load(&c->stopping))
		alive = LIST_EMPTY(&c->cases) ? receive(c) : turn(c);
	/* Execs that nobody decides must fail (ENOSYS) and not wait for ever. */
	close(take_fd(c->listener));
	LIST_FOREACH (k, &c->cases, link)
		if (k->state == CASE_PARKED && c->ops.gone != NULL)
			c->ops.gone(c->ops.arg, k->pending);
	return NULL;
}

/* ---- the face ---- */

static void ignore(int sig)
{
	(void)sig;
}

static int start_thread(struct exec_control *c)
{
	const struct sigaction wake = {.sa_handler = ignore}; /* no SA_RESTART: it interrupts */
	sigset_t all, child, old;
	int r;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	c->child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->child_fd == -1 || c->wake_fd == -1 || sigaction(WAKE, &wake, NULL) == -1)
		return errno;
	sigfillset(&all);
	sigdelset(&all, WAKE);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&c->thread, NULL, run, c);
	/* A thread that takes SIGCHLD would take it away from the descriptor. */
	sigaddset(&old, SIGCHLD);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

static void free_control(struct exec_control *c)
{
	struct deferred *d;
	struct resumed *r;

	while (!LIST_EMPTY(&c->cases))
		hold_forget(c, LIST_FIRST(&c->cases));
	while ((r = take_resumed(c)) != NULL)
		free(r);
	while ((d = STAILQ_FIRST(&c->deferred)) != NULL) {
		STAILQ_REMOVE_HEAD(&c->deferred, link);
		free(d);
	}
	known_done(&c->programs);
	pthread_mutex_destroy(&c->lock);
	pthread_mutex_destroy(&c->telling);
	for (size_t i = 0; i < 3; i++)
		mem_cleanup_fd((int[]){c->listener, c->wake_fd, c->child_fd} + i);
	free(c);
}

int exec_control_start(const struct exec_control_ops *ops, int listener, struct exec_control **out,
		       struct err *err)
{
	struct exec_control *c = mem_new(struct exec_control);
	bool traced;
	int r;

	c->ops = *ops;
	c->listener = listener;
	c->wake_fd = c->child_fd = -1;
	c->programs.root = ops->root;
	LIST_INIT(&c->cases);
	STAILQ_INIT(&c->resumed);
	STAILQ_INIT(&c->deferred);
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->telling, NULL);
	r = trace_available();
	traced = r == 0;
	if (r == 0)
		r = listener_init(listener);
	if (r == 0)
		r = start_thread(c);
	if (r != 0) {
		free_control(c);
		errno = r;
		return err_errno(err, E_ENFORCEMENT, "exec_policy", "%s",
				 traced ? "the exec thread cannot be started (raise the limit of "
					  "processes: ulimit -u, pids.max, TasksMax=)"
					: "processes cannot be traced (let the container use "
					  "ptrace, lower kernel.yama.ptrace_scope, or list "
					  "exec_policy in sandbox.allow_unenforced)");
	}
	*out = c;
	return 0;
}

void exec_control_stop(struct exec_control *c)
{
	struct timespec until;

	if (c == NULL)
		return;
	atomic_store(&c->stopping, true);
	if (eventfd_write(c->wake_fd, 1) == -1)
		ensure(errno == EAGAIN);
	/* A signal that comes just before the receive is lost: hence again. */
	do {
		pthread_kill(c->thread, WAKE);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += STOP_TICK_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(c->thread, NULL, &until) == ETIMEDOUT);
	free_control(c);
}

void exec_control_resume(struct exec_control *c, uint64_t pending, const struct verdict *v)
{
	struct resumed *r = mem_new(struct resumed);

	r->pending = pending;
	r->verdict = *v;
	pthread_mutex_lock(&c->lock);
	STAILQ_INSERT_TAIL(&c->resumed, r, link);
	pthread_mutex_unlock(&c->lock);
	if (eventfd_write(c->wake_fd, 1) == -1)
		ensure(errno == EAGAIN);
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
