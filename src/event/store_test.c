// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "event/testkit/store_testkit.h"
#include <fcntl.h>
#include <sys/stat.h>

static void evt_5_the_chain_is_as_documented_and_goes_on_after_a_restart(void **state)
{
	struct world *w = *state;
	uint8_t want[HASH_LEN] = {0};
	sqlite3_stmt *stmt;

	world_put(w, "s");
	world_put(w, "s");
	store_close(w->store);
	world_open(w);
	assert_int_equal(store_last_seq(w->store), 2);
	assert_int_equal(world_put(w, "s"), 3);
	stmt = store_stmt(w->store, "SELECT body, hash FROM events ORDER BY seq");
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		hash_sha256(want, want, HASH_LEN, sqlite3_column_blob(stmt, 0),
			    (size_t)sqlite3_column_bytes(stmt, 0));
		assert_memory_equal(want, sqlite3_column_blob(stmt, 1), HASH_LEN);
	}
	world_commit(w);
	world_assert_chain(w, 3);
}

static void evt_5_tampering_shows_at_the_first_wrong_event(void **state)
{
	static const struct {
		const char *sql;
		uint64_t bad;
	} row[] = {
		{"UPDATE events SET body = replace(body, 'exec', 'exac') WHERE seq = 3", 3},
		{"UPDATE events SET hash = zeroblob(32) WHERE seq = 5", 5},
		{"UPDATE events SET hash = zeroblob(31) WHERE seq = 2", 2},
		{"DELETE FROM events WHERE seq = 1", 1},
		{"DELETE FROM events WHERE seq = 4", 4},
		{"UPDATE events SET seq = 9 WHERE seq = 5", 5},
	};
	struct world *w = *state;

	for (int i = 0; i < 5; i++)
		world_put(w, "s");
	world_commit(w);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint64_t bad = 99;
		struct err err = {0};

		sqlite3_exec(store_db(w->store), "BEGIN", NULL, NULL, NULL);
		assert_int_equal(sqlite3_exec(store_db(w->store), row[i].sql, NULL, NULL, NULL), 0);
		assert_int_equal(chain_verify(w->store, &bad, &err), 0);
		assert_int_equal(bad, row[i].bad);
		sqlite3_exec(store_db(w->store), "ROLLBACK", NULL, NULL, NULL);
	}
}

static void evt_2_a_ring_ends_where_it_was_read_to(void **state)
{
	struct world *w = *state;

	assert_int_equal(store_ring_end(w->store, "a"), 0);
	store_put_ring_end(w->store, "a", 8);
	store_put_ring_end(w->store, "b", 0);
	assert_int_equal(store_ring_end(w->store, "a"), 8);
	store_put_ring_end(w->store, "a", UINT32_MAX * 8ULL);
	world_commit(w);
	assert_int_equal(world_number(w, "SELECT count(*) FROM rings"), 2);
	store_close(w->store);
	world_open(w);
	assert_int_equal(store_ring_end(w->store, "a"), UINT32_MAX * 8ULL);
	assert_int_equal(store_ring_end(w->store, "b"), 0);
	assert_int_equal(store_ring_end(w->store, "A"), 0);
	/* Those of a session that is gone begin anew under their names; 'a0' is another's. */
	store_put_ring_end(w->store, "a/fs", 24);
	store_put_ring_end(w->store, "a0", 32);
	store_drop_rings(w->store, "a");
	assert_int_equal(store_ring_end(w->store, "a/fs"), 0);
	assert_int_equal(store_ring_end(w->store, "a0"), 32);
	store_drop_rings(w->store, "a0");
	store_drop_rings(w->store, "never was");
	assert_int_equal(store_ring_end(w->store, "a"), 0);
	store_put_ring_end(w->store, "a", 16);
	assert_int_equal(store_ring_end(w->store, "a"), 16);
	world_commit(w);
	assert_int_equal(world_number(w, "SELECT pos FROM rings WHERE ring='a'"), 16);
	assert_int_equal(world_number(w, "SELECT count(*) FROM rings"), 2);
}

