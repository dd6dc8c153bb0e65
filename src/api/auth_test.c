// SPDX-License-Identifier: Apache-2.0
/* The caller: by key, by the peer of a unix connection, without either. */
#include "api/testkit/api_testkit.h"

/* Answers with the caller: "agent_id role uid key|conn". */
static void who_am_i(struct call *call)
{
	const struct caller *who = &call->who;

	buf_addf(&call->reply, "%s %s %u %s%s", who->agent_id, role_name(who->role), who->uid,
		 who->key, who->conn_fd == call->fd ? " conn" : "");
	call_reply(call, 200);
}

static const struct method row = {.verb = "GET",
				  .path = "/",
				  .rpc = "Who",
				  .listeners = LISTENER_UNIX | LISTENER_TCP,
				  .roles = ~0u,
				  .params = "",
				  .handler = who_am_i};

static int setup(void **state)
{
	struct rig *r;

	rig_setup(state);
	r = *state;
	r->api.methods = &row;
	r->api.nmethods = 1;
	return 0;
}

/* "CODE: message" of an error's body; any other body as it is. */
static char *said(const struct got *g)
{
	cleanup_free char *code = NULL, *message = NULL;

	if (g->status < 400)
		return mem_strdup(g->body.data);
	code = kit_at(&g->body, "error.code");
	message = kit_at(&g->body, "error.message");
	return mem_printf("%s: %s", code, message);
}

static void assert_who(struct rig *r, enum rig_listener on, const char *headers, const char *want)
{
	cleanup_got struct got g = rig_connect(r, on);

	rig_ask(&g, "GET /", headers, NULL);
	rig_finish(r, &g);
	cleanup_free char *got = said(&g);

	assert_string_equal(got, want);
}

static void api_3_a_key_says_who_asks(void **state)
{
	static const char *const same[] = {
		"Authorization: Bearer agent-1\r\n",
		"Authorization: bearer   agent-1\r\n",
		"X-API-Key: agent-1\r\n",
		"X-API-Key: agent-1\r\nAuthorization: Bearer agent-1\r\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		assert_who(*state, ON_TCP, same[i], "agent-1 agent 1000 agent-1");
		assert_who(*state, ON_UNIX, same[i], "agent-1 agent 1000 agent-1");
	}
	assert_who(*state, ON_TCP, "X-API-Key: admin-1\r\n", "admin-1 admin 1000 admin-1");
	assert_who(*state, ON_TCP, "X-API-Key: approver-1\r\n",
		   "approver-1 approver 1000 approver-1");
}

/* A page of another host that a browser was led to us by sends that host's name. */
static void api_3_only_loopback_names_are_hosts_on_tcp(void **state)
{
	static const char *const good[] = {"localhost",	  "LocalHost:80", "127.0.0.1",
					   "127.1.2.3:9", "[::1]",	  "[::1]:8080"};
	static const char *const bad[] = {"evil.example",
					  "evil.example:80",
					  "localhost.evil.example",
					  "127.0.0.1.evil.example",
					  "10.0.0.1",
					  "[::2]",
					  "[::1",
					  "[::1]x",
					  "::1",
					  "[localhost]",
					  "[127.0.0.1]",
					  "localhost:8o",
					  "localhost.",
					  "0.0.0.0",
					  "2130706433"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		cleanup_free char *headers =
			mem_printf("Host: %s\r\nX-API-Key: agent-1\r\n", good[i]);

		assert_who(*state, ON_TCP, headers, "agent-1 agent 1000 agent-1");
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_free char *headers =
			mem_printf("Host: %s\r\nX-API-Key: agent-1\r\n", bad[i]);
		cleanup_free char *want =
			mem_printf("E_FORBIDDEN: '%s' is not a loopback name: use "
				   "localhost or a loopback address",
				   bad[i]);
		cleanup_got struct got g = rig_connect(*state, ON_TCP);

		rig_ask(&g, "GET /", headers, NULL);
		rig_finish(*state, &g);
		if (g.status != 400) { /* a malformed Host is refused earlier */
			cleanup_free char *got = said(&g);

			assert_string_equal(got, want);
		}
		assert_who(*state, ON_UNIX, "Host: evil.example\r\nX-API-Key: agent-1\r\n",
			   "agent-1 agent 1000 agent-1");
	}
}

