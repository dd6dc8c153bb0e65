// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static bool denies(const char *rules, const char *kind, const char *dir)
{
	cleanup_free char *text = mem_printf(HEAD "file_rules:\n%s", rules);
	enum op_file op;
	struct policy_kit k;
	bool r;

	assert_true(op_file_parse(kind, &op));
	policy_kit_open(&k, text, NULL);
	r = policy_denies_tree(k.p, op, dir);
	policy_kit_close(&k);
	return r;
}

#define DENY(name, path) \
	"  - {name: " name ", paths: [\"" path "\"], operations: [write], decision: deny}\n"
#define ALLOW(name, path) \
	"  - {name: " name ", paths: [\"" path "\"], operations: [\"*\"], decision: allow}\n"
#define FINAL(name, path)                                                                          \
	"  - {name: " name ", paths: [\"" path "\"], operations: [write], decision: deny, final: " \
	"true}\n"

static void sbx_2_a_rule_denies_a_whole_tree(void **state)
{
	assert_true(denies(DENY("a", "/data/**"), "write", "/data"));
	assert_true(denies(DENY("a", "/data/**"), "write", "/data/below"));
	assert_true(denies(DENY("a", "/**"), "write", "/data"));
	assert_true(denies(DENY("a", "/**"), "write", "/"));
	/* the session may make directories for which the rule does not hold */
	assert_false(
		denies("  - {name: a, paths: ['/data/**'], operations: [write], decision: deny, "
		       "existing_only: true}\n",
		       "write", "/data"));
	/* another operation, another place, only a part, only the directory */
	assert_false(denies(DENY("a", "/data/**"), "read", "/data"));
	assert_false(denies(DENY("a", "/data/**"), "write", "/dat"));
	assert_false(denies(DENY("a", "/data/**"), "write", "/data2"));
	assert_false(denies(DENY("a", "/data/x/**"), "write", "/data"));
	assert_false(denies(DENY("a", "/data/**"), "write", "/"));
	assert_false(denies(DENY("a", "/data"), "write", "/data"));
	assert_false(denies(DENY("a", "/data/*"), "write", "/data"));
	assert_false(denies(DENY("a", "**/*.c"), "write", "/data"));
}

/* What may be allowed before the rule is tried is not the rule's. */
static void sbx_2_an_allow_before_it_keeps_a_tree_open(void **state)
{
	assert_false(denies(ALLOW("b", "/data/x") DENY("a", "/data/**"), "write", "/data"));
	assert_false(denies(ALLOW("b", "**/*.c") DENY("a", "/data/**"), "write", "/data"));
	assert_true(denies(ALLOW("b", "/other/**") DENY("a", "/data/**"), "write", "/data"));
	assert_true(denies(DENY("a", "/data/**") ALLOW("b", "/data/x"), "write", "/data"));
	/* a final one is tried first */
	assert_true(denies(ALLOW("b", "/data/x") FINAL("a", "/data/**"), "write", "/data"));
}

/* Patterns' letters in a path are only letters. */
static void sbx_2_a_directory_is_no_pattern(void **state)
{
	assert_false(denies(DENY("a", "/data/x/**"), "write", "/data/*"));
	assert_true(denies(DENY("a", "/data/**"), "write", "/data/[x]"));
}

/* The default is not a rule: files that no rule names are left to a wall that decides single files.
 */
static void sbx_2_a_default_shuts_nothing(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, HEAD "default: {files: deny}\nfile_rules:\n" ALLOW("a", "/w/**"), NULL);
	assert_false(policy_denies_tree(k.p, OP_FILE_write, "/data"));
	policy_kit_close(&k);
}

static void pol_2_an_approval_is_a_denial_unless_it_only_watches(void **state)
{
	static const char text[] = HEAD
		"file_rules:\n"
		"  - {name: a, paths: [\"/data/**\"], operations: [write], decision: approve}\n";
	const struct policy_options shadow = {.shadow = true};
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	assert_true(policy_denies_tree(k.p, OP_FILE_write, "/data"));
	policy_kit_close(&k);
	policy_kit_open(&k, text, &shadow);
	assert_false(policy_denies_tree(k.p, OP_FILE_write, "/data"));
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_2_a_rule_denies_a_whole_tree),
		cmocka_unit_test(sbx_2_an_allow_before_it_keeps_a_tree_open),
		cmocka_unit_test(sbx_2_a_directory_is_no_pattern),
		cmocka_unit_test(sbx_2_a_default_shuts_nothing),
		cmocka_unit_test(pol_2_an_approval_is_a_denial_unless_it_only_watches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
