// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/request.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static json_t *parse(const char *text)
{
	struct err err = {0};
	json_t *obj = NULL;

	if (json_parse(text, strlen(text), &obj, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	return obj;
}

static int read_session(const char *text, struct session_request *w, struct err *err)
{
	struct err own = {0};
	json_t *obj = parse(text);
	const int r = session_request_read(obj, w, err != NULL ? err : &own);

	json_decref(obj);
	return r;
}

static int read_patch(const char *text, struct session_request *w, struct err *err)
{
	struct err own = {0};
	json_t *obj = parse(text);
	const int r = session_patch_read(obj, w, err != NULL ? err : &own);

	json_decref(obj);
	return r;
}

static int read_exec(const char *text, struct exec_request *w, struct err *err)
{
	struct err own = {0};
	json_t *obj = parse(text);
	const int r = exec_request_read(obj, w, err != NULL ? err : &own);

	json_decref(obj);
	return r;
}

/* text with %s replaced by n times c */
static char *filled(const char *text, char c, size_t n)
{
	cleanup_free char *run = mem_alloc(n + 1);
	const char *at = strstr(text, "%s");

	assert_non_null(at);
	memset(run, c, n);
	return mem_printf("%.*s%s%s", (int)(at - text), text, run, at + 2);
}

struct bad {
	const char *text, *field, *problem;
};

static void expect_bad(const struct bad *row, int r, const struct err *err)
{
	if (r != -E_BAD_REQUEST)
		fail_msg("%s: accepted", row->text);
	assert_int_equal(err->code, E_BAD_REQUEST);
	for (unsigned i = 0; i < err->ndetails; i++)
		if (strcmp(err->details[i].field, row->field) == 0 &&
		    strstr(err->details[i].problem, row->problem) != NULL) {
			assert_non_null(strstr(err->message, row->field));
			return;
		}
	fail_msg("%s: no '%s: %s' but '%s: %s'", row->text, row->field, row->problem,
		 err->details[0].field, err->details[0].problem);
}

static void ses_3_a_session_request_is_read(void **state)
{
	struct session_request w;

	assert_int_equal(
		read_session(
			"{\"id\": \"session-abc123\", \"workspace\": \"/home/user/project\", "
			"\"policy\": \"observe\","
			"\"timeout\": \"4h\", \"idle_timeout\": \"30m\", \"background\": \"keep\", "
			"\"agent_id\": \"agent-1\","
			"\"resource_limits\": {\"max_memory_mb\": 2048, \"max_cpu_percent\": 80, "
			"\"max_disk_mb\": 1000,"
			" \"max_network_mb\": 500, \"pids_max\": 100, \"command_timeout\": \"5m\"},"
			"\"network\": {\"allowed_domains\": [\"github.com\"], \"blocked_domains\": "
			"[\"*.bad\"],"
			" \"allowed_ports\": [80, 443]}, \"environment\": {\"LANG\": \"C.UTF-8\"},"
			"\"limits\": {\"max_commands\": 1, \"max_file_ops\": 2, \"max_net_ops\": "
			"3}}",
			&w, NULL),
		0);
	assert_string_equal(w.id, "session-abc123");
	assert_string_equal(w.workspace, "/home/user/project");
	assert_string_equal(w.policy, "observe");
	assert_string_equal(w.background, "keep");
	assert_string_equal(w.agent_id, "agent-1");
	assert_int_equal(w.limits.value[LIMIT_session_timeout], 4 * 3600 * 1000);
	assert_int_equal(w.limits.value[LIMIT_idle_timeout], 30 * 60 * 1000);
	assert_int_equal(w.limits.value[LIMIT_max_memory_mb], 2048);
	assert_int_equal(w.limits.value[LIMIT_max_cpu_percent], 80);
	assert_int_equal(w.limits.value[LIMIT_max_disk_mb], 1000);
	assert_int_equal(w.limits.value[LIMIT_max_network_mb], 500);
	assert_int_equal(w.limits.value[LIMIT_pids_max], 100);
	assert_int_equal(w.limits.value[LIMIT_command_timeout], 5 * 60 * 1000);
	assert_int_equal(w.allowed_domains.n, 1);
	assert_string_equal(w.allowed_domains.v[0], "github.com");
	assert_string_equal(w.blocked_domains.v[0], "*.bad");
	assert_int_equal(w.allowed_ports.n, 2);
	assert_string_equal(w.allowed_ports.v[1], "443");
	assert_true(w.has_environment);
	assert_string_equal(strv_env_get(&w.environment, "LANG"), "C.UTF-8");
	assert_true(w.limits.value[LIMIT_max_commands] == 1 &&
		    w.limits.value[LIMIT_max_file_ops] == 2 &&
		    w.limits.value[LIMIT_max_net_ops] == 3);
	assert_true(w.limits.given[LIMIT_max_commands] && w.limits.given[LIMIT_max_file_ops] &&
		    w.limits.given[LIMIT_max_net_ops]);
	session_request_done(&w);
	assert_null(w.id);
}

static void ses_3_null_means_not_given(void **state)
{
	struct session_request w, none = {0};

	assert_int_equal(read_session("{}", &w, NULL), 0);
	assert_memory_equal(&w, &none, sizeof(w));
	assert_int_equal(read_session("{\"id\": null, \"workspace\": null, \"timeout\": null, "
				      "\"resource_limits\": null,"
				      "\"network\": {\"allowed_ports\": null}, \"environment\": "
				      "null, \"background\": null,"
				      "\"limits\": {\"max_commands\": null}}",
				      &w, NULL),
			 0);
	assert_memory_equal(&w, &none, sizeof(w));
}

static void ses_3_other_names_are_accepted(void **state)
{
	struct session_request w;

	assert_int_equal(
		read_session(
			"{\"resource_limits\": {\"memory_max_mb\": 64, \"cpu_quota_percent\": 50}}",
			&w, NULL),
		0);
	assert_int_equal(w.limits.value[LIMIT_max_memory_mb], 64);
	assert_int_equal(w.limits.value[LIMIT_max_cpu_percent], 50);
	/* the first name with null is not given, so the other one counts */
	assert_int_equal(
		read_session(
			"{\"resource_limits\": {\"max_memory_mb\": null, \"memory_max_mb\": 65}}",
			&w, NULL),
		0);
	assert_int_equal(w.limits.value[LIMIT_max_memory_mb], 65);
	assert_int_equal(
		read_session(
			"{\"resource_limits\": {\"max_memory_mb\": 66, \"max_cpu_percent\": 7}}",
			&w, NULL),
		0);
	assert_int_equal(w.limits.value[LIMIT_max_memory_mb], 66);
	assert_int_equal(w.limits.value[LIMIT_max_cpu_percent], 7);
}

static const struct bad bad_sessions[] = {
	{"{\"x\": 1}", "x", "unknown key"},
	{"{\"id\": 1}", "id", "string"},
	{"{\"id\": \"\"}", "id", "must match"},
	{"{\"id\": \"-a\"}", "id", "must match"},
	{"{\"id\": \"a/b\"}", "id", "must match"},
	{"{\"agent_id\": \"a b\"}", "agent_id", "must match"},
	{"{\"policy\": \"../x\"}", "policy", "must match"},
	{"{\"workspace\": \"relative\"}", "workspace", "absolute"},
	{"{\"workspace\": \"\"}", "workspace", "bytes"},
	{"{\"workspace\": []}", "workspace", "string"},
	{"{\"timeout\": \"abc\"}", "timeout", "not a duration: 'abc'"},
	{"{\"timeout\": 5}", "timeout", "duration"},
	{"{\"timeout\": \"0s\"}", "timeout", "must be 1ms to"},
	{"{\"timeout\": \"-1s\"}", "timeout", "not a duration"},
	{"{\"timeout\": \"87601h\"}", "timeout", "must be 1ms to"},
	{"{\"idle_timeout\": \"0ms\"}", "idle_timeout", "must be"},
	{"{\"background\": \"maybe\"}", "background", "must be end or keep"},
	{"{\"background\": \"\"}", "background", "must be end or keep"},
	{"{\"resource_limits\": 1}", "resource_limits", "object"},
	{"{\"resource_limits\": {\"x\": 1}}", "resource_limits.x", "unknown key"},
	{"{\"resource_limits\": {\"max_memory_mb\": 0}}", "resource_limits.max_memory_mb",
	 "must be 1"},
	{"{\"resource_limits\": {\"max_memory_mb\": -1}}", "resource_limits.max_memory_mb",
	 "must be 1"},
	{"{\"resource_limits\": {\"max_memory_mb\": 1.5}}", "resource_limits.max_memory_mb",
	 "whole"},
	{"{\"resource_limits\": {\"max_memory_mb\": \"1\"}}", "resource_limits.max_memory_mb",
	 "whole"},
	{"{\"resource_limits\": {\"max_memory_mb\": 1099511627777}}",
	 "resource_limits.max_memory_mb", "must be"},
	{"{\"resource_limits\": {\"memory_max_mb\": 0}}", "resource_limits.memory_max_mb",
	 "must be 1"},
	{"{\"resource_limits\": {\"max_memory_mb\": 1, \"memory_max_mb\": 1}}",
	 "resource_limits.memory_max_mb", "another name of max_memory_mb"},
	{"{\"resource_limits\": {\"max_cpu_percent\": 1, \"cpu_quota_percent\": 1}}",
	 "resource_limits.cpu_quota_percent", "another name of max_cpu_percent"},
	{"{\"resource_limits\": {\"max_cpu_percent\": 0}}", "resource_limits.max_cpu_percent",
	 "must be 1"},
	{"{\"resource_limits\": {\"max_cpu_percent\": 409601}}", "resource_limits.max_cpu_percent",
	 "must be 1"},
	{"{\"resource_limits\": {\"cpu_quota_percent\": 0}}", "resource_limits.cpu_quota_percent",
	 "must be 1"},
	{"{\"resource_limits\": {\"max_disk_mb\": 0}}", "resource_limits.max_disk_mb", "must be 1"},
	{"{\"resource_limits\": {\"max_network_mb\": 0}}", "resource_limits.max_network_mb",
	 "must be 1"},
	{"{\"resource_limits\": {\"pids_max\": 0}}", "resource_limits.pids_max", "must be 1"},
	{"{\"resource_limits\": {\"pids_max\": 4194305}}", "resource_limits.pids_max", "must be 1"},
	{"{\"resource_limits\": {\"command_timeout\": \"0s\"}}", "resource_limits.command_timeout",
	 "must be"},
	{"{\"network\": []}", "network", "object"},
	{"{\"network\": {\"x\": 1}}", "network.x", "unknown key"},
	{"{\"network\": {\"allowed_domains\": \"a\"}}", "network.allowed_domains", "list"},
	{"{\"network\": {\"allowed_domains\": [1]}}", "network.allowed_domains", "item 1"},
	{"{\"network\": {\"allowed_domains\": [\"a\", \"b c\"]}}", "network.allowed_domains",
	 "item 2 is not a domain"},
	{"{\"network\": {\"blocked_domains\": [\"a..b\"]}}", "network.blocked_domains",
	 "item 1 is not a domain"},
	{"{\"network\": {\"allowed_ports\": [0]}}", "network.allowed_ports", "1 to 65535"},
	{"{\"network\": {\"allowed_ports\": [65536]}}", "network.allowed_ports", "1 to 65535"},
	{"{\"network\": {\"allowed_ports\": [\"80\"]}}", "network.allowed_ports", "1 to 65535"},
	{"{\"environment\": []}", "environment", "object"},
	{"{\"environment\": {\"A\": 1}}", "environment.A", "string"},
	{"{\"environment\": {\"A\": null}}", "environment.A", "string"},
	{"{\"environment\": {\"1A\": \"\"}}", "environment", "not the name of a variable: '1A'"},
	{"{\"environment\": {\"A-B\": \"\"}}", "environment", "not the name of a variable: 'A-B'"},
	{"{\"limits\": 1}", "limits", "object"},
	{"{\"limits\": {\"max_commands\": -1}}", "limits.max_commands", "must be 0"},
	{"{\"limits\": {\"max_file_ops\": -1}}", "limits.max_file_ops", "must be 0"},
	{"{\"limits\": {\"max_net_ops\": 9007199254740993}}", "limits.max_net_ops", "must be 0"},
	{"{\"working_dir\": \"\"}", "working_dir", "must have 1 to 4095"},
};

static void ses_3_each_bad_value_is_named(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_sessions); i++) {
		struct session_request w = {.limits.value[LIMIT_pids_max] = 77};
		struct err err = {0};

		expect_bad(&bad_sessions[i], read_session(bad_sessions[i].text, &w, &err), &err);
		assert_int_equal(w.limits.value[LIMIT_pids_max], 77);
		assert_int_equal(read_session(bad_sessions[i].text, &w, NULL), -E_BAD_REQUEST);
	}
}

