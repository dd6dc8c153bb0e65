// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <signal.h>
#include <stdio.h>

/* ---- killed ---- */

static void exe_5_kill_goes_to_the_tree(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by o = {0};
	struct command *c;
	struct warden_kill m;
	struct link_msg msg;
	struct warden_result r;
	struct err err = {0};

	c = kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(command_kill(c, "USR1", 1500, &err), 0);
	kit_recv(&f->link, MSG_warden_kill, &m, &msg);
	assert_string_equal(m.command_id, f->command);
	assert_int_equal(m.signal, SIGUSR1);
	assert_int_equal(m.grace_ms, 1500);
	assert_int_equal(m.tree, 1);
	assert_int_equal(m.client_gone, 0);
	msg_done(MSG_warden_kill, &m);
	assert_int_equal(command_kill(c, NULL, 0, &err), 0);
	kit_recv(&f->link, MSG_warden_kill, &m, &msg);
	assert_int_equal(m.signal, SIGTERM);
	msg_done(MSG_warden_kill, &m);
	assert_int_equal(command_kill(c, "NONE", 0, &err), -E_BAD_REQUEST);
	assert_string_equal(err.details[0].field, "signal");
	r = fake_result(f, 143, "part");
	r.signal = SIGTERM;
	r.error_code = kit_text("E_COMMAND_KILLED");
	r.error_message = kit_text("killed by TERM");
	fake_send(k, f, MSG_warden_result, &r);
	assert_at(&o.record, "state", "killed");
	assert_at(&o.answer, "result.signal", "TERM");
	assert_at(&o.answer, "result.exit_code", "143");
	assert_at(&o.answer, "result.stdout", "part");
	assert_at(&o.answer, "result.error.code", "E_COMMAND_KILLED");
	assert_int_equal(command_get(k->ss, &k->who, NULL, o.id, &c, NULL), 0);
	assert_int_equal(command_kill(c, "KILL", 0, &err), -E_CONFLICT);
	kit_seen_done(&o);
}

