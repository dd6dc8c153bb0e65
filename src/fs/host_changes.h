// SPDX-License-Identifier: Apache-2.0
/* fs/host_changes.h - learns what the host changes in the backing tree, so that the kernel may keep
 * names, attributes and listings longer than the configured times.
 *
 * A directory that is looked into again gets a mark of fanotify; so do its files when their
 * attributes are asked for again. Events of this process are its own operations and are dropped.
 * After an event of another process the kernel forgets what it kept of that object, at most a
 * second after the change. See docs/architecture/fs.md. */
#pragma once
#include "fs/fs_state.h"

/* NULL: nothing is kept longer, because this kernel or this file system cannot tell. */
struct host_changes *host_changes_new(const struct fs *fs);
/* The thread that reads the events. Nothing is marked before. */
void host_changes_start(struct fs *fs);
/* Nothing is marked and no notification is sent any more. While one is sent, the kernel may wait
 * for an answer of the file system: call this before the transport stops. */
void host_changes_stop(struct fs *fs);
void host_changes_free(struct host_changes *c); /* NULL is fine */

/* With the lock: how long the kernel may keep a name in the directory, or the attributes of the
 * node; ms as configured. */
unsigned host_changes_name_ms(const struct fs *fs, const struct node *dir, unsigned ms);
unsigned host_changes_attr_ms(const struct fs *fs, const struct node *n, unsigned ms);

/* A name in the directory was looked up although the kernel had it. */
void host_changes_asked(struct fs *fs, uint64_t dir);
/* The kernel asked for attributes of a file, or saw them with its name. */
void host_changes_seen(struct fs *fs, uint64_t node, const struct fuse_attr *attr);
/* A directory was opened by the descriptor; FOPEN_ flags of the answer. */
uint32_t host_changes_opened(struct fs *fs, uint64_t dir, int fd);
/* A listing begins that tells the kernel names with attributes. */
void host_changes_listed(struct fs *fs, uint64_t dir);
/* The node is changed by the session in a way that the kernel does not see: by a mapping of a file
 * that it reads and writes itself (fd is open for that), or by another node (fd -1). */
void host_changes_doubt(struct fs *fs, uint64_t node, int fd);
/* Nothing that is kept is certain any more: the kernel forgets all of it. */
void host_changes_lost(struct fs *fs);
