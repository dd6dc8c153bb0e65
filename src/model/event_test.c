// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/event.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define T0 1767323045678901ULL /* 2026-01-02T03:04:05.678901Z */

static void evt_1_types_have_the_names_of_the_interface(void **state)
{
	static const char *const samples[] = {"session_created", "exec", "file_soft_deleted",
					      "unix_connect", "enforcement_failed"};

	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		const int t = event_type_by_name(samples[i]);

		assert_true(t >= 0);
		assert_string_equal(event_type_name((enum event_type)t), samples[i]);
	}
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		assert_int_equal(event_type_by_name(event_type_name((enum event_type)t)), t);
	assert_int_equal(event_type_by_name("file_opened"), -1);
	assert_int_equal(event_type_by_name(""), -1);
}

/* Rings of other versions hold these numbers: a name keeps its place, and new ones follow. */
static void evt_1_a_type_keeps_its_number(void **state)
{
	static const char *const names[] = {
		"session_created",
		"session_state",
		"session_updated",
		"session_destroyed",
		"session_failed",
		"command_queued",
		"command_started",
		"command_finished",
		"command_killed",
		"command_timeout",
		"exec",
		"file_open",
		"file_read",
		"file_write",
		"file_create",
		"file_delete",
		"file_rename",
		"file_stat",
		"file_chmod",
		"file_chown",
		"file_truncate",
		"file_link",
		"file_mknod",
		"file_xattr",
		"file_soft_deleted",
		"dir_create",
		"dir_delete",
		"dir_list",
		"symlink_create",
		"symlink_read",
		"dns_query",
		"net_connect",
		"net_close",
		"net_blocked",
		"unix_connect",
		"policy_loaded",
		"policy_reload_failed",
		"policy_violation",
		"approval_requested",
		"approval_resolved",
		"resource_limit",
		"resource_sample",
		"terminal_opened",
		"terminal_input",
		"terminal_signal",
		"terminal_closed",
		"events_dropped",
		"enforcement_failed",
		"unknown",
	};

	assert_int_equal(EVENT_TYPE_COUNT, ARRAY_LEN(names));
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		assert_string_equal(event_type_name((enum event_type)t), names[t]);
}

static void evt_1_classes_follow_the_names(void **state)
{
	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		const char *name = event_type_name((enum event_type)t);
		enum event_class want = EVENT_CLASS_OTHER;

		if (strcmp(name, "exec") == 0)
			want = EVENT_CLASS_EXEC;
		else if (strncmp(name, "file_", 5) == 0 || strncmp(name, "dir_", 4) == 0 ||
			 strncmp(name, "symlink_", 8) == 0)
			want = EVENT_CLASS_FILE;
		else if (strncmp(name, "net_", 4) == 0 || strcmp(name, "dns_query") == 0 ||
			 strcmp(name, "unix_connect") == 0)
			want = EVENT_CLASS_NETWORK;
		assert_int_equal(event_class((enum event_type)t), want);
	}
}

