// SPDX-License-Identifier: Apache-2.0
/* A database that cannot be written: nothing is lost, nothing comes twice, and it is reported. */
#include "base/log.h"
#include "event/testkit/store_testkit.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define MANY 50 /* events that need more pages than are left */

static int log_fd = -1;
static atomic_uint attempts; /* the writer counts them too */

static int setup_failing(void **state)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	log_init("test", LOG_INFO, LOG_TEXT, log_fd);
	attempts = 0;
	return world_setup(state);
}

static int teardown_failing(void **state)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
	log_init("test", LOG_INFO, LOG_TEXT, 2);
	close(log_fd);
	return world_teardown(state);
}

/* How often the log says this. */
static unsigned logged(const char *what)
{
	char text[8192] = "";
	unsigned n = 0;

	assert_true(pread(log_fd, text, sizeof(text) - 1, 0) >= 0);
	for (const char *p = text; (p = strstr(p, what)) != NULL; p++)
		n++;
	return n;
}

/* ---- ways to fail, and back ---- */

static void limit_pages(struct world *w, int64_t more)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "PRAGMA max_page_count=%lld",
		 (long long)(world_number(w, "PRAGMA page_count") + more));
	assert_int_equal(sqlite3_exec(store_db(w->store), sql, NULL, NULL, NULL), SQLITE_OK);
}

static void fill_disk(struct world *w, bool on)
{
	limit_pages(w, on ? 2 : 1000000);
}

static void limit_files(struct world *w, bool on)
{
	struct rlimit limit;
	struct stat st;
	char wal[96];

	snprintf(wal, sizeof(wal), "%s-wal", w->path);
	assert_int_equal(stat(wal, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = on ? (rlim_t)st.st_size : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int on_hook(void *data)
{
	attempts++;
	return 1;
}

static void refuse_commits(struct world *w, bool on)
{
	sqlite3_commit_hook(store_db(w->store), on ? on_hook : NULL, NULL);
}

static void lock_out(struct world *w, bool on)
{
	static sqlite3 *other;

	if (on) {
		sqlite3_busy_timeout(store_db(w->store), 0);
		assert_int_equal(sqlite3_open(w->path, &other), SQLITE_OK);
		assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), 0);
	} else {
		sqlite3_close(other);
	}
}

/* SQLite rolls back by itself, in the middle. */
static void roll_back(struct world *w, bool on)
{
	const char *sql = on ? "CREATE TEMP TRIGGER no BEFORE INSERT ON main.events"
			       " WHEN new.seq=9 BEGIN SELECT RAISE(ROLLBACK, 'not now'); END"
			     : "DROP TRIGGER no";

	assert_int_equal(sqlite3_exec(store_db(w->store), sql, NULL, NULL, NULL), SQLITE_OK);
}

typedef void trouble_fn(struct world *w, bool on);

static void assert_failing(struct world *w, const char *why)
{
	struct err err = {0};

	assert_int_equal(store_failing(w->store, &err), -E_UNAVAILABLE);
	assert_int_equal(err.code, E_UNAVAILABLE);
	assert_string_equal(err.subject, w->path);
	assert_non_null(strstr(err.message, "the database cannot be written: "));
	assert_non_null(strstr(err.message, why));
}

/* All writes meanwhile are reported as safe, and come once, in order. */
static void suffer(struct world *w, trouble_fn *trouble, const char *why)
{
	struct buf want = {0};
	struct err err = {0};

	assert_int_equal(world_put(w, "s"), 1);
	world_commit(w);
	store_add_sink(w->store, world_on_sink, NULL, w);
	assert_int_equal(store_failing(w->store, &err), 0);
	trouble(w, true);
	world_hold(w);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(world_put(w, "s"), i + 2);
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, world_on_commit, w);
	assert_int_equal(store_commit(w->store, &err), -E_UNAVAILABLE);
	assert_non_null(strstr(err.message, why));
	for (int i = 2; i <= MANY + 1; i++)
		buf_addf(&want, "e%d ", i);
	buf_adds(&want, "done ");
	world_assert_heard(w, want.data);
	buf_done(&want);
	assert_failing(w, why);
	assert_int_equal(store_last_seq(w->store), MANY + 1);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 1);
	assert_true(sqlite3_get_autocommit(store_db(w->store)));

	/* A write nevertheless is not lost either. */
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	world_turn(w);
	world_assert_heard(w, "e52 done ");
	assert_int_equal(store_commit(w->store, NULL), -E_UNAVAILABLE);
	world_assert_heard(w, "");
	trouble(w, false);
	world_commit(w);
	world_assert_heard(w, "commit ");
	assert_int_equal(store_failing(w->store, &err), 0);
	world_assert_chain(w, MANY + 2);
	world_put(w, "s");
	world_commit(w);
	world_assert_chain(w, MANY + 3);
	assert_int_equal(logged("nothing new is begun until it can"), 1);
	assert_int_equal(logged("the database can be written again"), 1);
}