static void evt_2_values_of_every_kind_arrive_as_they_were(void **state)
{
	struct world *w = *state;
	static const char *const want[] = {"null,",    "text,''",      "text,'it''s'", "integer,",
					   "blob,X''", "blob,X'00FF'", "null,"};
	static const int64_t numbers[] = {0, -1, INT64_MIN, INT64_MAX};
	static const char sql[] = "REPLACE INTO meta(key, value) VALUES('v', ?1)";
	sqlite3_stmt *stmt;

	for (size_t i = 0; i < ARRAY_LEN(want) + ARRAY_LEN(numbers) - 1; i++) {
		const size_t number = i >= 3 && i < 7 ? i - 3 : 0;
		const size_t kind = i < 3 ? i : i < 7 ? 3 : i - 3;
		char text[64];

		store_put(w->store, sql);
		switch (kind) {
		case 3:
			store_put_int(w->store, numbers[number]);
			break;
		case 4:
		case 5:
			store_put_blob(w->store, "\0\xff", kind == 4 ? 0 : 2);
			break;
		case 6:
			store_put_blob(w->store, NULL, 2);
			break;
		default:
			store_put_text(w->store, kind == 0 ? NULL : kind == 1 ? "" : "it's");
		}
		store_put_end(w->store);
		stmt = store_stmt(w->store, "SELECT typeof(value) || ',' ||"
					    " iif(value IS NULL, '', quote(value))"
					    " FROM meta WHERE key='v'");
		assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
		snprintf(text, sizeof(text), "%s", sqlite3_column_text(stmt, 0));
		sqlite3_reset(stmt);
		assert_memory_equal(text, want[kind], strlen(want[kind]));
		if (kind != 3) {
			assert_string_equal(text, want[kind]);
			continue;
		}
		stmt = store_stmt(w->store, "SELECT value FROM meta WHERE key='v'");
		assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
		assert_true(sqlite3_column_int64(stmt, 0) == numbers[number]);
		sqlite3_reset(stmt);
	}
}

/* Nothing of a value stays for the next write by the same statement. */
static void evt_2_a_value_that_is_not_given_is_null(void **state)
{
	struct world *w = *state;
	static const char sql[] = "REPLACE INTO meta(key, value) VALUES(?, ?)";

	for (int i = 0; i < 2; i++) {
		store_put(w->store, sql);
		store_put_text(w->store, i == 0 ? "a" : "b");
		if (i == 0)
			store_put_int(w->store, 5);
		store_put_end(w->store);
	}
	world_commit(w);
	assert_int_equal(world_number(w, "SELECT value FROM meta WHERE key='a'"), 5);
	assert_int_equal(world_number(w, "SELECT value IS NULL FROM meta WHERE key='b'"), 1);
}

/* As many as the cache takes, besides those of this test and of opening and closing. */
#define STATEMENTS (192 - 4)

static void ses_1_statements_are_cached_by_address(void **state)
{
	struct world *w = *state;
	static const char a[] = "SELECT ?1", b[] = "SELECT ?1";
	static char many[STATEMENTS][32];
	sqlite3_stmt *stmt = store_stmt(w->store, a);

	sqlite3_bind_int(stmt, 1, 5);
	sqlite3_step(stmt);
	assert_ptr_equal(store_stmt(w->store, a), stmt);
	assert_false(sqlite3_stmt_busy(stmt));
	sqlite3_step(stmt);
	assert_int_equal(sqlite3_column_type(stmt, 0), SQLITE_NULL);
	sqlite3_reset(stmt);
	assert_ptr_not_equal(store_stmt(w->store, b), stmt);
	for (int i = 0; i < STATEMENTS; i++) {
		snprintf(many[i], sizeof(many[i]), "SELECT %d", i);
		stmt = store_stmt(w->store, many[i]);
	}
	for (int i = 0; i < STATEMENTS; i++)
		assert_string_equal(sqlite3_sql(store_stmt(w->store, many[i])), many[i]);
}

static void ses_8_closing_commits_and_leaves_one_private_file(void **state)
{
	struct world *w = *state;
	struct stat st;
	char wal[96];

	world_put(w, "s");
	store_after(w->store, world_on_done_write_again, w);
	store_after_commit(w->store, world_on_commit, w);
	store_close(w->store);
	w->store = NULL;
	world_assert_heard(w, "again commit done ");
	snprintf(wal, sizeof(wal), "%s-wal", w->path);
	assert_int_equal(access(wal, F_OK), -1);
	assert_int_equal(stat(w->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 2);
}

static void set_version(struct world *w, int version)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", version);
	world_number(w, sql);
}

