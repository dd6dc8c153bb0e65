// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <stdio.h>
#include <sys/resource.h>

/* ---- made ---- */

static void ses_1_the_launcher_is_asked_with_the_proof(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct launcher_create m;
	struct link_msg msg;
	struct told t = {0};

	request.background = kit_text("keep");
	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_recv_nothing(&k->launcher); /* not before the row is safe */
	kit_turn(k);
	kit_recv(&k->launcher, MSG_launcher_create, &m, &msg);
	assert_string_equal(m.session_id, "s1");
	assert_string_equal(m.workspace, "/srv/project");
	assert_string_equal(m.policy, "observe");
	assert_string_equal(m.background, "keep");
	assert_int_equal(m.key.len, 6);
	assert_memory_equal(m.key.data, "secret", 6);
	assert_int_equal(msg.nfds, 0);
	assert_int_equal(t.n, 0);
	assert_string_equal(kit_state(k, "s1"), "creating");
	msg_done(MSG_launcher_create, &m);
}

static void ses_1_a_unix_connection_is_passed_as_the_proof(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct launcher_create m;
	struct link_msg msg;
	struct told t = {0};

	k->who.key[0] = '\0';
	k->who.conn_fd = k->output_dir;
	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_recv(&k->launcher, MSG_launcher_create, &m, &msg);
	assert_int_equal(m.key.len, 0);
	assert_int_equal(msg.nfds, 1);
	link_msg_done(&msg);
	msg_done(MSG_launcher_create, &m);
}

static void ses_1_a_session_starts_in_a_directory_that_it_can_enter(void **state)
{
	static const struct {
		const char *asked, *answered, *capped;
	} rows[] = {
		{"/srv/real/src/.", "/workspace/src", "[]"},
		{"/tmp", "/tmp", "[]"},
		{"/srv/real/gone", "/workspace", "[\"working_dir\"]"},
	};
	struct kit *k = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char id[] = {'s', (char)('1' + i), '\0'};
		struct session_request request = kit_request_of(id);
		struct fake *f;
		struct told t = {0};
		cleanup_buf struct buf r = {0};

		request.working_dir = kit_text(rows[i].asked);
		session_create(k->ss, &k->who, &request, kit_told, &t);
		kit_turn(k);
		kit_skip(&k->launcher, MSG_launcher_create);
		f = fake_new(k, id);
		fake_created(k, f);
		kit_skip(&f->link, MSG_warden_hello);
		fake_state(k, f, rows[i].answered, &(struct strv){0});
		assert_int_equal(t.err.code, E_OK);
		r = kit_session_record(k, id);
		assert_at(&r, "working_dir", rows[i].answered);
		assert_at(&r, "config.working_dir", rows[i].asked);
		assert_at(&r, "capped", rows[i].capped);
	}
}

static void ses_2_created_is_ready_after_the_first_state(void **state)
{
	struct kit *k = *state;
	cleanup_buf struct buf r = {0};

	kit_session(k, "s1");
	assert_events(k, "s1", "session_created session_state:ready");
	r = kit_session_record(k, "s1");
	assert_at(&r, "id", "s1");
	assert_at(&r, "state", "ready");
	assert_at(&r, "agent_id", "agent-1");
	assert_at(&r, "owner_uid", "1000");
	assert_at(&r, "workspace", "/srv/real");
	assert_at(&r, "policy.name", "observe");
	assert_at(&r, "policy.version", k->version);
	assert_at(&r, "working_dir", "/workspace");
	assert_at(&r, "environment.LANG", "C.UTF-8");
	assert_at(&r, "created", "2027-01-15T08:00:00.000000Z");
	assert_at(&r, "last_activity", "2027-01-15T08:00:00.000000Z");
	assert_at(&r, "config.timeout", "4h");
	assert_at(&r, "config.idle_timeout", "30m");
	assert_at(&r, "config.resource_limits.command_timeout", "5m");
	assert_at(&r, "command_count", "0");
	assert_at(&r, "total_file_ops", "0");
	assert_at(&r, "total_net_ops", "0");
	assert_at(&r, "total_bytes_read", "0");
	assert_at(&r, "total_bytes_written", "0");
	assert_at(&r, "queue", "{\"running\":null,\"waiting\":0}");
	assert_at(&r, "failure", "null");
	assert_at(&r, "enforcement.1",
		  "{\"wall\":\"mount_namespace\",\"state\":\"up\",\"detail\":\"own root\"}");
	assert_at(&r, "endpoints.exec", "/api/v1/sessions/s1/exec");
	assert_at(&r, "endpoints.events", "/api/v1/sessions/s1/events");
	assert_int_equal(sessions_live(k->ss), 1);
}