static void exe_5_a_waiting_command_is_killed_without_a_process(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by a = {0}, b = {0};
	struct command *c;
	struct err err = {0};

	kit_submit(k, "s1", &request, &a);
	c = kit_submit(k, "s1", &request, &b);
	fake_take_exec(f);
	assert_int_equal(command_kill(c, "KILL", 0, &err), 0);
	kit_turn(k);
	assert_int_equal(b.done, 1);
	assert_at(&b.answer, "result.exit_code", "137");
	assert_at(&b.answer, "result.signal", "KILL");
	assert_at(&b.answer, "result.error.code", "E_COMMAND_KILLED");
	assert_row(k, b.id, "killed");
	fake_finish(k, f, 0, "");
	assert_int_equal(a.done, 1);
	kit_skip(&f->link, MSG_warden_ack);
	kit_recv_nothing(&f->link);
	assert_string_equal(kit_state(k, "s1"), "ready");
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void exe_4_a_timeout_is_a_kill_with_its_own_code(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by o = {0};
	struct warden_result r;

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	r = fake_result(f, 124, "");
	r.error_code = kit_text("E_COMMAND_TIMEOUT");
	r.error_message = kit_text("it ran out of time");
	fake_send(k, f, MSG_warden_result, &r);
	assert_at(&o.answer, "result.exit_code", "124");
	assert_at(&o.answer, "result.signal", "null");
	assert_at(&o.answer, "result.error.code", "E_COMMAND_TIMEOUT");
	assert_at(&o.record, "state", "killed");
	kit_seen_done(&o);
}

/* ---- client gone ---- */

static void recv_hup(struct fake *f)
{
	struct warden_kill m;
	struct link_msg msg;

	kit_recv(&f->link, MSG_warden_kill, &m, &msg);
	assert_int_equal(m.signal, SIGHUP);
	assert_int_equal(m.grace_ms, 2000);
	assert_int_equal(m.tree, 1);
	assert_int_equal(m.client_gone, 1);
	msg_done(MSG_warden_kill, &m);
}

static void exe_6_a_client_that_leaves_hangs_up(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by o = {0}, p = {0};
	struct command *c = kit_submit(k, "s1", &request, &o);

	fake_take_exec(f);
	fake_start(k, f);
	command_unobserve(c, &o, false);
	kit_skip(&f->link, MSG_warden_window); /* it has no reader now, and no reason to end */
	kit_skip(&f->link, MSG_warden_window);
	kit_recv_nothing(&f->link);
	fake_finish(k, f, 0, "");
	kit_skip(&f->link, MSG_warden_ack);
	c = kit_submit(k, "s1", &request, &p);
	fake_take_exec(f);
	command_unobserve(c, &o, true); /* not one of its observers */
	kit_recv_nothing(&f->link);
	command_unobserve(c, &p, true);
	recv_hup(f);
	fake_finish(k, f, 129, "");
	assert_int_equal(o.done, 0);
	assert_int_equal(p.done, 0);
	assert_row(k, f->command, "finished");
}

static void exe_6_a_waiting_command_is_dropped_with_its_client(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by a = {0}, b = {0};
	struct command *c;
	char id[ID_MAX + 1];

	kit_submit(k, "s1", &request, &a);
	c = kit_submit(k, "s1", &request, &b);
	snprintf(id, sizeof(id), "%s", command_id(c));
	fake_take_exec(f);
	command_unobserve(c, &b, true);
	kit_turn(k);
	assert_row(k, id, "killed");
	assert_int_equal(b.done, 0);
	kit_recv_nothing(&f->link);
	fake_finish(k, f, 0, "");
	kit_skip(&f->link, MSG_warden_ack);
	kit_recv_nothing(&f->link);
	kit_seen_done(&a);
}

static void exe_6_gone_in_the_turn_of_the_request(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by o = {0};
	const struct command_observer obs = kit_observer(&o);
	struct command *c;
	char id[ID_MAX + 1];

	command_submit(kit_get(k, "s1"), &k->who, &(struct command_ask){.request = &request}, &obs,
		       &c);
	snprintf(id, sizeof(id), "%s", command_id(c));
	command_unobserve(c, &o, true);
	kit_turn(k);
	kit_recv_nothing(&f->link);
	assert_row(k, id, "killed");
	assert_string_equal(kit_state(k, "s1"), "ready");
}

static void exe_6_detached_and_still_observed_ones_run_on(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("sleep");
	struct seen_by a = {0}, b = {0}, d = {0};
	struct command *c;

	c = kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &b);
	fake_take_exec(f);
	command_unobserve(c, &a, true);
	kit_recv_nothing(&f->link);
	command_unobserve(c, &b, true);
	recv_hup(f);
	fake_finish(k, f, 0, "");
	kit_skip(&f->link, MSG_warden_ack);
	request.detach = true;
	kit_submit(k, "s1", &request, &d);
	assert_int_equal(command_get(k->ss, &k->who, NULL, d.id, &c, NULL), 0);
	command_add_observer(c, &(struct command_observer){.arg = &a});
	command_unobserve(c, &a, true);
	fake_take_exec(f);
	kit_skip(&f->link, MSG_warden_window); /* nothing reads them any more */
	kit_skip(&f->link, MSG_warden_window);
	kit_recv_nothing(&f->link);
	kit_seen_done(&d);
}

static void assert_read_to(struct fake *f, unsigned stream, uint64_t read)
{
	struct warden_window w;
	struct link_msg m;

	kit_recv(&f->link, MSG_warden_window, &w, &m);
	assert_int_equal(w.stream, stream);
	assert_int_equal(w.read, read);
	msg_done(MSG_warden_window, &w);
}

/* EXE-6: the warden knows the slowest of several readers, in steps that keep the command running;
 * one that leaves holds nothing up. */
static void exe_6_the_slowest_reader_counts(void **state)
{
	const uint64_t step = STREAM_WINDOW / 4;
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0};
	struct command *c = kit_submit_key(k, "s1", "key", KIT_HASH_A, &a);

	fake_take_exec(f);
	command_has_read(c, &a, 1, step - 1);
	kit_recv_nothing(&f->link);
	command_has_read(c, &a, 1, step);
	assert_read_to(f, 1, step);
	kit_submit_key(k, "s1", "key", KIT_HASH_A, &b);
	assert_read_to(f, 1, 0);
	command_has_read(c, &a, 1, 5 * step);
	kit_recv_nothing(&f->link);
	command_has_read(c, &b, 1, 2 * step);
	assert_read_to(f, 1, 2 * step);
	command_unobserve(c, &b, true);
	assert_read_to(f, 1, 5 * step);
	command_unobserve(c, &a, false);
	assert_read_to(f, 1, UINT64_MAX);
	assert_read_to(f, 2, UINT64_MAX);
}