static void evt_2_a_full_disk_loses_nothing(void **state)
{
	suffer(*state, fill_disk, "database or disk is full");
}

static void evt_2_a_file_that_cannot_grow_loses_nothing(void **state)
{
	suffer(*state, limit_files, "disk");
}

static void evt_2_a_refused_commit_loses_nothing(void **state)
{
	suffer(*state, refuse_commits, "constraint failed");
	assert_int_equal(attempts, 2);
}

static void evt_2_a_locked_database_loses_nothing(void **state)
{
	suffer(*state, lock_out, "database is locked");
}

static void evt_2_a_rollback_by_sqlite_itself_loses_nothing(void **state)
{
	suffer(*state, roll_back, "not now");
}

/* As when a read meets an I/O error: the transaction is gone, and no write has failed. */
static void evt_2_a_rollback_between_two_writes_loses_nothing(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, world_on_sink, NULL, w);
	world_hold(w);
	for (int i = 0; i < 2; i++) {
		world_put(w, "s");
		store_stmt(w->store, "SELECT 1");
		assert_false(sqlite3_get_autocommit(store_db(w->store)));
		sqlite3_exec(store_db(w->store), "ROLLBACK", NULL, NULL, NULL);
		if (i == 0)
			world_put(w, "s");
		/* The second time it is the last thing before the commit. */
		world_commit(w);
	}
	world_assert_heard(w, "e1 e2 e3 ");
	world_assert_chain(w, 3);
	assert_int_equal(logged("error"), 0);
}

static void on_commit_stop(void *data)
{
	loop_stop(((struct world *)data)->loop);
}

static void evt_2_it_is_tried_again_after_a_second(void **state)
{
	struct world *w = *state;
	int64_t start = clock_mono_us(&clock_system), took;

	refuse_commits(w, true);
	world_put(w, "s");
	while (attempts == 0)
		loop_turn(w->loop);
	assert_true(clock_mono_us(&clock_system) - start < 900000);
	start = clock_mono_us(&clock_system);
	/* What is written meanwhile does not hasten it. */
	world_written(w);
	world_put(w, "s");
	store_after_commit(w->store, on_commit_stop, w);
	world_turn(w);
	assert_true(watch_due_us(w->store->commit_due) > 0);
	assert_int_equal(attempts, 1);
	while (attempts == 1)
		loop_turn(w->loop);
	took = clock_mono_us(&clock_system) - start;
	assert_true(took >= 950000 && took < 4000000);
	refuse_commits(w, false);
	start = clock_mono_us(&clock_system);
	loop_run_ms(w->loop, 8000);
	took = clock_mono_us(&clock_system) - start;
	assert_true(took >= 950000 && took < 4000000);
	world_assert_chain(w, 2);
	assert_int_equal(store_failing(w->store, NULL), 0);
}

/* A write that the redo file cannot hold; n bytes of value. */
static void put_large(struct world *w, const char *key, size_t n)
{
	cleanup_free char *blob = mem_alloc(n);

	store_put(w->store, "INSERT INTO meta(key, value) VALUES(?, ?)");
	store_put_text(w->store, key);
	store_put_blob(w->store, blob, n);
	store_put_end(w->store);
}

static void evt_2_a_large_batch_is_not_tried_in_every_turn(void **state)
{
	struct world *w = *state;

	refuse_commits(w, true);
	world_hold(w);
	put_large(w, "a", 300 * 1024);
	world_turn(w);
	world_written(w);
	assert_int_equal(attempts, 1);
	put_large(w, "b", 300 * 1024);
	store_after(w->store, world_on_done, w);
	world_turn(w);
	world_assert_heard(w, "done ");
	assert_int_equal(attempts, 1);
	refuse_commits(w, false);
	world_commit(w);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE key IN ('a','b')"), 2);
}

static void evt_2_who_waits_for_more_than_the_redo_file_holds_waits_on(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, world_on_sink, NULL, w);
	refuse_commits(w, true);
	world_hold(w);
	world_put(w, "s");
	put_large(w, "large", REDO_SIZE);
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, world_on_commit, w);
	world_turn(w);
	assert_int_equal(attempts, 1);
	world_assert_heard(w, "");
	assert_failing(w, "constraint failed");
	/* A small write behind it is not safe either. */
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	world_turn(w);
	store_after(w->store, world_on_done, w);
	assert_int_equal(attempts, 1);
	assert_int_equal(store_commit(w->store, NULL), -E_UNAVAILABLE);
	world_assert_heard(w, "");
	refuse_commits(w, false);
	world_commit(w);
	world_assert_heard(w, "e1 e2 e3 done done done commit ");
	world_assert_chain(w, 3);
	assert_int_equal(world_number(w, "SELECT length(value) FROM meta WHERE key='large'"),
			 REDO_SIZE);
	/* And then all is as before. */
	world_hold(w);
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	world_turn(w);
	world_assert_heard(w, "e4 done ");
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 3);
}

