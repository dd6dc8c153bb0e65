// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "session/drain.h"
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"

/* Runs one command whose result the caller may change before it is sent. */
typedef void change_fn(struct warden_result *r);

static struct buf run(struct kit *k, const struct exec_request *request, const char *out,
		      change_fn *change)
{
	struct fake *f = &k->warden[0];
	struct seen_by o = {0};
	struct warden_result r;
	struct buf answer;

	kit_submit(k, f->id, request, &o);
	fake_take_exec(f);
	r = fake_result(f, 0, out);
	if (change != NULL)
		change(&r);
	fake_send(k, f, MSG_warden_result, &r);
	kit_skip(&f->link, MSG_warden_ack);
	assert_int_equal(o.done, 1);
	answer = o.answer;
	o.answer = (struct buf){0};
	kit_seen_done(&o);
	return answer;
}

static void exe_1_every_field_of_the_interface_is_there(void **state)
{
	static const char *const fields[] = {
		"command_id",
		"session_id",
		"timestamp",
		"request.command",
		"request.args",
		"request.script",
		"request.working_dir",
		"request.timeout",
		"result.exit_code",
		"result.signal",
		"result.stdout",
		"result.stderr",
		"result.stdout_encoding",
		"result.stderr_encoding",
		"result.stdout_truncated",
		"result.stdout_total_bytes",
		"result.stdout_total_lines",
		"result.stderr_truncated",
		"result.stderr_total_bytes",
		"result.stderr_total_lines",
		"result.duration_ms",
		"result.error",
		"result.background",
		"result.pagination.current_offset",
		"result.pagination.current_limit",
		"result.pagination.has_more",
		"result.pagination.next_command",
		"events.file_operations",
		"events.network_operations",
		"events.exec_operations",
		"events.blocked_operations",
		"events.totals.file",
		"events.totals.network",
		"events.totals.exec",
		"events.totals.blocked",
		"events.truncated",
		"events.query",
		"network_summary.connections",
		"network_summary.dns_queries",
		"network_summary.bytes_sent",
		"network_summary.bytes_received",
		"network_summary.blocked_connections",
		"network_summary.unique_destinations",
		"resources.cpu_time_ms",
		"resources.memory_peak_mb",
		"resources.disk_read_mb",
		"resources.disk_write_mb",
		"resources.net_sent_kb",
		"resources.net_received_kb",
		"state.working_dir",
		"state.environment_changed",
		"enforcement.0.wall",
		"enforcement.0.state",
		"enforcement.0.detail",
	};
	struct kit *k = *state;
	struct exec_request request = kit_request("npm");
	char *args[] = {kit_text("install"), NULL};
	cleanup_buf struct buf a = {0};

	kit_session(k, "s1");
	request.args = (struct strv){args, 1};
	request.command_id = kit_text("c1");
	a = run(k, &request, "out\n", NULL);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		free(kit_at(&a, fields[i]));
	assert_at(&a, "command_id", "c1");
	assert_at(&a, "session_id", "s1");
	assert_at(&a, "timestamp", "2027-01-15T08:00:00.000000Z");
	assert_at(&a, "request",
		  "{\"command\":\"npm\",\"args\":[\"install\"],\"script\":null,"
		  "\"argv0\":null,\"working_dir\":\"/workspace\",\"timeout\":\"5m\"}");
	assert_at(&a, "result.stdout", "out\n");
	assert_at(&a, "result.stdout_encoding", "text");
	assert_at(&a, "result.stdout_truncated", "false");
	assert_at(&a, "result.stdout_total_bytes", "4");
	assert_at(&a, "result.stdout_total_lines", "1");
	assert_at(&a, "result.stderr", "");
	assert_at(&a, "result.duration_ms", "2");
	assert_at(&a, "result.error", "null");
	assert_at(&a, "result.pagination",
		  "{\"current_offset\":0,\"current_limit\":10000,"
		  "\"has_more\":false,\"next_command\":null}");
	assert_at(&a, "events.query", "/api/v1/sessions/s1/history?command_id=c1");
	assert_non_null(strstr(a.data, "\"cpu_time_ms\":0.89,"));
	assert_at(&a, "resources.memory_peak_mb", "2");
}

static void exe_1_a_script_has_no_arguments(void **state)
{
	struct kit *k = *state;
	struct exec_request request = kit_request(NULL);
	cleanup_buf struct buf a = {0};

	kit_session(k, "s1");
	kit_get(k, "s1")->config.limits.value[LIMIT_command_timeout] = 0;
	request.script = kit_text("cd /tmp && ls");
	a = run(k, &request, "", NULL);
	assert_at(&a, "request",
		  "{\"command\":null,\"args\":[],\"script\":\"cd /tmp && ls\","
		  "\"argv0\":null,\"working_dir\":\"/workspace\",\"timeout\":null}");
}