/* The launcher gets the limits that the client asks for, and refuses those it cannot enforce. */
static void ses_3_what_was_asked_for_is_required(void **state)
{
	static const struct {
		int64_t file_ops, net_ops;
		bool domain, blocked, port;
		uint64_t walls;
	} rows[] = {
		{.walls = 0},
		{.file_ops = 1, .walls = UINT64_C(1) << WALL_file_rules},
		{.net_ops = 1, .walls = UINT64_C(1) << WALL_network_rules},
		{.domain = true, .walls = UINT64_C(1) << WALL_network_rules},
		{.blocked = true, .walls = UINT64_C(1) << WALL_network_rules},
		{.port = true, .walls = UINT64_C(1) << WALL_network_rules},
	};
	struct kit *k = *state;
	char *some[] = {kit_text("443"), NULL};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct session_request request = kit_request_of("s1");
		struct launcher_create m;
		struct link_msg msg;

		request.limits.value[LIMIT_max_file_ops] = rows[i].file_ops;
		request.limits.value[LIMIT_max_net_ops] = rows[i].net_ops;
		request.allowed_domains.v = request.blocked_domains.v = request.allowed_ports.v =
			some;
		request.allowed_domains.n = rows[i].domain;
		request.blocked_domains.n = rows[i].blocked;
		request.allowed_ports.n = rows[i].port;
		request.id = mem_printf("s%zu", i);
		session_create(k->ss, &k->who, &request, kit_told, &(struct told){0});
		kit_turn(k);
		kit_recv(&k->launcher, MSG_launcher_create, &m, &msg);
		assert_int_equal(m.required, rows[i].walls);
		msg_done(MSG_launcher_create, &m);
		link_msg_done(&msg);
		free(request.id);
	}
}

static void ses_3_what_cannot_be_enforced_is_reported(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct told t = {0};
	struct fake *f;
	cleanup_buf struct buf r = {0};
	const char *env_filter =
		"{\"wall\":\"env_filter\",\"state\":\"up\",\"detail\":\"built from an "
		"allow-list, without the server's own variables\"}";

	request.limits.value[LIMIT_max_memory_mb] = 2048;
	request.limits.value[LIMIT_pids_max] = 100;
	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	f = fake_new(k, "s1");
	fake_created(k, f);
	fake_greet(k, f);
	r = kit_session_record(k, "s1");
	assert_non_null(strstr(r.data, "\"cpu_limit\",\"state\":\"absent\""));
	assert_non_null(strstr(r.data, env_filter));
	assert_at(&r, "config.resource_limits.max_memory_mb", "2048");
}

static void ses_5_the_smallest_timeout_wins(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	cleanup_buf struct buf r = {0};

	request.limits.value[LIMIT_session_timeout] =
		k->config.limits.value[LIMIT_session_timeout] - 1;
	request.limits.value[LIMIT_idle_timeout] = k->config.limits.value[LIMIT_idle_timeout] + 1;
	kit_create(k, &request);
	r = kit_session_record(k, "s1");
	assert_at(&r, "config.timeout", "14399999ms");
	assert_at(&r, "config.idle_timeout", "30m");
}

/* Of request, agent's limit and server the smallest wins; the policy's is taken in
 * session_on_created.
 */
static void ses_7_an_agents_limits_narrow_its_time_outs(void **state)
{
	static const struct {
		int64_t asked, agent, server, want;
	} rows[] = {
		{0, 0, 9000, 9000},	  {0, 8000, 9000, 8000},    {0, 9000, 8000, 8000},
		{7000, 8000, 9000, 7000}, {8000, 7000, 9000, 7000}, {9000, 8000, 7000, 7000},
	};
	struct kit *k = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *id = mem_printf("s%zu", i);
		cleanup_free char *want = mem_printf("%llds", (long long)rows[i].want / 1000);
		struct session_request request = kit_request_of(id);
		cleanup_buf struct buf r = {0};

		k->config.limits.value[LIMIT_session_timeout] =
			k->config.limits.value[LIMIT_idle_timeout] = rows[i].server;
		k->config.agent_max_lifetime_ms = k->config.agent_idle_timeout_ms = rows[i].agent;
		request.limits.value[LIMIT_session_timeout] =
			request.limits.value[LIMIT_idle_timeout] = rows[i].asked;
		kit_create(k, &request);
		r = kit_session_record(k, id);
		assert_at(&r, "config.timeout", want);
		assert_at(&r, "config.idle_timeout", want);
	}
}

