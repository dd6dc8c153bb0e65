// SPDX-License-Identifier: Apache-2.0
/* The turn's end and the commit: the order of callbacks, and which writes go together. */
#include "base/log.h"
#include "event/testkit/store_testkit.h"
#include <fcntl.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/time.h>

static void on_turn(void *data)
{
	buf_adds(&((struct world *)data)->heard, "turn ");
}

static void evt_2_sinks_and_waiters_are_told_at_the_turns_end(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, world_on_sink, NULL, w);
	store_add_sink(w->store, NULL, on_turn, w);
	store_after_commit(w->store, world_on_commit, w);
	store_after(w->store, world_on_done, w);
	world_assert_heard(w, "commit done ");

	world_hold(w);
	assert_int_equal(world_put(w, "s"), 1);
	store_after_commit(w->store, world_on_commit, w);
	store_after(w->store, world_on_done, w);
	assert_int_equal(world_put(w, "s"), 2);
	store_after(w->store, world_on_done, w);
	world_assert_heard(w, "");
	assert_int_equal(store_last_seq(w->store), 0);

	world_turn(w);
	world_assert_heard(w, "e1 e2 turn done done ");
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 0);
	assert_int_equal(store_last_seq(w->store), 2);
	/* Safe already; in the database not yet. */
	store_after(w->store, world_on_done, w);
	world_assert_heard(w, "done ");
	store_after_commit(w->store, world_on_commit, w);
	world_turn(w);
	world_assert_heard(w, "");

	assert_int_equal(store_commit(w->store, NULL), 0);
	world_assert_heard(w, "commit commit ");
	world_assert_chain(w, 2);
	store_after_commit(w->store, world_on_commit, w);
	world_assert_heard(w, "commit ");
	world_commit(w);
	world_assert_heard(w, "");
}

static void evt_2_a_commit_within_the_turn_tells_all_of_them(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, world_on_sink, NULL, w);
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, world_on_commit, w);
	assert_int_equal(store_commit(w->store, NULL), 0);
	world_assert_heard(w, "e1 done commit ");
	world_turn(w);
	world_assert_heard(w, "");
	world_assert_chain(w, 1);
}

static void evt_2_a_turn_without_events_tells_no_sink(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, NULL, on_turn, w);
	world_put_meta(w, "k");
	store_after_commit(w->store, world_on_commit, w);
	world_commit(w);
	world_assert_heard(w, "commit ");
	assert_int_equal(world_number(w, "SELECT value FROM meta WHERE key='k'"), 1);
}

static void on_commit_stop(void *data)
{
	struct world *w = data;

	buf_adds(&w->heard, "commit ");
	loop_stop(w->loop);
}

static void evt_2_the_commit_comes_by_itself_after_a_pause(void **state)
{
	struct world *w = *state;
	int64_t start = clock_mono_us(&clock_system), took;

	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, on_commit_stop, w);
	world_put(w, "s");
	loop_run_ms(w->loop, 4000);
	took = clock_mono_us(&clock_system) - start;
	world_assert_heard(w, "done commit ");
	assert_true(took >= 1900 && took < 2000000);
	world_assert_chain(w, 2);
	/* And then there is nothing to do. */
	assert_int_equal(watch_due_us(w->store->commit_due), 0);
	assert_false(w->store->in_turn);
}

static void evt_2_later_writes_do_not_move_the_commit(void **state)
{
	struct world *w = *state;
	int64_t first, later;

	world_hold(w);
	first = watch_due_us(w->store->commit_due);
	for (int i = 0; i < 2; i++) {
		world_put(w, "s");
		world_turn(w);
		later = watch_due_us(w->store->commit_due);
		assert_int_equal(later, first);
	}
}

/* The timer's end, whatever the time is. */
static void pass(struct world *w)
{
	watch_soon(w->store->commit_due);
	world_turn(w);
	world_written(w);
	if (w->store->now.nops > 0)
		world_hold(w);
}

static void evt_2_writes_put_the_commit_off_four_times(void **state)
{
	struct world *w = *state;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5; i++) {
			world_put_meta(w, (const char *[]){"a", "b", "c", "d", "e"}[i]);
			world_hold(w);
			store_after_commit(w->store, world_on_commit, w);
			world_assert_heard(w, "");
			pass(w);
		}
		world_assert_heard(w, "commit commit commit commit commit ");
		sqlite3_exec(store_db(w->store), "DELETE FROM meta WHERE value=1", NULL, NULL,
			     NULL);
	}
	/* Without another write it waits once. */
	world_put_meta(w, "a");
	world_hold(w);
	store_after_commit(w->store, world_on_commit, w);
	pass(w);
	world_assert_heard(w, "");
	pass(w);
	world_assert_heard(w, "commit ");
}

