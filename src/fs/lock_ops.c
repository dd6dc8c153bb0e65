// SPDX-License-Identifier: Apache-2.0
/* Locks are taken at the backing files, so that host and mount share them.
 *
 * flock: on the handle's descriptor, as the kernel has one handle per open file. POSIX locks belong
 * to a process and a file: each (node, owner) has a descriptor of its own with open file
 * description locks, and closing any descriptor of the file ends them (FLUSH). A client's own open
 * file description locks come as the same requests with an owner that no FLUSH names: they end with
 * the handle (RELEASE).
 *
 * The backing file knows that a range is locked, but not by which owner. The table therefore notes
 * the ranges of each owner: to name the holder, to find deadlocks, and to take the same locks on a
 * descriptor for writing when the first write lock comes. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/queue.h>

#define CHAIN_MAX 10 /* of owners that wait for each other, as in the kernel */

struct held_range {
	uint64_t start, end; /* the last byte; INT64_MAX: however long the file gets */
	short type;
};

struct lock_owner {
	LIST_ENTRY(lock_owner) link;
	uint64_t node, owner;
	uint64_t handle; /* by which it asked last */
	uint32_t pid;	 /* the process that asked last */
	unsigned users;	 /* requests under way; -> closed when the last of them is over */
	int fd;
	bool writable, waits;
	struct held_range wanted; /* while it waits */
	struct held_range *held;
	size_t nheld;
	uint64_t searched; /* the last search for a deadlock that followed it */
};

struct lock_table {
	pthread_mutex_t lock;
	LIST_HEAD(, lock_owner) owners;
	uint64_t searches;
};

struct lock_table *locks_new(void)
{
	struct lock_table *l = mem_new(struct lock_table);

	pthread_mutex_init(&l->lock, NULL);
	return l;
}

/* With the lock. */
static void put_owner(struct lock_owner *o)
{
	if (--o->users > 0)
		return;
	LIST_REMOVE(o, link);
	close(o->fd);
	free(o->held);
	free(o);
}