static void ses_3_all_bad_values_are_named_at_once(void **state)
{
	struct session_request w;
	struct err err = {0};

	assert_int_equal(
		read_session("{\"id\": \"-\", \"workspace\": \"x\", \"background\": \"x\"}", &w,
			     &err),
		-E_BAD_REQUEST);
	assert_int_equal(err.ndetails, 3);
	assert_int_equal(read_session("[]", &w, &err), -E_BAD_REQUEST);
}

static void ses_3_ranges_include_their_ends(void **state)
{
	static const char *const good[] = {
		"{\"timeout\": \"1ms\"}",
		"{\"timeout\": \"87600h\"}",
		"{\"resource_limits\": {\"max_memory_mb\": 1, \"max_cpu_percent\": 1, "
		"\"pids_max\": 1}}",
		"{\"resource_limits\": {\"max_memory_mb\": 1099511627776, \"max_cpu_percent\": "
		"409600,"
		" \"pids_max\": 4194304}}",
		"{\"network\": {\"allowed_ports\": [1, 65535]}}",
		"{\"limits\": {\"max_commands\": 0, \"max_net_ops\": 9007199254740992}}",
		"{\"workspace\": \"/\"}",
	};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct session_request w;
		struct err err = {0};

		if (read_session(good[i], &w, &err) < 0)
			fail_msg("%s: %s", good[i], err.message);
		session_request_done(&w);
	}
}

