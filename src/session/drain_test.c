// SPDX-License-Identifier: Apache-2.0
/* Bells, broken rings, and commits that fail. */
#include "base/log.h"
#include "event/journal_layout.h"
#include "session/drain.h"
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>

static atomic_bool refuse;

static int on_commit(void *arg)
{
	return refuse;
}

/* From now on the disk is full, so to speak. */
static void fail_commits(struct kit *k, bool on)
{
	refuse = on;
	sqlite3_commit_hook(store_db(k->store), on_commit, NULL);
	log_init("test", LOG_ERROR, LOG_TEXT, on ? open("/dev/null", O_WRONLY | O_CLOEXEC) : 2);
}

static void fail_commits_off(void)
{
	refuse = false;
	log_init("test", LOG_ERROR, LOG_TEXT, 2);
}

static void wait_bell(struct kit *k)
{
	loop_run_ms(k->loop, 4 * BELL_MS);
	store_commit(k->store, NULL);
}

static void evt_6_a_bell_brings_events_without_a_result(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	uint64_t end;

	fake_event(f, EVENT_file_read, "none", &end);
	kit_turn(k);
	assert_events(k, "s1", "session_created session_state:ready");
	fake_send(k, f, MSG_warden_bell, &(struct msg_empty){0});
	fake_event(f, EVENT_file_read, "none", &end);
	fake_send(k, f, MSG_warden_bell, &(struct msg_empty){0});
	wait_bell(k);
	assert_events(k, "s1", "session_created session_state:ready file_read file_read");
	assert_int_equal(journal_acked(f->journal), end);
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 2);
	fake_event(f, EVENT_file_read, "none", &end);
	fake_send(k, f, MSG_warden_bell, &(struct msg_empty){0});
	wait_bell(k);
	assert_int_equal(journal_acked(f->journal), end);
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 3);
}

static void evt_2_an_answer_waits_for_all_its_events(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	uint64_t end;

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	for (int i = 0; i < 2500; i++) /* more than one step reads */
		fake_event(f, EVENT_file_read, f->command, &end);
	fake_finish(k, f, 0, "");
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "events.totals.file", "2500");
	assert_int_equal(journal_acked(f->journal), journal_head(f->journal));
	kit_seen_done(&o);
}

static void keep_json(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	buf_add(arg, json, len);
}

/* A warden of a newer version may record types that this one does not know. */
static void evt_1_an_unknown_type_is_stored_shown_and_read_past(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	const struct event_query q = {.types = UINT64_C(1) << EVENT_unknown};
	struct event e = {.type = EVENT_unknown, .type_number = 4711, .path = event_lend("/p")};
	cleanup_buf struct buf json = {0};
	struct seen_by o = {0};
	uint64_t end;

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	fake_start(k, f);
	e.command_id = f->command;
	assert_int_equal(journal_append(f->journal, &e, &end, NULL), 0);
	fake_finish(k, f, 0, "");
	assert_int_equal(o.done, 1);
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started unknown command_finished session_state:ready");
	assert_int_equal(store_query(k->store, &q, keep_json, &json, NULL, NULL), 0);
	assert_at(&json, "type_number", "4711");
	assert_at(&json, "path", "/p");
	assert_at(&json, "session_id", "s1");
	kit_seen_done(&o);
}

static void evt_2_a_long_ring_is_read_in_turns(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	uint64_t end;

	for (int i = 0; i < 10000; i++)
		fake_event(f, EVENT_file_read, "none", &end);
	fake_send(k, f, MSG_warden_bell, &(struct msg_empty){0});
	while (kit_get(k, "s1")->totals.file_ops == 0)
		loop_turn(k->loop);
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 8192); /* others have their turn */
	while (kit_get(k, "s1")->totals.file_ops < 10000)
		loop_turn(k->loop);
	kit_turn(k);
	assert_int_equal(journal_acked(f->journal), end);
}

