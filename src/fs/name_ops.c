// SPDX-License-Identifier: Apache-2.0
/* Operations on names: look up, forget, make, remove, move. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include "fs/host_changes.h"
#include "trash/trash.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static int stat_at(int dir, const char *name, struct statx *st)
{
	return statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, BACKING_STATX, st) < 0
		       ? -errno
		       : 0;
}

/* The kernel asks again for a name that it already has without taking the directory's lock, so that
 * a rename may come between the look and the note in the table: then it looks again. */
int op_lookup(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	struct fuse_entry_out *out = reply_room(r, sizeof(*out));
	unsigned tries = 0;
	bool again = true, known = false, alone = true;
	int result = 0;

	while (again) {
		const uint64_t before = backing_renames(fs);
		char name[NAME_MAX + 1];
		struct backing_dir dir;
		struct statx st;
		struct node *n;

		result = backing_get_name(fs, q->node, q->name[0], &dir, name);
		if (result < 0)
			return result;
		result = stat_at(dir.fd, name, &st);
		backing_put_dir(fs, &dir);
		pthread_mutex_lock(&fs->lock);
		again = backing_moved(fs, before, &tries);
		n = node_get(fs->nodes, q->node);
		if (!again && result == -ENOENT && n != NULL)
			node_remove_name(fs->nodes, n, q->name[0]);
		alone = n == NULL || fs->watch == NULL || !watch_doubled(fs, n, q->name[0]);
		known = n != NULL && node_child(fs->nodes, n, q->name[0]) != NULL;
		if (!again && result == 0)
			result = fs_enter_locked(fs, q->node, q->name[0], &st, out);
		pthread_mutex_unlock(&fs->lock);
	}
	if (result == 0) {
		if (known)
			host_changes_asked(fs, q->node);
		host_changes_seen(fs, out->nodeid, &out->attr);
	}
	if (result == -ENOENT && fs->setup.negative_ms > 0 && alone) {
		out->entry_valid = fs->setup.negative_ms / 1000;
		out->entry_valid_nsec = fs->setup.negative_ms % 1000 * 1000000;
		return 0; /* node 0: the kernel may remember that there is nothing */
	}
	return result;
}

static void forget_one(struct fs *fs, uint64_t node, uint64_t count)
{
	struct node *n;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n != NULL && n->slot != NODE_ROOT)
		node_forget(fs->nodes, n, count);
	pthread_mutex_unlock(&fs->lock);
}

int op_forget(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_forget_in *in = q->arg;

	forget_one(fs, q->node, in->nlookup);
	backing_close_forgotten(fs);
	return 0;
}

int op_batch_forget(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_forget_one *one = q->data;

	for (size_t i = 0; i < q->data_len / sizeof(*one); i++)
		forget_one(fs, one[i].nodeid, one[i].nlookup);
	backing_close_forgotten(fs);
	return 0;
}

/* ---- making ---- */

/* What was made is looked up; if that fails it stays, as after a crash. */
static int enter_new(struct fs *fs, const struct fs_request *q, int dir, const char *name, int made,
		     struct fs_reply *r)
{
	struct fuse_entry_out *out = reply_room(r, sizeof(*out));
	struct statx st;

	if (made == 0)
		made = stat_at(dir, name, &st);
	return made < 0 ? made : fs_enter(fs, q->node, q->name[0], &st, out);
}

int op_mknod(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_mknod_in *in = q->arg;
	char name[NAME_MAX + 1];
	struct backing_dir dir;
	int result;

	/* Only the test program's root makes devices. */
	if ((S_ISCHR(in->mode) || S_ISBLK(in->mode)) && !fs->setup.as_caller)
		return -EPERM;
	result = backing_get_name(fs, q->node, q->name[0], &dir, name);
	if (result < 0)
		return result;
	caller_enter(fs, q);
	result = mknodat(dir.fd, name, in->mode & ~in->umask, in->rdev) < 0 ? -errno : 0;
	caller_leave(fs);
	result = enter_new(fs, q, dir.fd, name, result, r);
	backing_put_dir(fs, &dir);
	return result;
}

