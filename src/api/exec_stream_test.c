// SPDX-License-Identifier: Apache-2.0
/* exec/stream: output and events while the command runs, the answer at the end. */
#include "api/testkit/api_testkit.h"

#define S "/api/v1/sessions/s"
#define KEY "X-API-Key: agent-1\r\n"

static struct got ask(struct rig *r, const char *headers, const char *body)
{
	struct got g = rig_connect(r, ON_TCP);
	cleanup_free char *all = mem_printf(KEY "%s", headers);

	rig_ask(&g, "POST " S "/exec/stream", all, body);
	rig_turn(r, &g);
	return g;
}

static void wrote(struct rig *r, struct fake *f, int stream, const char *text)
{
	struct warden_output m = {.command_id = f->command};

	assert_int_equal(fdio_write_all(f->out[stream - 1], text, strlen(text)), 0);
	fake_send(r->k, f, MSG_warden_output, &m);
}

/* How often a text stands in the body. */
static unsigned count(const struct got *g, const char *text)
{
	unsigned n = 0;

	for (const char *p = g->body.data; (p = strstr(p, text)) != NULL; p += strlen(text))
		n++;
	return n;
}

static void exe_6_output_and_events_come_while_it_runs(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got g = ask(r, "", "{\"command\":\"a\"}");
	char value[256];

	assert_int_equal(g.status, 0); /* a refusal would still have its own status */
	fake_take_exec(f);
	fake_start(r->k, f);
	rig_expect(r, &g, "event: event\ndata: {\"seq\":");
	assert_int_equal(g.status, 200);
	assert_string_equal(got_header(&g, "Content-Type", value), "text/event-stream");
	assert_string_equal(got_header(&g, "Cache-Control", value), "no-store");
	assert_non_null(got_header(&g, "X-Request-Id", value));
	rig_expect(r, &g, "\"type\":\"command_queued\"");
	fake_send(r->k, f, MSG_warden_bell, &(struct msg_empty){0});
	rig_expect(r, &g, "\"type\":\"command_started\"");
	wrote(r, f, 1, "one\n");
	rig_expect(r, &g,
		   "event: stdout\ndata: "
		   "{\"offset\":0,\"data\":\"one\\n\",\"encoding\":\"text\"}\n\n");
	wrote(r, f, 2, "\xff");
	rig_expect(r, &g,
		   "event: stderr\ndata: "
		   "{\"offset\":0,\"data\":\"/w==\",\"encoding\":\"base64\"}\n\n");
	wrote(r, f, 1, "two\n");
	rig_expect(r, &g, "event: stdout\ndata: {\"offset\":4,\"data\":\"two\\n\",");
	assert_false(g.whole);
	assert_int_equal(count(&g, "event: result"), 0);
	fake_finish(r->k, f, 7, "");
	rig_finish(r, &g);
	assert_int_equal(count(&g, "event: result\ndata: {\"command_id\":\""), 1);
	assert_int_equal(count(&g, "\"exit_code\":7,\"signal\":null"), 1);
	assert_int_equal(count(&g, "\"type\":\"command_finished\""), 1);
	assert_int_equal(count(&g, "\"type\":\"command_started\""), 1);
	assert_true(strstr(g.body.data, "\"type\":\"command_finished\"") <
		    strstr(g.body.data, "event: result"));
	assert_int_equal(rig_metric(r, "agentsh_http_requests_total"), 1);
}

static void exe_4_stream_output_asks_for_the_same(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got g = rig_connect(r, ON_TCP);

	rig_ask(&g, "POST " S "/exec", KEY, "{\"command\":\"a\",\"stream_output\":true}");
	rig_turn(r, &g);
	fake_run(r->k, f, 0, "text");
	rig_finish(r, &g);
	assert_int_equal(count(&g, "event: stdout\n"), 1);
	assert_int_equal(count(&g, "event: result\n"), 1);
}