static void exe_3_output_is_cut_at_its_limit(void **state)
{
	struct kit *k = *state;
	struct exec_request request = kit_request("true");
	cleanup_buf struct buf a = {0}, b = {0}, c = {0}, d = {0};

	kit_session(k, "s1");
	request.command_id = kit_text("c1");
	request.max_output_bytes = 4;
	a = run(k, &request, "abcd", NULL);
	assert_at(&a, "result.stdout", "abcd");
	assert_at(&a, "result.stdout_truncated", "false");
	assert_at(&a, "result.pagination.has_more", "false");
	request.command_id = kit_text("c2");
	b = run(k, &request, "abcde", NULL);
	assert_at(&b, "result.stdout", "abcd");
	assert_at(&b, "result.stdout_truncated", "true");
	assert_at(&b, "result.stdout_total_bytes", "5");
	assert_at(&b, "result.pagination.has_more", "true");
	assert_at(&b, "result.pagination.next_command", "agentsh output c2 --offset=4 --limit=4");
	request.command_id = kit_text("c3");
	c = run(k, &request, "abc\xc3\xa4", NULL); /* not in the middle of a character */
	assert_at(&c, "result.stdout", "abc");
	assert_at(&c, "result.pagination.next_command", "agentsh output c3 --offset=3 --limit=4");
	request.command_id = kit_text("c4");
	request.max_output_bytes = 0;
	d = run(k, &request, "x", NULL);
	assert_at(&d, "result.stdout", "");
	assert_at(&d, "result.stdout_truncated", "true");
	assert_at(&d, "result.pagination.next_command",
		  "agentsh output c4 --offset=0 --limit=10000");
}

static void more_than_kept(struct warden_result *r)
{
	r->stdout_bytes = 100;
}

static void exe_3_what_the_quota_dropped_is_not_promised(void **state)
{
	struct kit *k = *state;
	struct exec_request request = kit_request("true");
	cleanup_buf struct buf a = {0};

	kit_session(k, "s1");
	a = run(k, &request, "kept", more_than_kept);
	assert_at(&a, "result.stdout", "kept");
	assert_at(&a, "result.stdout_truncated", "true");
	assert_at(&a, "result.stdout_total_bytes", "100");
	assert_at(&a, "result.pagination.has_more", "false");
}

static void exe_3_errors_are_paged_by_their_name(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	struct warden_result r;

	request.command_id = kit_text("c1");
	request.max_output_bytes = 2;
	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	assert_int_equal(fdio_write_all(f->out[1], "\xff\xfe\xfd", 3), 0);
	r = fake_result(f, 0, "");
	r.stderr_bytes = r.stderr_kept = 3;
	r.stderr_lines = 1;
	fake_send(k, f, MSG_warden_result, &r);
	assert_at(&o.answer, "result.stderr", "//4=");
	assert_at(&o.answer, "result.stderr_encoding", "base64");
	assert_at(&o.answer, "result.stderr_truncated", "true");
	assert_at(&o.answer, "result.stderr_total_lines", "1");
	assert_at(&o.record, "stderr_total_bytes", "3");
	assert_at(&o.record, "stderr_total_lines", "1");
	assert_at(&o.record, "stdout_total_bytes", "0");
	assert_at(&o.answer, "result.pagination.next_command",
		  "agentsh output c1 --stream=stderr --offset=2 --limit=2");
	kit_seen_done(&o);
}

static void with_error(struct warden_result *r)
{
	static char *left[] = {(char *)"ended 12 sleep 60", (char *)"kept 13 ", (char *)"odd",
			       NULL};

	r->exit_code = 127;
	r->error_code = kit_text("E_COMMAND_NOT_FOUND");
	r->error_message = kit_text("no such program");
	r->error_path = kit_text("/bin/nope");
	r->background = (struct strv){left, 3};
}

