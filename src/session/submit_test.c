// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <stdio.h>

/* ---- its way ---- */

static void exe_1_the_row_is_safe_before_the_warden_hears(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("npm");
	struct seen_by o = {0};
	const struct command_observer obs = kit_observer(&o);
	struct warden_exec x;
	struct link_msg m;
	char *args[] = {kit_text("install"), NULL},
	     *env[] = {kit_text("A=1"), kit_text("LD_PRELOAD=x"), NULL};

	request.args = (struct strv){args, 1};
	request.env = (struct strv){env, 2};
	request.working_dir = kit_text("src");
	request.timeout_ms = 1000;
	request.argv0 = kit_text("zero");
	request.stdin_data = (struct bytes){(uint8_t *)kit_text("in"), 2};
	command_submit(kit_get(k, "s1"), &k->who, &(struct command_ask){.request = &request}, &obs,
		       NULL);
	kit_recv_nothing(&f->link);
	kit_turn(k);
	kit_recv(&f->link, MSG_warden_exec, &x, &m);
	assert_row(k, x.command_id, "queued");
	assert_string_equal(kit_state(k, "s1"), "busy");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy");
	assert_memory_equal(x.command_id, "cmd-", 4);
	assert_int_equal(x.argv.n, 2);
	assert_string_equal(x.argv.v[0], "npm");
	assert_string_equal(x.argv.v[1], "install");
	assert_string_equal(x.cwd, "/workspace/src");
	assert_string_equal(x.argv0, "zero");
	assert_string_equal(x.request_id, "req-1");
	assert_int_equal(x.timeout_ms, 1000);
	assert_int_equal(x.env.n, 1);
	assert_string_equal(x.env.v[0], "A=1");
	assert_int_equal(x.stdin_data.len, 2);
	assert_null(x.script);
	assert_int_equal(x.report_output, 1);
	assert_int_equal(m.nfds, 2);
	assert_int_equal(o.done, 0);
	msg_done(MSG_warden_exec, &x);
	link_msg_done(&m);
}

static void exe_4_a_timeout_is_capped_by_the_session(void **state)
{
	static const struct {
		int64_t asked, session, given;
	} rows[] = {
		{0, 300000, 300000}, {300001, 300000, 300000}, {299999, 300000, 299999}, {5, 0, 5}};
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct exec_request request = kit_request("true");
		struct seen_by o = {0};
		struct warden_exec x;
		struct link_msg m;

		request.timeout_ms = rows[i].asked;
		kit_get(k, "s1")->config.limits.value[LIMIT_command_timeout] = rows[i].session;
		kit_submit(k, "s1", &request, &o);
		kit_recv(&f->link, MSG_warden_exec, &x, &m);
		assert_int_equal(x.timeout_ms, rows[i].given);
		snprintf(f->command, sizeof(f->command), "%s", x.command_id);
		msg_done(MSG_warden_exec, &x);
		link_msg_done(&m);
		fake_finish(k, f, 0, "");
		kit_skip(&f->link, MSG_warden_ack);
		assert_int_equal(o.done, 1);
		kit_seen_done(&o);
	}
}

static void exe_1_a_result_is_answered_after_its_events_are_stored(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(o.started, 1);
	assert_int_equal(o.done, 0);
	k->clock.fixed_us += 1000;
	fake_finish(k, f, 7, "hello\n");
	assert_int_equal(o.done, 1);
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started command_finished session_state:ready");
	assert_int_equal(journal_acked(f->journal), journal_head(f->journal));
	kit_skip(&f->link, MSG_warden_ack);
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_row(k, f->command, "finished");
	assert_at(&o.answer, "result.exit_code", "7");
	assert_at(&o.record, "state", "finished");
	assert_int_equal(kit_get(k, "s1")->totals.command_count, 1);
	assert_int_equal(kit_get(k, "s1")->last_activity_us, KIT_START_US + 1000);
	kit_seen_done(&o);
}

static void sta_3_directory_and_environment_are_the_sessions_afterwards(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	char *env[] = {kit_text("FOO=bar"), NULL}, *names[] = {kit_text("FOO"), NULL};
	struct warden_result r;
	struct seen_by o = {0};
	cleanup_buf struct buf record = {0};

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	fake_start(k, f);
	r = fake_result(f, 0, "");
	r.cwd = kit_text("/workspace/sub");
	r.env_changed = (struct strv){names, 1};
	r.env = (struct strv){env, 1};
	fake_send(k, f, MSG_warden_result, &r);
	assert_at(&o.answer, "state.working_dir", "/workspace/sub");
	assert_at(&o.answer, "state.environment_changed", "[\"FOO\"]");
	assert_at(&o.answer, "request.working_dir", "/workspace");
	session_format(kit_get(k, "s1"), &JW(&record));
	assert_at(&record, "working_dir", "/workspace/sub");
	assert_at(&record, "environment", "{\"FOO\":\"bar\"}");
	kit_seen_done(&o);
}

