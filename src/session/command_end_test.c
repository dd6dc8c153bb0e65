// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <signal.h>

static void ses_2_destroy_gives_every_command_its_answer(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by a = {0}, b = {0};
	struct told t = {0};
	struct warden_result r;

	kit_submit(k, "s1", &request, &a);
	kit_submit(k, "s1", &request, &b);
	fake_take_exec(f);
	fake_start(k, f);
	session_destroy(kit_get(k, "s1"), &k->who, "asked for", kit_told, &t);
	kit_turn(k);
	assert_int_equal(b.done, 1);
	assert_int_equal(b.err.code, E_SESSION_STOPPED);
	assert_int_equal(a.done, 0);
	kit_skip(&f->link, MSG_warden_end);
	r = fake_result(f, 137, "so far");
	r.signal = SIGKILL;
	r.error_code = kit_text("E_COMMAND_KILLED");
	fake_send(k, f, MSG_warden_result, &r);
	assert_int_equal(a.done, 1);
	assert_at(&a.answer, "result.stdout", "so far");
	assert_at(&a.answer, "result.signal", "KILL");
	link_done(&f->link);
	kit_turn(k);
	assert_int_equal(t.n, 1);
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_queued session_state:stopping command_killed command_started "
		      "command_finished session_state:stopped session_destroyed");
	kit_seen_done(&a);
}

static void ses_2_a_dead_warden_answers_with_what_is_known(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by a = {0}, b = {0};

	kit_submit(k, "s1", &request, &a);
	kit_submit(k, "s1", &request, &b);
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(fdio_write_all(f->out[0], "two\nlines", 9), 0);
	link_done(&f->link);
	kit_tell(k, MSG_launcher_gone,
		 &(struct launcher_gone){.session_id = f->id, .reason = kit_text("killed")}, NULL,
		 0);
	assert_int_equal(a.done, 1);
	assert_int_equal(a.err.code, E_OK);
	assert_at(&a.record, "state", "killed");
	assert_at(&a.answer, "result.exit_code", "137");
	assert_at(&a.answer, "result.signal", "KILL");
	assert_at(&a.answer, "result.error.code", "E_COMMAND_KILLED");
	assert_at(&a.answer, "result.error.message",
		  "ended without a result; it may have run: the session failed: killed");
	assert_at(&a.answer, "result.stdout", "two\nlines");
	assert_at(&a.answer, "result.stdout_total_bytes", "9");
	assert_at(&a.answer, "result.stdout_total_lines", "2");
	assert_int_equal(b.done, 1);
	assert_int_equal(b.err.code, E_SESSION_STOPPED);
	kit_seen_done(&a);
}

static void ses_2_an_exit_that_only_the_journal_knows(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by a = {0};
	uint64_t end;

	kit_submit(k, "s1", &request, &a);
	fake_take_exec(f);
	fake_event(f, EVENT_command_started, f->command, &end);
	fake_event(f, EVENT_command_finished, f->command, &end);
	link_done(&f->link);
	kit_tell(k, MSG_launcher_gone,
		 &(struct launcher_gone){.session_id = f->id, .reason = kit_text("killed")}, NULL,
		 0);
	assert_at(&a.record, "state", "killed");
	assert_at(&a.answer, "result.exit_code", "7");
	assert_at(&a.answer, "result.duration_ms", "1.5");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started command_finished session_state:failed session_failed");
	kit_seen_done(&a);
}

static void ses_2_a_command_that_was_sent_and_never_seen_is_lost(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0};

	kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);
	fake_take_exec(f);
	link_done(&f->link);
	kit_tell(k, MSG_launcher_gone,
		 &(struct launcher_gone){.session_id = f->id, .reason = kit_text("killed")}, NULL,
		 0);
	assert_at(&a.answer, "command_state", "lost");
	assert_at(&a.answer, "result.exit_code", "null");
	assert_at(&a.answer, "result.error.code", "E_UNAVAILABLE");
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &b);
	assert_int_equal(b.done, 1);
	assert_string_equal(a.answer.data, b.answer.data);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void obs_1_commands_and_output_are_counted(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	cleanup_buf struct buf b = {0};

	kit_submit(k, "s1", &request, &o);
	fake_run(k, f, 0, "12345");
	metrics_format(k->metrics, &b);
	assert_non_null(strstr(b.data, "agentsh_commands_total 1\n"));
	assert_non_null(strstr(b.data, "agentsh_output_throughput_bytes_total 5\n"));
	assert_non_null(strstr(b.data, "agentsh_command_latency_seconds_count 1\n"));
	kit_seen_done(&o);
}

static void assert_execs(const struct kit *k, const char *outcome, unsigned n)
{
	cleanup_free char *line =
		mem_printf("\nagentsh_execs_total{outcome=\"%s\"} %u\n", outcome, n);
	cleanup_buf struct buf b = {0};

	metrics_format(k->metrics, &b);
	if (strstr(b.data, line) == NULL)
		fail_msg("no line '%s'", line);
}

/* POL-4: a warden tells how many there were so far; each is counted once. */
static void pol_4_execs_are_counted(void **state)
{
	struct kit *k = *state;
	struct fake *f[] = {kit_session(k, "s1"), kit_session(k, "s2")};
	const struct exec_request request = kit_request("true");
	const struct exec_counts so_far[] = {{1, 0, 3, 4, 5}, {12, 0, 3, 5, 6}, {1, 0, 2, 3, 4}};

	for (size_t i = 0; i < ARRAY_LEN(so_far); i++) {
		struct fake *of = f[i / 2];
		struct seen_by o = {0};
		struct warden_result r;

		kit_submit(k, of->id, &request, &o);
		fake_take_exec(of);
		r = fake_result(of, 0, "");
		r.execs = so_far[i];
		fake_send(k, of, MSG_warden_result, &r);
		kit_skip(&of->link, MSG_warden_ack);
		kit_seen_done(&o);
	}
	assert_execs(k, "verified", 13);
	assert_execs(k, "refused", 5);
	assert_execs(k, "mismatched", 8);
	assert_execs(k, "failed", 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_2_destroy_gives_every_command_its_answer),
		TEST(ses_2_a_dead_warden_answers_with_what_is_known),
		TEST(ses_2_an_exit_that_only_the_journal_knows),
		TEST(ses_2_a_command_that_was_sent_and_never_seen_is_lost),
		TEST(obs_1_commands_and_output_are_counted),
		TEST(pol_4_execs_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
