// SPDX-License-Identifier: Apache-2.0
#include "api/testkit/api_testkit.h"

#define P "/api/v1/policies"

static char *text(const char *s)
{
	return (char *)s;
}

/* Asks, and lets the loop work without waiting for the answer. */
static struct got ask(struct rig *r, const char *who, const char *what)
{
	struct got g = rig_connect(r, ON_TCP);
	cleanup_free char *key = mem_printf("X-API-Key: %s\r\n", who);

	rig_ask(&g, what, key, NULL);
	rig_turn(r, &g);
	return g;
}

/* What the launcher was asked. */
static struct launcher_ask asked(struct rig *r)
{
	struct launcher_ask m;
	struct link_msg msg;

	kit_recv(&r->k->launcher, MSG_launcher_ask, &m, &msg);
	link_msg_done(&msg);
	return m;
}

#define LISTED                                                                                     \
	"\"policies\":[{\"name\":\"ci\",\"version\":null,\"description\":null,\"default\":false}," \
	"{\"name\":\"observe\",\"version\":\"sha256:1\",\"description\":\"All is allowed.\","      \
	"\"default\":true}]"

static struct launcher_policies answer(uint32_t ticket)
{
	static char *names[] = {(char *)"ci", (char *)"observe", NULL};
	static char *versions[] = {(char *)"", (char *)"sha256:1", NULL};
	static char *texts[] = {(char *)"", (char *)"All is allowed.", NULL};

	return (struct launcher_policies){.ticket = ticket,
					  .name = {names, 2},
					  .version = {versions, 2},
					  .description = {texts, 2}};
}

static void pol_7_policies_are_listed(void **state)
{
	struct rig *r = *state;
	cleanup_got struct got g = ask(r, "agent-1", "GET " P);
	struct launcher_ask q = asked(r);
	struct launcher_policies m = answer(q.ticket);

	assert_int_equal(q.reload, 0);
	assert_int_equal(g.status, 0);
	kit_tell(r->k, MSG_launcher_policies, &m, NULL, 0);
	rig_finish(r, &g);
	assert_int_equal(g.status, 200);
	assert_string_equal(g.body.data, "{" LISTED "}");
}

static void pol_5_a_reload_tells_what_changed_and_what_is_broken(void **state)
{
	struct rig *r = *state;
	cleanup_got struct got g = ask(r, "admin-1", "POST " P "/reload");
	struct launcher_ask q = asked(r);
	struct launcher_policies m = answer(q.ticket);
	char *why[] = {text("ci.yaml:1:1: error: no"), NULL};

	assert_int_equal(q.reload, 1);
	m.loaded = (struct strv){m.name.v + 1, 1};
	m.failed = (struct strv){m.name.v, 1};
	m.why = (struct strv){why, 1};
	kit_tell(r->k, MSG_launcher_policies, &m, NULL, 0);
	rig_finish(r, &g);
	assert_int_equal(g.status, 200);
	assert_string_equal(g.body.data,
			    "{\"loaded\":[\"observe\"],\"failed\":[{\"name\":\"ci\",\"problem\":"
			    "\"ci.yaml:1:1: error: no\"}]," LISTED "}");
}

static void api_3_who_may_ask(void **state)
{
	struct rig *r = *state;

	assert_call(r, "", "GET " P, NULL, 401, "E_UNAUTHENTICATED");
	assert_call(r, "approver-1", "GET " P, NULL, 403, "E_FORBIDDEN");
	assert_call(r, "", "POST " P "/reload", NULL, 401, "E_UNAUTHENTICATED");
	assert_call(r, "agent-1", "POST " P "/reload", NULL, 403, "E_FORBIDDEN");
	kit_recv_nothing(&r->k->launcher);
}

/* A client that leaves before the launcher answers. */
static void api_1_nobody_waits_for_the_answer(void **state)
{
	struct rig *r = *state;
	struct got g = ask(r, "agent-1", "GET " P);
	struct launcher_ask q = asked(r);
	struct launcher_policies m = answer(q.ticket);

	got_done(&g);
	kit_turn(r->k);
	kit_tell(r->k, MSG_launcher_policies, &m, NULL, 0);
	assert_call(r, "", "GET /health", NULL, 200, "");
	g = ask(r, "agent-1", "GET " P); /* and the server goes before it does */
	asked(r);
	got_done(&g);
}

static void pol_7_a_session_has_its_policy(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "mine");
	cleanup_got struct got g = rig_call(r, "agent-1", "GET /api/v1/sessions/mine/policy", NULL);

	assert_int_equal(g.status, 200);
	assert_at(&g.body, "session_id", "mine");
	assert_at(&g.body, "policy.name", "observe");
	assert_at(&g.body, "policy.version", r->k->version);
	assert_at(&g.body, "config.timeout", "4h");
	assert_call(r, "agent-2", "GET /api/v1/sessions/mine/policy", NULL, 404,
		    "E_SESSION_NOT_FOUND");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pol_7_policies_are_listed),
		TEST(pol_5_a_reload_tells_what_changed_and_what_is_broken),
		TEST(api_3_who_may_ask),
		TEST(api_1_nobody_waits_for_the_answer),
		TEST(pol_7_a_session_has_its_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