static void evt_2_a_broken_ring_fails_its_session(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	cleanup_buf struct buf r = {0};

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(pwrite(f->ring_fd, "\xff\xff\xff\xff", 4, JOURNAL_PAGE), 4);
	fake_finish(k, f, 0, "");
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "result.error.code", "E_COMMAND_KILLED"); /* it may have run */
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "state", "failed");
	assert_at(&r, "failure", "its journal is broken");
	kit_skip(&k->launcher, MSG_launcher_remove);
	kit_seen_done(&o);
}

static sem_t gate;
static atomic_int at_gate;

static int wait_at_gate(void *arg)
{
	atomic_fetch_add(&at_gate, 1);
	sem_wait(&gate);
	return 0;
}

static uint64_t drained(struct kit *k, struct fake *f)
{
	const struct event e = {.type = EVENT_exec, .time_us = KIT_START_US + 6};
	uint64_t end;

	assert_int_equal(journal_append(f->journal, &e, &end, NULL), 0);
	session_drain(kit_get(k, "s1"), NULL);
	return end;
}

/* The second event is read while the first one is committed. */
static void evt_2_only_what_the_database_has_is_acknowledged(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	uint64_t first, second;

	assert_int_equal(sem_init(&gate, 0, 0), 0);
	sqlite3_commit_hook(store_db(k->store), wait_at_gate, NULL);
	first = drained(k, f);
	while (atomic_load(&at_gate) == 0)
		loop_pass(k->loop);
	second = drained(k, f);
	loop_settle(k->loop);
	sem_post(&gate);
	while (journal_acked(f->journal) < first)
		loop_turn(k->loop);
	assert_int_equal(journal_acked(f->journal), first);
	sem_post(&gate);
	while (journal_acked(f->journal) < second)
		loop_turn(k->loop);
	assert_int_equal(journal_acked(f->journal), second);
	sqlite3_commit_hook(store_db(k->store), NULL, NULL);
}

/* ---- a second process that records ---- */

static uint64_t other_event(struct fake *f, enum event_type type)
{
	const struct event e = {
		.type = type, .time_us = KIT_START_US + 6, .command_id = f->command};
	uint64_t end;

	assert_int_equal(journal_append(f->other, &e, &end, NULL), 0);
	return end;
}

/* The result names where the command's events in the other ring end. */
static void finish_at(struct kit *k, struct fake *f, uint64_t other)
{
	cleanup_free char *end = mem_printf("test %llu", (unsigned long long)other);
	struct warden_result r = fake_result(f, 0, "");

	r.ring_ends = (struct strv){(char *[]){end, NULL}, 1};
	fake_send(k, f, MSG_warden_result, &r);
}

static struct fake *two_rings(struct kit *k, struct seen_by *o)
{
	const struct exec_request request = kit_request("true");
	struct fake *f;

	k->two_rings = true;
	f = kit_session(k, "s1");
	kit_submit(k, "s1", &request, o);
	fake_take_exec(f);
	fake_start(k, f);
	return f;
}

static void evt_2_an_answer_waits_for_every_ring(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct fake *f = two_rings(k, &o);
	uint64_t end, later;

	other_event(f, EVENT_file_read);
	end = other_event(f, EVENT_net_connect);
	later = other_event(f, EVENT_file_write);
	finish_at(k, f, end);
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "events.totals.file", "1");
	assert_at(&o.answer, "events.totals.network", "1");
	assert_at(&o.answer, "events.network_operations.0.type", "net_connect");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started file_read net_connect command_finished session_state:ready");
	assert_int_equal(journal_acked(f->journal), journal_head(f->journal));
	assert_int_equal(journal_acked(f->other), end);
	/* What lies behind the command's end comes with the next bell. */
	fake_send(k, f, MSG_warden_bell, &(struct msg_empty){0});
	wait_bell(k);
	assert_int_equal(journal_acked(f->other), later);
	kit_seen_done(&o);
}

