// SPDX-License-Identifier: Apache-2.0
/* event/store_state.h - the inside of struct store, for store*.c only. */
#pragma once
#include "event/checkpoint.h"
#include "event/readers.h"
#include "event/redo.h"
#include "event/store.h"
#include "event/writer.h"
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
	uint64_t number; /* of the last write that it waits for */
};
struct waiters {
	struct commit_waiter *v;
	size_t n;
};

/* A write that the database does not have yet. */
struct store_op {
	const char *sql; /* NULL: taken back */
	size_t at, len;	 /* in the batch's bytes: the statement's text and the values */
};

/* The writes of one generation. */
struct store_batch {
	struct buf bytes;
	struct store_op *ops;
	size_t nops, applied; /* applied: in the open transaction */
	struct redo *redo;
};

enum value_kind { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BLOB };

/* In front of a value's bytes. */
struct value {
	uint32_t kind, len;
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
	char *path;
	bool lossy; /* the operator accepts what a damaged redo file loses */
	const struct clock *clock;
	struct checkpointer *checkpointer;
	struct readers *readers;
	struct loop *loop;
	struct watch *turn_end, *commit_due;
	struct writer *writer;
	bool writing; /* the writer has what follows, up to sent; else the loop */
	sqlite3 *db;
	struct {
		const char *sql;
		sqlite3_stmt *stmt;
	} statements[STORE_STATEMENTS];
	unsigned nstatements;
	bool in_transaction;
	int wrote;		 /* result of the last store_write */
	struct err why;		 /* it failed */
	struct store_batch sent; /* handed over and not committed; nops 0: nothing is */
	/* Writes after those. */
	struct store_batch now;
	uint64_t number;   /* of the last write before them */
	bool in_turn;	   /* the end of the turn has something to publish */
	bool spilled;	   /* there is a write that its redo file had no room for */
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

/* Takes the connection back from the writer: waits for the commit that is under way. */
void store_settle(struct store *s);
void store_note_failure(struct store *s); /* of the database, for the reason in s->why */
/* Carries out all writes in a transaction, for a read. If one fails, the transaction is rolled
 * back, the failure is noted, and the writes wait. */
void store_apply(struct store *s);
/* Commits s->sent with its generation. On failure the transaction is gone, s->why has the reason,
 * and the writes stay. For the thread that has the connection. */
int store_write(struct store *s);
void store_roll_back(struct store *s); /* ends a transaction; its writes wait again */
int store_set_generation(struct store *s, uint64_t n);
/* Carries out what the last process left in the redo files, and begins a new generation. */
int store_replay(struct store *s, struct err *err);
void store_deliver(struct store *s,
		   struct pending_list *events); /* to the sinks; empties the list */
void store_forget_events(struct pending_list *events);
int store_load_chain(struct store *s, struct err *err);
uint64_t store_written(const struct store *s);	 /* number of the last write */
uint64_t store_committed(const struct store *s); /* of the last one that is in the database */
