// SPDX-License-Identifier: Apache-2.0
#include "fs/backing.h"
#include "base/fdio.h"
#include "base/fnv.h"
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define DIR_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define RENAME_TRIES 8

void backing_key(const struct statx *st, struct node_key *out)
{
	uint32_t birth = 0;

	if (st->stx_mask & STATX_BTIME) {
		birth = fnv32(FNV32, &st->stx_btime.tv_sec, sizeof(st->stx_btime.tv_sec));
		birth = fnv32(birth, &st->stx_btime.tv_nsec, sizeof(st->stx_btime.tv_nsec));
		birth += birth == 0;
	}
	*out = (struct node_key){.ino = st->stx_ino,
				 .dev = makedev(st->stx_dev_major, st->stx_dev_minor),
				 .birth = birth,
				 .directory = S_ISDIR(st->stx_mode)};
}

static bool is_object(const struct statx *st, const struct node_key *key)
{
	struct node_key found;

	backing_key(st, &found);
	return found.ino == key->ino && found.dev == key->dev && found.birth == key->birth &&
	       found.directory == key->directory;
}

static int stat_fd(int fd, struct statx *st)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, BACKING_STATX, st) < 0 ? -errno : 0;
}

/* The fd if it is the object, else -ESTALE and it is closed. */
static int check_fd(int fd, const struct node_key *key)
{
	struct statx st;

	if (stat_fd(fd, &st) == 0 && is_object(&st, key))
		return fd;
	close(fd);
	return -ESTALE;
}

/* The object is elsewhere than the table says; the next name is tried. */
static bool is_lost(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ESTALE || r == -ENXIO;
}

int backing_dir_key(int dir, struct node_key *out)
{
	struct statx st;
	int r = stat_fd(dir, &st);

	if (r == 0 && !S_ISDIR(st.stx_mode))
		r = -ENOTDIR;
	if (r == 0)
		backing_key(&st, out);
	return r;
}

void backing_init(struct backing *b, unsigned open_dirs)
{
	struct rlimit files;

	if (open_dirs == 0)
		open_dirs = FS_OPEN_DIRS;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && open_dirs > files.rlim_cur / 4)
		open_dirs = (unsigned)(files.rlim_cur / 4);
	*b = (struct backing){.room = (uint16_t)open_dirs};
	b->room += b->room == 0;
	b->dir = mem_alloc((b->room + 1U) * sizeof(*b->dir));
	pthread_cond_init(&b->rename_done, NULL);
}

void backing_done(struct backing *b)
{
	if (b->dir == NULL)
		return;
	for (unsigned i = 1; i <= b->count; i++)
		mem_cleanup_fd(&b->dir[i].fd);
	while (b->nclosing > 0)
		close(b->closing[--b->nclosing]);
	free(b->closing);
	free(b->dir);
	pthread_cond_destroy(&b->rename_done);
}

/* ---- renames ---- */

void backing_rename_begin(struct fs *fs)
{
	pthread_mutex_lock(&fs->lock);
	fs->backing.renames_begun++;
	pthread_mutex_unlock(&fs->lock);
}

void backing_rename_end(struct fs *fs)
{
	fs->backing.renames_done++;
	pthread_cond_broadcast(&fs->backing.rename_done);
}

uint64_t backing_renames(struct fs *fs)
{
	uint64_t n;

	pthread_mutex_lock(&fs->lock);
	n = fs->backing.renames_done;
	pthread_mutex_unlock(&fs->lock);
	return n;
}

bool backing_moved(struct fs *fs, uint64_t before, unsigned *tries)
{
	const uint64_t done = fs->backing.renames_done;

	if (fs->backing.renames_begun == before || (*tries)++ >= RENAME_TRIES)
		return false;
	while (fs->backing.renames_begun > fs->backing.renames_done &&
	       fs->backing.renames_done == done)
		pthread_cond_wait(&fs->backing.rename_done, &fs->lock);
	return true;
}

/* ---- open directories, with the lock ---- */

static void unlink_entry(struct backing *b, uint16_t i)
{
	struct open_dir *d = &b->dir[i];

	b->dir[d->newer].older = d->older;
	b->dir[d->older].newer = d->newer;
}

static void make_newest(struct backing *b, uint16_t i)
{
	struct open_dir *d = &b->dir[i];

	d->newer = 0;
	d->older = b->dir[0].older;
	b->dir[d->older].newer = i;
	b->dir[0].older = i;
}

