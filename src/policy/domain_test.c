// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "policy/domain.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void pol_3_case_and_trailing_dots_do_not_matter(void **state)
{
	char out[DOMAIN_ROOM];

	assert_true(domain_normal("WWW.Example.COM.", out));
	assert_string_equal(out, "www.example.com");
	assert_true(domain_normal("localhost", out));
	assert_true(domain_normal("_srv._tcp.a-b.example", out));
	assert_string_equal(out, "_srv._tcp.a-b.example");
}

static void pol_3_what_is_no_name_is_refused(void **state)
{
	static const char *const bad[] = {"",	 ".",	"..", "a..b",	     ".a",    "a..", "a b",
					  "a/b", "a:1", "*",  "a\xc3\xa9.b", "[::1]", "a\n"};
	char longest[DOMAIN_MAX + 4], label[70], out[DOMAIN_ROOM];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (domain_normal(bad[i], out))
			fail_msg("%s", bad[i]);
	memset(label, 'a', sizeof(label));
	label[63] = '\0';
	assert_true(domain_normal(label, out));
	label[63] = 'a';
	label[64] = '\0';
	assert_false(domain_normal(label, out));
	for (unsigned i = 0; i < sizeof(longest); i++)
		longest[i] = i % 2 ? '.' : 'a';
	longest[DOMAIN_MAX] = '\0';
	assert_true(domain_normal(longest, out));
	longest[DOMAIN_MAX] = '.';
	longest[DOMAIN_MAX + 1] = '\0';
	assert_true(domain_normal(longest, out));
	longest[DOMAIN_MAX + 1] = 'a';
	longest[DOMAIN_MAX + 2] = '\0';
	assert_false(domain_normal(longest, out));
}

static void pol_3_patterns(void **state)
{
	char out[DOMAIN_ROOM];

	assert_null(domain_check("*", out));
	assert_string_equal(out, "*");
	assert_null(domain_check("*.Example.com.", out));
	assert_string_equal(out, "*.example.com");
	assert_null(domain_check("Example.com", out));
	assert_string_equal(out, "example.com");
	assert_non_null(domain_check("*example.com", out));
	assert_non_null(domain_check("a.*.com", out));
	assert_non_null(domain_check("*.*", out));
	assert_non_null(domain_check("*.", out));
	assert_non_null(domain_check("https://example.com", out));
	assert_non_null(domain_check("example.com:443", out));
	assert_non_null(domain_check("", out));
}

static void pol_3_matching(void **state)
{
	assert_true(domain_match("*", "a.b"));
	assert_true(domain_match("a.b", "a.b"));
	assert_false(domain_match("a.b", "x.a.b"));
	assert_true(domain_match("*.a.b", "x.a.b"));
	assert_true(domain_match("*.a.b", "y.x.a.b"));
	assert_false(domain_match("*.a.b", "a.b"));
	assert_false(domain_match("*.a.b", "xa.b"));
	assert_false(domain_match("*.a.b", ".a.b"));
	assert_false(domain_match("*.a.b", "xxa.b"));
}

static void pol_5_relations(void **state)
{
	assert_true(domain_covers("*", "*.a"));
	assert_true(domain_covers("*", "*"));
	assert_true(domain_covers("*.a", "*.a"));
	assert_true(domain_covers("*.a", "*.b.a"));
	assert_true(domain_covers("*.a", "b.a"));
	assert_false(domain_covers("*.a", "a"));
	assert_false(domain_covers("*.a", "*"));
	assert_false(domain_covers("a", "*.a"));
	assert_false(domain_covers("*.b.a", "*.a"));
	assert_true(domain_overlaps("*.b.a", "*.a"));
	assert_false(domain_overlaps("*.b.a", "c.a"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_3_case_and_trailing_dots_do_not_matter),
		cmocka_unit_test(pol_3_what_is_no_name_is_refused),
		cmocka_unit_test(pol_3_patterns),
		cmocka_unit_test(pol_3_matching),
		cmocka_unit_test(pol_5_relations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
