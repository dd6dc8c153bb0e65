// SPDX-License-Identifier: Apache-2.0
/* event/recorder.h - events of one producing process into its ring, in order, from any thread, and
 * without blocking.
 *
 * Threads append under one lock. The operator chooses what happens while the ring is full: events
 * are dropped and counted, or they wait in a queue of packed bytes. The process must not begin
 * anything new while events wait (recorder_has_room), so that the queue stays short. */
#pragma once
#include "event/journal.h"
#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

struct waiting_event;
/* The event is in the ring and ends at this position. Must not record. */
typedef void recorder_fn(uint64_t end, void *arg);

struct recorder {
	struct journal *journal; /* owned */
	atomic_bool drop;	 /* a full ring drops */
	pthread_mutex_t lock;	 /* of the journal and of what follows */
	STAILQ_HEAD(, waiting_event) waiting;
	uint64_t rung;	    /* the bell has rung for all events before this position */
	atomic_bool urgent; /* an event for which it has not rung must not wait */
};
int recorder_open(struct recorder *r, int ring_fd, int ack_fd, struct err *err);
/* Events that still wait are lost, and counted. */
void recorder_close(struct recorder *r);
/* Appends; strings are borrowed. done (may be NULL) is called now or by recorder_flush. */
void recorder_event(struct recorder *r, const struct event *e, recorder_fn *done, void *arg);
/* Appends the events that wait; false if some still do. */
bool recorder_flush(struct recorder *r);
/* So many events were lost before they came here. */
void recorder_lost(struct recorder *r, uint64_t n);
uint64_t recorder_head(struct recorder *r); /* the position behind the last event */
/* Whether the next few events fit, however long they are, or the ring drops. */
bool recorder_has_room(struct recorder *r);

/* NONE: the bell has rung for every event. LATER: the reader has not read those yet. */
enum recorder_bell { RECORDER_BELL_NONE, RECORDER_BELL_LATER, RECORDER_BELL_DUE };
/* *head is the position for recorder_rung once the bell has rung. */
enum recorder_bell recorder_bell(struct recorder *r, uint64_t *head);
void recorder_rung(struct recorder *r, uint64_t pos);
