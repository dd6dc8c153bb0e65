// SPDX-License-Identifier: Apache-2.0
/* The turn: commit, sinks and waiters, and what happens when it fails. */
#include "event/store_state.h"
#include "event/store_test.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int setup_priorities(void **state)
{
	*state = world_new(2);
	return 0;
}

static void on_turn(void *data)
{
	buf_adds(&((struct world *)data)->heard, "turn ");
}

static void evt_2_a_turn_is_one_commit_at_its_end(void **state)
{
	struct world *w = *state;
	uint64_t seq;

	store_add_sink(w->store, on_sink, w);
	store_add_turn(w->store, on_turn, w);
	store_after(w->store, on_done, w);
	assert_string_equal(w->heard.data, "done ");
	buf_clear(&w->heard);

	assert_int_equal(put(w, "s", &seq), 0);
	assert_int_equal(seq, 1);
	store_after(w->store, on_done, w);
	assert_int_equal(put(w, "s", &seq), 0);
	assert_int_equal(seq, 2);
	store_after(w->store, on_done, w);
	assert_int_equal(w->heard.len, 0);
	assert_int_equal(outside(w, "SELECT count(*) FROM events"), 0);
	assert_int_equal(store_last_seq(w->store), 0);

	turn(w);
	assert_int_equal(store_last_seq(w->store), 2);
	assert_string_equal(w->heard.data, "e1 e2 turn done done ");
	assert_int_equal(outside(w, "SELECT count(*) FROM events"), 2);
	turn(w);
	assert_string_equal(w->heard.data, "e1 e2 turn done done ");
}

static void evt_2_a_turn_without_events_tells_only_the_waiters(void **state)
{
	struct world *w = *state;

	store_add_turn(w->store, on_turn, w);
	assert_ptr_equal(store_write(w->store), store_read(w->store));
	store_after(w->store, on_done, w);
	turn(w);
	assert_string_equal(w->heard.data, "done ");
}

static void evt_2_a_waiter_may_write_and_wait_again(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, on_sink, w);
	put(w, "s", NULL);
	store_after(w->store, on_done_write_again, w);
	store_after(w->store, on_done_write_again, w);
	assert_int_equal(store_commit(w->store, NULL), 0);
	assert_string_equal(w->heard.data, "e1 again again ");
	assert_int_equal(store_commit(w->store, NULL), 0);
	assert_string_equal(w->heard.data, "e1 again again e2 e3 done done ");
	assert_int_equal(store_commit(w->store, NULL), 0);
}

static void evt_2_many_waiters_keep_their_order(void **state)
{
	struct world *w = *state;

	store_write(w->store);
	for (int i = 0; i < 100; i++)
		store_after(w->store, on_done, w);
	turn(w);
	assert_int_equal(w->heard.len, 500);
}

static void remove_self(uint64_t seq, const struct event *e, const char *json, size_t len,
			void *data)
{
	struct world *w = data;

	buf_addf(&w->heard, "once%llu ", (unsigned long long)seq);
	store_remove_sink(w->store, remove_self, w);
	store_add_sink(w->store, on_sink, w);
}

static void evt_6_sinks_come_and_go_while_they_are_told(void **state)
{
	struct world *w = *state;
	struct world other = {0};

	store_add_sink(w->store, remove_self, w);
	put(w, "s", NULL);
	put(w, "s", NULL);
	turn(w);
	/* The new one begins with the next turn. */
	assert_string_equal(w->heard.data, "once1 ");
	assert_int_equal(w->store->nsinks, 1);
	put(w, "s", NULL);
	turn(w);
	assert_string_equal(w->heard.data, "once1 e3 ");
	store_add_turn(w->store, on_turn, w);
	store_remove_turn(w->store, on_turn, w);
	store_add_turn(w->store, on_turn, w);
	store_add_sink(w->store, on_sink, &other);
	store_remove_sink(w->store, on_sink, w);
	store_remove_sink(w->store, on_sink, w);
	put(w, "s", NULL);
	turn(w);
	assert_string_equal(w->heard.data, "once1 e3 turn ");
	assert_string_equal(other.heard.data, "e4 ");
	buf_done(&other.heard);
}