static void ses_1_an_id_is_used_once(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct told t;

	kit_session(k, "s1");
	t = kit_create(k, &request);
	assert_int_equal(t.err.code, E_CONFLICT);
	assert_string_equal(t.err.subject, "s1");
	assert_memory_equal(t.err.message, "the id is taken; 's1-", 21);
	assert_string_equal(t.err.details[0].problem, t.err.message);
	kit_recv_nothing(&k->launcher);
}

static void ses_1_an_id_is_made_where_none_is_asked(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of(NULL);
	struct launcher_create m;
	struct link_msg msg;

	kit_create(k, &request);
	kit_recv(&k->launcher, MSG_launcher_create, &m, &msg);
	assert_memory_equal(m.session_id, "session-", 8);
	msg_done(MSG_launcher_create, &m);
}

static void ses_3_bad_request_are_named(void **state)
{
	struct kit *k = *state;
	struct session_request request = {.id = kit_text("query"),
					  .agent_id = kit_text("agent-2"),
					  .policy = kit_text("a/b")};
	struct told t = kit_create(k, &request);

	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_BAD_REQUEST);
	assert_int_equal(t.err.ndetails, 4);
	assert_string_equal(t.err.details[0].field, "id");
	assert_string_equal(t.err.details[1].field, "workspace");
	assert_string_equal(t.err.details[2].field, "agent_id");
	assert_string_equal(t.err.details[3].field, "policy");
	request = kit_request_of("s1");
	request.workspace = kit_text("relative");
	t = kit_create(k, &request);
	assert_int_equal(t.err.code, E_BAD_REQUEST);
	request = kit_request_of("s1");
	request.agent_id = kit_text("agent-1");
	request.policy = kit_text("observe");
	assert_int_equal(kit_create(k, &request).n, 0);
}

static void ses_3_an_environment_over_the_limit_is_refused(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	char *pair = mem_alloc(REQUEST_ENV_MAX), *env[] = {pair, NULL};
	struct told t;

	memset(pair, 'x', REQUEST_ENV_MAX - 1);
	pair[1] = '=';
	request.environment = (struct strv){env, 1};
	t = kit_create(k, &request);
	assert_int_equal(t.err.code, E_BAD_REQUEST);
	assert_string_equal(t.err.details[0].field, "environment");
	free(pair);
}

static void ses_5_caps_hold_at_their_number(void **state)
{
	struct kit *k = *state;
	struct session_request a = kit_request_of("s1"), b = kit_request_of("s2"),
			       c = kit_request_of("s3");
	struct told t;

	k->config.max_sessions = 2;
	k->config.max_sessions_per_agent = 1;
	assert_int_equal(kit_create(k, &a).n, 0);
	t = kit_create(k, &b);
	assert_int_equal(t.err.code, E_RESOURCE_LIMIT);
	assert_string_equal(t.err.subject, "agent-1");
	snprintf(k->who.agent_id, sizeof(k->who.agent_id), "agent-2");
	assert_int_equal(kit_create(k, &b).n, 0);
	snprintf(k->who.agent_id, sizeof(k->who.agent_id), "agent-3");
	assert_int_equal(kit_create(k, &c).err.code, E_RESOURCE_LIMIT);
}

/* It is refused before it is made: nothing would be left to reach it by. */
static void ses_5_without_descriptors_there_is_no_new_session(void **state)
{
	struct kit *k = *state;
	struct session_request a = kit_request_of("s1");
	struct rlimit old, none;
	struct told t;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	t = kit_create(k, &a);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(t.err.code, E_RESOURCE_LIMIT);
	assert_non_null(strstr(t.err.message, "RLIMIT_NOFILE"));
	kit_recv_nothing(&k->launcher);
	assert_int_equal(kit_create(k, &a).n, 0);
}

