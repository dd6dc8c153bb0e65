// SPDX-License-Identifier: Apache-2.0
/* What the kernel does (fs/fuse/dev_uring.c): a request takes an entry that waits in its queue, or
 * waits itself. A waiting request is taken only when an entry of the queue is answered; an entry
 * that is registered meanwhile does not take it. If a request was parked, and nothing was answered
 * since, this file therefore makes the kernel send a request of its own (NOTIFY_REPLY), and its
 * answer takes the first one that waits. */
#include "fs/fuse_uring.h"
#include "base/mem.h"
#include "fs/negotiate.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define RING_ROOM 64
#define ENTRIES 16 /* of a queue that wait for requests; the least that is kept free is half */
#define OWN_REQUEST (UINT64_C(1) << 62) /* the kernel's numbers are less */
#define RING_FLAGS                                                                    \
	(IORING_SETUP_SQE128 | IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | \
	 IORING_SETUP_DEFER_TASKRUN)

/* A page with the headers at its begin and a request's head at its end, then the payload. */
struct uring_entry {
	SLIST_ENTRY(uring_entry) all;
	STAILQ_ENTRY(uring_entry) answered;
	struct fs_uring_headers *headers;
	uint8_t *payload;
	struct iovec parts[2];
	enum { ENTRY_FREE, ENTRY_IN_HAND, ENTRY_PARKED } state;
	uint64_t unique; /* unless it is free: the request in it */
	bool used;	 /* it has had a request */
	/* Of another thread. out is the payload; an answer that comes before the handler has
	 * returned owns its memory. */
	struct fs_reply answer;
	bool has_early;
};

struct uring_queue {
	struct fuse_uring *u;
	unsigned number;
	int ring, wake;
	uint8_t *reply; /* FS_MAX_IO: the payload still has the request's names and data */
	void *sq_map, *cq_map;
	size_t sq_len, cq_len;
	uint8_t *submissions; /* 128 bytes each */
	struct io_uring_cqe *completions;
	_Atomic uint32_t *sq_tail, *cq_head, *cq_tail;
	uint32_t sq_mask, cq_mask, unsubmitted;
	unsigned entries, parked;
	bool may_wait;	      /* a request may wait for an answer of this queue */
	bool committed;	      /* since the last enter() */
	uint64_t asked;	      /* for requests of our own */
	pthread_mutex_t lock; /* of the entries' states and of the lists */
	SLIST_HEAD(, uring_entry) all;
	STAILQ_HEAD(, uring_entry) answered;
};

struct fuse_uring {
	struct fuse_uring_setup setup;
	atomic_bool stopped;
	atomic_int failed; /* -errno of an entry that the kernel refused at the start */
	unsigned nqueues;
	size_t page;
	struct uring_queue queue[];
};

unsigned fuse_uring_queues(void)
{
	const long n = sysconf(_SC_NPROCESSORS_CONF);

	return n > 0 && n <= FS_URING_MAX_QUEUES ? (unsigned)n : 0;
}

/* ---- the ring ---- */

static void *map_part(struct uring_queue *q, size_t len, off_t part)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, q->ring, part);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, len, MADV_DONTFORK);
	return p;
}

/* The kernel takes the commands back, and with them the device, when the ring has neither a
 * descriptor nor a mapping. */
static void close_ring(struct uring_queue *q)
{
	if (q->sq_map != NULL)
		munmap(q->sq_map, q->sq_len);
	if (q->cq_map != NULL)
		munmap(q->cq_map, q->cq_len);
	if (q->submissions != NULL)
		munmap(q->submissions, (q->sq_mask + 1) * 128UL);
	q->sq_map = q->cq_map = q->submissions = NULL;
	if (q->ring >= 0)
		close(q->ring);
	q->ring = -1;
}

