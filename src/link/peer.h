// SPDX-License-Identifier: Apache-2.0
/* link/peer.h - a link on the loop: messages go to the handlers of a table, and what the socket
 * does not take waits in a bounded queue, in order. Runs on the loop's thread. */
#pragma once
#include "base/loop.h"
#include "link/link.h"
#include <sys/queue.h>

/* What may wait for one peer, in bytes. */
#define PEER_QUEUE_MAX (32 * 1024 * 1024)

/* A handler of one message. msg is the unpacked struct of its type, freed afterwards: a handler
 * that keeps a part of it sets that part to zero. The descriptors of m are closed afterwards,
 * unless they were taken. */
typedef void peer_fn(void *ctx, void *msg, struct link_msg *m);
struct peer_row {
	enum msg_type type;
	peer_fn *fn;
};

/* What the peers of one kind have in common: one constant for each kind in a process. */
struct peer_kind {
	enum link_side self, other;
	const struct peer_row *rows;
	size_t n;
	/* Gets a message that has no row; NULL: such a message breaks the protocol. Its descriptors
	 * are closed afterwards, unless they were taken. */
	int (*rest)(void *ctx, struct link_msg *m, struct err *err);
	watch_fn *readable; /* there may be something for peer_read */
	watch_fn *writable; /* nothing waits any more; NULL: the owner need not know */
	bool pauses;	    /* while something waits, nothing is read */
};

/* Embedded. Zeroed it is a closed one, except that link.fd is to be -1. */
struct peer {
	struct link link; /* fd -1: closed */
	const struct peer_kind *kind;
	void *ctx;
	struct loop *loop;
	struct watch *readable, *writable;
	STAILQ_HEAD(, queued) queue;
	size_t queued; /* bytes that wait */
	bool paused;
};
#define PEER_CLOSED ((struct peer){.link = {.fd = -1}})

/* Takes fd and makes it non-blocking; ctx is for the functions of kind. E_UNAVAILABLE: it cannot be
 * watched. The peer is open all the same, until peer_close. */
int peer_open(struct peer *p, const struct peer_kind *kind, struct loop *loop, int fd, void *ctx,
	      struct err *err);
void peer_close(struct peer *p); /* drops what waits; fine on a closed one */
/* Receives one message and calls its handler, which may close the peer. As link_recv; BROKEN also
 * if the message has no row in the table. */
enum link_status peer_read(struct peer *p, struct err *err);
/* Sends now, or keeps a copy (descriptors too) and sends it when there is room. OK; FULL:
 * PEER_QUEUE_MAX waits already, or no descriptor is left; EOF: it is closed; BROKEN: as link_send.
 */
enum link_status peer_send(struct peer *p, enum msg_type type, uint32_t req, const void *obj,
			   const int *fds, size_t nfds, struct err *err);
/* kind->writable is called when the socket has room, though nothing waits here. */
void peer_await_room(struct peer *p);

/* What peer_read does with a message; m stays the caller's. E_BAD_REQUEST: there is no handler for
 * it, or it cannot be unpacked. */
int peer_dispatch(const struct peer_kind *kind, void *ctx, struct link_msg *m, struct err *err);
