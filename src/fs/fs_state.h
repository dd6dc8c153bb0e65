// SPDX-License-Identifier: Apache-2.0
/* fs/fs_state.h - what the files of src/fs that answer requests share. Only they include it.
 *
 * One lock guards nodes, open directories and handles. No system call is made under it, except a
 * dup and the one that makes a backing id. An operation returns 0 or -errno and writes its answer
 * to the reply. */
#pragma once
#include "fs/backing.h"
#include "fs/byte_slots.h"
#include "fs/fs.h"
#include "fs/node.h"
#include "fs/space.h"
#include "gate/gate.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* One open file or directory of the kernel; its number is the kernel's fh. */
struct fs_handle {
	int fd;
	uint32_t number;
	struct node *node;	 /* held by the handle */
	struct fs_handle *next;	 /* of the same node */
	bool executed;		 /* opened by execve, and open while the program runs */
	int backing_id;		 /* of the node, shared by all its handles; 0: not passed through */
	struct watch_file *file; /* its opener; owned; NULL: operations are not watched */
	/* a directory: entries that were read and not sent yet */
	pthread_mutex_t reading;
	char *entries; /* NULL: nothing was read yet */
	size_t begin, end;
	int64_t next_offset; /* of the entry at begin */
};

struct fs {
	struct fs_setup setup;
	struct fs_tree *tree; /* setup.trees of them; tree i is node NODE_TREE + i */
	_Atomic uint64_t requests, request_us, parked; /* as in struct fs_counts */
	struct fs_transport *transport;
	uint64_t features;
	atomic_bool passthrough;
	bool remote; /* the backing file system may tell of a failed write at close */
	struct backing backing;
	pthread_mutex_t lock;
	struct node_table *nodes;
	struct fs_handle **handle; /* by number - 1; NULL: free */
	size_t handles, handle_room, handle_hint;
	struct lock_table *locks;
	struct slow_calls *slow;
	struct space *space;
	struct fs_watch *watch;	      /* NULL: nothing is decided and recorded */
	struct host_changes *changes; /* NULL: nothing is kept longer than configured */
	atomic_uint disk_workers;     /* in operations of slow_call_is_disk */
};

/* An operation returns it if it would have to wait for others and q->may_wait is not set: it then
 * runs again on a thread of its own. Only for requests with one name at most and without data. */
#define FS_MUST_WAIT (-4096)
/* The request waits for an approver. */
#define FS_HELD (-4097)
typedef int fs_op_fn(struct fs *fs, const struct fs_request *q, struct fs_reply *r);

/* Runs the request's operation and sets r->error; it may park the request. */
void fs_run(struct fs *fs, const struct fs_request *q, struct fs_reply *r);

/* ---- answers ---- */

/* Room for the answer, zeroed; the reply is set to its length. */
void *reply_room(struct fs_reply *r, size_t len);
uint64_t fs_number(struct fs *fs, dev_t dev, uint64_t ino); /* that st_ino shows */
/* With the lock. */
void fs_attributes(struct fs *fs, const struct statx *st, struct fuse_attr *out);
void fs_answer_attributes(struct fs *fs, uint64_t node, const struct statx *st, struct fs_reply *r);
/* The node of what was looked up gets one lookup more. -ESTALE: the parent is gone. */
int fs_enter(struct fs *fs, uint64_t parent, const char *name, const struct statx *st,
	     struct fuse_entry_out *out);
int fs_enter_locked(struct fs *fs, uint64_t parent, const char *name, const struct statx *st,
		    struct fuse_entry_out *out);
int fs_backing_flags(const struct fs *fs, uint32_t flags); /* of open, for the backing file */
int fs_wait_flag(const struct fs_request *q); /* O_NONBLOCK where a worker must not wait */
/* The only thread that serves the clients of a CPU: it must not wait for a disk. */
bool fs_is_queue_thread(const struct fs *fs, const struct fs_request *q);

/* A worker copies this much at most before it answers; the caller asks for the rest. */
#define FS_COPY_MAX (16U << 20)

/* ---- what the session adds, where that has a limit: space_ops.c ---- */

/* Runs the operation, or answers ENOSPC. */
int space_run(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run);
/* An object whose name is removed: `name` of the parent in the table, `at` in the directory. */
struct space_removal {
	struct statx st;
	uint64_t node; /* 0: the table does not have it */
	bool known, twin;
};
void space_removing(struct fs *fs, int dir, const char *at, uint64_t parent, const char *name,
		    struct space_removal *out);			  /* before */
void space_removed(struct fs *fs, const struct space_removal *r); /* the name is gone */
/* A descriptor is about to be closed; nothing else holds the object for the kernel. */
void space_closing(struct fs *fs, int fd);

/* ---- handles ---- */

struct fs_opened {
	int fd;
	uint32_t flags; /* of the client's open */
	bool made;	/* the file did not exist before */
	bool executed;
};
/* Takes fd on success and fills the answer; the node gets the handle. -ESTALE closes it. */
int handle_new(struct fs *fs, uint64_t node, const struct fs_opened *o, struct fs_open_out *out);
struct fs_handle *handle_get(struct fs *fs, uint64_t fh); /* NULL: not a number of a handle */
int handle_release(struct fs *fs, uint64_t fh);

/* ---- decisions and events: watch*.c ---- */

