// SPDX-License-Identifier: Apache-2.0
/* That policy_decide_file decides like policy_decide is shown by every test that uses
 * policy_kit_decide. */
#include "policy/testkit/policy_testkit.h"

#define DENY(pattern) "  - {name: d, paths: ['" pattern "'], operations: [read], decision: deny}\n"

static uint32_t set_in(struct policy_kit *k, const char *path, bool made)
{
	struct file_rules f;

	policy_decide_file(k->p, path, made, &f);
	return policy_file_set(k->p, &f);
}

static uint32_t set_at(struct policy_kit *k, const char *path)
{
	return set_in(k, path, false);
}

static void fil_3_paths_that_are_decided_alike_have_one_set(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD
			"default: {files: allow}\nfile_rules:\n"
			"  - {name: a, paths: ['/w/h'], decision: deny, hide: true}\n"
			"  - {name: b, paths: ['/w/a/*'], operations: [read], decision: deny}\n"
			"  - {name: c, paths: ['/w/b/*'], operations: [read], decision: approve}\n"
			"  - {name: d, paths: ['/w/l'], operations: [read], decision: log}\n",
			NULL);
	assert_int_equal(set_at(&k, "/w/x"), 0);
	assert_int_equal(set_at(&k, "/w/a/x"), 1U << OP_FILE_read);
	/* what an approver may allow is denied, and more */
	assert_int_equal(set_at(&k, "/w/b/x") & POLICY_FILE_ALL, 1U << OP_FILE_read);
	assert_int_equal(POLICY_FILE_APPROVE(set_at(&k, "/w/b/x")), 1U << OP_FILE_read);
	assert_int_equal(POLICY_FILE_APPROVE(set_at(&k, "/w/a/x")), 0);
	assert_int_equal(POLICY_FILE_APPROVE(set_at(&k, "/w/l")), 0);
	assert_int_equal(set_at(&k, "/w/h"), POLICY_FILE_ALL | POLICY_FILE_HIDDEN);
	assert_int_equal(set_at(&k, "/w/l") & POLICY_FILE_ALL, 0);
	assert_int_not_equal(set_at(&k, "/w/l"), 0);
	assert_int_equal(set_at(&k, "/w/../x"), POLICY_FILE_ALL);
	policy_kit_close(&k);
}

static bool gains(const char *fallback, const char *rules, const char *from, const char *to)
{
	cleanup_free char *text =
		mem_printf(HEAD "default: {files: %s}\nfile_rules:\n%s", fallback, rules);
	struct policy_kit k;
	bool r;

	policy_kit_open(&k, text, NULL);
	r = policy_file_gains(k.p, from, to, POLICY_FILE_ALL);
	policy_kit_close(&k);
	return r;
}

#define ALLOW(pattern) "  - {name: a, paths: ['" pattern "'], decision: allow}\n"

static void fil_3_a_directory_that_moves_takes_no_file_out_of_a_rule(void **state)
{
	assert_true(gains("allow", DENY("/w/a/secret/**"), "/w/a", "/w/b"));
	assert_true(gains("allow", DENY("/w/a/s[!e]cret"), "/w/a", "/w/b"));
	assert_true(gains("allow", DENY("/w/*/x"), "/w/a", "/w/b/a"));
	assert_true(gains("allow", DENY("/w/*/x"), "/w/b/a", "/w/a") == false);
	assert_false(gains("allow", DENY("/w/*/x"), "/w/a", "/w/b"));
	assert_false(gains("allow", DENY("**/x"), "/w/a", "/w/b/c"));
	assert_false(gains("allow", DENY("/w/b/secret/**"), "/w/a", "/w/b"));
	assert_false(gains("allow", DENY("/w/c/**"), "/w/a", "/w/b"));
	/* what one rule allows here, another may allow there */
	assert_true(gains("deny", ALLOW("/w/b/**"), "/w/a", "/w/b"));
	assert_false(gains("deny",
			   ALLOW("/w/b/**") "  - {name: c, paths: ['/w/a/**'], decision: allow}\n",
			   "/w/a", "/w/b"));
	/* an earlier rule already allows it */
	assert_false(gains("allow", ALLOW("**/secret") DENY("/w/a/secret"), "/w/a", "/w/b"));
}

static void fil_3_a_rule_may_leave_out_what_the_session_made(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD "default: {files: allow}\nfile_rules:\n"
			     "  - {name: a, paths: ['**/g/c', '/real/g/x'], operations: [write],"
			     " decision: deny, existing_only: true}\n" DENY("**/c"),
			NULL);
	assert_int_equal(set_in(&k, "/w/g/c", false), 1U << OP_FILE_write | 1U << OP_FILE_read);
	assert_int_equal(set_in(&k, "/w/g/c", true), 1U << OP_FILE_read);
	policy_name_workspace(k.p, "/real");
	assert_int_equal(set_in(&k, "/workspace/g/x", false), 1U << OP_FILE_write);
	assert_int_equal(set_in(&k, "/workspace/g/x", true), 0);
	/* the directories in which such a name may be */
	assert_true(policy_spares(k.p, NULL));
	assert_true(policy_spares(k.p, "/w/g"));
	assert_true(policy_spares(k.p, "/workspace/g"));
	assert_false(policy_spares(k.p, "/w"));
	assert_false(policy_spares(k.p, "/w/g/c"));
	policy_kit_close(&k);
}