static void check_copy(uint64_t seq, const struct event *e, const char *json, size_t len,
		       void *data)
{
	struct world *w = data;

	assert_string_equal(e->session_id, "s-1");
	assert_string_equal(e->exec_argv.v[1], "b");
	assert_null(e->exec_argv.v[2]);
	assert_null(e->path);
	buf_clear(&w->heard);
	event_format(e, &w->heard);
	assert_string_equal(w->heard.data, json);
}

static void evt_6_sinks_get_the_whole_event(void **state)
{
	struct world *w = *state;
	struct event e = {.type = EVENT_exec,
			  .session_id = mem_strdup("s-1"),
			  .exec_path = mem_strdup("/bin/x")};
	struct err err = {0};

	store_add_sink(w->store, check_copy, w);
	strv_add(&e.exec_argv, "a");
	strv_add(&e.exec_argv, "b");
	assert_int_equal(store_event(w->store, &e, "ring", 0, &err), 0);
	assert_int_equal(e.time_us, 1767323045678901);
	event_done(&e);
	turn(w);
	assert_string_equal(w->heard.data,
			    "{\"seq\":1,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
			    "\"type\":\"exec\",\"session_id\":\"s-1\",\"count\":1,\"exec\":"
			    "{\"path\":\"/bin/x\",\"argv\":[\"a\",\"b\"],\"ppid\":0}}");
}

static void limit_pages(struct world *w, int more)
{
	char sql[64];
	const int64_t pages = outside(w, "PRAGMA page_count");

	snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%lld", (long long)(pages + more));
	sqlite3_exec(store_read(w->store), sql, NULL, NULL, NULL);
}

static void on_done_keep(const struct err *err, void *data)
{
	struct world *w = data;

	buf_addf(&w->heard, "%s: %s", err_row(err->code)->name, err->message);
}

static void evt_2_a_full_disk_rolls_the_turn_back(void **state)
{
	struct world *w = *state;
	struct err err = {0};
	uint64_t seq, bad;
	int rc = 0;

	put(w, "s", NULL);
	turn(w);
	store_add_sink(w->store, on_sink, w);
	limit_pages(w, 2);
	put(w, "s", NULL);
	store_after(w->store, on_done_keep, w);
	for (int i = 0; i < 1000 && rc == 0; i++)
		rc = put(w, "s", NULL);
	assert_int_equal(rc, -E_UNAVAILABLE);
	assert_int_equal(put(w, "s", NULL), -E_UNAVAILABLE);
	assert_int_equal(store_commit(w->store, &err), -E_UNAVAILABLE);
	assert_string_equal(err.message,
			    "the database cannot be written: database or disk is full");
	assert_string_equal(
		w->heard.data,
		"E_UNAVAILABLE: the database cannot be written: database or disk is full");
	assert_int_equal(store_last_seq(w->store), 1);

	/* It works again once there is room, without a gap. */
	buf_clear(&w->heard);
	limit_pages(w, 1000);
	assert_int_equal(put(w, "s", &seq), 0);
	assert_int_equal(seq, 2);
	store_after(w->store, on_done, w);
	turn(w);
	assert_string_equal(w->heard.data, "e2 done ");
	assert_int_equal(store_verify(w->store, &bad, &err), 0);
	assert_int_equal(bad, 0);
}

static void evt_2_a_failed_commit_rolls_the_turn_back(void **state)
{
	struct world *w = *state;
	struct rlimit old, tight;
	struct err err = {0};
	struct stat st;
	char wal[96];
	uint64_t seq, bad;

	put(w, "s", NULL);
	turn(w);
	store_add_sink(w->store, on_sink, w);
	snprintf(wal, sizeof(wal), "%s-wal", w->path);
	assert_int_equal(stat(wal, &st), 0);
	getrlimit(RLIMIT_FSIZE, &old);
	tight = old;
	tight.rlim_cur = (rlim_t)st.st_size;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tight);
	assert_int_equal(put(w, "s", NULL), 0);
	store_after(w->store, on_done, w);
	assert_int_equal(store_commit(w->store, &err), -E_UNAVAILABLE);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_string_equal(w->heard.data, "failed ");
	assert_int_equal(store_last_seq(w->store), 1);
	assert_int_equal(put(w, "s", &seq), 0);
	assert_int_equal(seq, 2);
	turn(w);
	assert_string_equal(w->heard.data, "failed e2 ");
	assert_int_equal(store_verify(w->store, &bad, &err), 0);
	assert_int_equal(bad, 0);
}