static void exe_2_an_error_has_its_context(void **state)
{
	struct kit *k = *state;
	struct exec_request request = kit_request("nope");
	char *args[] = {kit_text("-x"), NULL};
	cleanup_buf struct buf a = {0};

	kit_session(k, "s1");
	request.args = (struct strv){args, 1};
	request.command_id = kit_text("c1");
	a = run(k, &request, "", with_error);
	assert_at(&a, "result.exit_code", "127");
	assert_at(&a, "result.error",
		  "{\"code\":\"E_COMMAND_NOT_FOUND\",\"message\":\"no such "
		  "program\",\"subject\":\"c1\","
		  "\"path\":\"/bin/nope\",\"context\":{\"working_dir\":\"/workspace\",\"command\":"
		  "\"nope -x\"},\"suggestions\":[{\"action\":\"list_directory\",\"command\":\"ls "
		  "/bin\","
		  "\"reason\":\"See what files exist\"}],\"similar_files\":[],"
		  "\"request_id\":\"req-1\"}");
	assert_at(&a, "result.background.0",
		  "{\"pid\":12,\"command\":\"sleep 60\",\"action\":\"ended\"}");
	assert_at(&a, "result.background.1", "{\"pid\":13,\"command\":\"\",\"action\":\"kept\"}");
	assert_at(&a, "result.background.2", "{\"pid\":0,\"command\":\"\",\"action\":\"odd\"}");
}

/* ---- events ---- */

static void put(struct fake *f, struct event *e)
{
	uint64_t end;

	e->schema = EVENT_SCHEMA;
	e->time_us = KIT_START_US;
	e->command_id = f->command;
	assert_int_equal(journal_append(f->journal, e, &end, NULL), 0);
}

static void evt_1_operations_are_listed_by_kind(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	struct event read = {.type = EVENT_file_read,
			     .count = 2,
			     .path = kit_text("/a"),
			     .op_bytes = 10,
			     .decision = kit_text("allow")};
	struct event write = {
		.type = EVENT_file_write, .count = 1, .path = kit_text("/b"), .op_bytes = 7};
	struct event denied = {.type = EVENT_file_open,
			       .count = 1,
			       .path = kit_text("/c"),
			       .decision = kit_text("deny"),
			       .policy_decision = kit_text("deny")};
	struct event shadow = {.type = EVENT_file_open,
			       .count = 1,
			       .path = kit_text("/d"),
			       .decision = kit_text("allow"),
			       .policy_decision = kit_text("deny")};
	struct event dns = {.type = EVENT_dns_query, .count = 3, .dns_domain = kit_text("x.org")};
	struct event con = {.type = EVENT_net_connect,
			    .count = 1,
			    .remote_addr = kit_text("::1"),
			    .remote_port = 443,
			    .bytes_sent = 1024,
			    .bytes_received = 2048};
	struct event four = {.type = EVENT_net_connect,
			     .count = 1,
			     .remote_addr = kit_text("10.0.0.1"),
			     .remote_port = 80};
	struct event blocked = {
		.type = EVENT_net_blocked, .count = 1, .decision = kit_text("deny")};
	struct session *s;

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	put(f, &read);
	put(f, &write);
	put(f, &denied);
	put(f, &shadow);
	put(f, &dns);
	put(f, &con);
	put(f, &con);
	put(f, &four);
	put(f, &blocked);
	fake_finish(k, f, 0, "");
	assert_at(&o.answer, "events.totals",
		  "{\"file\":4,\"network\":6,\"exec\":0,\"blocked\":2}");
	assert_at(&o.answer, "events.file_operations.0.path", "/a");
	assert_at(&o.answer, "events.file_operations.1.path", "/b");
	assert_at(&o.answer, "events.file_operations.2.path", "/d");
	assert_at(&o.answer, "events.blocked_operations.0.path", "/c");
	assert_at(&o.answer, "events.blocked_operations.1.type", "net_blocked");
	assert_at(&o.answer, "events.exec_operations", "[]");
	assert_at(&o.answer, "events.truncated", "false");
	assert_at(
		&o.answer, "network_summary",
		"{\"connections\":3,\"dns_queries\":3,\"bytes_sent\":2048,\"bytes_received\":4096,"
		"\"blocked_connections\":1,\"unique_destinations\":[\"[::1]:443\",\"10.0.0.1:80\"]"
		"}");
	assert_at(&o.answer, "resources.net_sent_kb", "2");
	assert_at(&o.answer, "resources.net_received_kb", "4");
	s = kit_get(k, "s1");
	assert_int_equal(s->totals.file_ops, 5);
	assert_int_equal(s->totals.net_ops, 7);
	assert_int_equal(s->totals.bytes_read, 10);
	assert_int_equal(s->totals.bytes_written, 7);
	kit_seen_done(&o);
}