static void use_entry(struct backing *b, uint16_t i, struct backing_dir *out)
{
	b->dir[i].users++;
	unlink_entry(b, i);
	make_newest(b, i);
	*out = (struct backing_dir){.fd = b->dir[i].fd, .entry = i};
}

/* An open file that has lost its name: its entry and its handles are all that is left of it. */
static bool is_removed_file(struct fs *fs, const struct open_dir *d)
{
	const struct node *n = node_get(fs->nodes, d->node);

	return n != NULL && n->handles != NULL && n->names == NULL;
}

static void close_kept(struct fs *fs, int fd)
{
	if (fd < 0)
		return;
	space_closing(fs, fd);
	close(fd);
}

/* An entry for one more directory; 0: all are in use. *old: a descriptor to close, or -1. */
static uint16_t free_entry(struct fs *fs, int *old)
{
	struct backing *b = &fs->backing;
	uint16_t i = b->dir[0].newer; /* the oldest */
	struct node *n;

	*old = -1;
	if (b->count < b->room)
		return ++b->count;
	while (i != 0 && (b->dir[i].users > 0 || is_removed_file(fs, &b->dir[i])))
		i = b->dir[i].newer;
	if (i == 0)
		return 0;
	n = node_get(fs->nodes, b->dir[i].node);
	if (n != NULL)
		n->open_dir = 0;
	unlink_entry(b, i);
	*old = b->dir[i].fd;
	return i;
}

/* Its entry is the next to be used again. */
void backing_gone(void *arg, uint16_t open_dir)
{
	struct backing *b = &((struct fs *)arg)->backing;
	struct open_dir *d = &b->dir[open_dir];

	d->node = 0;
	if (d->users == 0) {
		b->closing = mem_grow(b->closing, b->nclosing, sizeof(int));
		b->closing[b->nclosing++] = d->fd;
		d->fd = -1;
	}
	unlink_entry(b, open_dir);
	d->older = 0;
	d->newer = b->dir[0].newer;
	b->dir[d->newer].older = open_dir;
	b->dir[0].newer = open_dir;
}

void backing_close_forgotten(struct fs *fs)
{
	int *fd;
	size_t n;

	pthread_mutex_lock(&fs->lock);
	fd = fs->backing.closing;
	n = fs->backing.nclosing;
	fs->backing.closing = NULL;
	fs->backing.nclosing = 0;
	pthread_mutex_unlock(&fs->lock);
	while (n > 0)
		close_kept(fs, fd[--n]);
	free(fd);
}

/* Takes the descriptor. */
static void keep_dir(struct fs *fs, uint64_t node, int fd, struct backing_dir *out)
{
	cleanup_fd int extra = -1;
	struct node *n;
	int old = -1;

	*out = (struct backing_dir){.fd = fd, .entry = BACKING_OWNED};
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n != NULL && n->open_dir != 0) { /* another thread was faster */
		extra = fd;
		use_entry(&fs->backing, n->open_dir, out);
	} else if (n != NULL) {
		const uint16_t i = free_entry(fs, &old);

		if (i != 0) {
			fs->backing.dir[i] = (struct open_dir){.fd = fd, .users = 1, .node = node};
			make_newest(&fs->backing, i);
			n->open_dir = i;
			out->entry = i;
		}
	}
	pthread_mutex_unlock(&fs->lock);
	close_kept(fs, old);
}

/* Closes up to so many directories that are not in use; their entries stay, for the next ones.
 * removed: only what has lost its name. */
static bool close_some(struct fs *fs, bool removed)
{
	struct backing *b = &fs->backing;
	int fd[64];
	unsigned n = 0;

	pthread_mutex_lock(&fs->lock);
	for (uint16_t i = b->dir[0].newer; i != 0 && n < ARRAY_LEN(fd); i = b->dir[i].newer) {
		struct node *owner = node_get(fs->nodes, b->dir[i].node);

		if (b->dir[i].users > 0 || b->dir[i].fd < 0 || is_removed_file(fs, &b->dir[i]) ||
		    (removed && (owner == NULL || owner->names != NULL)))
			continue;
		if (owner != NULL)
			owner->open_dir = 0;
		fd[n++] = b->dir[i].fd;
		b->dir[i].fd = -1;
		b->dir[i].node = 0;
	}
	pthread_mutex_unlock(&fs->lock);
	for (unsigned i = 0; i < n; i++)
		close_kept(fs, fd[i]);
	return n > 0;
}