static uint64_t put_value_of(struct world *w, int64_t v)
{
	store_put(w->store, "REPLACE INTO meta(key, value) VALUES('v', coalesce((SELECT value FROM"
			    " meta WHERE key='v'), 0) + ?)");
	store_put_int(w->store, v);
	return store_put_end(w->store);
}

static void evt_2_a_write_is_taken_back_before_it_is_carried_out(void **state)
{
	static const char sum[] = "SELECT value FROM meta WHERE key='v'";
	struct world *w = *state;
	uint64_t n[6];

	for (int round = 0; round < 2; round++) {
		world_hold(w);
		assert_false(store_take_back(w->store, 0));
		for (int i = 0; i < 3; i++)
			n[i] = put_value_of(w, i == 0 ? 1 : i == 1 ? 10 : 100);
		assert_true(n[0] > 0 && n[1] == n[0] + 1 && n[2] == n[0] + 2);
		assert_true(store_take_back(w->store, n[0]));
		assert_false(store_take_back(w->store, n[0]));
		assert_true(store_take_back(w->store, n[2]));
		store_stmt(w->store, sum);
		/* Carried out, though not committed. */
		assert_false(store_take_back(w->store, n[1]));
		assert_false(store_take_back(w->store, n[2]));
		n[3] = put_value_of(w, 1000);
		n[4] = put_value_of(w, 10000);
		world_turn(w);
		assert_true(store_take_back(w->store, n[3]));
		world_commit(w);
		assert_int_equal(world_number(w, sum), (round + 1) * 10010);
		assert_false(store_take_back(w->store, n[4]));
		assert_false(store_take_back(w->store, n[3]));
	}
}

static int64_t reads(struct world *w, const char *sql)
{
	sqlite3_stmt *stmt = store_stmt(w->store, sql);
	int64_t n;

	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return n;
}

static void evt_2_a_read_sees_what_is_not_committed(void **state)
{
	struct world *w = *state;
	static const char sum[] = "SELECT count(*) FROM meta WHERE key LIKE 'k%'";

	world_hold(w);
	world_put_meta(w, "k1");
	assert_int_equal(reads(w, sum), 1);
	world_put_meta(w, "k2");
	assert_int_equal(reads(w, sum), 2);
	world_turn(w);
	world_put_meta(w, "k3");
	world_turn(w);
	assert_int_equal(reads(w, sum), 3);
	assert_int_equal(world_number(w, sum), 0);
	/* Each was brought in once. */
	world_commit(w);
	assert_int_equal(world_number(w, sum), 3);
	assert_int_equal(store_failing(w->store, NULL), 0);
	assert_int_equal(reads(w, sum), 3);
	world_put_meta(w, "k4");
	world_commit(w);
	assert_int_equal(world_number(w, sum), 4);
}

static sem_t gate;

/* The writer waits here, within its commit. */
static int wait_at_gate(void *data)
{
	sem_wait(&gate);
	return 0;
}

/* The commit begins, and ends with a sem_post. */
static void begin_commit(struct world *w)
{
	w->store->fresh = false;
	assert_int_equal(sem_init(&gate, 0, 0), 0);
	sqlite3_commit_hook(store_db(w->store), wait_at_gate, NULL);
	watch_soon(w->store->commit_due);
	world_turn(w);
	assert_true(w->store->writing);
	world_hold(w);
}

static void evt_2_the_loop_goes_on_while_the_writer_commits(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, world_on_sink, NULL, w);
	world_put(w, "s");
	store_after_commit(w->store, world_on_commit, w);
	world_turn(w);
	world_assert_heard(w, "e1 ");
	begin_commit(w);
	for (int i = 0; i < 3; i++) {
		world_put(w, "s");
		store_after(w->store, world_on_done, w);
		world_turn(w);
	}
	world_assert_heard(w, "e2 done e3 done e4 done ");
	store_after_commit(w->store, world_on_done, w);
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 0);
	/* The end of the timer begins no second commit beside the first. */
	watch_soon(w->store->commit_due);
	w->store->fresh = false;
	world_turn(w);
	world_hold(w);
	sem_post(&gate);
	world_written(w);
	/* Only who waited for the first one. */
	world_assert_heard(w, "commit ");
	assert_int_equal(world_number(w, "SELECT count(*) FROM events"), 1);
	sem_post(&gate);
	world_commit(w);
	world_assert_heard(w, "done ");
	world_assert_chain(w, 4);
}

