// SPDX-License-Identifier: Apache-2.0
/* Bells, broken rings, and commits that fail. */
#include "event/journal_layout.h"
#include "session/session_testkit.h"
#include <poll.h>

static bool refuse;

static int on_commit(void *arg)
{
	return refuse;
}

/* From now on the disk is full, so to speak. */
static void fail_commits(struct kit *k, bool on)
{
	refuse = on;
	sqlite3_commit_hook(store_read(k->store), on_commit, NULL);
	log_init("test", LOG_ERROR, LOG_TEXT, on ? open("/dev/null", O_WRONLY | O_CLOEXEC) : 2);
}

/* Lets the time for a second try pass. */
static void wait_retry(struct kit *k)
{
	const struct timeval tv = {RETRY_MS / 1000, 200000};

	event_base_loopexit(k->base, &tv);
	event_base_dispatch(k->base);
	kit_turn(k);
}

static void wait_bell(struct kit *k)
{
	const struct timeval tv = {0, 4 * BELL_MS * 1000};

	event_base_loopexit(k->base, &tv);
	event_base_dispatch(k->base);
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
	const struct exec_wish wish = kit_wish("true");
	struct seen_by o = {0};
	uint64_t end;

	kit_submit(k, "s1", &wish, &o);
	fake_take_exec(f);
	for (int i = 0; i < 2500; i++) /* more than one step reads */
		fake_event(f, EVENT_file_read, f->command, &end);
	fake_finish(k, f, 0, "");
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "events.totals.file", "2500");
	assert_int_equal(journal_acked(f->journal), journal_head(f->journal));
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
		event_base_loop(k->base, EVLOOP_ONCE);
	assert_int_equal(kit_get(k, "s1")->totals.file_ops, 8192); /* others have their turn */
	while (kit_get(k, "s1")->totals.file_ops < 10000)
		event_base_loop(k->base, EVLOOP_ONCE);
	kit_turn(k);
	assert_int_equal(journal_acked(f->journal), end);
}

static void evt_2_a_broken_ring_fails_its_session(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by o = {0};
	cleanup_buf struct buf r = {0};

	kit_submit(k, "s1", &wish, &o);
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(pwrite(f->ring_fd, "\xff\xff\xff\xff", 4, JOURNAL_PAGE), 4);
	fake_finish(k, f, 0, "");
	assert_int_equal(o.done, 1);
	assert_at(&o.answer, "result.error.code", "E_UNAVAILABLE");
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "state", "failed");
	assert_at(&r, "failure", "its journal is broken");
	kit_skip(&k->launcher, MSG_launcher_remove);
	kit_seen_done(&o);
}

