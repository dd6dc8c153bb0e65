// SPDX-License-Identifier: Apache-2.0
/* Commands over HTTP: exec that waits, detached exec, keys, output by pages, kill. */
#include "api/testkit/api_testkit.h"
#include <signal.h>

#define S "/api/v1/sessions/s"
#define KEY "X-API-Key: agent-1\r\n"

static struct got ask(struct rig *r, const char *what, const char *headers, const char *body)
{
	struct got g = rig_connect(r, ON_TCP);
	cleanup_free char *all = mem_printf(KEY "%s", headers);

	rig_ask(&g, what, all, body);
	rig_turn(r, &g);
	return g;
}

static void exe_1_exec_answers_when_the_command_is_over(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got g =
		ask(r, "POST " S "/exec", "", "{\"command\":\"ls\",\"args\":[\"-l\"]}");

	assert_int_equal(g.status, 0);
	fake_run(r->k, f, 7, "hello\n");
	rig_finish(r, &g);
	assert_int_equal(g.status, 200);
	assert_at(&g.body, "result.exit_code", "7");
	assert_at(&g.body, "result.stdout", "hello\n");
	assert_at(&g.body, "request.args.0", "-l");
	assert_at(&g.body, "session_id", "s");
}

static void exe_1_bad_requests_start_nothing(void **state)
{
	static const char *const bodies[] = {"",
					     "{}",
					     "[]",
					     "{\"command\":\"a\",\"script\":\"b\"}",
					     "{\"command\":\"a\",\"nope\":1}",
					     "{\"command\":\"a\",\"timeout\":\"soon\"}"};
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
		assert_call(r, "agent-1", "POST " S "/exec", bodies[i], 400, "E_BAD_REQUEST");
	kit_recv_nothing(&f->link);
}

static void exe_1_detached_exec_answers_at_once(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	struct got g = ask(r, "POST " S "/exec", "", "{\"command\":\"ls\",\"detach\":true}");

	rig_finish(r, &g);
	assert_int_equal(g.status, 202);
	cleanup_free char *id = kit_at(&g.body, "command_id");
	cleanup_free char *what = mem_printf("GET /api/v1/commands/%s", id);

	got_done(&g); /* it runs on */
	fake_run(r->k, f, 3, "");
	cleanup_got struct got after = rig_call(r, "agent-1", what, NULL);

	assert_at(&after.body, "state", "finished");
	assert_at(&after.body, "exit_code", "3");
}

static void exe_4_a_client_that_leaves_takes_its_command_along(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	struct got g = ask(r, "POST " S "/exec", "", "{\"command\":\"sleep\"}");
	struct warden_kill kill;
	struct link_msg m;

	fake_take_exec(f);
	fake_start(r->k, f);
	got_done(&g);
	kit_turn(r->k);
	kit_recv(&f->link, MSG_warden_kill, &kill, &m);
	assert_int_equal(kill.signal, SIGHUP);
	assert_int_equal(kill.client_gone, 1);
	msg_done(MSG_warden_kill, &kill);
	link_msg_done(&m);
}

static void api_1_an_idempotency_key_is_printable_and_short(void **state)
{
	struct rig *r = *state;
	char longest[130];
	static const char *const bad[] = {"a b", "\xc3\xa4", "a\tb", ""};

	kit_session(r->k, "s");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_free char *header = mem_printf("Idempotency-Key: %s\r\n", bad[i]);
		cleanup_got struct got g = ask(r, "POST " S "/exec", header, "{\"command\":\"a\"}");

		rig_finish(r, &g);
		assert_int_equal(g.status, 400);
		assert_at(&g.body, "error.subject", "Idempotency-Key");
	}
	memset(longest, 'k', 129);
	longest[129] = '\0';
	for (int i = 0; i < 2; i++) {
		cleanup_free char *header = mem_printf("Idempotency-Key: %s\r\n", longest);
		cleanup_got struct got g =
			ask(r, "POST " S "/exec", header, "{\"command\":\"a\",\"detach\":true}");

		rig_finish(r, &g);
		assert_int_equal(g.status, i == 0 ? 400 : 202);
		longest[128] = '\0';
	}
}

/* The key covers what the body says, and the session. */
static void exe_1_an_idempotency_key_runs_once(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	struct fake *other = kit_session(r->k, "t");
	static const char key[] = "Idempotency-Key: k1\r\n";
	static const char body[] = "{\"command\":\"a\",\"args\":[\"b\",\"c\"]}";
	static const char spaced[] = " {\"args\": [\"b\",\n\"\\u0063\"], \"command\": \"a\"}\n";
	static const char turned[] = "{\"command\":\"a\",\"args\":[\"c\",\"b\"]}";
	cleanup_got struct got a = ask(r, "POST " S "/exec", key, body);
	cleanup_got struct got b = ask(r, "POST " S "/exec", key, spaced);
	cleanup_got struct got c = ask(r, "POST " S "/exec", key, turned);
	cleanup_got struct got d = ask(r, "POST /api/v1/sessions/t/exec", key, body);

	rig_finish(r, &c);
	rig_finish(r, &d);
	assert_int_equal(c.status, 409);
	assert_int_equal(d.status, 409);
	fake_run(r->k, f, 0, "once\n");
	rig_finish(r, &a);
	rig_finish(r, &b);
	assert_string_equal(a.body.data, b.body.data);
	cleanup_got struct got e = ask(r, "POST " S "/exec", key, spaced);

	rig_finish(r, &e);
	assert_at(&e.body, "result.stdout", "once\n");
	kit_recv_nothing(&f->link);
	kit_recv_nothing(&other->link);
}

