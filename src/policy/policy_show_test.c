// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static const char text[] =
	HEAD "description: about\n"
	     "default: {network: approve}\n"
	     "file_rules:\n"
	     "  - {name: ws, paths: ['/w/**'], operations: [read], decision: allow, message: m}\n"
	     "  - {name: env, paths: ['**/.env'], decision: deny, final: true}\n"
	     "network_rules:\n"
	     "  - {name: net, domains: [a.example], ports: [1, 2-3], cidrs: [10.0.0.0/8],\n"
	     "     protocols: [udp], decision: allow}\n"
	     "command_rules:\n"
	     "  - {name: cmd, commands: [a], scripts: ['/s'], args_pattern: [b], args_regex: [c],\n"
	     "     flags: true, kinds: [loader], decision: redirect, redirect_to: /t}\n"
	     "  - {name: w, commands: [a], args_pattern: [b], args_whole: true, decision: log}\n"
	     "resource_limits: {pids_max: 5, idle_timeout: 5m}\n"
	     "environment: {allow: [A], deny: [B]}\n";

static void pol_7_a_policy_is_shown_whole(void **state)
{
	cleanup_buf struct buf out = {0};
	struct jw w = JW(&out);
	const char *rest;
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	policy_format(k.p, NULL, &w);
	rest = strstr(out.data, "\"description\"");
	assert_string_equal(
		rest,
		"\"description\":\"about\",\"file\":\"p.yaml\",\"default\":{\"files\":\"deny\","
		"\"network\":\"approve\",\"commands\":\"allow\"},\"file_rules\":["
		"{\"name\":\"env\",\"paths\":[\"**/"
		".env\"],\"operations\":[\"read\",\"write\",\"open\","
		"\"create\",\"delete\",\"rename\",\"stat\",\"list\",\"chmod\",\"chown\","
		"\"symlink\","
		"\"link\",\"truncate\",\"execute\"],\"decision\":\"deny\",\"final\":true,\"line\":"
		"7},"
		"{\"name\":\"ws\",\"paths\":[\"/w/**\"],\"operations\":[\"read\"],"
		"\"decision\":\"allow\",\"message\":\"m\",\"line\":6}],"
		"\"network_rules\":[{\"name\":\"net\",\"domains\":[\"a.example\"],"
		"\"cidrs\":[\"10.0.0.0/8\"],\"ports\":[1,\"2-3\"],\"protocols\":[\"udp\"],"
		"\"decision\":\"allow\",\"line\":9}],"
		"\"command_rules\":[{\"name\":\"cmd\",\"commands\":[\"a\"],\"scripts\":[\"/s\"],"
		"\"args_pattern\":[\"b\"],\"args_regex\":[\"c\"],\"kinds\":[\"loader\"],"
		"\"flags\":true,\"decision\":\"redirect\",\"redirect_to\":\"/t\",\"line\":12},"
		"{\"name\":\"w\",\"commands\":[\"a\"],\"args_pattern\":[\"b\"],\"args_whole\":true,"
		"\"decision\":\"log\",\"line\":14}],"
		"\"resource_limits\":{\"idle_timeout\":\"5m\",\"pids_max\":5},"
		"\"environment\":{\"allow\":[\"A\"],\"deny\":[\"B\"]}}");
	policy_kit_close(&k);
}

static void pol_7_a_summary_for_who_works_under_it(void **state)
{
	struct strv lines = {0};
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	policy_summary(k.p, &lines);
	assert_int_equal(lines.n, 4);
	assert_string_equal(lines.v[0], "about");
	assert_string_equal(lines.v[1], "files: env denied (final); ws allowed; else denied");
	assert_string_equal(lines.v[2], "network: net allowed; else asked for");
	assert_string_equal(lines.v[3],
			    "commands: cmd replaced; w allowed and marked; else allowed");
	strv_done(&lines);
	policy_kit_close(&k);
	policy_kit_open(&k, HEAD, NULL);
	policy_summary(k.p, &lines);
	assert_int_equal(lines.n, 3);
	assert_string_equal(lines.v[0], "files: all denied");
	strv_done(&lines);
	policy_kit_close(&k);
}

