// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static const char files[] =
	HEAD "file_rules:\n"
	     "  - name: ask-delete\n"
	     "    paths: ['/workspace/**']\n"
	     "    operations: [delete]\n"
	     "    decision: approve\n"
	     "    message: 'delete {path}?'\n"
	     "  - name: ws\n"
	     "    paths: ['${WORKSPACE}/**', '${HOME}/x']\n"
	     "    operations: [read, list]\n"
	     "    decision: allow\n"
	     "  - {name: seen, paths: ['/tmp/**'], decision: log}\n"
	     "  - {name: env, paths: ['**/.env'], decision: deny, final: true,\n"
	     "     message: no secrets}\n";

static void pol_1_first_match_wins_and_the_rest_is_denied(void **state)
{
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(&k, files, NULL);
	v = policy_kit_file(&k, "read", "/workspace/a/b");
	assert_int_equal(v.effective, DECISION_allow);
	assert_string_equal(v.rule, "ws");
	assert_string_equal(v.file, "p.yaml");
	assert_int_equal(v.line, 9);
	assert_int_equal(v.column, 5);
	assert_null(v.why);
	assert_string_equal(policy_kit_file(&k, "read", "/home/agent/x").rule, "ws");
	v = policy_kit_file(&k, "write", "/workspace/a");
	assert_int_equal(v.effective, DECISION_deny);
	assert_string_equal(v.rule, "default");
	assert_string_equal(v.why, "no rule allows it");
	assert_null(v.file);
	assert_false(v.final);
	policy_kit_close(&k);
}

static void pol_1_a_final_deny_stands_before_all_others(void **state)
{
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(&k, files, NULL);
	v = policy_kit_file(&k, "read", "/workspace/.env");
	assert_int_equal(v.effective, DECISION_deny);
	assert_string_equal(v.rule, "env");
	assert_true(v.final);
	assert_string_equal(v.message, "no secrets");
	policy_kit_close(&k);
}

static void pol_2_log_is_allowed_and_marked(void **state)
{
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(&k, files, NULL);
	v = policy_kit_file(&k, "chmod", "/tmp/x");
	assert_int_equal(v.decision, DECISION_log);
	assert_int_equal(v.effective, DECISION_allow);
	policy_kit_close(&k);
}

static void pol_2_approve_is_an_effect_of_its_own(void **state)
{
	const struct policy_options shadow = {.shadow = true};
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_delete, "/workspace/a"}};
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(&k, files, NULL);
	v = policy_kit_file(&k, "delete", "/workspace/a");
	assert_int_equal(v.decision, DECISION_approve);
	assert_int_equal(v.effective, DECISION_approve);
	assert_false(verdict_allows(&v));
	assert_false(v.shadow);
	policy_decide(k.p, &op, false, &v);
	assert_int_equal(v.effective, DECISION_deny);
	assert_string_equal(v.why, "no approver");
	policy_kit_close(&k);
	policy_kit_open(&k, files, &shadow);
	v = policy_kit_file(&k, "delete", "/workspace/a");
	assert_int_equal(v.decision, DECISION_approve);
	assert_int_equal(v.effective, DECISION_allow);
	assert_true(v.shadow);
	assert_string_equal(policy_kit_file(&k, "delete", "/workspace/.env").rule, "env");
	policy_kit_close(&k);
}

static void pol_3_a_path_that_is_not_plain_is_denied(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, HEAD "default: {files: allow, commands: allow}\n", NULL);
	assert_int_equal(policy_kit_file(&k, "read", "/a").effective, DECISION_allow);
	assert_int_equal(policy_kit_file(&k, "read", "/a/../b").effective, DECISION_deny);
	assert_int_equal(policy_kit_file(&k, "read", "a").effective, DECISION_deny);
	assert_int_equal(policy_kit_exec(&k, "/bin/../x", NULL, "x").effective, DECISION_deny);
	assert_string_equal(policy_kit_exec(&k, "x", NULL, "x").why, "not a plain absolute path");
	policy_kit_close(&k);
}

static void pol_1_defaults_per_class(void **state)
{
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(&k, HEAD, NULL);
	assert_int_equal(policy_kit_file(&k, "read", "/").effective, DECISION_deny);
	assert_int_equal(policy_kit_net(&k, "a.example", NULL, 80).effective, DECISION_deny);
	assert_int_equal(policy_kit_dns(&k, "a.example").effective, DECISION_deny);
	assert_int_equal(policy_kit_exec(&k, "/bin/x", NULL, "x").effective, DECISION_allow);
	assert_true(policy_restricts(k.p, OP_FILE));
	assert_true(policy_restricts(k.p, OP_DNS));
	assert_false(policy_restricts(k.p, OP_EXEC));
	policy_kit_close(&k);
	policy_kit_open(&k, HEAD "default: {files: allow, network: log,\n  commands: deny}\n",
			NULL);
	assert_int_equal(policy_kit_file(&k, "read", "/").effective, DECISION_allow);
	assert_int_equal(policy_kit_dns(&k, "a.example").effective, DECISION_allow);
	v = policy_kit_exec(&k, "/bin/x", NULL, "x");
	assert_int_equal(v.effective, DECISION_deny);
	assert_int_equal(v.line, 4);
	assert_int_equal(v.column, 3);
	assert_string_equal(v.file, "p.yaml");
	assert_false(policy_restricts(k.p, OP_NET));
	assert_true(policy_restricts(k.p, OP_EXEC));
	policy_kit_close(&k);
}