static void evt_2_a_read_waits_for_the_writer_and_sees_everything(void **state)
{
	static const char sum[] = "SELECT count(*) FROM meta WHERE key LIKE 'k%'";
	struct world *w = *state;

	world_put_meta(w, "k1");
	store_after_commit(w->store, world_on_commit, w);
	world_turn(w);
	begin_commit(w);
	world_put_meta(w, "k2");
	world_turn(w);
	sem_post(&gate);
	assert_int_equal(reads(w, sum), 2);
	assert_int_equal(world_number(w, sum), 1);
	/* No callback comes from within a read. */
	world_assert_heard(w, "");
	world_turn(w);
	world_assert_heard(w, "commit ");
	sem_post(&gate);
	world_commit(w);
	assert_int_equal(world_number(w, sum), 2);
}

#define BATCH_MAX (256 * 1024)
static const char blob_sql[] = "INSERT INTO meta(key, value) VALUES(hex(randomblob(8)), ?)";

/* A write of so many bytes, as the store counts them. */
static void put_bytes(struct world *w, size_t n)
{
	const size_t len = n - sizeof(blob_sql) - 8;
	cleanup_free char *blob = mem_alloc(len);

	store_put(w->store, blob_sql);
	store_put_blob(w->store, blob, len);
	store_put_end(w->store);
}

static void evt_2_a_large_batch_does_not_wait(void **state)
{
	struct world *w = *state;

	world_hold(w);
	put_bytes(w, BATCH_MAX - 100);
	put_bytes(w, 100);
	assert_int_equal(w->store->now.bytes.len, BATCH_MAX);
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, world_on_commit, w);
	world_turn(w);
	world_assert_heard(w, "done ");
	store_commit(w->store, NULL);
	world_assert_heard(w, "commit ");

	world_hold(w);
	put_bytes(w, BATCH_MAX - 100);
	put_bytes(w, 101);
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, world_on_commit, w);
	world_assert_heard(w, "");
	world_turn(w);
	world_assert_heard(w, "done ");
	world_written(w);
	world_assert_heard(w, "commit ");
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE typeof(value)='blob'"),
			 4);
}

static void evt_2_memory_of_a_large_batch_is_given_back(void **state)
{
	struct world *w = *state;

	/* One allocation of n + 1 bytes, for its closing zero; 512 KiB are kept. */
	put_bytes(w, 512 * 1024 - 1);
	world_commit(w);
	assert_int_equal(w->store->sent.bytes.cap, 512 * 1024);
	put_bytes(w, 512 * 1024);
	world_commit(w);
	assert_int_equal(w->store->sent.bytes.cap, 0);
	for (int i = 0; i < 300; i++)
		world_put(w, "s");
	world_commit(w);
	world_assert_chain(w, 300);
}

/* Memory is given back between any two steps; nothing is lost. */
static void evt_2_memory_that_nothing_needs_is_given_back(void **state)
{
	struct world *w = *state;

	put_bytes(w, 200 * 1024);
	store_trim(w->store);
	world_put(w, "s");
	world_turn(w);
	store_trim(w->store);
	world_put(w, "s");
	begin_commit(w);
	store_trim(w->store); /* the writer has its batch */
	world_put(w, "s");
	world_turn(w);
	store_trim(w->store);
	sem_post(&gate);
	world_written(w);
	sem_post(&gate);
	world_commit(w);
	assert_true(w->store->sent.bytes.cap + w->store->now.bytes.cap > 0);
	store_trim(w->store);
	assert_int_equal(w->store->sent.bytes.cap + w->store->now.bytes.cap, 0);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE typeof(value)='blob'"),
			 1);
	world_put(w, "s");
	sem_post(&gate);
	world_commit(w);
	world_assert_chain(w, 4);
}

/* A record's own eight bytes, and the next one's begin. */
#define FITS (REDO_SIZE - 8)

static void evt_2_what_the_redo_file_has_no_room_for_waits_for_the_commit(void **state)
{
	struct world *w = *state;

	world_hold(w);
	put_bytes(w, FITS);
	assert_false(w->store->spilled);
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, world_on_commit, w);
	world_turn(w);
	world_assert_heard(w, "done ");
	world_written(w);
	world_assert_heard(w, "commit ");

	world_hold(w);
	put_bytes(w, FITS + 1);
	assert_true(w->store->spilled);
	world_put_meta(w, "k");
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, world_on_commit, w);
	world_turn(w);
	world_assert_heard(w, "done commit ");
	assert_false(w->store->spilled);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE typeof(value)='blob'"),
			 2);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE key='k'"), 1);
}