/* A wrong key is never a reason to look at the peer instead. */
static void api_3_wrong_keys(void **state)
{
	static const struct {
		const char *headers, *message;
	} rows[] = {
		{"X-API-Key: nope\r\n", "E_UNAUTHENTICATED: this API key is not known"},
		{"X-API-Key: agent-\r\n", "E_UNAUTHENTICATED: this API key is not known"},
		{"X-API-Key: agent-11\r\n", "E_UNAUTHENTICATED: this API key is not known"},
		{"X-API-Key:\r\n", "E_UNAUTHENTICATED: this API key is not known"},
		{"Authorization: Bearer \r\n",
		 "E_UNAUTHENTICATED: Authorization must be 'Bearer KEY'"},
		{"Authorization: Basic YTpi\r\n",
		 "E_UNAUTHENTICATED: Authorization must be 'Bearer KEY'"},
		{"Authorization: Beareragent-1\r\n",
		 "E_UNAUTHENTICATED: Authorization must be 'Bearer KEY'"},
		{"Authorization: Bearer agent-1\r\nX-API-Key: agent-2\r\n",
		 "E_UNAUTHENTICATED: Authorization and X-API-Key name different keys"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_who(*state, ON_TCP, rows[i].headers, rows[i].message);
		assert_who(*state, ON_UNIX, rows[i].headers, rows[i].message);
	}
}

static void api_3_tcp_needs_a_key(void **state)
{
	struct rig *r = *state;

	assert_who(r, ON_TCP, NULL,
		   "E_UNAUTHENTICATED: an API key is needed: Authorization: Bearer KEY");
	r->api.config.auth_type = (char *)"none";
	assert_who(r, ON_TCP, NULL, "anonymous agent 4242  conn");
	r->api.privileged = true;
	r->api.config.none_as = 1234;
	assert_who(r, ON_TCP, NULL, "uid-1234 agent 1234  conn");
	assert_who(r, ON_TCP, "X-API-Key: agent-1\r\n", "agent-1 agent 1000 agent-1");
	assert_who(r, ON_TCP, "X-API-Key: nope\r\n",
		   "E_UNAUTHENTICATED: this API key is not known");
	assert_who(r, ON_TCP, "Origin: null\r\n", "E_FORBIDDEN: a web page needs an API key");
	assert_who(r, ON_TCP, "Origin: http://a\r\nX-API-Key: agent-1\r\n",
		   "agent-1 agent 1000 agent-1");
}

/* Root and the server's owner are admins, any other user is an agent; the role approver needs a
 * key. */
static void api_3_a_unix_peer_is_its_uid(void **state)
{
	struct rig *r = *state;
	const uid_t uid = geteuid();
	cleanup_free char *admin = mem_printf("uid-%u admin %u  conn", uid, uid);

	r->api.owner_uid = uid;
	assert_who(r, ON_UNIX, NULL, admin);
	if (uid == 0) {
		r->api.owner_uid = 4242;
		assert_who(r, ON_UNIX, NULL, admin);
		/* the kernel notes who connects */
		assert_int_equal(seteuid(4243), 0);
	} else {
		r->api.owner_uid = uid + 1;
	}
	cleanup_free char *agent = mem_printf("uid-%u agent %u  conn", geteuid(), geteuid());
	cleanup_got struct got g = rig_connect(r, ON_UNIX);

	assert_int_equal(seteuid(uid), 0);
	rig_ask(&g, "GET /", NULL, NULL);
	rig_finish(r, &g);
	assert_string_equal(g.body.data, agent);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(api_3_a_key_says_who_asks),
		TEST(api_3_wrong_keys),
		TEST(api_3_only_loopback_names_are_hosts_on_tcp),
		TEST(api_3_tcp_needs_a_key),
		TEST(api_3_a_unix_peer_is_its_uid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
