// SPDX-License-Identifier: Apache-2.0
/* From a request to its handler: paths, methods, roles, ownership, queries, bodies, ids. */
#include "api/testkit/api_testkit.h"

#define S "/api/v1/sessions"
#define LONGEST "a123456789b123456789c123456789d123456789e123456789f123456789g123"

static void api_1_paths_that_there_are_not(void **state)
{
	static const char *const paths[] = {
		"/",
		"/nope",
		"/healthz",
		"/healt",
		"/health/",
		"/api/v1",
		"/api/v1/",
		"/api/v2/sessions",
		S "/",
		S "/x/",
		S "/x/y",
		S "/x/exec/",
		S "/x/exec/streams",
		S "/x/output/",
		S "/x/output",
		S "//exec",
		"/api/v1/commands",
		"/api/v1/commands/",
		"/api/v1/commands/a/b",
		"/metrics/",
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		cleanup_free char *get = mem_printf("GET %s", paths[i]);

		assert_call(*state, "admin-1", get, NULL, 404, "E_NOT_FOUND");
	}
}

static void api_1_a_path_names_what_it_answers(void **state)
{
	static const struct {
		const char *what, *allow;
	} rows[] = {
		{"PUT " S, "POST, GET"},	  {"POST " S "/x", "GET, PATCH, DELETE"},
		{"GET " S "/x/exec", "POST"},	  {"DELETE " S "/x/exec/stream", "POST"},
		{"POST " S "/x/commands", "GET"}, {"POST /health", "GET"},
		{"POST /metrics", "GET"},	  {"HEAD " S "/x/exec", "POST"},
	};
	char value[256];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_got struct got g = rig_call(*state, "", rows[i].what, NULL);

		assert_int_equal(g.status, 405);
		assert_string_equal(got_header(&g, "Allow", value), rows[i].allow);
		if (strncmp(rows[i].what, "HEAD", 4) == 0)
			continue;
		assert_at(&g.body, "error.code", "E_METHOD_NOT_ALLOWED");
		cleanup_free char *message = mem_printf("this path answers %s", rows[i].allow);

		assert_at(&g.body, "error.message", message);
	}
}

static void api_1_head_answers_as_get_without_a_body(void **state)
{
	cleanup_got struct got g = rig_call(*state, "", "HEAD /health", NULL);
	cleanup_got struct got m = rig_call(*state, "agent-1", "HEAD /metrics", NULL);
	char value[256];

	assert_int_equal(g.status, 200);
	assert_true(atoi(got_header(&g, "Content-Length", value)) > 10);
	assert_int_equal(g.body.len, 0);
	assert_int_equal(m.status, 200);
	assert_call(*state, "", "GET /health", NULL, 200, "");
}

/* The error shows the beginning of an id that is too long. */
static void assert_long_name(struct rig *r)
{
	cleanup_got struct got g = rig_connect(r, ON_TCP);
	cleanup_free char *want = mem_printf("no session '%.*s…'", ID_MAX - 3, LONGEST);

	rig_ask(&g, "GET " S "/" LONGEST "x", "X-API-Key: agent-1\r\n", NULL);
	rig_finish(r, &g);
	assert_at(&g.body, "error.message", want);
}

static void api_1_ids_in_paths(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, LONGEST);
	assert_int_equal(strlen(LONGEST), ID_MAX);
	assert_call(r, "agent-1", "GET " S "/" LONGEST, NULL, 200, "");
	assert_call(r, "agent-1", "GET " S "/" LONGEST "/commands", NULL, 200, "");
	assert_call(r, "agent-1", "GET " S "/" LONGEST "x", NULL, 404, "E_SESSION_NOT_FOUND");
	assert_long_name(r);
	assert_call(r, "agent-1", "GET " S "/" LONGEST "/commands/" LONGEST "x", NULL, 404,
		    "E_NOT_FOUND");
	assert_call(r, "agent-1", "GET /api/v1/commands/nope", NULL, 404, "E_NOT_FOUND");
	assert_call(r, "agent-1", "GET " S "/no%20such", NULL, 404, "E_SESSION_NOT_FOUND");
}

