// SPDX-License-Identifier: Apache-2.0
/* Sessions over HTTP: answers that wait for the launcher or the warden, and clients that do not. */
#include "api/testkit/api_testkit.h"
#include "base/log.h"
#include <sys/mman.h>

#define S "/api/v1/sessions"
#define KEY "X-API-Key: agent-1\r\n"

/* Asks, and lets the loop work without waiting for the answer. */
static struct got ask(struct rig *r, const char *what, const char *body)
{
	struct got g = rig_connect(r, ON_TCP);

	rig_ask(&g, what, KEY, body);
	rig_turn(r, &g);
	return g;
}

static void ses_1_create_answers_when_the_session_stands(void **state)
{
	struct rig *r = *state;
	cleanup_got struct got g =
		ask(r, "POST " S, "{\"id\":\"new\",\"workspace\":\"/srv/project\"}");
	struct fake *f;

	assert_int_equal(g.status, 0);
	kit_skip(&r->k->launcher, MSG_launcher_create);
	f = fake_new(r->k, "new");
	fake_created(r->k, f);
	fake_greet(r->k, f);
	rig_finish(r, &g);
	assert_int_equal(g.status, 201);
	assert_at(&g.body, "id", "new");
	assert_at(&g.body, "state", "ready");
	assert_at(&g.body, "agent_id", "agent-1");
	assert_at(&g.body, "endpoints.exec", S "/new/exec");
}

static void ses_1_create_says_why_not(void **state)
{
	struct rig *r = *state;

	assert_call(r, "agent-1", "POST " S, "{}", 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", "POST " S, "{\"workspace\":\"/x\",\"nope\":1}", 400,
		    "E_BAD_REQUEST");
	kit_session(r->k, "taken");
	assert_call(r, "agent-1", "POST " S, "{\"id\":\"taken\",\"workspace\":\"/x\"}", 409,
		    "E_CONFLICT");
	cleanup_got struct got g = ask(r, "POST " S, "{\"id\":\"no\",\"workspace\":\"/x\"}");
	struct launcher_refused no = {.session_id = (char *)"no",
				      .code = (char *)"E_FORBIDDEN",
				      .subject = (char *)"/x",
				      .message = (char *)"not yours"};

	kit_skip(&r->k->launcher, MSG_launcher_create);
	kit_tell(r->k, MSG_launcher_refused, &no, NULL, 0);
	rig_finish(r, &g);
	assert_int_equal(g.status, 403);
	assert_at(&g.body, "error.message", "not yours");
}

/* The session is made all the same, for the next client. */
static void ses_1_a_client_that_leaves_does_not_stop_a_create(void **state)
{
	struct rig *r = *state;
	struct got g = ask(r, "POST " S, "{\"id\":\"new\",\"workspace\":\"/srv/project\"}");
	struct fake *f;

	kit_skip(&r->k->launcher, MSG_launcher_create);
	got_done(&g);
	kit_turn(r->k);
	f = fake_new(r->k, "new");
	fake_created(r->k, f);
	fake_greet(r->k, f);
	assert_call(r, "agent-1", "GET " S "/new", NULL, 200, "");
}

/* What waits at the server's end is freed, with its client or without (the leak checker sees to
 * it). */
static void ses_1_the_end_of_the_server_frees_what_waits(void **state)
{
	struct rig *r = *state;
	struct got gone, stays;

	kit_session(r->k, "p");
	kit_session(r->k, "d");
	gone = ask(r, "POST " S, "{\"id\":\"new\",\"workspace\":\"/srv/project\"}");
	got_done(&gone);
	gone = ask(r, "PATCH " S "/p", "{\"idle_timeout\":\"1m\"}");
	got_done(&gone);
	gone = ask(r, "DELETE " S "/d", NULL);
	got_done(&gone);
	stays = ask(r, "DELETE " S "/d", NULL);
	assert_int_equal(stays.status, 0);
	got_done(&stays);
}

/* OBS-1: a request whose client has left is in the log as well. */
static void obs_1_abandoned_requests_are_logged(void **state)
{
	struct rig *r = *state;
	const int log = memfd_create("log", MFD_CLOEXEC);
	char text[4096] = "";
	struct got g;

	log_init("test", LOG_INFO, LOG_TEXT, log);
	g = ask(r, "POST " S, "{\"id\":\"new\",\"workspace\":\"/srv/project\"}");
	assert_int_equal(g.status, 0);
	got_done(&g);
	kit_turn(r->k);
	log_init("test", LOG_ERROR, LOG_TEXT, STDERR_FILENO);
	assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	close(log);
	assert_non_null(strstr(text, "rpc=CreateSession"));
	assert_non_null(strstr(text, "status=abandoned"));
	assert_non_null(strstr(text, "agent_id=agent-1"));
	assert_int_equal(rig_metric(r, "agentsh_http_requests_total"), 0); /* no answer */
}

static void ses_1_lists_are_paged(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "a");
	kit_session(r->k, "b");
	kit_session(r->k, "c");
	cleanup_got struct got first = rig_call(r, "agent-1", "GET " S "?limit=2", NULL);

	assert_at(&first.body, "sessions.0.id", "a");
	assert_at(&first.body, "sessions.1.id", "b");
	cleanup_free char *next = kit_at(&first.body, "next");
	cleanup_free char *what = mem_printf("GET " S "?limit=2&cursor=%s", next);
	cleanup_got struct got second = rig_call(r, "agent-1", what, NULL);

	assert_at(&second.body, "sessions.0.id", "c");
	assert_at(&second.body, "next", "");
	cleanup_got struct got all = rig_call(r, "admin-1", "GET " S "?limit=3", NULL);
	cleanup_got struct got none = rig_call(r, "agent-2", "GET " S, NULL);

	assert_at(&all.body, "sessions.2.id", "c");
	assert_at(&all.body, "next", "");
	assert_string_equal(none.body.data, "{\"sessions\":[],\"next\":\"\"}");
	assert_call(r, "agent-1", "GET " S "?cursor=x", NULL, 400, "E_BAD_REQUEST");
}