static void ses_3_paths_and_ids_are_bounded(void **state)
{
	static const struct {
		const char *text;
		size_t most;
	} row[] = {
		{"{\"workspace\": \"/%s\"}", 4094},
		{"{\"id\": \"a%s\"}", 63},
		{"{\"environment\": {\"A\": \"%s\"}}", 256 * 1024 - 2},
		{"{\"network\": {\"allowed_domains\": [\"%s\"]}}", 63},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		cleanup_free char *good = filled(row[i].text, 'a', row[i].most);
		cleanup_free char *bad = filled(row[i].text, 'a', row[i].most + 1);
		struct session_request w;
		struct err err = {0};

		if (read_session(good, &w, &err) < 0)
			fail_msg("%s: %s", row[i].text, err.message);
		session_request_done(&w);
		assert_int_equal(read_session(bad, &w, &err), -E_BAD_REQUEST);
	}
}

static void ses_3_domains(void **state)
{
	static const char *const good[] = {
		"a",   "AZ-bz.c9", "*.example.com",	"*.a", "a.", "*.a.b.", "_dmarc.a",
		"a-b", "1.2.3.4",  "xn--mnchen-3ya.de", "z0"};
	static const char *const bad[] = {"",	  ".",	 "*",	 "*.",	 "*..",	 "*a",	 "a.*.b",
					  ".a",	  "a..", "a..b", "-a",	 "a-",	 "a-.b", "a.-b",
					  "a.b-", "a b", "a/b",	 "a:80", "ä.de", "a-.",	 "*.*.a",
					  "[",	  "`",	 "{",	 "@"};
	char text[512];

	for (size_t i = 0; i < ARRAY_LEN(good) + ARRAY_LEN(bad); i++) {
		const bool fine = i < ARRAY_LEN(good);
		const char *name = fine ? good[i] : bad[i - ARRAY_LEN(good)];
		struct session_request w = {0};

		snprintf(text, sizeof(text), "{\"network\": {\"blocked_domains\": [\"%s\"]}}",
			 name);
		if (read_session(text, &w, NULL) != (fine ? 0 : -E_BAD_REQUEST))
			fail_msg("domain '%s'", name);
		session_request_done(&w);
	}
}

