// SPDX-License-Identifier: Apache-2.0
/* fs/fuse_transport.h - a FUSE connection: its mount, its worker threads, answers, notifications.
 *
 * Each worker reads one request, calls the handler and writes the answer: two system calls. INIT,
 * INTERRUPT and DESTROY never reach the handler, nor do requests that cannot be parsed.
 *
 * A parked request is one whose handler returned without an answer. It holds no worker. Any thread
 * answers it later by its unique number.
 *
 * INTERRUPT: a client that waits was signalled. The kernel goes on waiting until the request is
 * answered (a killed client is in D state meanwhile), so a parked request should then be answered
 * with EINTR. A request that is parked while its INTERRUPT is being read is not missed: the
 * transport calls on_interrupt again when the handler has returned. */
#pragma once
#include "base/err.h"
#include "fs/fuse_request.h"
#include "fs/negotiate.h"

#define FS_MAX_THREADS 64

struct fs_transport;

/* Called by several threads at once. r->out has room for r->size bytes. */
typedef void fs_handle_fn(void *ctx, const struct fs_request *q, struct fs_reply *r);
/* The caller of request `unique` was interrupted. True: the request is parked here (and will be or
 * has been answered); false: not known. May call fs_transport_answer. May be called twice for one
 * request, also after its answer. */
typedef bool fs_interrupt_fn(void *ctx, uint64_t unique);

struct fs_transport_setup {
	fs_handle_fn *handle;
	fs_interrupt_fn *on_interrupt; /* NULL: nothing is ever parked */
	void *ctx;		       /* borrowed; must outlive the transport */
	unsigned threads;	       /* 1 to FS_MAX_THREADS; 0: FS_DEFAULT_THREADS */
	/* Requests come by io_uring where the kernel offers it (the module parameter enable_uring)
	 * and this process may make rings: features.flags has FUSE_OVER_IO_URING then. One thread
	 * per CPU, whatever `threads` is. */
	bool uring;
	struct fs_wanted wanted;
	int device; /* /dev/fuse, taken; 0: it is opened */
	/* The mount. */
	uid_t uid; /* user_id and group_id; only this user may enter unless allow_other */
	gid_t gid;
	bool allow_other;
	bool default_permissions;  /* the kernel checks owner and mode by itself */
	uint64_t mount_attributes; /* MOUNT_ATTR_NOSUID and the like */
};
#define FS_DEFAULT_THREADS 4

/* Makes a detached mount and answers INIT. *mount_fd is the caller's: move_mount
 * puts it into place; the mount is gone when the last of its places and descriptors is. Nothing may
 * be looked at below the mount before fs_transport_run serves it: the caller would wait for itself.
 * E_ENFORCEMENT: no /dev/fuse, no right to mount, or a kernel that is too old. */
int fs_transport_open(const struct fs_transport_setup *s, int *mount_fd, struct fs_transport **out,
		      struct err *err);
const struct fs_features *fs_transport_features(const struct fs_transport *t);
/* Serves until the mount is gone or fs_transport_stop is called; the calling thread is one of the
 * workers. Once per transport. Handles SIGRTMIN in the process. 0, or -errno of a failed thread or
 * device. Parked requests must be answered or forgotten by their owner. */
int fs_transport_run(struct fs_transport *t);
/* Ends the connection, from any thread or a signal handler: clients that wait get ECONNABORTED,
 * later ones ENOTCONN. Handlers that run come to their end. A second call does nothing. */
void fs_transport_stop(struct fs_transport *t);
/* Any thread. Answers a parked request; r->size and r->parked are ignored. 0; -ENOENT: the kernel
 * does not wait for it any more; -errno. */
int fs_transport_answer(struct fs_transport *t, uint64_t unique, const struct fs_reply *r);
/* The kernel forgets a name, or cached data (len 0: to the end; offset -1: the attributes alone) of
 * a node. 0, also if it did not know them, or -errno. Never call these from the handler of a
 * request that changes or looks into the same directory or writes the same node: the kernel holds
 * the lock that it would take here. */
int fs_transport_forget_entry(struct fs_transport *t, uint64_t parent, const char *name);
int fs_transport_forget_data(struct fs_transport *t, uint64_t node, int64_t offset, int64_t len);
/* With FUSE_PASSTHROUGH. Any thread. A number by which an answer of OPEN names the file that the
 * kernel itself reads and writes, or -errno; both calls need CAP_SYS_ADMIN (EPERM). The kernel
 * opens the file anew for each open, with this thread's credentials. It holds files that are open
 * after the number is closed. */
int fs_transport_backing_open(struct fs_transport *t, int fd);
void fs_transport_backing_close(struct fs_transport *t, int id);
void fs_transport_free(struct fs_transport *t); /* after run has returned; NULL is fine */