static int make_ring(struct uring_queue *q)
{
	/* A ring makes system calls that no seccomp filter sees: this one makes two kinds. */
	struct io_uring_restriction only[] = {
		{.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_URING_CMD},
		{.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_POLL_ADD},
	};
	struct io_uring_params p = {.flags = RING_FLAGS};
	uint32_t *order;

	q->ring = (int)syscall(SYS_io_uring_setup, RING_ROOM, &p);
	q->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->ring < 0 || q->wake < 0 ||
	    syscall(SYS_io_uring_register, q->ring, IORING_REGISTER_RESTRICTIONS, only,
		    ARRAY_LEN(only)) < 0)
		return -errno;
	q->sq_len = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
	q->sq_mask = p.sq_entries - 1;
	q->cq_len = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	q->sq_map = map_part(q, q->sq_len, IORING_OFF_SQ_RING);
	q->cq_map = map_part(q, q->cq_len, IORING_OFF_CQ_RING);
	q->submissions = map_part(q, p.sq_entries * 128UL, IORING_OFF_SQES);
	q->reply =
		mmap(NULL, FS_MAX_IO, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q->sq_map == NULL || q->cq_map == NULL || q->submissions == NULL ||
	    q->reply == MAP_FAILED)
		return -ENOMEM;
	q->sq_tail = (void *)((char *)q->sq_map + p.sq_off.tail);
	q->cq_head = (void *)((char *)q->cq_map + p.cq_off.head);
	q->cq_tail = (void *)((char *)q->cq_map + p.cq_off.tail);
	q->completions = (void *)((char *)q->cq_map + p.cq_off.cqes);
	q->cq_mask = p.cq_entries - 1;
	order = (void *)((char *)q->sq_map + p.sq_off.array);
	for (uint32_t i = 0; i < p.sq_entries; i++)
		order[i] = i;
	return 0;
}

static void enter(struct uring_queue *q, unsigned wait)
{
	const long n = syscall(SYS_io_uring_enter, q->ring, q->unsubmitted, wait,
			       IORING_ENTER_GETEVENTS, NULL, 0);

	if (n > 0)
		q->unsubmitted -= (uint32_t)n;
}

/* A cleared submission; the kernel takes it with the next enter(). */
static struct io_uring_sqe *submission(struct uring_queue *q)
{
	const uint32_t tail = atomic_load_explicit(q->sq_tail, memory_order_relaxed);
	struct io_uring_sqe *s = (void *)(q->submissions + (tail & q->sq_mask) * 128UL);

	while (q->unsubmitted > q->sq_mask)
		enter(q, 0);
	memset(s, 0, 128);
	q->unsubmitted++;
	atomic_store_explicit(q->sq_tail, tail + 1, memory_order_release);
	return s;
}

static void submit_command(struct uring_queue *q, struct uring_entry *e, uint32_t command)
{
	struct io_uring_sqe *s = submission(q);
	struct fs_uring_command *c = (void *)s->cmd;

	s->opcode = IORING_OP_URING_CMD;
	s->fd = q->u->setup.device;
	s->cmd_op = command;
	s->user_data = (uintptr_t)e;
	c->commit_id = e->unique;
	c->queue = (uint16_t)q->number;
	if (command == FS_URING_REGISTER) {
		s->addr = (uintptr_t)e->parts;
		s->len = 2;
	}
}

static void listen_to_wake(struct uring_queue *q)
{
	struct io_uring_sqe *s = submission(q);

	s->opcode = IORING_OP_POLL_ADD;
	s->fd = q->wake;
	s->poll32_events = POLLIN;
}

/* ---- entries ---- */