static void evt_2_a_read_that_fails_to_bring_writes_in_tells(void **state)
{
	struct world *w = *state;
	sqlite3_stmt *stmt;

	lock_out(w, true);
	world_hold(w);
	world_put_meta(w, "k");
	stmt = store_stmt(w->store, "SELECT count(*) FROM meta WHERE key='k'");
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(stmt, 0), 0);
	sqlite3_reset(stmt);
	assert_failing(w, "database is locked");
	assert_int_equal(logged("nothing new is begun until it can"), 1);
	lock_out(w, false);
	stmt = store_stmt(w->store, "SELECT count(*) FROM meta WHERE key='k'");
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(stmt, 0), 1);
	sqlite3_reset(stmt);
	world_commit(w);
	assert_int_equal(store_failing(w->store, NULL), 0);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE key='k'"), 1);
}

static int64_t sum_of(struct world *w)
{
	sqlite3_stmt *stmt = store_stmt(w->store, "SELECT value FROM meta WHERE key='sum'");
	int64_t n;

	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return n;
}

static void add(struct world *w, int64_t n)
{
	store_put(w->store, "REPLACE INTO meta(key, value) VALUES('sum', coalesce((SELECT value "
			    "FROM meta WHERE key='sum'), 0) + ?)");
	store_put_int(w->store, n);
	store_put_end(w->store);
}

/* The reads carry out two generations in one transaction, which must not become one commit. */
static void ses_8_reads_during_a_failure_see_everything_and_carry_it_out_once(void **state)
{
	struct world *w = *state;

	for (int tries = 0; tries < 2; tries++) {
		refuse_commits(w, true);
		add(w, 1);
		world_hold(w);
		world_turn(w);
		assert_int_equal(store_commit(w->store, NULL), -E_UNAVAILABLE);
		world_hold(w);
		add(w, 10);
		world_turn(w);
		assert_int_equal(sum_of(w), 22 * tries + 11);
		if (tries > 0)
			add(w, 11);
		refuse_commits(w, false);
		/* By the writer, then by the loop. */
		watch_soon(w->store->commit_due);
		w->store->fresh = false;
		world_turn(w);
		world_written(w);
		assert_int_equal(sum_of(w), tries == 0 ? 11 : 44);
		if (tries == 0)
			add(w, 11);
		world_commit(w);
		assert_int_equal(world_number(w, "SELECT value FROM meta WHERE key='sum'"),
				 22 * (tries + 1));
	}
}

static void ses_8_what_was_written_before_a_failing_close_is_there_after_it(void **state)
{
	struct world *w = *state;

	world_put(w, "s");
	world_commit(w);
	refuse_commits(w, true);
	world_hold(w);
	for (int i = 0; i < MANY; i++)
		world_put(w, "s");
	world_turn(w);
	world_put(w, "s"); /* in a turn that does not end */
	store_close(w->store);
	assert_int_equal(attempts, 1);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 1);
	for (int i = 0; i < 2; i++) {
		world_open(w);
		world_assert_chain(w, MANY + 2);
		store_close(w->store);
	}
	world_open(w);
	assert_int_equal(world_put(w, "s"), MANY + 3);
}

/* No callback reported writes that only memory had. */
static void ses_8_a_failing_close_leaves_what_was_safe(void **state)
{
	struct world *w = *state;

	refuse_commits(w, true);
	world_hold(w);
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	world_turn(w);
	world_assert_heard(w, "done ");
	put_large(w, "large", REDO_SIZE);
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	store_close(w->store);
	world_assert_heard(w, "");
	world_open(w);
	world_assert_chain(w, 1);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE key='large'"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_failing, teardown_failing)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_2_a_full_disk_loses_nothing),
		TEST(evt_2_a_file_that_cannot_grow_loses_nothing),
		TEST(evt_2_a_refused_commit_loses_nothing),
		TEST(evt_2_a_locked_database_loses_nothing),
		TEST(evt_2_a_rollback_by_sqlite_itself_loses_nothing),
		TEST(evt_2_a_rollback_between_two_writes_loses_nothing),
		TEST(evt_2_it_is_tried_again_after_a_second),
		TEST(evt_2_a_large_batch_is_not_tried_in_every_turn),
		TEST(evt_2_who_waits_for_more_than_the_redo_file_holds_waits_on),
		TEST(evt_2_a_read_that_fails_to_bring_writes_in_tells),
		TEST(ses_8_reads_during_a_failure_see_everything_and_carry_it_out_once),
		TEST(ses_8_what_was_written_before_a_failing_close_is_there_after_it),
		TEST(ses_8_a_failing_close_leaves_what_was_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
