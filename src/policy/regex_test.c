// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "policy/regex.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void pol_1_patterns_are_checked(void **state)
{
	char longest[REGEX_MAX + 2];
	struct err err = {0};

	assert_int_equal(regex_check("^a[0-9]+$", &err), 0);
	assert_int_equal(regex_check("(a", &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "at character 3"));
	assert_int_equal(regex_check("(*UTF)a", &err), -E_BAD_REQUEST);
	memset(longest, 'a', sizeof(longest));
	longest[REGEX_MAX] = '\0';
	assert_int_equal(regex_check(longest, &err), 0);
	longest[REGEX_MAX] = 'a';
	longest[REGEX_MAX + 1] = '\0';
	assert_int_equal(regex_check(longest, &err), -E_BAD_REQUEST);
}

static enum regex_result match_text(struct regexes *r, size_t i, const char *text, size_t len)
{
	cleanup_free char *copy = mem_strndup(text, len);
	const char *const v[] = {copy};

	return regexes_match(r, i, v, 1, true);
}

static enum regex_result match(const char *pattern, const char *text)
{
	struct regexes *r = regexes_new(1);
	enum regex_result got;

	assert_int_equal(regexes_add(r, 0, pattern, NULL), 0);
	got = match_text(r, 0, text, strlen(text));
	regexes_free(r);
	return got;
}

static void pol_1_what_costs_too_much_is_over_the_limit(void **state)
{
	char *big = mem_alloc(REGEX_SUBJECT + 2);
	struct regexes *r = regexes_new(3);

	assert_int_equal(match("a", "bab"), REGEX_YES);
	assert_int_equal(match("^a", "bab"), REGEX_NO);
	assert_int_equal(match("a.b$", "a\nb"), REGEX_YES);
	assert_int_equal(match("ab$", "ab\n"), REGEX_NO);
	assert_int_equal(match("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"), REGEX_OVER);
	assert_int_equal(match("(*LIMIT_MATCH=4000000000)^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaab"),
			 REGEX_OVER);
	assert_int_equal(match("^(a|b|ab)*c$", "ababababababababababababababababababcd"),
			 REGEX_OVER);
	assert_int_equal(regexes_add(r, 0, "x", NULL), 0);
	memset(big, 'a', REGEX_SUBJECT + 1);
	assert_int_equal(match_text(r, 0, big, REGEX_SUBJECT - 1), REGEX_NO);
	assert_int_equal(match_text(r, 0, big, REGEX_SUBJECT), REGEX_OVER);
	regexes_free(r);
	free(big);
}

static void pol_1_arguments_one_by_one_and_joined(void **state)
{
	static const char *const v[] = {"-d", "x y", "z"};
	char *big = mem_alloc(REGEX_SUBJECT + 1);
	const char *many[] = {"a", big};
	struct regexes *r = regexes_new(3);

	regexes_add(r, 0, "^x y$", NULL);
	regexes_add(r, 1, "^-d x", NULL);
	regexes_add(r, 2, "^$", NULL);
	assert_int_equal(regexes_match(r, 0, v, 3, false), REGEX_YES);
	assert_int_equal(regexes_match(r, 0, v, 3, true), REGEX_NO);
	assert_int_equal(regexes_match(r, 1, v, 3, true), REGEX_YES);
	assert_int_equal(regexes_match(r, 1, v + 1, 2, false), REGEX_NO);
	assert_int_equal(regexes_match(r, 2, v, 0, true), REGEX_YES);
	memset(big, 'b', REGEX_SUBJECT);
	big[REGEX_SUBJECT - 3] = '\0';
	assert_int_equal(regexes_match(r, 1, many, 2, true), REGEX_NO);
	big[REGEX_SUBJECT - 3] = 'b';
	assert_int_equal(regexes_match(r, 1, many, 2, true), REGEX_OVER);
	regexes_free(r);
	free(big);
}

/* One try may stay below its limit, and a line has many places to try. */
static void pol_1_all_matches_of_a_decision_have_one_limit(void **state)
{
	enum { RUN = 12, RUNS = 2000 };
	struct regexes *r = regexes_new(3);
	char *text = mem_alloc((RUN + 1) * RUNS + 1);
	const char *v[] = {text + (RUN + 1) * (RUNS - 1), text};

	for (size_t i = 0; i < (RUN + 1) * RUNS; i++)
		text[i] = i % (RUN + 1) == RUN ? '!' : 'a';
	regexes_add(r, 0, "(a+)+$", NULL);
	regexes_add(r, 1, "[a-z]*1", NULL);
	regexes_add(r, 2, "z", NULL);
	assert_int_equal(match_text(r, 0, text, RUN + 1), REGEX_NO);
	assert_int_equal(match_text(r, 0, text, (RUN + 1) * RUNS), REGEX_OVER);
	/* there is nothing left, until the next decision */
	assert_int_equal(match_text(r, 0, text, RUN + 1), REGEX_OVER);
	regexes_begin(r);
	assert_int_equal(match_text(r, 0, text, RUN + 1), REGEX_NO);
	assert_int_equal(regexes_match(r, 0, v, 1, false), REGEX_NO);
	assert_int_equal(regexes_match(r, 0, v, 2, false), REGEX_OVER);
	/* what is passed over counts as well */
	regexes_begin(r);
	memset(text, 'a', (RUN + 1) * RUNS);
	memcpy(text + (RUN + 1) * RUNS - 2, " 1", 2);
	assert_int_equal(match_text(r, 1, text, (RUN + 1) * RUNS / 10), REGEX_NO);
	assert_int_equal(match_text(r, 1, text, (RUN + 1) * RUNS), REGEX_OVER);
	regexes_begin(r);
	assert_int_equal(match_text(r, 2, text, (RUN + 1) * RUNS), REGEX_NO);
	regexes_free(r);
	free(text);
}

/* Patterns that backtrack deeply use what was allocated before, again and again. */
static void pol_6_deep_patterns_use_the_same_memory_again(void **state)
{
	struct regexes *r = regexes_new(3);
	char text[400];

	regexes_add(r, 0, "^(?:(a)|b)*?c$", NULL);
	regexes_add(r, 1, "((((((((a*)*)*)*)*)*)*)*)c", NULL);
	memset(text, 'a', sizeof(text));
	for (unsigned i = 0; i < 2000; i++) {
		regexes_begin(r);
		match_text(r, i % 2, text, sizeof(text));
		assert_int_equal(match_text(r, 0, "ac", 2), REGEX_YES);
	}
	regexes_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_1_patterns_are_checked),
		cmocka_unit_test(pol_1_what_costs_too_much_is_over_the_limit),
		cmocka_unit_test(pol_1_arguments_one_by_one_and_joined),
		cmocka_unit_test(pol_1_all_matches_of_a_decision_have_one_limit),
		cmocka_unit_test(pol_6_deep_patterns_use_the_same_memory_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
