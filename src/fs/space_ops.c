// SPDX-License-Identifier: Apache-2.0
/* Charges operations to the session, where what it adds to the tree has a limit.
 *
 * What an object has on the disk is looked at before and after each operation that may change it.
 * A new object costs INODE_BYTES besides; directories pay for the names in them as they grow. What
 * is removed is given back when nothing holds it any more: no open file, and no descriptor that is
 * kept for clients that have it without one. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>

#define INODE_BYTES 512
#define BLOCK_BYTES 512 /* of stx_blocks */

enum place {
	AT_NONE,
	AT_HANDLE, /* an open file */
	AT_NODE,
	AT_NEW, /* what the operation makes */
};

/* What an operation may change. */
struct tree_change {
	enum place place;
	uint64_t fh, node;
	uint64_t most;	    /* bytes that it adds to the object at most */
	uint64_t from, end; /* not 0: it writes this part of the file */
	uint64_t dir;	    /* a directory that may grow; 0: none */
};

/* What an object has on the disk; `known` false: it could not be looked at. */
struct disk_use {
	bool known;
	struct node_key key;
	uint64_t bytes, size;
	uint32_t links;
};

static struct disk_use look_of(const struct statx *st)
{
	struct disk_use l = {.known = true,
			     .bytes = st->stx_blocks * BLOCK_BYTES,
			     .size = st->stx_size,
			     .links = st->stx_nlink};

	backing_key(st, &l.key);
	return l;
}

static struct disk_use look_fd(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, BACKING_STATX, &st) == 0 ? look_of(&st)
								     : (struct disk_use){0};
}

static struct disk_use look_node(struct fs *fs, uint64_t node)
{
	struct statx st;

	return node != 0 && backing_stat(fs, node, &st) == 0 ? look_of(&st) : (struct disk_use){0};
}

static struct disk_use look_at(struct fs *fs, const struct tree_change *c)
{
	const struct fs_handle *h = c->place == AT_HANDLE ? handle_get(fs, c->fh) : NULL;

	return h != NULL	     ? look_fd(h->fd)
	       : c->place == AT_NODE ? look_node(fs, c->node)
				     : (struct disk_use){0};
}

static void charge(struct fs *fs, const struct disk_use *before, const struct disk_use *after)
{
	if (before->known && after->known)
		space_charge(fs->space, &after->key, (int64_t)(after->bytes - before->bytes),
			     after->bytes + INODE_BYTES);
}

static bool exists(struct fs *fs, uint64_t node, const char *name)
{
	char last[NAME_MAX + 1];
	struct backing_dir dir;
	struct stat st;
	bool found;

	if (backing_get_name(fs, node, name, &dir, last) < 0)
		return false;
	found = fstatat(dir.fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
	backing_put_dir(fs, &dir);
	return found;
}

static struct tree_change writes(uint64_t fh, uint64_t from, uint64_t len)
{
	return (struct tree_change){
		.place = AT_HANDLE, .fh = fh, .most = len, .from = from, .end = from + len};
}

static bool truncates(const struct fs_request *q)
{
	return q->opcode == FUSE_SETATTR
		       ? (((const struct fuse_setattr_in *)q->arg)->valid & FATTR_SIZE) != 0
		       : (((const struct fuse_open_in *)q->arg)->flags & O_TRUNC) != 0;
}

/* False: the operation adds nothing and frees nothing. */
static bool describe(struct fs *fs, const struct fs_request *q, struct tree_change *out)
{
	const struct tree_change at_node = {.place = AT_NODE, .node = q->node},
				 makes = {.place = AT_NEW, .most = INODE_BYTES, .dir = q->node};

	const struct fuse_fallocate_in *allocation = q->arg;
	const struct fuse_copy_file_range_in *copy = q->arg;
	const struct fuse_write_in *write = q->arg;

	*out = at_node;
	switch (q->opcode) {
	case FUSE_WRITE:
		*out = writes(write->fh, write->offset, q->data_len);
		return true;
	case FUSE_FALLOCATE:
		*out = writes(allocation->fh, allocation->offset, allocation->length);
		if (allocation->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE))
			out->most = 0;
		return true;
	case FUSE_COPY_FILE_RANGE:
	case FS_OP_COPY_FILE_RANGE_64:
		*out = writes(copy->fh_out, copy->off_out,
			      copy->len < FS_COPY_MAX ? copy->len : FS_COPY_MAX);
		return true;
	case FUSE_OPEN:
	case FUSE_SETATTR:
		return truncates(q);
	case FUSE_SETXATTR:
		out->most = q->data_len;
		return true;
	case FUSE_REMOVEXATTR:
		return true;
	case FUSE_CREATE: /* the kernel had no such file; it may exist by now */
		*out = makes;
		out->place = exists(fs, q->node, q->name[0]) ? AT_NONE : AT_NEW;
		return out->place == AT_NEW;
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_SYMLINK:
	case FUSE_TMPFILE:
		*out = makes;
		return true;
	case FUSE_LINK:
		*out = (struct tree_change){.most = INODE_BYTES, .dir = q->node};
		return true;
	case FUSE_RENAME: /* begins like fuse_rename2_in */
	case FUSE_RENAME2:
		*out = (struct tree_change){.dir = ((const struct fuse_rename_in *)q->arg)->newdir};
		return true;
	}
	return false;
}

