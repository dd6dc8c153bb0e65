// SPDX-License-Identifier: Apache-2.0
#include "link/peer.h"
#include "base/mem.h"
#include <fcntl.h>
#include <stdalign.h>
#include <stddef.h>

struct queued {
	STAILQ_ENTRY(queued) next;
	struct buf frame;
	int fd[FDIO_MAX_FDS];
	size_t nfds;
};

static void queued_free(struct queued *q)
{
	for (size_t i = 0; i < q->nfds; i++)
		close(q->fd[i]);
	buf_done(&q->frame);
	free(q);
}

static void drop_first(struct peer *p)
{
	struct queued *q = STAILQ_FIRST(&p->queue);

	STAILQ_REMOVE_HEAD(&p->queue, next);
	p->queued -= q->frame.len;
	queued_free(q);
}

/* A message that fails for another reason than a full socket is dropped: the reader sees why. */
static void on_writable(void *arg)
{
	struct peer *p = arg;
	const struct queued *q;

	while ((q = STAILQ_FIRST(&p->queue)) != NULL) {
		if (link_send_frame(&p->link, &q->frame, q->fd, q->nfds, NULL) == LINK_FULL) {
			watch_start(p->writable);
			return;
		}
		drop_first(p);
	}
	if (p->paused)
		watch_start(p->readable);
	p->paused = false;
	if (p->kind->writable != NULL)
		p->kind->writable(p->ctx);
}

int peer_open(struct peer *p, const struct peer_kind *kind, struct loop *loop, int fd, void *ctx,
	      struct err *err)
{
	*p = (struct peer){.kind = kind, .ctx = ctx, .loop = loop};
	link_init(&p->link, fd, kind->self, kind->other);
	STAILQ_INIT(&p->queue);
	p->readable = watch_readable(loop, fd, kind->readable, ctx);
	if (fdio_nonblock(fd) < 0)
		return err_errno(err, E_INTERNAL, NULL, "cannot use a link");
	if (watch_start(p->readable) < 0)
		return err_set(err, E_UNAVAILABLE, NULL, "cannot watch a link: " LOOP_FULL);
	return 0;
}

void peer_close(struct peer *p)
{
	if (p->link.fd == -1)
		return;
	while (!STAILQ_EMPTY(&p->queue))
		drop_first(p);
	watch_free(p->readable);
	watch_free(p->writable);
	link_done(&p->link);
	*p = PEER_CLOSED;
}

void peer_await_room(struct peer *p)
{
	if (p->writable == NULL)
		p->writable = watch_writable(p->loop, p->link.fd, on_writable, p);
	watch_start(p->writable);
}

static enum link_status keep(struct peer *p, struct buf *frame, const int *fds, size_t nfds,
			     struct err *err)
{
	struct queued *q;

	if (p->queued + frame->len > PEER_QUEUE_MAX) {
		err_set(err, E_UNAVAILABLE, NULL, "the peer does not read its messages");
		return LINK_FULL;
	}
	q = mem_new(struct queued);
	for (; q->nfds < nfds; q->nfds++) {
		q->fd[q->nfds] = fcntl(fds[q->nfds], F_DUPFD_CLOEXEC, 3);
		if (q->fd[q->nfds] < 0) {
			err_errno(err, E_UNAVAILABLE, NULL, "cannot copy a descriptor");
			queued_free(q);
			return LINK_FULL;
		}
	}
	q->frame = *frame;
	*frame = (struct buf){0};
	p->queued += q->frame.len;
	STAILQ_INSERT_TAIL(&p->queue, q, next);
	peer_await_room(p); /* before it stops to read: what epoll has of it stays */
	if (p->kind->pauses)
		watch_stop(p->readable);
	p->paused = p->kind->pauses;
	return LINK_OK;
}

enum link_status peer_send(struct peer *p, enum msg_type type, uint32_t req, const void *obj,
			   const int *fds, size_t nfds, struct err *err)
{
	const enum link_state before = p->link.state;
	cleanup_buf struct buf frame = {0};
	enum link_status status;

	if (p->link.fd == -1) {
		err_set(err, E_UNAVAILABLE, NULL, "the link is closed");
		return LINK_EOF;
	}
	status = link_pack(&p->link, type, req, obj, nfds, &frame, err);
	if (status == LINK_OK)
		status = STAILQ_EMPTY(&p->queue) ? link_send_frame(&p->link, &frame, fds, nfds, err)
						 : LINK_FULL;
	if (status == LINK_FULL)
		status = keep(p, &frame, fds, nfds, err);
	if (status != LINK_OK)
		p->link.state = before;
	return status;
}

static int call(const struct peer_row *row, void *ctx, struct link_msg *m, struct err *err)
{
	alignas(max_align_t) char msg[MSG_STRUCT_MAX];
	int r;

	ensure(msg_row(m->type)->fields()->size <= sizeof(msg));
	r = link_unpack(m, msg, err);
	if (r < 0)
		return r;
	row->fn(ctx, msg, m);
	msg_done(m->type, msg);
	return 0;
}

int peer_dispatch(const struct peer_kind *kind, void *ctx, struct link_msg *m, struct err *err)
{
	for (size_t i = 0; i < kind->n; i++)
		if (kind->rows[i].type == m->type)
			return call(&kind->rows[i], ctx, m, err);
	if (kind->rest != NULL)
		return kind->rest(ctx, m, err);
	return err_set(err, E_BAD_REQUEST, NULL, "link: unexpected message %u", m->type);
}

enum link_status peer_read(struct peer *p, struct err *err)
{
	struct link_msg m;
	const enum link_status status = link_recv(&p->link, &m, err);
	int r;

	if (status != LINK_OK)
		return status;
	r = peer_dispatch(p->kind, p->ctx, &m, err);
	link_msg_done(&m);
	return r < 0 ? LINK_BROKEN : LINK_OK;
}