static void ses_1_a_refusal_is_told_as_it_is_and_frees_the_id(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct launcher_refused m = {.session_id = kit_text("s1"),
				     .code = kit_text("E_FORBIDDEN"),
				     .subject = kit_text("/srv/project"),
				     .message = kit_text("not yours")};
	struct told t = {0};
	struct session *s;

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	kit_tell(k, MSG_launcher_refused, &m, NULL, 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_FORBIDDEN);
	assert_string_equal(t.err.subject, "/srv/project");
	assert_string_equal(t.err.message, "not yours");
	assert_int_equal(session_get(k->ss, &k->who, "s1", &s, NULL), -E_SESSION_NOT_FOUND);
	assert_int_equal(sessions_live(k->ss), 0);
	kit_session(k, "s1");
}

/* Its file server did not answer. The proof goes with the second request, too. */
static void ses_1_after_a_bad_prepared_sandbox_the_launcher_is_asked_once_more(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct launcher_refused m = {.session_id = kit_text("s1"),
				     .code = kit_text("E_UNAVAILABLE"),
				     .subject = kit_text("agentsh-fs"),
				     .message = kit_text("agentsh-fs did not answer for 5 s")};
	struct told t = {0};

	snprintf(k->who.key, sizeof(k->who.key), "sk-1");
	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	for (int i = 0; i < 2; i++) {
		struct launcher_create asked;
		struct link_msg msg;

		kit_recv(&k->launcher, MSG_launcher_create, &asked, &msg);
		assert_string_equal(asked.session_id, "s1");
		assert_int_equal(asked.key.len, 4);
		msg_done(MSG_launcher_create, &asked);
		link_msg_done(&msg);
		assert_int_equal(t.n, 0);
		kit_tell(k, MSG_launcher_refused, &m, NULL, 0);
	}
	kit_recv_nothing(&k->launcher);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_UNAVAILABLE);
	assert_string_equal(t.err.subject, "agentsh-fs");
}

/* A secret is not kept for a session that will not be made. */
static void ses_1_without_an_answer_the_proof_is_forgotten(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct told t = {0};
	struct session *s;

	snprintf(k->who.key, sizeof(k->who.key), "sk-1");
	session_create(k->ss, &k->who, &request, kit_told, &t);
	s = sessions_find(k->ss, "s1");
	assert_string_equal(s->proof_key, "sk-1");
	session_ref(s);
	session_over(s, "the launcher does not answer");
	assert_null(s->proof_key);
	session_unref(s);
}

static void ses_2_destroyed_while_it_is_made(void **state)
{
	struct kit *k = *state;
	struct session_request a = kit_request_of("s1"), b = kit_request_of("s2");
	struct launcher_refused refused = {.session_id = kit_text("s2"),
					   .code = kit_text("E_FORBIDDEN")};
	struct told made = {0}, ended = {0}, other = {0}, gone = {0};
	struct fake *f;

	session_create(k->ss, &k->who, &a, kit_told, &made);
	session_create(k->ss, &k->who, &b, kit_told, &other);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	kit_skip(&k->launcher, MSG_launcher_create);
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &ended);
	session_destroy(kit_get(k, "s2"), &k->who, "x", kit_told, &gone);
	kit_tell(k, MSG_launcher_refused, &refused, NULL, 0);
	assert_int_equal(other.err.code, E_FORBIDDEN);
	assert_int_equal(gone.err.code, E_FORBIDDEN); /* there is nothing to show */
	f = fake_new(k, "s1");
	fake_created(k, f);
	fake_greet(k, f);
	assert_int_equal(made.n, 1);
	kit_skip(&f->link, MSG_warden_end);
	link_done(&f->link);
	kit_turn(k);
	assert_int_equal(ended.n, 1);
	assert_string_equal(kit_state(k, "s1"), "stopped");
}

/* The warden says this while the session is made, and goes. */
static struct told fail_while_made(struct kit *k, const char *id, const char *reason)
{
	struct session_request request = kit_request_of(id);
	struct told t = {0};
	struct fake *f;

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	f = fake_new(k, id);
	fake_created(k, f);
	kit_skip(&f->link, MSG_warden_hello);
	fake_send(k, f, MSG_warden_failed, &(struct warden_failed){.reason = kit_text(reason)});
	assert_int_equal(t.n, 0);
	link_done(&f->link);
	kit_turn(k);
	assert_int_equal(t.n, 1);
	return t;
}