static void evt_2_a_broken_constraint_leaves_out_that_row_alone(void **state)
{
	struct world *w = *state;
	char text[512] = "";
	const int fd = memfd_create("log", MFD_CLOEXEC);

	log_init("test", LOG_ERROR, LOG_TEXT, fd);
	world_put_meta(w, "one");
	world_put_meta(w, "one");
	world_put_meta(w, "two");
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	world_commit(w);
	log_init("test", LOG_ERROR, LOG_TEXT, 2);
	world_assert_heard(w, "done ");
	assert_int_equal(store_failing(w->store, NULL), 0);
	assert_int_equal(world_number(w, "SELECT count(*) FROM meta WHERE key IN ('one','two')"),
			 2);
	world_assert_chain(w, 1);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "a row was refused by the database"));
	assert_non_null(strstr(text, "UNIQUE constraint failed: meta.key"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	close(fd);
}

static void evt_2_a_waiter_may_write_and_wait_again(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, world_on_sink, NULL, w);
	world_put(w, "s");
	store_after(w->store, world_on_done_write_again, w);
	store_after(w->store, world_on_done_write_again, w);
	assert_int_equal(store_commit(w->store, NULL), 0);
	world_assert_heard(w, "e1 again again ");
	assert_int_equal(store_commit(w->store, NULL), 0);
	world_assert_heard(w, "e2 e3 done done ");
	assert_int_equal(store_commit(w->store, NULL), 0);
	world_assert_heard(w, "");
}

static void on_early(void *data)
{
	struct world *w = data;

	buf_adds(&w->heard, "early ");
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
}

/* What an early one writes is the next turn's, and so is who waits for it. */
static void evt_2_some_are_told_before_the_sinks(void **state)
{
	struct world *w = *state;

	store_add_sink(w->store, world_on_sink, NULL, w);
	store_before_sinks(w->store, world_on_done, w);
	assert_string_equal(w->heard.data, "done ");
	buf_clear(&w->heard);
	world_hold(w);
	world_put(w, "s");
	store_after(w->store, world_on_done, w);
	store_before_sinks(w->store, on_early, w);
	world_turn(w);
	assert_string_equal(w->heard.data, "early e1 done e2 done ");
}

static void evt_2_many_waiters_keep_their_order(void **state)
{
	struct world *w = *state;

	world_hold(w);
	world_put_meta(w, "k");
	for (int i = 0; i < 100; i++) {
		store_after(w->store, i == 60 ? on_turn : world_on_done, w);
		store_after_commit(w->store, i == 70 ? on_turn : world_on_commit, w);
	}
	world_turn(w);
	assert_int_equal(w->heard.len, 500);
	assert_memory_equal(w->heard.data + 300, "turn ", 5);
	buf_clear(&w->heard);
	world_commit(w);
	assert_int_equal(w->heard.len, 99 * 7 + 5);
	assert_memory_equal(w->heard.data + 490, "turn ", 5);
}

static void ses_8_at_an_end_without_the_loop_all_are_told(void **state)
{
	struct world *w = *state;

	world_put(w, "s");
	store_after_commit(w->store, world_on_commit, w);
	store_after(w->store, world_on_done, w);
	store_release(w->store);
	world_assert_heard(w, "done commit ");
	world_commit(w);
	world_assert_heard(w, "");
	world_assert_chain(w, 1);
}

static void remove_self(const struct stored_event *e, void *data)
{
	struct world *w = data;

	buf_addf(&w->heard, "once%llu ", (unsigned long long)e->seq);
	store_remove_sink(w->store, remove_self, NULL, w);
	store_add_sink(w->store, world_on_sink, NULL, w);
}

static void evt_6_sinks_come_and_go_while_they_are_told(void **state)
{
	struct world *w = *state;
	struct world other = {0};

	store_add_sink(w->store, remove_self, NULL, w);
	world_put(w, "s");
	world_put(w, "s");
	world_commit(w);
	/* The new one begins with the next turn. */
	assert_string_equal(w->heard.data, "once1 ");
	assert_int_equal(w->store->nsinks, 1);
	world_put(w, "s");
	world_commit(w);
	assert_string_equal(w->heard.data, "once1 e3 ");
	store_add_sink(w->store, NULL, on_turn, w);
	store_remove_sink(w->store, NULL, on_turn, w);
	store_add_sink(w->store, NULL, on_turn, w);
	store_add_sink(w->store, world_on_sink, NULL, &other);
	store_remove_sink(w->store, world_on_sink, NULL, w);
	store_remove_sink(w->store, world_on_sink, NULL, w);
	world_put(w, "s");
	world_commit(w);
	assert_string_equal(w->heard.data, "once1 e3 turn ");
	assert_string_equal(other.heard.data, "e4 ");
	buf_done(&other.heard);
}