struct fs_watch *watch_new(struct fs *fs, const struct fs_watch_setup *s);
void fs_watch_free(struct fs_watch *w);	    /* NULL is fine */
void watch_drop_parked(struct fs_watch *w); /* before that: what waits for room is forgotten */
/* Whether the request has to wait for room. It is then copied, and answered later. */
bool watch_waits(struct fs *fs, const struct fs_request *q);
bool watch_interrupt(struct fs *fs, uint64_t unique); /* false: it does not wait here */
/* Decides, runs and records a request. */
int watch_run(struct fs *fs, const struct fs_request *q, struct fs_reply *r, fs_op_fn *run);
/* With the lock: the set of decisions and the way by which the name in the directory is a node. */
void watch_set(const struct fs *fs, const struct node *dir, const char *name, struct node_key *out);
/* With the lock: whether the policy redirects the name in the directory; name NULL: the directory's
 * own. 1: it leads to `path` below the root of a tree, or another path may lead to it, which is
 * `path`; 0: neither; or -errno. `here`: see policy_redirect. */
struct watch_target {
	int root; /* borrowed */
	char path[POLICY_NAME_MAX];
	bool here;
};
int watch_redirect(const struct fs *fs, const struct node *dir, const char *name,
		   struct watch_target *out);
bool watch_redirects(const struct fs *fs); /* whether any name leads elsewhere */
/* The same of a canonical path. */
int watch_target(const struct fs *fs, const char *path, struct watch_target *out);
/* With the lock: whether another path leads to the name, or it leads to another path. */
bool watch_doubled(const struct fs *fs, const struct node *dir, const char *name);
/* REDIRECTED: the entry is not what the name leads to. */
enum watch_shown { WATCH_NOTHING, WATCH_NAME, WATCH_REDIRECTED, WATCH_ATTRIBUTES };
/* What a listing may show of a name in the node. */
enum watch_shown watch_shown(struct fs *fs, const struct fs_handle *dir, uint64_t node,
			     const char *name);

bool watch_has_room(const struct fs_watch *w);
struct watch_park *watch_park_new(struct fs *fs, const struct fs_watch_setup *s);
void watch_park_free(struct watch_park *p); /* what still waits is forgotten */
bool watch_park(struct watch_park *p, const struct fs_request *q); /* false: no thread */
bool watch_park_interrupt(struct watch_park *p, uint64_t unique);
/* The request waits for an approver, and then runs again with the answer. False: it cannot; k says
 * why. */
bool watch_park_hold(struct watch_park *p, const struct fs_request *q, struct gate_case *k);
/* Whether nothing denies the operations (bits 1 << OP_FILE_…) at the canonical path, and it is
 * shown. */
bool watch_allows(const struct fs *fs, const char *path, unsigned ops);
struct gate *watch_gate(const struct fs *fs);
/* The session may not add what the request would add. h: the open file, or NULL. */
void watch_full(struct fs *fs, const struct fs_request *q, const struct fs_handle *h);

/* ---- whose credentials: caller.c ---- */

/* New objects of this thread belong to the caller until caller_leave. */
void caller_enter(const struct fs *fs, const struct fs_request *q);
void caller_leave(const struct fs *fs);
/* What this thread changes loses its set-user-id and set-group-id bits, as if the caller had
 * changed it. `kill` false: nothing happens. */
void caller_drop_fsetid(const struct fs *fs, bool kill);
void caller_keep_fsetid(const struct fs *fs, bool kill);
int caller_prepare(struct err *err);
/* This thread; a capability below 32. False: it was so before, or is not permitted. */
bool caller_set_effective(unsigned cap, bool on);

/* ---- operations that wait: slow_call.c ---- */

struct slow_calls *slow_calls_new(void);    /* handles SIGRTMIN + 1 */
void slow_calls_free(struct slow_calls *s); /* ends what waits; NULL is fine */
/* Operations that may take as long as the disk does. A signal to the caller does not end them. */
bool slow_call_is_disk(uint32_t opcode);
/* The request is parked and runs on a thread. False: there are too many of them. */
bool slow_call_start(struct fs *fs, const struct fs_request *q);

/* ---- locks ---- */

struct lock_table *locks_new(void);
void locks_free(struct lock_table *l);	       /* after slow_calls_free; NULL is fine */
bool locks_held(struct fs *fs, uint64_t node); /* POSIX locks, by any owner */
/* A file was closed by one of its owners: the locks that the owner has on the node go. */
void locks_flush(struct fs *fs, uint64_t node, uint64_t owner);
/* A handle is closed: so are the owners who came by it and were not flushed. */
void locks_release(struct fs *fs, uint64_t handle);

/* ---- operations, by file ---- */

struct trash_victim;
/* UNLINK that keeps the object in the trash; as trash_take, whose victim lacks only where it is. */
int op_soft_delete(struct fs *fs, const struct fs_request *q, struct trash_victim *v, uint64_t *id);
fs_op_fn op_lookup, op_forget, op_batch_forget, op_symlink, op_mknod, op_mkdir, op_unlink, op_rmdir,
	op_rename, op_rename2, op_link, op_create, op_tmpfile; /* name_ops.c */
fs_op_fn op_getattr, op_setattr, op_readlink, op_statfs, op_access, op_setxattr, op_getxattr,
	op_listxattr, op_removexattr; /* attr_ops.c */
fs_op_fn op_open, op_read, op_write, op_flush, op_release, op_fsync, op_fallocate, op_lseek,
	op_copy_file_range; /* file_ops.c */
fs_op_fn op_opendir, op_readdir, op_readdirplus, op_releasedir, op_fsyncdir,
	op_syncfs;	     /* dir_ops.c */
fs_op_fn op_getlk, op_setlk; /* lock_ops.c */