void backing_drop_removed(struct fs *fs)
{
	while (close_some(fs, true))
		;
}

bool backing_made_room(struct fs *fs, int r)
{
	return (r == -EMFILE || r == -ENFILE) && close_some(fs, false);
}

void backing_put_dir(struct fs *fs, struct backing_dir *d)
{
	if (d->entry == BACKING_OWNED) {
		close(d->fd);
	} else if (d->entry != 0) {
		struct open_dir *o = &fs->backing.dir[d->entry];
		int gone = -1;

		pthread_mutex_lock(&fs->lock);
		if (--o->users == 0 && o->node == 0) {
			gone = o->fd;
			o->fd = -1;
		}
		pthread_mutex_unlock(&fs->lock);
		close_kept(fs, gone);
	}
	d->fd = -1;
	d->entry = 0;
}

/* ---- the way to a directory ---- */

/* Names from an open ancestor down. */
struct dir_way {
	struct backing_dir from;
	struct node_key key; /* of what must be at its end */
	char *text;	     /* filled from its end */
	size_t room, begin;
};

static void prepend(struct dir_way *w, const char *name)
{
	const size_t len = strlen(name) + 1; /* with a slash or the NUL behind it */

	if (w->begin < len) {
		const size_t room = 2 * w->room + len, used = w->room - w->begin;
		char *text = mem_alloc(room);

		if (used > 0)
			memcpy(text + room - used, w->text + w->begin, used);
		free(w->text);
		w->text = text;
		w->begin = room - used;
		w->room = room;
	}
	w->begin -= len;
	memcpy(w->text + w->begin, name, len - 1);
	w->text[w->begin + len - 1] = w->begin + len == w->room ? '\0' : '/';
}

/* The directory of a tree whose root the node is; -1: of none. */
static int tree_root(const struct fs *fs, uint64_t node)
{
	return node >= NODE_TREE && node - NODE_TREE < fs->setup.trees
		       ? fs->tree[node - NODE_TREE].root
		       : -1;
}

/* With the lock: a way from the root of a tree, by a path below it. */
static void way_from_root(const struct watch_target *to, struct dir_way *w)
{
	prepend(w, to->path);
	w->from = (struct backing_dir){.fd = to->root};
}

/* With the lock. 0: the node itself is open or a root (`from` is it), 1: there is a way to go. */
static int find_way(struct fs *fs, uint64_t node, struct dir_way *w)
{
	struct node *n = node_get(fs->nodes, node);
	struct watch_target to;
	int r;

	if (n == NULL)
		return -ESTALE;
	if (!n->directory)
		return -ENOTDIR;
	if (n->slot == NODE_ROOT)
		return -EACCES;
	node_key(fs->nodes, n, &w->key);
	/* What has several paths may have been moved by another one, so that the way is gone each
	 * time: the policy decided about what is there now. */
	r = watch_redirect(fs, n, NULL, &to);
	if (r != 0) {
		if (r > 0)
			way_from_root(&to, w);
		return r;
	}
	for (; !node_is_root(fs->nodes, n) && n->open_dir == 0;
	     n = node_parent(fs->nodes, n->names)) {
		if (n->names == NULL)
			return -ESTALE;
		prepend(w, n->names->text);
	}
	w->from = (struct backing_dir){.fd = tree_root(fs, node_id(n))};
	if (!node_is_root(fs->nodes, n))
		use_entry(&fs->backing, n->open_dir, &w->from);
	return w->begin < w->room;
}

/* Goes in steps that the kernel takes: less than PATH_MAX bytes. */
static int walk_down(struct fs *fs, const struct dir_way *w)
{
	cleanup_fd int at = -1;
	char *text = w->text + w->begin, *end;

	for (;;) {
		const int from = at >= 0 ? at : w->from.fd;
		char *cut = NULL;
		int fd;

		if (strlen(text) >= PATH_MAX) {
			cut = text + PATH_MAX - 1;
			while (*cut != '/')
				cut--;
			*cut = '\0';
		}
		end = text + strlen(text);
		do
			fd = fdio_openat2(from, text, DIR_FLAGS, BENEATH);
		while (fd < 0 && backing_made_room(fs, -errno));
		if (fd < 0)
			return -errno;
		mem_cleanup_fd(&at);
		at = fd;
		if (cut == NULL)
			return take_fd(at);
		text = end + 1;
	}
}

