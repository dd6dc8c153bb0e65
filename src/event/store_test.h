// SPDX-License-Identifier: Apache-2.0
/* event/store_test.h - a store in a directory of its own, with a loop and a clock that stands
 * still, for its tests. */
#pragma once
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "event/store_state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct world {
	char dir[64], path[80];
	struct loop *loop;
	struct clock clock;
	struct store *store;
	struct buf heard; /* what sinks and waiters were told, in order */
};

static inline void open_store(struct world *w)
{
	struct err err = {0};
	const int rc = store_open(w->path, w->loop, &w->clock, &w->store, &err);

	if (rc < 0)
		print_error("%s\n", err.message);
	assert_int_equal(rc, 0);
}

static inline int setup(void **state)
{
	struct world *w = mem_new(struct world);

	snprintf(w->dir, sizeof(w->dir), "/tmp/store_test.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/agentsh.db", w->dir);
	w->loop = loop_new(NULL, NULL);
	w->clock.fixed_us = 1767323045678901;
	open_store(w);
	*state = w;
	return 0;
}

static inline int teardown(void **state)
{
	static const char *const tails[] = {"", "-wal", "-shm", "-redo"};
	struct world *w = *state;
	char path[96];

	store_close(w->store);
	loop_free(w->loop);
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		snprintf(path, sizeof(path), "%s%s", w->path, tails[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(w->dir), 0);
	buf_done(&w->heard);
	free(w);
	return 0;
}

static inline void turn(struct world *w)
{
	loop_pass(w->loop);
}

/* The turn's end, and the commit that would come a little later. */
static inline void commit(struct world *w)
{
	turn(w);
	assert_int_equal(store_commit(w->store, NULL), 0);
}

/* Nothing is committed by itself until the next commit, however slow the test is. */
static inline void hold(struct world *w)
{
	watch_after(w->store->commit_due, 1000 * 1000);
}

static inline char *arg(const char *s)
{
	return (char *)(uintptr_t)s;
}

static inline uint64_t put(struct world *w, const char *session)
{
	struct event e = {
		.type = EVENT_exec, .session_id = arg(session), .exec_path = arg("/bin/x")};

	store_event(w->store, &e, NULL, 0);
	return e.seq;
}

/* A row of meta. */
static inline void put_meta(struct world *w, const char *key)
{
	store_put(w->store, "INSERT INTO meta(key, value) VALUES(?, 1)");
	store_put_text(w->store, key);
	store_put_end(w->store);
}

/* One number from the database as another process would see it. */
static inline int64_t outside(struct world *w, const char *sql)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt = NULL;
	int64_t n;

	assert_int_equal(sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
	sqlite3_busy_timeout(db, 1000);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	sqlite3_step(stmt);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return n;
}

static inline void on_sink(const struct stored_event *e, void *data)
{
	struct world *w = data;

	assert_int_equal(strlen(e->json), e->len);
	buf_addf(&w->heard, "e%llu ", (unsigned long long)e->seq);
}

static inline void on_done(void *data)
{
	buf_adds(&((struct world *)data)->heard, "done ");
}

static inline void on_commit(void *data)
{
	buf_adds(&((struct world *)data)->heard, "commit ");
}

static inline void on_done_write_again(void *data)
{
	struct world *w = data;

	buf_adds(&w->heard, "again ");
	put(w, "s");
	store_after(w->store, on_done, w);
}

/* What was told since the last call. */
static inline void assert_heard(struct world *w, const char *want)
{
	buf_adds(&w->heard, "");
	assert_string_equal(w->heard.data, want);
	buf_clear(&w->heard);
	w->heard.data[0] = '\0';
}

/* The chain is whole and ends with this event. */
static inline void assert_chain(struct world *w, uint64_t last)
{
	struct err err = {0};
	uint64_t bad = 99;

	assert_int_equal(store_last_seq(w->store), last);
	assert_int_equal(outside(w, "SELECT count(*) FROM events"), last);
	assert_int_equal(store_verify(w->store, &bad, &err), 0);
	assert_int_equal(bad, 0);
}
