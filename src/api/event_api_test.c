// SPDX-License-Identifier: Apache-2.0
/* Events over HTTP: the stream from its beginning to its end, and history by filters. */
#include "api/testkit/api_testkit.h"

#define S "/api/v1/sessions/s"
#define KEY "X-API-Key: agent-1\r\n"

/* Events 1 and 2 are there once a session stands: created, and its state. */
static struct got follow(struct rig *r, const char *query, const char *headers)
{
	struct got g = rig_connect(r, ON_TCP);
	cleanup_free char *what = mem_printf("GET " S "/events%s", query);
	cleanup_free char *all = mem_printf(KEY "%s", headers);

	rig_ask(&g, what, all, NULL);
	rig_turn(r, &g);
	return g;
}

static void add(struct rig *r, enum event_type type, const char *session, const char *decision)
{
	struct event e = {.type = type,
			  .session_id = (char *)session,
			  .decision = (char *)decision,
			  .time_us = (uint64_t)KIT_START_US + 1000000,
			  .count = 1};

	store_event(r->k->store, &e, NULL, 0);
	kit_turn(r->k);
}

/* The ids in the stream: "3 4 ". */
static char *ids(const struct got *g)
{
	struct buf out = {0};

	for (const char *p = g->body.data; p != NULL && (p = strstr(p, "id: ")) != NULL; p += 4)
		if (p == g->body.data || p[-1] == '\n')
			buf_addf(&out, "%d ", atoi(p + 4));
	return buf_take(&out);
}

/* Waits until the stream has these and no others. */
static void assert_ids(struct rig *r, struct got *g, const char *want)
{
	for (int i = 0; i < RIG_MOMENTS; i++) {
		rig_turn(r, g);
		cleanup_free char *got = ids(g);

		if (strcmp(got, want) == 0)
			return;
		rig_moment(r, g);
	}
	fail_msg("not %s in: %s", want, g->body.data);
}

static void evt_6_the_stream_begins_now(void **state)
{
	struct rig *r = *state;
	char value[256];

	kit_session(r->k, "s");
	cleanup_got struct got g = follow(r, "", "");

	assert_int_equal(g.status, 200);
	assert_string_equal(got_header(&g, "Content-Type", value), "text/event-stream");
	assert_string_equal(got_header(&g, "Cache-Control", value), "no-store");
	assert_ids(r, &g, "");
	add(r, EVENT_exec, "s", NULL);
	add(r, EVENT_exec, "other", NULL);
	add(r, EVENT_exec, "s", NULL);
	assert_ids(r, &g, "3 5 ");
	assert_non_null(strstr(g.body.data, "id: 3\ndata: {\"seq\":3,"));
	assert_false(g.whole);
	assert_int_equal(rig_metric(r, "agentsh_http_requests_total"), 1);
}

static void evt_6_the_stream_resumes_behind_an_id(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "s");
	add(r, EVENT_exec, "s", NULL);
	cleanup_got struct got all = follow(r, "", "Last-Event-ID: 0\r\n");
	cleanup_got struct got some = follow(r, "", "Last-Event-ID: 2\r\n");
	cleanup_got struct got none = follow(r, "", "Last-Event-ID: 3\r\n");

	assert_ids(r, &all, "1 2 3 ");
	assert_ids(r, &some, "3 ");
	assert_ids(r, &none, "");
	add(r, EVENT_exec, "s", NULL);
	assert_ids(r, &all, "1 2 3 4 ");
	assert_ids(r, &some, "3 4 ");
	assert_ids(r, &none, "4 ");
}

static void evt_6_bad_places_to_resume(void **state)
{
	static const struct {
		const char *id;
		int status;
	} rows[] = {
		{"x", 400},
		{"-1", 400},
		{"1x", 400},
		{"", 400},
		{"1234567890123456789", 400}, /* 19 digits */
		{"123456789012345678", 200},
	};
	struct rig *r = *state;

	kit_session(r->k, "s");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *header = mem_printf("Last-Event-ID: %s\r\n", rows[i].id);
		cleanup_got struct got g = follow(r, "", header);

		assert_int_equal(g.status, rows[i].status);
	}
}

static void evt_6_types(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "s");
	cleanup_got struct got one = follow(r, "?type=exec", "Last-Event-ID: 0\r\n");
	cleanup_got struct got two =
		follow(r, "?type=exec,session_created", "Last-Event-ID: 0\r\n");
	cleanup_got struct got bad = follow(r, "?type=exek", "");

	add(r, EVENT_exec, "s", NULL);
	add(r, EVENT_file_open, "s", NULL);
	assert_ids(r, &one, "3 ");
	assert_ids(r, &two, "1 3 ");
	assert_int_equal(bad.status, 400);
	assert_at(&bad.body, "error.message", "unknown event type 'exek' (did you mean exec?)");
}

