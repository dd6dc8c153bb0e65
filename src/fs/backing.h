// SPDX-License-Identifier: Apache-2.0
/* fs/backing.h - from a node to a descriptor in the backing tree.
 *
 * A limited number of directories is kept open, the least recently used one goes first. A directory
 * that is not open is reached from its nearest open ancestor by the names that the table has, with
 * openat2: beneath the root, without following a symbolic link. What is found there must be the
 * object that the node stands for, else the node is stale: the kernel then looks the path up again.
 *
 * A directory whose path a rule redirects is reached from the root by the other path.
 *
 * A rename changes the tree and then the table. A walk between the two may fail; it is then
 * repeated, because the count of renames tells it. */
#pragma once
#include "fs/node.h"
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

struct fs;

/* A directory, or another object that has lost its name. */
struct open_dir {
	int fd;		/* O_PATH; -1: closed */
	uint32_t users; /* it is not closed while it has some */
	uint64_t node;	/* 0: freed; the descriptor is closed soon */
	uint16_t newer, older;
};

/* Guarded by the lock of the file system. */
struct backing {
	struct open_dir *dir; /* 1 to room; entry 0 is the end of the list in both directions */
	uint16_t room, count; /* entries beyond count were never used */
	int *closing;	      /* descriptors of freed nodes; see backing_close_forgotten */
	size_t nclosing;
	uint64_t renames_begun, renames_done;
	uint64_t hits; /* directories that were found open */
	pthread_cond_t rename_done;
};

#define BACKING_STATX (STATX_BASIC_STATS | STATX_BTIME)

#define BACKING_OWNED UINT16_MAX
/* A borrowed directory descriptor. */
struct backing_dir {
	int fd;
	uint16_t entry; /* 0: the root of a tree; BACKING_OWNED: closed when it is put back */
};

void backing_init(struct backing *b, unsigned open_dirs);
void backing_done(struct backing *b);

/* The descriptor (O_PATH) of a directory; 0 or -errno. Put it back soon. */
int backing_get_dir(struct fs *fs, uint64_t node, struct backing_dir *out);
void backing_put_dir(struct fs *fs, struct backing_dir *d);
/* The same of the directory in which the name really is, and the name there: a rule may redirect
 * it. */
int backing_get_name(struct fs *fs, uint64_t parent, const char *name, struct backing_dir *out,
		     char last[NAME_MAX + 1]);

/* Before the name is removed: keeps the object for clients that have it without an open file, as a
 * working directory or by O_PATH, until the kernel forgets the node or others need the room. `at`
 * is the name in the directory `dir`. */
void backing_keep_removed(struct fs *fs, int dir, const char *at, uint64_t parent,
			  const char *name);
/* Closes what is kept by that, where no file is open. */
void backing_drop_removed(struct fs *fs);
/* Closes what the kernel has forgotten. */
void backing_close_forgotten(struct fs *fs);
/* The node of the entry is freed; with the lock. */
void backing_gone(void *fs, uint16_t open_dir); /* node_gone_fn */

/* A new descriptor of the node's object, or -errno. Never follows a symbolic link and never waits
 * for the other end of a FIFO. With O_NONBLOCK it does not wait for the holder of a lease either:
 * FS_MUST_WAIT. O_CREAT, O_EXCL and O_TRUNC are not for this. An object without a name is found by
 * one of its handles, or was kept. */
int backing_open(struct fs *fs, uint64_t node, int flags);
/* The attributes of the node's object. */
int backing_stat(struct fs *fs, uint64_t node, struct statx *st);
/* Whether r means that no descriptor is left and some directories could be closed: try again. */
bool backing_made_room(struct fs *fs, int r);
/* "/proc/self/fd/N", for calls that have no other way to an O_PATH descriptor. */
#define BACKING_PROC_PATH 32
void backing_proc_path(char path[BACKING_PROC_PATH], int fd);

void backing_key(const struct statx *st, struct node_key *out);
/* The key of a directory that is open. 0 or -errno. */
int backing_dir_key(int dir, struct node_key *out);

/* Around a rename in the backing tree and in the table. */
void backing_rename_begin(struct fs *fs);
void backing_rename_end(struct fs *fs);
/* How far the renames were before something was looked at; see backing_moved. */
uint64_t backing_renames(struct fs *fs);
/* With the lock: whether a rename was under way since then. Waits until one is done, if `tries` is
 * not used up. */
bool backing_moved(struct fs *fs, uint64_t before, unsigned *tries);