int op_mkdir(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_mkdir_in *in = q->arg;
	char name[NAME_MAX + 1];
	struct backing_dir dir;
	int result = backing_get_name(fs, q->node, q->name[0], &dir, name);

	if (result < 0)
		return result;
	caller_enter(fs, q);
	result = mkdirat(dir.fd, name, in->mode & ~in->umask) < 0 ? -errno : 0;
	caller_leave(fs);
	result = enter_new(fs, q, dir.fd, name, result, r);
	backing_put_dir(fs, &dir);
	return result;
}

int op_symlink(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	char name[NAME_MAX + 1];
	struct backing_dir dir;
	int result = backing_get_name(fs, q->node, q->name[0], &dir, name);

	if (result < 0)
		return result;
	caller_enter(fs, q);
	result = symlinkat(q->name[1], dir.fd, name) < 0 ? -errno : 0;
	caller_leave(fs);
	result = enter_new(fs, q, dir.fd, name, result, r);
	backing_put_dir(fs, &dir);
	return result;
}

/* Whether the file has a name in the tree of the directory, or none at all. */
static bool shares_tree(struct fs *fs, uint64_t file, uint64_t dir)
{
	const struct node *n, *d;
	const struct node_name *nm;
	bool shares;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, file);
	d = node_get(fs->nodes, dir);
	nm = n != NULL ? n->names : NULL;
	while (nm != NULL && d != NULL &&
	       ((node_parent(fs->nodes, nm)->set ^ d->set) & ~NODE_ALIAS) != 0)
		nm = nm->next;
	shares = nm != NULL || n == NULL || n->names == NULL;
	pthread_mutex_unlock(&fs->lock);
	return shares;
}

