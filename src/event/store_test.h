// SPDX-License-Identifier: Apache-2.0
/* event/store_test.h - a store in a directory of its own, with a loop and a clock that stands
 * still, for its tests. */
#pragma once
#include "base/mem.h"
#include "event/store.h"
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct world {
	char dir[64], path[80];
	struct event_base *base;
	struct clock clock;
	struct store *store;
	struct buf heard; /* what sinks and waiters were told, in order */
};

static inline void open_store(struct world *w)
{
	struct err err = {0};
	const int rc = store_open(w->path, w->base, &w->clock, &w->store, &err);

	if (rc < 0)
		print_error("%s\n", err.message);
	assert_int_equal(rc, 0);
}

static inline struct world *world_new(unsigned priorities)
{
	struct world *w = mem_new(struct world);

	snprintf(w->dir, sizeof(w->dir), "/tmp/store_test.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/agentsh.db", w->dir);
	w->base = event_base_new();
	event_base_priority_init(w->base, (int)priorities);
	w->clock.fixed_us = 1767323045678901;
	open_store(w);
	return w;
}

static inline int setup(void **state)
{
	*state = world_new(1);
	return 0;
}

static inline int teardown(void **state)
{
	static const char *const tails[] = {"", "-wal", "-shm"};
	struct world *w = *state;
	char path[96];

	store_close(w->store);
	event_base_free(w->base);
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
	event_base_loop(w->base, EVLOOP_NONBLOCK);
}

static inline char *arg(const char *s)
{
	return (char *)(uintptr_t)s;
}

static inline int put(struct world *w, const char *session, uint64_t *seq)
{
	struct event e = {
		.type = EVENT_exec, .session_id = arg(session), .exec_path = arg("/bin/x")};
	struct err err = {0};
	const int rc = store_event(w->store, &e, NULL, 0, &err);

	if (seq != NULL)
		*seq = e.seq;
	return rc;
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

static inline void on_sink(uint64_t seq, const struct event *e, const char *json, size_t len,
			   void *data)
{
	struct world *w = data;

	assert_int_equal(strlen(json), len);
	assert_int_equal(e->seq, seq);
	buf_addf(&w->heard, "e%llu ", (unsigned long long)seq);
}

static inline void on_done(const struct err *err, void *data)
{
	buf_adds(&((struct world *)data)->heard, err == NULL ? "done " : "failed ");
}

static inline void on_done_write_again(const struct err *err, void *data)
{
	struct world *w = data;

	buf_adds(&w->heard, "again ");
	put(w, "s", NULL);
	store_after(w->store, on_done, w);
}
