// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "policy/glob.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct row {
	const char *pattern, *text;
	bool want;
};

static void pol_3_paths(void **state)
{
	static const struct row rows[] = {
		{"/w/**", "/w", true},
		{"/w/**", "/w/a", true},
		{"/w/**", "/w/a/b/c", true},
		{"/w/**", "/wa", false},
		{"/w/**", "/", false},
		{"/w/*", "/w/a", true},
		{"/w/*", "/w", false},
		{"/w/*", "/w/a/b", false},
		{"**", "/", true},
		{"**", "/a/b", true},
		{"/**", "/", true},
		{"/", "/", true},
		{"/", "/a", false},
		{"**/.env", "/.env", true},
		{"**/.env", "/w/a/.env", true},
		{"**/.env", "/w/.env/x", false},
		{"**/.env", "/w/a.env", false},
		{"**/.env.*", "/w/.env.local", true},
		{"**/.env.*", "/w/.env", false},
		{"/home/**/.ssh/**", "/home/.ssh", true},
		{"/home/**/.ssh/**", "/home/u/.ssh/id", true},
		{"/home/**/.ssh/**", "/home/u/ssh/id", false},
		{"**/a/**/b", "/a/x/a/y/b", true},
		{"**/a/**/b", "/a/x/a/y/c", false},
		{"/a/**/b/*/c", "/a/b/b/x/c", true},
		{"/a/**/b/*/c", "/a/b/x/y/c", false},
		{"/w/?.c", "/w/a.c", true},
		{"/w/?.c", "/w/\xc3\xa9.c", true},
		{"/w/?.c", "/w/\xff.c", true},
		{"/w/?.c", "/w/ab.c", false},
		{"/w/?.c", "/w/.c", false},
		{"/w/[a-c]x", "/w/ax", true},
		{"/w/[a-c]x", "/w/cx", true},
		{"/w/[a-c]x", "/w/dx", false},
		{"/w/[!a-c]x", "/w/dx", true},
		{"/w/[^a-c]x", "/w/bx", false},
		{"/w/[]x]", "/w/]", true},
		{"/w/[!]x]", "/w/]", false},
		{"/w/[a-]", "/w/-", true},
		{"/w/[\\]a]", "/w/]", true},
		{"/w/[\xc3\xa0-\xc3\xaf]", "/w/\xc3\xa9", true},
		{"/w/[\xc3\xa0-\xc3\xa8]", "/w/\xc3\xa9", false},
		{"/w/\\*", "/w/*", true},
		{"/w/\\*", "/w/a", false},
		{"/w/a\\\\b", "/w/a\\b", true},
		{"/w/*a*b", "/w/xaxxaxb", true},
		{"/w/*a*b", "/w/xbxxa", false},
		{"/w/*", "/w/.hidden", true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_null(glob_check_path(rows[i].pattern));
		if (glob_match_path(rows[i].pattern, rows[i].text) != rows[i].want)
			fail_msg("%s on %s", rows[i].pattern, rows[i].text);
	}
}

static void pol_3_texts(void **state)
{
	static const struct row rows[] = {
		{"install*", "install", true},
		{"install*", "installer x", true},
		{"install*", "uninstall", false},
		{"-rf*", "-rf/", true},
		{"*", "", true},
		{"*", "a/b c", true},
		{"a?c", "abc", true},
		{"a?c", "a/c", true},
		{"a", "", false},
		{"", "", true},
		{"[0-9]*", "7x", true},
		{"[0-9]*", "x7", false},
		{"**x", "abx", true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (glob_match_text(rows[i].pattern, rows[i].text) != rows[i].want)
			fail_msg("%s on %s", rows[i].pattern, rows[i].text);
}

static void pol_3_joined_texts(void **state)
{
	const char *const v[] = {"-r", "", "a b", "\xc3"};

	assert_true(glob_match_joined("-r *", v, 2));
	assert_true(glob_match_joined("-r ", v, 2));
	assert_false(glob_match_joined("-r", v, 2));
	assert_true(glob_match_joined("-r", v, 1));
	assert_true(glob_match_joined("-r  a b", v, 3));
	assert_true(glob_match_joined("*b", v, 3));
	assert_true(glob_match_joined("*b ?", v, 4));
	assert_false(glob_match_joined("*b ??", v, 4));
	assert_true(glob_match_joined("*", v, 0));
	assert_false(glob_match_joined("?", v, 0));
}

/* A slow matcher, straight from the words: used to check the fast one. */
static bool slow_text(const char *p, const char *t, const char *end)
{
	if (*p == '\0' || *p == '/')
		return t == end;
	if (*p == '*')
		return slow_text(p + 1, t, end) || (t < end && slow_text(p, t + 1, end));
	return t < end && (*p == '?' || *p == *t) && slow_text(p + 1, t + 1, end);
}

static bool slow_path(const char *p, const char *t)
{
	const size_t np = strcspn(p, "/"), nt = strcspn(t, "/");
	const char *next_p = p + np + (p[np] == '/'), *next_t = t + nt + (t[nt] == '/');

	if (*p == '\0')
		return *t == '\0';
	if (np == 2 && p[0] == '*' && p[1] == '*')
		return slow_path(next_p, t) || (*t != '\0' && slow_path(p, next_t));
	return *t != '\0' && slow_text(p, t, t + nt) && slow_path(next_p, next_t);
}

static uint32_t seed = 1;

static unsigned dice(unsigned n)
{
	seed = seed * 1664525U + 1013904223U;
	return (seed >> 8) % n;
}

static void random_path(char *out, bool pattern)
{
	static const char *const parts[] = {"a",  "b",	"ab", "aab", "*",
					    "a*", "*b", "**", "?",   "*a*"};
	const unsigned n = 1 + dice(5);
	char *p = out;

	for (unsigned i = 0; i < n; i++)
		p += sprintf(p, "/%s", parts[dice(pattern ? 10 : 4)]);
}

static void pol_3_fast_and_slow_agree(void **state)
{
	char pattern[64], path[64];
	unsigned matched = 0;

	for (unsigned i = 0; i < 20000; i++) {
		bool want;

		random_path(pattern, true);
		random_path(path, false);
		want = slow_path(pattern + 1, path + 1);
		matched += want;
		if (glob_match_path(pattern, path) != want)
			fail_msg("%s on %s", pattern, path);
	}
	assert_in_range(matched, 1000, 15000);
}

/* A yes of covers and a no of overlaps are promises. */
static void pol_5_relations_keep_their_promises(void **state)
{
	char a[64], b[64], path[64];
	unsigned covered = 0, apart = 0;

	for (unsigned i = 0; i < 4000; i++) {
		bool covers, overlaps;

		random_path(a, true);
		random_path(b, true);
		covers = glob_path_covers(a, b);
		overlaps = glob_path_overlaps(a, b);
		covered += covers;
		apart += !overlaps;
		for (unsigned k = 0; k < 30; k++) {
			const char *at = path;

			random_path(path, false);
			if (covers && glob_match_path(b, at) && !glob_match_path(a, at))
				fail_msg("%s does not cover %s: %s", a, b, at);
			if (!overlaps && glob_match_path(b, at) && glob_match_path(a, at))
				fail_msg("%s overlaps %s: %s", a, b, at);
		}
	}
	assert_in_range(covered, 100, 3000);
	assert_in_range(apart, 100, 3500);
}

static void pol_5_relations_of_known_patterns(void **state)
{
	assert_true(glob_path_covers("/w/**", "/w/a/*.c"));
	assert_true(glob_path_covers("/w/**", "/w"));
	assert_true(glob_path_covers("**", "/w/**"));
	assert_false(glob_path_covers("/w/*", "/w/**"));
	assert_false(glob_path_covers("/w/**", "**/.env"));
	assert_true(glob_path_overlaps("/w/**", "**/.env"));
	assert_false(glob_path_overlaps("/w/**", "/etc/**"));
	assert_false(glob_path_overlaps("/w/*.c", "/w/*.h"));
	assert_true(glob_path_overlaps("/w/*.c", "/w/a*"));
	assert_true(glob_text_covers("python*", "python3"));
	assert_true(glob_text_covers("[ab]x", "[ab]x"));
	assert_false(glob_text_covers("[ab]x", "[bc]x"));
	assert_true(glob_text_covers("?x", "[bc]x"));
	assert_true(glob_text_covers("[ab]x", "ax"));
	assert_false(glob_text_covers("[ab]x", "?x"));
	assert_false(glob_text_covers("a", "a*"));
	assert_true(glob_text_overlaps("a*", "*b"));
	assert_false(glob_text_overlaps("a*", "b*"));
	assert_false(glob_text_overlaps("[ab]x", "cx"));
	assert_true(glob_text_overlaps("[ab]x", "[bc]x"));
	assert_false(glob_text_overlaps("ab", "a"));
	assert_true(glob_text_overlaps("a*", "a"));
	assert_true(glob_text_overlaps("a\\*", "*\\*"));
}

/* The short way around against the long one, over all small patterns and texts. */
static void pol_3_rests_of_joined_texts(void **state)
{
	static const char letters[] = "ab*? ";
	static const char *const words[] = {"", "a", "b", "ab", "ba", "a b"};
	char pattern[5] = {0};
	unsigned yes = 0;

	for (unsigned p = 0; p < 5 * 5 * 5 * 5; p++) {
		for (unsigned k = 0, rest = p; k < 4; k++, rest /= 5)
			pattern[k] = letters[rest % 5];
		for (unsigned t = 0; t < 6 * 6 * 6; t++) {
			const char *const v[] = {words[t % 6], words[t / 6 % 6], words[t / 36]};
			bool want = false;

			for (size_t i = 0; i < 3; i++)
				want |= glob_match_joined(pattern, v + i, 3 - i);
			if (glob_match_rests(pattern, v, 3) != want)
				fail_msg("'%s' on '%s' '%s' '%s'", pattern, v[0], v[1], v[2]);
			yes += want;
		}
	}
	assert_true(yes > 1000);
	assert_false(glob_match_rests("*", NULL, 0));
}

static void pol_3_many_arguments_take_no_minutes(void **state)
{
	static const char *v[16384];

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		v[i] = "push-xxxxxx";
	assert_false(glob_match_rests("*bad*", v, ARRAY_LEN(v)));
	assert_false(glob_match_rests("push*bad*", v, ARRAY_LEN(v)));
	v[ARRAY_LEN(v) - 1] = "bad";
	assert_true(glob_match_rests("push*bad*", v, ARRAY_LEN(v)));
}

static void pol_5_bad_patterns_are_named(void **state)
{
	static const char *const bad_paths[] = {
		"",	 "a/b",	   "*/a",    "***/a", "/a//b", "/a/",	 "/a/./b", "/a/../b",
		"/a/..", "/a**/b", "/a/**b", "/[a",   "/a\\",  "/[a/b]", "**a",	   "/\\",
	};
	static const char *const good_paths[] = {"/",	"**",	"/**",	 "**/a",
						 "/.a", "/..a", "/a...", "/[]]"};
	char longest[GLOB_MAX + 2], many[4 * GLOB_COMPONENTS];

	for (size_t i = 0; i < ARRAY_LEN(bad_paths); i++)
		if (glob_check_path(bad_paths[i]) == NULL)
			fail_msg("%s", bad_paths[i]);
	for (size_t i = 0; i < ARRAY_LEN(good_paths); i++)
		if (glob_check_path(good_paths[i]) != NULL)
			fail_msg("%s", good_paths[i]);
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	longest[GLOB_MAX + 1] = '\0';
	assert_string_equal(glob_check_path(longest), "too long");
	assert_string_equal(glob_check_text(longest), "too long");
	longest[GLOB_MAX] = '\0';
	assert_null(glob_check_path(longest));
	assert_null(glob_check_text(longest));
	for (unsigned i = 0; i < GLOB_COMPONENTS; i++)
		memcpy(many + (size_t)2 * i, "/a", 3);
	assert_null(glob_check_path(many));
	assert_true(glob_path_covers(many, many));
	strcat(many, "/a");
	assert_string_equal(glob_check_path(many), "too many components");
	assert_non_null(glob_check_text(""));
	assert_non_null(glob_check_text("[a"));
	assert_non_null(glob_check_text("a\\"));
	assert_null(glob_check_text("a b/*"));
}

static void pol_3_only_plain_paths_are_plain(void **state)
{
	static const char *const plain[] = {"/", "/a", "/a/b", "/.a", "/..a", "/a/...", "/a b"};
	static const char *const not [] = {"",	  "a",	  "//",	   "/a/",   "/a//b", "/.",
					   "/..", "/a/.", "/a/..", "/../a", "/./a"};

	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		assert_true(glob_plain_path(plain[i]));
	for (size_t i = 0; i < ARRAY_LEN(not ); i++)
		if (glob_plain_path(not [i]))
			fail_msg("%s", not [i]);
}

static void pol_1_an_escaped_text_matches_itself(void **state)
{
	static const char text[] = "/a*b?[c]\\d";
	char out[2 * sizeof(text)];

	glob_escape(text, out);
	assert_null(glob_check_path(out));
	assert_true(glob_match_path(out, text));
	assert_false(glob_match_path(out, "/aXb?[c]\\d"));
	assert_false(glob_is_literal(out, strlen(out)));
	assert_true(glob_is_literal("/a*", 2));
	assert_false(glob_is_literal("/a*", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_3_paths),
		cmocka_unit_test(pol_3_texts),
		cmocka_unit_test(pol_3_joined_texts),
		cmocka_unit_test(pol_3_fast_and_slow_agree),
		cmocka_unit_test(pol_5_relations_keep_their_promises),
		cmocka_unit_test(pol_5_relations_of_known_patterns),
		cmocka_unit_test(pol_3_rests_of_joined_texts),
		cmocka_unit_test(pol_3_many_arguments_take_no_minutes),
		cmocka_unit_test(pol_5_bad_patterns_are_named),
		cmocka_unit_test(pol_3_only_plain_paths_are_plain),
		cmocka_unit_test(pol_1_an_escaped_text_matches_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
