// SPDX-License-Identifier: Apache-2.0
/* link/link.h - framed, versioned, bounded messages with descriptors over SOCK_SEQPACKET.
 *
 * A frame is one datagram: magic, version, type, request number, payload length, flags. A payload
 * over LINK_INLINE travels in a sealed memfd passed as the last descriptor and is read with pread,
 * never mapped. The table in msg.h says who may send what; a message from the wrong side, in the
 * wrong state, too long or with the wrong number of descriptors is an error and the link is to be
 * closed. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/fdio.h"
#include "link/msg.h"
#include <sys/socket.h>

#define LINK_VERSION 1
#define LINK_INLINE (32 * 1024)
#define LINK_PAYLOAD_MAX (16 * 1024 * 1024)

/* Results of sending and receiving. */
enum link_status {
	LINK_OK,
	LINK_AGAIN,  /* nothing to receive now */
	LINK_FULL,   /* the peer does not read: the socket takes no more now */
	LINK_EOF,    /* the peer has closed its end */
	LINK_LOST,   /* no free descriptor for those of a message: it is lost; the link goes on */
	LINK_BROKEN, /* the peer violates the protocol, or the message to send would */
};

/* One side of a link; plain data, embeds well. Used from one thread. */
struct link {
	int fd;		     /* owned */
	enum link_side self; /* our side */
	enum link_side peer;
	enum link_state state;
	enum link_state seen; /* of the peer, which may not have received our last messages */
	struct buf in;	      /* reused for receiving */
};

struct link_msg {
	enum msg_type type;
	uint32_t req;	  /* answers carry the number of what they answer */
	const void *data; /* payload, valid until the next link_recv */
	size_t len;
	int fd[FDIO_MAX_FDS]; /* owned by the receiver: take_fd or link_msg_done */
	size_t nfds;
	struct ucred cred; /* of the sender where SO_PASSCRED is on, else pid 0 */
};

void link_init(struct link *l, int fd, enum link_side self,
	       enum link_side peer); /* takes fd; state NEW */
void link_done(struct link *l);
/* A socketpair with buffers of at least 256 KiB, close-on-exec. */
int link_pair(int fd[2], struct err *err);
/* Packs and sends obj by its table row; fds are borrowed. OK, FULL, EOF or BROKEN (not ours to
 * send, oversized). err says what came of it, unless it is OK. */
enum link_status link_send(struct link *l, enum msg_type type, uint32_t req, const void *obj,
			   const int *fds, size_t nfds, struct err *err);
/* The two halves of link_send: checks and packs, as if it was sent; and sends it. */
enum link_status link_pack(struct link *l, enum msg_type type, uint32_t req, const void *obj,
			   size_t nfds, struct buf *frame, struct err *err);
enum link_status link_send_frame(const struct link *l, const struct buf *frame, const int *fds,
				 size_t nfds, struct err *err);
/* Receives and checks one frame. OK, AGAIN, EOF, LOST or BROKEN. err says what came of it, unless
 * it is OK or AGAIN. Advances the state by the table. */
enum link_status link_recv(struct link *l, struct link_msg *m, struct err *err);
void link_msg_done(struct link_msg *m); /* closes descriptors not taken */
/* Unpacks m->data into the struct of its type (msg_done frees it). */
int link_unpack(const struct link_msg *m, void *obj, struct err *err);