static void exe_1_a_chosen_id_is_used_once(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0}, c = {0};

	kit_session(k, "s2");
	request.command_id = kit_text("mine");
	kit_submit(k, "s1", &request, &a);
	kit_submit(k, "s1", &request, &b);
	assert_int_equal(b.done, 1);
	assert_int_equal(b.err.code, E_CONFLICT);
	assert_string_equal(b.err.subject, "mine");
	fake_run(k, f, 0, "");
	assert_string_equal(a.id, "mine");
	kit_submit(k, "s2", &request, &c);
	assert_int_equal(c.err.code, E_CONFLICT);
	assert_string_equal(kit_state(k, "s2"), "ready");
	assert_events(k, "s2", "session_created session_state:ready");
	kit_seen_done(&a);
}

static void ses_2_one_runs_at_a_time_and_the_others_wait(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0}, c = {0};
	cleanup_buf struct buf r = {0}, stored = {0};
	struct warden_result result;

	kit_submit(k, "s1", &request, &a);
	kit_submit(k, "s1", &request, &b);
	kit_submit(k, "s1", &request, &c);
	fake_take_exec(f);
	kit_recv_nothing(&f->link);
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "queue.running", f->command);
	assert_at(&r, "queue.waiting", "2");
	fake_start(k, f);
	result = fake_result(f, 0, "");
	result.cwd = kit_text("/elsewhere");
	fake_send(k, f, MSG_warden_result, &result);
	assert_int_equal(a.done, 1);
	assert_int_equal(b.done, 0);
	fake_take_exec(f);
	kit_skip(&f->link, MSG_warden_ack);
	assert_string_equal(kit_state(k, "s1"), "busy");
	/* the row has the directory, for a reader after a restart */
	stored.data = kit_row(k, f->command, "SELECT request FROM commands WHERE id=?");
	stored.len = strlen(stored.data);
	assert_at(&stored, "working_dir", "/elsewhere");
	fake_finish(k, f, 0, "");
	assert_int_equal(b.done, 1);
	assert_at(&b.answer, "request.working_dir", "/elsewhere");
	fake_take_exec(f);
	fake_finish(k, f, 0, "");
	assert_int_equal(c.done, 1);
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_queued command_queued command_started command_finished "
		      "command_finished command_finished session_state:ready");
	kit_seen_done(&a);
	kit_seen_done(&b);
	kit_seen_done(&c);
}

static void ses_2_who_does_not_queue_is_told_busy(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0}, c = {0};

	request.queue = false;
	kit_submit(k, "s1", &request, &a);
	fake_take_exec(f);
	assert_int_equal(a.done, 0);
	kit_submit(k, "s1", &request, &b);
	assert_int_equal(b.err.code, E_SESSION_BUSY);
	fake_finish(k, f, 0, "");
	kit_submit(k, "s1", &request, &c);
	assert_int_equal(c.done, 0);
	kit_seen_done(&a);
}

static void ses_5_the_queue_is_bounded(void **state)
{
	struct kit *k = *state;
	struct exec_request request = kit_request("true");
	struct seen_by o[4] = {0};

	k->config.max_queue = 2;
	kit_session(k, "s1");
	for (int i = 0; i < 4; i++)
		kit_submit(k, "s1", &request, &o[i]);
	assert_int_equal(o[2].done, 0);
	assert_int_equal(o[3].err.code, E_RESOURCE_LIMIT);
}