static void api_1_metrics_stand_where_the_configuration_says(void **state)
{
	struct rig *r = *state;

	assert_call(r, "agent-1", "GET /metrics", NULL, 200, "");
	r->api.config.metrics_path = (char *)"/numbers";
	assert_call(r, "", "GET /metrics", NULL, 404, "E_NOT_FOUND");
	assert_call(r, "agent-1", "GET /numbers", NULL, 200, "");
	r->api.config.metrics_enabled = false;
	assert_call(r, "", "GET /numbers", NULL, 404, "E_NOT_FOUND");
}

/* The numbers of all agents are not for everyone who can connect to the port. */
static void api_3_metrics_over_tcp_need_a_key(void **state)
{
	struct rig *r = *state;
	cleanup_got struct got g = rig_connect(r, ON_UNIX);

	assert_call(r, "", "GET /metrics", NULL, 401, "E_UNAUTHENTICATED");
	assert_call(r, "nope", "GET /metrics", NULL, 401, "E_UNAUTHENTICATED");
	r->api.config.auth_type = (char *)"none";
	assert_call(r, "", "GET " S, NULL, 200, "");
	assert_call(r, "", "GET /metrics", NULL, 401, "E_UNAUTHENTICATED");
	assert_call(r, "approver-1", "GET /metrics", NULL, 200, "");
	rig_ask(&g, "GET /metrics", NULL, NULL);
	rig_finish(r, &g);
	assert_int_equal(g.status, 200);
}

static void api_3_every_path_needs_a_loopback_host(void **state)
{
	struct rig *r = *state;
	cleanup_got struct got g = rig_connect(r, ON_TCP);

	rig_ask(&g, "GET /health", "Host: evil.example\r\n", NULL);
	rig_finish(r, &g);
	assert_int_equal(g.status, 403);
	assert_at(&g.body, "error.code", "E_FORBIDDEN");
	assert_at(&g.body, "error.subject", "Host");
}

/* A call of a row by its verb and path. */
static struct got call_row(struct rig *r, const char *who, const struct method *m, const char *what)
{
	struct got g = rig_connect(r, ON_TCP);
	cleanup_free char *headers = mem_printf(
		"%s%s%s%s", *who != '\0' ? "X-API-Key: " : "", who, *who != '\0' ? "\r\n" : "",
		m->kind == BIDIRECTIONAL ? "Connection: upgrade\r\nUpgrade: agentsh-stdio/1\r\n"
					 : "");

	rig_ask(&g, what, headers, "{}");
	rig_finish(r, &g);
	return g;
}

/* Every row refuses a caller without a credential, and a caller without one of its roles. */
static void api_3_roles_of_every_row(void **state)
{
	for (size_t i = 0; i < api_nmethods; i++) {
		const struct method *m = &api_methods[i];
		cleanup_free char *what = mem_printf("%s %s", m->verb, m->path);
		char value[256];

		if (m->handler == api_policy_list || m->handler == api_policy_reload)
			continue; /* the launcher answers: policy_api_test.c */
		for (char *p = what; *p != '\0'; p++)
			*p = *p == '{' || *p == '}' ? '.' : *p; /* no such thing */
		cleanup_got struct got none = call_row(*state, "", m, what);
		cleanup_got struct got agent = call_row(*state, "agent-1", m, what);
		cleanup_got struct got approver = call_row(*state, "approver-1", m, what);
		cleanup_got struct got admin = call_row(*state, "admin-1", m, what);

		if (m->roles == 0) {
			assert_int_equal(none.status, 200);
			assert_int_equal(approver.status, 200);
			continue;
		}
		assert_int_equal(none.status, 401);
		assert_at(&none.body, "error.code", "E_UNAUTHENTICATED");
		assert_string_equal(got_header(&none, "WWW-Authenticate", value), "Bearer");
		assert_int_equal(approver.status, 403);
		assert_at(&approver.body, "error.code", "E_FORBIDDEN");
		assert_at(&approver.body, "error.subject", m->rpc);
		assert_null(got_header(&approver, "WWW-Authenticate", value));
		assert_int_not_equal(admin.status, 401);
		assert_int_not_equal(admin.status, 403);
		assert_int_equal(agent.status == 403, (m->roles & 1u << ROLE_AGENT) == 0);
	}
}