/* 253 characters in all, without a final dot */
static void ses_3_a_domain_has_at_most_253_characters(void **state)
{
	static const char head[] = "{\"network\": {\"allowed_domains\": [\"";
	char text[512];

	for (size_t len = 252; len <= 254; len++)
		for (int dot = 0; dot <= 1; dot++) {
			struct session_request w = {0};
			char name[300] = {0};

			for (size_t i = 0; i < len; i++)
				name[i] = i % 50 == 49 ? '.' : 'a';
			if (dot)
				name[len] = '.';
			snprintf(text, sizeof(text), "%s%s\"]}}", head, name);
			assert_int_equal(read_session(text, &w, NULL),
					 len <= 253 ? 0 : -E_BAD_REQUEST);
			session_request_done(&w);
		}
}

static void sta_4_dangerous_variables_do_not_come_in(void **state)
{
	static const char session[] =
		"{\"environment\": {\"BASH_ENV\": \"x\", \"A\": \"1\", \"LD_PRELOAD\": \"x\","
		" \"BASH_FUNC_ls%%\": \"() { :; }\", \"B\": \"\"}}";
	struct session_request w;
	struct exec_request x;

	assert_int_equal(read_session(session, &w, NULL), 0);
	assert_int_equal(w.environment.n, 2);
	assert_string_equal(w.environment.v[0], "A=1");
	assert_string_equal(w.environment.v[1], "B=");
	session_request_done(&w);
	assert_int_equal(read_patch(session, &w, NULL), 0);
	assert_int_equal(w.environment.n, 2);
	session_request_done(&w);
	assert_int_equal(
		read_exec("{\"command\": \"x\", \"env\": {\"PAGER\": \"x\", \"C\": \"=\"}}", &x,
			  NULL),
		0);
	assert_int_equal(x.env.n, 1);
	assert_string_equal(x.env.v[0], "C==");
	exec_request_done(&x);
}