static void ses_5_max_commands_is_the_last_one(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0}, c = {0};

	kit_get(k, "s1")->config.limits.value[LIMIT_max_commands] = 2;
	kit_submit(k, "s1", &request, &a);
	fake_run(k, f, 0, "");
	kit_submit(k, "s1", &request, &b);
	fake_run(k, f, 0, "");
	kit_submit(k, "s1", &request, &c);
	assert_int_equal(b.err.code, E_OK);
	assert_int_equal(c.err.code, E_RESOURCE_LIMIT);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void exe_1_detached_is_answered_once_it_is_sent(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("sleep");
	struct seen_by a = {0}, b = {0};
	struct command *c;

	request.detach = true;
	kit_submit(k, "s1", &request, &a);
	kit_submit(k, "s1", &request, &b);
	assert_int_equal(a.done, 1);
	assert_int_equal(b.done, 1);
	assert_at(&a.record, "state", "queued");
	assert_at(&a.record, "detach", "true");
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(command_get(k->ss, &k->who, NULL, a.id, &c, NULL), 0);
	buf_clear(&a.record);
	command_format(c, &JW(&a.record));
	assert_at(&a.record, "state", "running");
	assert_at(&a.record, "exit_code", "null");
	fake_finish(k, f, 3, "");
	assert_int_equal(command_get(k->ss, &k->who, NULL, a.id, &c, NULL), 0);
	buf_clear(&a.record);
	command_format(c, &JW(&a.record));
	assert_at(&a.record, "state", "finished");
	assert_at(&a.record, "exit_code", "3");
	assert_int_equal(a.done, 1);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void exe_1_a_refusal_of_the_warden_is_the_answer(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0};

	kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);
	fake_take_exec(f);
	fake_send(k, f, MSG_warden_refused,
		  &(struct warden_refused){.command_id = f->command,
					   .code = kit_text("E_POLICY_DENIED"),
					   .subject = kit_text("/bin/rm"),
					   .message = kit_text("no rm")});
	assert_int_equal(a.done, 1);
	assert_int_equal(a.err.code, E_POLICY_DENIED);
	assert_string_equal(a.err.message, "no rm");
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_row(k, f->command, "finished");
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &b);
	assert_int_equal(b.err.code, E_POLICY_DENIED);
	assert_string_equal(b.err.message, "no rm");
	assert_string_equal(b.err.subject, "/bin/rm");
	kit_recv_nothing(&f->link);
}

static void free_arg(const struct err *err, struct command *c, void *arg)
{
	free(arg);
}

/* run: the session is destroyed once its command is over, or is refused before it has a row. The
 * answer may free the caller. */
static void ses_2_a_session_ends_with_the_command_of_run(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	const struct command_ask ask = {.request = &request, .ends_session = true};
	struct caller *who = mem_new(struct caller);
	struct seen_by a = {0}, b = {0};
	const struct command_observer first = kit_observer(&a), second = kit_observer(&b);
	const struct command_observer third = {.done = free_arg, .arg = who};

	command_submit(kit_get(k, "s1"), &k->who, &ask, &first, NULL);
	kit_turn(k);
	fake_take_exec(f);
	fake_start(k, f);
	assert_string_equal(kit_state(k, "s1"), "busy");
	assert_null(session_ending(k->ss, &k->who));
	fake_finish(k, f, 7, "hello\n");
	assert_int_equal(a.done, 1);
	assert_at(&a.answer, "session.id", "s1");
	assert_string_equal(kit_state(k, "s1"), "stopping");
	assert_ptr_equal(session_ending(k->ss, &k->who), kit_get(k, "s1"));
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_end);

	f = kit_session(k, "s2");
	kit_get(k, "s2")->config.limits.value[LIMIT_max_commands] = 1;
	kit_get(k, "s2")->totals.command_count = 1;
	command_submit(kit_get(k, "s2"), &k->who, &ask, &second, NULL);
	assert_int_equal(b.err.code, E_RESOURCE_LIMIT);
	assert_string_equal(kit_state(k, "s2"), "stopping");
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_end);

	*who = k->who;
	f = kit_session(k, "s3");
	kit_get(k, "s3")->config.limits.value[LIMIT_max_commands] = 1;
	kit_get(k, "s3")->totals.command_count = 1;
	command_submit(kit_get(k, "s3"), who, &ask, &third, NULL);
	assert_string_equal(kit_state(k, "s3"), "stopping");
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_end);
	kit_seen_done(&a);
}

static void ses_2_an_ended_session_runs_nothing(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0};

	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &(struct told){0});
	kit_submit(k, "s1", &request, &a);
	assert_int_equal(a.err.code, E_SESSION_STOPPED);
	kit_skip(&f->link, MSG_warden_end);
	link_done(&f->link);
	kit_turn(k);
	kit_submit(k, "s1", &request, &b);
	assert_int_equal(b.err.code, E_SESSION_STOPPED);
	assert_int_equal(b.done, 1);
}

