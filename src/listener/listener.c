// SPDX-License-Identifier: Apache-2.0
#include "listener/listener.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define INTERRUPT SIGRTMIN /* ends a blocking receive */
#define STOP_TICK_MS 5	   /* between two signals to a thread that is to end */
#define NOTIF_ROOM 512	   /* bytes of the kernel's record, at most */
#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

struct listener {
	int fd, wake_fd;
	struct listener_handler *handlers;
	size_t nhandlers;
	pthread_t thread;
	atomic_bool stopping;
};

/* ---- answers ---- */

bool listener_valid(const struct listener *l, uint64_t id)
{
	return ioctl(l->fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

void listener_send(struct listener *l, uint64_t id, int errnum)
{
	struct seccomp_notif_resp r = {.id = id, .error = -errnum};

	if (errnum == 0)
		r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	ioctl(l->fd, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

void listener_done(struct listener *l, uint64_t id)
{
	struct seccomp_notif_resp r = {.id = id};

	ioctl(l->fd, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

int listener_give(struct listener *l, uint64_t id, int fd)
{
	struct seccomp_notif_addfd a = {.id = id,
					.flags = SECCOMP_ADDFD_FLAG_SEND,
					.srcfd = (uint32_t)fd,
					.newfd_flags = O_CLOEXEC};

	return ioctl(l->fd, SECCOMP_IOCTL_NOTIF_ADDFD, &a) == -1 ? errno : 0;
}

/* ---- the thread ---- */

static void dispatch(struct listener *l, const struct seccomp_notif *n)
{
	if (n->pid == 0 || n->data.arch != NATIVE_ARCH) {
		listener_send(l, n->id, EACCES);
		return;
	}
	for (size_t i = 0; i < l->nhandlers; i++) {
		const struct listener_handler *h = &l->handlers[i];

		for (size_t k = 0; k < h->ncalls; k++)
			if (h->calls[k] == n->data.nr && (h->takes == NULL || h->takes(n))) {
				h->on(l, n, h->arg);
				return;
			}
	}
	listener_send(l, n->id, ENOSYS);
}

/* False: no process is left that could call. */
static bool receive(struct listener *l)
{
	struct pollfd p = {l->fd, POLLIN, 0};
	union {
		struct seccomp_notif notif;
		uint8_t room[NOTIF_ROOM];
	} n = {0}; /* the kernel insists on zeros */

	if (ioctl(l->fd, SECCOMP_IOCTL_NOTIF_RECV, &n) == 0) {
		dispatch(l, &n.notif);
		return true;
	}
	if (errno == ENOENT) /* the caller died, or all did */
		return poll(&p, 1, 0) <= 0 || (p.revents & POLLHUP) == 0;
	return errno == EINTR;
}

enum { POLL_LISTENER, POLL_WAKE, POLL_FIXED };

/* One poll while a handler has something under way; n: of its descriptors. */
static bool turn(struct listener *l, struct pollfd *p, size_t n, int timeout_ms)
{
	eventfd_t count;

	p[POLL_LISTENER] = (struct pollfd){l->fd, POLLIN, 0};
	p[POLL_WAKE] = (struct pollfd){l->wake_fd, POLLIN, 0};
	poll(p, POLL_FIXED + n, timeout_ms);
	if ((p[POLL_WAKE].revents & POLLIN) != 0)
		eventfd_read(l->wake_fd, &count);
	for (size_t i = 0; i < l->nhandlers; i++)
		if (l->handlers[i].turn != NULL)
			l->handlers[i].turn(l, l->handlers[i].arg);
	if ((p[POLL_LISTENER].revents & POLLIN) != 0)
		return receive(l);
	return (p[POLL_LISTENER].revents & POLLHUP) == 0;
}

static void *run(void *arg)
{
	struct listener *l = arg;
	struct pollfd p[POLL_FIXED + LISTENER_POLLED];
	bool alive = true;

	prctl(PR_SET_NAME, "listener", 0, 0, 0);
	for (size_t i = 0; i < l->nhandlers; i++)
		if (l->handlers[i].begin != NULL)
			l->handlers[i].begin(l->handlers[i].arg);
	while (alive && !atomic_load(&l->stopping)) {
		int timeout_ms = -1;
		size_t n = 0;

		for (size_t i = 0; i < l->nhandlers; i++)
			if (l->handlers[i].under_way != NULL)
				n += l->handlers[i].under_way(l->handlers[i].arg,
							      p + POLL_FIXED + n,
							      LISTENER_POLLED - n, &timeout_ms);
		alive = n == 0 ? receive(l) : turn(l, p, n, timeout_ms);
	}
	/* Calls that are not answered any more must fail (ENOSYS) and not wait for ever. */
	close(take_fd(l->fd));
	for (size_t i = 0; i < l->nhandlers; i++)
		if (l->handlers[i].end != NULL)
			l->handlers[i].end(l->handlers[i].arg);
	return NULL;
}

/* ---- start and stop ---- */

static void ignore(int sig)
{
	(void)sig;
}

static int start_thread(struct listener *l)
{
	const struct sigaction interrupt = {.sa_handler = ignore};
	sigset_t all, old;
	int r;

	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->wake_fd == -1 || sigaction(INTERRUPT, &interrupt, NULL) == -1)
		return errno;
	sigfillset(&all);
	sigdelset(&all, INTERRUPT);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&l->thread, NULL, run, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

static void free_listener(struct listener *l)
{
	mem_cleanup_fd(&l->fd);
	mem_cleanup_fd(&l->wake_fd);
	free(l->handlers);
	free(l);
}

int listener_start(const struct listener_handler *handlers, size_t n, int fd, struct listener **out,
		   struct err *err)
{
	struct listener *l = mem_new(struct listener);
	struct seccomp_notif_sizes sizes;
	int e;

	l->fd = fd;
	l->wake_fd = -1;
	l->handlers = mem_dup(handlers, n * sizeof(*handlers));
	l->nhandlers = n;
	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == -1) {
		e = errno;
	} else if (sizes.seccomp_notif > NOTIF_ROOM ||
		   sizes.seccomp_notif_resp > sizeof(struct seccomp_notif_resp)) {
		e = ENOTSUP;
	} else {
		/* Linux 6.6: the caller continues at once on our processor. */
		ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
		e = start_thread(l);
	}
	if (e != 0) {
		errno = e;
		err_errno(err, E_ENFORCEMENT, "exec_policy",
			  "the exec thread cannot be started (raise the limit of processes: ulimit "
			  "-u, pids.max, TasksMax=)");
		free_listener(l);
		return -E_ENFORCEMENT;
	}
	*out = l;
	return 0;
}

void listener_stop(struct listener *l)
{
	struct timespec until;

	if (l == NULL)
		return;
	atomic_store(&l->stopping, true);
	listener_wake(l);
	/* A signal that arrives just before the receive is lost, so it is sent again. */
	do {
		pthread_kill(l->thread, INTERRUPT);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += STOP_TICK_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
	} while (pthread_timedjoin_np(l->thread, NULL, &until) == ETIMEDOUT);
	free_listener(l);
}

void listener_wake(struct listener *l)
{
	if (eventfd_write(l->wake_fd, 1) == -1)
		ensure(errno == EAGAIN);
}