/* A part that is written over adds nothing: a file has at most the blocks up to its end. */
static uint64_t most_added(const struct tree_change *c, const struct disk_use *l)
{
	const uint64_t end = l->size > c->end ? l->size : c->end;
	const uint64_t hole = end > l->bytes ? end - l->bytes : 0;

	return l->known && c->end > 0 && hole < c->most ? hole : c->most;
}

static void charge_new(struct fs *fs, const struct fs_reply *r)
{
	const struct fuse_entry_out *made = r->out;
	const uint64_t bytes = made->attr.blocks * BLOCK_BYTES + INODE_BYTES;
	const struct node *n;
	struct node_key key;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, made->nodeid);
	if (n != NULL)
		node_key(fs->nodes, n, &key);
	pthread_mutex_unlock(&fs->lock);
	if (n != NULL)
		space_charge(fs->space, &key, (int64_t)bytes, bytes);
}

/* The number of the object that must not be changed twice at a time; 0: none. A truncation that
 * waits for a lease holds up no other operation. */
static uint64_t locked_object(struct fs *fs, const struct fs_request *q,
			      const struct tree_change *c)
{
	const struct fs_handle *h = c->place == AT_HANDLE ? handle_get(fs, c->fh) : NULL;
	const struct node *n;
	uint64_t ino;

	if (h != NULL)
		return h->node->ino;
	if (c->place != AT_NODE || q->may_wait)
		return 0;
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, c->node);
	ino = n != NULL ? n->ino : 0;
	pthread_mutex_unlock(&fs->lock);
	return ino;
}

static int run_charged(struct fs *fs, const struct fs_request *q, struct fs_reply *r,
		       const struct tree_change *c, fs_op_fn *run)
{
	const struct disk_use before = look_at(fs, c), dir = look_node(fs, c->dir);
	const uint64_t most = most_added(c, &before);
	bool fits = space_reserve(fs->space, most);
	struct disk_use after;
	int result;

	if (!fits) { /* the kernel forgets what was removed a moment later */
		backing_drop_removed(fs);
		fits = space_reserve(fs->space, most);
	}
	if (!fits) {
		if (fs->watch != NULL)
			watch_full(fs, q, c->place == AT_HANDLE ? handle_get(fs, c->fh) : NULL);
		return -ENOSPC;
	}
	result = run(fs, q, r);
	after = look_at(fs, c);
	charge(fs, &before, &after);
	if (result == 0 && c->place == AT_NEW)
		charge_new(fs, r);
	after = look_node(fs, c->dir);
	charge(fs, &dir, &after);
	space_unreserve(fs->space, most);
	return result;
}

int space_run(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run)
{
	struct tree_change c;
	uint64_t ino;
	int result;

	if (!describe(fs, q, &c))
		return run(fs, q, r);
	ino = locked_object(fs, q, &c);
	if (ino != 0)
		space_lock(fs->space, ino);
	result = run_charged(fs, q, r, &c, run);
	if (ino != 0)
		space_unlock(fs->space, ino);
	return result;
}

/* ---- what is removed ---- */

void space_removing(struct fs *fs, int dir, const char *at, uint64_t parent, const char *name,
		    struct space_removal *out)
{
	const struct node *p, *n;

	*out = (struct space_removal){0};
	if (!space_limited(fs->space) ||
	    statx(dir, at, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, BACKING_STATX, &out->st) < 0)
		return;
	out->known = true;
	pthread_mutex_lock(&fs->lock);
	p = node_get(fs->nodes, parent);
	n = p != NULL ? node_child(fs->nodes, p, name) : NULL;
	out->node = n != NULL ? node_id(n) : 0;
	out->twin = n != NULL && node_has_twin(fs->nodes, n);
	pthread_mutex_unlock(&fs->lock);
}

void space_removed(struct fs *fs, const struct space_removal *r)
{
	const bool last = S_ISDIR(r->st.stx_mode) || r->st.stx_nlink <= 1;
	const struct node *n;
	struct node_key key;
	bool held;

	if (!r->known || !last)
		return;
	backing_key(&r->st, &key);
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, r->node);
	held = n != NULL && (n->handles != NULL || n->open_dir != 0);
	pthread_mutex_unlock(&fs->lock);
	if (r->twin) /* it is not known which of the two is held longer */
		space_forget(fs->space, &key);
	else if (!held)
		space_charge(fs->space, &key, 0, 0);
}

void space_closing(struct fs *fs, int fd)
{
	struct disk_use l;

	if (!space_limited(fs->space))
		return;
	l = look_fd(fd);
	if (l.known && l.links == 0)
		space_charge(fs->space, &l.key, 0, 0);
}
