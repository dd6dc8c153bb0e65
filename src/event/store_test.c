// SPDX-License-Identifier: Apache-2.0
#include "event/store_test.h"
#include "base/fdio.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void evt_5_the_chain_is_as_documented_and_goes_on_after_a_restart(void **state)
{
	struct world *w = *state;
	uint8_t want[HASH_LEN] = {0};
	uint64_t seq, bad = 99;
	struct err err = {0};
	sqlite3_stmt *stmt;

	put(w, "s", NULL);
	put(w, "s", NULL);
	store_close(w->store);
	open_store(w);
	assert_int_equal(store_last_seq(w->store), 2);
	put(w, "s", &seq);
	assert_int_equal(seq, 3);
	turn(w);
	stmt = store_stmt(w->store, "SELECT body, hash FROM events ORDER BY seq");
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		hash_sha256(want, want, HASH_LEN, sqlite3_column_blob(stmt, 0),
			    (size_t)sqlite3_column_bytes(stmt, 0));
		assert_memory_equal(want, sqlite3_column_blob(stmt, 1), HASH_LEN);
	}
	assert_int_equal(store_verify(w->store, &bad, &err), 0);
	assert_int_equal(bad, 0);
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
		put(w, "s", NULL);
	turn(w);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		uint64_t bad = 99;
		struct err err = {0};

		sqlite3_exec(store_read(w->store), "BEGIN", NULL, NULL, NULL);
		assert_int_equal(sqlite3_exec(store_read(w->store), row[i].sql, NULL, NULL, NULL),
				 0);
		assert_int_equal(store_verify(w->store, &bad, &err), 0);
		assert_int_equal(bad, row[i].bad);
		sqlite3_exec(store_read(w->store), "ROLLBACK", NULL, NULL, NULL);
	}
}

static void ses_8_an_event_of_a_ring_is_stored_once(void **state)
{
	struct world *w = *state;
	static const struct {
		const char *ring;
		uint64_t pos, seq;
	} row[] = {{"a", 0, 1},	 {"a", 8, 2},  {"a", 0, 1}, {"b", 0, 3},
		   {NULL, 0, 4}, {NULL, 0, 5}, {"a", 8, 2}, {"a", UINT32_MAX * 8ULL, 6}};
	uint64_t bad = 99;
	struct err err = {0};

	store_add_sink(w->store, on_sink, w);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct event e = {.type = EVENT_exec};

		assert_int_equal(store_event(w->store, &e, row[i].ring, row[i].pos, &err), 0);
		assert_int_equal(e.seq, row[i].seq);
		if (i == 4)
			turn(w);
	}
	turn(w);
	assert_string_equal(w->heard.data, "e1 e2 e3 e4 e5 e6 ");
	assert_int_equal(store_verify(w->store, &bad, &err), 0);
	assert_int_equal(bad, 0);
}

static void ses_1_a_conflict_in_a_row_is_told_and_harms_nothing(void **state)
{
	struct world *w = *state;
	static const char sql[] =
		"INSERT INTO sessions(id, agent_id, state) VALUES(?1, 'a', 'ready')";
	struct err err = {0};

	store_write(w->store);
	for (int i = 0; i < 3; i++) {
		sqlite3_stmt *stmt = store_stmt(w->store, sql);

		assert_null(sqlite3_column_text(stmt, 0));
		sqlite3_bind_text(stmt, 1, i < 2 ? "one" : "two", -1, SQLITE_STATIC);
		assert_int_equal(store_run(w->store, stmt, &err), i == 1 ? -E_CONFLICT : 0);
	}
	store_after(w->store, on_done, w);
	turn(w);
	assert_string_equal(w->heard.data, "done ");
	assert_int_equal(outside(w, "SELECT count(*) FROM sessions"), 2);
}

/* As many as the cache takes, besides those of this test and of opening and closing. */
#define STATEMENTS (192 - 3)

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

	put(w, "s", NULL);
	store_after(w->store, on_done_write_again, w);
	store_close(w->store);
	w->store = NULL;
	assert_string_equal(w->heard.data, "again done ");
	snprintf(wal, sizeof(wal), "%s-wal", w->path);
	assert_int_equal(access(wal, F_OK), -1);
	assert_int_equal(stat(w->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(outside(w, "SELECT count(*) FROM events"), 2);
}

static void count_row(uint64_t seq, const char *json, size_t len, void *data)
{
	(*(unsigned *)data)++;
}

static void evt_4_a_store_is_read_offline_beside_the_server_and_without_it(void **state)
{
	struct world *w = *state;
	const struct event_query all = {0};
	struct store *reader = NULL;
	struct err err = {0};
	uint64_t bad = 99;
	unsigned n = 0;

	put(w, "s", NULL);
	turn(w);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_open(w->path, NULL, &w->clock, &reader, &err), 0);
		assert_null(store_base(reader));
		assert_int_equal(store_query(reader, &all, count_row, &n, NULL, &err), 0);
		assert_int_equal(n, (unsigned)i + 1);
		assert_int_equal(store_verify(reader, &bad, &err), 0);
		assert_int_equal(bad, 0);
		assert_int_equal(
			sqlite3_exec(store_read(reader), "DELETE FROM events", NULL, NULL, NULL),
			SQLITE_READONLY);
		store_close(reader);
		store_close(w->store);
		w->store = NULL;
	}
}

