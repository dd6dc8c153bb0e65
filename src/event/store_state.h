// SPDX-License-Identifier: Apache-2.0
/* event/store_state.h - the inside of struct store, for store*.c only. */
#pragma once
#include "event/checkpoint.h"
#include "event/readers.h"
#include "event/redo.h"
#include "event/store.h"
#include <sys/queue.h>

#define STORE_STATEMENTS 256 /* slots of the cache; it may fill to three quarters */

/* An event that is not safe yet, kept for the sinks; one allocation with all that it points
 * to. */
struct store_pending {
	STAILQ_ENTRY(store_pending) link;
	struct stored_event event;
};
STAILQ_HEAD(pending_list, store_pending);

struct commit_waiter {
	store_done_fn *fn;
	void *arg;
};
struct waiters {
	struct commit_waiter *v;
	size_t n;
};

/* A write that the database does not have yet. */
struct store_op {
	const char *sql; /* NULL: taken back */
	size_t at, len;	 /* in the store's bytes: the statement's text and the values */
};

/* Gets events (fn), and the end of a turn that had some (turn). Both NULL: removed meanwhile. */
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
	bool lossy; /* the operator accepts what a damaged redo file loses */
	const struct clock *clock;
	struct checkpointer *checkpointer;
	struct readers *readers;
	struct loop *loop;
	struct watch *turn_end, *commit_due;
	struct {
		const char *sql;
		sqlite3_stmt *stmt;
	} statements[STORE_STATEMENTS];
	unsigned nstatements;
	/* Writes that are not committed. */
	struct redo *redo;
	struct buf bytes;
	struct store_op *ops;
	size_t nops, applied; /* applied: in the open transaction */
	uint64_t number;      /* of the first of them */
	bool in_transaction;
	bool in_turn;	   /* the end of the turn has something to publish */
	bool spilled;	   /* there is a write that the redo file had no room for */
	struct err failed; /* code E_OK: the last commit did not fail */
	bool fresh;	   /* something was written since commit_due was last set */
	unsigned put_off;  /* how often it was set again */
	struct chain chain;
	uint64_t safe; /* seq of the last event that is */
	struct pending_list pending;
	struct waiters early, waiters, committers;
	struct buf json;
	struct sink *sinks;
	size_t nsinks;
	unsigned delivering; /* depth */
};

/* Carries out all waiting writes in a transaction, and begins one if none is open. If a write
 * fails, the transaction is rolled back, s->failed has the reason, and the writes wait. */
int store_apply(struct store *s);
void store_deliver(struct store *s,
		   struct pending_list *events); /* to the sinks; empties the list */
void store_forget_events(struct pending_list *events);
int store_load_chain(struct store *s, struct err *err);