/* The session of another agent is "not found", as one that does not exist; an admin sees it. */
static void api_3_what_is_not_ones_own_is_not_found(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "mine");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	static const char *const paths[] = {"",		"/commands",	"/events",
					    "/history", "/commands/%s", "/output/%s"};

	kit_submit(r->k, "mine", &request, &o);
	fake_run(r->k, f, 0, "x\n");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		cleanup_buf struct buf what = {0};

		buf_adds(&what, "GET " S "/mine");
		buf_add(&what, paths[i], strcspn(paths[i], "%"));
		if (strchr(paths[i], '%') != NULL)
			buf_adds(&what, o.id);
		if (strcmp(paths[i], "/events") != 0) /* which has no end */
			assert_call(r, "agent-1", what.data, NULL, 200, "");
		if (strcmp(paths[i], "/events") != 0)
			assert_call(r, "admin-1", what.data, NULL, 200, "");
		assert_call(r, "agent-2", what.data, NULL, 404, "E_SESSION_NOT_FOUND");
	}
	cleanup_free char *find = mem_printf("GET /api/v1/commands/%s", o.id);
	cleanup_free char *kill = mem_printf("POST " S "/mine/kill/%s", o.id);
	cleanup_got struct got other = rig_call(r, "agent-2", "GET " S "/mine", NULL);

	assert_at(&other.body, "error.message", "no session 'mine'");
	assert_call(r, "agent-1", find, NULL, 200, "");
	assert_call(r, "admin-1", find, NULL, 200, "");
	assert_call(r, "agent-2", find, NULL, 404, "E_NOT_FOUND");
	assert_call(r, "agent-2", kill, NULL, 404, "E_SESSION_NOT_FOUND");
	assert_call(r, "agent-2", "DELETE " S "/mine", NULL, 404, "E_SESSION_NOT_FOUND");
	assert_call(r, "agent-2", "PATCH " S "/mine", "{}", 404, "E_SESSION_NOT_FOUND");
	assert_call(r, "agent-2", "POST " S "/mine/exec", "{\"command\":\"true\"}", 404,
		    "E_SESSION_NOT_FOUND");
	kit_recv_nothing(&f->link);
	kit_seen_done(&o);
}

/* A command is looked for in the session that the path names. */
static void api_3_a_command_of_another_session_is_not_found(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "one");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	kit_session(r->k, "two");
	kit_submit(r->k, "one", &request, &o);
	fake_run(r->k, f, 0, "");
	cleanup_free char *right = mem_printf("GET " S "/one/commands/%s", o.id);
	cleanup_free char *wrong = mem_printf("GET " S "/two/commands/%s", o.id);

	assert_call(r, "agent-1", right, NULL, 200, "");
	assert_call(r, "agent-1", wrong, NULL, 404, "E_NOT_FOUND");
	kit_seen_done(&o);
}

static void api_1_unknown_query_parameters_are_named(void **state)
{
	static const char *const bad[] = {"limi",	    "limitx", "imit",
					  "cursor%20limit", "LIMIT",  "limit%20cursor"};
	struct rig *r = *state;

	assert_call(r, "agent-1", "GET " S "?limit=5&cursor=", NULL, 200, "");
	assert_call(r, "agent-1", "GET " S "?cursor=0&limit=5", NULL, 200, "");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_free char *what = mem_printf("GET " S "?%s=1", bad[i]);

		assert_call(r, "agent-1", what, NULL, 400, "E_BAD_REQUEST");
	}
	assert_call(r, "agent-1", "GET " S "?=1", NULL, 400, "E_BAD_REQUEST");
	assert_call(r, "", "GET /health?x=1", NULL, 400, "E_BAD_REQUEST");
	cleanup_got struct got g = rig_call(r, "agent-1", "GET " S "?nope=1&limit=2&more=3", NULL);

	assert_at(&g.body, "error.details.0.field", "nope");
	assert_at(&g.body, "error.details.0.problem", "unknown query parameter");
	assert_at(&g.body, "error.details.1.field", "more");
}

