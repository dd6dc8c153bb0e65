// SPDX-License-Identifier: Apache-2.0
#include "fs/fs.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "fs/fs_state.h"
#include "fs/host_changes.h"
#include <errno.h>
#include <linux/magic.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define OVERFLOW_GID 65534 /* of a group that this user namespace does not have */

/* So many workers wait for the disk at a time; the others serve what needs none. */
#define DISK_WORKERS (FS_DEFAULT_THREADS / 2)

/* An opcode without a row is answered with ENOSYS: the kernel then does without it, or does it by
 * itself. docs/architecture/fs.md lists them. */
static fs_op_fn *const operations[] = {
	[FUSE_LOOKUP] = op_lookup,
	[FUSE_FORGET] = op_forget,
	[FUSE_GETATTR] = op_getattr,
	[FUSE_SETATTR] = op_setattr,
	[FUSE_READLINK] = op_readlink,
	[FUSE_SYMLINK] = op_symlink,
	[FUSE_MKNOD] = op_mknod,
	[FUSE_MKDIR] = op_mkdir,
	[FUSE_UNLINK] = op_unlink,
	[FUSE_RMDIR] = op_rmdir,
	[FUSE_RENAME] = op_rename,
	[FUSE_LINK] = op_link,
	[FUSE_OPEN] = op_open,
	[FUSE_READ] = op_read,
	[FUSE_WRITE] = op_write,
	[FUSE_STATFS] = op_statfs,
	[FUSE_RELEASE] = op_release,
	[FUSE_FSYNC] = op_fsync,
	[FUSE_SETXATTR] = op_setxattr,
	[FUSE_GETXATTR] = op_getxattr,
	[FUSE_LISTXATTR] = op_listxattr,
	[FUSE_REMOVEXATTR] = op_removexattr,
	[FUSE_FLUSH] = op_flush,
	[FUSE_OPENDIR] = op_opendir,
	[FUSE_READDIR] = op_readdir,
	[FUSE_RELEASEDIR] = op_releasedir,
	[FUSE_FSYNCDIR] = op_fsyncdir,
	[FUSE_GETLK] = op_getlk,
	[FUSE_SETLK] = op_setlk,
	[FUSE_SETLKW] = op_setlk,
	[FUSE_ACCESS] = op_access,
	[FUSE_CREATE] = op_create,
	[FUSE_BATCH_FORGET] = op_batch_forget,
	[FUSE_FALLOCATE] = op_fallocate,
	[FUSE_READDIRPLUS] = op_readdirplus,
	[FUSE_RENAME2] = op_rename2,
	[FUSE_LSEEK] = op_lseek,
	[FUSE_COPY_FILE_RANGE] = op_copy_file_range,
	[FUSE_SYNCFS] = op_syncfs,
	[FUSE_TMPFILE] = op_tmpfile,
	[FS_OP_COPY_FILE_RANGE_64] = op_copy_file_range,
};

void *reply_room(struct fs_reply *r, size_t len)
{
	ensure(len <= r->size);
	memset(r->out, 0, len);
	r->len = len;
	return r->out;
}

uint64_t fs_number(struct fs *fs, dev_t dev, uint64_t ino)
{
	uint64_t number;

	pthread_mutex_lock(&fs->lock);
	number = node_number(fs->nodes, dev, ino);
	pthread_mutex_unlock(&fs->lock);
	return number;
}

void fs_attributes(struct fs *fs, const struct statx *st, struct fuse_attr *out)
{
	const dev_t dev = makedev(st->stx_dev_major, st->stx_dev_minor);

	*out = (struct fuse_attr){.ino = node_number(fs->nodes, dev, st->stx_ino),
				  .size = st->stx_size,
				  .blocks = st->stx_blocks,
				  .atime = (uint64_t)st->stx_atime.tv_sec,
				  .mtime = (uint64_t)st->stx_mtime.tv_sec,
				  .ctime = (uint64_t)st->stx_ctime.tv_sec,
				  .atimensec = st->stx_atime.tv_nsec,
				  .mtimensec = st->stx_mtime.tv_nsec,
				  .ctimensec = st->stx_ctime.tv_nsec,
				  .mode = st->stx_mode,
				  .nlink = st->stx_nlink,
				  .uid = st->stx_uid,
				  .gid = st->stx_gid == OVERFLOW_GID && fs->setup.other_gid != 0
						 ? fs->setup.other_gid
						 : st->stx_gid,
				  .rdev = (uint32_t)makedev(st->stx_rdev_major, st->stx_rdev_minor),
				  .blksize = st->stx_blksize};
}

