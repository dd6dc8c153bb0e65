// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Encodes a code point without judging it. */
static size_t encode(uint32_t c, unsigned len, uint8_t out[4])
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

	if (len == 1) {
		out[0] = (uint8_t)c;
		return 1;
	}
	for (unsigned i = len; i-- > 1; c >>= 6)
		out[i] = (uint8_t)(0x80 | (c & 63));
	out[0] = (uint8_t)(lead[len] | c);
	return len;
}

static unsigned shortest(uint32_t c)
{
	return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

/* Every code point in every length that can hold it. */
static void exe_3_exactly_the_shortest_forms_are_characters(void **state)
{
	for (uint32_t c = 0; c < 0x200000; c++)
		for (unsigned len = 2; len <= 4; len++) {
			const bool ok = len == shortest(c) && c <= 0x10ffff &&
					!(c >= 0xd800 && c <= 0xdfff);
			uint8_t b[4];

			if (c >= 1U << (len == 2 ? 11 : len == 3 ? 16 : 21))
				continue;
			encode(c, len, b);
			assert_int_equal(utf8_char(b, len), ok ? (int)len : 0);
			if (ok && c % 61 == 0)
				for (unsigned n = 1; n < len; n++)
					assert_int_equal(utf8_char(b, n), -1);
		}
}

static void exe_3_stray_and_broken_bytes_are_none(void **state)
{
	for (int c = 0; c < 256; c++) {
		const uint8_t b = (uint8_t)c;
		const int want = c < 0x80 ? 1 : c < 0xc2 || c > 0xf4 ? 0 : -1;

		assert_int_equal(utf8_char(&b, 1), want);
	}
	assert_int_equal(utf8_char((const uint8_t *)"\xc3\x7f", 2), 0);
	assert_int_equal(utf8_char((const uint8_t *)"\xc3\xc0", 2), 0);
	assert_int_equal(utf8_char((const uint8_t *)"\xe2\x82\x7f", 3), 0);
	assert_int_equal(utf8_char((const uint8_t *)"\xe2\x82\xc0", 3), 0);
	assert_int_equal(utf8_char((const uint8_t *)"\xf0\x9f\x98\x20", 4), 0);
	assert_int_equal(utf8_char((const uint8_t *)"\xf0\x9f\x20", 3), 0);
	assert_int_equal(utf8_char((const uint8_t *)"\xe2\x82\xac\xac", 4), 3);
}

static void exe_1_text_is_utf8_without_nul(void **state)
{
	assert_true(json_is_text("", 0));
	assert_true(json_is_text(NULL, 0));
	assert_true(json_is_text("a\x7f\x01\n", 4));
	assert_true(json_is_text("aä€😀z", strlen("aä€😀z")));
	assert_false(json_is_text("a\0b", 3));
	assert_false(json_is_text("\0", 1));
	assert_true(json_is_text("a\0b", 1));
	assert_false(json_is_text("a\x80", 2));
	assert_false(json_is_text("€", 2));
	assert_false(json_is_text("ab\xff", 3));
}

static void exe_3_a_cut_never_splits_a_character(void **state)
{
	static const char text[] = "aä€😀";
	/* after a | ä ä | € € € | 😀 😀 😀 😀 */
	static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};

	for (size_t n = 0; n < ARRAY_LEN(want); n++) {
		cleanup_free char *copy = mem_dup(text, n);

		assert_int_equal(json_text_cut(copy, n), want[n]);
	}
	/* bytes that cannot begin a character stay */
	assert_int_equal(json_text_cut("a\x80", 2), 2);
	assert_int_equal(json_text_cut("\x80\x80\x80\x80", 4), 4);
	assert_int_equal(json_text_cut("\xe0\x80", 2), 2);
	assert_int_equal(json_text_cut("\xff", 1), 1);
	assert_int_equal(json_text_cut("\xf0\x9f\x98", 3), 0);
}

static void exe_4_base64_known_values(void **state)
{
	static const char *const pairs[][2] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
		{"\xfb\xff\xfe", "+//+"},
	};

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		cleanup_buf struct buf b = {0}, back = {0};

		buf_adds(&b, "x");
		json_base64(&b, pairs[i][0], strlen(pairs[i][0]));
		assert_string_equal(b.data + 1, pairs[i][1]);
		assert_int_equal(b.len, 1 + strlen(pairs[i][1]));
		buf_adds(&back, "x");
		assert_int_equal(json_unbase64(&back, b.data + 1, b.len - 1, NULL), 0);
		assert_int_equal(back.len, 1 + strlen(pairs[i][0]));
		assert_string_equal(back.data + 1, pairs[i][0]);
	}
}