static void exe_6_only_events_of_this_command(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	struct fake *other = kit_session(r->k, "t");
	cleanup_got struct got g = ask(r, "", "{\"command\":\"a\",\"command_id\":\"mine\"}");
	const struct exec_request request = kit_request("b");
	struct seen_by o = {0};

	fake_take_exec(f);
	assert_string_equal(f->command, "mine");
	fake_start(r->k, f);
	kit_submit(r->k, "t", &request, &o);
	fake_run(r->k, other, 0, "");
	fake_finish(r->k, f, 0, "");
	rig_finish(r, &g);
	assert_int_equal(count(&g, "event: event\n"), 3);
	assert_int_equal(count(&g, o.id), 0);
	kit_seen_done(&o);
}

static void exe_6_what_is_refused_has_its_own_status(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got busy = ask(r, "", "{\"command\":\"a\"}");

	assert_call(r, "agent-1", "POST " S "/exec/stream", "{}", 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", "POST " S "/exec/stream", "{\"command\":\"a\",\"detach\":true}",
		    400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", "POST " S "/exec/stream", "{\"command\":\"a\",\"queue\":false}",
		    409, "E_SESSION_BUSY");
	fake_run(r->k, f, 0, "");
	rig_finish(r, &busy);
}

static void exe_6_a_client_that_leaves_takes_its_command_along(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	struct got g = ask(r, "", "{\"command\":\"a\"}");

	fake_take_exec(f);
	fake_start(r->k, f);
	got_done(&g);
	kit_turn(r->k);
	kit_skip(&f->link, MSG_warden_kill);
	fake_finish(r->k, f, 129, "");
}

/* Far more than the socket takes: the reader sets the pace, and nothing is missing. */
static void exe_6_a_slow_reader_gets_everything(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got g = ask(r, "", "{\"command\":\"a\",\"max_output_bytes\":10}");
	cleanup_free char *text = mem_alloc(2000001);
	size_t pending;

	memset(text, 'x', 2000000);
	fake_take_exec(f);
	fake_start(r->k, f);
	wrote(r, f, 1, text);
	fake_send(r->k, f, MSG_warden_output, &(struct warden_output){.command_id = f->command});
	struct warden_result end = fake_result(f, 0, "");

	end.stdout_bytes = end.stdout_kept = 2000000;
	fake_send(r->k, f, MSG_warden_result, &end);
	rig_read(&g);
	pending = g.body.len;
	assert_true(pending > 0 && pending < 2000000);
	for (int i = 0; i < 1000 && !g.whole; i++)
		rig_turn(r, &g);
	assert_true(g.whole);
	assert_int_equal(count(&g, "event: result\n"), 1);
	cleanup_buf struct buf all = {0};

	for (const char *p = g.body.data; (p = strstr(p, "event: stdout\n")) != NULL; p++) {
		cleanup_free char *head =
			mem_printf("event: stdout\ndata: {\"offset\":%zu,", all.len);

		assert_memory_equal(p, head, strlen(head));
		p = strstr(p, "\"data\":\"") + 8;
		buf_add(&all, p, strcspn(p, "\""));
	}
	assert_int_equal(all.len, 2000000);
	assert_memory_equal(all.data, text, all.len);
}

/* A key that is known: the stream of the command that has it. */
static void exe_6_a_known_key_streams_the_same_command(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	static const char key[] = "Idempotency-Key: k\r\n";
	cleanup_got struct got a = ask(r, key, "{\"command\":\"a\"}");

	fake_run(r->k, f, 0, "once");
	rig_finish(r, &a);
	cleanup_got struct got b = ask(r, key, "{\"command\":\"a\"}");

	rig_finish(r, &b);
	assert_int_equal(count(&b, "\"data\":\"once\""), 1);
	assert_int_equal(count(&b, "event: result\n"), 1);
	kit_recv_nothing(&f->link);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_6_output_and_events_come_while_it_runs),
		TEST(exe_4_stream_output_asks_for_the_same),
		TEST(exe_6_only_events_of_this_command),
		TEST(exe_6_what_is_refused_has_its_own_status),
		TEST(exe_6_a_client_that_leaves_takes_its_command_along),
		TEST(exe_6_a_slow_reader_gets_everything),
		TEST(exe_6_a_known_key_streams_the_same_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