static void ses_1_a_patch_is_read(void **state)
{
	struct session_request w;

	assert_int_equal(
		read_patch(
			"{\"working_dir\": \"src\", \"timeout\": \"1h\", \"idle_timeout\": \"1m\","
			"\"environment\": {}, \"resource_limits\": {\"cpu_quota_percent\": 5},"
			"\"limits\": {\"max_commands\": 9}, \"policy\": null}",
			&w, NULL),
		0);
	assert_string_equal(w.working_dir, "src");
	assert_true(w.has_environment && w.environment.n == 0);
	assert_int_equal(w.limits.value[LIMIT_session_timeout], 3600000);
	assert_int_equal(w.limits.value[LIMIT_idle_timeout], 60000);
	assert_int_equal(w.limits.value[LIMIT_max_cpu_percent], 5);
	assert_int_equal(w.limits.value[LIMIT_max_commands], 9);
	session_request_done(&w);
	assert_int_equal(read_patch("{\"cwd\": \"/workspace\"}", &w, NULL), 0);
	assert_string_equal(w.working_dir, "/workspace");
	assert_false(w.has_environment);
	session_request_done(&w);
	assert_int_equal(read_patch("{\"cwd\": null, \"working_dir\": \"a\"}", &w, NULL), 0);
	assert_string_equal(w.working_dir, "a");
	session_request_done(&w);
}

static void ses_1_null_removes_a_variable(void **state)
{
	struct session_request w;

	assert_int_equal(read_patch("{\"environment\": {\"A\": null, \"B\": \"\", \"C\": null,"
				    "\"LD_PRELOAD\": null}}",
				    &w, NULL),
			 0);
	assert_int_equal(w.environment.n, 1);
	assert_string_equal(w.environment.v[0], "B=");
	assert_null(w.environment.v[1]);
	assert_int_equal(w.unset.n, 3);
	assert_string_equal(w.unset.v[0], "A");
	assert_string_equal(w.unset.v[1], "C");
	assert_string_equal(w.unset.v[2], "LD_PRELOAD");
	session_request_done(&w);
	assert_int_equal(read_patch("{\"environment\": {\"A\": \"1\"}}", &w, NULL), 0);
	assert_int_equal(w.unset.n, 0);
	assert_int_equal(w.environment.n, 1);
	session_request_done(&w);
}

