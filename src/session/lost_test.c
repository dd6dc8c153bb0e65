// SPDX-License-Identifier: Apache-2.0
/* Commands without a result after a restart: lost, killed, or still on their way. */
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"

static void ses_8_a_result_that_waits_for_the_ring_is_not_lost(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by o = {0};
	cleanup_buf struct buf r = {0};
	uint64_t end;

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	fake_event(f, EVENT_command_started, "c1", &end);
	kit_restart(k);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_send(k, f, MSG_warden_started,
		  &(struct warden_started){.command_id = kit_text("c1"),
					   .time_us = KIT_START_US + 5});
	fake_answer_patch(k, f);
	kit_found_all(k);
	r = kit_command_record(k, "c1");
	assert_at(&r, "state", "running");
	assert_string_equal(kit_state(k, "s1"), "busy");
	fake_finish(k, f, 4, "");
	buf_done(&r);
	r = kit_command_record(k, "c1");
	assert_at(&r, "exit_code", "4");
	assert_string_equal(kit_state(k, "s1"), "ready");
}

/* SES-8: the server that ended has stored the first events; the answer counts and names them all.
 */
static void ses_8_an_answer_after_a_restart_tells_of_what_was_before(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct event denied = {.type = EVENT_exec,
			       .count = 1,
			       .exec_path = kit_text("/bin/id"),
			       .decision = kit_text("deny"),
			       .policy_decision = kit_text("deny"),
			       .policy_rule = kit_text("no-id"),
			       .denied_op = kit_text("exec"),
			       .denied_reason = kit_text("not here"),
			       .denied_target = kit_text("/bin/id")};
	struct event con = {.type = EVENT_net_connect,
			    .count = 2,
			    .remote_addr = kit_text("10.0.0.1"),
			    .remote_port = 80,
			    .bytes_sent = 5};
	struct event blocked = {.type = EVENT_net_blocked, .count = 1};
	struct seen_by o = {0};
	cleanup_buf struct buf r = {0};
	uint64_t end;

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	denied.command_id = con.command_id = blocked.command_id = kit_text("c1");
	fake_event(f, EVENT_command_started, "c1", &end);
	assert_int_equal(journal_append(f->journal, &con, &end, NULL), 0);
	assert_int_equal(journal_append(f->journal, &denied, &end, NULL), 0);
	fake_send(k, f, MSG_warden_bell, &(struct msg_empty){0});
	while (store_ring_end(k->store, "s1") < end)
		loop_turn(k->loop);
	kit_restart(k);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_send(k, f, MSG_warden_started,
		  &(struct warden_started){.command_id = kit_text("c1"),
					   .time_us = KIT_START_US + 5});
	fake_answer_patch(k, f);
	kit_found_all(k);
	assert_int_equal(journal_append(f->journal, &blocked, &end, NULL), 0);
	fake_finish(k, f, 1, "");
	r = kit_command_answer(k, "c1");
	assert_at(&r, "events.totals", "{\"file\":0,\"network\":3,\"exec\":0,\"blocked\":1}");
	assert_at(&r, "network_summary",
		  "{\"connections\":2,\"dns_queries\":0,\"bytes_sent\":5,\"bytes_received\":0,"
		  "\"blocked_connections\":1,\"unique_destinations\":[\"10.0.0.1:80\"]}");
	assert_at(&r, "result.error.message", "rule 'no-id' denies /bin/id: not here");
	assert_at(&r, "result.error.policy",
		  "{\"rule\":\"no-id\",\"reason\":\"not here\",\"operation\":\"exec\","
		  "\"target\":\"/bin/id\",\"final\":false}");
}

/* SES-8: the journal shows that it was handed over, and its warden does not have it any more. */
static void ses_8_a_command_that_may_have_run_is_not_lost(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by o = {0};
	cleanup_buf struct buf r = {0};
	uint64_t end;

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	fake_event(f, EVENT_command_started, "c1", &end);
	kit_restart(k);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_answer_patch(k, f);
	kit_found_all(k);
	r = kit_command_record(k, "c1");
	assert_at(&r, "state", "killed");
	assert_at(&r, "error.message",
		  "ended without a result; it may have run: the server stopped");
	assert_string_equal(kit_state(k, "s1"), "ready");
}

static void ses_8_a_lost_command_with_a_late_result_was_not_lost(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by o = {0};
	cleanup_buf struct buf r = {0};

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	kit_restart(k);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_answer_patch(k, f);
	kit_found_all(k);
	fake_finish(k, f, 4, "");
	kit_skip(&f->link, MSG_warden_ack);
	r = kit_command_record(k, "c1");
	assert_at(&r, "state", "finished");
	assert_at(&r, "exit_code", "4");
	fake_send(k, f, MSG_warden_result,
		  &(struct warden_result){.command_id = kit_text("unknown")}); /* is forgotten */
	kit_skip(&f->link, MSG_warden_ack);
}

static void ses_8_sessions_without_processes_have_failed(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by o = {0};
	cleanup_buf struct buf r = {0}, c = {0};

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	kit_restart(k);
	kit_found_all(k);
	assert_true(sessions_ready(k->ss));
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "state", "failed");
	assert_at(&r, "failure", "the session's processes were gone when the server started");
	c = kit_command_record(k, "c1"); /* and so was the journal, which could tell */
	assert_at(&c, "state", "killed");
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_killed session_state:failed session_failed");
}

static void ses_8_the_journal_of_a_dead_session_is_drained(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0};
	cleanup_buf struct buf r = {0}, answer = {0};
	uint64_t end;

	kit_submit_id(k, "s1", "c1", &a);
	fake_take_exec(f);
	fake_event(f, EVENT_command_started, "c1", &end);
	fake_event(f, EVENT_exec, "c1", &end);
	fake_event(f, EVENT_command_finished, "c1", &end);
	kit_restart(k);
	kit_tell(
		k, MSG_launcher_lost,
		&(struct launcher_lost){.session_id = f->id, .reason = kit_text("the warden died")},
		(int[]){f->ring_fd, f->ack_fd}, 2);
	kit_found_all(k);
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "failure", "the warden died");
	answer = kit_command_answer(k, "c1");
	assert_at(&answer, "command_state", "killed");
	assert_at(&answer, "result.exit_code", "7");
	assert_at(&answer, "result.error.message", "the session failed: the warden died");
	assert_at(&answer, "events.totals.exec", "1");
	assert_at(&answer, "events.exec_operations.0.type", "exec");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started exec command_finished session_state:failed session_failed");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_8_a_result_that_waits_for_the_ring_is_not_lost),
		TEST(ses_8_an_answer_after_a_restart_tells_of_what_was_before),
		TEST(ses_8_a_command_that_may_have_run_is_not_lost),
		TEST(ses_8_a_lost_command_with_a_late_result_was_not_lost),
		TEST(ses_8_sessions_without_processes_have_failed),
		TEST(ses_8_the_journal_of_a_dead_session_is_drained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