int op_link(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_link_in *in = q->arg;
	cleanup_fd int fd = backing_open(fs, in->oldnodeid, O_PATH | O_NOFOLLOW);
	char path[BACKING_PROC_PATH], name[NAME_MAX + 1];
	struct backing_dir dir;
	int result;

	if (fd < 0)
		return fd;
	result = shares_tree(fs, in->oldnodeid, q->node)
			 ? backing_get_name(fs, q->node, q->name[0], &dir, name)
			 : -EXDEV;
	if (result < 0)
		return result;
	backing_proc_path(path, fd);
	result = linkat(AT_FDCWD, path, dir.fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
	host_changes_doubt(fs, in->oldnodeid, -1);
	result = enter_new(fs, q, dir.fd, name, result, r);
	backing_put_dir(fs, &dir);
	return result;
}

/* Answers with entry and handle; takes the descriptor. */
static int enter_open(struct fs *fs, const struct fs_request *q, const struct fs_opened *o,
		      struct fs_reply *r)
{
	struct {
		struct fuse_entry_out entry;
		struct fs_open_out open;
	} *out = reply_room(r, sizeof(*out));
	struct statx st;
	int result = 0;

	if (statx(o->fd, "", AT_EMPTY_PATH, BACKING_STATX, &st) < 0)
		result = -errno;
	else if (!S_ISREG(st.stx_mode)) /* the kernel would never close it */
		result = -ESTALE;
	else
		result = fs_enter(fs, q->node, q->name[0], &st, &out->entry);
	if (result < 0) {
		close(o->fd);
		return result;
	}
	result = handle_new(fs, out->entry.nodeid, o, &out->open);
	if (result < 0)
		forget_one(fs, out->entry.nodeid, 1);
	return result;
}

int op_create(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_create_in *in = q->arg;
	const bool kill = (in->open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
	const int flags = fs_backing_flags(fs, in->flags) | (int)(in->flags & (O_EXCL | O_TRUNC));
	char name[NAME_MAX + 1];
	struct backing_dir dir;
	struct fs_opened o;
	int fd, result = backing_get_name(fs, q->node, q->name[0], &dir, name);

	if (result < 0)
		return result;
	caller_enter(fs, q);
	caller_drop_fsetid(fs, kill && (in->flags & O_TRUNC));
	do {
		fd = openat(dir.fd, name, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
			    in->mode & ~in->umask & 07777);
		result = fd < 0 ? -errno : 0;
	} while (backing_made_room(fs, result));
	caller_keep_fsetid(fs, kill && (in->flags & O_TRUNC));
	caller_leave(fs);
	backing_put_dir(fs, &dir);
	/* a link, a FIFO or a file with a lease came there meanwhile: the kernel looks again */
	if (result == -ELOOP || result == -ENXIO || result == -EAGAIN)
		return -ESTALE;
	if (result < 0)
		return result;
	o = (struct fs_opened){.fd = fd, .flags = in->flags, .made = in->flags & O_EXCL};
	return enter_open(fs, q, &o, r);
}

int op_tmpfile(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_create_in *in = q->arg;
	const int flags = fs_backing_flags(fs, in->flags) | (int)(in->flags & O_EXCL);
	struct backing_dir dir;
	struct fs_opened o;
	int fd, result = backing_get_dir(fs, q->node, &dir);

	if (result < 0)
		return result;
	caller_enter(fs, q);
	do {
		fd = openat(dir.fd, ".", flags | O_TMPFILE | O_CLOEXEC,
			    in->mode & ~in->umask & 07777);
		result = fd < 0 ? -errno : 0;
	} while (backing_made_room(fs, result));
	caller_leave(fs);
	backing_put_dir(fs, &dir);
	o = (struct fs_opened){.fd = fd, .flags = in->flags, .made = true};
	return result < 0 ? result : enter_open(fs, q, &o, r);
}

/* ---- removing and moving ---- */

/* After the name is gone. */
static void forget_name(struct fs *fs, const struct fs_request *q, int result)
{
	struct node *n;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, q->node);
	if (n != NULL && (result == 0 || result == -ENOENT))
		node_remove_name(fs->nodes, n, q->name[0]);
	pthread_mutex_unlock(&fs->lock);
}

static int remove_at(struct fs *fs, const struct fs_request *q, int flags)
{
	struct space_removal gone;
	char name[NAME_MAX + 1];
	struct backing_dir dir;
	int result = backing_get_name(fs, q->node, q->name[0], &dir, name);

	if (result < 0)
		return result;
	backing_keep_removed(fs, dir.fd, name, q->node, q->name[0]);
	space_removing(fs, dir.fd, name, q->node, q->name[0], &gone);
	result = unlinkat(dir.fd, name, flags) < 0 ? -errno : 0;
	if (result == 0)
		space_removed(fs, &gone);
	backing_put_dir(fs, &dir);
	forget_name(fs, q, result);
	return result;
}

int op_unlink(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return remove_at(fs, q, 0);
}

int op_rmdir(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return remove_at(fs, q, AT_REMOVEDIR);
}

#define COPIED_AT_ONCE 262144 /* a larger file gets a thread of its own */

static bool is_open(struct fs *fs, const struct fs_request *q)
{
	const struct node *n, *child;
	bool open;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, q->node);
	child = n != NULL ? node_child(fs->nodes, n, q->name[0]) : NULL;
	open = child == NULL || child->handles != NULL || node_has_twin(fs->nodes, child);
	pthread_mutex_unlock(&fs->lock);
	return open;
}

int op_soft_delete(struct fs *fs, const struct fs_request *q, struct trash_victim *v, uint64_t *id)
{
	char name[NAME_MAX + 1];
	struct backing_dir dir;
	struct statx st;
	int result = backing_get_name(fs, q->node, q->name[0], &dir, name);

	if (result < 0)
		return result;
	result = stat_at(dir.fd, name, &st);
	if (result == 0 && !q->may_wait && S_ISREG(st.stx_mode) && st.stx_size > COPIED_AT_ONCE)
		result = FS_MUST_WAIT;
	if (result == 0) {
		backing_keep_removed(fs, dir.fd, name, q->node, q->name[0]);
		v->dir = dir.fd;
		v->name = name;
		v->open = is_open(fs, q);
		result = trash_take(fs->setup.trash, v, id);
	}
	backing_put_dir(fs, &dir);
	forget_name(fs, q, result);
	return result;
}

