// SPDX-License-Identifier: Apache-2.0
/* event/store_state.h - the inside of struct store, for store*.c only. */
#pragma once
#include "event/checkpoint.h"
#include "event/store.h"
#include <sys/queue.h>

#define STORE_STATEMENTS 256 /* slots of the cache; it may fill to three quarters */

/* An event of this turn, kept for the sinks; one allocation with all that it points to. */
struct pending {
	STAILQ_ENTRY(pending) link;
	struct event event;
	const char *json;
	size_t len;
};
STAILQ_HEAD(pending_list, pending);

struct waiter {
	store_done_fn *fn;
	void *arg;
};

/* Who is told of events (fn) or of the end of a turn that had some (turn). Both NULL: removed while
 * being told. */
struct sink {
	store_sink_fn *fn;
	store_turn_fn *turn;
	void *arg;
};

struct chain {
	uint64_t seq;
	uint8_t hash[HASH_LEN];
};

struct store {
	sqlite3 *db;
	char *path;
	const struct clock *clock;
	struct checkpointer *checkpointer;
	struct event_base *base;
	struct event *turn_end, *turn_late; /* libevent's, not the model's */
	struct {
		const char *sql;
		sqlite3_stmt *stmt;
	} statements[STORE_STATEMENTS];
	unsigned nstatements;
	/* The turn. */
	bool open;
	struct err failed; /* code E_OK: not yet */
	struct chain committed, chain;
	struct pending_list pending;
	struct waiter *waiters;
	size_t nwaiters;
	struct buf json;
	struct sink *sinks;
	size_t nsinks;
	unsigned delivering; /* depth */
};

/* Marks the turn failed by what the connection says. Returns -E_UNAVAILABLE. */
int store_fail(struct store *s, struct err *err);
void store_deliver(struct store *s,
		   struct pending_list *events); /* to the sinks; empties the list */
void store_forget(struct pending_list *events);
int store_load_chain(struct store *s, struct err *err);