static char *arg(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void assert_json(const struct event *e, const char *want)
{
	struct buf out = {0};

	event_format(e, &out);
	assert_string_equal(out.data, want);
	buf_done(&out);
}

static void evt_1_parts_that_do_not_apply_are_absent(void **state)
{
	assert_json(&(struct event){.seq = 7, .type = EVENT_policy_loaded, .time_us = T0},
		    "{\"seq\":7,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"policy_loaded\",\"count\":1}");
	/* Numbers of a part do not make the part. */
	assert_json(&(struct event){.type = EVENT_net_close,
				    .time_us = T0,
				    .remote_port = 1,
				    .bytes_sent = 2,
				    .dns_type = arg("A"),
				    .exec_ppid = 3,
				    .policy_rule = arg("r"),
				    .exit_code = 4,
				    .duration_us = 5},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"net_close\",\"count\":1}");
}

static void evt_1_a_file_event_is_field_for_field_as_documented(void **state)
{
	struct event e = {
		.seq = 1,
		.schema = 1,
		.type = EVENT_file_write,
		.time_us = T0,
		.session_id = arg("session-1"),
		.command_id = arg("cmd-1"),
		.agent_id = arg("agent-1"),
		.request_id = arg("req-1"),
		.trace_id = arg("trace-1"),
		.pid = 12345,
		.count = 3,
		.latency_us = 234,
		.decision = arg("allow"),
		.policy_decision = arg("approve"),
		.policy_effective = arg("allow"),
		.policy_rule = arg("rule-1"),
		.policy_version = arg("sha256:00"),
		.path = arg("/workspace/a\"b"),
		.real_path = arg("/home/user/a\"b"),
		.op_flags = arg("O_WRONLY|O_TRUNC"),
		.op_bytes = 1024,
		.op_offset = 8,
		.op_has = EVENT_HAS_SIZES,
		.file_type = arg("text/x-python"),
		.size_after = 1032,
	};

	assert_json(&e,
		    "{\"seq\":1,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"file_write\",\"session_id\":\"session-1\",\"command_id\":\"cmd-1\","
		    "\"agent_id\":\"agent-1\",\"pid\":12345,\"count\":3,"
		    "\"path\":\"/workspace/a\\\"b\",\"real_path\":\"/home/user/a\\\"b\","
		    "\"operation\":{\"bytes\":1024,\"offset\":8,\"flags\":[\"O_WRONLY\","
		    "\"O_TRUNC\"]},\"decision\":\"allow\",\"policy\":{\"decision\":\"approve\","
		    "\"effective_decision\":\"allow\",\"rule\":\"rule-1\","
		    "\"version\":\"sha256:00\",\"approval\":{\"required\":true,"
		    "\"mode\":\"shadow\",\"approval_id\":null}},\"latency_us\":234,"
		    "\"metadata\":{\"file_type\":\"text/x-python\",\"file_size_before\":0,"
		    "\"file_size_after\":1032},\"request_id\":\"req-1\","
		    "\"trace_id\":\"trace-1\"}");
}

/* POL-2: only an operation without a question to an approver is in shadow mode. */
static void evt_1_an_approved_operation_was_not_in_shadow_mode(void **state)
{
	assert_json(&(struct event){.type = EVENT_file_write,
				    .time_us = T0,
				    .decision = arg("allow"),
				    .policy_decision = arg("approve"),
				    .policy_effective = arg("allow"),
				    .approved = 1,
				    .approval_id = arg("approval-1")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"file_write\",\"count\":1,\"decision\":\"allow\",\"policy\":"
		    "{\"decision\":\"approve\",\"effective_decision\":\"allow\",\"approval\":"
		    "{\"required\":true,\"mode\":\"enforced\",\"approval_id\":\"approval-1\"}}}");
}

static void evt_1_network_and_exec_parts(void **state)
{
	char *argv[] = {arg("id"), arg("-u"), NULL};

	assert_json(&(struct event){.type = EVENT_net_connect,
				    .time_us = T0,
				    .remote_addr = arg("::1"),
				    .remote_port = 443,
				    .local_port = 1,
				    .protocol = arg("tcp"),
				    .bytes_received = UINT64_MAX,
				    .dns_domain = arg("example.org"),
				    .dns_type = arg("A"),
				    .dns_from = arg("dns_cache"),
				    .tls_sni = arg("example.org"),
				    .tls_version = arg("TLS1.3")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"net_connect\",\"count\":1,\"connection\":{\"remote_addr\":\"::1\","
		    "\"remote_port\":443,\"local_port\":1,\"protocol\":\"tcp\",\"bytes_sent\":0,"
		    "\"bytes_received\":18446744073709551615},\"dns\":{\"domain\":\"example.org\","
		    "\"type\":\"A\",\"resolved_from\":\"dns_cache\"},"
		    "\"tls\":{\"sni\":\"example.org\",\"version\":\"TLS1.3\"}}");
	assert_json(&(struct event){.type = EVENT_exec,
				    .time_us = T0,
				    .exec_path = arg("/usr/bin/id"),
				    .exec_argv = {argv, 2},
				    .exec_cwd = arg("/workspace"),
				    .exec_ppid = 1,
				    .exec_verified = event_lend("stop")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"exec\",\"count\":1,\"exec\":{\"path\":\"/usr/bin/id\","
		    "\"argv\":[\"id\",\"-u\"],\"cwd\":\"/"
		    "workspace\",\"ppid\":1,\"verified\":\"stop\"}}");
	assert_json(
		&(struct event){.type = EVENT_net_connect, .time_us = T0, .tls_version = arg("v")},
		"{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		"\"type\":\"net_connect\",\"count\":1,\"tls\":{\"version\":\"v\"}}");
	assert_json(&(struct event){.type = EVENT_net_connect, .time_us = T0, .tls_sni = arg("s")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"net_connect\",\"count\":1,\"tls\":{\"sni\":\"s\"}}");
}

/* A denial has the same members as in an error's body. */
static void evt_1_denials(void **state)
{
	char *other[] = {arg("a"), arg("b\"c"), NULL};

	assert_json(&(struct event){.type = EVENT_exec,
				    .time_us = T0,
				    .decision = arg("deny"),
				    .policy_decision = arg("deny"),
				    .policy_rule = arg("no-id"),
				    .denied_op = arg("exec"),
				    .denied_target = arg("/usr/bin/id"),
				    .denied_reason = arg("not id"),
				    .denied_final = 1,
				    .alternatives = {other, 2}},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"exec\",\"count\":1,\"decision\":\"deny\",\"policy\":{"
		    "\"decision\":\"deny\",\"rule\":\"no-id\",\"reason\":\"not id\","
		    "\"operation\":\"exec\",\"target\":\"/usr/bin/id\",\"final\":true,"
		    "\"alternatives\":[\"a\",\"b\\\"c\"]}}");
	assert_json(&(struct event){.type = EVENT_exec,
				    .time_us = T0,
				    .policy_decision = arg("deny"),
				    .denied_op = arg("exec")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"exec\",\"count\":1,\"policy\":{\"decision\":\"deny\","
		    "\"reason\":\"\",\"operation\":\"exec\",\"target\":\"\",\"final\":false}}");
}

static void pol_2_a_log_is_marked(void **state)
{
	assert_json(&(struct event){.type = EVENT_exec,
				    .time_us = T0,
				    .decision = arg("allow"),
				    .policy_decision = arg("log"),
				    .policy_effective = arg("allow")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"exec\",\"count\":1,\"decision\":\"allow\",\"policy\":{"
		    "\"decision\":\"log\",\"effective_decision\":\"allow\",\"attention\":true}}");
}

static void evt_1_session_and_command_parts(void **state)
{
	assert_json(&(struct event){.type = EVENT_session_state,
				    .time_us = T0,
				    .state_from = arg("ready"),
				    .state_to = arg("busy"),
				    .reason = arg("why")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"session_state\",\"count\":1,"
		    "\"state\":{\"from\":\"ready\",\"to\":\"busy\"},\"reason\":\"why\"}");
	assert_json(
		&(struct event){.type = EVENT_session_state, .time_us = T0, .state_to = arg("x")},
		"{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		"\"type\":\"session_state\",\"count\":1,\"state\":{\"to\":\"x\"}}");
	assert_json(
		&(struct event){.type = EVENT_session_state, .time_us = T0, .state_from = arg("x")},
		"{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		"\"type\":\"session_state\",\"count\":1,\"state\":{\"from\":\"x\"}}");
	assert_json(&(struct event){.type = EVENT_command_started,
				    .time_us = T0,
				    .command_line = arg("npm install")},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"command_started\",\"count\":1,"
		    "\"command\":{\"line\":\"npm install\"}}");
	assert_json(&(struct event){.type = EVENT_command_finished,
				    .time_us = T0,
				    .has_exit = 1,
				    .exit_code = 137,
				    .signal = arg("KILL"),
				    .duration_us = 2341500},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"command_finished\",\"count\":1,\"command\":{\"exit_code\":137,"
		    "\"signal\":\"KILL\",\"duration_ms\":2341.5}}");
	assert_json(&(struct event){.type = EVENT_command_finished,
				    .time_us = T0,
				    .command_line = arg("true"),
				    .has_exit = 1},
		    "{\"seq\":0,\"schema\":1,\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
		    "\"type\":\"command_finished\",\"count\":1,\"command\":{\"line\":\"true\","
		    "\"exit_code\":0,\"duration_ms\":0}}");
}

static void evt_1_an_operation_shows_when_any_of_it_applies(void **state)
{
	static const struct {
		struct event e;
		const char *want; /* NULL: no operation */
	} row[] = {
		{{.type = EVENT_file_stat}, NULL},
		/* nothing is known of its bytes, which is not the same as none */
		{{.type = EVENT_file_read}, NULL},
		{{.op_has = EVENT_HAS_BYTES}, "\"operation\":{\"bytes\":0}"},
		{{.op_has = EVENT_HAS_OFFSET}, "\"operation\":{\"offset\":0}"},
		{{.op_bytes = 1}, "\"operation\":{\"bytes\":1}"},
		{{.op_offset = 1}, "\"operation\":{\"offset\":1}"},
		{{.op_error = ENOENT}, "\"operation\":{\"error\":\"ENOENT\"}"},
		{{.op_error = 4000}, "\"operation\":{\"error\":\"EIO\"}"},
	};
	struct event words = {
		.type = EVENT_file_open, .op_flags = arg(""), .op_to = arg("/workspace/b")};
	struct event metadata = {.type = EVENT_file_read, .file_type = arg("text/plain")};
	struct buf out = {0};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		buf_clear(&out);
		event_format(&row[i].e, &out);
		if (row[i].want != NULL)
			assert_non_null(strstr(out.data, row[i].want));
		else
			assert_null(strstr(out.data, "operation"));
	}
	buf_clear(&out);
	event_format(&words, &out);
	assert_non_null(strstr(out.data, "\"operation\":{\"to\":\"/workspace/b\",\"flags\":[]}"));
	buf_clear(&out);
	event_format(&metadata, &out);
	assert_non_null(strstr(out.data, "\"metadata\":{\"file_type\":\"text/plain\"}"));
	buf_done(&out);
}

/* Every row of the table filled with something of its own. */
static void fill(struct event *e, size_t len)
{
	static unsigned salt;

	for (size_t i = 0; i < event_fields.n; i++) {
		const struct field *row = &event_fields.row[i];
		char *at = (char *)e + row->offset;
		const size_t n = len != 0 ? len : row->max;

		if (row->type == FIELD_U32)
			*(uint32_t *)at = 1 + salt++ % 7;
		else if (row->type == FIELD_U64)
			*(uint64_t *)at = UINT64_MAX - salt++;
		else if (row->type == FIELD_STR)
			*(char **)at = memset(mem_alloc(n + 1), 'a' + (int)(salt++ % 26), n);
	}
}

static void evt_1_every_field_survives_packing(void **state)
{
	struct event e = {0}, back;
	struct buf a = {0}, b = {0};
	struct err err = {0};

	fill(&e, 5);
	strv_add(&e.exec_argv, "one");
	strv_add(&e.exec_argv, "");
	e.seq = 9;
	event_pack(&e, &a);
	assert_int_equal(event_unpack(a.data, a.len, &back, &err), 0);
	assert_int_equal(back.seq, 0);
	back.seq = 9;
	event_pack(&back, &b);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.data, b.data, a.len);
	buf_clear(&a);
	buf_clear(&b);
	event_format(&e, &a);
	event_format(&back, &b);
	assert_string_equal(a.data, b.data);
	buf_done(&a);
	buf_done(&b);
	event_done(&e);
	event_done(&back);
}

/* Packs the event and unpacks it again. */
static void repack(const struct event *e, struct event *back)
{
	cleanup_buf struct buf out = {0};

	event_pack(e, &out);
	assert_int_equal(event_unpack(out.data, out.len, back, NULL), 0);
}

static void evt_1_a_producer_may_leave_schema_and_count(void **state)
{
	struct event e = {.type = EVENT_exec}, back;

	repack(&e, &back);
	assert_int_equal(back.schema, EVENT_SCHEMA);
	assert_int_equal(back.count, 1);
	assert_null(back.path);
	event_done(&back);

	e.schema = 2;
	e.count = 5;
	repack(&e, &back);
	assert_int_equal(back.schema, 2);
	assert_int_equal(back.count, 5);
	event_done(&back);
}

/* Known: the empty string gives cbf29ce484222325, "a" af63dc4c8601ec8c. */
static const char *fnv1a(const char *s)
{
	static char text[17];
	uint64_t h = 0xcbf29ce484222325;

	for (; *s != '\0'; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3;
	snprintf(text, sizeof(text), "%016llx", (unsigned long long)h);
	return text;
}

static void evt_1_values_at_their_limit_stay_whole_and_longer_ones_are_cut(void **state)
{
	struct event e = {.type = EVENT_file_open}, back, other;
	char path[4096 + 2];

	memset(path, 'p', sizeof(path));
	path[4096] = '\0';
	e.path = path;
	repack(&e, &back);
	assert_string_equal(back.path, path);
	event_done(&back);

	path[4096] = 'p';
	path[4097] = '\0';
	repack(&e, &back);
	assert_int_equal(strlen(back.path), 4096);
	assert_memory_equal(back.path, path, 4096 - 20);
	assert_memory_equal(back.path + 4096 - 20, "…#", 4);
	assert_string_equal(back.path + 4096 - 16, fnv1a(path));
	assert_string_equal(e.path, path);

	/* What was cut off still tells two values apart. */
	path[4096] = 'q';
	repack(&e, &other);
	assert_memory_equal(back.path, other.path, 4096 - 16);
	assert_string_not_equal(back.path, other.path);
	event_done(&other);
	event_done(&back);
}

static void evt_1_the_longest_of_everything_fits(void **state)
{
	for (size_t extra = 0; extra < 2; extra++) {
		struct event e = {0}, back;
		struct buf out = {0};
		struct err err = {0};

		fill(&e, extra * 20000);
		for (unsigned i = 0; i < 1000; i++)
			strv_add(&e.exec_argv, "0123456789");
		for (unsigned i = 0; i < 1000; i++)
			strv_add(&e.alternatives, "0123456789");
		buf_adds(&out, "before");
		event_pack(&e, &out);
		assert_in_range(out.len - 6, 15000, EVENT_MAX);
		assert_int_equal(event_unpack(out.data + 6, out.len - 6, &back, &err), 0);
		event_done(&back);
		event_done(&e);
		buf_done(&out);
	}
}

static void pack_argv(const struct strv *argv, struct event *back)
{
	repack(&(struct event){.type = EVENT_exec, .exec_argv = *argv}, back);
}

static void evt_1_many_arguments_become_a_cut_last_one(void **state)
{
	struct strv argv = {0};
	struct event back;

	for (unsigned i = 0; i < 128; i++)
		strv_add(&argv, "x");
	pack_argv(&argv, &back);
	assert_int_equal(back.exec_argv.n, 128);
	assert_string_equal(back.exec_argv.v[127], "x");
	event_done(&back);

	strv_add(&argv, "y");
	pack_argv(&argv, &back);
	assert_int_equal(back.exec_argv.n, 128);
	assert_string_equal(back.exec_argv.v[126], "x");
	assert_memory_equal(back.exec_argv.v[127], "x…#", 5);
	assert_int_equal(strlen(back.exec_argv.v[127]), 1 + 4 + 16);
	event_done(&back);
	strv_done(&argv);
}

static void evt_1_long_arguments_are_cut_at_the_total(void **state)
{
	char big[2048 + 1];
	struct strv argv = {0};
	struct event back;

	/* 8 + 2040 bytes are the most. */
	memset(big, 'z', sizeof(big));
	big[2040] = '\0';
	strv_add(&argv, "12345678");
	strv_add(&argv, big);
	pack_argv(&argv, &back);
	assert_int_equal(back.exec_argv.n, 2);
	assert_string_equal(back.exec_argv.v[1], big);
	event_done(&back);

	strv_add(&argv, "e");
	pack_argv(&argv, &back);
	assert_int_equal(back.exec_argv.n, 2);
	assert_string_equal(back.exec_argv.v[0], "12345678");
	assert_int_equal(strlen(back.exec_argv.v[1]), 2040);
	assert_memory_equal(back.exec_argv.v[1] + 2040 - 20, "…#", 4);
	event_done(&back);
	strv_done(&argv);

	/* An argument that leaves just the mark's room is kept whole. */
	big[2040] = 'z';
	big[2048 - 20] = '\0';
	strv_add(&argv, big);
	big[2048 - 20] = 'z';
	big[40] = '\0';
	strv_add(&argv, big);
	pack_argv(&argv, &back);
	assert_int_equal(back.exec_argv.n, 2);
	assert_int_equal(strlen(back.exec_argv.v[0]), 2048 - 20);
	assert_int_equal(strlen(back.exec_argv.v[1]), 20);
	event_done(&back);
	strv_done(&argv);
}

static void evt_1_foreign_bytes_are_refused_and_newer_fields_passed_over(void **state)
{
	const struct event e = {.type = EVENT_enforcement_failed, .reason = arg("r")};
	struct event back = {.seq = 77};
	struct buf out = {0};
	struct err err = {0};
	uint32_t v;

	event_pack(&e, &out);
	buf_adds(&out, "newer");
	assert_int_equal(event_unpack(out.data, out.len, &back, &err), 0);
	assert_string_equal(back.reason, "r");
	event_done(&back);

	back.seq = 77;
	v = 0;
	memcpy(out.data + 4, &v, 4);
	assert_int_equal(event_unpack(out.data, 7, &back, &err), -E_BAD_REQUEST);
	memcpy(out.data, &v, 4);
	assert_int_equal(event_unpack(out.data, out.len, &back, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "event.schema or event.count: 0");
	/* Schema and type alone have no count. */
	v = 1;
	memcpy(out.data, &v, 4);
	assert_int_equal(event_unpack(out.data, 8, &back, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "event.schema or event.count: 0");
	assert_int_equal(event_unpack("", 0, &back, &err), -E_BAD_REQUEST);
	assert_int_equal(back.seq, 77);
	buf_done(&out);
}

static void evt_1_a_type_of_a_newer_version_is_unknown_and_keeps_its_fields(void **state)
{
	static const uint32_t numbers[] = {EVENT_unknown, EVENT_TYPE_COUNT, UINT32_MAX};
	const struct event e = {.type = EVENT_exec, .time_us = T0, .reason = arg("r")};

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		cleanup_free char *want =
			mem_printf("{\"seq\":0,\"schema\":1,"
				   "\"timestamp\":\"2026-01-02T03:04:05.678901Z\","
				   "\"type\":\"unknown\",\"type_number\":%u,\"count\":1,"
				   "\"reason\":\"r\"}",
				   numbers[i]);
		cleanup_buf struct buf out = {0}, again = {0};
		struct event back;

		event_pack(&e, &out);
		memcpy(out.data + 4, &numbers[i], 4);
		assert_int_equal(event_unpack(out.data, out.len, &back, NULL), 0);
		assert_int_equal(back.type, EVENT_unknown);
		assert_int_equal(event_class((enum event_type)back.type), EVENT_CLASS_OTHER);
		assert_json(&back, want);
		event_pack(&back, &again);
		assert_int_equal(again.len, out.len);
		assert_memory_equal(again.data, out.data, out.len);
		event_done(&back);
	}
}

static void evt_1_an_event_has_a_longest_packed_form(void **state)
{
	const struct event e = {.type = EVENT_exec};
	struct event back;
	struct buf out = {0};
	struct err err = {0};

	event_pack(&e, &out);
	while (out.len < EVENT_MAX)
		buf_addc(&out, 'n');
	assert_int_equal(event_unpack(out.data, out.len, &back, &err), 0);
	event_done(&back);
	buf_addc(&out, 'n');
	assert_int_equal(event_unpack(out.data, out.len, &back, &err), -E_BAD_REQUEST);
	buf_done(&out);
}

static void sbx_4_a_limit_that_was_hit(void **state)
{
	struct event e = {.type = EVENT_resource_limit,
			  .count = 2,
			  .limit = (char *)"memory_limit",
			  .counter = (char *)"oom_kills",
			  .value = 7};
	cleanup_buf struct buf json = {0};
	struct event back;

	repack(&e, &back);
	assert_string_equal(back.limit, "memory_limit");
	assert_string_equal(back.counter, "oom_kills");
	assert_int_equal(back.value, 7);
	event_format(&back, &json);
	assert_non_null(strstr(json.data, "\"resource\":{\"limit\":\"memory_limit\",\"counter\":"
					  "\"oom_kills\",\"value\":7}"));
	event_done(&back);
	e.limit = NULL;
	buf_clear(&json);
	event_format(&e, &json);
	assert_null(strstr(json.data, "resource\":"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evt_1_types_have_the_names_of_the_interface),
		cmocka_unit_test(evt_1_a_type_keeps_its_number),
		cmocka_unit_test(evt_1_classes_follow_the_names),
		cmocka_unit_test(evt_1_parts_that_do_not_apply_are_absent),
		cmocka_unit_test(evt_1_a_file_event_is_field_for_field_as_documented),
		cmocka_unit_test(evt_1_an_approved_operation_was_not_in_shadow_mode),
		cmocka_unit_test(evt_1_network_and_exec_parts),
		cmocka_unit_test(evt_1_denials),
		cmocka_unit_test(pol_2_a_log_is_marked),
		cmocka_unit_test(evt_1_session_and_command_parts),
		cmocka_unit_test(evt_1_an_operation_shows_when_any_of_it_applies),
		cmocka_unit_test(evt_1_every_field_survives_packing),
		cmocka_unit_test(evt_1_a_producer_may_leave_schema_and_count),
		cmocka_unit_test(evt_1_values_at_their_limit_stay_whole_and_longer_ones_are_cut),
		cmocka_unit_test(evt_1_the_longest_of_everything_fits),
		cmocka_unit_test(evt_1_many_arguments_become_a_cut_last_one),
		cmocka_unit_test(evt_1_long_arguments_are_cut_at_the_total),
		cmocka_unit_test(evt_1_foreign_bytes_are_refused_and_newer_fields_passed_over),
		cmocka_unit_test(evt_1_a_type_of_a_newer_version_is_unknown_and_keeps_its_fields),
		cmocka_unit_test(evt_1_an_event_has_a_longest_packed_form),
		cmocka_unit_test(sbx_4_a_limit_that_was_hit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
