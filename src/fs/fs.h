// SPDX-License-Identifier: Apache-2.0
/* fs/fs.h - the file system: answers the kernel's FUSE requests from a backing directory.
 *
 * Everything is resolved beneath the backing directory, by directory descriptors; see
 * docs/architecture/fs.md. fs_handle runs on several threads at once. */
#pragma once
#include "base/err.h"
#include "fs/fuse_transport.h"
#include "fs/watch.h"
#include <stdbool.h>
#include <stdint.h>

struct byte_slots;
struct fs;
struct trash;

/* A directory that is served. */
struct fs_tree {
	int root;	   /* descriptor of the backing directory; borrowed until fs_free */
	const char *shown; /* its canonical path, by which it is decided: "/workspace"; borrowed */
	const char *real;  /* the same as the host names it; may be NULL; borrowed */
};
#define FS_TREES_MAX 256

/* The root of the mount is a directory of our own, that is for agentsh's processes alone: its names
 * "0", "1" and so on are the trees. Its other operations fail with EACCES. */
struct fs_setup {
	/* Copied; at least one. None is shown in another one. Where another tree contains the
	 * directory of the first one, it is named by the first one. */
	const struct fs_tree *tree;
	size_t trees;
	/* True: this process is root and serves every uid: new objects get the caller's uid and
	 * gid, and the kernel checks permissions (default_permissions). False: it acts with its own
	 * credentials alone, and the backing file system checks them. */
	bool as_caller;
	/* What a group that the mount's user namespace does not have is shown as: the kernel
	 * refuses every change of a file with such a group. 0: as it is. */
	gid_t other_gid;
	unsigned entry_ms, attr_ms; /* how long the kernel may keep names and attributes */
	unsigned negative_ms;	    /* the same for names that do not exist; 0: not at all */
	/* The same where this process learns of the host's changes; 0: nowhere. */
	unsigned kept_ms;
	unsigned marks; /* of fanotify, at most; 0: a part of the user's limit */
	/* The kernel reads and writes files that are large or opened for writing by itself, where
	 * the transport agreed on FUSE_PASSTHROUGH. It needs CAP_SYS_ADMIN, in the threads'
	 * permitted set at least: it is effective only during the one ioctl. The file system then
	 * sees neither READ nor WRITE of them. */
	bool passthrough;
	/* Borrowed. The kernel counts bytes, and only files that have a slot are passed through.
	 * NULL: bytes are those of READ and WRITE. */
	struct byte_slots *slots;
	unsigned open_dirs;		    /* directories kept open; 0: FS_OPEN_DIRS */
	const struct fs_watch_setup *watch; /* copied; NULL: nothing is decided and recorded */
	struct trash *trash; /* for rules that keep what is deleted; borrowed; NULL: none */
};
#define FS_OPEN_DIRS 4096
#define FS_KEPT_MS 300000

/* Before the worker threads start: as_caller sets a secure bit of this thread, and threads inherit
 * it. E_UNAVAILABLE: not root, or the directory cannot be read. Handles SIGRTMIN + 1. */
int fs_new(const struct fs_setup *s, struct fs **out, struct err *err);
/* The transport by which late answers go, and what it agreed on with the kernel. Borrowed; call it
 * before the transport runs. */
void fs_attach(struct fs *fs, struct fs_transport *t);
void fs_handle(void *fs, const struct fs_request *q, struct fs_reply *r); /* fs_handle_fn */
bool fs_interrupt(void *fs, uint64_t unique);				  /* fs_interrupt_fn */
/* Ends the notifications of changes. Call it before fs_transport_stop: while one is sent, the
 * kernel may wait for the answer of a worker. */
void fs_quiet(struct fs *fs);
/* Ends waiting requests and closes everything. After the transport's run has returned, and before
 * the transport is freed. NULL is fine. */
void fs_free(struct fs *fs);

/* What the session may add to all trees, in bytes on the disk; 0: no limit. It is counted from the
 * first limit on. The kernel then reads and writes no file by itself. Any thread. */
void fs_limit_added(struct fs *fs, uint64_t bytes);

/* The tree of a canonical path, and what is behind its root: "" or "/…". NULL: it is in none. */
const struct fs_tree *fs_tree_of(const struct fs *fs, const char *path, const char **rest);

/* Adds the paths of files beside a missing one that have similar names and may be known by a
 * command; only a few. path: canonical. */
void fs_similar(struct fs *fs, const char *path, struct strv *out);
/* The same without a file system. */
struct similar_ask {
	int root; /* the directory that is shown as: */
	const char *shown;
	bool (*allows)(void *arg, const char *path, enum op_file op);
	/* If a rule redirects the directory, writes its path below the root; may be NULL. */
	bool (*redirects)(void *arg, const char *dir, char out[POLICY_NAME_MAX]);
	void *arg;
};
void similar_files(const struct similar_ask *ask, const char *path, struct strv *out);

struct fs_counts {
	size_t nodes, handles, open_dirs;
	/* so far */
	uint64_t requests, request_us; /* and the time until they were answered or parked */
	uint64_t parked;	       /* of them: they waited without a worker */
	uint64_t cache_hits;	       /* directories that were found open */
};
void fs_counts(struct fs *fs, struct fs_counts *out); /* any thread */