static void api_1_numbers_in_queries(void **state)
{
	static const struct {
		const char *query;
		int status;
	} rows[] = {
		{"limit=1", 200},
		{"limit=0", 400},
		{"limit=1000", 200},
		{"limit=1001", 400},
		{"limit=", 400},
		{"limit=x", 400},
		{"limit=-1", 400},
		{"limit=1x", 400},
		{"limit=+1", 400},
		{"limit=0000000000000000005", 200},  /* 19 digits */
		{"limit=00000000000000000005", 400}, /* 20 */
		{"limit=18446744073709551616", 400},
	};
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *what = mem_printf("GET " S "?%s", rows[i].query);

		assert_call(r, "agent-1", what, NULL, rows[i].status,
			    rows[i].status == 400 ? "E_BAD_REQUEST" : "");
	}
	cleanup_got struct got zero = rig_call(r, "agent-1", "GET " S "?limit=0", NULL);
	cleanup_got struct got many = rig_call(r, "agent-1", "GET " S "?limit=1001", NULL);

	assert_at(&zero.body, "error.details.0.problem", "at least 1");
	assert_at(&many.body, "error.details.0.problem", "at most 1000");
}

static void api_1_bodies_are_json_objects(void **state)
{
	struct rig *r = *state;
	static const char type[] = "Content-Type must be application/json";
	static const char object[] = "the body must be a JSON object";
	static const struct {
		const char *headers, *body, *message; /* "": whatever the parser says */
	} rows[] = {
		{"Content-Type: text/plain\r\n", "{}", type},
		{"Content-Type: application/jso\r\n", "{}", type},
		{"Content-Type: application/jsonx\r\n", "{}", type},
		{"Content-Type: application/json\r\n", "[]", object},
		{"Content-Type: APPLICATION/JSON; charset=utf-8\r\n", "[]", object},
		{"", "[]", object}, /* without a type */
		{"", "null", object},
		{"", "\"x\"", object},
		{"", "{", ""},
		{"", "{} x", ""},
		{"", "", ""},
		{"", "{\"nope\":1}", "1 field is wrong: nope"},
	};

	kit_session(r->k, "s");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_got struct got g = rig_connect(r, ON_TCP);
		cleanup_free char *headers =
			mem_printf("X-API-Key: agent-1\r\n%sContent-Length: %zu\r\n",
				   rows[i].headers, strlen(rows[i].body));

		rig_ask(&g, "PATCH " S "/s", headers, NULL);
		rig_put(&g, rows[i].body, strlen(rows[i].body));
		rig_finish(r, &g);
		assert_int_equal(g.status, 400);
		assert_at(&g.body, "error.code", "E_BAD_REQUEST");
		if (rows[i].message[0] != '\0')
			assert_at(&g.body, "error.message", rows[i].message);
		if (rows[i].message == object) /* what has no subject is about its path */
			assert_at(&g.body, "error.subject", S "/s");
	}
}

static void api_1_request_ids(void **state)
{
	struct rig *r = *state;
	static const struct {
		const char *header, *want;
	} rows[] = {
		{"X-Request-Id: mine-1\r\n", "mine-1"},
		{"X-Request-Id: " LONGEST "\r\n", LONGEST},
		{"X-Request-Id: " LONGEST "x\r\n", NULL}, /* one of ours instead */
		{"X-Request-Id: not an id\r\n", NULL},
		{NULL, NULL},
	};
	char value[256];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_got struct got g = rig_connect(r, ON_TCP);

		rig_ask(&g, "GET " S, rows[i].header, NULL);
		rig_finish(r, &g);
		assert_non_null(got_header(&g, "X-Request-Id", value));
		assert_at(&g.body, "error.request_id", value);
		if (rows[i].want != NULL)
			assert_string_equal(value, rows[i].want);
		else
			assert_memory_equal(value, "req-", 4);
	}
}