static void exe_4_base64_round_trip_of_all_bytes(void **state)
{
	uint8_t all[256];

	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	for (size_t n = 0; n <= 256; n++) {
		cleanup_buf struct buf b = {0}, back = {0};
		cleanup_free void *copy = mem_dup(all + 256 - n, n);

		json_base64(&b, copy, n);
		assert_int_equal(json_unbase64(&back, b.data, b.len, NULL), 0);
		assert_int_equal(back.len, n);
		assert_memory_equal(back.data, copy, n);
	}
}

static void exe_4_base64_is_strict(void **state)
{
	static const char *const bad[] = {"A",	  "AA",	      "AAA",  "A===",	 "====", "Zh==",
					  "Zm9=", "Zg==Zg==", "Zm 9", "Zm9v\n",	 "Zm9-", "Zm9_",
					  "Zm=v", "=AAA",     "Z===", "Zm9vAB=="};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_buf struct buf b = {0};
		struct err err = {0};

		buf_adds(&b, "kept");
		if (json_unbase64(&b, bad[i], strlen(bad[i]), &err) != -E_BAD_REQUEST)
			fail_msg("accepted: %s", bad[i]);
		assert_string_equal(b.data, "kept");
		assert_int_equal(b.len, 4);
		assert_true(err.message[0] != '\0');
	}
	for (int c = 1; c < 256; c++) {
		const char quad[] = {'A', 'A', 'A', (char)c};
		const bool ok = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789+/=",
				       c) != NULL;
		cleanup_buf struct buf b = {0};

		assert_int_equal(json_unbase64(&b, quad, 4, NULL) == 0, ok);
	}
}

static int64_t duration(const char *s)
{
	int64_t ms = -1;

	assert_int_equal(json_duration_parse(s, &ms, NULL), 0);
	return ms;
}

static void exe_4_durations(void **state)
{
	assert_int_equal(duration("90s"), 90000);
	assert_int_equal(duration("5m"), 300000);
	assert_int_equal(duration("4h"), 14400000);
	assert_int_equal(duration("1500ms"), 1500);
	assert_int_equal(duration("2h30m"), 9000000);
	assert_int_equal(duration("1h1m1s1ms"), 3661001);
	assert_int_equal(duration("0s"), 0);
	assert_int_equal(duration("007s"), 7000);
	assert_int_equal(duration("1h5ms"), 3600005);
	assert_int_equal(duration("9223372036854775807ms"), INT64_MAX);
	assert_int_equal(duration("9223372036854775s807ms"), INT64_MAX);
}

static void exe_4_what_is_no_duration_is_refused(void **state)
{
	static const char *const bad[] = {"",
					  "5",
					  "abc",
					  "s",
					  "5x",
					  "-5s",
					  "+5s",
					  "1.5h",
					  "5 s",
					  " 5s",
					  "5s ",
					  "5S",
					  "30m2h",
					  "1s1s",
					  "1m1",
					  "5mss",
					  "5sm",
					  "1d",
					  "1ms1s",
					  "9223372036854775808ms",
					  "9223372036854775807s",
					  "92233720368547758070ms",
					  "9223372036854775s808ms",
					  "1/s",
					  "1:s"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = {0};
		int64_t ms = 77;

		if (json_duration_parse(bad[i], &ms, &err) != -E_BAD_REQUEST)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(ms, 77);
		assert_non_null(strstr(err.message, "not a duration: '"));
	}
}

static void api_1_durations_are_written_in_the_largest_exact_unit(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} rows[] = {
		{0, "0s"},	  {1, "1ms"},	    {999, "999ms"},	{1000, "1s"},
		{1001, "1001ms"}, {1500, "1500ms"}, {59000, "59s"},	{60000, "1m"},
		{90000, "90s"},	  {300000, "5m"},   {3599000, "3599s"}, {3600000, "1h"},
		{5400000, "90m"}, {14400000, "4h"}, {86400000, "24h"},	{-1500, "-1500ms"},
		{-60000, "-1m"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf b = {0};

		json_duration_format(&b, rows[i].ms);
		assert_string_equal(b.data, rows[i].text);
		if (rows[i].ms >= 0)
			assert_int_equal(duration(b.data), rows[i].ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_3_exactly_the_shortest_forms_are_characters),
		cmocka_unit_test(exe_3_stray_and_broken_bytes_are_none),
		cmocka_unit_test(exe_1_text_is_utf8_without_nul),
		cmocka_unit_test(exe_3_a_cut_never_splits_a_character),
		cmocka_unit_test(exe_4_base64_known_values),
		cmocka_unit_test(exe_4_base64_round_trip_of_all_bytes),
		cmocka_unit_test(exe_4_base64_is_strict),
		cmocka_unit_test(exe_4_durations),
		cmocka_unit_test(exe_4_what_is_no_duration_is_refused),
		cmocka_unit_test(api_1_durations_are_written_in_the_largest_exact_unit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
