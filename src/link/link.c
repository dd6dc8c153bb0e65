// SPDX-License-Identifier: Apache-2.0
#include "link/link.h"
#include "base/mem.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define MAGIC 0x4b4c4841 /* "AHLK" */
#define FLAG_MEMFD 1
#define SOCKET_BYTES (256 * 1024)
#define KEEP_BYTES (2 * SOCKET_BYTES) /* a larger buffer is freed before the next frame */
/* A newer peer may have added fields at the end. */
#define GROWTH_BYTES (64 * 1024)

/* Little-endian on the wire. len: of the payload, inline or in a memfd. */
struct frame_head {
	uint32_t magic;
	uint16_t version, type;
	uint32_t req, len, flags, reserved;
};
_Static_assert(sizeof(struct frame_head) == 24, "the frame's head has no padding");

#define ROOM (sizeof(struct frame_head) + LINK_INLINE)
#define SEALS (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)

void link_init(struct link *l, int fd, enum link_side self, enum link_side peer)
{
	*l = (struct link){.fd = fd, .self = self, .peer = peer};
}

void link_done(struct link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	buf_done(&l->in);
}

/* The kernel caps the size at net.core.*mem_max unless it is forced, which needs CAP_NET_ADMIN. */
static int widen(int fd, int option, int forced)
{
	const int n = SOCKET_BYTES;

	if (setsockopt(fd, SOL_SOCKET, forced, &n, sizeof(n)) == 0)
		return 0;
	return setsockopt(fd, SOL_SOCKET, option, &n, sizeof(n));
}

int link_pair(int fd[2], struct err *err)
{
	cleanup_fd int a = -1;
	cleanup_fd int b = -1;
	int made[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, made) < 0)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot make a socket pair");
	a = made[0];
	b = made[1];
	for (int i = 0; i < 2; i++)
		if (widen(made[i], SO_SNDBUF, SO_SNDBUFFORCE) < 0 ||
		    widen(made[i], SO_RCVBUF, SO_RCVBUFFORCE) < 0)
			return err_errno(err, E_INTERNAL, NULL, "cannot widen a socket pair");
	fd[0] = take_fd(a);
	fd[1] = take_fd(b);
	return 0;
}

static void advance(enum link_state *state, enum link_state next)
{
	if (next > *state)
		*state = next;
}

enum link_status link_pack(struct link *l, enum msg_type type, uint32_t req, const void *obj,
			   size_t nfds, struct buf *frame, struct err *err)
{
	const struct msg_row *row = msg_row(type);
	struct frame_head head = {.magic = htole32(MAGIC),
				  .version = htole16(LINK_VERSION),
				  .type = htole16((uint16_t)type),
				  .req = htole32(req)};
	const char *field;
	size_t len;

	ensure(row != NULL);
	field = msg_oversized(row, obj);
	if (row->from != l->self || row->to != l->peer || (row->in & 1U << l->state) == 0)
		err_set(err, E_INTERNAL, row->name, "%s cannot be sent to this peer in this state",
			row->name);
	else if (nfds < row->min_fds || nfds > row->max_fds)
		err_set(err, E_INTERNAL, row->name, "%s cannot carry %zu descriptors", row->name,
			nfds);
	else if (field != NULL)
		err_set(err, E_INTERNAL, row->name, "%s.%s is too long", row->name, field);
	else {
		buf_add(frame, &head, sizeof(head));
		fields_pack(row->fields(), obj, frame);
		len = frame->len - sizeof(head);
		head.len = htole32((uint32_t)len);
		head.flags = htole32(len > LINK_INLINE ? FLAG_MEMFD : 0);
		memcpy(frame->data, &head, sizeof(head));
		advance(&l->state, row->next);
		return LINK_OK;
	}
	return LINK_BROKEN;
}