static void api_1_malformed_http_has_the_same_error_body(void **state)
{
	static const struct {
		int status;
		const char *code;
	} rows[] = {
		{400, "E_BAD_REQUEST"}, {408, "E_BAD_REQUEST"}, {413, "E_TOO_LARGE"},
		{414, "E_TOO_LARGE"},	{415, "E_BAD_REQUEST"}, {431, "E_TOO_LARGE"},
		{501, "E_BAD_REQUEST"}, {503, "E_UNAVAILABLE"}, {505, "E_BAD_REQUEST"},
	};
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf body = {0};

		api_on_bad(rows[i].status, "odd bytes", &body, &r->api);
		assert_at(&body, "error.code", rows[i].code);
		assert_at(&body, "error.message", "odd bytes");
		assert_at(&body, "error.subject", "");
		cleanup_free char *id = kit_at(&body, "error.request_id");

		assert_memory_equal(id, "req-", 4);
	}
	assert_int_equal(rig_metric(r, "agentsh_http_requests_total"), ARRAY_LEN(rows));
	assert_int_equal(rig_metric(r, "agentsh_http_request_errors_total"), ARRAY_LEN(rows));
}

static void obs_1_answers_are_counted(void **state)
{
	struct rig *r = *state;

	assert_call(r, "", "GET /health", NULL, 200, "");
	assert_call(r, "agent-1", "GET /metrics", NULL, 200, "");
	assert_int_equal(rig_metric(r, "agentsh_http_requests_total"), 2);
	assert_int_equal(rig_metric(r, "agentsh_http_request_errors_total"), 0);
	assert_call(r, "", "GET /nope", NULL, 404, "");
	assert_call(r, "", "PUT /health", NULL, 405, "");
	assert_call(r, "", "GET " S, NULL, 401, "");
	assert_int_equal(rig_metric(r, "agentsh_http_requests_total"), 5);
	assert_int_equal(rig_metric(r, "agentsh_http_request_errors_total"), 3);
}

static void api_1_ready_tells_of_sessions_and_of_the_end(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "s");
	cleanup_got struct got g = rig_call(r, "", "GET /ready", NULL);

	assert_int_equal(g.status, 200);
	assert_string_equal(g.body.data, "{\"ready\":true,\"sessions\":1}");
	r->api.stopping = true;
	cleanup_got struct got end = rig_call(r, "", "GET /ready", NULL);

	assert_int_equal(end.status, 503);
	assert_string_equal(end.body.data, "{\"ready\":false,\"sessions\":1}");
}

/* Writes the parameters that were given. */
static void echo(struct call *call)
{
	static const char *const names[] = {"one", "t", "two", "q", "X-Who"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = call_param(call, names[i]);

		buf_addf(&call->reply, "%s=%s ", names[i], value != NULL ? value : "-");
	}
	call_reply(call, 200);
}