static void cfg_1_what_cannot_be_opened_is_named_with_a_remedy(void **state)
{
	struct world *w = *state;
	struct store *other = NULL;
	struct err err = {0};
	char path[96];
	int fd;

	store_close(w->store);
	w->store = NULL;
	set_version(w, 8);
	assert_int_equal(store_open(w->path, w->loop, &w->clock, false, &other, &err),
			 -E_UNAVAILABLE);
	assert_non_null(
		strstr(err.message, "has version 8, this program knows 7; install the newer"));
	set_version(w, -1);
	assert_int_equal(store_open(w->path, w->loop, &w->clock, false, &other, &err),
			 -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "has version -1: it is damaged or not ours; move it"));
	assert_int_equal(world_number(w, "PRAGMA user_version"), -1);
	set_version(w, 0);
	/* Tables that are there already: the migration fails, and nothing of it stays. */
	assert_int_equal(store_open(w->path, w->loop, &w->clock, false, &other, &err),
			 -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "table events already exists"));
	assert_int_equal(world_number(w, "PRAGMA user_version"), 0);

	snprintf(path, sizeof(path), "%s/no/dir", w->dir);
	assert_int_equal(store_open(path, w->loop, &w->clock, false, &other, &err), -E_UNAVAILABLE);
	assert_string_equal(err.subject, path);
	assert_non_null(strstr(err.message, "check that its directory exists"));

	fd = open(w->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	for (int i = 0; i < 200; i++)
		assert_int_equal(fdio_write_all(fd, "this is no database\n", 20), 0);
	close(fd);
	assert_int_equal(store_open(w->path, w->loop, &w->clock, false, &other, &err),
			 -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "move it away"));
	assert_null(other);
}

