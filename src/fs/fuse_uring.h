// SPDX-License-Identifier: Apache-2.0
/* fs/fuse_uring.h - requests and answers by io_uring (Linux 6.14): one ring and one thread per CPU.
 *
 * The kernel has a queue per possible CPU. A client's request goes to the queue of the CPU that it
 * runs on, into the buffer of an entry that waits there; the answer and the wait for the next
 * request are one system call. FORGET, INTERRUPT and notifications stay with /dev/fuse.
 *
 * A parked request keeps its entry. The queue registers another one then, so that as many entries
 * wait in the kernel as before. Entries are answered by the queue's own thread: other threads leave
 * the answer with it. */
#pragma once
#include "fs/fuse_request.h"

#define FS_URING_MAX_QUEUES 63

struct fuse_uring;

/* On the thread of queue `queue`: one request, its bytes in one piece as from /dev/fuse. Sets the
 * answer, or r->parked. */
typedef void fuse_uring_serve_fn(void *arg, unsigned queue, const void *request, size_t len,
				 struct fs_reply *r);

struct fuse_uring_setup {
	fuse_uring_serve_fn *serve;
	void *arg;
	int device; /* borrowed: /dev/fuse */
};

/* How many queues the kernel has; 0: more than are served here. */
unsigned fuse_uring_queues(void);
/* Makes the rings. -errno: this process may not, or has not the memory. */
int fuse_uring_new(const struct fuse_uring_setup *s, struct fuse_uring **out);
/* Serves a queue on the calling thread until fuse_uring_stop. -errno: the kernel refused an entry
 * at the start, and sends requests by /dev/fuse. */
int fuse_uring_run(struct fuse_uring *u, unsigned queue);
/* Any thread. Answers a request that is parked or still with its handler. False: not here. */
bool fuse_uring_answer(struct fuse_uring *u, uint64_t unique, const struct fs_reply *r);
void fuse_uring_stop(struct fuse_uring *u); /* any thread, also in a signal handler */
void fuse_uring_free(struct fuse_uring *u); /* after the threads; NULL is fine */