static const struct bad bad_patches[] = {
	{"{\"environment\": {\"A\": 1}}", "environment.A", "string"},
	{"{\"environment\": {\"A B\": null}}", "environment", "not the name of a variable: 'A B'"},
	{"{\"environment\": {\"A=\": null}}", "environment.A=", "not the name of a variable"},
	{"{\"id\": \"a\"}", "id", "cannot be changed"},
	{"{\"agent_id\": \"a\"}", "agent_id", "cannot be changed"},
	{"{\"workspace\": \"/\"}", "workspace", "cannot be changed"},
	{"{\"policy\": \"observe\"}", "policy", "cannot be changed"},
	{"{\"background\": \"end\"}", "background", "cannot be changed"},
	{"{\"network\": {}}", "network", "cannot be changed"},
	{"{\"state\": \"ready\"}", "state", "unknown key"},
	{"{\"cwd\": \"\"}", "cwd", "bytes"},
	{"{\"working_dir\": 1}", "working_dir", "string"},
	{"{\"cwd\": \"/a\", \"working_dir\": \"/b\"}", "cwd", "another name of working_dir"},
	{"{\"environment\": {\"A B\": \"\"}}", "environment", "not the name"},
	{"{\"timeout\": \"0s\"}", "timeout", "must be"},
	{"{\"cwd\": \"/a\", \"resource_limits\": {\"max_cpu_percent\": 1, \"cpu_quota_percent\": "
	 "1}}",
	 "resource_limits.cpu_quota_percent", "another name"},
};

static void ses_1_a_bad_patch_is_named(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_patches); i++) {
		struct session_request w = {.limits.value[LIMIT_pids_max] = 77};
		struct err err = {0};

		expect_bad(&bad_patches[i], read_patch(bad_patches[i].text, &w, &err), &err);
		assert_int_equal(w.limits.value[LIMIT_pids_max], 77);
		assert_int_equal(read_patch(bad_patches[i].text, &w, NULL), -E_BAD_REQUEST);
	}
}

/* What the record shows can be asked for again. */
static void ses_4_the_configuration_is_written(void **state)
{
	static const char asked[] =
		"{\"id\":\"s\",\"agent_id\":null,\"workspace\":\"/"
		"w\",\"working_dir\":\"/tmp\",\"policy\":null,\"timeout\":\"4h\","
		"\"idle_timeout\":null,\"background\":null,\"resource_limits\":"
		"{\"max_memory_mb\":1,"
		"\"max_cpu_percent\":null,\"max_disk_mb\":null,\"max_network_"
		"mb\":null,\"pids_max\":null,"
		"\"command_timeout\":\"90s\",\"io_read_bps_max\":null,"
		"\"io_write_bps_max\":null,"
		"\"memory_swap_max_mb\":null,\"cpu_period_us\":null,"
		"\"net_bandwidth_mbps\":null},\"limits\":{\"max_commands\":0,"
		"\"max_file_ops\":7,\"max_net_ops\":0},"
		"\"network\":{\"allowed_domains\":[\"a\",\"b\"],\"blocked_"
		"domains\":[],\"allowed_ports\":[80,443]},"
		"\"environment\":{\"A\":\"x=y\",\"B\":\"\"}}";
	cleanup_buf struct buf out = {0};
	struct jw jw = JW(&out);
	struct session_request w;

	assert_int_equal(read_session(asked, &w, NULL), 0);
	session_request_format(&w, &jw);
	assert_string_equal(out.data, asked);
	session_request_done(&w);
}

static void exe_4_a_command_is_read(void **state)
{
	struct exec_request w;

	assert_int_equal(
		read_exec("{\"command\": \"npm\", \"args\": [\"install\", \"\"], \"script\": null,"
			  "\"argv0\": \"-npm\", \"working_dir\": \"src\", \"env\": {\"A\": \"1\"}, "
			  "\"stdin\": \"hi\","
			  "\"encoding\": \"text\", \"timeout\": \"5m\", \"queue\": false, "
			  "\"command_id\": \"cmd-1\","
			  "\"max_output_bytes\": 5, \"detach\": true, \"stream_output\": true}",
			  &w, NULL),
		0);
	assert_string_equal(w.command, "npm");
	assert_int_equal(w.args.n, 2);
	assert_string_equal(w.args.v[1], "");
	assert_null(w.script);
	assert_string_equal(w.argv0, "-npm");
	assert_string_equal(w.working_dir, "src");
	assert_string_equal(w.env.v[0], "A=1");
	assert_int_equal(w.stdin_data.len, 2);
	assert_memory_equal(w.stdin_data.data, "hi", 2);
	assert_int_equal(w.timeout_ms, 300000);
	assert_string_equal(w.command_id, "cmd-1");
	assert_int_equal(w.max_output_bytes, 5);
	assert_true(w.detach && w.stream_output && !w.queue);
	exec_request_done(&w);
	assert_null(w.command);
}

