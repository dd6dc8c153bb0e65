// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void is(const char *want, const void *a, size_t na, const void *b, size_t nb)
{
	uint8_t d[HASH_LEN];
	char hex[HASH_HEX];

	hash_sha256(d, a, na, b, nb);
	hash_hex(hex, d);
	assert_string_equal(hex, want);
}

static void evt_5_known_digests(void **state)
{
	static const char abc[] =
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

	is("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", NULL, 0, NULL, 0);
	is(abc, "abc", 3, NULL, 0);
	is(abc, NULL, 0, "abc", 3);
	is(abc, "a", 1, "bc", 2);
	is("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", "hel", 3, "lo", 2);
}

static void api_3_hex_is_read_exactly(void **state)
{
	uint8_t out[3] = {9, 9, 9};

	assert_int_equal(hash_unhex(out, 2, "09aF"), 0);
	assert_memory_equal(out, "\x09\xaf\x09", 3);
	assert_int_equal(hash_unhex(out, 0, ""), 0);
	assert_int_equal(hash_unhex(out, 2, "09a"), -1);
	assert_int_equal(hash_unhex(out, 2, "09af0"), -1);
	assert_int_equal(hash_unhex(out, 2, "09af00"), -1);
	assert_int_equal(hash_unhex(out, 1, ""), -1);
	assert_int_equal(hash_unhex(out, 3, "0000zz"), -1);
	assert_memory_equal(out, "\x09\xaf\x09", 3);
}

static void api_3_every_character_is_judged(void **state)
{
	for (int c = 1; c < 256; c++) {
		const char one[] = {'0', (char)c, '\0'}, two[] = {(char)c, '0', '\0'};
		const char *at = strchr("0123456789abcdef", c), *up = strchr("ABCDEF", c);
		const int want = at != NULL || up != NULL ? 0 : -1;
		uint8_t out = 0;

		assert_int_equal(hash_unhex(&out, 1, two), want);
		assert_int_equal(hash_unhex(&out, 1, one), want);
		if (at != NULL)
			assert_int_equal(out, at - "0123456789abcdef");
		if (up != NULL)
			assert_int_equal(out, c - 'A' + 10);
	}
}

static void api_3_equality_sees_every_byte(void **state)
{
	uint8_t a[HASH_LEN] = {0}, b[HASH_LEN] = {0};

	assert_int_equal(hash_equal(a, b, HASH_LEN), 1);
	assert_int_equal(hash_equal(a, b, 0), 1);
	b[HASH_LEN - 1] = 1;
	assert_int_equal(hash_equal(a, b, HASH_LEN), 0);
	assert_int_equal(hash_equal(a, b, HASH_LEN - 1), 1);
	a[HASH_LEN - 1] = 1;
	a[0] = 0x80;
	assert_int_equal(hash_equal(a, b, HASH_LEN), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evt_5_known_digests),
		cmocka_unit_test(api_3_hex_is_read_exactly),
		cmocka_unit_test(api_3_every_character_is_judged),
		cmocka_unit_test(api_3_equality_sees_every_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