/* A descriptor of the same object as one of the node's handles or as its entry, or -ESTALE. placed:
 * not if the object has several paths, of which another one may have been changed. */
static int dup_known(struct fs *fs, uint64_t node, bool placed)
{
	struct watch_target to;
	struct node *n;
	int fd = -ESTALE;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n != NULL && placed && n->names != NULL && watch_redirect(fs, n, NULL, &to) != 0)
		n = NULL;
	if (n != NULL && (n->handles != NULL || n->open_dir != 0)) {
		fd = n->handles != NULL ? n->handles->fd : fs->backing.dir[n->open_dir].fd;
		fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (fd < 0)
			fd = -errno;
	}
	pthread_mutex_unlock(&fs->lock);
	return fd;
}

int backing_get_dir(struct fs *fs, uint64_t node, struct backing_dir *out)
{
	unsigned tries = 0;
	bool again = true;
	int r = 0;

	while (again) {
		struct dir_way w = {0};
		uint64_t before;

		pthread_mutex_lock(&fs->lock);
		before = fs->backing.renames_done;
		r = find_way(fs, node, &w);
		fs->backing.hits += r == 0;
		pthread_mutex_unlock(&fs->lock);
		if (r == 0) {
			*out = w.from;
			free(w.text);
			return 0;
		}
		if (r > 0) {
			r = walk_down(fs, &w);
			r = r >= 0 ? check_fd(r, &w.key) : r;
			backing_put_dir(fs, &w.from);
		}
		free(w.text);
		if (r >= 0) {
			keep_dir(fs, node, r, out);
			return 0;
		}
		pthread_mutex_lock(&fs->lock);
		again = is_lost(r) && backing_moved(fs, before, &tries);
		pthread_mutex_unlock(&fs->lock);
	}
	if (is_lost(r)) {
		r = dup_known(fs, node, true);
		if (r >= 0)
			*out = (struct backing_dir){.fd = r, .entry = BACKING_OWNED};
	}
	return r < 0 ? r : 0;
}

int backing_get_name(struct fs *fs, uint64_t parent, const char *name, struct backing_dir *out,
		     char last[NAME_MAX + 1])
{
	struct dir_way w = {0};
	struct watch_target to;
	const struct node *n;
	char *slash;
	int r;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, parent);
	r = n != NULL ? watch_redirect(fs, n, name, &to) : 0;
	pthread_mutex_unlock(&fs->lock);
	if (r < 0)
		return r;
	strcpy(last, name);
	if (r == 0 || !to.here)
		return backing_get_dir(fs, parent, out);
	slash = strrchr(to.path, '/');
	if (strlen(slash != NULL ? slash + 1 : to.path) > NAME_MAX)
		return -ENAMETOOLONG;
	strcpy(last, slash != NULL ? slash + 1 : to.path);
	*out = (struct backing_dir){.fd = to.root};
	if (slash == NULL)
		return 0;
	*slash = '\0';
	way_from_root(&to, &w);
	r = walk_down(fs, &w);
	free(w.text);
	*out = (struct backing_dir){.fd = r, .entry = BACKING_OWNED};
	return r < 0 ? r : 0;
}

/* ---- any object ---- */

void backing_proc_path(char path[BACKING_PROC_PATH], int fd)
{
	snprintf(path, BACKING_PROC_PATH, "/proc/self/fd/%d", fd);
}

/* Another descriptor of the same object; takes fd. */
static int reopen(int fd, int flags)
{
	char path[BACKING_PROC_PATH];
	int r;

	if (fd < 0 || (flags & O_PATH))
		return fd;
	backing_proc_path(path, fd);
	r = open(path, flags | O_CLOEXEC);
	r = r < 0 ? -errno : r;
	close(fd);
	return r;
}

struct reach {
	int flags;	  /* of open */
	struct statx *st; /* not NULL: the attributes are wanted, not a descriptor */
};