enum link_status link_send_frame(const struct link *l, const struct buf *frame, const int *fds,
				 size_t nfds, struct err *err)
{
	const size_t head = sizeof(struct frame_head);
	cleanup_fd int payload = -1;
	int all[FDIO_MAX_FDS];
	int r;

	if (frame->len <= head + LINK_INLINE) {
		r = fdio_send(l->fd, frame->data, frame->len, fds, nfds);
	} else {
		/* A long payload goes in a memfd, which is the last descriptor. */
		payload = fdio_sealed("agentsh-link", frame->data + head, frame->len - head);
		if (nfds > 0)
			memcpy(all, fds, nfds * sizeof(*all));
		all[nfds] = payload;
		r = payload == -1 ? -1 : fdio_send(l->fd, frame->data, head, all, nfds + 1);
	}
	if (r == 0)
		return LINK_OK;
	switch (errno) {
	case EAGAIN:
		err_set(err, E_UNAVAILABLE, NULL, "link: the peer does not read its messages");
		return LINK_FULL;
	case EPIPE:
	case ECONNRESET:
	case ENOTCONN:
		err_errno(err, E_UNAVAILABLE, NULL, "link: cannot send");
		return LINK_EOF;
	default:
		err_errno(err, E_INTERNAL, NULL, "link: cannot send");
		return LINK_BROKEN;
	}
}

enum link_status link_send(struct link *l, enum msg_type type, uint32_t req, const void *obj,
			   const int *fds, size_t nfds, struct err *err)
{
	const enum link_state before = l->state;
	cleanup_buf struct buf frame = {0};
	enum link_status status = link_pack(l, type, req, obj, nfds, &frame, err);

	if (status == LINK_OK)
		status = link_send_frame(l, &frame, fds, nfds, err);
	if (status != LINK_OK)
		l->state = before;
	return status;
}

static int bad(struct err *err, const char *subject, const char *problem)
{
	return err_set(err, E_BAD_REQUEST, subject, "link: %s", problem);
}

/* Checks a datagram of len bytes; out gets its head. */
static int check_frame(const struct link *l, size_t len, size_t nfds, struct frame_head *out,
		       struct err *err)
{
	const struct msg_row *row;
	unsigned states = 0;
	struct frame_head h;
	bool outside;

	if (len < sizeof(h))
		return bad(err, NULL, "frame shorter than its head");
	memcpy(&h, l->in.data, sizeof(h));
	h = (struct frame_head){le32toh(h.magic),   le16toh(h.version), le16toh(h.type),
				le32toh(h.req),	    le32toh(h.len),	le32toh(h.flags),
				le32toh(h.reserved)};
	if (h.magic != MAGIC)
		return bad(err, NULL, "not a frame");
	if (h.version != LINK_VERSION)
		return err_set(err, E_BAD_REQUEST, NULL, "link: version %u, ours is %u", h.version,
			       LINK_VERSION);
	if ((h.flags & ~(uint32_t)FLAG_MEMFD) != 0 || h.reserved != 0)
		return bad(err, NULL, "unknown flags");
	row = msg_row(h.type);
	outside = (h.flags & FLAG_MEMFD) != 0;
	if (row == NULL)
		return err_set(err, E_BAD_REQUEST, NULL, "link: unknown message %u", h.type);
	/* The peer may not have received the message that changed the state. */
	for (enum link_state s = l->seen; s <= l->state; s++)
		states |= 1U << s;
	if (row->from != l->peer || row->to != l->self || (row->in & states) == 0)
		return bad(err, row->name, "message from the wrong side or in the wrong state");
	if (h.len > msg_max(row) + GROWTH_BYTES)
		return bad(err, row->name, "payload too long");
	if (outside != (h.len > LINK_INLINE) || len - sizeof(h) != (outside ? 0 : h.len))
		return bad(err, row->name, "payload of another length than the head says");
	if (outside && nfds == 0)
		return bad(err, row->name, "payload without its descriptor");
	nfds -= outside;
	if (nfds < row->min_fds || nfds > row->max_fds)
		return err_set(err, E_BAD_REQUEST, row->name, "link: %s with %zu descriptors",
			       row->name, nfds);
	*out = h;
	return 0;
}