static void ses_2_a_sandbox_that_fails_while_it_is_made(void **state)
{
	struct kit *k = *state;
	const struct told t = fail_while_made(k, "s1", "mount_namespace: not permitted");

	assert_int_equal(t.err.code, E_ENFORCEMENT);
	assert_string_equal(t.err.subject, "mount_namespace");
	assert_string_equal(t.err.message,
			    "session 's1' was not made: mount_namespace: not permitted");
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_string_equal(kit_state(k, "s1"), "failed");
	assert_events(k, "s1", "session_state:failed session_failed enforcement_failed");
}

static void ses_2_a_failure_that_is_no_walls_fault(void **state)
{
	static const char *const reasons[] = {"init: broken", "mount_namespaces: x",
					      "mount_namespac: x", "mount_namespace"};
	static const char *const ids[] = {"s1", "s2", "s3", "s4"};
	struct kit *k = *state;

	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		const struct told t = fail_while_made(k, ids[i], reasons[i]);

		assert_int_equal(t.err.code, E_UNAVAILABLE);
		assert_string_equal(t.err.subject, ids[i]);
		kit_skip(&k->launcher, MSG_launcher_remove);
	}
}

/* SBX-5: that a wall is missing is recorded, though there is no session. */
static void sbx_5_a_missing_wall_is_an_event(void **state)
{
	struct kit *k = *state;
	struct session_request request = kit_request_of("s1");
	struct launcher_refused m = {.session_id = kit_text("s1"),
				     .code = kit_text("E_ENFORCEMENT"),
				     .subject = kit_text("memory_limit"),
				     .message = kit_text("no group to be had")};
	struct told t = {0};

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	kit_tell(k, MSG_launcher_refused, &m, NULL, 0);
	assert_int_equal(t.err.code, E_ENFORCEMENT);
	assert_events(k, "s1", "enforcement_failed");
}

/* ---- seen ---- */

static void ses_1_others_do_not_see_it(void **state)
{
	struct kit *k = *state;
	struct caller other = k->who, admin = k->who;
	struct session *s = NULL;
	struct err err = {0};
	cleanup_buf struct buf list = {0};

	snprintf(other.agent_id, sizeof(other.agent_id), "agent-2");
	snprintf(admin.agent_id, sizeof(admin.agent_id), "root");
	admin.role = ROLE_ADMIN;
	kit_session(k, "s1");
	assert_int_equal(session_get(k->ss, &other, "s1", &s, &err), -E_SESSION_NOT_FOUND);
	assert_string_equal(err.subject, "s1");
	other.role = ROLE_APPROVER;
	assert_int_equal(session_get(k->ss, &other, "s1", &s, &err), -E_SESSION_NOT_FOUND);
	assert_int_equal(session_get(k->ss, &k->who, "s2", &s, &err), -E_SESSION_NOT_FOUND);
	assert_int_equal(session_get(k->ss, &k->who, "../s1", &s, &err), -E_SESSION_NOT_FOUND);
	assert_null(s);
	assert_int_equal(session_get(k->ss, &admin, "s1", &s, &err), 0);
	assert_string_equal(session_id(s), "s1");
	assert_int_equal(session_list(k->ss, &other, NULL, 10, &JW(&list), &err), 0);
	assert_string_equal(list.data, "{\"sessions\":[],\"next\":\"\"}");
}

static void ses_1_the_list_has_pages_with_the_newest_last(void **state)
{
	struct kit *k = *state;
	cleanup_buf struct buf one = {0}, two = {0}, all = {0};
	cleanup_free char *next = NULL;
	struct err err = {0};

	kit_session(k, "s1");
	kit_session(k, "s2");
	kit_session(k, "s3");
	link_done(&k->warden[0].link);
	kit_tell(
		k, MSG_launcher_gone,
		&(struct launcher_gone){.session_id = kit_text("s1"), .reason = kit_text("killed")},
		NULL, 0);
	assert_int_equal(session_list(k->ss, &k->who, "", 2, &JW(&one), &err), 0);
	assert_at(&one, "sessions.0.id", "s1");
	assert_at(&one, "sessions.0.state", "failed");
	assert_at(&one, "sessions.1.id", "s2");
	assert_at(&one, "sessions.1.state", "ready");
	next = kit_at(&one, "next");
	assert_int_equal(session_list(k->ss, &k->who, next, 2, &JW(&two), &err), 0);
	assert_at(&two, "sessions.0.id", "s3");
	assert_at(&two, "next", "");
	assert_int_equal(session_list(k->ss, &k->who, NULL, 3, &JW(&all), &err), 0);
	assert_at(&all, "sessions.2.id", "s3");
	assert_at(&all, "next", "");
	assert_int_equal(session_list(k->ss, &k->who, "x1", 3, &JW(&all), &err), -E_BAD_REQUEST);
	assert_string_equal(err.details[0].field, "cursor");
}

