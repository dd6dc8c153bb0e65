// SPDX-License-Identifier: Apache-2.0
/* That the decisions are right at both names is shown by property_test.c as well. */
#include "policy/testkit/policy_testkit.h"

#define NAMED(name, target, ...)                                                                   \
	"  - {name: " name ", paths: [" __VA_ARGS__ "], decision: redirect, redirect_to: '" target \
	"'}\n"
#define TO(target, ...) NAMED("r", target, __VA_ARGS__)

static void open_kit(struct policy_kit *k, const char *fallback, const char *rules)
{
	cleanup_free char *text =
		mem_printf(HEAD "default: {files: %s}\nfile_rules:\n%s", fallback, rules);

	policy_kit_open(k, text, NULL);
}

static void check(struct policy_kit *k, const char *path, const char *want, bool here)
{
	struct file_redirect to;

	if (!policy_redirect(k->p, path, &to)) {
		assert_null(want);
		return;
	}
	assert_string_equal(to.path, want);
	assert_int_equal(to.here, here);
	assert_true(to.way > 1);
}

static void fil_3_the_fixed_part_of_the_pattern_is_replaced(void **state)
{
	struct policy_kit k;

	open_kit(&k, "allow",
		 NAMED("a", "/workspace/t/c", "'/workspace/c', '/workspace/c/**'")
			 NAMED("b", "${WORKSPACE}/logs", "'/workspace/l/*.log'")
				 NAMED("c", "/workspace/[x]", "'/workspace/\\[y\\]/**'"));
	check(&k, "/workspace/c", "/workspace/t/c", true);
	check(&k, "/workspace/c/a/b", "/workspace/t/c/a/b", false);
	check(&k, "/workspace/cc", NULL, false);
	check(&k, "/workspace", NULL, false);
	check(&k, "/", NULL, false);
	check(&k, "/workspace/l", NULL, false);
	check(&k, "/workspace/l/x", NULL, false);
	check(&k, "/workspace/l/x.log", "/workspace/logs/x.log", true);
	/* what lies in a redirected directory goes with it */
	check(&k, "/workspace/l/x.log/y/z", "/workspace/logs/x.log/y/z", false);
	check(&k, "/workspace/[y]/a", "/workspace/[x]/a", false);
	check(&k, "/workspace/y/a", NULL, false);
	policy_kit_close(&k);
}

static uint32_t way(struct policy_kit *k, const char *path)
{
	struct file_redirect to;

	policy_redirect(k->p, path, &to);
	return to.way;
}

static void fil_3_each_path_to_a_directory_is_a_way_of_its_own(void **state)
{
	struct policy_kit k;

	open_kit(&k, "allow", TO("/workspace/t", "'/workspace/a/**', '/workspace/b/**'") "");
	assert_int_equal(way(&k, "/workspace/x"), 0);
	assert_int_equal(way(&k, "/workspace/t"), 1);
	assert_int_equal(way(&k, "/workspace/t/x"), 1);
	assert_int_not_equal(way(&k, "/workspace/a/x"), way(&k, "/workspace/b/x"));
	policy_kit_close(&k);
}

static void fil_3_the_first_rule_that_decides_something_redirects(void **state)
{
	struct policy_kit k;

	open_kit(
		&k, "allow",
		"  - {name: a, paths: ['/workspace/a/x'], decision: allow}\n"
		"  - {name: b, paths: ['/workspace/b/x'], operations: [read], decision: deny}\n" TO(
			"/workspace/t", "'/workspace/a/x', '/workspace/b/x'"));
	check(&k, "/workspace/a/x", NULL, false);
	check(&k, "/workspace/b/x", "/workspace/t", true);
	assert_int_equal(policy_kit_file(&k, "read", "/workspace/b/x").decision, DECISION_deny);
	assert_int_equal(policy_kit_file(&k, "write", "/workspace/b/x").decision,
			 DECISION_redirect);
	policy_kit_close(&k);
}

