// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "policy/cidr.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct cidr block(const char *s)
{
	char fixed[CIDR_TEXT];
	struct cidr c = {0};

	if (cidr_parse(s, &c, fixed) != NULL)
		fail_msg("%s", s);
	assert_true(cidr_valid(&c));
	return c;
}

static bool matches(const char *cidr, const char *address)
{
	struct cidr c = block(cidr);
	struct op_address a;

	assert_true(op_address_parse(address, &a));
	a = cidr_normal(&a);
	return cidr_match(&c, &a);
}

static void pol_3_blocks_of_both_families(void **state)
{
	assert_true(matches("10.0.0.0/8", "10.255.0.1"));
	assert_false(matches("10.0.0.0/8", "11.0.0.0"));
	assert_true(matches("172.16.0.0/12", "172.31.255.255"));
	assert_false(matches("172.16.0.0/12", "172.32.0.0"));
	assert_false(matches("172.16.0.0/12", "172.15.255.255"));
	assert_true(matches("0.0.0.0/0", "255.1.2.3"));
	assert_true(matches("1.2.3.4", "1.2.3.4"));
	assert_false(matches("1.2.3.4/32", "1.2.3.5"));
	assert_true(matches("1.2.3.4/31", "1.2.3.5"));
	assert_true(matches("fe80::/10", "febf::1"));
	assert_false(matches("fe80::/10", "fec0::1"));
	assert_true(matches("::1/128", "::1"));
	assert_false(matches("::1", "::2"));
	assert_true(matches("::/0", "fd00::1"));
}

static void pol_3_mapped_addresses_are_v4(void **state)
{
	struct cidr c = block("::ffff:10.0.0.0/104");

	assert_int_equal(c.family, 4);
	assert_int_equal(c.bits, 8);
	assert_true(matches("10.0.0.0/8", "::ffff:10.1.2.3"));
	assert_true(matches("::ffff:0:0/96", "10.1.2.3"));
	assert_false(matches("::/0", "::ffff:10.1.2.3"));
	assert_false(matches("0.0.0.0/0", "::1"));
	assert_false(matches("0.0.0.0/0", "::fffe:1.2.3.4"));
}

static void pol_5_bad_blocks_are_named(void **state)
{
	static const char *const bad[] = {
		"",
		"10.0.0.0/33",
		"10.0.0.0/",
		"10.0.0.0/08",
		"10/8",
		"::/129",
		"a.b.c.d",
		"10.0.0.0/8x",
		"10.0.0.0/-1",
		"10.0.0.0/4294967304",
		"1111111111111111111111111111111111111111111111111111111111"};
	char fixed[CIDR_TEXT];
	struct cidr c = {.bits = 77};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_non_null(cidr_parse(bad[i], &c, fixed));
		assert_string_equal(fixed, "");
	}
	assert_non_null(cidr_parse("10.0.0.1/8", &c, fixed));
	assert_string_equal(fixed, "10.0.0.0/8");
	assert_non_null(cidr_parse("fd00::1/64", &c, fixed));
	assert_string_equal(fixed, "fd00::/64");
	assert_int_equal(c.bits, 77);
	assert_null(cidr_parse("0.0.0.0/32", &c, fixed));
	assert_null(cidr_parse("::/128", &c, fixed));
}

static void pol_5_coverage(void **state)
{
	struct cidr wide = block("10.0.0.0/8"), narrow = block("10.1.0.0/16"), v6 = block("::/0");

	assert_true(cidr_covers(&wide, &narrow));
	assert_true(cidr_covers(&wide, &wide));
	assert_false(cidr_covers(&narrow, &wide));
	assert_false(cidr_covers(&v6, &wide));
}

static void pol_6_blocks_that_parsing_never_gives_are_invalid(void **state)
{
	struct cidr c = block("10.0.0.0/8");

	c.bits = 33;
	assert_false(cidr_valid(&c));
	c.bits = 32;
	assert_true(cidr_valid(&c));
	c.bits = 6;
	assert_false(cidr_valid(&c));
	c.bits = 8;
	c.byte[15] = 1;
	assert_false(cidr_valid(&c));
	c = block("::/128");
	c.bits = 129;
	assert_false(cidr_valid(&c));
	c.family = 5;
	c.bits = 0;
	assert_false(cidr_valid(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_3_blocks_of_both_families),
		cmocka_unit_test(pol_3_mapped_addresses_are_v4),
		cmocka_unit_test(pol_5_bad_blocks_are_named),
		cmocka_unit_test(pol_5_coverage),
		cmocka_unit_test(pol_6_blocks_that_parsing_never_gives_are_invalid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
