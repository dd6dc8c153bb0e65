// SPDX-License-Identifier: Apache-2.0
/* event/store.h - the database: events with their hash chain, and the transaction that others write
 * rows in.
 *
 * API child, loop thread. SQLite in WAL mode, synchronous=NORMAL; one transaction per turn of the
 * loop (group commit): store_write opens it, a low-priority event at the end of the turn commits it
 * and then runs what waited. The WAL is checkpointed by a thread with its own connection, so that
 * the loop does not wait for fsync (checkpoint.h). Chain: hash(n) = SHA-256(hash(n-1) || canonical
 * bytes of n), hash(0) = 32 zero bytes; seq has no gaps. */
#pragma once
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "model/event.h"
#include <sqlite3.h>

struct event_base;
struct store;

/* Opens or makes the database, migrates by user_version (migrations of other modules' tables
 * included in one list). base may be NULL (offline reading: read-only). Fails with E_UNAVAILABLE
 * naming path and remedy; a newer user_version than ours is refused. */
int store_open(const char *path, struct event_base *base, const struct clock *clock,
	       struct store **out, struct err *err);
void store_close(struct store *s); /* commits what is open */

/* The connection for writing rows; opens the turn's transaction if none is open. Never commit on
 * it. Not for a store that was opened for reading. */
sqlite3 *store_write(struct store *s);
/* The connection for reading (sees committed and this turn's rows). */
sqlite3 *store_read(struct store *s);
/* Prepared statement, cached by the text's address (string literal); it comes reset and unbound.
 * Reset it yourself where you stop before SQLITE_DONE: a statement left standing holds back the
 * checkpoints. NULL if the file cannot be read any more (the turn has failed then; sqlite3
 * functions answer SQLITE_MISUSE to it). */
sqlite3_stmt *store_stmt(struct store *s, const char *sql);
/* Runs a statement that writes to its end, resets and unbinds it. A broken constraint is E_CONFLICT
 * and the turn goes on; any other failure is E_UNAVAILABLE and fails the whole turn. */
int store_run(struct store *s, sqlite3_stmt *stmt, struct err *err);
/* Runs after the commit of this turn's transaction (at once if none is open): err NULL, or why it
 * failed (all rows of the turn are rolled back, their effects must not be shown). In order of
 * registration. */
typedef void store_done_fn(const struct err *err, void *arg);
void store_after(struct store *s, store_done_fn *fn, void *arg);
/* Commits now (shutdown, tests). */
int store_commit(struct store *s, struct err *err);

/* Gives the event its seq, canonical JSON and chain hash and inserts it. ring NULL: made by the API
 * child itself. A (ring, pos) that is there already is skipped silently. e->seq is set, and time_us
 * where it is 0. A failure fails the turn. */
int store_event(struct store *s, struct event *e, const char *ring, uint64_t pos, struct err *err);
/* Called after each commit for every event of the turn, in order: JSON text without trailing
 * newline. Sinks come before what store_after registered, and never call store_commit. */
typedef void store_sink_fn(uint64_t seq, const struct event *e, const char *json, size_t len,
			   void *arg);
void store_add_sink(struct store *s, store_sink_fn *fn, void *arg);
void store_remove_sink(struct store *s, store_sink_fn *fn, void *arg);
/* Called once after the sinks of a turn that had events, for sinks that gather. */
typedef void store_turn_fn(void *arg);
void store_add_turn(struct store *s, store_turn_fn *fn, void *arg);
void store_remove_turn(struct store *s, store_turn_fn *fn, void *arg);
/* The JSON of the event that store_event has just taken; until the next call. */
const struct buf *store_last_json(const struct store *s);
uint64_t store_last_seq(struct store *s);	/* of the last event that is committed */
struct event_base *store_base(struct store *s); /* NULL if opened for reading */

struct event_query {
	const char *session_id, *command_id, *agent_id; /* NULL: any */
	uint64_t types;					/* bit set of 1<<enum event_type; 0: any */
	const char *decision;				/* NULL: any */
	int64_t since_us, until_us;			/* 0: none; since <= time < until */
	uint64_t after_seq;
	unsigned limit, offset; /* limit 0: all */
	bool newest_first;
};
/* Calls fn for each match in order of seq; *total (may be NULL) counts all matches without limit
 * and offset. */
typedef void store_row_fn(uint64_t seq, const char *json, size_t len, void *arg);
int store_query(struct store *s, const struct event_query *q, store_row_fn *fn, void *arg,
		uint64_t *total, struct err *err);
/* Recomputes the chain; *bad is the first wrong seq, 0 if all is well. */
int store_verify(struct store *s, uint64_t *bad, struct err *err);
/* Parses "a,b" into a bit set ("" is 0: any); unknown types are E_BAD_REQUEST with a suggestion. */
int event_types_parse(const char *s, uint64_t *types, struct err *err);