static void exe_4_defaults(void **state)
{
	struct exec_request w;

	assert_int_equal(read_exec("{\"script\": \"\", \"args\": [], \"queue\": null, "
				   "\"max_output_bytes\": null}",
				   &w, NULL),
			 0);
	assert_string_equal(w.script, "");
	assert_true(w.queue);
	assert_false(w.detach || w.stream_output);
	assert_int_equal(w.max_output_bytes, 10000);
	assert_int_equal(w.timeout_ms, 0);
	assert_int_equal(w.stdin_data.len, 0);
	exec_request_done(&w);
}

static void exe_4_stdin_may_be_base64(void **state)
{
	struct exec_request w;

	assert_int_equal(
		read_exec("{\"command\": \"x\", \"stdin\": \"AAH/\", \"encoding\": \"base64\"}", &w,
			  NULL),
		0);
	assert_int_equal(w.stdin_data.len, 3);
	assert_memory_equal(w.stdin_data.data, "\0\x01\xff", 3);
	exec_request_done(&w);
	assert_int_equal(read_exec("{\"command\": \"x\", \"encoding\": \"base64\"}", &w, NULL), 0);
	assert_int_equal(w.stdin_data.len, 0);
	exec_request_done(&w);
	assert_int_equal(
		read_exec("{\"command\": \"x\", \"stdin\": \"\", \"encoding\": \"base64\"}", &w,
			  NULL),
		0);
	exec_request_done(&w);
}

static const struct bad bad_execs[] = {
	{"{}", "command", "either command or script"},
	{"{\"command\": null, \"script\": null}", "command", "either command or script"},
	{"{\"command\": \"a\", \"script\": \"b\"}", "script", "either command or script"},
	{"{\"command\": \"\"}", "command", "bytes"},
	{"{\"command\": [\"a\"]}", "command", "string"},
	{"{\"script\": \"a\", \"args\": [\"b\"]}", "args", "only a command"},
	{"{\"script\": 1}", "script", "string"},
	{"{\"command\": \"a\", \"args\": \"b\"}", "args", "list"},
	{"{\"command\": \"a\", \"args\": [null]}", "args", "item 1"},
	{"{\"command\": \"a\", \"argv0\": 1}", "argv0", "string"},
	{"{\"command\": \"a\", \"working_dir\": \"\"}", "working_dir", "bytes"},
	{"{\"command\": \"a\", \"env\": [\"A=1\"]}", "env", "object"},
	{"{\"command\": \"a\", \"env\": {\"A\": null}}", "env.A", "string"},
	{"{\"command\": \"a\", \"env\": {\"a b\": \"\"}}", "env",
	 "not the name of a variable: 'a b'"},
	{"{\"command\": \"a\", \"stdin\": 1}", "stdin", "string"},
	{"{\"command\": \"a\", \"stdin\": \"A\", \"encoding\": \"base64\"}", "stdin", "base64"},
	{"{\"command\": \"a\", \"stdin\": \"AAA!\", \"encoding\": \"base64\"}", "stdin", "base64"},
	{"{\"command\": \"a\", \"encoding\": \"utf8\"}", "encoding", "must be text or base64"},
	{"{\"command\": \"a\", \"timeout\": \"0s\"}", "timeout", "must be"},
	{"{\"command\": \"a\", \"timeout\": \"5\"}", "timeout", "not a duration"},
	{"{\"command\": \"a\", \"command_id\": \"a b\"}", "command_id", "must match"},
	{"{\"command\": \"a\", \"max_output_bytes\": -1}", "max_output_bytes", "must be 0"},
	{"{\"command\": \"a\", \"max_output_bytes\": 10485761}", "max_output_bytes", "must be 0"},
	{"{\"command\": \"a\", \"queue\": 1}", "queue", "true or false"},
	{"{\"command\": \"a\", \"detach\": \"yes\"}", "detach", "true or false"},
	{"{\"command\": \"a\", \"stream_output\": 0}", "stream_output", "true or false"},
	{"{\"command\": \"a\", \"cmd\": \"b\"}", "cmd", "unknown key"},
};