static void fil_3_a_move_gains_only_the_operations_that_are_asked_for(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, HEAD "default: {files: allow}\nfile_rules:\n" DENY("/w/a/x"), NULL);
	assert_true(policy_file_gains(k.p, "/w/a", "/w/b", 1U << OP_FILE_read));
	assert_false(policy_file_gains(k.p, "/w/a", "/w/b", 1U << OP_FILE_create));
	policy_kit_close(&k);
}

#define KEEP(pattern) \
	"  - {name: k, paths: ['" pattern "'], operations: [delete], decision: soft_delete}\n"

/* A file that is kept when it is deleted must not become one that is not. */
static void fil_3_a_directory_that_moves_takes_no_file_away_from_the_trash(void **state)
{
	assert_true(gains("allow", KEEP("/w/a/x/**"), "/w/a", "/w/b"));
	assert_false(gains("allow", KEEP("/w/b/x/**"), "/w/a", "/w/b"));
	assert_false(gains("allow", KEEP("/w/**"), "/w/a", "/w/b"));
	assert_false(gains("deny", KEEP("/w/a/**"), "/w/a", "/w/b"));
	/* denied there, kept here */
	assert_true(gains("deny", KEEP("/w/b/**"), "/w/a", "/w/b"));
	assert_true(gains("allow", ALLOW("/w/b/**") KEEP("/w/**"), "/w/a", "/w/b"));
}

static void fil_3_a_deletion_that_is_kept_is_allowed(void **state)
{
	struct policy_kit k;
	struct file_rules f;
	struct verdict v;

	policy_kit_open(&k, HEAD "default: {files: deny}\nfile_rules:\n" KEEP("/w/**"), NULL);
	assert_true(policy_soft_deletes(k.p));
	policy_decide_file(k.p, "/w/x", false, &f);
	policy_file_verdict(k.p, &f, OP_FILE_delete, false, &v);
	assert_int_equal(v.decision, DECISION_soft_delete);
	assert_int_equal(v.effective, DECISION_allow);
	policy_file_verdict(k.p, &f, OP_FILE_rename, false, &v);
	assert_int_equal(v.decision, DECISION_deny);
	policy_kit_close(&k);
	policy_kit_open(&k, HEAD "file_rules:\n" DENY("/w/**"), NULL);
	assert_false(policy_soft_deletes(k.p));
	policy_kit_close(&k);
}

/* A rule that denies also counts by the path on the host. */
static void fil_3_the_other_name_of_the_workspace_is_restricted(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD "default: {files: allow}\nfile_rules:\n" DENY("/home/p/a/secret")
				ALLOW("/workspace/x"),
			NULL);
	assert_int_equal(set_at(&k, "/workspace/a/secret"), 0);
	assert_false(policy_file_gains(k.p, "/workspace/a", "/workspace/b", POLICY_FILE_ALL));
	policy_name_workspace(k.p, "/home/p");
	assert_int_equal(set_at(&k, "/workspace/a/secret"), 1U << OP_FILE_read);
	assert_true(policy_file_gains(k.p, "/workspace/a", "/workspace/b", POLICY_FILE_ALL));
	assert_false(policy_file_gains(k.p, "/workspace/b", "/workspace/a", POLICY_FILE_ALL));
	policy_kit_close(&k);
}

/* A file near the limit of a path's length has a longer path on the host. */
static void fil_3_a_path_that_is_too_long_on_the_host_is_restricted(void **state)
{
	char path[PATH_MAX], real[PATH_MAX];
	struct policy_kit k;

	memset(path, 'x', sizeof(path));
	memcpy(path, "/workspace/a/", strlen("/workspace/a/"));
	for (size_t i = 100; i < sizeof(path); i += 100)
		path[i] = '/';
	path[PATH_MAX - 1] = '\0';
	memset(real, 'p', sizeof(real));
	memcpy(real, "/home/", strlen("/home/"));
	real[PATH_MAX - 1] = '\0';
	policy_kit_open(&k, HEAD "default: {files: allow}\nfile_rules:\n" DENY("/home/*/a/**"),
			NULL);
	assert_int_equal(set_at(&k, path), 0);
	policy_name_workspace(k.p, real);
	assert_int_equal(set_at(&k, path), 1U << OP_FILE_read);
	policy_kit_close(&k);
}

static uint32_t seed = 5;

