// SPDX-License-Identifier: Apache-2.0
/* session/drain.h - the rings of a session, read into the store. */
#pragma once
#include "session/session.h"

#define BELL_MS 5 /* records that arrive within this time are stored together */

/* One of a session's rings, and how far the server has read it. */
struct session_ring {
	char *id; /* owned; the ring's key in the store: ID of the warden's, ID/NAME of another */
	struct journal_reader *reader; /* NULL: the ring is broken */
	uint64_t end;		       /* the store holds everything before this position */
	uint64_t acking;	       /* the end that the commit we wait for has */
	uint64_t acked;		       /* the last end that was sent to the producer */
	uint64_t number;	       /* of the last write of end */
};

size_t session_ring_fds(const struct strv *names); /* how many descriptors these rings have */
/* Takes the ring and the acknowledgement of each name. */
int session_open_rings(struct session *s, const struct strv *names, int *fd, size_t nfds,
		       struct err *err);
bool session_ring_named(const struct session *s, const char *name); /* it has such a ring */
void session_close_rings(struct session *s);
uint32_t session_dropped(const struct session *s); /* lost events that no event reports yet */
/* Reads the rings into the store: up to the end of a command, or everything (NULL). The
 * acknowledgement follows the commit. */
void session_drain(struct session *s, const struct warden_result *result);
peer_fn session_on_bell;
void session_ack_later(struct session *s); /* rings and results, after the commit */