/* False: no memory; the queue goes on with fewer. */
static bool add_entry(struct uring_queue *q)
{
	const size_t page = q->u->page;
	uint8_t *at = mmap(NULL, page + FS_MAX_IO, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct uring_entry *e;

	if (at == MAP_FAILED)
		return false;
	e = mem_new(struct uring_entry);
	e->headers = (void *)at;
	e->payload = at + page;
	e->parts[0] = (struct iovec){at, sizeof(*e->headers)};
	e->parts[1] = (struct iovec){e->payload, FS_MAX_IO};
	pthread_mutex_lock(&q->lock);
	SLIST_INSERT_HEAD(&q->all, e, all);
	pthread_mutex_unlock(&q->lock);
	q->entries++;
	submit_command(q, e, FS_URING_REGISTER);
	return true;
}

static void commit(struct uring_queue *q, struct uring_entry *e, const struct fs_reply *r)
{
	struct fuse_out_header *h = (void *)e->headers->in_out;
	const size_t len = r->error == 0 ? r->len : 0;

	if (len > 0 && r->out != e->payload)
		memcpy(e->payload, r->out, len);
	*h = (struct fuse_out_header){
		.len = (uint32_t)(sizeof(*h) + len), .error = -r->error, .unique = e->unique};
	e->headers->io.payload_size = (uint32_t)len;
	submit_command(q, e, FS_URING_COMMIT_AND_FETCH);
	q->committed = true;
}

/* Makes the kernel send NOTIFY_REPLY to the queue of this thread's CPU. False: it does not know the
 * node, or it is a directory and the kernel wants a file (Linux 6.18.44). */
static bool ask_at(struct uring_queue *q, uint64_t node)
{
	struct {
		struct fuse_out_header head;
		struct fuse_notify_retrieve_out out;
	} message = {
		.head = {.len = sizeof(message), .error = FUSE_NOTIFY_RETRIEVE},
		.out = {.notify_unique = OWN_REQUEST + 2 * q->asked++, .nodeid = node, .size = 1}};

	return write(q->u->setup.device, &message, sizeof(message)) >= 0;
}

/* A file of a request that is parked is known: its client waits. */
static void ask_for_request(struct uring_queue *q)
{
	struct uring_entry *e;
	bool asked = ask_at(q, FUSE_ROOT_ID);

	pthread_mutex_lock(&q->lock);
	SLIST_FOREACH (e, &q->all, all)
		if (!asked && e->state == ENTRY_PARKED)
			asked = ask_at(q,
				       ((const struct fuse_in_header *)e->headers->in_out)->nodeid);
	pthread_mutex_unlock(&q->lock);
}

/* The handler has returned. */
static void finish(struct uring_queue *q, struct uring_entry *e, const struct fs_reply *r)
{
	bool early;

	pthread_mutex_lock(&q->lock);
	early = e->has_early;
	e->has_early = false;
	e->state = r->parked && !early ? ENTRY_PARKED : ENTRY_FREE;
	pthread_mutex_unlock(&q->lock);
	if (!r->parked || early) {
		commit(q, e, r->parked ? &e->answer : r);
		if (early)
			free(e->answer.out);
		return;
	}
	q->parked++;
	q->may_wait = true; /* whether all entries were in use meanwhile is not known here */
	if (q->entries - q->parked < ENTRIES)
		add_entry(q);
}

static void serve_entry(struct uring_queue *q, struct uring_entry *e)
{
	const struct fuse_in_header *h = (const void *)e->headers->in_out;
	const size_t rest = e->headers->io.payload_size, head = h->len - rest;
	struct fs_reply r = {.out = rest == 0 ? e->payload : q->reply, .size = FS_MAX_IO};
	uint8_t *request = e->payload - head;

	pthread_mutex_lock(&q->lock);
	e->unique = h->unique;
	e->state = ENTRY_IN_HAND;
	pthread_mutex_unlock(&q->lock);
	if (h->len < rest || head < sizeof(*h) || head % 8 != 0 ||
	    head > sizeof(*h) + sizeof(e->headers->fixed)) {
		r.error = EIO;
	} else {
		memcpy(request, h, sizeof(*h));
		memcpy(request + sizeof(*h), e->headers->fixed, head - sizeof(*h));
		q->u->setup.serve(q->u->setup.arg, q->number, request, head + rest, &r);
	}
	finish(q, e, &r);
}

static void fill_answer(struct uring_entry *e, const struct fs_reply *r, void *out)
{
	e->answer = (struct fs_reply){.out = out, .len = r->len, .error = r->error};
	if (r->error == 0 && r->len > 0)
		memcpy(out, r->out, r->len);
}

bool fuse_uring_answer(struct fuse_uring *u, uint64_t unique, const struct fs_reply *r)
{
	for (unsigned i = 0; i < u->nqueues; i++) {
		struct uring_queue *q = &u->queue[i];
		struct uring_entry *e;
		bool wake = false;

		pthread_mutex_lock(&q->lock);
		SLIST_FOREACH (e, &q->all, all)
			if (e->unique == unique && e->state != ENTRY_FREE)
				break;
		if (e != NULL && e->state == ENTRY_PARKED) {
			fill_answer(e, r, e->payload);
			e->state = ENTRY_FREE;
			STAILQ_INSERT_TAIL(&q->answered, e, answered);
			wake = true;
		} else if (e != NULL && !e->has_early) {
			fill_answer(e, r, mem_alloc(r->len + 1));
			e->has_early = true;
		}
		pthread_mutex_unlock(&q->lock);
		if (wake)
			eventfd_write(q->wake, 1);
		if (e != NULL)
			return true;
	}
	return false;
}

static void commit_answered(struct uring_queue *q)
{
	struct uring_entry *e;

	for (;;) {
		pthread_mutex_lock(&q->lock);
		e = STAILQ_FIRST(&q->answered);
		if (e != NULL)
			STAILQ_REMOVE_HEAD(&q->answered, answered);
		pthread_mutex_unlock(&q->lock);
		if (e == NULL)
			return;
		q->parked--;
		commit(q, e, &e->answer);
	}
}

/* ---- the thread of a queue ---- */

/* False: an entry came back without a request. */
static bool complete(struct uring_queue *q, const struct io_uring_cqe *c)
{
	struct uring_entry *e = (void *)(uintptr_t)c->user_data;
	uint64_t n;

	if (e == NULL) {
		(void)!read(q->wake, &n, sizeof(n));
		commit_answered(q);
		listen_to_wake(q);
	} else if (c->res == 0) {
		e->used = true;
		serve_entry(q, e);
	} else {
		return e->used || c->res == -ENOTCONN || c->res == -ECONNABORTED;
	}
	return true;
}

/* All completions that are there. */
static void complete_all(struct uring_queue *q)
{
	uint32_t head = atomic_load_explicit(q->cq_head, memory_order_relaxed);

	while (head != atomic_load_explicit(q->cq_tail, memory_order_acquire)) {
		const struct io_uring_cqe c = q->completions[head & q->cq_mask];

		atomic_store_explicit(q->cq_head, ++head, memory_order_release);
		if (!complete(q, &c)) {
			atomic_store(&q->u->failed, c.res);
			fuse_uring_stop(q->u);
		}
	}
}

int fuse_uring_run(struct fuse_uring *u, unsigned queue)
{
	struct uring_queue *q = &u->queue[queue];
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(queue, &one);
	/* A CPU that is not there now, or not for us: its queue is seldom used. */
	(void)sched_setaffinity(0, sizeof(one), &one);
	if (syscall(SYS_io_uring_register, q->ring, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0) {
		atomic_store(&u->failed, -errno);
		fuse_uring_stop(u);
	}
	listen_to_wake(q);
	for (unsigned i = 0; i < ENTRIES; i++)
		add_entry(q);
	while (!atomic_load(&u->stopped)) {
		const bool committed = q->committed;

		q->committed = false;
		enter(q, q->may_wait ? 0 : 1);
		if (q->may_wait && atomic_load_explicit(q->cq_head, memory_order_relaxed) ==
					   atomic_load_explicit(q->cq_tail, memory_order_acquire)) {
			if (committed)
				q->may_wait = false;
			else
				ask_for_request(q);
			enter(q, 1);
		}
		complete_all(q);
	}
	close_ring(q);
	return atomic_load(&u->failed);
}

void fuse_uring_stop(struct fuse_uring *u)
{
	atomic_store(&u->stopped, true);
	for (unsigned i = 0; i < u->nqueues; i++)
		eventfd_write(u->queue[i].wake, 1);
}

int fuse_uring_new(const struct fuse_uring_setup *s, struct fuse_uring **out)
{
	const unsigned n = fuse_uring_queues();
	struct fuse_uring *u;
	int r = n == 0 ? -EOPNOTSUPP : 0;

	if (r < 0)
		return r;
	u = mem_alloc(sizeof(*u) + n * sizeof(u->queue[0]));
	*u = (struct fuse_uring){.setup = *s, .page = (size_t)sysconf(_SC_PAGESIZE)};
	while (r == 0 && u->nqueues < n) {
		struct uring_queue *q = &u->queue[u->nqueues];

		*q = (struct uring_queue){.u = u, .number = u->nqueues++};
		pthread_mutex_init(&q->lock, NULL);
		STAILQ_INIT(&q->answered);
		r = make_ring(q);
	}
	if (r < 0)
		fuse_uring_free(u);
	else
		*out = u;
	return r;
}

static void free_queue(struct uring_queue *q, size_t page)
{
	close_ring(q);
	if (q->wake >= 0)
		close(q->wake);
	if (q->reply != NULL && q->reply != MAP_FAILED)
		munmap(q->reply, FS_MAX_IO);
	while (!SLIST_EMPTY(&q->all)) {
		struct uring_entry *e = SLIST_FIRST(&q->all);

		SLIST_REMOVE_HEAD(&q->all, all);
		munmap(e->headers, page + FS_MAX_IO);
		if (e->has_early)
			free(e->answer.out);
		free(e);
	}
	pthread_mutex_destroy(&q->lock);
}

void fuse_uring_free(struct fuse_uring *u)
{
	if (u == NULL)
		return;
	for (unsigned i = 0; i < u->nqueues; i++)
		free_queue(&u->queue[i], u->page);
	free(u);
}