static void check_copy(const struct stored_event *e, void *data)
{
	struct world *w = data;

	assert_int_equal(e->seq, 1);
	assert_int_equal(e->type, EVENT_exec);
	assert_int_equal(e->count, 3);
	assert_string_equal(e->session_id, "s-1");
	assert_null(e->command_id);
	assert_string_equal(e->decision, "deny");
	buf_add(&w->heard, e->json, e->len);
}

static void evt_6_sinks_get_a_copy_and_the_whole_json(void **state)
{
	struct world *w = *state;
	struct event e = {.type = EVENT_exec,
			  .count = 3,
			  .session_id = mem_strdup("s-1"),
			  .decision = mem_strdup("deny"),
			  .exec_path = mem_strdup("/bin/x")};

	store_add_sink(w->store, check_copy, NULL, w);
	strv_add(&e.exec_argv, "a");
	strv_add(&e.exec_argv, "b");
	store_event(w->store, &e, "ring", 0);
	assert_int_equal(e.time_us, 1767323045678901);
	event_done(&e);
	world_commit(w);
	assert_string_equal(w->heard.data,
			    "{\"seq\":1,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
			    "\"type\":\"exec\",\"session_id\":\"s-1\",\"count\":3,\"exec\":"
			    "{\"path\":\"/bin/x\",\"argv\":[\"a\",\"b\"],\"ppid\":0},"
			    "\"decision\":\"deny\"}");
}

static void on_ready(void *data)
{
	buf_adds(&((struct world *)data)->heard, "ready ");
}

static void evt_2_waiters_come_after_what_the_turn_still_has_to_do(void **state)
{
	struct world *w = *state;
	struct watch *ready = watch_timer(w->loop, on_ready, w);

	watch_soon(ready);
	world_put_meta(w, "k");
	store_after(w->store, world_on_done, w);
	world_turn(w);
	assert_string_equal(w->heard.data, "ready done ");
	watch_free(ready);
}

static void on_busy(void *data)
{
	(*(unsigned *)data)++;
}

static void evt_2_a_busy_loop_does_not_put_the_commit_off_for_ever(void **state)
{
	struct world *w = *state;
	unsigned rounds = 0;
	struct watch *busy;
	int fds[2];

	/* Readable in every round. */
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	busy = watch_readable(w->loop, fds[0], on_busy, &rounds);
	watch_start(busy);
	world_put_meta(w, "k");
	store_after(w->store, world_on_done, w);
	store_after_commit(w->store, on_commit_stop, w);
	loop_run_ms(w->loop, 4000);
	world_assert_heard(w, "done commit ");
	assert_true(rounds > 1);
	watch_free(busy);
	close(fds[0]);
	close(fds[1]);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_2_sinks_and_waiters_are_told_at_the_turns_end),
		TEST(evt_2_a_commit_within_the_turn_tells_all_of_them),
		TEST(evt_2_a_turn_without_events_tells_no_sink),
		TEST(evt_2_the_commit_comes_by_itself_after_a_pause),
		TEST(evt_2_writes_put_the_commit_off_four_times),
		TEST(evt_2_a_write_is_taken_back_before_it_is_carried_out),
		TEST(evt_2_later_writes_do_not_move_the_commit),
		TEST(evt_2_a_read_sees_what_is_not_committed),
		TEST(evt_2_the_loop_goes_on_while_the_writer_commits),
		TEST(evt_2_a_read_waits_for_the_writer_and_sees_everything),
		TEST(evt_2_a_large_batch_does_not_wait),
		TEST(evt_2_memory_of_a_large_batch_is_given_back),
		TEST(evt_2_memory_that_nothing_needs_is_given_back),
		TEST(evt_2_what_the_redo_file_has_no_room_for_waits_for_the_commit),
		TEST(evt_2_a_broken_constraint_leaves_out_that_row_alone),
		TEST(evt_2_a_waiter_may_write_and_wait_again),
		TEST(evt_2_some_are_told_before_the_sinks),
		TEST(evt_2_many_waiters_keep_their_order),
		TEST(ses_8_at_an_end_without_the_loop_all_are_told),
		TEST(evt_6_sinks_come_and_go_while_they_are_told),
		TEST(evt_6_sinks_get_a_copy_and_the_whole_json),
		TEST(evt_2_waiters_come_after_what_the_turn_still_has_to_do),
		TEST(evt_2_a_busy_loop_does_not_put_the_commit_off_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
