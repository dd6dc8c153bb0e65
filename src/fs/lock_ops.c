// SPDX-License-Identifier: Apache-2.0
/* Locks are taken at the backing files, so that host and mount share them.
 *
 * flock: on the handle's descriptor, as the kernel has one handle per open file. POSIX locks belong
 * to a process and a file: each (node, owner) has a descriptor of its own with open file
 * description locks, and closing any descriptor of the file ends them (FLUSH). A client's own open
 * file description locks come as the same requests with an owner that no FLUSH names: they end with
 * the handle (RELEASE).
 *
 * A lock that has to wait gets a thread. INTERRUPT starts the thread's timer, whose signal ends the
 * waiting system call; the timer repeats it, because the first one may come before the call. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <time.h>

#define WAITERS_MAX 1024
#define WAITER_STACK 65536
#define REPEAT_NS 1000000

struct lock_owner {
	LIST_ENTRY(lock_owner) link;
	uint64_t node, owner;
	uint64_t handle; /* by which it asked last */
	uint32_t pid;	 /* the process that asked last */
	unsigned users;	 /* requests under way; -> closed when the last of them is over */
	int fd;
};

struct lock_waiter {
	LIST_ENTRY(lock_waiter) link;
	struct fs *fs;
	uint64_t unique;
	timer_t timer;
	bool has_timer, interrupted;
	int fd;
	struct lock_owner *owner; /* NULL: flock */
	int how;		  /* of flock */
	struct flock range;
};

struct lock_table {
	pthread_mutex_t lock;
	LIST_HEAD(, lock_owner) owners;
	LIST_HEAD(, lock_waiter) waiters;
	unsigned waiting;
	pthread_cond_t waiter_gone;
};

static void on_signal(int sig)
{
	(void)sig;
}

struct lock_table *locks_new(void)
{
	struct lock_table *l = mem_new(struct lock_table);
	struct sigaction act = {.sa_handler = on_signal}; /* without SA_RESTART */

	sigaction(SIGRTMIN + 1, &act, NULL);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->waiter_gone, NULL);
	return l;
}

/* With the lock. */
static void interrupt(struct lock_waiter *w)
{
	const struct itimerspec soon = {{0, REPEAT_NS}, {0, 1}};

	w->interrupted = true;
	if (w->has_timer)
		timer_settime(w->timer, 0, &soon, NULL);
}

bool fs_interrupt(void *ctx, uint64_t unique)
{
	struct lock_table *l = ((struct fs *)ctx)->locks;
	struct lock_waiter *w;

	pthread_mutex_lock(&l->lock);
	LIST_FOREACH (w, &l->waiters, link)
		if (w->unique == unique)
			break;
	if (w != NULL)
		interrupt(w);
	pthread_mutex_unlock(&l->lock);
	return w != NULL;
}

/* With the lock. */
static void put_owner(struct lock_owner *o)
{
	if (--o->users > 0)
		return;
	LIST_REMOVE(o, link);
	close(o->fd);
	free(o);
}