static void evt_2_a_result_without_a_position_waits_for_all_that_is_there(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct fake *f = two_rings(k, &o);

	other_event(f, EVENT_file_read);
	fake_finish(k, f, 0, "");
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "events.totals.file", "1");
	kit_seen_done(&o);
}

static void ses_8_the_next_server_goes_on_in_every_ring(void **state)
{
	const uint64_t nothing[2] = {0, ~UINT64_C(0)};
	struct kit *k = *state;
	struct seen_by o = {0};
	struct fake *f = two_rings(k, &o);

	finish_at(k, f, other_event(f, EVENT_file_read));
	assert_int_equal(o.done, 1);
	/* Killed before it could acknowledge. */
	assert_int_equal(
		pwrite(f->other_fd[1], nothing, sizeof(nothing), offsetof(struct ack_page, pos)),
		sizeof(nothing));
	kit_restart(k);
	other_event(f, EVENT_file_write);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_answer_patch(k, f);
	kit_found_all(k);
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started file_read command_finished session_state:ready file_write");
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 2);
	assert_int_equal(journal_acked(f->other), journal_head(f->other));
	kit_seen_done(&o);
}

/* The next server counts what this one has stored for a command that it finishes. */
static void ses_8_the_next_server_counts_all_operations_of_a_command(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct fake *f = two_rings(k, &o);
	struct event read = {.schema = EVENT_SCHEMA,
			     .type = EVENT_file_read,
			     .count = 40,
			     .command_id = f->command,
			     .op_bytes = 5 << 20},
		     denied = {.schema = EVENT_SCHEMA,
			       .type = EVENT_file_open,
			       .count = 3,
			       .command_id = f->command,
			       .decision = event_lend("deny")};
	cleanup_buf struct buf answer = {0};
	uint64_t end;

	assert_int_equal(journal_append(f->other, &read, &end, NULL), 0);
	assert_int_equal(journal_append(f->other, &denied, &end, NULL), 0);
	session_drain(kit_get(k, "s1"), NULL);
	kit_restart(k);
	assert_int_equal(journal_append(f->other, &read, &end, NULL), 0);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_answer_patch(k, f);
	kit_found_all(k);
	finish_at(k, f, end);
	answer = kit_command_answer(k, f->command);
	assert_at(&answer, "events.totals", "{\"file\":80,\"network\":0,\"exec\":0,\"blocked\":3}");
	assert_at(&answer, "events.truncated", "false");
	assert_at(&answer, "resources.disk_read_mb", "10");
	kit_seen_done(&o);
}

static void ses_8_every_ring_of_a_dead_session_is_drained(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct fake *f = two_rings(k, &o);
	const struct launcher_lost lost = {.session_id = f->id, .rings = fake_rings(f)};

	kit_restart(k);
	other_event(f, EVENT_file_write);
	kit_tell(k, MSG_launcher_lost, &lost,
		 (int[]){f->ring_fd, f->ack_fd, f->other_fd[0], f->other_fd[1]}, 4);
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 1);
	kit_skip(&k->launcher, MSG_launcher_remove);
	kit_found_all(k);
	kit_seen_done(&o);
}

static void evt_2_one_broken_ring_fails_its_session_and_the_others_are_read(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct fake *f = two_rings(k, &o);
	const uint64_t end = other_event(f, EVENT_file_read);

	assert_int_equal(pwrite(f->other_fd[0], "\xff\xff\xff\xff", 4, JOURNAL_PAGE), 4);
	finish_at(k, f, end);
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "result.exit_code", "7"); /* as the warden's ring says */
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started events_dropped command_finished session_state:failed "
		      "session_failed");
	kit_skip(&k->launcher, MSG_launcher_remove);
	kit_seen_done(&o);
}