/* Runs a command that writes this; its id. */
static char *run(struct rig *r, struct fake *f, const char *out)
{
	cleanup_got struct got g = ask(r, "POST " S "/exec", "", "{\"command\":\"a\"}");

	fake_run(r->k, f, 0, out);
	rig_finish(r, &g);
	return kit_at(&g.body, "command_id");
}

static void exe_3_output_by_pages(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_free char *id = run(r, f, "0123456789");
	static const struct {
		const char *query, *data, *next;
	} rows[] = {
		{"", "0123456789", "10"},      {"?stream=stdout", "0123456789", "10"},
		{"?offset=4", "456789", "10"}, {"?offset=4&limit=3", "456", "7"},
		{"?limit=1", "0", "1"},	       {"?limit=1048576", "0123456789", "10"},
		{"?offset=10", "", "10"},      {"?stream=stderr", "", "0"},
	};
	static const char *const bad[] = {"?limit=0",
					  "?limit=1048577",
					  "?stream=stdin",
					  "?stream=",
					  "?offset=-1",
					  "?offset=x",
					  "?offset=9999999999999999999"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *what = mem_printf("GET " S "/output/%s%s", id, rows[i].query);
		cleanup_got struct got g = rig_call(r, "agent-1", what, NULL);

		assert_int_equal(g.status, 200);
		assert_at(&g.body, "data", rows[i].data);
		assert_at(&g.body, "next_offset", rows[i].next);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_free char *what = mem_printf("GET " S "/output/%s%s", id, bad[i]);

		assert_call(r, "agent-1", what, NULL, 400, "E_BAD_REQUEST");
	}
}

static void exe_3_an_output_page_has_a_default_size(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_free char *text = mem_alloc(10002);
	cleanup_free char *id = NULL, *what = NULL;

	memset(text, 'x', 10001);
	id = run(r, f, text);
	what = mem_printf("GET " S "/output/%s", id);
	cleanup_got struct got g = rig_call(r, "agent-1", what, NULL);

	assert_at(&g.body, "next_offset", "10000");
	assert_at(&g.body, "has_more", "true");
}

static void exe_5_kill(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got g = ask(r, "POST " S "/exec", "", "{\"command\":\"sleep\"}");
	static const struct {
		const char *body;
		unsigned signal, grace;
	} rows[] = {
		{NULL, SIGTERM, 2000},
		{"{}", SIGTERM, 2000},
		{"{\"signal\":\"KILL\"}", SIGKILL, 2000},
		{"{\"signal\":\"SIGINT\",\"grace\":\"0s\"}", SIGINT, 0},
		{"{\"grace\":\"1h\"}", SIGTERM, 3600000},
	};

	fake_take_exec(f);
	fake_start(r->k, f);
	cleanup_free char *what = mem_printf("POST " S "/kill/%s", f->command);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct warden_kill kill;
		struct link_msg m;

		assert_call(r, "agent-1", what, rows[i].body, 200, "");
		kit_recv(&f->link, MSG_warden_kill, &kill, &m);
		assert_int_equal(kill.signal, rows[i].signal);
		assert_int_equal(kill.grace_ms, rows[i].grace);
		assert_int_equal(kill.tree, 1);
		assert_int_equal(kill.client_gone, 0);
		msg_done(MSG_warden_kill, &kill);
		link_msg_done(&m);
	}
	assert_call(r, "agent-1", what, "{\"signal\":\"NOPE\"}", 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", what, "{\"grace\":\"3601s\"}", 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", what, "{\"grace\":1}", 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", what, "[]", 400, "E_BAD_REQUEST");
	fake_finish(r->k, f, 0, "");
	rig_finish(r, &g);
	assert_call(r, "agent-1", what, NULL, 409, "E_CONFLICT");
}

static void exe_1_lists_of_commands(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_free char *a = run(r, f, "");
	cleanup_free char *b = run(r, f, "");
	cleanup_got struct got first = rig_call(r, "agent-1", "GET " S "/commands?limit=1", NULL);
	cleanup_free char *next = kit_at(&first.body, "next");
	cleanup_free char *what = mem_printf("GET " S "/commands?limit=1&cursor=%s", next);
	cleanup_got struct got second = rig_call(r, "agent-1", what, NULL);

	assert_at(&first.body, "commands.0.command_id", a);
	assert_at(&second.body, "commands.0.command_id", b);
	assert_at(&second.body, "next", "");
	assert_call(r, "agent-1", "GET " S "/commands?limit=1000", NULL, 200, "");
	assert_call(r, "agent-1", "GET " S "/commands?limit=1001", NULL, 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", "GET " S "/commands?limit=0", NULL, 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", "GET " S "/commands?cursor=x", NULL, 400, "E_BAD_REQUEST");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_1_exec_answers_when_the_command_is_over),
		TEST(exe_1_bad_requests_start_nothing),
		TEST(exe_1_detached_exec_answers_at_once),
		TEST(exe_4_a_client_that_leaves_takes_its_command_along),
		TEST(api_1_an_idempotency_key_is_printable_and_short),
		TEST(exe_1_an_idempotency_key_runs_once),
		TEST(exe_3_output_by_pages),
		TEST(exe_3_an_output_page_has_a_default_size),
		TEST(exe_5_kill),
		TEST(exe_1_lists_of_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