static void exe_4_each_bad_value_is_named(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_execs); i++) {
		struct exec_request w = {.timeout_ms = 77};
		struct err err = {0};

		expect_bad(&bad_execs[i], read_exec(bad_execs[i].text, &w, &err), &err);
		assert_int_equal(w.timeout_ms, 77);
		assert_int_equal(read_exec(bad_execs[i].text, &w, NULL), -E_BAD_REQUEST);
	}
}

static void exe_4_sizes_are_bounded(void **state)
{
	enum { MIB = 1024 * 1024 };
	static const struct {
		const char *text;
		size_t most;
		char c;
		size_t step;
	} row[] = {
		{"{\"command\": \"%s\"}", 4095, 'a', 1},
		{"{\"script\": \"%s\"}", 96 * 1024, 'a', 1},
		{"{\"command\": \"a\", \"args\": [\"%s\"]}", MIB, 'a', 1},
		{"{\"command\": \"a\", \"env\": {\"A\": \"%s\"}}", 256 * 1024 - 2, 'a', 1},
		{"{\"command\": \"a\", \"stdin\": \"%s\"}", 8 * MIB, 'a', 1},
		/* 8 MiB is not a multiple of 3: four characters fewer hold one or two bytes less */
		{"{\"command\": \"a\", \"encoding\": \"base64\", \"stdin\": \"%s\"}",
		 8 * MIB / 3 * 4, 'A', 4},
		{"{\"command\": \"a\", \"command_id\": \"%s\"}", 64, 'a', 1},
		{"{\"command\": \"a\", \"argv0\": \"%s\"}", 4095, 'a', 1},
		{"{\"command\": \"a\", \"working_dir\": \"%s\"}", 4095, 'a', 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		cleanup_free char *good = filled(row[i].text, row[i].c, row[i].most);
		cleanup_free char *bad = filled(row[i].text, row[i].c, row[i].most + row[i].step);
		struct exec_request w;
		struct err err = {0};

		if (read_exec(good, &w, &err) < 0)
			fail_msg("%s: %s", row[i].text, err.details[0].problem);
		exec_request_done(&w);
		if (read_exec(bad, &w, &err) != -E_BAD_REQUEST)
			fail_msg("%s: too much is accepted", row[i].text);
	}
}

static void exe_4_output_limits_include_their_ends(void **state)
{
	struct exec_request w;

	assert_int_equal(read_exec("{\"command\": \"a\", \"max_output_bytes\": 0}", &w, NULL), 0);
	assert_int_equal(w.max_output_bytes, 0);
	exec_request_done(&w);
	assert_int_equal(
		read_exec("{\"command\": \"a\", \"max_output_bytes\": 10485760}", &w, NULL), 0);
	assert_int_equal(w.max_output_bytes, 10485760);
	exec_request_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_3_a_session_request_is_read),
		cmocka_unit_test(ses_3_null_means_not_given),
		cmocka_unit_test(ses_3_other_names_are_accepted),
		cmocka_unit_test(ses_3_each_bad_value_is_named),
		cmocka_unit_test(ses_3_all_bad_values_are_named_at_once),
		cmocka_unit_test(ses_3_ranges_include_their_ends),
		cmocka_unit_test(ses_3_paths_and_ids_are_bounded),
		cmocka_unit_test(ses_3_domains),
		cmocka_unit_test(ses_3_a_domain_has_at_most_253_characters),
		cmocka_unit_test(sta_4_dangerous_variables_do_not_come_in),
		cmocka_unit_test(ses_1_a_patch_is_read),
		cmocka_unit_test(ses_1_null_removes_a_variable),
		cmocka_unit_test(ses_1_a_bad_patch_is_named),
		cmocka_unit_test(ses_4_the_configuration_is_written),
		cmocka_unit_test(exe_4_a_command_is_read),
		cmocka_unit_test(exe_4_defaults),
		cmocka_unit_test(exe_4_stdin_may_be_base64),
		cmocka_unit_test(exe_4_each_bad_value_is_named),
		cmocka_unit_test(exe_4_sizes_are_bounded),
		cmocka_unit_test(exe_4_output_limits_include_their_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