static void tell_of_kills(struct fake *f, uint64_t n)
{
	struct event e = {.schema = EVENT_SCHEMA,
			  .type = EVENT_resource_limit,
			  .count = 1,
			  .limit = event_lend("memory_limit"),
			  .counter = event_lend("oom_kills"),
			  .value = n};
	uint64_t end;

	assert_int_equal(journal_append(f->journal, &e, &end, NULL), 0);
}

static void expect_end(struct kit *k, uint64_t oom_kills, const char *reason, const char *events)
{
	cleanup_buf struct buf r = {0};
	char id[] = "s1", killed[] = "killed";

	kit_tell(k, MSG_launcher_gone, &(struct launcher_gone){id, killed, .oom_kills = oom_kills},
		 NULL, 0);
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "failure", reason);
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_events(k, "s1", events);
}

#define OUT_OF_MEMORY "out of memory (memory_limit): the kernel killed the session's warden"
#define MADE "session_created session_state:ready "
#define FAILED "session_state:failed session_failed"

static void sbx_4_a_kill_that_nobody_told_of_was_the_wardens(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");

	wall_set(&kit_get(k, "s1")->walls, WALL_memory_limit, WALL_UP, "x");
	tell_of_kills(f, 3);
	expect_end(k, 4, OUT_OF_MEMORY, MADE "resource_limit resource_limit " FAILED);
}

static void sbx_4_the_first_kill_may_be_the_wardens(void **state)
{
	struct kit *k = *state;

	link_done(&kit_session(k, "s1")->link);
	kit_turn(k);
	wall_set(&kit_get(k, "s1")->walls, WALL_memory_limit, WALL_PARTIAL, "x");
	expect_end(k, 1, OUT_OF_MEMORY, MADE "resource_limit " FAILED);
}

static void sbx_4_kills_that_were_told_of_were_not_the_wardens(void **state)
{
	struct kit *k = *state;

	tell_of_kills(kit_session(k, "s1"), 3);
	wall_set(&kit_get(k, "s1")->walls, WALL_memory_limit, WALL_UP, "x");
	expect_end(k, 3, "killed", MADE "resource_limit " FAILED);
}

static void sbx_4_without_a_limit_it_was_not_the_sessions_memory(void **state)
{
	struct kit *k = *state;

	kit_session(k, "s1");
	expect_end(k, 1, "killed", MADE FAILED);
}

/* What had begun goes on: it is safe in the redo file, and in the ring until it is committed. */
static void evt_2_what_runs_while_the_disk_is_full_is_not_lost(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	char *env[] = {(char *)"A=1", NULL}, *names[] = {(char *)"A", NULL};
	struct warden_result r;
	struct event read = {.type = EVENT_file_read, .count = 1, .op_bytes = 3};
	uint64_t end;
	cleanup_buf struct buf record = {0};

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	fake_start(k, f);
	read.command_id = f->command;
	assert_int_equal(journal_append(f->journal, &read, &end, NULL), 0);
	r = fake_result(f, 3, "out");
	r.env_changed = (struct strv){names, 1};
	r.env = (struct strv){env, 1};
	fail_commits(k, true);
	fake_send(k, f, MSG_warden_result, &r);
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "result.exit_code", "3");
	assert_at(&o.answer, "events.totals.file", "1");
	assert_int_equal(journal_acked(f->journal), 0);
	kit_recv_nothing(&f->link); /* nor does the warden forget it */
	fail_commits(k, false);
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_ack);
	assert_int_equal(journal_acked(f->journal), journal_head(f->journal));
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started file_read command_finished session_state:ready");
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 1);
	assert_int_equal(kit_get(k, "s1")->totals.bytes_read, 3);
	kit_close_sessions(k);
	kit_open_sessions(k);
	kit_found_all(k);
	session_format(kit_get(k, "s1"), &JW(&record)); /* the row has it, too */
	assert_at(&record, "environment", "{\"A\":\"1\"}");
	assert_at(&record, "total_bytes_read", "3");
	kit_seen_done(&o);
}