void locks_free(struct lock_table *l)
{
	struct lock_waiter *w;

	if (l == NULL)
		return;
	pthread_mutex_lock(&l->lock);
	LIST_FOREACH (w, &l->waiters, link)
		interrupt(w);
	while (l->waiting > 0)
		pthread_cond_wait(&l->waiter_gone, &l->lock);
	while (!LIST_EMPTY(&l->owners)) {
		LIST_FIRST(&l->owners)->users = 1;
		put_owner(LIST_FIRST(&l->owners));
	}
	pthread_mutex_unlock(&l->lock);
	pthread_cond_destroy(&l->waiter_gone);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* ---- owners of POSIX locks ---- */

/* With the lock. */
static struct lock_owner *find_owner(struct lock_table *l, uint64_t node, uint64_t owner)
{
	struct lock_owner *o;

	LIST_FOREACH (o, &l->owners, link)
		if (o->node == node && o->owner == owner)
			return o;
	return NULL;
}

/* The owner with one user more; a new one starts with two, the second is its locks. */
static int get_owner(struct fs *fs, uint64_t node, const struct fuse_lk_in *in,
		     const struct fs_handle *h, struct lock_owner **out)
{
	struct lock_table *l = fs->locks;
	char path[BACKING_PROC_PATH];
	struct lock_owner *o, *made;
	int fd;

	pthread_mutex_lock(&l->lock);
	o = find_owner(l, node, in->owner);
	if (o != NULL) {
		o->users++;
		o->handle = in->fh;
	}
	pthread_mutex_unlock(&l->lock);
	*out = o;
	if (o != NULL)
		return 0;
	backing_proc_path(path, h->fd);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = open(path, (fcntl(h->fd, F_GETFL) & O_ACCMODE) | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	made = mem_new(struct lock_owner);
	*made = (struct lock_owner){.node = node, .owner = in->owner, .users = 1, .fd = fd};
	pthread_mutex_lock(&l->lock);
	o = find_owner(l, node, in->owner);
	if (o == NULL) {
		LIST_INSERT_HEAD(&l->owners, made, link);
		o = made;
	} else {
		close(fd);
		free(made);
	}
	o->users++;
	o->handle = in->fh;
	pthread_mutex_unlock(&l->lock);
	*out = o;
	return 0;
}

void locks_flush(struct fs *fs, uint64_t node, uint64_t owner)
{
	struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	struct lock_owner *o;

	pthread_mutex_lock(&fs->locks->lock);
	o = find_owner(fs->locks, node, owner);
	if (o != NULL && o->users == 1)
		put_owner(o);
	else if (o != NULL) /* another thread of the process waits for a lock */
		fcntl(o->fd, F_OFD_SETLK, &all);
	pthread_mutex_unlock(&fs->locks->lock);
}

void locks_release(struct fs *fs, uint64_t handle)
{
	struct lock_owner *o, *next;

	pthread_mutex_lock(&fs->locks->lock);
	for (o = LIST_FIRST(&fs->locks->owners); o != NULL; o = next) {
		next = LIST_NEXT(o, link);
		if (o->handle == handle && o->users == 1)
			put_owner(o);
	}
	pthread_mutex_unlock(&fs->locks->lock);
}

/* ---- requests ---- */

static struct flock range_of(const struct fuse_file_lock *lk)
{
	struct flock f = {
		.l_type = (short)lk->type, .l_whence = SEEK_SET, .l_start = (off_t)lk->start};

	if (lk->end < INT64_MAX) /* else: to the end of the file, however long it gets */
		f.l_len = (off_t)(lk->end - lk->start + 1);
	return f;
}

static void done_with(struct fs *fs, struct lock_owner *o)
{
	pthread_mutex_lock(&fs->locks->lock);
	put_owner(o);
	pthread_mutex_unlock(&fs->locks->lock);
}

/* The pid of an owner in the mount other than the asking one. Where several have locks on the file
 * it may be the wrong one of them: an open file description lock does not say whose it is. */
static uint32_t pid_of_other(struct fs *fs, const struct lock_owner *mine)
{
	const struct lock_owner *o;
	uint32_t pid = 0;

	pthread_mutex_lock(&fs->locks->lock);
	LIST_FOREACH (o, &fs->locks->owners, link)
		if (o->node == mine->node && o != mine && o->pid != 0)
			pid = o->pid;
	pthread_mutex_unlock(&fs->locks->lock);
	return pid;
}

int op_getlk(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_lk_in *in = q->arg;
	struct fuse_lk_out *out = reply_room(r, sizeof(*out));
	struct fs_handle *h = handle_get(fs, in->fh);
	struct flock f = range_of(&in->lk);
	struct lock_owner *o;
	int result;

	if (h == NULL)
		return -EBADF;
	result = get_owner(fs, q->node, in, h, &o);
	if (result < 0)
		return result;
	if (fcntl(o->fd, F_OFD_GETLK, &f) < 0)
		result = -errno;
	out->lk = (struct fuse_file_lock){.start = (uint64_t)f.l_start,
					  .end = f.l_len == 0 ? INT64_MAX
							      : (uint64_t)(f.l_start + f.l_len - 1),
					  .type = (uint32_t)f.l_type};
	if (f.l_type != F_UNLCK)
		out->lk.pid = f.l_pid > 0 ? (uint32_t)f.l_pid : pid_of_other(fs, o);
	done_with(fs, o);
	return result;
}

static int take_lock(struct lock_waiter *w, bool wait)
{
	int r;

	if (w->owner != NULL)
		r = fcntl(w->fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &w->range);
	else
		r = flock(w->fd, wait ? w->how : w->how | LOCK_NB);
	return r < 0 ? -errno : 0;
}

static void *wait_for_lock(void *arg)
{
	struct lock_waiter *w = arg;
	struct lock_table *l = w->fs->locks;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1};
	struct fs_reply r = {0};
	sigset_t set;
	bool stop;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	pthread_mutex_lock(&l->lock);
	w->has_timer = timer_create(CLOCK_MONOTONIC, &event, &w->timer) == 0;
	stop = w->interrupted;
	if (!w->has_timer)
		stop = true; /* it could not be ended later */
	pthread_mutex_unlock(&l->lock);
	r.error = EINTR;
	while (!stop) {
		r.error = -take_lock(w, true);
		if (r.error != EINTR)
			break;
		pthread_mutex_lock(&l->lock);
		stop = w->interrupted;
		pthread_mutex_unlock(&l->lock);
	}
	pthread_mutex_lock(&l->lock);
	LIST_REMOVE(w, link);
	if (w->has_timer)
		timer_delete(w->timer);
	if (w->owner != NULL)
		put_owner(w->owner);
	pthread_mutex_unlock(&l->lock);
	fs_transport_answer(w->fs->transport, w->unique, &r);
	pthread_mutex_lock(&l->lock);
	l->waiting--;
	pthread_cond_broadcast(&l->waiter_gone);
	pthread_mutex_unlock(&l->lock);
	free(w);
	return NULL;
}

/* The request is parked, or cannot wait. Takes the owner's use. */
static int start_waiting(struct fs *fs, const struct lock_waiter *what, struct fs_reply *r)
{
	struct lock_waiter *w = mem_dup(what, sizeof(*what));
	struct lock_table *l = fs->locks;
	pthread_attr_t attr;
	pthread_t thread;
	bool started = false;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, WAITER_STACK > PTHREAD_STACK_MIN ? WAITER_STACK
									  : PTHREAD_STACK_MIN);
	pthread_mutex_lock(&l->lock);
	if (l->waiting < WAITERS_MAX) {
		LIST_INSERT_HEAD(&l->waiters, w, link);
		l->waiting++;
		started = pthread_create(&thread, &attr, wait_for_lock, w) == 0;
		if (!started) {
			l->waiting--;
			LIST_REMOVE(w, link);
		}
	}
	if (!started && w->owner != NULL)
		put_owner(w->owner);
	pthread_mutex_unlock(&l->lock);
	pthread_attr_destroy(&attr);
	if (!started)
		free(w);
	r->parked = started;
	return started ? 0 : -ENOLCK;
}

int op_setlk(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_lk_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);
	struct lock_waiter w = {.fs = fs, .unique = q->unique, .range = range_of(&in->lk)};
	int result = 0;

	if (h == NULL)
		return -EBADF;
	w.fd = h->fd;
	if (in->lk_flags & FUSE_LK_FLOCK) {
		w.how = in->lk.type == F_RDLCK	 ? LOCK_SH
			: in->lk.type == F_WRLCK ? LOCK_EX
						 : LOCK_UN;
	} else {
		result = get_owner(fs, q->node, in, h, &w.owner);
		if (result < 0)
			return result;
		w.owner->pid = in->lk.pid;
		w.fd = w.owner->fd;
	}
	result = take_lock(&w, false);
	if (result == -EAGAIN && q->opcode == FUSE_SETLKW)
		return start_waiting(fs, &w, r);
	if (w.owner != NULL)
		done_with(fs, w.owner);
	return result;
}