static void pol_7_a_long_policy_has_a_short_summary(void **state)
{
	cleanup_buf struct buf many = {0};
	struct strv lines = {0};
	struct policy_kit k;

	for (unsigned n = 40; n <= 42; n++) {
		buf_clear(&many);
		buf_adds(&many, HEAD "file_rules:\n");
		for (unsigned i = 0; i < n; i++)
			buf_addf(&many, "  - {name: r%u, paths: ['/%u'], decision: deny}\n", i, i);
		policy_kit_open(&k, many.data, NULL);
		policy_summary(k.p, &lines);
		assert_int_equal(strstr(lines.v[0], "more rules") != NULL, n > 40);
		if (n == 42)
			assert_non_null(strstr(lines.v[0], "r39 denied; 2 more rules; else"));
		strv_done(&lines);
		policy_kit_close(&k);
	}
}

static void exe_2_what_is_allowed_instead(void **state)
{
	const struct op read = {.class = OP_FILE, .file = {OP_FILE_read, "/w/.env"}},
			write = {.class = OP_FILE, .file = {OP_FILE_write, "/w/.env"}},
			dns = {.class = OP_DNS, .dns = {"x", 1}},
			exec = {.class = OP_EXEC, .exec = {.path = "/x"}};
	struct strv lines = {0};
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	policy_alternatives(k.p, &read, &lines);
	policy_alternatives(k.p, &write, &lines);
	policy_alternatives(k.p, &dns, &lines);
	policy_alternatives(k.p, &exec, &lines);
	assert_int_equal(lines.n, 3);
	assert_string_equal(lines.v[0], "read of /w/**");
	assert_string_equal(lines.v[1], "a.example at 10.0.0.0/8 on port 1, 2-3 by udp");
	assert_string_equal(lines.v[2], "a with arguments b");
	strv_done(&lines);
	policy_kit_close(&k);
	policy_kit_open(&k,
			HEAD "command_rules:\n"
			     "  - {name: a, commands: [a, b, c, d, e, f], decision: allow}\n"
			     "  - {name: b, commands: [h, i, j, k, l, m, n], decision: allow}\n"
			     "  - {name: c, scripts: ['/s'], decision: allow}\n"
			     "  - {name: d, commands: [x], decision: allow}\n"
			     "  - {name: e, commands: [y], decision: allow}\n",
			NULL);
	policy_alternatives(k.p, &exec, &lines);
	assert_int_equal(lines.n, 4); /* and never more than these */
	assert_string_equal(lines.v[0], "a, b, c, d, e, f");
	assert_string_equal(lines.v[1], "h, i, j, k, l, m and 1 more");
	assert_string_equal(lines.v[2], "scripts /s");
	strv_done(&lines);
	policy_kit_close(&k);
}

static void pol_4_a_default_that_allows_names_nothing(void **state)
{
	const struct op exec = {.class = OP_EXEC, .exec = {.path = "/x"}};
	struct strv lines = {0};
	struct policy_kit k;

	policy_kit_open(&k, HEAD "command_rules: [{name: a, commands: [x], decision: deny}]\n",
			NULL);
	policy_alternatives(k.p, &exec, &lines);
	assert_int_equal(lines.n, 0);
	policy_kit_close(&k);
}

