// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "session/drain.h"
#include "session/sessions.h"
#include "session/testkit/command_testkit.h"
#include <sys/time.h>

#define MS INT64_C(1000)
#define HOUR (3600 * 1000 * MS)

static void reap(struct kit *k)
{
	sessions_reap(k->ss);
	kit_turn(k);
}

static void assert_ends(struct kit *k, struct fake *f, const char *reason)
{
	struct warden_end m;
	struct link_msg msg;

	assert_string_equal(kit_state(k, "s1"), "stopping");
	kit_recv(&f->link, MSG_warden_end, &m, &msg);
	assert_string_equal(m.reason, reason);
	msg_done(MSG_warden_end, &m);
}

static void ses_5_a_session_ends_at_its_timeout(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");

	kit_get(k, "s1")->config.limits.value[LIMIT_idle_timeout] = 0;
	k->clock.fixed_us += k->config.limits.value[LIMIT_session_timeout] * MS - 1;
	reap(k);
	assert_string_equal(kit_state(k, "s1"), "ready");
	k->clock.fixed_us += 1;
	reap(k);
	assert_ends(k, f, "its timeout has passed");
	reap(k); /* once */
	kit_recv_nothing(&f->link);
}

/* SES-5: the wall clock may be stepped to any time; time-outs do not see it. */
static void ses_5_a_step_of_the_wall_clock_ends_nothing(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	static const int64_t hours[] = {1000, -1000, 0, -1000};

	for (size_t i = 0; i < ARRAY_LEN(hours); i++) {
		k->clock.stepped_us = hours[i] * 3600 * 1000 * MS;
		k->clock.fixed_us += MS;
		reap(k);
		assert_string_equal(kit_state(k, "s1"), "ready");
	}
	k->clock.fixed_us += k->config.limits.value[LIMIT_idle_timeout] * MS;
	reap(k);
	assert_ends(k, f, "it was idle for its idle_timeout");
}

static void ses_5_idle_counts_from_the_last_activity(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	k->clock.fixed_us += 1000 * MS;
	kit_submit(k, "s1", &request, &o);
	fake_run(k, f, 0, "");
	k->clock.fixed_us += k->config.limits.value[LIMIT_idle_timeout] * MS - 1;
	reap(k);
	assert_string_equal(kit_state(k, "s1"), "ready");
	k->clock.fixed_us += 1;
	reap(k);
	assert_ends(k, f, "it was idle for its idle_timeout");
	kit_seen_done(&o);
}

static void ses_5_a_running_command_is_activity(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	request.detach = true;
	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	k->clock.fixed_us += 2 * k->config.limits.value[LIMIT_idle_timeout] * MS;
	reap(k);
	assert_string_equal(kit_state(k, "s1"), "busy");
	fake_finish(k, f, 0, "");
	reap(k);
	assert_string_equal(kit_state(k, "s1"), "ready");
	kit_seen_done(&o);
}

static void ses_5_the_last_command_may_finish(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	kit_get(k, "s1")->config.limits.value[LIMIT_max_commands] = 1;
	kit_submit(k, "s1", &request, &o);
	reap(k);
	assert_string_equal(kit_state(k, "s1"), "busy");
	fake_run(k, f, 0, "");
	reap(k);
	assert_ends(k, f, "it has had its max_commands");
	kit_seen_done(&o);
}

static void ses_5_the_command_of_the_last_file_operation_is_the_last(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0}, late = {0};
	struct event e = {.schema = EVENT_SCHEMA, .type = EVENT_file_stat, .count = 2};
	uint64_t end;

	kit_get(k, "s1")->config.limits.value[LIMIT_max_file_ops] = 4;
	kit_submit(k, "s1", &request, &o);
	e.command_id = f->command;
	assert_int_equal(journal_append(f->journal, &e, &end, NULL), 0);
	fake_run(k, f, 0, "");
	reap(k);
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_int_equal(journal_append(f->journal, &e, &end, NULL), 0);
	session_drain(kit_get(k, "s1"), NULL);
	kit_submit(k, "s1", &request, &late);
	assert_int_equal(late.err.code, E_RESOURCE_LIMIT);
	assert_string_equal(late.err.message,
			    "session 's1' has had its 4 operations on files (limits.max_file_ops)");
	reap(k);
	assert_ends(k, f, "it has had its max_file_ops");
	kit_seen_done(&o);
}