/* A move from a tree to another one would change who names what is below a directory. The kernel
 * does not ask for it, because each tree is a mount. */
static bool are_apart(struct fs *fs, uint64_t a, uint64_t b)
{
	const struct node *n, *m;
	bool apart;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, a);
	m = node_get(fs->nodes, b);
	apart = n != NULL && m != NULL && ((n->set ^ m->set) & ~NODE_ALIAS) != 0;
	pthread_mutex_unlock(&fs->lock);
	return apart;
}

static int rename_to(struct fs *fs, const struct fs_request *q, uint64_t new_parent, unsigned flags)
{
	const bool replaces = !(flags & (RENAME_EXCHANGE | RENAME_NOREPLACE));
	struct space_removal gone = {0};
	char old_name[NAME_MAX + 1], new_name[NAME_MAX + 1];
	struct backing_dir from, to;
	struct node *a, *b;
	bool doubled = false, unknown = false;
	int result = are_apart(fs, q->node, new_parent)
			     ? -EXDEV
			     : backing_get_name(fs, q->node, q->name[0], &from, old_name);

	if (result < 0)
		return result;
	result = backing_get_name(fs, new_parent, q->name[1], &to, new_name);
	if (result < 0) {
		backing_put_dir(fs, &from);
		return result;
	}
	if (replaces) {
		backing_keep_removed(fs, to.fd, new_name, new_parent, q->name[1]);
		space_removing(fs, to.fd, new_name, new_parent, q->name[1], &gone);
	}
	/* what another path made there meanwhile was not decided */
	pthread_mutex_lock(&fs->lock);
	b = node_get(fs->nodes, new_parent);
	unknown = flags == 0 && b != NULL && watch_doubled(fs, b, q->name[1]) &&
		  node_child(fs->nodes, b, q->name[1]) == NULL;
	pthread_mutex_unlock(&fs->lock);
	if (unknown)
		flags = RENAME_NOREPLACE;
	backing_rename_begin(fs);
	result = renameat2(from.fd, old_name, to.fd, new_name, flags) < 0 ? -errno : 0;
	if (unknown && result == -EINVAL) /* this file system has no such flag */
		result = renameat(from.fd, old_name, to.fd, new_name) < 0 ? -errno : 0;
	pthread_mutex_lock(&fs->lock);
	a = node_get(fs->nodes, q->node);
	b = node_get(fs->nodes, new_parent);
	if (result == 0 && a != NULL && b != NULL) {
		doubled = watch_doubled(fs, a, q->name[0]) || watch_doubled(fs, b, q->name[1]);
		node_rename(fs->nodes, a, q->name[0], b, q->name[1], flags & RENAME_EXCHANGE);
	}
	backing_rename_end(fs);
	pthread_mutex_unlock(&fs->lock);
	/* what was kept of an object at its old place is not kept at the new one */
	if (doubled)
		host_changes_lost(fs);
	if (result == 0)
		space_removed(fs, &gone);
	backing_put_dir(fs, &from);
	backing_put_dir(fs, &to);
	if (unknown && result == -EEXIST)
		return -ESTALE; /* the kernel looks again */
	return result;
}

int op_rename(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_rename_in *in = q->arg;

	return rename_to(fs, q, in->newdir, 0);
}

int op_rename2(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_rename2_in *in = q->arg;

	/* a whiteout is a device: see op_mknod */
	if (in->flags & RENAME_WHITEOUT)
		return -EINVAL;
	return rename_to(fs, q, in->newdir, in->flags);
}