static int reach_name(const struct reach *want, int dir, const char *name,
		      const struct node_key *key)
{
	int fd;

	if (want->st != NULL) {
		if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, BACKING_STATX,
			  want->st) < 0)
			return -errno;
		return is_object(want->st, key) ? 0 : -ESTALE;
	}
	/* O_NONBLOCK: a FIFO may have taken the file's place */
	fd = openat(dir, name, want->flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0)
		return check_fd(fd, key);
	if (errno != EAGAIN ||
	    want->flags & O_NONBLOCK) /* a lease: its holder has to be waited for */
		return -errno;
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : reopen(check_fd(fd, key), want->flags);
}

/* Tries the names one after the other. */
static int reach_names(struct fs *fs, uint64_t node, const struct reach *want)
{
	struct node_key key;
	int r = -ESTALE;

	for (unsigned i = 0;; i++) {
		char name[NAME_MAX + 1], last[NAME_MAX + 1];
		const struct node_name *nm;
		struct backing_dir dir;
		uint64_t parent = 0;
		struct node *n;

		pthread_mutex_lock(&fs->lock);
		n = node_get(fs->nodes, node);
		nm = n != NULL ? n->names : NULL;
		for (unsigned skip = i; nm != NULL && skip > 0; skip--)
			nm = nm->next;
		if (nm != NULL) {
			node_key(fs->nodes, n, &key);
			parent = node_id(node_parent(fs->nodes, nm));
			strcpy(name, nm->text);
		}
		pthread_mutex_unlock(&fs->lock);
		if (nm == NULL)
			return r;
		r = backing_get_name(fs, parent, name, &dir, last);
		if (r == 0) {
			do
				r = reach_name(want, dir.fd, last, &key);
			while (backing_made_room(fs, r));
			backing_put_dir(fs, &dir);
		}
		if (!is_lost(r))
			return r;
	}
}

static int reach(struct fs *fs, uint64_t node, const struct reach *want)
{
	unsigned tries = 0;
	bool again = true;
	int r = 0;

	while (again) {
		const uint64_t before = backing_renames(fs);

		r = reach_names(fs, node, want);
		pthread_mutex_lock(&fs->lock);
		again = is_lost(r) && backing_moved(fs, before, &tries);
		pthread_mutex_unlock(&fs->lock);
	}
	return is_lost(r) ? -ESTALE : r;
}

int backing_open(struct fs *fs, uint64_t node, int flags)
{
	const struct reach want = {.flags = flags};
	const int root = tree_root(fs, node);
	int r;

	if (node == NODE_ROOT)
		return -EACCES;
	if (root >= 0) {
		r = openat(root, ".", flags | O_CLOEXEC);
		return r < 0 ? -errno : r;
	}
	r = reach(fs, node, &want);
	if (r == -ESTALE)
		r = reopen(dup_known(fs, node, true), flags);
	return r == -EAGAIN ? FS_MUST_WAIT : r;
}

int backing_stat(struct fs *fs, uint64_t node, struct statx *st)
{
	const struct reach want = {.st = st};
	struct backing_dir dir;
	struct node *n;
	bool open;
	int r;

	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	open = n != NULL && (node_is_root(fs->nodes, n) || (n->directory && n->open_dir != 0));
	pthread_mutex_unlock(&fs->lock);
	if (!open) {
		r = reach(fs, node, &want);
		if (r != -ESTALE)
			return r;
	}
	if (open) {
		r = backing_get_dir(fs, node, &dir);
	} else {
		r = dup_known(fs, node, false);
		dir = (struct backing_dir){.fd = r, .entry = BACKING_OWNED};
	}
	if (r < 0)
		return r;
	r = stat_fd(dir.fd, st);
	backing_put_dir(fs, &dir);
	return r;
}

void backing_keep_removed(struct fs *fs, int dir, const char *at, uint64_t parent, const char *name)
{
	const struct node *p, *n;
	struct backing_dir kept;
	struct node_key key;
	uint64_t id = 0;
	int fd;

	pthread_mutex_lock(&fs->lock);
	p = node_get(fs->nodes, parent);
	n = p != NULL ? node_child(fs->nodes, p, name) : NULL;
	if (n != NULL && n->handles == NULL && n->open_dir == 0 && n->names->next == NULL) {
		id = node_id(n);
		node_key(fs->nodes, n, &key);
	}
	pthread_mutex_unlock(&fs->lock);
	fd = id != 0 ? openat(dir, at, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (fd >= 0)
		fd = check_fd(fd, &key);
	if (fd >= 0) {
		keep_dir(fs, id, fd, &kept);
		backing_put_dir(fs, &kept);
	}
}
