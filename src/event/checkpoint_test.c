// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "event/checkpoint.h"
#include <dlfcn.h>
#include <poll.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include <cmocka.h>

struct world {
	char dir[64], path[80], wal[96];
	sqlite3 *db;
	struct checkpointer *c;
	int pages; /* in the WAL after the last commit */
	int log_fd;
};

/* Checkpoints that have ended. The linker prefers this function to that of SQLite. */
static atomic_uint passive, hard;

int sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *pages, int *moved)
{
	int (*real)(sqlite3 *, const char *, int, int *, int *) =
		(int (*)(sqlite3 *, const char *, int, int *, int *))dlsym(
			RTLD_NEXT, "sqlite3_wal_checkpoint_v2");
	const int rc = real(db, name, mode, pages, moved);

	if (mode == SQLITE_CHECKPOINT_PASSIVE)
		passive++;
	if (mode == SQLITE_CHECKPOINT_RESTART)
		hard++;
	return rc;
}

static int on_wal(void *data, sqlite3 *db, const char *name, int pages)
{
	((struct world *)data)->pages = pages;
	return SQLITE_OK;
}

static void exec(struct world *w, const char *sql)
{
	assert_int_equal(sqlite3_exec(w->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static int setup(void **state)
{
	struct world *w = mem_new(struct world);
	struct err err = {0};

	snprintf(w->dir, sizeof(w->dir), "/tmp/checkpoint_test.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/db", w->dir);
	snprintf(w->wal, sizeof(w->wal), "%s/db-wal", w->dir);
	assert_int_equal(sqlite3_open(w->path, &w->db), SQLITE_OK);
	exec(w, "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; CREATE TABLE t(x)");
	sqlite3_wal_hook(w->db, on_wal, w);
	w->log_fd = memfd_create("log", MFD_CLOEXEC);
	log_init("test", LOG_DEBUG, LOG_TEXT, w->log_fd);
	passive = hard = 0;
	assert_int_equal(checkpointer_start(w->path, &w->c, &err), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	checkpointer_stop(w->c);
	sqlite3_close(w->db);
	/* Nothing of this is worth a word. */
	assert_int_equal(lseek(w->log_fd, 0, SEEK_END), 0);
	log_init("test", LOG_DEBUG, LOG_TEXT, 2);
	close(w->log_fd);
	unlink(w->path);
	unlink(w->wal);
	rmdir(w->dir);
	free(w);
	return 0;
}

/* True as soon as there were so many checkpoints, false if there are not within the time. */
static bool reaches(const atomic_uint *count, unsigned n, int64_t ms)
{
	const int64_t end = clock_mono_us(&clock_system) + ms * 1000;

	while (*count < n && clock_mono_us(&clock_system) < end)
		poll(NULL, 0, 1);
	return *count >= n;
}

static void evt_2_the_wal_is_moved_at_the_soft_limit_and_then_starts_anew(void **state)
{
	struct world *w = *state;

	exec(w, "INSERT INTO t VALUES(zeroblob(100000))");
	assert_true(w->pages > 20);
	checkpointer_note(w->c, CHECKPOINT_SOFT - 1);
	assert_false(reaches(&passive, 1, 100));
	checkpointer_note(w->c, CHECKPOINT_SOFT);
	assert_true(reaches(&passive, 1, 4000));
	exec(w, "INSERT INTO t VALUES(1)");
	assert_true(w->pages < 5);
}

static void evt_2_a_checkpoint_that_did_not_catch_up_is_not_repeated_at_once(void **state)
{
	struct world *w = *state;

	checkpointer_note(w->c, CHECKPOINT_SOFT);
	assert_true(reaches(&passive, 1, 4000));
	checkpointer_note(w->c, 2 * CHECKPOINT_SOFT - 1);
	assert_false(reaches(&passive, 2, 100));
	checkpointer_note(w->c, 2 * CHECKPOINT_SOFT);
	assert_true(reaches(&passive, 2, 4000));
	/* Fewer pages: the WAL started anew, and the limit is the first one again. */
	checkpointer_note(w->c, 1);
	checkpointer_note(w->c, CHECKPOINT_SOFT - 1);
	assert_false(reaches(&passive, 3, 100));
	checkpointer_note(w->c, CHECKPOINT_SOFT);
	assert_true(reaches(&passive, 3, 4000));
}

static void evt_2_past_the_hard_limit_the_wal_starts_anew_at_once(void **state)
{
	struct world *w = *state;
	sqlite3 *other = NULL;
	sqlite3_stmt *stmt = NULL;

	/* A reader at an old snapshot keeps both kinds from restarting the WAL. */
	exec(w, "INSERT INTO t VALUES(1)");
	sqlite3_open(w->path, &other);
	sqlite3_prepare_v2(other, "SELECT x FROM t", -1, &stmt, NULL);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	exec(w, "INSERT INTO t VALUES(zeroblob(100000))");
	checkpointer_note(w->c, CHECKPOINT_HARD - 1);
	assert_true(reaches(&passive, 1, 4000));
	assert_false(reaches(&hard, 1, 100));
	checkpointer_note(w->c, 1);
	checkpointer_note(w->c, CHECKPOINT_HARD);
	assert_true(reaches(&hard, 1, 4000));
	assert_int_equal(passive, 2);
	exec(w, "INSERT INTO t VALUES(1)");
	assert_true(w->pages > 20);
	sqlite3_finalize(stmt);
	sqlite3_close(other);
	checkpointer_note(w->c, CHECKPOINT_HARD + CHECKPOINT_SOFT);
	assert_true(reaches(&hard, 2, 4000));
	exec(w, "INSERT INTO t VALUES(1)");
	assert_true(w->pages < 5);
}

static void evt_2_what_is_committed_is_moved_after_some_seconds(void **state)
{
	struct world *w = *state;
	const int64_t start = clock_mono_us(&clock_system);

	checkpointer_note(w->c, 1);
	assert_true(reaches(&passive, 1, CHECKPOINT_AGE_S * 1000 + 5000));
	assert_true(clock_mono_us(&clock_system) - start >= CHECKPOINT_AGE_S * 1000000LL - 100000);
	assert_false(reaches(&passive, 2, 200));
}

static void evt_2_stopping_does_not_wait_for_the_next_checkpoint(void **state)
{
	struct world *w = *state;
	const int64_t start = clock_mono_us(&clock_system);

	checkpointer_note(w->c, 1);
	checkpointer_stop(w->c);
	w->c = NULL;
	assert_true(clock_mono_us(&clock_system) - start < CHECKPOINT_AGE_S * 1000000LL);
}

static void evt_2_a_database_that_is_not_there_is_an_error(void **state)
{
	struct checkpointer *c = NULL;
	struct err err = {0};

	assert_int_equal(checkpointer_start("/nowhere/db", &c, &err), -E_UNAVAILABLE);
	assert_string_equal(err.subject, "/nowhere/db");
	assert_null(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			evt_2_the_wal_is_moved_at_the_soft_limit_and_then_starts_anew, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_a_checkpoint_that_did_not_catch_up_is_not_repeated_at_once, setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_past_the_hard_limit_the_wal_starts_anew_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(evt_2_what_is_committed_is_moved_after_some_seconds,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			evt_2_stopping_does_not_wait_for_the_next_checkpoint, setup, teardown),
		cmocka_unit_test(evt_2_a_database_that_is_not_there_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