/* Closing the clients' connections on the way out must not end what runs. */
static void ses_8_the_servers_own_end_is_no_client_that_left(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("sleep");
	struct seen_by a = {0}, b = {0};
	struct command *running = kit_submit(k, "s1", &request, &a);
	struct command *waiting = kit_submit(k, "s1", &request, &b);
	char id[ID_MAX + 1];

	fake_take_exec(f);
	snprintf(id, sizeof(id), "%s", command_id(waiting));
	sessions_abandon(k->ss);
	command_unobserve(running, &a, true);
	command_unobserve(waiting, &b, true);
	kit_turn(k);
	kit_recv_nothing(&f->link);
	assert_row(k, f->command, "queued");
	assert_row(k, id, "queued");
	assert_int_equal(a.done, 0);
	assert_int_equal(b.done, 0);
}

/* ---- streams ---- */

static void exe_6_stdin_and_windows_wait_for_their_command(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("cat");
	struct seen_by a = {0}, b = {0};
	const struct command_observer obs = kit_observer(&b);
	struct command *c;
	struct warden_window w;
	struct warden_stdin in;
	struct link_msg m;
	char *big = mem_alloc(40000);

	memset(big, 'x', 40000);
	kit_submit(k, "s1", &request, &a);
	command_submit(kit_get(k, "s1"), &k->who,
		       &(struct command_ask){.request = &request, .stdin_open = true, .flow = true},
		       &obs, &c);
	kit_turn(k);
	command_window(c, 1, 65536);
	command_window(c, 2, 99);
	command_window(c, 3, 1);
	command_stdin(c, "early", 5, false);
	fake_take_exec(f);
	fake_finish(k, f, 0, "");
	fake_take_exec(f);
	kit_recv(&f->link, MSG_warden_window, &w, &m);
	assert_int_equal(w.stream, 1);
	assert_int_equal(w.allowed, 65536);
	msg_done(MSG_warden_window, &w);
	kit_recv(&f->link, MSG_warden_window, &w, &m);
	assert_int_equal(w.stream, 2);
	assert_int_equal(w.allowed, 99);
	msg_done(MSG_warden_window, &w);
	kit_recv(&f->link, MSG_warden_stdin, &in, &m);
	assert_int_equal(in.data.len, 5);
	assert_int_equal(in.eof, 0);
	msg_done(MSG_warden_stdin, &in);
	kit_skip(&f->link, MSG_warden_ack); /* of the one before */
	command_stdin(c, big, 40000, true);
	kit_recv(&f->link, MSG_warden_stdin, &in, &m);
	assert_int_equal(in.data.len, 31 * 1024);
	assert_int_equal(in.eof, 0);
	msg_done(MSG_warden_stdin, &in);
	kit_recv(&f->link, MSG_warden_stdin, &in, &m);
	assert_int_equal(in.data.len, 40000 - 31 * 1024);
	assert_int_equal(in.eof, 1);
	msg_done(MSG_warden_stdin, &in);
	command_window(c, 2, 7);
	kit_skip(&f->link, MSG_warden_window);
	fake_send(k, f, MSG_warden_taken,
		  &(struct warden_taken){.command_id = f->command, .total = 40005});
	assert_int_equal(b.taken, 40005);
	fake_send(k, f, MSG_warden_output,
		  &(struct warden_output){.command_id = f->command, .stdout_bytes = 3});
	assert_int_equal(b.output, 1);
	kit_seen_done(&a);
	free(big);
}

static void exe_6_an_end_of_stdin_alone_is_sent(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("cat");
	struct seen_by o = {0};
	struct command *c = kit_submit(k, "s1", &request, &o);
	struct warden_stdin in;
	struct link_msg m;

	fake_take_exec(f);
	command_stdin(c, NULL, 0, true);
	kit_recv(&f->link, MSG_warden_stdin, &in, &m);
	assert_int_equal(in.data.len, 0);
	assert_int_equal(in.eof, 1);
	msg_done(MSG_warden_stdin, &in);
	kit_recv_nothing(&f->link);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_5_kill_goes_to_the_tree),
		TEST(exe_5_a_waiting_command_is_killed_without_a_process),
		TEST(exe_4_a_timeout_is_a_kill_with_its_own_code),
		TEST(exe_6_a_client_that_leaves_hangs_up),
		TEST(exe_6_a_waiting_command_is_dropped_with_its_client),
		TEST(exe_6_gone_in_the_turn_of_the_request),
		TEST(exe_6_detached_and_still_observed_ones_run_on),
		TEST(exe_6_the_slowest_reader_counts),
		TEST(ses_8_the_servers_own_end_is_no_client_that_left),
		TEST(exe_6_stdin_and_windows_wait_for_their_command),
		TEST(exe_6_an_end_of_stdin_alone_is_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