/* The stream ends with the session's last event, also where it was not asked for. */
static void evt_6_the_stream_ends_with_the_session(void **state)
{
	static const enum event_type ends[] = {EVENT_session_destroyed, EVENT_session_failed};
	struct rig *r = *state;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		const bool destroyed = ends[i] == EVENT_session_destroyed;

		if (i == 0)
			kit_session(r->k, "s");
		cleanup_got struct got all = follow(r, "", "");
		cleanup_got struct got some = follow(r, "?type=exec", "");
		cleanup_got struct got its = follow(r, "?type=session_destroyed", "");

		add(r, ends[i], "other", NULL);
		rig_turn(r, &all);
		assert_false(all.whole);
		add(r, ends[i], "s", NULL);
		rig_finish(r, &all);
		rig_finish(r, &some);
		rig_finish(r, &its);
		assert_ids(r, &some, "");
		cleanup_free char *last = mem_printf("\"type\":\"%s\"", event_type_name(ends[i]));

		assert_non_null(strstr(all.body.data, last));
		assert_int_equal(strstr(its.body.data, last) != NULL, destroyed);
		/* as a session that had never ended, for the next round */
		sqlite3_exec(store_db(r->k->store),
			     "DELETE FROM events WHERE type LIKE 'session_%ed'", NULL, NULL, NULL);
		kit_turn(r->k);
	}
}

static void evt_6_the_stream_of_an_ended_session_ends(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "s");
	add(r, EVENT_session_destroyed, "s", NULL); /* 3 */
	cleanup_got struct got now = follow(r, "", "");
	cleanup_got struct got at = follow(r, "", "Last-Event-ID: 3\r\n");
	cleanup_got struct got before = follow(r, "", "Last-Event-ID: 2\r\n");
	cleanup_got struct got all = follow(r, "?type=session_created", "Last-Event-ID: 0\r\n");

	rig_finish(r, &now);
	rig_finish(r, &at);
	rig_finish(r, &before);
	rig_finish(r, &all);
	assert_ids(r, &now, "");
	assert_ids(r, &at, "");
	assert_ids(r, &before, "3 ");
	assert_ids(r, &all, "1 ");
}

static void evt_6_head_of_a_stream_ends(void **state)
{
	struct rig *r = *state;
	char value[256];

	kit_session(r->k, "s");
	cleanup_got struct got g = rig_connect(r, ON_TCP);

	rig_ask(&g, "HEAD " S "/events", KEY, NULL);
	rig_turn(r, &g);
	assert_int_equal(g.status, 200);
	assert_string_equal(got_header(&g, "Content-Type", value), "text/event-stream");
	rig_ask(&g, "GET /health", NULL, NULL); /* the connection serves on */
	rig_finish(r, &g);
	assert_int_equal(g.status, 200);
}

/* Far more than the socket takes: the feed falls behind, and catches up as the client reads. */
static void evt_6_a_slow_reader_misses_nothing(void **state)
{
	struct rig *r = *state;
	cleanup_free char *path = mem_alloc(3001);
	cleanup_buf struct buf want = {0};

	kit_session(r->k, "s");
	cleanup_got struct got g = follow(r, "", "");

	memset(path, 'p', 3000);
	for (int i = 0; i < 600; i++) {
		struct event e = {.type = EVENT_file_open,
				  .session_id = (char *)"s",
				  .path = path,
				  .count = 1};

		store_event(r->k->store, &e, NULL, 0);
		buf_addf(&want, "%d ", i + 3);
		if (i % 50 == 49)
			kit_turn(r->k);
	}
	rig_read(&g);
	assert_true(g.body.len > 0 && g.body.len < (size_t)600 * 3000);
	rig_expect(r, &g, "\nid: 602\n");
	cleanup_free char *seen = ids(&g);

	assert_string_equal(seen, want.data);
}

static void assert_history(struct rig *r, const char *query, const char *seqs, const char *next,
			   const char *total)
{
	cleanup_free char *what = mem_printf("GET " S "/history%s", query);
	cleanup_got struct got g = rig_call(r, "agent-1", what, NULL);
	cleanup_buf struct buf got = {0};

	assert_int_equal(g.status, 200);
	buf_adds(&got, "");
	for (const char *p = g.body.data; (p = strstr(p, "{\"seq\":")) != NULL; p += 7)
		buf_addf(&got, "%d ", atoi(p + 7));
	assert_string_equal(got.data, seqs);
	assert_at(&g.body, "next", next);
	assert_at(&g.body, "total", total);
	assert_at(&g.body, "total_exact", "true");
	assert_at(&g.body, "partial", "false");
}

