// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "event/store.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct world {
	char dir[64], path[80];
	struct loop *loop;
	struct store *store;
	struct buf found;
	char sql[8192]; /* the last statement that was run */
};

static char *arg(const char *s)
{
	return (char *)(uintptr_t)s;
}

/* seq: session, command, agent, type, decision, time */
static const struct event samples[] = {
	{.session_id = (char *)"s1",
	 .command_id = (char *)"c1",
	 .agent_id = (char *)"a1",
	 .type = EVENT_exec,
	 .decision = (char *)"allow",
	 .policy_decision = (char *)"log",
	 .policy_effective = (char *)"allow",
	 .time_us = 100},
	{.session_id = (char *)"s1",
	 .command_id = (char *)"c1",
	 .agent_id = (char *)"a1",
	 .type = EVENT_file_open,
	 .decision = (char *)"deny",
	 .time_us = 300},
	{.session_id = (char *)"s2",
	 .command_id = (char *)"c2",
	 .agent_id = (char *)"a2",
	 .type = EVENT_exec,
	 .decision = (char *)"deny",
	 .policy_decision = (char *)"approve",
	 .policy_effective = (char *)"deny",
	 .time_us = 200},
	{.session_id = (char *)"s1",
	 .command_id = (char *)"c3",
	 .agent_id = (char *)"a1",
	 .type = EVENT_enforcement_failed,
	 .time_us = 200},
	{.type = EVENT_session_created, .time_us = 400},
};