static void set_version(struct world *w, int version)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "PRAGMA user_version=%d", version);
	outside(w, sql);
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
	set_version(w, 3);
	assert_int_equal(store_open(w->path, w->base, &w->clock, &other, &err), -E_UNAVAILABLE);
	assert_non_null(
		strstr(err.message, "has version 3, this program knows 2; install the newer"));
	assert_int_equal(store_open(w->path, NULL, &w->clock, &other, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "install the newer"));
	set_version(w, 0);
	assert_int_equal(store_open(w->path, NULL, &w->clock, &other, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "start the server once"));
	/* Tables that are there already: the migration fails, and nothing of it stays. */
	assert_int_equal(store_open(w->path, w->base, &w->clock, &other, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "table events already exists"));
	assert_int_equal(outside(w, "PRAGMA user_version"), 0);

	snprintf(path, sizeof(path), "%s/none", w->dir);
	assert_int_equal(store_open(path, NULL, &w->clock, &other, &err), -E_UNAVAILABLE);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/no/dir", w->dir);
	assert_int_equal(store_open(path, w->base, &w->clock, &other, &err), -E_UNAVAILABLE);
	assert_string_equal(err.subject, path);
	assert_non_null(strstr(err.message, "check that its directory exists"));

	fd = open(w->path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	for (int i = 0; i < 200; i++)
		assert_int_equal(fdio_write_all(fd, "this is no database\n", 20), 0);
	close(fd);
	assert_int_equal(store_open(w->path, w->base, &w->clock, &other, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, "move it away"));
	assert_null(other);
}

static void ses_8_the_tables_have_the_agreed_columns(void **state)
{
	static const char *const want[][2] = {
		{"events", "seq,ring,pos,time_us,type,session_id,command_id,agent_id,decision,path,"
			   "domain,body,hash"},
		{"sessions", "id,agent_id,owner_uid,state,created_us,last_activity_us,ended_us,"
			     "workspace,policy_name,policy_version,cwd,env,config,walls,failure,"
			     "command_count,file_ops,net_ops,bytes_read,bytes_written,capped"},
		{"policies", "version,name,snapshot"},
		{"commands",
		 "agent_id,id,session_id,state,idempotency_key,body_hash,request,result,created_us,"
		 "started_us,finished_us,exit_code,signal,stdout_bytes,stderr_bytes,stdout_lines,"
		 "stderr_lines,max_output,detach,n"},
		{"meta", "key,value"},
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
		struct err err = {0};
		sqlite3_stmt *stmt;

		assert_int_equal(store_event(w->store, &e, "ring", i, &err), 0);
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
		assert_int_equal(sqlite3_exec(store_write(w->store), sql, NULL, NULL, NULL),
				 row[i].rc);
	}
}

static void on_committed(const struct err *err, void *data)
{
	_Atomic uint64_t *shared = data;

	if (err == NULL)
		atomic_store(&shared[0], atomic_load(&shared[1]));
}

static _Noreturn void write_for_ever(const char *path, _Atomic uint64_t *shared, int ready)
{
	struct event_base *base = event_base_new();
	struct store *s = NULL;
	struct err err = {0};

	if (store_open(path, base, &clock_system, &s, &err) < 0)
		_exit(1);
	for (unsigned n = 0;; n++) {
		struct event e = {.type = EVENT_exec};

		if (store_event(s, &e, NULL, 0, &err) < 0 || (n == 5 && write(ready, "r", 1) != 1))
			_exit(1);
		atomic_store(&shared[1], e.seq);
		if (n % 4 == 3) {
			store_after(s, on_committed, (void *)shared);
			event_base_loop(base, EVLOOP_NONBLOCK);
		}
	}
}

static void ses_8_what_was_committed_survives_sigkill(void **state)
{
	struct world *w = *state;
	_Atomic uint64_t *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ready[2];
	char c;

	store_close(w->store);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	for (int round = 0; round < 8; round++) {
		struct err err = {0};
		uint64_t bad = 99;
		const pid_t pid = fork();

		if (pid == 0)
			write_for_ever(w->path, shared, ready[1]);
		assert_int_equal(read(ready[0], &c, 1), 1);
		for (uint64_t goal = atomic_load(&shared[0]) + (uint64_t)round * 7;
		     atomic_load(&shared[0]) < goal;)
			;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		open_store(w);
		assert_true(store_last_seq(w->store) >= atomic_load(&shared[0]));
		assert_true(store_last_seq(w->store) <= atomic_load(&shared[1]) + 1);
		assert_int_equal(store_verify(w->store, &bad, &err), 0);
		assert_int_equal(bad, 0);
		store_close(w->store);
	}
	w->store = NULL;
	close(ready[0]);
	close(ready[1]);
	munmap((void *)shared, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			evt_5_the_chain_is_as_documented_and_goes_on_after_a_restart, setup,
			teardown),
		cmocka_unit_test_setup_teardown(evt_5_tampering_shows_at_the_first_wrong_event,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_an_event_of_a_ring_is_stored_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ses_1_a_conflict_in_a_row_is_told_and_harms_nothing,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ses_1_statements_are_cached_by_address, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ses_8_closing_commits_and_leaves_one_private_file,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_4_a_store_is_read_offline_beside_the_server_and_without_it, setup,
			teardown),
		cmocka_unit_test_setup_teardown(cfg_1_what_cannot_be_opened_is_named_with_a_remedy,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_the_tables_have_the_agreed_columns, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_3_a_row_has_what_filters_need_beside_the_body,
						setup, teardown),
		cmocka_unit_test_setup_teardown(exe_4_an_idempotency_key_is_unique_per_agent, setup,
						teardown),
		cmocka_unit_test_setup_teardown(ses_8_what_was_committed_survives_sigkill, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