static void evt_2_a_result_that_cannot_be_stored_is_stored_later(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by o = {0};
	char *env[] = {(char *)"A=1", NULL}, *names[] = {(char *)"A", NULL};
	struct warden_result r;
	struct event read = {.type = EVENT_file_read, .count = 1, .op_bytes = 3};
	uint64_t end;
	cleanup_buf struct buf record = {0};

	kit_submit(k, "s1", &wish, &o);
	fake_take_exec(f);
	fake_start(k, f);
	read.command_id = f->command;
	assert_int_equal(journal_append(f->journal, &read, &end, NULL), 0);
	r = fake_result(f, 3, "out");
	r.env_changed = (struct strv){names, 1};
	r.env = (struct strv){env, 1};
	fail_commits(k, true);
	fake_send(k, f, MSG_warden_result, &r);
	assert_int_equal(o.done, 0);
	assert_int_equal(journal_acked(f->journal), 0);
	kit_recv_nothing(&f->link);
	fail_commits(k, false);
	wait_retry(k);
	assert_int_equal(o.done, 1);
	kit_skip(&f->link, MSG_warden_ack);
	assert_at(&o.answer, "result.exit_code", "3");
	assert_at(&o.answer, "events.totals.file", "1");
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

/* EVT-2: who need not wait for the commit has his answer at once; the warden keeps the result until
 * it is stored. */
static void evt_2_an_early_answer_does_not_wait_for_the_commit(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by early = {0}, late = {0};
	struct command_observer obs = kit_observer(&early), other = kit_observer(&late);
	struct command *c;
	struct pollfd told = {.events = POLLIN};

	obs.early = true;
	command_submit(kit_get(k, "s1"), &k->who, &(struct command_ask){.wish = &wish}, &obs, &c);
	command_add_observer(c, &other);
	kit_turn(k);
	fake_take_exec(f);
	fake_start(k, f);
	fail_commits(k, true);
	fake_finish(k, f, 0, "text");
	assert_int_equal(early.done, 1);
	assert_at(&early.answer, "result.stdout", "text");
	assert_int_equal(late.done, 0);
	told.fd = f->link.fd;
	assert_int_equal(poll(&told, 1, 0), 0); /* no ack */
	fail_commits(k, false);
	wait_retry(k);
	assert_int_equal(late.done, 1);
	assert_int_equal(early.done, 1);
	assert_string_equal(early.answer.data, late.answer.data);
	kit_skip(&f->link, MSG_warden_ack);
	kit_seen_done(&early);
	kit_seen_done(&late);
}

static void evt_2_a_command_that_cannot_be_stored_is_not_run(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_wish wish = kit_wish("true");
	struct seen_by a = {0}, b = {0}, c = {0};

	wish.command_id = (char *)"c1";
	fail_commits(k, true);
	kit_submit(k, "s1", &wish, &a);
	assert_int_equal(a.done, 1);
	assert_int_equal(a.err.code, E_UNAVAILABLE);
	kit_recv_nothing(&f->link);
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_int_equal(kit_get(k, "s1")->totals.command_count, 0);
	fail_commits(k, false);
	kit_submit(k, "s1", &wish, &b); /* nothing of it stays, not even its files */
	fail_commits(k, true);
	wish.command_id = NULL;
	kit_submit(k, "s1", &wish, &c);
	assert_int_equal(c.err.code, E_UNAVAILABLE);
	fail_commits(k, false);
	fake_run(k, f, 0, "");
	assert_int_equal(b.done, 1);
	assert_int_equal(b.err.code, E_OK);
	assert_string_equal(kit_state(k, "s1"), "ready");
	kit_seen_done(&b);
}

static void evt_2_commands_of_one_failed_turn_are_all_refused(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by o[2] = {0};

	fail_commits(k, true);
	for (int i = 0; i < 2; i++) {
		const struct command_observer obs = kit_observer(&o[i]);

		command_submit(kit_get(k, "s1"), &k->who, &(struct command_ask){.wish = &wish},
			       &obs, NULL);
	}
	kit_turn(k);
	assert_int_equal(o[0].err.code, E_UNAVAILABLE);
	assert_int_equal(o[1].err.code, E_UNAVAILABLE);
	fail_commits(k, false);
	kit_turn(k);
	kit_recv_nothing(&f->link);
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_events(k, "s1", "session_created session_state:ready");
}

/* Its predecessor's result comes in the turn that fails, so that it has the place when it is
 * undone. */
static void evt_2_a_place_that_was_handed_on_is_given_back(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by a = {0}, b = {0};
	const struct command_observer obs = kit_observer(&b);
	struct warden_result r;

	kit_submit(k, "s1", &wish, &a);
	fake_take_exec(f);
	fake_start(k, f);
	r = fake_result(f, 0, "");
	fail_commits(k, true);
	command_submit(kit_get(k, "s1"), &k->who, &(struct command_ask){.wish = &wish}, &obs, NULL);
	assert_int_equal(link_send(&f->link, MSG_warden_result, 0, &r, NULL, 0, NULL), 0);
	warden_read(kit_get(k, "s1"));
	kit_turn(k);
	assert_int_equal(b.err.code, E_UNAVAILABLE);
	assert_int_equal(a.done, 0);
	fail_commits(k, false);
	wait_retry(k);
	assert_int_equal(a.done, 1);
	assert_string_equal(kit_state(k, "s1"), "ready");
	kit_skip(&f->link, MSG_warden_ack);
	kit_recv_nothing(&f->link);
	kit_seen_done(&a);
}

static void evt_2_a_session_that_cannot_be_stored_is_not_made(void **state)
{
	struct kit *k = *state;
	struct session_wish wish = {.id = (char *)"s1", .workspace = (char *)"/w"};
	struct told t = {0};

	fail_commits(k, true);
	session_create(k->ss, &k->who, &wish, kit_told, &t);
	kit_turn(k);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_UNAVAILABLE);
	kit_recv_nothing(&k->launcher);
	assert_int_equal(sessions_live(k->ss), 0);
	fail_commits(k, false);
	kit_session(k, "s1");
}

static void evt_2_an_end_that_cannot_be_stored_is_stored_later(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by o = {0};
	struct told t = {0};

	kit_submit(k, "s1", &wish, &o);
	fake_take_exec(f);
	fake_start(k, f);
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &t);
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_end);
	fail_commits(k, true);
	link_done(&f->link);
	kit_turn(k);
	assert_int_equal(t.n, 0);
	assert_int_equal(o.done, 0);
	kit_recv_nothing(&k->launcher);
	fail_commits(k, false);
	wait_retry(k);
	assert_int_equal(t.n, 1);
	assert_int_equal(o.done, 1);
	assert_at(&o.record, "state", "killed");
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_string_equal(kit_state(k, "s1"), "stopped");
	assert_events(
		k, "s1",
		"session_created session_state:ready command_queued session_state:busy "
		"session_state:stopping command_started session_state:stopped session_destroyed");
	kit_seen_done(&o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_6_a_bell_brings_events_without_a_result),
		TEST(evt_2_an_answer_waits_for_all_its_events),
		TEST(evt_2_a_long_ring_is_read_in_turns),
		TEST(evt_2_a_broken_ring_fails_its_session),
		TEST(evt_2_a_result_that_cannot_be_stored_is_stored_later),
		TEST(evt_2_an_early_answer_does_not_wait_for_the_commit),
		TEST(evt_2_a_command_that_cannot_be_stored_is_not_run),
		TEST(evt_2_commands_of_one_failed_turn_are_all_refused),
		TEST(evt_2_a_place_that_was_handed_on_is_given_back),
		TEST(evt_2_a_session_that_cannot_be_stored_is_not_made),
		TEST(evt_2_an_end_that_cannot_be_stored_is_stored_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
