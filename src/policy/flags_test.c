// SPDX-License-Identifier: Apache-2.0
#include "policy/flags.h"
#include "policy/testkit/policy_testkit.h"

static void pol_1_a_pattern_for_short_options(void **state)
{
	static const struct {
		const char *pattern;
		size_t letters;
	} rows[] = {{"-rf", 2},	  {"-rf*", 2}, {"-r *", 1}, {"-9**", 1}, {"-", 0},
		    {"-*", 0},	  {"", 0},     {"rf*", 0},  {"--rf", 0}, {"-r-f", 0},
		    {"-rf*x", 0}, {"-r f", 0}, {"-r ", 0},  {"-r?", 0},	 {"-[rf]", 0}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (flags_letters(rows[i].pattern) != rows[i].letters)
			fail_msg("'%s' has %zu", rows[i].pattern, flags_letters(rows[i].pattern));
}

static void pol_1_groups_of_options(void **state)
{
	assert_null(flags_check_group("-r"));
	assert_null(flags_check_group("-r -R --recursive"));
	assert_null(flags_check_group("--a.b_c-d"));
	assert_non_null(flags_check_group(""));
	assert_non_null(flags_check_group(" -r"));
	assert_non_null(flags_check_group("-r  -R"));
	assert_non_null(flags_check_group("-rf"));
	assert_non_null(flags_check_group("-r --a=b"));
	assert_non_null(flags_check_group("-r ---a"));
	assert_true(flags_group_has("-r --rec -x", "-x", 2));
	assert_false(flags_group_has("-r --rec -x", "--re", 4));
	assert_true(flags_group_covers("-r -R", "-R"));
	assert_false(flags_group_covers("-R", "-r -R"));
}

/* The interpreter's options may end with "--"; those of the script are behind it. */
static void pol_1_options_of_a_script(void **state)
{
	static const char *const argv[] = {"sh", "--", "/w/tool", "-r", "-f"};
	const struct op op = {.class = OP_EXEC,
			      .exec = {.path = "/usr/bin/sh",
				       .called = "/w/tool",
				       .script = "/w/tool",
				       .argv = argv,
				       .argc = 5,
				       .own = 3}};
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD
			"command_rules:\n"
			"  - {name: t, commands: [tool], flags: [[-r], [-f]], decision: deny}\n",
			NULL);
	assert_string_equal(policy_kit_decide(&k, &op).rule, "t");
	policy_kit_close(&k);
	policy_kit_open(&k,
			HEAD
			"command_rules:\n"
			"  - {name: t, commands: [tool], flags: true, args_pattern: ['-fr*'],\n"
			"     decision: deny}\n",
			NULL);
	assert_string_equal(policy_kit_decide(&k, &op).rule, "t");
	policy_kit_close(&k);
}

static void pol_7_groups_are_shown(void **state)
{
	cleanup_buf struct buf out = {0};
	const struct op op = {.class = OP_EXEC, .exec = {.path = "/usr/bin/x"}};
	struct strv lines = {0};
	struct policy_kit k;

	policy_kit_open(
		&k,
		HEAD "command_rules:\n"
		     "  - {name: t, commands: [a], flags: [[-r, --rec], [-f]], decision: allow}\n",
		NULL);
	policy_format(k.p, NULL, &JW(&out));
	assert_non_null(strstr(out.data, "\"flags\":[[\"-r\",\"--rec\"],[\"-f\"]]"));
	policy_alternatives(k.p, &op, &lines);
	assert_string_equal(lines.v[0], "a with one of -r --rec and -f");
	strv_done(&lines);
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_1_a_pattern_for_short_options),
		cmocka_unit_test(pol_1_groups_of_options),
		cmocka_unit_test(pol_1_options_of_a_script),
		cmocka_unit_test(pol_7_groups_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