static void ses_1_patch(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got g = ask(r, "PATCH " S "/s", "{\"idle_timeout\":\"1m\"}");

	const struct strv env = {0};

	assert_int_equal(g.status, 0);
	kit_skip(&f->link, MSG_warden_patch);
	fake_state(r->k, f, "/workspace", &env);
	rig_finish(r, &g);
	assert_int_equal(g.status, 200);
	assert_at(&g.body, "config.idle_timeout", "1m");
	assert_call(r, "agent-1", "PATCH " S "/s", "{\"workspace\":\"/x\"}", 400, "E_BAD_REQUEST");
	assert_call(r, "agent-1", "PATCH " S "/s", "", 400, "E_BAD_REQUEST");
}

static void ses_1_destroy_answers_with_the_last_record(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	cleanup_got struct got g = ask(r, "DELETE " S "/s", NULL);
	const struct launcher_gone gone = {.session_id = (char *)"s", .reason = (char *)"ended"};

	assert_int_equal(g.status, 0);
	kit_skip(&f->link, MSG_warden_end);
	kit_tell(r->k, MSG_launcher_gone, &gone, NULL, 0);
	rig_finish(r, &g);
	assert_int_equal(g.status, 200);
	assert_at(&g.body, "state", "stopped");
	assert_call(r, "agent-1", "DELETE " S "/s", NULL, 200, "");
	assert_call(r, "agent-1", "POST " S "/s/exec", "{\"command\":\"true\"}", 410,
		    "E_SESSION_STOPPED");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_1_create_answers_when_the_session_stands),
		TEST(ses_1_create_says_why_not),
		TEST(ses_1_a_client_that_leaves_does_not_stop_a_create),
		TEST(ses_1_the_end_of_the_server_frees_what_waits),
		TEST(obs_1_abandoned_requests_are_logged),
		TEST(ses_1_lists_are_paged),
		TEST(ses_1_patch),
		TEST(ses_1_destroy_answers_with_the_last_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
