// SPDX-License-Identifier: Apache-2.0
/* warden/record.h - events into the session's journal, in order, without ever blocking the loop.
 *
 * The loop's thread and the exec thread append, under one lock.
 *
 * A full ring is the operator's choice: drop and count, or wait. Waiting events stand in a queue of
 * packed bytes; what a command does next (its result, the start of another) waits for them, so that
 * the queue stays as short as the number of running commands. */
#pragma once
#include "base/err.h"
#include "event/journal.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

struct parcel;
/* The event is in the journal and ends at this position. */
typedef void record_fn(uint64_t end, void *arg);

struct record {
	struct journal *journal; /* owned */
	atomic_bool drop;	 /* a full ring drops */
	pthread_mutex_t lock;	 /* of the journal and of what follows */
	STAILQ_HEAD(, parcel) waiting;
	uint64_t rung;	    /* head when the reader was last told */
	atomic_bool urgent; /* since then there was more than programs that were let go */
};
int record_open(struct record *r, int ring_fd, int ack_fd, struct err *err);
void record_close(
	struct record *r); /* what still waits is lost, and counted where the ring has room */
/* Appends (strings are borrowed), on any thread. done (may be NULL; then on the loop's thread only)
 * is called now or when there is room. It must not record. */
void record_event(struct record *r, const struct event *e, record_fn *done, void *arg);
/* Tries what waits; true if nothing does any more. */
bool record_flush(struct record *r);
bool record_waits(struct record *r);
uint64_t record_head(struct record *r); /* the position behind the last event */
/* Whether the next few events fit, whatever they say, or the ring drops. */
bool record_has_room(struct record *r);
/* What waits has lost the object behind arg: it is appended without a call. */
void record_forget(struct record *r, const void *arg);
/* Whether the reader should be told: there is more than it was told of, and it has read what it was
 * told of. */
bool record_wants_bell(struct record *r);
bool record_unread(struct record *r);		       /* there is more than it was told of */
void record_bell_rung(struct record *r, uint64_t pos); /* it was told of all before pos */
