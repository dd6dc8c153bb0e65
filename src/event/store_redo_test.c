// SPDX-License-Identifier: Apache-2.0
/* What a process that was killed has left: carried out once, by the database it belongs to. */
#include "base/fdio.h"
#include "base/log.h"
#include "event/testkit/store_testkit.h"
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int log_fd = -1;

static int setup_log(void **state)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	log_init("test", LOG_ERROR, LOG_TEXT, log_fd);
	return world_setup(state);
}

static int teardown_log(void **state)
{
	log_init("test", LOG_ERROR, LOG_TEXT, 2);
	close(log_fd);
	return world_teardown(state);
}

/* Whether the log says this; NULL: anything. It is empty then. */
static bool logged(const char *what)
{
	char text[4096] = "";

	assert_true(pread(log_fd, text, sizeof(text) - 1, 0) >= 0);
	assert_int_equal(ftruncate(log_fd, 0), 0);
	lseek(log_fd, 0, SEEK_SET);
	return what != NULL ? strstr(text, what) != NULL : text[0] != '\0';
}

#define LOST "belong to another database, and are lost"

static void close_store(struct world *w)
{
	store_close(w->store);
	w->store = NULL;
}

static void first_redo(struct world *w, char path[static 96])
{
	snprintf(path, 96, "%s-redo", w->path);
}

static int64_t generation(struct world *w)
{
	return world_number(w, "SELECT value FROM meta WHERE key='generation'");
}

/* A counter tells how often a write was carried out. */
static const char count_sql[] = "INSERT INTO meta(key, value) VALUES('n', 1)"
				" ON CONFLICT(key) DO UPDATE SET value=value+1";

static void count(struct world *w)
{
	store_put(w->store, count_sql);
	store_put_end(w->store);
}

static int64_t counted(struct world *w)
{
	return world_number(w, "SELECT value FROM meta WHERE key='n'");
}

/* Closes the store. A file so many generations ahead of it, with one record (n 0: none), is as a
 * killed process would leave it. */
static void leave(struct world *w, int64_t ahead, const void *p, size_t n)
{
	struct redo *r = NULL;
	struct err err = {0};
	char path[96];

	close_store(w);
	first_redo(w, path);
	assert_int_equal(redo_open(path, &r, &err), 0);
	redo_begin(r, (uint64_t)(generation(w) + ahead));
	if (n > 0)
		assert_true(redo_add(r, p, n));
	redo_publish(r);
	redo_close(r);
}

/* Changes a byte of the first record. */
static void damage(struct world *w)
{
	cleanup_fd int fd = -1;
	char path[96];

	first_redo(w, path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "x", 1, 4096 + 8), 1);
}

/* ---- killed ---- */

typedef void life_fn(struct world *w);

/* Closes the store. A process opens it, does this and is killed. */
static void live(struct world *w, life_fn *life)
{
	int status = 0;
	pid_t pid;

	close_store(w);
	pid = fork();
	if (pid == 0) {
		struct err err = {0};

		w->loop = loop_new(NULL, NULL);
		if (store_open(w->path, w->loop, &w->clock, false, &w->store, &err) < 0)
			_exit(1);
		life(w);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void write_and_end_the_turn(struct world *w)
{
	store_commit(w->store, NULL); /* of nothing: no generation ends */
	world_hold(w);
	world_put(w, "s");
	count(w);
	world_put(w, "s");
	store_put_ring_end(w->store, "a", 24);
	loop_settle(w->loop);
	store_trim(w->store); /* the file keeps what is unmapped */
	/* The next turn did not end. */
	world_put(w, "s");
	count(w);
}

/* Opens the store: what write_and_end_the_turn left is there once. */
static void open_with_the_turn(struct world *w)
{
	world_open(w);
	world_assert_chain(w, 2);
	assert_int_equal(counted(w), 1);
}

static void ses_8_what_was_not_committed_is_carried_out_once(void **state)
{
	struct world *w = *state;

	live(w, write_and_end_the_turn);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 0);
	for (int i = 0; i < 2; i++) {
		open_with_the_turn(w);
		assert_int_equal(store_ring_end(w->store, "a"), 24);
		close_store(w);
	}
	/* Again and again, on top of each other. */
	live(w, write_and_end_the_turn);
	live(w, write_and_end_the_turn);
	world_open(w);
	world_assert_chain(w, 6);
	assert_int_equal(counted(w), 3);
	assert_int_equal(world_put(w, "s"), 7);
	assert_false(logged(NULL));
}

static void write_more_than_the_file_holds(struct world *w)
{
	static char big[REDO_SIZE];

	store_commit(w->store, NULL);
	world_hold(w);
	world_put(w, "s");
	store_put(w->store, "REPLACE INTO meta(key, value) VALUES('big', ?1)");
	store_put_blob(w->store, big, sizeof(big));
	store_put_end(w->store);
	store_put_ring_end(w->store, "a", 24);
	/* The process dies before the commit at the end of the turn. */
	sqlite3_exec(store_db(w->store), "PRAGMA query_only=ON", NULL, NULL, NULL);
	loop_settle(w->loop);
}

/* Without the position the ring would be read again, and the event would be there twice. */
static void evt_2_a_turn_is_carried_out_whole_or_not_at_all(void **state)
{
	struct world *w = *state;

	live(w, write_more_than_the_file_holds);
	world_open(w);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 0);
	assert_int_equal(store_ring_end(w->store, "a"), 0);
	world_assert_chain(w, 0);
}