void locks_free(struct lock_table *l)
{
	if (l == NULL)
		return;
	while (!LIST_EMPTY(&l->owners)) {
		LIST_FIRST(&l->owners)->users = 1;
		put_owner(LIST_FIRST(&l->owners));
	}
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* ---- ranges ---- */

static struct flock flock_of(const struct held_range *h)
{
	return (struct flock){.l_type = h->type,
			      .l_whence = SEEK_SET,
			      .l_start = (off_t)h->start,
			      .l_len = h->end < INT64_MAX ? (off_t)(h->end - h->start + 1) : 0};
}

/* The owner has the range with this type from now on. */
static void note_range(struct lock_owner *o, struct held_range now)
{
	struct held_range *all = mem_alloc((o->nheld + 2) * sizeof(*all));
	size_t n = 0;

	for (size_t i = 0; i < o->nheld; i++) {
		const struct held_range old = o->held[i];

		if (old.type == now.type && old.start <= now.end + 1 && now.start <= old.end + 1) {
			now.start = now.start < old.start ? now.start : old.start;
			now.end = now.end > old.end ? now.end : old.end;
			continue;
		}
		if (old.start < now.start)
			all[n++] = (struct held_range){
				old.start, old.end < now.start ? old.end : now.start - 1, old.type};
		if (old.end > now.end)
			all[n++] = (struct held_range){
				old.start > now.end ? old.start : now.end + 1, old.end, old.type};
	}
	if (now.type != F_UNLCK)
		all[n++] = now;
	free(o->held);
	o->held = all;
	o->nheld = n;
}

/* Something that does not go together with the range. */
static bool holds(const struct lock_owner *o, const struct held_range *range)
{
	for (size_t i = 0; i < o->nheld; i++) {
		const struct held_range *h = &o->held[i];

		if (h->start <= range->end && range->start <= h->end &&
		    (h->type == F_WRLCK || range->type == F_WRLCK))
			return true;
	}
	return false;
}

/* ---- owners of POSIX locks, with the lock ---- */

static struct lock_owner *find_owner(struct lock_table *l, uint64_t node, uint64_t owner)
{
	struct lock_owner *o;

	LIST_FOREACH (o, &l->owners, link)
		if (o->node == node && o->owner == owner)
			return o;
	return NULL;
}

bool locks_held(struct fs *fs, uint64_t node)
{
	struct lock_owner *o;

	pthread_mutex_lock(&fs->locks->lock);
	LIST_FOREACH (o, &fs->locks->owners, link)
		if (o->node == node)
			break;
	pthread_mutex_unlock(&fs->locks->lock);
	return o != NULL;
}

/* A descriptor for writing only if the handle is one: the host cannot execute a file that is open
 * for writing. */
static int open_for_locks(const struct fs_handle *h, bool *writable)
{
	const int access = fcntl(h->fd, F_GETFL) & O_ACCMODE;
	char path[BACKING_PROC_PATH];
	int fd;

	backing_proc_path(path, h->fd);
	fd = open(path, (access == O_RDONLY ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = open(path, access | O_CLOEXEC | O_NONBLOCK);
	*writable = access != O_RDONLY;
	return fd < 0 ? -errno : fd;
}

/* The owner with one user more; a new one starts with two, the second is its locks. */
static int get_owner(struct fs *fs, uint64_t node, const struct fuse_lk_in *in,
		     const struct fs_handle *h, struct lock_owner **out)
{
	struct lock_owner *o = find_owner(fs->locks, node, in->owner);
	bool writable;
	int fd;

	if (o == NULL) {
		fd = open_for_locks(h, &writable);
		if (fd < 0)
			return fd;
		o = mem_new(struct lock_owner);
		o->node = node;
		o->owner = in->owner;
		o->users = 1;
		o->fd = fd;
		o->writable = writable;
		LIST_INSERT_HEAD(&fs->locks->owners, o, link);
	}
	o->users++;
	o->handle = in->fh;
	*out = o;
	return 0;
}

/* The first write lock of an owner that has read locks so far: they are taken a second time, on a
 * descriptor for writing, before the first ones go. */
static int make_writable(struct lock_owner *o, const struct fs_handle *h)
{
	bool writable;
	int fd, r = 0;

	if (o->users > 2) /* another thread of the process waits with the old descriptor */
		return -ENOLCK;
	fd = open_for_locks(h, &writable);
	if (fd < 0)
		return fd;
	for (size_t i = 0; r == 0 && i < o->nheld; i++) {
		struct flock f = flock_of(&o->held[i]);

		r = fcntl(fd, F_OFD_SETLK, &f) < 0 ? -errno : 0;
	}
	if (r < 0) {
		close(fd);
		return r;
	}
	close(o->fd);
	o->fd = fd;
	o->writable = writable;
	return 0;
}

/* Whether `me` would wait for itself: an owner holds the range, waits for another one's, and so on.
 * Open file description locks look the same here; two of them in one process are not followed,
 * because another thread may end them. */
static bool is_deadlock(struct lock_table *l, const struct lock_owner *me,
			const struct lock_owner *waiting, unsigned depth)
{
	struct lock_owner *o, *w;

	LIST_FOREACH (o, &l->owners, link) {
		if (o == waiting || o->node != waiting->node || !holds(o, &waiting->wanted))
			continue;
		if (o->owner == me->owner)
			return true;
		if (o->pid == me->pid || depth == CHAIN_MAX)
			continue;
		LIST_FOREACH (w, &l->owners, link)
			if (w->owner == o->owner && w->waits && w->searched != l->searches) {
				w->searched = l->searches;
				if (is_deadlock(l, me, w, depth + 1))
					return true;
			}
	}
	return false;
}

void locks_flush(struct fs *fs, uint64_t node, uint64_t owner)
{
	struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
	struct lock_owner *o;

	pthread_mutex_lock(&fs->locks->lock);
	o = find_owner(fs->locks, node, owner);
	if (o != NULL && o->users == 1) {
		put_owner(o);
	} else if (o != NULL) { /* another thread of the process waits for a lock */
		fcntl(o->fd, F_OFD_SETLK, &all);
		o->nheld = 0;
	}
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

static struct held_range range_of(const struct fuse_file_lock *lk)
{
	return (struct held_range){lk->start, lk->end < INT64_MAX ? lk->end : INT64_MAX,
				   (short)lk->type};
}

int op_getlk(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_lk_in *in = q->arg;
	struct fuse_lk_out *out = reply_room(r, sizeof(*out));
	struct fs_handle *h = handle_get(fs, in->fh);
	struct held_range range = range_of(&in->lk);
	struct flock f = flock_of(&range);
	struct lock_owner *o, *other;
	int result;

	if (h == NULL)
		return -EBADF;
	pthread_mutex_lock(&fs->locks->lock);
	result = get_owner(fs, q->node, in, h, &o);
	if (result == 0) {
		if (fcntl(o->fd, F_OFD_GETLK, &f) < 0)
			result = -errno;
		out->lk.start = (uint64_t)f.l_start;
		out->lk.end = f.l_len == 0 ? INT64_MAX : (uint64_t)(f.l_start + f.l_len - 1);
		out->lk.type = (uint32_t)f.l_type;
		range = range_of(&out->lk);
		range.type = F_WRLCK; /* it meets a lock of any type */
		LIST_FOREACH (other, &fs->locks->owners, link)
			if (other != o && other->node == o->node && holds(other, &range))
				break;
		if (f.l_type != F_UNLCK && f.l_pid > 0)
			out->lk.pid = (uint32_t)f.l_pid;
		else if (f.l_type != F_UNLCK && other != NULL)
			out->lk.pid = other->pid;
		put_owner(o);
	}
	pthread_mutex_unlock(&fs->locks->lock);
	return result;
}

/* With the lock, which is free while it waits. */
static int set_range(struct fs *fs, const struct fs_request *q, struct lock_owner *o,
		     const struct fs_handle *h)
{
	const struct fuse_lk_in *in = q->arg;
	const struct held_range range = range_of(&in->lk);
	struct flock f = flock_of(&range);
	int r = 0;

	if (in->lk.type != F_UNLCK)
		o->pid = in->lk.pid;
	if (range.type == F_WRLCK && !o->writable)
		r = make_writable(o, h);
	if (r < 0)
		return r;
	if (q->may_wait) {
		o->wanted = range;
		fs->locks->searches++;
		if (is_deadlock(fs->locks, o, o, 0))
			return -EDEADLK;
		o->waits = true;
		pthread_mutex_unlock(&fs->locks->lock);
		r = fcntl(o->fd, F_OFD_SETLKW, &f) < 0 ? -errno : 0;
		pthread_mutex_lock(&fs->locks->lock);
		o->waits = false;
	} else {
		r = fcntl(o->fd, F_OFD_SETLK, &f) < 0 ? -errno : 0;
	}
	if (r == 0)
		note_range(o, range);
	return r == -EAGAIN && q->opcode == FUSE_SETLKW ? FS_MUST_WAIT : r;
}

static int set_flock(const struct fs_request *q, const struct fs_handle *h)
{
	const struct fuse_lk_in *in = q->arg;
	const int how = in->lk.type == F_RDLCK	 ? LOCK_SH
			: in->lk.type == F_WRLCK ? LOCK_EX
						 : LOCK_UN;

	if (flock(h->fd, q->may_wait ? how : how | LOCK_NB) == 0)
		return 0;
	return errno == EAGAIN && q->opcode == FUSE_SETLKW ? FS_MUST_WAIT : -errno;
}

int op_setlk(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_lk_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);
	struct lock_owner *o;
	int result;

	if (h == NULL)
		return -EBADF;
	if (in->lk_flags & FUSE_LK_FLOCK)
		return set_flock(q, h);
	pthread_mutex_lock(&fs->locks->lock);
	result = get_owner(fs, q->node, in, h, &o);
	if (result == 0) {
		result = set_range(fs, q, o, h);
		put_owner(o);
	}
	pthread_mutex_unlock(&fs->locks->lock);
	return result;
}