static void ses_8_the_tables_have_the_agreed_columns(void **state)
{
	static const char *const want[][2] = {
		{"events", "seq,ring,pos,time_us,type,session_id,command_id,agent_id,decision,path,"
			   "domain,body,hash,policy_decision"},
		{"sessions", "id,agent_id,owner_uid,state,created_us,last_activity_us,ended_us,"
			     "workspace,policy_name,policy_version,cwd,env,config,walls,failure,"
			     "command_count,file_ops,net_ops,bytes_read,bytes_written,capped,"
			     "created_boot_us,active_boot_us,home"},
		{"homes", "id,agent_id,workspace,policy_name,used_us,bytes"},
		{"policies", "version,name,snapshot"},
		{"commands",
		 "agent_id,id,session_id,state,idempotency_key,body_hash,request,result,created_us,"
		 "started_us,finished_us,exit_code,signal,stdout_bytes,stderr_bytes,stdout_lines,"
		 "stderr_lines,max_output,detach,n,stdout_file,stderr_file"},
		{"meta", "key,value"},
		{"rings", "ring,pos"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		sqlite3_stmt *stmt = store_stmt(
			w->store, "SELECT group_concat(name) FROM pragma_table_info(?1)");

		sqlite3_bind_text(stmt, 1, want[i][0], -1, SQLITE_STATIC);
		assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
		assert_string_equal(sqlite3_column_text(stmt, 0), want[i][1]);
		sqlite3_reset(stmt);
	}
}

static void evt_3_a_row_has_what_filters_need_beside_the_body(void **state)
{
	static const struct {
		struct event e;
		const char *path, *domain, *decision;
	} row[] = {
		{{.type = EVENT_file_open, .path = (char *)"/p", .exec_path = (char *)"/x"}, "/p"},
		{{.type = EVENT_exec, .exec_path = (char *)"/x", .decision = (char *)"deny"},
		 "/x",
		 NULL,
		 "deny"},
		{{.type = EVENT_dns_query, .dns_domain = (char *)"d", .tls_sni = (char *)"t"},
		 NULL,
		 "d"},
		{{.type = EVENT_net_connect, .tls_sni = (char *)"t"}, NULL, "t"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const char *const want[] = {row[i].path, row[i].domain, row[i].decision};
		struct event e = row[i].e;
		sqlite3_stmt *stmt;

		store_event(w->store, &e, "ring", i);
		stmt = store_stmt(w->store,
				  "SELECT path, domain, decision, type, ring, pos, time_us "
				  "FROM events ORDER BY seq DESC LIMIT 1");
		assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
		for (int k = 0; k < 3; k++) {
			const char *got = (const char *)sqlite3_column_text(stmt, k);

			assert_int_equal(got == NULL, want[k] == NULL);
			if (got != NULL)
				assert_string_equal(got, want[k]);
		}
		assert_string_equal(sqlite3_column_text(stmt, 3),
				    event_type_name((enum event_type)e.type));
		assert_string_equal(sqlite3_column_text(stmt, 4), "ring");
		assert_int_equal(sqlite3_column_int64(stmt, 5), i);
		assert_int_equal(sqlite3_column_int64(stmt, 6), e.time_us);
		sqlite3_reset(stmt);
	}
}

static void exe_4_an_idempotency_key_is_unique_per_agent(void **state)
{
	static const struct {
		const char *values;
		int rc;
	} row[] = {
		{"('a', 'c1', 'k')", SQLITE_OK},  {"('a', 'c2', 'k')", SQLITE_CONSTRAINT},
		{"('b', 'c1', 'k')", SQLITE_OK},  {"('a', 'c1', 'l')", SQLITE_CONSTRAINT},
		{"('a', 'c3', NULL)", SQLITE_OK}, {"('a', 'c4', NULL)", SQLITE_OK},
	};
	struct world *w = *state;
	char sql[128];

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		snprintf(sql, sizeof(sql),
			 "INSERT INTO commands(agent_id, id, idempotency_key) VALUES%s",
			 row[i].values);
		assert_int_equal(sqlite3_exec(store_db(w->store), sql, NULL, NULL, NULL),
				 row[i].rc);
	}
}

/* What the steps touch of version 2: rings are known by their events and an index. */
static void cfg_1_version_2_is_migrated_and_its_rings_go_on(void **state)
{
	static const char old[] =
		"CREATE TABLE events(seq INTEGER PRIMARY KEY, ring TEXT, pos INTEGER,"
		"  time_us INTEGER NOT NULL, type TEXT NOT NULL, session_id TEXT,"
		"  command_id TEXT, agent_id TEXT, decision TEXT, path TEXT, domain TEXT,"
		"  body TEXT NOT NULL, hash BLOB NOT NULL);"
		"CREATE UNIQUE INDEX events_ring ON events(ring, pos) WHERE ring IS NOT NULL;"
		"CREATE TABLE sessions(id TEXT PRIMARY KEY);"
		"CREATE TABLE commands(agent_id TEXT, id TEXT, PRIMARY KEY(agent_id, id));"
		"CREATE TABLE meta(key TEXT PRIMARY KEY, value);"
		"INSERT INTO events(ring, pos, time_us, type, body, hash) VALUES"
		"  ('a', 64, 0, 'exec', '{}', zeroblob(32)), ('a', 8, 0, 'exec', '{}', ''),"
		"  ('b', 0, 0, 'exec', '{}', ''), (NULL, NULL, 0, 'exec', '{}', zeroblob(32));"
		"PRAGMA user_version=2";
	struct world *w = *state;
	sqlite3 *db = NULL;

	store_close(w->store);
	w->store = NULL;
	assert_int_equal(unlink(w->path), 0);
	assert_int_equal(sqlite3_open(w->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, old, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	world_open(w);
	assert_int_equal(world_number(w, "PRAGMA user_version"), 7);
	assert_int_equal(
		world_number(w, "SELECT count(*) FROM sqlite_master WHERE name='events_ring'"), 0);
	assert_int_equal(world_number(w, "SELECT count(*) FROM rings"), 2);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events INDEXED BY events_type"
					 " WHERE type='exec'"),
			 4);
	/* Behind the last record's beginning: it is not read again, and what follows it is. */
	assert_int_equal(store_ring_end(w->store, "a"), 65);
	assert_int_equal(store_ring_end(w->store, "b"), 1);
	assert_int_equal(world_put(w, "s"), 5);
}

static void on_found(uint64_t seq, enum event_type type, const char *json, size_t len, void *data)
{
	buf_addf(data, "%llu ", (unsigned long long)seq);
}

/* Before version 6 the decision of a rule was in the body only. */
static void evt_4_events_of_version_5_are_found_by_the_decision_of_their_rule(void **state)
{
	static const char *const want[][2] = {
		{"log", "1 6 "}, {"redirect", "2 "}, {"approve", "3 "}, {"deny", "3 "}};
	struct event e[] = {
		{.decision = event_lend("allow"), .policy_decision = event_lend("log")},
		{.decision = event_lend("allow"), .policy_decision = event_lend("redirect")},
		{.decision = event_lend("deny"), .policy_decision = event_lend("approve")},
		{.decision = event_lend("allow"), .policy_decision = event_lend("allow")},
		{.reason = event_lend("\"policy\":{\"decision\":\"log\",\"effective_decision\"")},
		{.decision = event_lend("allow"), .policy_decision = event_lend("log")},
	};
	struct world *w = *state;
	struct err err = {0};

	for (size_t i = 0; i + 1 < ARRAY_LEN(e); i++) {
		e[i].policy_effective = e[i].decision;
		store_event(w->store, &e[i], NULL, 0);
	}
	world_commit(w);
	store_close(w->store);
	world_number(w, "ALTER TABLE events DROP COLUMN policy_decision");
	world_number(w, "DROP TABLE homes");
	world_number(w, "ALTER TABLE sessions DROP COLUMN home");
	world_number(w, "PRAGMA user_version=5");
	world_open(w);
	assert_int_equal(world_number(w, "PRAGMA user_version"), 7);
	/* The others keep their place on the disk. */
	assert_int_equal(world_number(w, "SELECT count(policy_decision) FROM events"), 3);
	world_assert_chain(w, 5);
	store_event(w->store, &e[5], NULL, 0);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		const struct event_query q = {.decision = want[i][0]};
		cleanup_buf struct buf found = {0};

		assert_int_equal(store_query(w->store, &q, on_found, &found, NULL, &err), 0);
		assert_string_equal(found.data, want[i][1]);
	}
}