/* A server that ends meanwhile leaves all of it to the next. */
static void ses_8_the_next_server_stores_what_the_last_could_not(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	fake_start(k, f);
	fail_commits(k, true);
	fake_finish(k, f, 4, "");
	assert_int_equal(o.done, 1);
	kit_close_sessions(k);
	fail_commits_off();
	kit_open_sessions(k);
	assert_row(k, o.id, "finished");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started command_finished session_state:ready");
	kit_found_all(k);
	kit_seen_done(&o);
}

/* Events of a ring wait there: the bell is put off. */
static void evt_2_a_full_disk_leaves_events_in_the_ring(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	uint64_t end;

	fail_commits(k, true);
	session_event(kit_get(k, "s1"), EVENT_session_updated, NULL);
	kit_turn(k);
	fake_event(f, EVENT_file_read, "none", &end);
	fake_send(k, f, MSG_warden_bell, &(struct msg_empty){0});
	wait_bell(k);
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 0);
	fail_commits(k, false);
	kit_turn(k);
	wait_bell(k);
	kit_turn(k);
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 1);
	assert_int_equal(journal_acked(f->journal), end);
}

static void evt_2_nothing_is_begun_while_the_disk_is_full(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct session_request other = {.id = (char *)"s2", .workspace = (char *)"/w"};
	struct seen_by a = {0}, b = {0};
	struct told t = {0};

	fail_commits(k, true);
	session_event(kit_get(k, "s1"), EVENT_session_updated, NULL);
	kit_turn(k);
	kit_submit(k, "s1", &request, &a);
	assert_int_equal(a.done, 1);
	assert_int_equal(a.err.code, E_UNAVAILABLE);
	assert_non_null(strstr(a.err.message, "cannot be written"));
	kit_recv_nothing(&f->link);
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_int_equal(kit_get(k, "s1")->totals.command_count, 0);
	session_create(k->ss, &k->who, &other, kit_told, &t);
	kit_turn(k);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_UNAVAILABLE);
	kit_recv_nothing(&k->launcher);
	assert_int_equal(sessions_live(k->ss), 1);
	fail_commits(k, false);
	kit_turn(k);
	kit_submit(k, "s1", &request, &b);
	fake_run(k, f, 0, "");
	assert_int_equal(b.done, 1);
	assert_int_equal(b.err.code, E_OK);
	kit_session(k, "s2");
	kit_seen_done(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_6_a_bell_brings_events_without_a_result),
		TEST(evt_2_an_answer_waits_for_all_its_events),
		TEST(evt_1_an_unknown_type_is_stored_shown_and_read_past),
		TEST(evt_2_only_what_the_database_has_is_acknowledged),
		TEST(evt_2_a_long_ring_is_read_in_turns),
		TEST(evt_2_a_broken_ring_fails_its_session),
		TEST(evt_2_an_answer_waits_for_every_ring),
		TEST(evt_2_a_result_without_a_position_waits_for_all_that_is_there),
		TEST(ses_8_the_next_server_goes_on_in_every_ring),
		TEST(ses_8_the_next_server_counts_all_operations_of_a_command),
		TEST(ses_8_every_ring_of_a_dead_session_is_drained),
		TEST(evt_2_one_broken_ring_fails_its_session_and_the_others_are_read),
		TEST(sbx_4_a_kill_that_nobody_told_of_was_the_wardens),
		TEST(sbx_4_the_first_kill_may_be_the_wardens),
		TEST(sbx_4_kills_that_were_told_of_were_not_the_wardens),
		TEST(sbx_4_without_a_limit_it_was_not_the_sessions_memory),
		TEST(evt_2_what_runs_while_the_disk_is_full_is_not_lost),
		TEST(ses_8_the_next_server_stores_what_the_last_could_not),
		TEST(evt_2_a_full_disk_leaves_events_in_the_ring),
		TEST(evt_2_nothing_is_begun_while_the_disk_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
