// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "event/wal_vfs.h"
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned syncs;

/* SQLite calls one of these instead of the C library's. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED int fdatasync(int fd)
{
	syncs++;
	return (int)syscall(SYS_fdatasync, fd);
}

EXPORTED int fsync(int fd)
{
	syncs++;
	return (int)syscall(SYS_fsync, fd);
}

struct world {
	char dir[64], path[128], wal[128];
	sqlite3 *db;
};

static sqlite3 *open_db(const struct world *w, const char *vfs)
{
	sqlite3 *db;

	assert_int_equal(
		sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs),
		SQLITE_OK);
	return db;
}

static void run(sqlite3 *db, const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail_msg("%s: %s", sql, why);
}

/* As another program sees it, without our VFS. */
static int64_t outside(const struct world *w, const char *sql)
{
	sqlite3 *db = open_db(w, NULL);
	sqlite3_stmt *s;
	int64_t n;

	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(s), SQLITE_ROW);
	n = sqlite3_column_type(s, 0) == SQLITE_TEXT
		    ? strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0
		    : sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	sqlite3_close(db);
	return n;
}

static off_t wal_size(const struct world *w)
{
	struct stat st;

	return stat(w->wal, &st) == 0 ? st.st_size : -1;
}

static int setup(void **state)
{
	struct world *w = mem_new(struct world);

	strcpy(w->dir, "/tmp/agentsh-wal-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/x.db", w->dir);
	snprintf(w->wal, sizeof(w->wal), "%s/x.db-wal", w->dir);
	assert_non_null(wal_vfs());
	w->db = open_db(w, wal_vfs());
	run(w->db, "PRAGMA page_size=1024; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
		   "PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x INTEGER PRIMARY KEY, y)");
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char command[128];

	sqlite3_close(w->db);
	snprintf(command, sizeof(command), "rm -rf '%s'", w->dir);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

/* EVT-2: other programs see committed rows, and no others. */
static void evt_2_a_commit_is_seen_by_others(void **state)
{
	struct world *w = *state;

	for (int i = 1; i <= 50; i++) {
		run(w->db, "INSERT INTO t(y) VALUES(randomblob(3000))");
		assert_int_equal(outside(w, "SELECT count(*) FROM t"), i);
	}
	run(w->db, "BEGIN; INSERT INTO t(y) VALUES(1)");
	assert_int_equal(outside(w, "SELECT count(*) FROM t"), 50);
	run(w->db, "ROLLBACK");
	run(w->db, "BEGIN; INSERT INTO t(y) VALUES(1); COMMIT");
	assert_int_equal(outside(w, "SELECT count(*) FROM t"), 51);
	assert_int_equal(outside(w, "PRAGMA integrity_check"), 1);
}

/* Frames are written in one go: the file grows once, by whole frames. */
static void evt_2_the_log_holds_whole_transactions(void **state)
{
	struct world *w = *state;
	const off_t before = wal_size(w);
	off_t after;

	run(w->db, "BEGIN; INSERT INTO t(y) VALUES(randomblob(20000))");
	assert_int_equal(wal_size(w), before);
	run(w->db, "COMMIT");
	after = wal_size(w);
	assert_true(after > before + 20000);
	assert_int_equal((after - 32) % (24 + 1024), 0);
}

/* EVT-2: a transaction that does not fit into memory changes pages again that are in the log
 * already. SQLite then writes the heads of its frames a second time, the last one at the very end.
 * Database and log as they are after the commit have all of it, as after SIGKILL. */
static void evt_2_a_spilled_transaction_survives_sigkill(void **state)
{
	struct world *w = *state, left = {0};
	char command[600];

	run(w->db, "PRAGMA cache_size=8; PRAGMA cache_spill=1; BEGIN");
	for (int i = 0; i < 3; i++)
		for (int n = 1; n <= 200; n++) {
			snprintf(command, sizeof(command),
				 "REPLACE INTO t(x, y) VALUES(%d, randomblob(500))", n);
			run(w->db, command);
		}
	run(w->db, "COMMIT");
	snprintf(left.path, sizeof(left.path), "%s/left.db", w->dir);
	snprintf(command, sizeof(command), "cp '%s' '%s' && cp '%s' '%s-wal'", w->path, left.path,
		 w->wal, left.path);
	assert_int_equal(system(command), 0);
	assert_int_equal(outside(&left, "SELECT count(*) FROM t"), 200);
	assert_int_equal(outside(&left, "PRAGMA integrity_check"), 1);
}

/* A transaction that does not fit into memory is written and read back before it ends. */
static void evt_2_a_transaction_spills(void **state)
{
	struct world *w = *state;

	run(w->db, "PRAGMA cache_size=8; PRAGMA cache_spill=1");
	for (int i = 0; i < 3; i++) {
		run(w->db, "BEGIN");
		for (int n = 0; n < 400; n++)
			run(w->db, "INSERT INTO t(y) VALUES(randomblob(4000))");
		run(w->db, "UPDATE t SET y=randomblob(100) WHERE x % 7 = 0");
		run(w->db, i == 1 ? "ROLLBACK" : "COMMIT");
	}
	assert_int_equal(outside(w, "SELECT count(*) FROM t"), 800);
	assert_int_equal(outside(w, "PRAGMA integrity_check"), 1);
	run(w->db, "PRAGMA wal_checkpoint(TRUNCATE)");
	assert_int_equal(wal_size(w), 0);
	run(w->db, "INSERT INTO t(y) VALUES(1)");
	assert_int_equal(outside(w, "SELECT count(*) FROM t"), 801);
}

/* A process that is killed between two commits leaves what it had committed. */
static void evt_2_a_copy_of_the_files_is_whole(void **state)
{
	struct world *w = *state;
	struct world copy = *w;
	char command[600];

	run(w->db, "INSERT INTO t(y) VALUES(randomblob(9000)); BEGIN; INSERT INTO t(y) VALUES(2)");
	snprintf(copy.path, sizeof(copy.path), "%s/y.db", w->dir);
	snprintf(command, sizeof(command), "cp '%s' '%s' && cp '%s' '%s-wal'", w->path, copy.path,
		 w->wal, copy.path);
	assert_int_equal(system(command), 0);
	assert_int_equal(outside(&copy, "SELECT count(*) FROM t"), 1);
	run(w->db, "COMMIT");
}

/* EVT-2: what SQLite wants to be on the disk is asked of the disk. */
static void evt_2_the_log_is_synced(void **state)
{
	struct world *w = *state;

	syncs = 0;
	run(w->db, "INSERT INTO t(y) VALUES(1)");
	assert_int_equal(syncs, 0);
	run(w->db, "PRAGMA synchronous=FULL; INSERT INTO t(y) VALUES(2)");
	assert_int_equal(syncs, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(evt_2_a_commit_is_seen_by_others),
		T(evt_2_the_log_holds_whole_transactions),
		T(evt_2_a_spilled_transaction_survives_sigkill),
		T(evt_2_a_transaction_spills),
		T(evt_2_a_copy_of_the_files_is_whole),
		T(evt_2_the_log_is_synced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