static void fil_3_the_stricter_decision_of_both_names_holds(void **state)
{
	struct policy_kit k;
	struct file_rules rules;
	struct verdict v;

	open_kit(&k, "allow",
		 "  - {name: n, paths: ['/workspace/c/no'], operations: [write], decision: deny}\n"
		 "  - {name: t, paths: ['/workspace/t/no2'], operations: [write], decision: deny}\n"
		 "  - {name: h, paths: ['/workspace/t/h'], decision: deny, hide: true}\n"
		 "  - {name: l, paths: ['/workspace/t/l'], decision: log}\n"
		 "  - {name: s, paths: ['/workspace/t/s'], operations: [delete], decision: "
		 "soft_delete}\n" TO(
			 "/workspace/t",
			 "'/workspace/c/**'") "  - {name: r2, paths: ['/workspace/t/again'], "
					      "decision: redirect, "
					      "redirect_to: /workspace/u}\n");
	v = policy_kit_file(&k, "read", "/workspace/c/x");
	assert_int_equal(v.decision, DECISION_redirect);
	assert_int_equal(v.effective, DECISION_allow);
	assert_null(v.target);
	assert_string_equal(policy_kit_file(&k, "write", "/workspace/c/no").rule, "n");
	v = policy_kit_file(&k, "write", "/workspace/c/no2");
	assert_string_equal(v.rule, "t");
	assert_int_equal(v.effective, DECISION_deny);
	assert_int_equal(policy_kit_file(&k, "read", "/workspace/c/no2").effective, DECISION_allow);
	policy_decide_file(k.p, "/workspace/c/h", false, &rules);
	assert_true(policy_file_set(k.p, &rules) & POLICY_FILE_HIDDEN);
	assert_int_equal(policy_kit_file(&k, "read", "/workspace/c/l").decision, DECISION_log);
	assert_int_equal(policy_kit_file(&k, "delete", "/workspace/c/s").decision,
			 DECISION_soft_delete);
	v = policy_kit_file(&k, "read", "/workspace/c/again");
	assert_int_equal(v.decision, DECISION_deny);
	assert_string_equal(v.rule, "r2");
	assert_string_equal(v.why, "the path to which it is redirected is redirected itself");
	/* by its own name it is redirected once more, and no further */
	assert_int_equal(policy_kit_file(&k, "read", "/workspace/t/again").decision,
			 DECISION_redirect);
	policy_kit_close(&k);
}

static void fil_3_the_host_name_does_not_redirect(void **state)
{
	struct policy_kit k;

	/* the workspace is /workspace/p on the host */
	open_kit(&k, "allow",
		 TO("/workspace/t",
		    "'/workspace/p/**'") "  - {name: d, paths: ['/workspace/p/t/no'], operations: "
					 "[read], decision: "
					 "deny}\n");
	policy_name_workspace(k.p, "/workspace/p");
	check(&k, "/workspace/x", NULL, false);
	check(&k, "/workspace/p/x", "/workspace/t/x", false);
	policy_name_workspace(k.cached, "/workspace/p");
	/* a denial by the host's name of the other path */
	assert_string_equal(policy_kit_file(&k, "read", "/workspace/p/no").rule, "d");
	policy_kit_close(&k);
}

static bool gains(const char *fallback, const char *rules, const char *from, const char *to)
{
	struct policy_kit k;
	bool r;

	open_kit(&k, fallback, rules);
	r = policy_file_gains(k.p, from, to, POLICY_FILE_ALL);
	policy_kit_close(&k);
	return r;
}

#define WRITE(name, path) \
	"  - {name: " name ", paths: ['" path "'], operations: [write], decision: deny}\n"

static void fil_3_a_move_does_not_uncover_what_a_redirect_covers(void **state)
{
	const char *r = TO("/workspace/t", "'/workspace/a/c/**'");

	assert_true(gains("allow", r, "/workspace/a", "/workspace/b"));
	assert_true(gains("deny", r, "/workspace/a", "/workspace/b"));
	assert_false(gains("allow", r, "/workspace/b", "/workspace/x"));
	assert_false(gains("allow", r, "/workspace/a/d", "/workspace/x"));
	/* out of the redirected directory, and into it */
	assert_false(gains("allow", r, "/workspace/a/c/d", "/workspace/x"));
	assert_false(gains("allow", r, "/workspace/x", "/workspace/a/c/d"));
}

static void fil_3_a_move_is_compared_at_both_names(void **state)
{
#define R TO("/workspace/t", "'/workspace/c/**'")
	const char *by_name = WRITE("d", "/workspace/c/d/x") R;
	const char *by_target = WRITE("d", "/workspace/t/d/x") R;

	assert_true(gains("allow", by_name, "/workspace/c/d", "/workspace/x"));
	assert_true(gains("allow", by_target, "/workspace/c/d", "/workspace/x"));
	assert_true(gains("allow", by_target, "/workspace/t/d", "/workspace/x"));
	assert_false(gains("allow", by_target, "/workspace/x", "/workspace/c/d"));
	assert_true(
		gains("allow", WRITE("d", "/workspace/x/x") R, "/workspace/x", "/workspace/c/d"));
	/* the redirected name denies it, but the other one does not */
	assert_true(gains("allow", WRITE("d", "/workspace/x/x") WRITE("e", "/workspace/c/d/x") R,
			  "/workspace/x", "/workspace/c/d"));
	assert_false(gains("allow", WRITE("d", "/workspace/x/x") WRITE("e", "/workspace/t/d/x") R,
			   "/workspace/x", "/workspace/c/d"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_3_the_fixed_part_of_the_pattern_is_replaced),
		cmocka_unit_test(fil_3_each_path_to_a_directory_is_a_way_of_its_own),
		cmocka_unit_test(fil_3_the_first_rule_that_decides_something_redirects),
		cmocka_unit_test(fil_3_the_stricter_decision_of_both_names_holds),
		cmocka_unit_test(fil_3_the_host_name_does_not_redirect),
		cmocka_unit_test(fil_3_a_move_does_not_uncover_what_a_redirect_covers),
		cmocka_unit_test(fil_3_a_move_is_compared_at_both_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
