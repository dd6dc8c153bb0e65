// SPDX-License-Identifier: Apache-2.0
/* session/outbox.h - messages that wait until a link's socket has room, in order. Loop thread. */
#pragma once
#include "link/link.h"
#include <sys/queue.h>

struct loop;
struct parcel;
struct watch;

/* What may wait for one peer; a peer that lets more pile up is refused everything. */
#define OUTBOX_MAX (32 * 1024 * 1024)

/* Embedded. The link is borrowed and outlives it. */
struct outbox {
	struct link *link;
	struct watch *writable;
	STAILQ_HEAD(, parcel) parcels;
	size_t bytes; /* waiting */
};
void outbox_init(struct outbox *o, struct loop *loop, struct link *link);
void outbox_done(struct outbox *o); /* drops what waits; fine on a zeroed one */
/* Sends now, or keeps a copy (descriptors too) and sends it when there is room. Fails as link_send
 * does, except that a full socket is no failure until OUTBOX_MAX waits (E_UNAVAILABLE). */
int outbox_send(struct outbox *o, enum msg_type type, const void *obj, const int *fds, size_t nfds,
		struct err *err);