static int accept_frame(struct link *l, size_t len, struct link_msg *m, struct err *err)
{
	struct frame_head h = {0};
	struct stat st;
	int fd, seals;
	int r = check_frame(l, len, m->nfds, &h, err);

	if (r < 0)
		return r;
	m->type = h.type;
	m->req = h.req;
	m->len = h.len;
	m->data = l->in.data + sizeof(h);
	if ((h.flags & FLAG_MEMFD) == 0)
		return 0;
	/* Without the seals the peer could change or shrink the bytes while they are read. */
	fd = m->fd[m->nfds - 1];
	seals = fcntl(fd, F_GET_SEALS);
	if (seals == -1 || (seals & SEALS) != SEALS)
		return bad(err, NULL, "payload is not sealed");
	if (fstat(fd, &st) < 0 || st.st_size != (off_t)h.len)
		return bad(err, NULL, "payload of another size than the head says");
	buf_clear(&l->in);
	buf_reserve(&l->in, h.len);
	if (fdio_pread_full(fd, l->in.data, h.len, 0) != (ssize_t)h.len)
		return bad(err, NULL, "payload cannot be read");
	m->data = l->in.data;
	close(m->fd[--m->nfds]);
	return 0;
}

static enum link_status recv_error(struct err *err)
{
	switch (errno) {
	case EAGAIN:
		return LINK_AGAIN;
	case EMFILE: /* the peer is not at fault */
		err_set(err, E_RESOURCE_LIMIT, NULL,
			"link: a message is lost, because this process has no file "
			"descriptor left (RLIMIT_NOFILE)");
		return LINK_LOST;
	case EBADMSG:
		bad(err, NULL, "frame too long or with too many descriptors");
		return LINK_BROKEN;
	default:
		err_errno(err, E_INTERNAL, NULL, "link: cannot receive");
		return LINK_BROKEN;
	}
}

enum link_status link_recv(struct link *l, struct link_msg *m, struct err *err)
{
	struct link_msg got = {.nfds = FDIO_MAX_FDS};
	ssize_t n;

	if (l->in.cap > KEEP_BYTES)
		buf_done(&l->in);
	buf_clear(&l->in);
	buf_reserve(&l->in, ROOM);
	n = fdio_recv(l->fd, l->in.data, ROOM, got.fd, &got.nfds, &got.cred);
	/* If the peer closed with unread messages, one receive fails; the messages that it sent can
	 * be received after that. */
	if (n < 0 && errno == ECONNRESET) {
		got.nfds = FDIO_MAX_FDS;
		n = fdio_recv(l->fd, l->in.data, ROOM, got.fd, &got.nfds, &got.cred);
	}
	if (n == 0 || (n < 0 && errno == ECONNRESET)) {
		err_set(err, E_UNAVAILABLE, NULL, "link: closed by the peer");
		return LINK_EOF;
	}
	if (n < 0)
		return recv_error(err);
	if (accept_frame(l, (size_t)n, &got, err) < 0) {
		link_msg_done(&got);
		return LINK_BROKEN;
	}
	advance(&l->seen, msg_row(got.type)->next);
	advance(&l->state, l->seen);
	*m = got;
	return LINK_OK;
}

void link_msg_done(struct link_msg *m)
{
	for (size_t i = 0; i < m->nfds; i++)
		if (m->fd[i] >= 0)
			close(m->fd[i]);
	m->nfds = 0;
}

int link_unpack(const struct link_msg *m, void *obj, struct err *err)
{
	const struct msg_row *row = msg_row(m->type);

	ensure(row != NULL);
	return fields_unpack(row->fields(), m->data, m->len, true, obj, err);
}