/* Another name of the file may lead to another node, which the kernel changes without a look at
 * this one: attributes of a file with several links are never kept. */
static unsigned attr_ms(const struct fs *fs, const struct statx *st)
{
	return st->stx_nlink > 1 && !S_ISDIR(st->stx_mode) ? 0 : fs->setup.attr_ms;
}

void fs_answer_attributes(struct fs *fs, uint64_t node, const struct statx *st, struct fs_reply *r)
{
	struct fuse_attr_out *out = reply_room(r, sizeof(*out));
	unsigned ms = attr_ms(fs, st);
	const struct node *n;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	ms = n != NULL && n->way != 0 ? 0 : host_changes_attr_ms(fs, n, ms);
	fs_attributes(fs, st, &out->attr);
	pthread_mutex_unlock(&fs->lock);
	out->attr_valid = ms / 1000;
	out->attr_valid_nsec = ms % 1000 * 1000000;
}

/* What a directory belongs to: the tree of its parent. */
static uint32_t tree_set(const struct fs *fs, const struct node *parent, const struct node_key *dir)
{
	const uint32_t tree = parent->set & ~NODE_ALIAS;
	struct node_key first;

	node_key(fs->nodes, node_get(fs->nodes, NODE_TREE), &first);
	return tree != 0 && dir->ino == first.ino && dir->dev == first.dev &&
			       dir->birth == first.birth
		       ? tree | NODE_ALIAS
		       : tree;
}

int fs_enter_locked(struct fs *fs, uint64_t parent, const char *name, const struct statx *st,
		    struct fuse_entry_out *out)
{
	struct node *p = node_get(fs->nodes, parent);
	unsigned ms = attr_ms(fs, st), entry_ms = fs->setup.entry_ms;
	struct node_key key;
	struct node *n;

	if (p == NULL || !p->directory)
		return p == NULL ? -ESTALE : -ENOTDIR;
	backing_key(st, &key);
	if (key.directory)
		key.set = tree_set(fs, p, &key);
	if (fs->watch != NULL) {
		struct node_key name_key;

		watch_set(fs, p, name, &name_key);
		key.way = name_key.way;
		/* the kernel asks each time for what some callers may not know, and for what has
		 * another path, too */
		ms = name_key.set & WATCH_OP(stat) || key.way != 0 ? 0 : ms;
		entry_ms = name_key.set & POLICY_FILE_HIDDEN || key.way != 0 ? 0 : entry_ms;
		if (!key.directory)
			key.set = name_key.set;
	}
	n = node_look_up(fs->nodes, p, name, &key);
	if (node_is_root(fs->nodes, n)) { /* the host shows a tree in itself */
		node_forget(fs->nodes, n, 1);
		return -ELOOP;
	}
	entry_ms = host_changes_name_ms(fs, p, entry_ms);
	ms = host_changes_attr_ms(fs, n, ms);
	out->nodeid = node_id(n);
	out->entry_valid = entry_ms / 1000;
	out->entry_valid_nsec = entry_ms % 1000 * 1000000;
	out->attr_valid = ms / 1000;
	out->attr_valid_nsec = ms % 1000 * 1000000;
	fs_attributes(fs, st, &out->attr);
	return 0;
}

int fs_enter(struct fs *fs, uint64_t parent, const char *name, const struct statx *st,
	     struct fuse_entry_out *out)
{
	int r;

	pthread_mutex_lock(&fs->lock);
	r = fs_enter_locked(fs, parent, name, st, out);
	pthread_mutex_unlock(&fs->lock);
	return r;
}