/* API-1: a row names any parameters of its path, and the listeners that offer it. */
static void api_1_rows_have_parameters_and_listeners(void **state)
{
	static const struct method rows[] = {
		{.verb = "GET",
		 .path = "/a/{one}/b/{two}",
		 .rpc = "Both",
		 .listeners = LISTENER_UNIX | LISTENER_TCP,
		 .params = "q X-Who",
		 .handler = echo},
		{.verb = "GET",
		 .path = "/local",
		 .rpc = "Local",
		 .listeners = LISTENER_UNIX,
		 .params = "",
		 .handler = echo},
		{.verb = "POST",
		 .path = "/local",
		 .rpc = "Remote",
		 .listeners = LISTENER_TCP,
		 .params = "",
		 .handler = echo},
	};
	static const struct {
		enum rig_listener on;
		const char *what;
		int status;
		const char *body; /* or a part of it */
	} asks[] = {
		{ON_TCP, "GET /a/x/b/y", 200, "one=x t=- two=y q=- X-Who=me "},
		{ON_UNIX, "GET /a/x/b/y?q=z", 200, "one=x t=- two=y q=z X-Who=me "},
		{ON_UNIX, "GET /a/x/b/y?one=z", 400, "unknown query parameter"},
		{ON_UNIX, "GET /a/x/b/y?X-Who=z", 400, "unknown query parameter"},
		{ON_UNIX, "GET /a/x/b/", 404, "no such path"},
		{ON_UNIX, "GET /a/x/b/y/z", 404, "no such path"},
		{ON_UNIX, "GET /local", 200, "one=- "},
		{ON_TCP, "GET /local", 405, "this path answers POST\""},
		{ON_UNIX, "POST /local", 405, "this path answers GET\""},
	};
	struct rig *r = *state;

	r->api.methods = rows;
	r->api.nmethods = ARRAY_LEN(rows);
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		cleanup_got struct got g = rig_connect(r, asks[i].on);

		rig_ask(&g, asks[i].what, "X-Who: me\r\n", NULL);
		rig_finish(r, &g);
		assert_int_equal(g.status, asks[i].status);
		assert_non_null(strstr(g.body.data, asks[i].body));
	}
}

/* The table itself: a handler each, no row twice, parameters and ownership that fit the path. */
static void api_1_the_table_is_sound(void **state)
{
	for (size_t i = 0; i < api_nmethods; i++) {
		const struct method *m = &api_methods[i];
		const bool id = strstr(m->path, "{id}") != NULL,
			   cmd = strstr(m->path, "{cmd}") != NULL;

		assert_non_null(m->handler);
		assert_int_not_equal(m->listeners, 0);
		assert_int_equal(id, m->owner == OWN_SESSION || m->owner == OWN_SESSION_COMMAND);
		assert_int_equal(cmd, m->owner == OWN_COMMAND || m->owner == OWN_SESSION_COMMAND);
		assert_true(m->roles == 0 || (m->roles & 1u << ROLE_ADMIN) != 0);
		if (strcmp(m->verb, "GET") == 0)
			assert_true(m->idempotent && !m->audited);
		for (size_t j = 0; j < i; j++) {
			assert_false(strcmp(m->verb, api_methods[j].verb) == 0 &&
				     strcmp(m->path, api_methods[j].path) == 0 &&
				     (m->kind == BIDIRECTIONAL) ==
					     (api_methods[j].kind == BIDIRECTIONAL));
			assert_string_not_equal(m->rpc, api_methods[j].rpc);
		}
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(api_1_paths_that_there_are_not),
		TEST(api_1_a_path_names_what_it_answers),
		TEST(api_1_head_answers_as_get_without_a_body),
		TEST(api_1_ids_in_paths),
		TEST(api_1_metrics_stand_where_the_configuration_says),
		TEST(api_3_metrics_over_tcp_need_a_key),
		TEST(api_3_every_path_needs_a_loopback_host),
		TEST(api_3_roles_of_every_row),
		TEST(api_3_what_is_not_ones_own_is_not_found),
		TEST(api_3_a_command_of_another_session_is_not_found),
		TEST(api_1_unknown_query_parameters_are_named),
		TEST(api_1_numbers_in_queries),
		TEST(api_1_bodies_are_json_objects),
		TEST(api_1_request_ids),
		TEST(api_1_malformed_http_has_the_same_error_body),
		TEST(obs_1_answers_are_counted),
		TEST(api_1_ready_tells_of_sessions_and_of_the_end),
		TEST(api_1_rows_have_parameters_and_listeners),
		cmocka_unit_test(api_1_the_table_is_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