static void pol_7_rules_that_are_not_enforced_are_named(void **state)
{
	static const struct {
		const char *text, *files, *net;
	} rows[] = {
		{HEAD "default: {files: allow, network: allow}\n", NULL, NULL},
		{HEAD "default: {files: allow}\n", NULL, NULL},
		{HEAD, "file rules are not enforced here: default: deny; ", NULL},
		{HEAD "file_rules: [{name: a, paths: ['/a'], decision: deny},\n"
		      "             {name: b, paths: ['/b'], decision: allow}]\n"
		      "network_rules: [{name: n, ports: [1], decision: deny}]\n",
		 "file rules are not enforced here: a, b, default: deny; ",
		 "network rules are not enforced here: n; "},
		{HEAD "default: {files: allow}\n"
		      "file_rules: [{name: a, paths: ['/a'], decision: deny}]\n",
		 "file rules are not enforced here: a; ", NULL},
		{HEAD "default: {files: allow}\n"
		      "network_rules: [{name: n, ports: [1], decision: deny}]\n"
		      "resource_limits: {max_file_ops: 1, max_net_ops: 1}\n",
		 "file rules are not enforced here: resource_limits.max_file_ops; ",
		 "network rules are not enforced here: n, resource_limits.max_net_ops; "},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *want[] = {rows[i].files, rows[i].net, rows[i].net, NULL};
		static const enum op_class classes[] = {OP_FILE, OP_NET, OP_DNS, OP_EXEC};
		struct policy_kit k;

		policy_kit_open(&k, rows[i].text, NULL);
		for (size_t c = 0; c < ARRAY_LEN(classes); c++) {
			cleanup_buf struct buf out = {0};

			policy_unenforced(k.p, classes[c], &out);
			if (want[c] == NULL ? out.len > 0
					    : out.data == NULL || strncmp(out.data, want[c],
									  strlen(want[c])) != 0)
				fail_msg("%s: %s", rows[i].text,
					 out.data != NULL ? out.data : "nothing");
			if (want[c] != NULL && c == 0)
				assert_non_null(strstr(out.data, "filesystem.blocked_paths"));
		}
		policy_kit_close(&k);
	}
}

/* None is empty or says more than the rule. */
static void exe_2_what_is_allowed_instead_is_whole(void **state)
{
	const struct op net = {.class = OP_NET, .net = {.host = "x", .port = 1}},
			exec = {.class = OP_EXEC, .exec = {.path = "/x"}};
	static const char *const want[] = {
		"tcp, icmp",
		"1.0.0.0/8, 2.0.0.0/8, 3.0.0.0/8, 4.0.0.0/8, 5.0.0.0/8, ::/8 and 1 more",
		"programs of kind memfd, loader",
		"a as deleted",
		"b with arguments like ^x$",
		"c with arguments y or like ^x$"};
	struct strv lines = {0};
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD
			"network_rules:\n"
			"  - {name: a, protocols: [icmp, tcp], decision: allow}\n"
			"  - {name: b, cidrs: [1.0.0.0/8, 2.0.0.0/8, 3.0.0.0/8, 4.0.0.0/8,\n"
			"     5.0.0.0/8, '::/8', 6.0.0.0/8], decision: allow}\n"
			"command_rules:\n"
			"  - {name: c, kinds: [memfd, loader], decision: allow}\n"
			"  - {name: d, commands: [a], kinds: [deleted], decision: allow}\n"
			"  - {name: e, commands: [b], args_regex: ['^x$'], decision: allow}\n"
			"  - {name: f, commands: [c], args_regex: ['^x$'], args_pattern: [y],\n"
			"     decision: allow}\n",
			NULL);
	policy_alternatives(k.p, &net, &lines);
	policy_alternatives(k.p, &exec, &lines);
	assert_int_equal(lines.n, ARRAY_LEN(want));
	for (size_t i = 0; i < lines.n; i++)
		assert_string_equal(lines.v[i], want[i]);
	strv_done(&lines);
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_7_a_policy_is_shown_whole),
		cmocka_unit_test(pol_7_a_summary_for_who_works_under_it),
		cmocka_unit_test(pol_7_a_long_policy_has_a_short_summary),
		cmocka_unit_test(exe_2_what_is_allowed_instead),
		cmocka_unit_test(exe_2_what_is_allowed_instead_is_whole),
		cmocka_unit_test(pol_4_a_default_that_allows_names_nothing),
		cmocka_unit_test(pol_7_rules_that_are_not_enforced_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