/* The root of the mount; see struct fs_setup. */
static int run_at_root(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	struct fuse_entry_out *entry;
	struct fuse_attr_out *out;
	char *end;
	unsigned long tree;
	struct statx st;
	int result;

	switch (q->opcode) {
	case FUSE_GETATTR:
		out = reply_room(r, sizeof(*out));
		out->attr = (struct fuse_attr){.ino = NODE_ROOT,
					       .mode = S_IFDIR | 0500,
					       .nlink = 2,
					       .uid = getuid(),
					       .gid = getgid()};
		return 0;
	case FUSE_LOOKUP:
		tree = strtoul(q->name[0], &end, 10);
		if (q->name[0][0] < '0' || q->name[0][0] > '9' || *end != '\0' ||
		    tree >= fs->setup.trees)
			return -EACCES;
		entry = reply_room(r, sizeof(*entry));
		result = backing_stat(fs, NODE_TREE + tree, &st);
		if (result < 0)
			return result;
		pthread_mutex_lock(&fs->lock);
		node_get(fs->nodes, NODE_TREE + tree)->lookups++;
		entry->nodeid = NODE_TREE + tree;
		fs_attributes(fs, &st, &entry->attr);
		pthread_mutex_unlock(&fs->lock);
		return 0;
	case FUSE_STATFS:
	case FUSE_SYNCFS:
	case FUSE_BATCH_FORGET:
	case FUSE_FORGET:
		return operations[q->opcode](fs, q, r);
	default:
		return -EACCES;
	}
}

static int run_operation(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	fs_op_fn *run = operations[q->opcode];

	return space_limited(fs->space) ? space_run(fs, q, r, run) : run(fs, q, r);
}

void fs_run(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	int result;

	if (q->opcode >= ARRAY_LEN(operations) || operations[q->opcode] == NULL) {
		r->error = q->opcode == FUSE_IOCTL ? ENOTTY : ENOSYS;
		return;
	}
	if (q->node == NODE_ROOT)
		result = run_at_root(fs, q, r);
	else
		result = fs->watch != NULL ? watch_run(fs, q, r, run_operation)
					   : run_operation(fs, q, r);
	if (result == FS_MUST_WAIT) {
		r->parked = slow_call_start(fs, q);
		result = r->parked ? 0 : q->opcode == FUSE_SETLKW ? -ENOLCK : -EAGAIN;
	}
	if (result < 0) {
		/* this process has too many open files, and not the caller */
		r->error = result == -EMFILE ? ENFILE : -result;
		r->len = 0;
	}
}

void fs_handle(void *ctx, const struct fs_request *q, struct fs_reply *r)
{
	struct fs *fs = ctx;
	const bool busy = slow_call_is_disk(q->opcode);
	const int64_t begin = clock_mono_us(&clock_system);

	if (fs->watch != NULL && watch_waits(fs, q)) {
		r->parked = true;
		return;
	}
	if (busy && atomic_fetch_add(&fs->disk_workers, 1) >= DISK_WORKERS)
		r->parked = slow_call_start(fs, q);
	if (!r->parked)
		fs_run(fs, q, r);
	if (busy)
		atomic_fetch_sub(&fs->disk_workers, 1);
	fs->requests++;
	fs->request_us += (uint64_t)(clock_mono_us(&clock_system) - begin);
	fs->parked += r->parked;
}