static void read_only(struct world *w)
{
	world_hold(w);
	count(w);
	loop_settle(w->loop);
	/* A read brings it into a transaction, which dies with the process. */
	store_stmt(w->store, "SELECT 1");
}

static void ses_8_an_open_transaction_is_carried_out_once(void **state)
{
	struct world *w = *state;

	live(w, read_only);
	world_open(w);
	assert_int_equal(counted(w), 1);
}

static void on_told(void *data)
{
	_Atomic uint64_t *shared = data;

	atomic_store(&shared[0], atomic_load(&shared[1]));
}

static _Noreturn void write_for_ever(const char *path, _Atomic uint64_t *shared, int ready)
{
	struct loop *loop = loop_new(NULL, NULL);
	struct store *s = NULL;
	struct err err = {0};

	if (store_open(path, loop, &clock_system, false, &s, &err) < 0)
		_exit(1);
	for (unsigned n = 0;; n++) {
		struct event e = {.type = EVENT_exec};

		store_event(s, &e, NULL, 0);
		if (n == 5 && write(ready, "r", 1) != 1)
			_exit(1);
		atomic_store(&shared[1], e.seq);
		if (n % 4 == 3) {
			store_after(s, on_told, (void *)shared);
			loop_settle(loop);
		}
	}
}

static void ses_8_what_a_waiter_was_told_survives_sigkill(void **state)
{
	struct world *w = *state;
	_Atomic uint64_t *shared =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int ready[2];
	char c;

	close_store(w);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	for (int round = 0; round < 8; round++) {
		const pid_t pid = fork();

		if (pid == 0)
			write_for_ever(w->path, shared, ready[1]);
		assert_int_equal(read(ready[0], &c, 1), 1);
		for (uint64_t goal = atomic_load(&shared[0]) + (uint64_t)round * 7;
		     atomic_load(&shared[0]) < goal;)
			;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		world_open(w);
		assert_true(store_last_seq(w->store) >= atomic_load(&shared[0]));
		assert_true(store_last_seq(w->store) <= atomic_load(&shared[1]) + 1);
		world_assert_chain(w, store_last_seq(w->store));
		close_store(w);
	}
	assert_false(logged(NULL));
	close(ready[0]);
	close(ready[1]);
	munmap((void *)shared, 4096);
}

/* ---- which generation ---- */

/* Killed after the world_commit, before the file began anew: it is as it was before the commit. */
static void ses_8_what_was_committed_is_not_carried_out_again(void **state)
{
	struct world *w = *state;
	struct buf before = {0};
	struct err err = {0};
	char path[96];

	first_redo(w, path);
	world_hold(w);
	count(w);
	world_put(w, "s");
	world_turn(w);
	assert_int_equal(fdio_load_path(path, 2 << 20, &before, &err), 0);
	/* The second time the file is older still. */
	for (int i = 0; i < 2; i++) {
		cleanup_fd int fd = -1;

		if (i == 1)
			count(w);
		world_commit(w);
		close_store(w);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		assert_int_equal(fdio_write_all(fd, before.data, before.len), 0);
		world_open(w);
		assert_int_equal(counted(w), i + 1);
		world_assert_chain(w, 1);
		assert_false(logged(NULL));
	}
	buf_done(&before);
}

