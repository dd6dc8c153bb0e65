// SPDX-License-Identifier: Apache-2.0
/* The table of open files and directories. The kernel does not close a handle while it has a
 * request with it under way, so that a pointer may be used without the lock. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include "fs/host_changes.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>

/* Files that are read and are not larger are cheaper in the kernel's cache for this file system:
 * see docs/architecture/fs.md. */
#define CACHED_MAX 65536

/* With the lock. All open handles of a node are passed through by one backing id, or none is: the
 * kernel answers EIO otherwise. */
static void choose_mode(struct fs *fs, struct fs_handle *h, bool suits)
{
	bool raised;
	int id;

	if (h->next != NULL) {
		h->backing_id = h->next->backing_id;
	} else if (suits) {
		/* effective only meanwhile */
		raised = caller_set_effective(CAP_SYS_ADMIN, true);
		id = fs_transport_backing_open(fs->transport, h->fd);
		if (raised)
			caller_set_effective(CAP_SYS_ADMIN, false);
		if (id > 0)
			h->backing_id = id;
		else if (id == -EPERM ||
			 id == -ELOOP) /* the backing file system is a stack itself */
			fs->passthrough = false;
	}
}

int handle_new(struct fs *fs, uint64_t node, const struct fs_opened *o, struct fs_open_out *out)
{
	const bool reads = (o->flags & (O_ACCMODE | O_TRUNC)) == O_RDONLY;
	const bool made = o->made && (o->flags & O_ACCMODE) == O_WRONLY && !fs->remote;
	/* Closing any descriptor of a file ends the POSIX locks of the process, and FLUSH tells of
	 * it. The kernel need not send it where locks are not to be expected: see
	 * docs/architecture/fs.md. */
	const bool flush = !(reads || made) || locks_held(fs, node);
	struct fs_handle *h = mem_new(struct fs_handle);
	struct byte_slots *slots = fs->setup.slots;
	bool suits, twin, counted;
	struct node *n;
	struct stat st;
	size_t i;

	suits = fs->passthrough && !(o->flags & O_DIRECTORY) &&
		(!reads || (fstat(o->fd, &st) == 0 && st.st_size > CACHED_MAX));
	h->fd = o->fd;
	h->executed = o->executed;
	pthread_mutex_init(&h->reading, NULL);
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n == NULL) {
		pthread_mutex_unlock(&fs->lock);
		pthread_mutex_destroy(&h->reading);
		close(o->fd);
		free(h);
		return -ESTALE;
	}
	for (i = fs->handle_hint; i < fs->handle_room && fs->handle[i] != NULL; i++)
		;
	if (i == fs->handle_room) {
		fs->handle_room = fs->handle_room * 2 + 16;
		fs->handle = mem_resize(fs->handle, fs->handle_room, sizeof(struct fs_handle *));
		for (size_t j = i; j < fs->handle_room; j++)
			fs->handle[j] = NULL;
	}
	fs->handle[i] = h;
	fs->handle_hint = i + 1;
	fs->handles++;
	h->number = (uint32_t)i + 1;
	h->node = n;
	h->next = n->handles;
	n->handles = h;
	node_keep(fs->nodes, n);
	counted = byte_slots_has(slots, h->number);
	if (counted)
		byte_slots_clear(slots, h->number);
	/* two nodes of one object do not share a page cache */
	twin = !n->directory && node_has_twin(fs->nodes, n);
	choose_mode(fs, h, (counted || slots == NULL) && (suits || (twin && fs->passthrough)));
	out->backing_id = h->backing_id;
	pthread_mutex_unlock(&fs->lock);
	out->fh = h->number;
	if (o->flags & O_DIRECTORY)
		return 0;
	if (!reads)
		host_changes_doubt(fs, node, o->fd);
	/* With AUTO_INVAL_DATA the kernel drops cached pages when it sees another mtime or size. */
	if (out->backing_id > 0)
		out->open_flags = FOPEN_PASSTHROUGH;
	else if (twin)
		out->open_flags = FOPEN_DIRECT_IO;
	else if (fs->features & FUSE_AUTO_INVAL_DATA)
		out->open_flags = FOPEN_KEEP_CACHE;
	if (!flush)
		out->open_flags |= FOPEN_NOFLUSH;
	return 0;
}

struct fs_handle *handle_get(struct fs *fs, uint64_t fh)
{
	struct fs_handle *h;

	pthread_mutex_lock(&fs->lock);
	h = fh > 0 && fh <= fs->handle_room ? fs->handle[fh - 1] : NULL;
	pthread_mutex_unlock(&fs->lock);
	return h;
}

int handle_release(struct fs *fs, uint64_t fh)
{
	struct fs_handle *h = handle_get(fs, fh), **at;
	bool raised, last;
	int unused_id;

	if (h == NULL)
		return -EBADF;
	pthread_mutex_lock(&fs->lock);
	at = &h->node->handles;
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	unused_id = h->node->handles == NULL ? h->backing_id : 0;
	last = h->node->handles == NULL && h->node->open_dir == 0;
	node_settle(fs->nodes, h->node);
	fs->handle[fh - 1] = NULL;
	fs->handles--;
	if (fs->handle_hint > fh - 1)
		fs->handle_hint = fh - 1;
	pthread_mutex_unlock(&fs->lock);
	if (last)
		space_closing(fs, h->fd);
	close(h->fd);
	if (unused_id > 0) {
		raised = caller_set_effective(CAP_SYS_ADMIN, true);
		fs_transport_backing_close(fs->transport, unused_id);
		if (raised)
			caller_set_effective(CAP_SYS_ADMIN, false);
	}
	pthread_mutex_destroy(&h->reading);
	free(h->entries);
	free(h->file);
	free(h);
	return 0;
}