static bool is_remote(int fd)
{
	static const uint32_t kinds[] = {NFS_SUPER_MAGIC,  SMB2_SUPER_MAGIC, CIFS_SUPER_MAGIC,
					 CEPH_SUPER_MAGIC, V9FS_MAGIC,	     FUSE_SUPER_MAGIC,
					 AFS_SUPER_MAGIC,  AFS_FS_MAGIC};
	struct statfs st;

	if (fstatfs(fd, &st) < 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if ((uint32_t)st.f_type == kinds[i])
			return true;
	return false;
}

/* The table with the roots of all trees. 0 or -errno. */
static int make_nodes(struct fs *fs)
{
	struct node_key key[FS_TREES_MAX];
	struct node_key top = {.set = UINT32_MAX, .directory = true};
	int r = 0;

	ensure(fs->setup.trees > 0 && fs->setup.trees <= FS_TREES_MAX);
	for (size_t i = 0; r == 0 && i < fs->setup.trees; i++) {
		r = backing_dir_key(fs->tree[i].root, &key[i]);
		key[i].set = (uint32_t)i;
	}
	if (r < 0)
		return r;
	top.dev = key[0].dev;
	fs->nodes = node_table_new(&top);
	for (size_t i = 0; i < fs->setup.trees; i++)
		node_add_tree(fs->nodes, &key[i], fs->tree[i].shown + 1);
	return 0;
}

int fs_new(const struct fs_setup *s, struct fs **out, struct err *err)
{
	struct fs *fs;
	int r;

	if (s->as_caller) {
		r = caller_prepare(err);
		if (r < 0)
			return r;
	}
	fs = mem_new(struct fs);
	fs->setup = *s;
	fs->tree = mem_dup(s->tree, s->trees * sizeof(*s->tree));
	fs->setup.tree = fs->tree;
	r = make_nodes(fs);
	if (r < 0) {
		free(fs->tree);
		free(fs);
		errno = -r;
		return err_errno(err, E_UNAVAILABLE, "file system",
				 "cannot use the backing directory");
	}
	backing_init(&fs->backing, s->open_dirs);
	for (size_t i = 0; i < s->trees; i++)
		fs->remote |= is_remote(s->tree[i].root);
	pthread_mutex_init(&fs->lock, NULL);
	node_on_gone(fs->nodes, backing_gone, fs);
	fs->locks = locks_new();
	fs->slow = slow_calls_new();
	fs->space = space_new();
	if (s->watch != NULL)
		fs->watch = watch_new(fs, s->watch);
	if (s->kept_ms > 0 && s->entry_ms > 0 && s->attr_ms > 0)
		fs->changes = host_changes_new(fs);
	*out = fs;
	return 0;
}

void fs_attach(struct fs *fs, struct fs_transport *t)
{
	fs->transport = t;
	fs->features = fs_transport_features(t)->flags;
	fs->passthrough = fs->setup.passthrough && (fs->features & FUSE_PASSTHROUGH) != 0;
	/* without EXPIRE_ONLY a name cannot be forgotten alone; WRITEBACK_CACHE is for a tree that
	 * the host does not change */
	if (fs->changes != NULL && (fs->features & FUSE_HAS_EXPIRE_ONLY) != 0 &&
	    (fs->features & FUSE_WRITEBACK_CACHE) == 0)
		host_changes_start(fs);
}

void fs_quiet(struct fs *fs)
{
	if (fs != NULL)
		host_changes_stop(fs);
}

void fs_limit_added(struct fs *fs, uint64_t bytes)
{
	if (bytes > 0)
		fs->passthrough = false;
	space_limit(fs->space, bytes);
}

const struct fs_tree *fs_tree_of(const struct fs *fs, const char *path, const char **rest)
{
	for (size_t i = 0; i < fs->setup.trees; i++)
		if (path_within(path, fs->tree[i].shown)) {
			*rest = path + strlen(fs->tree[i].shown);
			return &fs->tree[i];
		}
	return NULL;
}

void fs_counts(struct fs *fs, struct fs_counts *out)
{
	pthread_mutex_lock(&fs->lock);
	*out = (struct fs_counts){.nodes = node_table_count(fs->nodes) -
					   1, /* the root of the mount */
				  .handles = fs->handles,
				  .requests = fs->requests,
				  .request_us = fs->request_us,
				  .parked = fs->parked,
				  .cache_hits = fs->backing.hits};
	for (unsigned i = 1; i <= fs->backing.count; i++)
		out->open_dirs += fs->backing.dir[i].fd >= 0;
	pthread_mutex_unlock(&fs->lock);
}

void fs_free(struct fs *fs)
{
	if (fs == NULL)
		return;
	fs_quiet(fs);
	if (fs->watch != NULL)
		watch_drop_parked(fs->watch);
	slow_calls_free(fs->slow);
	locks_free(fs->locks);
	for (size_t i = 0; i < fs->handle_room; i++)
		if (fs->handle[i] != NULL)
			handle_release(fs, i + 1);
	free(fs->handle);
	backing_done(&fs->backing);
	node_table_free(fs->nodes);
	host_changes_free(fs->changes);
	space_free(fs->space);
	pthread_mutex_destroy(&fs->lock);
	fs_watch_free(fs->watch);
	free(fs->tree);
	free(fs);
}