/* The timer, with the configuration's interval. */
static void ses_5_the_reaper_comes_by_itself(void **state)
{
	struct kit *k = *state;
	unsigned turns = 0;

	k->config.cleanup_interval_ms = 10;
	kit_close_sessions(k);
	kit_open_sessions(k);
	kit_found_all(k);
	kit_session(k, "s1");
	k->clock.fixed_us += k->config.limits.value[LIMIT_session_timeout] * MS;
	while (strcmp(kit_state(k, "s1"), "stopping") != 0 && turns++ < 100)
		loop_turn(k->loop);
	assert_string_equal(kit_state(k, "s1"), "stopping");
}

static void exe_3_old_output_is_swept_but_not_a_running_commands(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0};
	const struct timeval then[2] = {{1000, 0}, {1000, 0}};
	struct command *c;
	cleanup_buf struct buf out = {0};
	struct err err = {0};
	uint64_t next = 0;

	kit_submit(k, "s1", &request, &a);
	fake_run(k, f, 0, "old");
	assert_int_equal(futimes(f->out[0], then), 0);
	assert_int_equal(futimes(f->out[1], then), 0);
	kit_submit(k, "s1", &request, &b);
	fake_take_exec(f);
	assert_int_equal(fdio_write_all(f->out[0], "new", 3), 0);
	assert_int_equal(futimes(f->out[0], then), 0);
	assert_int_equal(futimes(f->out[1], then), 0);
	k->clock.fixed_us += HOUR;
	sessions_sweep_output(k->ss);
	assert_int_equal(command_get(k->ss, &k->who, NULL, a.id, &c, NULL), 0);
	assert_int_equal(command_follow(c, 1, 0, 100, &out, &next, &err), -E_NOT_FOUND);
	assert_int_equal(command_follow(c, 2, 0, 100, &out, &next, &err), 0); /* never had any */
	assert_int_equal(command_get(k->ss, &k->who, NULL, f->command, &c, NULL), 0);
	assert_int_equal(command_follow(c, 1, 0, 100, &out, &next, &err), 0);
	assert_string_equal(out.data, "new");
	kit_seen_done(&a);
}

static bool has_output(struct kit *k, const char *id)
{
	cleanup_buf struct buf out = {0};
	struct command *c;

	assert_int_equal(command_get(k->ss, &k->who, NULL, id, &c, NULL), 0);
	return command_output(c, 1, 0, 100, &JW(&out), NULL) == 0;
}

/* EXE-3: by its age output is removed only when the wall clock has agreed with CLOCK_BOOTTIME, to a
 * minute, for an hour; the next API process goes on counting. */
static void exe_3_output_stays_while_the_wall_clock_cannot_be_believed(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	const struct timeval then[2] = {{1000, 0}, {1000, 0}};
	struct seen_by o = {0};

	kit_submit(k, "s1", &request, &o);
	fake_run(k, f, 0, "old");
	assert_int_equal(futimes(f->out[0], then), 0);
	assert_false(sessions_wall_is_steady(k->ss));
	k->clock.fixed_us += HOUR - 1;
	sessions_sweep_output(k->ss);
	assert_true(has_output(k, o.id));
	k->clock.stepped_us = 61 * 1000 * MS;
	sessions_sweep_output(k->ss);
	k->clock.fixed_us += HOUR - 1;
	k->clock.stepped_us += 59 * 1000 * MS;
	sessions_sweep_output(k->ss);
	assert_true(has_output(k, o.id));
	kit_close_sessions(k);
	kit_open_sessions(k);
	assert_false(sessions_wall_is_steady(k->ss));
	k->clock.fixed_us++;
	assert_true(sessions_wall_is_steady(k->ss));
	sessions_sweep_output(k->ss);
	assert_false(has_output(k, o.id));
	kit_seen_done(&o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_5_a_session_ends_at_its_timeout),
		TEST(ses_5_a_step_of_the_wall_clock_ends_nothing),
		TEST(ses_5_idle_counts_from_the_last_activity),
		TEST(ses_5_a_running_command_is_activity),
		TEST(ses_5_the_last_command_may_finish),
		TEST(ses_5_the_command_of_the_last_file_operation_is_the_last),
		TEST(ses_5_the_reaper_comes_by_itself),
		TEST(exe_3_old_output_is_swept_but_not_a_running_commands),
		TEST(exe_3_output_stays_while_the_wall_clock_cannot_be_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
