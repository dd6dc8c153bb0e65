// SPDX-License-Identifier: Apache-2.0
/* event/store.h - the database: events with their hash chain, and the rows of other modules.
 *
 * API process, loop thread. SQLite in WAL mode, synchronous=NORMAL. A write is noted in memory and
 * in the redo file (redo.h), where a SIGKILL cannot reach it. It is safe from the end of the loop's
 * turn on: then sinks get its events, and store_after calls its waiters. A thread commits it
 * together with many others, after a pause of 2 ms, 10 ms later at the latest (writer.h). Another
 * one checkpoints the WAL, so that the loop does not wait for fsync (checkpoint.h). A read on the
 * loop that must see all writes waits for a commit that is under way. Chain: hash(n) =
 * SHA-256(hash(n-1) || canonical bytes of n), hash(0) = 32 zero bytes; seq has no gaps. */
#pragma once
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "model/event.h"
#include <sqlite3.h>

struct loop;
struct store;

/* Opens or makes the database and migrates the tables of all modules by user_version. Fails with
 * E_UNAVAILABLE naming path and remedy, also for a newer user_version; E_RESOURCE_LIMIT if the disk
 * is full or failing, which may pass. lossy: the operator accepts what a damaged redo file loses,
 * which otherwise is E_UNAVAILABLE. */
int store_open(const char *path, struct loop *loop, const struct clock *clock, bool lossy,
	       struct store **out, struct err *err);
void store_close(struct store *s); /* commits all writes */

/* One write: a statement (a string literal), its values in order, the end. It takes effect in the
 * order of writing. A constraint that it breaks is logged and the write left out: who can meet one
 * looks first. */
void store_put(struct store *s, const char *sql);
void store_put_text(struct store *s, const char *text); /* NULL: NULL */
void store_put_int(struct store *s, int64_t v);
void store_put_blob(struct store *s, const void *p, size_t n); /* p NULL: NULL */
uint64_t store_put_end(struct store *s);		       /* its number, never 0 */
/* Takes a write back if it has not been carried out, because a later one replaces it: a row that
 * changes often is written once a commit. After a SIGKILL both are carried out in order, so the
 * later one must be right also after the first. */
bool store_take_back(struct store *s, uint64_t number);
/* Prepared statement for reading, cached by the text's address (string literal); it comes reset and
 * unbound, and sees all that was written. Reset it yourself where you stop before SQLITE_DONE: a
 * statement left standing holds back the checkpoints. NULL if the file cannot be read any more
 * (sqlite3 functions answer SQLITE_MISUSE to it). */
sqlite3_stmt *store_stmt(struct store *s, const char *sql);
sqlite3 *store_db(struct store *s); /* for messages and tests */
/* Runs at the end of the turn, when all that was written so far is safe from SIGKILL (at once if it
 * is). In order of registration. */
typedef void store_done_fn(void *arg);
void store_after(struct store *s, store_done_fn *fn, void *arg);
/* The same before the sinks get the events: for work that no reader of them can see. */
void store_before_sinks(struct store *s, store_done_fn *fn, void *arg);
/* The same when it is in the database (at once if it is). */
void store_after_commit(struct store *s, store_done_fn *fn, void *arg);
/* Commits now (shutdown, tests). On failure nothing is lost: it is tried again, and meanwhile
 * store_failing reports it. */
int store_commit(struct store *s, struct err *err);
/* Whether the database cannot be written: -E_UNAVAILABLE, why. Nothing new should be begun then. */
int store_failing(const struct store *s, struct err *err);
/* Gives memory back that only the next writes and reads need. */
void store_trim(struct store *s);
/* Calls all waiters, safe or not: for an end without the loop. */
void store_release(struct store *s);

/* Gives the event its seq, canonical JSON and chain hash and writes it. ring NULL: made by the API
 * child itself. e->seq is set, and time_us where it is 0. */