/* Refused, unless the operator accepts the loss. */
static void open_with_loss(struct world *w, const char *why)
{
	struct err err = {0};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_open(w->path, w->loop, &w->clock, false, &w->store, &err),
				 -E_UNAVAILABLE);
		assert_non_null(strstr(err.message, why));
		assert_non_null(strstr(err.message, "--accept-loss"));
	}
	assert_int_equal(store_open(w->path, w->loop, &w->clock, true, &w->store, &err), 0);
}

/* What stands before the damage is kept. */
static void ses_8_a_damaged_redo_file_is_not_passed_over(void **state)
{
	struct world *w = *state;

	live(w, write_and_end_the_turn);
	damage(w);
	open_with_loss(w, "is damaged");
	assert_true(logged("are lost in part"));
	world_assert_chain(w, 0);
	close_store(w);
	world_open(w); /* once is enough */
}

/* Cut short or overwritten as a whole: it is put aside. */
static void ses_8_a_file_that_is_no_redo_file_is_put_aside(void **state)
{
	static const struct {
		off_t size;
		const char *why;
	} row[] = {{5000, "has another size"}, {4096 + REDO_SIZE, "is not a redo file"}};
	struct world *w = *state;
	char path[96], aside[112];
	struct stat st;

	first_redo(w, path);
	snprintf(aside, sizeof(aside), "%s.damaged", path);
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		int fd;

		close_store(w);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(pwrite(fd, "garbage!", 8, 0), 8);
		assert_int_equal(ftruncate(fd, row[i].size), 0);
		close(fd);
		open_with_loss(w, row[i].why);
		assert_true(logged("put aside"));
		assert_int_equal(stat(aside, &st), 0);
		assert_int_equal(st.st_size, row[i].size);
		assert_int_equal(unlink(aside), 0);
		close_store(w);
		world_open(w); /* once is enough */
	}
}

static void ses_8_only_the_generation_that_follows_is_carried_out(void **state)
{
	static const struct {
		int64_t ahead;
		bool carried_out, lost;
	} row[] = {{-1, false, false},
		   {0, false, false},
		   {1, true, false},
		   {2, false, true},
		   {1000, false, true}};
	struct world *w = *state;
	int64_t n = 0, last;

	/* An even number: then the first of the two files is in use. */
	for (int i = 0; i < 4; i++) {
		world_put_meta(w, (const char *[]){"a", "b", "c", "d"}[i]);
		world_commit(w);
	}
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		leave(w, row[i].ahead, count_sql, sizeof(count_sql));
		last = generation(w);
		if (row[i].lost)
			open_with_loss(w, "another state of the database");
		else
			world_open(w);
		/* One that neither the file nor the database has had. */
		assert_int_equal(redo_generation(w->store->now.redo),
				 last + 1 + (row[i].ahead > 0 ? row[i].ahead : 0));
		assert_int_equal(redo_generation(w->store->now.redo), generation(w) + 1);
		n += row[i].carried_out;
		assert_int_equal(counted(w), n);
		assert_int_equal(logged("are lost in part"), row[i].lost);
		/* What is written from now on is found, whatever was before. */
		live(w, read_only);
		world_open(w);
		assert_int_equal(counted(w), ++n);
		assert_int_equal(redo_generation(w->store->now.redo), generation(w) + 1);
		assert_false(logged(NULL));
	}
}

static void ses_8_an_empty_file_of_another_generation_is_no_loss(void **state)
{
	struct world *w = *state;

	leave(w, 7, NULL, 0);
	world_open(w);
	assert_false(logged(NULL));
	live(w, read_only);
	world_open(w);
	assert_int_equal(counted(w), 1);
}

static void ses_8_a_new_database_begins_beside_an_old_redo_file(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 3; i++) {
		close_store(w);
		/* With what was left, and after an orderly end. */
		if (i < 2)
			live(w, write_and_end_the_turn);
		assert_int_equal(unlink(w->path), 0);
		world_open(w);
		assert_int_equal(logged(LOST), i < 2);
		world_assert_chain(w, 0);
		assert_int_equal(counted(w), 0);
		live(w, write_and_end_the_turn);
		open_with_the_turn(w);
		assert_false(logged(NULL));
	}
}

/* ---- two generations ---- */