static void requests(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	static const char key[] = "\"request_id\":\"req-";
	const char *at = memmem(json, len, key, sizeof(key) - 1);

	buf_addc(arg, at != NULL ? at[sizeof(key) - 1] : '-');
}

static void evt_1_events_name_the_request_that_made_them(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct event_query q = {.session_id = "s1"};
	const struct exec_request request = kit_request("true");
	struct session_request patch = {.limits.value[LIMIT_session_timeout] = 1};
	struct seen_by o = {0};
	struct told t = {0};
	cleanup_buf struct buf b = {0};

	snprintf(k->who.request_id, sizeof(k->who.request_id), "req-2");
	kit_submit(k, "s1", &request, &o); /* queued; busy has no request id */
	fake_run(k, f, 0, "");
	snprintf(k->who.request_id, sizeof(k->who.request_id), "req-3");
	session_patch(kit_get(k, "s1"), &k->who, &patch, kit_told, &t);
	kit_skip(&f->link, MSG_warden_patch);
	fake_state(k, f, "/workspace", &(struct strv){0});
	snprintf(k->who.request_id, sizeof(k->who.request_id), "req-4");
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &t);
	kit_turn(k);
	assert_int_equal(store_query(k->store, &q, requests, &b, NULL, NULL), 0);
	assert_string_equal(b.data, "112----34");
	kit_seen_done(&o);
}

static void obs_1_sessions_are_counted(void **state)
{
	struct kit *k = *state;
	cleanup_buf struct buf a = {0}, b = {0};

	kit_session(k, "s1");
	metrics_format(k->metrics, &a);
	assert_non_null(strstr(a.data, "agentsh_sessions_active 1\n"));
	link_done(&k->warden[0].link);
	k->clock.fixed_us += 3000000;
	kit_tell(k, MSG_launcher_gone,
		 &(struct launcher_gone){.session_id = kit_text("s1"), .reason = kit_text("x")},
		 NULL, 0);
	metrics_format(k->metrics, &b);
	assert_non_null(strstr(b.data, "agentsh_sessions_active 0\n"));
	assert_non_null(strstr(b.data, "agentsh_session_duration_seconds_sum 3"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_1_the_launcher_is_asked_with_the_proof),
		TEST(ses_1_a_unix_connection_is_passed_as_the_proof),
		TEST(ses_1_a_session_starts_in_a_directory_that_it_can_enter),
		TEST(ses_2_created_is_ready_after_the_first_state),
		TEST(ses_3_what_was_asked_for_is_required),
		TEST(ses_3_what_cannot_be_enforced_is_reported),
		TEST(ses_5_the_smallest_timeout_wins),
		TEST(ses_7_an_agents_limits_narrow_its_time_outs),
		TEST(ses_1_an_id_is_used_once),
		TEST(ses_1_an_id_is_made_where_none_is_asked),
		TEST(ses_3_bad_request_are_named),
		TEST(ses_3_an_environment_over_the_limit_is_refused),
		TEST(ses_5_caps_hold_at_their_number),
		TEST(ses_5_without_descriptors_there_is_no_new_session),
		TEST(ses_1_a_refusal_is_told_as_it_is_and_frees_the_id),
		TEST(ses_1_after_a_bad_prepared_sandbox_the_launcher_is_asked_once_more),
		TEST(ses_1_without_an_answer_the_proof_is_forgotten),
		TEST(ses_2_destroyed_while_it_is_made),
		TEST(ses_2_a_sandbox_that_fails_while_it_is_made),
		TEST(ses_2_a_failure_that_is_no_walls_fault),
		TEST(sbx_5_a_missing_wall_is_an_event),
		TEST(evt_1_events_name_the_request_that_made_them),
		TEST(ses_1_others_do_not_see_it),
		TEST(ses_1_the_list_has_pages_with_the_newest_last),
		TEST(obs_1_sessions_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