static void exe_1_a_command_over_the_links_limits_is_refused(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	char *big = mem_alloc(2 * REQUEST_ARGS_MAX), *args[] = {big, NULL};
	struct seen_by o = {0};

	memset(big, 'x', 2 * REQUEST_ARGS_MAX - 1);
	request.args = (struct strv){args, 1};
	kit_submit(k, "s1", &request, &o);
	assert_int_equal(o.done, 1);
	assert_int_equal(o.err.code, E_TOO_LARGE);
	assert_string_equal(kit_state(k, "s1"), "ready");
	kit_recv_nothing(&f->link);
	free(big);
}

/* ---- Idempotency-Key ---- */

static void exe_1_the_same_key_waits_for_the_same_answer(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0}, c = {0};
	struct command *first, *second;

	first = kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);
	fake_take_exec(f);
	second = kit_submit_key(k, "s1", "key", KIT_HASH_A, &b);
	assert_ptr_equal(first, second);
	kit_recv_nothing(&f->link);
	fake_finish(k, f, 0, "once\n");
	kit_skip(&f->link, MSG_warden_ack);
	assert_int_equal(a.done, 1);
	assert_int_equal(b.done, 1);
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &c); /* finished: from its row */
	assert_int_equal(c.done, 1);
	assert_string_equal(a.answer.data, b.answer.data);
	assert_string_equal(a.answer.data, c.answer.data);
	assert_at(&c.answer, "result.stdout", "once\n");
	kit_recv_nothing(&f->link);
	assert_int_equal(kit_get(k, "s1")->totals.command_count, 1);
	kit_seen_done(&a);
	kit_seen_done(&b);
	kit_seen_done(&c);
}

static void exe_1_a_key_means_one_request(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0}, c = {0}, d = {0};

	kit_session(k, "s2");
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);
	kit_submit_key(k, "s1", "key", KIT_HASH_B, &b);
	assert_int_equal(b.err.code, E_CONFLICT);
	kit_submit_key(k, "s2", "key", KIT_HASH_A, &c);
	assert_int_equal(c.err.code, E_CONFLICT);
	fake_run(k, f, 0, "");
	kit_submit_key(k, "s1", "key2", KIT_HASH_B, &d);
	assert_int_equal(d.done, 0);
	fake_take_exec(f);
	kit_seen_done(&a);
}

static void exe_1_a_key_is_forgotten_at_its_age(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0}, c = {0};

	kit_get(k, "s1")->config.limits.value[LIMIT_session_timeout] = 0;
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);
	fake_run(k, f, 0, "");
	k->clock.fixed_us += k->config.idempotency_age_ms * 1000 - 1;
	kit_submit_key(k, "s1", "key", KIT_HASH_B, &b);
	assert_int_equal(b.err.code, E_CONFLICT);
	k->clock.fixed_us += 1;
	kit_submit_key(k, "s1", "key", KIT_HASH_B, &c);
	assert_int_equal(c.done, 0);
	fake_run(k, f, 0, "");
	assert_int_equal(c.done, 1);
	assert_string_not_equal(a.id, c.id);
	kit_seen_done(&a);
	kit_seen_done(&c);
}

static void exe_1_a_key_is_known_after_the_session_has_ended(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0};

	kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);
	fake_run(k, f, 0, "kept");
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &(struct told){0});
	kit_turn(k);
	link_done(&f->link);
	kit_turn(k);
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &b);
	assert_int_equal(b.done, 1);
	assert_string_equal(a.answer.data, b.answer.data);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_1_the_row_is_safe_before_the_warden_hears),
		TEST(exe_4_a_timeout_is_capped_by_the_session),
		TEST(exe_1_a_result_is_answered_after_its_events_are_stored),
		TEST(sta_3_directory_and_environment_are_the_sessions_afterwards),
		TEST(exe_1_a_chosen_id_is_used_once),
		TEST(ses_2_one_runs_at_a_time_and_the_others_wait),
		TEST(ses_2_who_does_not_queue_is_told_busy),
		TEST(ses_5_the_queue_is_bounded),
		TEST(ses_5_max_commands_is_the_last_one),
		TEST(exe_1_detached_is_answered_once_it_is_sent),
		TEST(exe_1_a_refusal_of_the_warden_is_the_answer),
		TEST(ses_2_a_session_ends_with_the_command_of_run),
		TEST(ses_2_an_ended_session_runs_nothing),
		TEST(exe_1_a_command_over_the_links_limits_is_refused),
		TEST(exe_1_the_same_key_waits_for_the_same_answer),
		TEST(exe_1_a_key_means_one_request),
		TEST(exe_1_a_key_is_forgotten_at_its_age),
		TEST(exe_1_a_key_is_known_after_the_session_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
