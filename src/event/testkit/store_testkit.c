// SPDX-License-Identifier: Apache-2.0
#include "event/testkit/store_testkit.h"
#include <stdio.h>

void world_open(struct world *w)
{
	struct err err = {0};
	const int rc = store_open(w->path, w->loop, &w->clock, false, &w->store, &err);

	if (rc < 0)
		print_error("%s\n", err.message);
	assert_int_equal(rc, 0);
}

int world_setup(void **state)
{
	struct world *w = mem_new(struct world);

	snprintf(w->dir, sizeof(w->dir), "/tmp/store_test.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/agentsh.db", w->dir);
	w->loop = loop_new(NULL, NULL);
	w->clock.fixed_us = 1767323045678901;
	world_open(w);
	*state = w;
	return 0;
}

int world_teardown(void **state)
{
	static const char *const tails[] = {"", "-wal", "-shm", "-redo", "-redo2"};
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

void world_turn(struct world *w)
{
	loop_pass(w->loop);
}

/* The turn's end, and the commit that would come a little later. */
void world_commit(struct world *w)
{
	world_turn(w);
	assert_int_equal(store_commit(w->store, NULL), 0);
}

void world_written(struct world *w)
{
	while (w->store->writing)
		loop_turn(w->loop);
}

/* Nothing is committed by itself until the next world_commit, however slow the test is. */
void world_hold(struct world *w)
{
	watch_after(w->store->commit_due, 1000 * 1000);
}

uint64_t world_put(struct world *w, const char *session)
{
	struct event e = {.type = EVENT_exec,
			  .session_id = event_lend(session),
			  .exec_path = event_lend("/bin/x")};

	store_event(w->store, &e, NULL, 0);
	return e.seq;
}

/* A row of meta. */
void world_put_meta(struct world *w, const char *key)
{
	store_put(w->store, "INSERT INTO meta(key, value) VALUES(?, 1)");
	store_put_text(w->store, key);
	store_put_end(w->store);
}

/* One number from the database as another process would see it. */
int64_t world_number(struct world *w, const char *sql)
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

void world_on_sink(const struct stored_event *e, void *data)
{
	struct world *w = data;

	assert_int_equal(strlen(e->json), e->len);
	buf_addf(&w->heard, "e%llu ", (unsigned long long)e->seq);
}

void world_on_done(void *data)
{
	buf_adds(&((struct world *)data)->heard, "done ");
}

void world_on_commit(void *data)
{
	buf_adds(&((struct world *)data)->heard, "commit ");
}

void world_on_done_write_again(void *data)
{
	struct world *w = data;

	buf_adds(&w->heard, "again ");
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
}

void world_assert_heard(struct world *w, const char *want)
{
	buf_adds(&w->heard, "");
	assert_string_equal(w->heard.data, want);
	buf_clear(&w->heard);
	w->heard.data[0] = '\0';
}

/* The chain is whole and ends with this event. */
void world_assert_chain(struct world *w, uint64_t last)
{
	struct err err = {0};
	uint64_t bad = 99;

	assert_int_equal(store_last_seq(w->store), last);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), last);
	assert_int_equal(chain_verify(w->store, &bad, &err), 0);
	assert_int_equal(bad, 0);
}