static int refuse(void *arg)
{
	return 1;
}

static int kill_us(void *arg)
{
	raise(SIGKILL);
	return 0;
}

/* A write of the generation that is being committed, and one of the next. */
static void write_twice(struct world *w)
{
	world_hold(w);
	count(w);
	world_put(w, "s");
	watch_soon(w->store->commit_due);
	while (!w->store->writing)
		loop_pass(w->loop);
	store_put(w->store, "UPDATE meta SET value = value * 10 WHERE key='n'");
	store_put_end(w->store);
	world_put(w, "s");
	loop_settle(w->loop);
}

static void write_twice_refused(struct world *w)
{
	sqlite3_commit_hook(store_db(w->store), refuse, NULL);
	write_twice(w);
	world_written(w);
}

static void write_twice_committed(struct world *w)
{
	write_twice(w);
	store_settle(w->store);
}

static void killed_by_the_writer(struct world *w)
{
	sqlite3_commit_hook(store_db(w->store), kill_us, NULL);
	write_twice(w);
	store_settle(w->store);
}

/* Wherever the commit is: the generation that it carries comes first, each once. */
static void ses_8_two_generations_are_carried_out_in_order(void **state)
{
	static life_fn *const lives[] = {write_twice_refused, write_twice_committed,
					 write_twice_committed, write_twice_refused, write_twice};
	struct world *w = *state;
	int64_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(lives); i++) {
		live(w, lives[i]);
		for (int again = 0; again < 2; again++) {
			world_open(w);
			assert_int_equal(counted(w), (n + 1) * 10);
			world_assert_chain(w, 2 * (i + 1));
			if (again == 0)
				close_store(w);
		}
		n = counted(w);
	}
}

/* The kill comes between the writer's last statement and the end of its commit. */
static void ses_8_a_kill_within_the_commit_loses_nothing(void **state)
{
	struct world *w = *state;

	live(w, killed_by_the_writer);
	world_open(w);
	assert_true(counted(w) == 1 || counted(w) == 10);
	world_assert_chain(w, counted(w) == 1 ? 1 : 2);
	assert_false(logged(NULL));
}

/* What followed the damage is lost with it: it was made on top of it. */
static void ses_8_damage_of_the_first_generation_takes_the_second_with_it(void **state)
{
	struct world *w = *state;

	live(w, write_twice_refused);
	damage(w);
	open_with_loss(w, "-redo' is damaged");
	assert_true(logged("are lost in part"));
	world_assert_chain(w, 0);
	assert_int_equal(counted(w), 0);
	close_store(w);
	world_open(w); /* once is enough */
	assert_false(logged(NULL));
}

/* ---- what cannot be carried out ---- */

static void assert_not_opened(struct world *w, const char *why)
{
	struct err err = {0};

	assert_int_equal(store_open(w->path, w->loop, &w->clock, false, &w->store, &err),
			 -E_UNAVAILABLE);
	assert_null(w->store);
	assert_string_equal(err.subject, w->path);
	if (strstr(err.message, why) == NULL)
		fail_msg("%s", err.message);
}

#define ONE "REPLACE INTO meta(key, value) VALUES('n', ?1)"
#define INT64 "\1\0\0\0\10\0\0\0"

static void ses_8_a_record_that_makes_no_sense_is_not_guessed_at(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *why;
	} row[] = {
		{"SELECT", 6, "it is damaged"},
		{"NONSENSE", 9, "syntax error"},
		{"INSERT INTO nowhere VALUES(1)", 30, "no such table"},
		{ONE "\0" INT64 "1234567", sizeof(ONE) + 8 + 7, "cannot be written"},
		{ONE "\0\1\0\0\0\4\0\0\0"
		     "1234",
		 sizeof(ONE) + 8 + 4, "cannot be written"},
		{ONE "\0\4\0\0\0\0\0\0\0", sizeof(ONE) + 8, "cannot be written"},
		{ONE "\0\0\0\0\0\0\0\0", sizeof(ONE) + 7, "cannot be written"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		leave(w, 1, row[i].bytes, row[i].n);
		assert_not_opened(w, row[i].why);
		/* Nothing was thrown away. */
		assert_not_opened(w, row[i].why);
	}
	leave(w, 1, ONE "\0" INT64 "\7\0\0\0\0\0\0\0", sizeof(ONE) + 8 + 8);
	world_open(w);
	assert_int_equal(counted(w), 7);
}

