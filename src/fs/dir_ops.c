// SPDX-License-Identifier: Apache-2.0
/* Listings. The offset of an entry is the backing file system's own, so that a listing may be
 * continued at any place. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include "fs/host_changes.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#define ENTRIES_ROOM 16384

int op_opendir(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	struct fs_open_out *out = reply_room(r, sizeof(*out));
	const struct fs_opened o = {.fd = backing_open(fs, q->node, O_RDONLY | O_DIRECTORY),
				    .flags = O_DIRECTORY};

	int result = o.fd < 0 ? o.fd : handle_new(fs, q->node, &o, out);

	if (result == 0)
		out->open_flags |= host_changes_opened(fs, q->node, o.fd);
	return result;
}

int op_releasedir(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return op_release(fs, q, r);
}

int op_fsyncdir(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return op_fsync(fs, q, r);
}

int op_syncfs(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	if (fs_is_queue_thread(fs, q))
		return FS_MUST_WAIT;
	for (size_t i = 0; i < fs->setup.trees; i++)
		if (syncfs(fs->tree[i].root) < 0)
			return -errno;
	return 0;
}

/* Reads entries at the offset, unless the next one is already there. 0: the end. */
static int fill(struct fs_handle *h, int64_t offset)
{
	long n;

	if (h->entries == NULL) {
		h->entries = mem_alloc(ENTRIES_ROOM);
	} else if (h->next_offset != offset) {
		h->begin = h->end = 0;
	}
	if (h->begin < h->end)
		return 1;
	if (h->next_offset != offset || offset == 0) {
		if (lseek(h->fd, offset, SEEK_SET) < 0)
			return -errno;
		h->next_offset = offset;
	}
	n = syscall(SYS_getdents64, h->fd, h->entries, ENTRIES_ROOM);
	if (n < 0)
		return -errno;
	h->begin = 0;
	h->end = (size_t)n;
	return n > 0;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Every entry but the dots is looked up. One that is gone meanwhile, or that may not be looked at,
 * is listed without attributes: node 0. */
static void enter_listed(struct fs *fs, const struct fs_request *q, int dir, const char *name,
			 struct fuse_entry_out *out)
{
	struct statx st;

	if (!is_dots(name) &&
	    statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, BACKING_STATX, &st) == 0 &&
	    fs_enter(fs, q->node, name, &st, out) == 0)
		host_changes_seen(fs, out->nodeid, &out->attr);
}

static int list(struct fs *fs, const struct fs_request *q, struct fs_reply *r, bool plus)
{
	const struct fuse_read_in *in = q->arg;
	const size_t size = in->size < r->size ? in->size : r->size;
	const size_t head = plus ? sizeof(struct fuse_entry_out) : 0;
	struct fs_handle *h = handle_get(fs, in->fh);
	int64_t offset = (int64_t)in->offset;
	struct backing_dir dir;
	struct node_key key;
	int more;

	if (h == NULL)
		return -EBADF;
	/* a directory that is not where its path leads any more shows nothing */
	if (watch_redirects(fs)) {
		more = backing_get_dir(fs, q->node, &dir);
		if (more < 0)
			return more;
		backing_put_dir(fs, &dir);
	}
	if (plus && offset == 0)
		host_changes_listed(fs, q->node);
	pthread_mutex_lock(&fs->lock);
	node_key(fs->nodes, h->node, &key);
	pthread_mutex_unlock(&fs->lock);
	pthread_mutex_lock(&h->reading);
	while ((more = fill(h, offset)) > 0) {
		const struct dirent64 *e = (const void *)(h->entries + h->begin);
		const size_t len = strlen(e->d_name);
		const enum watch_shown shown = is_dots(e->d_name)
						       ? WATCH_ATTRIBUTES
						       : watch_shown(fs, h, q->node, e->d_name);
		const size_t need = shown == WATCH_NOTHING
					    ? 0
					    : head + FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);
		char *at = (char *)r->out + r->len;
		struct fuse_dirent *d = (void *)(at + head);

		if (r->len + need > size)
			break;
		if (need > 0) {
			memset(at, 0, need);
			if (plus && shown == WATCH_ATTRIBUTES)
				enter_listed(fs, q, h->fd, e->d_name, (void *)at);
			d->ino = fs_number(fs, key.dev, e->d_ino);
			d->off = (uint64_t)e->d_off;
			d->namelen = (uint32_t)len;
			d->type = shown == WATCH_REDIRECTED ? DT_UNKNOWN : e->d_type;
			memcpy(d->name, e->d_name, len);
			r->len += need;
		}
		h->begin += e->d_reclen;
		h->next_offset = offset = e->d_off;
	}
	pthread_mutex_unlock(&h->reading);
	return more < 0 && r->len == 0 ? more : 0;
}

int op_readdir(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return list(fs, q, r, false);
}

int op_readdirplus(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return list(fs, q, r, true);
}