static void evt_2_a_rollback_by_sqlite_itself_fails_the_whole_turn(void **state)
{
	struct world *w = *state;
	static const char set[] = "INSERT OR ROLLBACK INTO meta VALUES('k', 1)";
	struct err err = {0};
	sqlite3_stmt *stmt;

	store_add_sink(w->store, on_sink, w);
	put(w, "s", NULL);
	store_after(w->store, on_done, w);
	assert_int_equal(sqlite3_exec(store_write(w->store), set, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_exec(store_write(w->store), set, NULL, NULL, NULL),
			 SQLITE_CONSTRAINT);
	/* What is written now must not be committed row by row. */
	stmt = store_stmt(w->store, "INSERT INTO meta VALUES('later', 1)");
	assert_int_equal(store_run(w->store, stmt, &err), 0);
	assert_int_equal(put(w, "s", NULL), -E_UNAVAILABLE);
	turn(w);
	assert_string_equal(w->heard.data, "failed ");
	assert_int_equal(outside(w, "SELECT count(*) FROM meta"), 0);
	assert_int_equal(outside(w, "SELECT count(*) FROM events"), 0);

	/* The same when it is the last thing of the turn. */
	sqlite3_exec(store_write(w->store), set, NULL, NULL, NULL);
	sqlite3_exec(store_write(w->store), set, NULL, NULL, NULL);
	assert_int_equal(store_commit(w->store, &err), -E_UNAVAILABLE);
	assert_int_equal(outside(w, "SELECT count(*) FROM meta"), 0);
	put(w, "s", NULL);
	turn(w);
	assert_string_equal(w->heard.data, "failed e1 ");
}

static void on_high(evutil_socket_t fd, short what, void *data)
{
	buf_adds(&((struct world *)data)->heard, "high ");
}

static void evt_2_the_commit_comes_after_what_the_turn_still_has_to_do(void **state)
{
	struct world *w = *state;
	struct event *high = event_new(w->base, -1, 0, on_high, w);

	event_priority_set(high, 0);
	store_write(w->store);
	store_after(w->store, on_done, w);
	event_active(high, 0, 0);
	turn(w);
	assert_string_equal(w->heard.data, "high done ");
	event_free(high);
}

static void on_busy(evutil_socket_t fd, short what, void *data)
{
	(*(unsigned *)data)++;
}

static void on_done_stop(const struct err *err, void *data)
{
	event_base_loopbreak(((struct world *)data)->base);
}

static void evt_2_a_busy_loop_does_not_put_the_commit_off_for_ever(void **state)
{
	struct world *w = *state;
	unsigned rounds = 0;
	struct event *busy;
	int fds[2];

	/* Readable in every round, and of higher priority. */
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	busy = event_new(w->base, fds[0], EV_READ | EV_PERSIST, on_busy, &rounds);
	event_priority_set(busy, 0);
	event_add(busy, NULL);
	store_write(w->store);
	store_after(w->store, on_done_stop, w);
	event_base_loop(w->base, 0);
	assert_true(rounds > 1);
	event_free(busy);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(evt_2_a_turn_is_one_commit_at_its_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_turn_without_events_tells_only_the_waiters,
						setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_waiter_may_write_and_wait_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_2_many_waiters_keep_their_order, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_6_sinks_come_and_go_while_they_are_told, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_6_sinks_get_the_whole_event, setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_full_disk_rolls_the_turn_back, setup,
						teardown),
		cmocka_unit_test_setup_teardown(evt_2_a_failed_commit_rolls_the_turn_back, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_rollback_by_sqlite_itself_fails_the_whole_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_the_commit_comes_after_what_the_turn_still_has_to_do,
			setup_priorities, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_busy_loop_does_not_put_the_commit_off_for_ever, setup_priorities,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