static void ses_8_a_row_that_is_refused_is_left_out(void **state)
{
	static const char sql[] = "INSERT INTO meta(key, value) VALUES('k', 2)";
	struct world *w = *state;

	world_put_meta(w, "k");
	world_commit(w);
	leave(w, 1, sql, sizeof(sql));
	world_open(w);
	assert_true(logged("a row was refused by the database"));
	assert_int_equal(world_number(w, "SELECT value FROM meta WHERE key='k'"), 1);
}

static void ses_8_what_cannot_be_written_at_the_start_waits_for_the_next(void **state)
{
	struct world *w = *state;

	sqlite3_exec(store_db(w->store),
		     "CREATE TRIGGER no BEFORE INSERT ON rings"
		     " BEGIN SELECT RAISE(ROLLBACK, 'not now'); END",
		     NULL, NULL, NULL);
	live(w, write_and_end_the_turn);
	assert_not_opened(w, "not now");
	assert_not_opened(w, "not now");
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 0);
	world_number(w, "DROP TRIGGER no");
	open_with_the_turn(w);
}

/* As long as the generation of the database cannot be read, the file stays as it is. */
static void ses_8_a_database_that_cannot_be_read_takes_nothing_away(void **state)
{
	struct world *w = *state;
	char page[1024], bad[1024];
	off_t at;
	int fd;

	world_put_meta(w, "k");
	world_commit(w);
	live(w, write_and_end_the_turn);
	at = (off_t)(world_number(w, "SELECT rootpage FROM sqlite_master WHERE name='meta'") - 1) *
	     1024;
	world_number(w, "PRAGMA wal_checkpoint(TRUNCATE)");
	memset(bad, 0xff, sizeof(bad));
	fd = open(w->path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, page, sizeof(page), at), sizeof(page));
	assert_int_equal(pwrite(fd, bad, sizeof(bad), at), sizeof(bad));
	assert_not_opened(w, "malformed");
	assert_int_equal(pwrite(fd, page, sizeof(page), at), sizeof(page));
	close(fd);
	open_with_the_turn(w);
}

/* It was written for the tables of its time. */
static void ses_8_it_is_carried_out_before_the_tables_change(void **state)
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
		"PRAGMA user_version=2";
	static const char sql[] = "INSERT INTO events(seq, ring, pos, time_us, type, body, hash)"
				  " VALUES(1, 'a', 64, 0, 'exec', '{}', zeroblob(32))";
	struct world *w = *state;
	sqlite3 *db = NULL;

	close_store(w);
	assert_int_equal(unlink(w->path), 0);
	assert_int_equal(sqlite3_open(w->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, old, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	leave(w, 1, sql, sizeof(sql));
	world_open(w);
	assert_int_equal(store_last_seq(w->store), 1);
	assert_int_equal(store_ring_end(w->store, "a"), 65);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup_log, teardown_log)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_8_what_was_not_committed_is_carried_out_once),
		TEST(evt_2_a_turn_is_carried_out_whole_or_not_at_all),
		TEST(ses_8_an_open_transaction_is_carried_out_once),
		TEST(ses_8_what_a_waiter_was_told_survives_sigkill),
		TEST(ses_8_what_was_committed_is_not_carried_out_again),
		TEST(ses_8_a_damaged_redo_file_is_not_passed_over),
		TEST(ses_8_a_file_that_is_no_redo_file_is_put_aside),
		TEST(ses_8_only_the_generation_that_follows_is_carried_out),
		TEST(ses_8_an_empty_file_of_another_generation_is_no_loss),
		TEST(ses_8_a_new_database_begins_beside_an_old_redo_file),
		TEST(ses_8_two_generations_are_carried_out_in_order),
		TEST(ses_8_a_kill_within_the_commit_loses_nothing),
		TEST(ses_8_damage_of_the_first_generation_takes_the_second_with_it),
		TEST(ses_8_a_record_that_makes_no_sense_is_not_guessed_at),
		TEST(ses_8_a_row_that_is_refused_is_left_out),
		TEST(ses_8_what_cannot_be_written_at_the_start_waits_for_the_next),
		TEST(ses_8_a_database_that_cannot_be_read_takes_nothing_away),
		TEST(ses_8_it_is_carried_out_before_the_tables_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