/* The sanitizer's runtime calls these for every allocation; absent in other builds. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *))
	__attribute__((weak));

static unsigned allocations;

static void on_malloc(const volatile void *p, size_t n)
{
	allocations++;
}

static void on_free(const volatile void *p)
{
}

static void pol_6_deciding_does_not_allocate(void **state)
{
	static const char *const argv[] = {"x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "install"};
	const struct op ops[] = {
		{.class = OP_FILE, .file = {OP_FILE_read, "/workspace/a/.env"}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .argv = argv, .argc = 3}},
		{.class = OP_EXEC, .exec = {.path = "/bin/y", .argv = argv, .argc = 3}},
		{.class = OP_NET, .net = {.host = "A.example", .address = {4, {10}}, .port = 1}},
		{.class = OP_DNS, .dns = {"a.example", 1}},
	};
	struct policy_kit k;
	struct verdict v;
	void *control;

	if (__sanitizer_install_malloc_and_free_hooks == NULL) {
		print_message("without the address sanitizer allocations are not counted\n");
		skip();
	}
	policy_kit_open(&k,
			HEAD
			"file_rules:\n  - {name: a, paths: ['**/.env', '/w/**'], decision: deny}\n"
			"command_rules:\n"
			"  - {name: b, commands: [x], args_regex: ['^(a+)+$'], decision: deny}\n"
			"  - {name: c, commands: ['y*'], args_pattern: ['*l'], decision: deny}\n"
			"network_rules:\n  - {name: d, cidrs: [10.0.0.0/8], decision: deny}\n",
			NULL);
	assert_true(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free) != 0);
	control = mem_alloc(1);
	assert_int_equal(allocations, 1);
	free(control);
	for (size_t i = 0; i < ARRAY_LEN(ops) * 3; i++)
		policy_decide(i % 2 ? k.cached : k.p, &ops[i % ARRAY_LEN(ops)], false, &v);
	assert_int_equal(allocations, 1);
	policy_kit_close(&k);
}

/* A file of the workspace has two names: a rule that restricts matches either, one that permits the
 * canonical one. */
static void pol_1_the_real_name_of_a_file_restricts_only(void **state)
{
	static const char text[] = HEAD
		"default: {files: deny, commands: deny}\n"
		"file_rules:\n"
		"  - {name: no-real, paths: ['/home/u/p/secret'], decision: deny}\n"
		"  - {name: yes-real, paths: ['/home/u/p/**'], decision: allow}\n"
		"  - {name: yes, paths: ['/workspace/secret', '/workspace/a'], decision: allow}\n"
		"command_rules:\n"
		"  - {name: no-tool, commands: ['/home/*/p/tool'], decision: deny}\n"
		"  - {name: run-real, commands: ['/home/u/p/other'], decision: allow}\n"
		"  - {name: run, commands: ['/workspace/**'], decision: allow}\n";
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	assert_string_equal(policy_kit_file(&k, "read", "/workspace/secret").rule, "yes");
	policy_kit_close(&k);
	policy_kit_open(&k, text, NULL);
	policy_name_workspace(k.p, "/home/u/p");
	policy_name_workspace(k.cached, "/home/u/p");
	assert_string_equal(policy_kit_file(&k, "read", "/workspace/secret").rule, "no-real");
	assert_string_equal(policy_kit_file(&k, "read", "/workspace/a").rule, "yes");
	assert_string_equal(policy_kit_file(&k, "read", "/workspace/b").rule, "default");
	assert_string_equal(policy_kit_file(&k, "read", "/workspaces").rule, "default");
	assert_string_equal(policy_kit_exec(&k, "/workspace/tool", NULL, "tool").rule, "no-tool");
	assert_string_equal(policy_kit_exec(&k, "/workspace/x", "/workspace/tool", "x").rule,
			    "no-tool");
	assert_string_equal(policy_kit_exec(&k, "/workspace/other", NULL, "other").rule, "run");
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_1_first_match_wins_and_the_rest_is_denied),
		cmocka_unit_test(pol_1_a_final_deny_stands_before_all_others),
		cmocka_unit_test(pol_2_log_is_allowed_and_marked),
		cmocka_unit_test(pol_2_approve_is_an_effect_of_its_own),
		cmocka_unit_test(pol_3_a_path_that_is_not_plain_is_denied),
		cmocka_unit_test(pol_1_defaults_per_class),
		cmocka_unit_test(pol_6_deciding_does_not_allocate),
		cmocka_unit_test(pol_1_the_real_name_of_a_file_restricts_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