void store_event(struct store *s, struct event *e, const char *ring, uint64_t pos);
/* Up to where a ring's records are in the store; 0 if nothing of it is. */
uint64_t store_ring_end(struct store *s, const char *ring);
uint64_t store_put_ring_end(struct store *s, const char *ring, uint64_t pos); /* its number */
void store_drop_rings(struct store *s, const char *id); /* id and all "id/NAME" are gone */
/* An event as sinks see it; strings that it does not have are NULL. */
struct stored_event {
	uint64_t seq;
	enum event_type type;
	uint32_t count;
	const char *session_id, *command_id, *decision;
	const char *json; /* without trailing newline */
	size_t len;
};
/* Called at the end of a turn for every event of it, in order. Sinks come before what store_after
 * registered, and never call store_commit. */
typedef void store_sink_fn(const struct stored_event *e, void *arg);
/* Called once after the sinks of a turn that had events, for sinks that gather. */
typedef void store_turn_fn(void *arg);
/* Either function may be NULL. */
void store_add_sink(struct store *s, store_sink_fn *fn, store_turn_fn *turn, void *arg);
void store_remove_sink(struct store *s, store_sink_fn *fn, store_turn_fn *turn, void *arg);
/* The JSON of the event that store_event has just taken; until the next call. */
const struct buf *store_last_json(const struct store *s);
uint64_t store_last_seq(struct store *s); /* of the last event that is safe */
/* Events up to seq were given out and are lost: the next one comes behind it, and the first
 * reports the gap. Before any other event. */
void store_skip_to(struct store *s, uint64_t seq);
struct loop *store_loop(struct store *s);

struct event_query {
	const char *session_id, *command_id, *agent_id; /* NULL: any */
	uint64_t types;					/* bit set of 1<<enum event_type; 0: any */
	const char *decision; /* NULL: any; allow, deny: the effective one; else that of a rule */
	bool without_denied;  /* operations that were refused do not match */
	int64_t since_us, until_us; /* 0: none; since <= time < until */
	uint64_t after_seq;
	unsigned limit, offset; /* limit 0: all */
	bool newest_first;
};
/* Calls fn for each match in order of seq; *total (may be NULL) counts all matches without limit
 * and offset. On the loop and without a budget: only for what an index finds and a limit bounds. */
typedef void store_row_fn(uint64_t seq, enum event_type type, const char *json, size_t len,
			  void *arg);
int store_query(struct store *s, const struct event_query *q, store_row_fn *fn, void *arg,
		uint64_t *total, struct err *err);

/* How far a query came. */
struct event_page {
	uint64_t next;	/* after_seq for what follows; 0: nothing does */
	unsigned skip;	/* offset for what follows */
	uint64_t total; /* matches without limit and offset, as far as they were counted */
	bool total_exact;
	bool partial; /* the budget ended it before the limit */
};
struct event_answer {
	struct err err;	   /* E_OK: what follows holds */
	struct buf events; /* JSON, with a comma between two */
	struct event_row {
		uint64_t seq;
		size_t at, len; /* in events */
		enum event_type type;
	} * row;
	size_t n;
	struct event_page page;
};
/* Asks on one of two threads with connections of their own, within the budget of query.h, once all
 * that was written before is in the database. fn is called once on the loop, never from here; the
 * answer is gone when it returns. q is copied. */
struct store_ask;
struct store_asking {
	const char *caller; /* callers take turns */
	bool count;	    /* page.total is wanted */
	/* While the database cannot be written: wait until it can, and not only for the next try
	 * to write it. */
	bool patient;
	void (*fn)(const struct event_answer *answer, void *arg);
	void *arg;
};
/* Fails with E_UNAVAILABLE if this caller has too many waiting already (never where patient). */
int store_ask(struct store *s, const struct event_query *q, const struct store_asking *how,
	      struct store_ask **out, struct err *err);
void store_ask_cancel(struct store_ask *a); /* before fn was called; NULL is fine */
/* Parses "a,b" into a bit set ("" is 0: any); unknown types are E_BAD_REQUEST with a suggestion. */
int event_types_parse(const char *s, uint64_t *types, struct err *err);