static void evt_3_history(void **state)
{
	struct rig *r = *state;
	static const char *const bad[] = {"limit=0",
					  "limit=10001",
					  "offset=x",
					  "cursor=x",
					  "offset=4294967296",
					  "type=nope",
					  "decision=no",
					  "since=yesterday",
					  "until=x",
					  "session_id=s",
					  "newest=true",
					  "cursor=3:",
					  "cursor=:1",
					  "cursor=3:1:1",
					  "cursor=",
					  "cursor=-1",
					  "cursor=9223372036854775808",
					  "cursor=3:4294967296"};

	kit_session(r->k, "s"); /* 1 and 2 at the start, the others a second later */
	add(r, EVENT_exec, "s", "allow");
	add(r, EVENT_exec, "other", NULL);
	add(r, EVENT_file_open, "s", "deny");
	assert_history(r, "", "1 2 3 5 ", "", "4");
	assert_history(r, "?limit=4", "1 2 3 5 ", "", "4");
	assert_history(r, "?limit=3", "1 2 3 ", "3", "4");
	assert_history(r, "?limit=3&cursor=3", "5 ", "", "1");
	assert_history(r, "?limit=3&cursor=0:2", "3 5 ", "", "4");
	assert_history(r, "?limit=3&cursor=2:1&offset=9", "5 ", "", "2");
	assert_history(r, "?limit=3&cursor=2:4294967295", "", "", "2");
	assert_history(r, "?limit=2&offset=1", "2 3 ", "3", "4");
	assert_history(r, "?limit=2&offset=2", "3 5 ", "", "4");
	assert_history(r, "?limit=2&offset=9", "", "", "4");
	assert_history(r, "?limit=10000", "1 2 3 5 ", "", "4");
	assert_history(r, "?type=exec,file_open", "3 5 ", "", "2");
	assert_history(r, "?decision=deny", "5 ", "", "1");
	assert_history(r, "?decision=allow", "3 ", "", "1");
	assert_history(r, "?decision=log", "", "", "0");
	assert_history(r, "?decision=approve", "", "", "0");
	assert_history(r, "?since=2027-01-15T08:00:01Z", "3 5 ", "", "2");
	assert_history(r, "?until=2027-01-15T08:00:01Z", "1 2 ", "", "2");
	assert_history(r, "?since=87600h", "1 2 3 5 ", "", "4");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_free char *what = mem_printf("GET " S "/history?%s", bad[i]);

		assert_call(r, "agent-1", what, NULL, 400, "E_BAD_REQUEST");
	}
}

/* A client that leaves takes its question back; the next one is answered. */
static void evt_3_a_client_that_leaves_during_a_query(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "s");
	for (int i = 0; i < 3; i++) {
		struct got g = rig_connect(r, ON_TCP);

		add(r, EVENT_exec, "s", NULL);
		rig_ask(&g, "GET " S "/history", KEY, NULL);
		if (i > 0)
			rig_turn(r, &g);
		got_done(&g);
	}
	assert_history(r, "?type=exec", "3 4 5 ", "", "3");
}

static void evt_3_history_of_a_command(void **state)
{
	struct rig *r = *state;
	struct fake *f = kit_session(r->k, "s");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	kit_submit(r->k, "s", &request, &o);
	fake_run(r->k, f, 0, "");
	cleanup_free char *what = mem_printf("GET " S "/history?command_id=%s", o.id);
	cleanup_got struct got g = rig_call(r, "agent-1", what, NULL);

	assert_at(&g.body, "total", "3");
	assert_at(&g.body, "events.0.type", "command_queued");
	assert_at(&g.body, "events.2.type", "command_finished");
	kit_seen_done(&o);
}

static void evt_3_search_sees_all_sessions(void **state)
{
	struct rig *r = *state;

	kit_session(r->k, "s");
	add(r, EVENT_exec, "other", NULL);
	cleanup_got struct got all = rig_call(r, "admin-1", "GET /api/v1/events/search", NULL);
	cleanup_got struct got one =
		rig_call(r, "admin-1", "GET /api/v1/events/search?session_id=other", NULL);

	assert_at(&all.body, "total", "3");
	assert_at(&one.body, "total", "1");
	assert_call(r, "agent-1", "GET /api/v1/events/search", NULL, 403, "E_FORBIDDEN");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(evt_6_the_stream_begins_now),
		TEST(evt_6_the_stream_resumes_behind_an_id),
		TEST(evt_6_bad_places_to_resume),
		TEST(evt_6_types),
		TEST(evt_6_the_stream_ends_with_the_session),
		TEST(evt_6_the_stream_of_an_ended_session_ends),
		TEST(evt_6_head_of_a_stream_ends),
		TEST(evt_6_a_slow_reader_misses_nothing),
		TEST(evt_3_history),
		TEST(evt_3_a_client_that_leaves_during_a_query),
		TEST(evt_3_history_of_a_command),
		TEST(evt_3_search_sees_all_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