static int setup(void **state)
{
	struct world *w = mem_new(struct world);
	struct err err = {0};

	snprintf(w->dir, sizeof(w->dir), "/tmp/store_query_test.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/agentsh.db", w->dir);
	w->loop = loop_new(NULL, NULL);
	assert_int_equal(store_open(w->path, w->loop, &clock_system, false, &w->store, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		struct event e = samples[i];

		store_event(w->store, &e, NULL, 0);
	}
	assert_int_equal(store_commit(w->store, &err), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	static const char *const tails[] = {"", "-redo", "-redo2"};
	char path[96];

	store_close(w->store);
	loop_free(w->loop);
	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		snprintf(path, sizeof(path), "%s%s", w->path, tails[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(w->dir), 0);
	buf_done(&w->found);
	free(w);
	return 0;
}

static void on_row(uint64_t seq, enum event_type type, const char *json, size_t len, void *data)
{
	char start[32];
	const int n = snprintf(start, sizeof(start), "{\"seq\":%llu,", (unsigned long long)seq);

	assert_int_equal(strlen(json), len);
	assert_memory_equal(json, start, n);
	buf_addf(data, "%llu ", (unsigned long long)seq);
}

static const char *ask(struct world *w, const struct event_query *q, uint64_t *total)
{
	struct err err = {0};

	buf_clear(&w->found);
	buf_adds(&w->found, "");
	assert_int_equal(store_query(w->store, q, on_row, &w->found, total, &err), 0);
	return w->found.data;
}

#define BIT(type) (1ULL << EVENT_##type)

static void evt_3_every_filter_and_its_limits(void **state)
{
	static const struct {
		struct event_query q;
		const char *want;
		uint64_t total;
	} row[] = {
		{{0}, "1 2 3 4 5 ", 5},
		{{.session_id = "s1"}, "1 2 4 ", 3},
		{{.session_id = "s"}, "", 0},
		{{.command_id = "c1"}, "1 2 ", 2},
		{{.agent_id = "a2"}, "3 ", 1},
		{{.session_id = "s1", .command_id = "c2"}, "", 0},
		{{.session_id = "s1", .command_id = "c3", .agent_id = "a1"}, "4 ", 1},
		{{.types = BIT(exec)}, "1 3 ", 2},
		{{.types = BIT(exec) | BIT(session_created)}, "1 3 5 ", 3},
		{{.types = BIT(enforcement_failed)}, "4 ", 1},
		{{.types = BIT(net_close)}, "", 0},
		{{.types = UINT64_MAX}, "1 2 3 4 5 ", 5},
		{{.decision = "deny"}, "2 3 ", 2},
		{{.decision = "allow"}, "1 ", 1},
		{{.decision = "log"}, "1 ", 1},
		{{.decision = "approve"}, "3 ", 1},
		{{.session_id = "s1", .decision = "approve"}, "", 0},
		{{.decision = "redirect"}, "", 0},
		{{.since_us = 200}, "2 3 4 5 ", 4},
		{{.since_us = 201}, "2 5 ", 2},
		{{.until_us = 200}, "1 ", 1},
		{{.until_us = 201}, "1 3 4 ", 3},
		{{.session_id = "s1", .since_us = 200, .until_us = 300}, "4 ", 1},
		{{.session_id = "s1", .since_us = 300, .until_us = 301}, "2 ", 1},
		{{.after_seq = 3}, "4 5 ", 2},
		{{.after_seq = 5}, "", 0},
		{{.after_seq = UINT64_MAX}, "", 0},
		{{.limit = 2}, "1 2 ", 5},
		{{.limit = 2, .offset = 1}, "2 3 ", 5},
		{{.offset = 4}, "5 ", 5},
		{{.offset = 5}, "", 5},
		{{.newest_first = true, .limit = 2}, "5 4 ", 5},
		{{.session_id = "s1", .newest_first = true}, "4 2 1 ", 3},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint64_t total = 99;

		assert_string_equal(ask(w, &row[i].q, &total), row[i].want);
		assert_int_equal(total, row[i].total);
		assert_string_equal(ask(w, &row[i].q, NULL), row[i].want);
	}
}

static void evt_3_a_filter_is_data(void **state)
{
	const struct event_query q = {.session_id = "s1' OR '1'='1"};

	assert_string_equal(ask(*state, &q, NULL), "");
}

static void evt_3_what_is_not_committed_yet_is_found(void **state)
{
	struct world *w = *state;
	const struct event_query q = {.session_id = "s3"};
	struct event e = {.type = EVENT_exec, .session_id = arg("s3")};

	store_event(w->store, &e, NULL, 0);
	assert_string_equal(ask(w, &q, NULL), "6 ");
}

static int on_trace(unsigned what, void *data, void *stmt, void *x)
{
	struct world *w = data;

	snprintf(w->sql, sizeof(w->sql), "EXPLAIN QUERY PLAN %s", sqlite3_sql(stmt));
	return 0;
}

/* The plan of what store_query ran last. */
static void explain(struct world *w, const struct event_query *q, struct buf *plan)
{
	sqlite3 *db = store_db(w->store);
	sqlite3_stmt *stmt = NULL;

	buf_clear(plan);
	sqlite3_trace_v2(db, SQLITE_TRACE_STMT, on_trace, w);
	ask(w, q, NULL);
	sqlite3_trace_v2(db, 0, NULL, NULL);
	assert_int_equal(sqlite3_prepare_v2(db, w->sql, -1, &stmt, NULL), SQLITE_OK);
	while (sqlite3_step(stmt) == SQLITE_ROW)
		buf_addf(plan, "%s; ", sqlite3_column_text(stmt, 3));
	sqlite3_finalize(stmt);
}

static void evt_3_filters_are_served_by_indexes_in_order(void **state)
{
	static const struct {
		struct event_query q;
		const char *want;
	} row[] = {
		{{.session_id = "s1"},
		 "USING INDEX events_session (session_id=? AND rowid>? AND rowid<?)"},
		{{.session_id = "s1", .newest_first = true, .limit = 5},
		 "USING INDEX events_session ("},
		{{.session_id = "s1", .since_us = 1, .until_us = 900, .decision = "deny"},
		 "USING INTEGER PRIMARY KEY (rowid=?)"},
		{{.session_id = "s1", .types = BIT(exec), .decision = "deny"},
		 "USING INDEX events_session_decision (session_id=? AND decision=? AND rowid>?"},
		{{.session_id = "s1", .types = BIT(exec), .decision = "allow"},
		 "USING INDEX events_session_type (session_id=? AND type=? AND rowid>?"},
		{{.session_id = "s1", .types = BIT(exec) | BIT(file_open)}, "MERGE (UNION ALL)"},
		{{.session_id = "s1", .decision = "allow"}, "USING INDEX events_session_decision"},
		{{.session_id = "s1", .decision = "log"}, "USING INDEX events_session ("},
		{{.session_id = "s1", .agent_id = "a", .types = BIT(exec), .after_seq = 9},
		 "USING INDEX events_session_type"},
		{{.session_id = "s1", .types = UINT64_MAX}, "USING INDEX events_session ("},
		{{.types = BIT(exec)}, "USING INDEX events_type (type=? AND rowid>?"},
		{{.types = BIT(exec), .decision = "deny"},
		 "USING INDEX events_decision (decision=? AND rowid>?"},
		{{.decision = "allow"}, "USING INDEX events_decision"},
		{{.since_us = 1}, "USING COVERING INDEX events_time (time_us>? AND time_us<?)"},
		{{.session_id = "s1", .command_id = "c1"}, "USING INDEX events_command"},
		{{.command_id = "c1", .since_us = 1}, "USING INDEX events_command"},
		{{.after_seq = 7}, "USING INTEGER PRIMARY KEY"},
	};
	struct world *w = *state;
	struct buf plan = {0};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		explain(w, &row[i].q, &plan);
		assert_non_null(strstr(plan.data, row[i].want));
		assert_null(strstr(plan.data, "SCAN"));
		assert_null(strstr(plan.data, "TEMP B-TREE"));
	}
	buf_done(&plan);
}

static void evt_3_a_database_that_cannot_be_read_is_told(void **state)
{
	struct world *w = *state;
	const struct event_query q = {0};
	struct err err = {0};
	uint64_t total = 77;

	sqlite3_exec(store_db(w->store), "ALTER TABLE events RENAME TO gone", NULL, NULL, NULL);
	assert_int_equal(store_query(w->store, &q, on_row, &w->found, &total, &err),
			 -E_UNAVAILABLE);
	assert_int_equal(store_query(w->store, &q, on_row, &w->found, NULL, &err), -E_UNAVAILABLE);
	assert_int_equal(total, 77);
}

static void evt_4_types_are_parsed_with_a_suggestion(void **state)
{
	static const struct {
		const char *text;
		uint64_t types;
		const char *problem;
	} row[] = {
		{"", 0, NULL},
		{"exec", BIT(exec), NULL},
		{"session_created,enforcement_failed", 1 | BIT(enforcement_failed), NULL},
		{"exec,exec", BIT(exec), NULL},
		{"file_opne", 0, "unknown event type 'file_opne' (did you mean file_open?)"},
		{"exec,quite_else", 0, "unknown event type 'quite_else'"},
		{"exec,", 0, "unknown event type ''"},
		{",exec", 0, "unknown event type ''"},
		{"exec ", 0, "unknown event type 'exec ' (did you mean exec?)"},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct err err = {0};
		uint64_t types = 42;
		const int rc = event_types_parse(row[i].text, &types, &err);

		assert_int_equal(rc, row[i].problem != NULL ? -E_BAD_REQUEST : 0);
		assert_int_equal(types, row[i].problem != NULL ? 42 : row[i].types);
		if (row[i].problem != NULL)
			assert_string_equal(err.message, row[i].problem);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(evt_3_every_filter_and_its_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(evt_3_a_filter_is_data, setup, teardown),
		cmocka_unit_test_setup_teardown(evt_3_what_is_not_committed_yet_is_found, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_3_filters_are_served_by_indexes_in_order, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_3_a_database_that_cannot_be_read_is_told, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_4_types_are_parsed_with_a_suggestion, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