static int deny(void *data, int action, const char *a, const char *b, const char *c, const char *d)
{
	return *(int *)data == 0 || action == *(int *)data ? SQLITE_DENY : SQLITE_OK;
}

/* As when the schema cannot be read any more. */
static void evt_2_a_statement_that_cannot_be_had_is_no_crash(void **state)
{
	struct world *w = *state;
	struct err err = {0};

	world_hold(w);
	world_put_meta(w, "k");
	/* No statement at all, then none that inserts. */
	for (int what = 0; what <= SQLITE_INSERT; what += SQLITE_INSERT) {
		sqlite3_set_authorizer(store_db(w->store), deny, &what);
		if (what == 0)
			assert_null(store_stmt(w->store, "SELECT 1 FROM meta"));
		assert_int_equal(store_ring_end(w->store, "a"), 0);
		assert_int_equal(store_commit(w->store, &err), -E_UNAVAILABLE);
		assert_int_equal(store_failing(w->store, &err), -E_UNAVAILABLE);
	}
	sqlite3_set_authorizer(store_db(w->store), NULL, NULL);
	world_commit(w);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE key='k'"), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_5_the_chain_is_as_documented_and_goes_on_after_a_restart),
		TEST(evt_5_tampering_shows_at_the_first_wrong_event),
		TEST(evt_2_a_ring_ends_where_it_was_read_to),
		TEST(evt_2_values_of_every_kind_arrive_as_they_were),
		TEST(evt_2_a_value_that_is_not_given_is_null),
		TEST(ses_1_statements_are_cached_by_address),
		TEST(ses_8_closing_commits_and_leaves_one_private_file),
		TEST(cfg_1_what_cannot_be_opened_is_named_with_a_remedy),
		TEST(cfg_1_version_2_is_migrated_and_its_rings_go_on),
		TEST(evt_4_events_of_version_5_are_found_by_the_decision_of_their_rule),
		TEST(ses_8_the_tables_have_the_agreed_columns),
		TEST(evt_3_a_row_has_what_filters_need_beside_the_body),
		TEST(exe_4_an_idempotency_key_is_unique_per_agent),
		TEST(evt_2_a_statement_that_cannot_be_had_is_no_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