static void evt_1_lists_are_capped_with_totals(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");

	for (int n = 100; n <= 101; n++) {
		struct seen_by o = {0};
		cleanup_free char *total = mem_printf("%d", n);
		struct event denied = {.type = EVENT_exec, .decision = kit_text("deny")};
		struct event exec = {.type = EVENT_exec, .exec_path = kit_text("/bin/true")};
		json_t *doc = NULL;

		kit_submit(k, "s1", &request, &o);
		fake_take_exec(f);
		put(f, &denied);
		for (int i = 0; i < n; i++)
			put(f, &exec);
		fake_finish(k, f, 0, "");
		kit_skip(&f->link, MSG_warden_ack);
		assert_at(&o.answer, "events.totals.exec", total);
		assert_at(&o.answer, "events.totals.blocked", "1");
		assert_at(&o.answer, "events.truncated", n > 100 ? "true" : "false");
		assert_int_equal(json_parse(o.answer.data, o.answer.len, &doc, NULL), 0);
		assert_int_equal(json_array_size(json_object_get(json_object_get(doc, "events"),
								 "exec_operations")),
				 100);
		json_decref(doc);
		kit_seen_done(&o);
	}
}

/* The counts of what is listed decide whether something is missing, not their number. */
static void fil_2_folded_repeats_are_counted(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct event unlink = {.type = EVENT_file_delete, .count = 5000, .path = kit_text("/x")};
	struct event read = {.type = EVENT_file_read,
			     .count = 2,
			     .path = kit_text("/x"),
			     .op_has = EVENT_HAS_BYTES,
			     .op_bytes = 3 << 20};
	struct event write = {
		.type = EVENT_file_write, .path = kit_text("/x"), .op_bytes = 1 << 19};
	struct seen_by o = {0};
	struct warden_result r;
	cleanup_buf struct buf again = {0};

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	put(f, &unlink);
	put(f, &read);
	put(f, &write);
	r = fake_result(f, 0, "");
	r.read_bytes = 1 << 20; /* most came from the page cache */
	r.write_bytes = 1 << 20;
	fake_send(k, f, MSG_warden_result, &r);
	kit_skip(&f->link, MSG_warden_ack);
	assert_at(&o.answer, "events.totals.file", "5003");
	assert_at(&o.answer, "events.truncated", "false");
	assert_at(&o.answer, "events.file_operations.0.count", "5000");
	assert_at(&o.answer, "resources.disk_read_mb", "3");
	assert_at(&o.answer, "resources.disk_write_mb", "1");
	/* from the store, as a later request gets it */
	again = kit_command_answer(k, o.id);
	assert_at(&again, "events.totals.file", "5003");
	assert_at(&again, "events.truncated", "false");
	assert_at(&again, "resources.disk_read_mb", "3");
	kit_seen_done(&o);
}

static void exe_1_destinations_are_capped(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	struct event con = {
		.type = EVENT_net_connect, .count = 1, .remote_addr = kit_text("10.0.0.1")};
	json_t *doc = NULL;

	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	for (con.remote_port = 1; con.remote_port <= 101; con.remote_port++)
		put(f, &con);
	fake_finish(k, f, 0, "");
	assert_at(&o.answer, "network_summary.connections", "101");
	assert_at(&o.answer, "network_summary.unique_destinations.99", "10.0.0.1:100");
	assert_int_equal(json_parse(o.answer.data, o.answer.len, &doc, NULL), 0);
	assert_int_equal(json_array_size(json_object_get(json_object_get(doc, "network_summary"),
							 "unique_destinations")),
			 100);
	json_decref(doc);
	kit_seen_done(&o);
}

static void evt_1_another_sessions_events_are_not_mixed_in(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1"), *g = kit_session(k, "s2");
	struct exec_request request = kit_request("true");
	struct seen_by o = {0};
	struct event forged = {
		.type = EVENT_exec, .session_id = kit_text("s1"), .agent_id = kit_text("agent-9")};
	struct event exec = {.type = EVENT_exec};

	request.command_id = kit_text("c1");
	kit_submit(k, "s1", &request, &o);
	fake_take_exec(f);
	memcpy(g->command, "c1", 3);
	put(g, &forged);
	session_drain(kit_get(k, "s2"), NULL);
	kit_turn(k);
	put(f, &exec);
	fake_finish(k, f, 0, "");
	assert_at(&o.answer, "events.totals.exec", "1");
	assert_at(&o.answer, "events.exec_operations.0.session_id", "s1");
	assert_events(k, "s2", "session_created session_state:ready exec");
	kit_seen_done(&o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_1_every_field_of_the_interface_is_there),
		TEST(exe_1_a_script_has_no_arguments),
		TEST(exe_3_output_is_cut_at_its_limit),
		TEST(exe_3_what_the_quota_dropped_is_not_promised),
		TEST(exe_3_errors_are_paged_by_their_name),
		TEST(exe_2_an_error_has_its_context),
		TEST(evt_1_operations_are_listed_by_kind),
		TEST(evt_1_lists_are_capped_with_totals),
		TEST(fil_2_folded_repeats_are_counted),
		TEST(exe_1_destinations_are_capped),
		TEST(evt_1_another_sessions_events_are_not_mixed_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
