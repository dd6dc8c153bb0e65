// SPDX-License-Identifier: Apache-2.0
/* The table of open files and directories. The kernel does not close a handle while it has a
 * request with it under way, so that a pointer may be used without the lock. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>

int handle_new(struct fs *fs, uint64_t node, int fd, bool executed, uint64_t *fh)
{
	struct fs_handle *h = mem_new(struct fs_handle);
	struct node *n;
	size_t i;

	h->fd = fd;
	h->executed = executed;
	pthread_mutex_init(&h->reading, NULL);
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, node);
	if (n == NULL) {
		pthread_mutex_unlock(&fs->lock);
		pthread_mutex_destroy(&h->reading);
		close(fd);
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
	pthread_mutex_unlock(&fs->lock);
	*fh = h->number;
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

	if (h == NULL)
		return -EBADF;
	pthread_mutex_lock(&fs->lock);
	at = &h->node->handles;
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	node_settle(fs->nodes, h->node);
	fs->handle[fh - 1] = NULL;
	fs->handles--;
	if (fs->handle_hint > fh - 1)
		fs->handle_hint = fh - 1;
	pthread_mutex_unlock(&fs->lock);
	close(h->fd);
	pthread_mutex_destroy(&h->reading);
	free(h->entries);
	free(h);
	return 0;
}