static unsigned dice(unsigned n)
{
	seed = seed * 1664525U + 1013904223U;
	return (seed >> 8) % n;
}

static void random_pattern(char *out)
{
	static const char *const parts[] = {"a", "b", "*", "**", "[ab]", "?", "[!a]", "a*"};

	out += sprintf(out, "/w");
	for (unsigned i = 1 + dice(3); i > 0; i--)
		out += sprintf(out, "/%s", parts[dice(ARRAY_LEN(parts))]);
}

/* Every path below of three components that are "a", "b" or "c" is compared. */
static void check_all_below(struct policy_kit *k, const char *from, const char *to)
{
	static const char *const names[] = {"", "/a", "/b", "/c"};

	for (unsigned i = 4; i < 64; i++) {
		const char *const part[] = {names[i / 16], names[i / 4 % 4], names[i % 4]};
		cleanup_free char *a = mem_printf("%s%s%s%s", from, part[0], part[1], part[2]);
		cleanup_free char *b = mem_printf("%s%s%s%s", to, part[0], part[1], part[2]);

		for (int made = 0; made < 2; made++) {
			const uint32_t before = set_in(k, a, made), after = set_in(k, b, made);

			if (before & ~after & POLICY_FILE_ALL)
				fail_msg("%s may do more as %s", a, b);
			if (POLICY_FILE_APPROVE(after) & ~POLICY_FILE_APPROVE(before) & before)
				fail_msg("%s can be asked for as %s", a, b);
		}
	}
}

static void fil_3_random_rules_lose_no_file_by_a_move(void **state)
{
	static const char *const decisions[] = {"allow", "allow", "deny",
						"deny, existing_only: true", "approve"};
	static const char *const dirs[] = {"/w", "/w/a", "/w/b", "/w/c", "/w/a/b", "/w/c/c"};
	unsigned refused = 0;

	for (unsigned round = 0; round < 3000; round++) {
		cleanup_buf struct buf text = {0};
		const char *from = dirs[dice(ARRAY_LEN(dirs))], *to = dirs[dice(ARRAY_LEN(dirs))];
		struct policy_kit k;

		buf_addf(&text, HEAD "default: {files: %s}\nfile_rules:\n",
			 dice(2) ? "allow" : "deny");
		for (unsigned i = 1 + dice(3); i > 0; i--) {
			char pattern[64];

			random_pattern(pattern);
			buf_addf(&text, "  - {name: r%u, paths: ['%s'], decision: %s}\n", i,
				 pattern, decisions[dice(ARRAY_LEN(decisions))]);
		}
		policy_kit_open(&k, text.data, NULL);
		if (policy_file_gains(k.p, from, to, POLICY_FILE_ALL))
			refused++;
		else
			check_all_below(&k, from, to);
		policy_kit_close(&k);
	}
	assert_in_range(refused, 1, 2000);
}

static void fil_3_what_a_rename_needs_at_the_name_that_it_replaces(void **state)
{
	static const struct {
		const char *decision, *ops;
		bool needs;
	} rows[] = {
		{"allow", "[delete]", true},
		{"deny", "[delete]", true},
		{"log", "[delete]", true},
		{"approve", "[delete]", false},
		{"approve", "[delete, read, chmod]", false},
		{"approve", "[delete, write]", true},
		{"approve", "[delete, truncate]", true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *text = mem_printf(
			HEAD "default: {files: allow}\n"
			     "file_rules: [{name: r, paths: ['/workspace/x'], operations: %s, "
			     "decision: %s}]\n",
			rows[i].ops, rows[i].decision);
		struct file_rules rules;
		struct policy_kit k;

		policy_kit_open(&k, text, NULL);
		policy_decide_file(k.p, "/workspace/x", false, &rules);
		if (policy_replace_ops(policy_file_set(k.p, &rules)) !=
		    (rows[i].needs ? 1U << OP_FILE_delete : 0))
			fail_msg("%s", text);
		policy_kit_close(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_3_what_a_rename_needs_at_the_name_that_it_replaces),
		cmocka_unit_test(fil_3_paths_that_are_decided_alike_have_one_set),
		cmocka_unit_test(fil_3_a_directory_that_moves_takes_no_file_out_of_a_rule),
		cmocka_unit_test(fil_3_a_rule_may_leave_out_what_the_session_made),
		cmocka_unit_test(fil_3_a_move_gains_only_the_operations_that_are_asked_for),
		cmocka_unit_test(fil_3_a_directory_that_moves_takes_no_file_away_from_the_trash),
		cmocka_unit_test(fil_3_a_deletion_that_is_kept_is_allowed),
		cmocka_unit_test(fil_3_the_other_name_of_the_workspace_is_restricted),
		cmocka_unit_test(fil_3_a_path_that_is_too_long_on_the_host_is_restricted),
		cmocka_unit_test(fil_3_random_rules_lose_no_file_by_a_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
