// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static const char *format(int64_t us, bool with_us)
{
	static char text[64];
	cleanup_buf struct buf b = {0};

	clock_format(&b, us, with_us);
	assert_true(b.len < sizeof(text));
	memcpy(text, b.data, b.len + 1);
	return text;
}

static int64_t parse(const char *s)
{
	int64_t us = INT64_MIN;

	assert_int_equal(clock_parse(s, &us), 0);
	return us;
}

static void refused(const char *s)
{
	int64_t us = 77;

	if (clock_parse(s, &us) != -1)
		fail_msg("accepted: %s", s);
	assert_int_equal(us, 77);
}

static void ses_5_a_fixed_clock_stands_still(void **state)
{
	struct clock c = {.fixed_us = 123};

	assert_int_equal(clock_mono_us(&c), 123);
	assert_int_equal(clock_wall_us(&c), 123);
}

static void ses_5_the_system_clock_runs(void **state)
{
	const int64_t a = clock_mono_us(&clock_system), b = clock_mono_us(&clock_system);
	const int64_t now = (int64_t)time(NULL) * 1000000;

	assert_true(a > 0);
	assert_true(b >= a);
	assert_true(b - a < 60 * 1000000LL);
	assert_true(clock_wall_us(&clock_system) - now < 60 * 1000000LL);
	assert_true(clock_wall_us(&clock_system) - now > -60 * 1000000LL);
}

static void api_1_times_are_rfc_3339_utc(void **state)
{
	assert_string_equal(format(0, true), "1970-01-01T00:00:00.000000Z");
	assert_string_equal(format(0, false), "1970-01-01T00:00:00Z");
	assert_string_equal(format(1767323045678901, true), "2026-01-02T03:04:05.678901Z");
	assert_string_equal(format(1767323045678901, false), "2026-01-02T03:04:05Z");
	assert_string_equal(format(-1, true), "1969-12-31T23:59:59.999999Z");
	assert_string_equal(format(-1000000, true), "1969-12-31T23:59:59.000000Z");
	assert_string_equal(format(999999, true), "1970-01-01T00:00:00.999999Z");
	assert_string_equal(format(1000000, true), "1970-01-01T00:00:01.000000Z");
}

static void api_1_years_have_four_digits(void **state)
{
	assert_string_equal(format(INT64_MAX, false), "9999-12-31T23:59:59Z");
	assert_string_equal(format(253402300799000000, false), "9999-12-31T23:59:59Z");
	assert_string_equal(format(253402300800000000, false), "9999-12-31T23:59:59Z");
	assert_string_equal(format(253402300798000000, false), "9999-12-31T23:59:58Z");
	assert_string_equal(format(INT64_MIN, false), "0000-01-01T00:00:00Z");
	assert_string_equal(format(-62167219200000000, false), "0000-01-01T00:00:00Z");
	assert_string_equal(format(-62167219199000000, false), "0000-01-01T00:00:01Z");
	assert_string_equal(format(-62167219201000000, false), "0000-01-01T00:00:00Z");
}

/* Every day of the four-digit years against the C library. */
static void api_1_the_calendar_agrees_with_libc(void **state)
{
	for (int64_t day = -719528; day < 2932897; day += 13) {
		const time_t s = day * 86400 + 86399;
		struct tm tm;
		char text[32];

		gmtime_r(&s, &tm);
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
		if (tm.tm_year + 1900 < 1000)
			continue;
		assert_string_equal(format((int64_t)s * 1000000, false), text);
		assert_int_equal(parse(text), (int64_t)s * 1000000);
	}
}

static void api_1_parse_inverts_format(void **state)
{
	const int64_t times[] = {0,
				 -1,
				 951782400000000,
				 951868799999999,
				 951868800000000,
				 -62167219200000000,
				 1767323045678901,
				 253402300799999999};

	for (size_t i = 0; i < ARRAY_LEN(times); i++)
		assert_int_equal(parse(format(times[i], true)), times[i]);
	assert_int_equal(parse("0000-02-29T00:00:00Z"), -62162121600000000);
}

static void evt_4_offsets_and_fractions_are_understood(void **state)
{
	const int64_t t = 1767323045000000;

	assert_int_equal(parse("2026-01-02T03:04:05Z"), t);
	assert_int_equal(parse("2026-01-02t03:04:05z"), t);
	assert_int_equal(parse("2026-01-02T05:34:05+02:30"), t);
	assert_int_equal(parse("2026-01-01T22:04:05-05:00"), t);
	assert_int_equal(parse("2026-01-02T03:34:05+00:30"), t);
	assert_int_equal(parse("2026-01-02T03:04:05-00:00"), t);
	assert_int_equal(parse("2026-01-02T04:03:05+00:59"), t);
	assert_int_equal(parse("2026-01-02T03:04:05.5Z"), t + 500000);
	assert_int_equal(parse("2026-01-02T03:04:05.000001Z"), t + 1);
	assert_int_equal(parse("2026-01-02T03:04:05.0000019999999999999Z"), t + 1);
	assert_int_equal(parse("2016-12-31T23:59:60Z"), parse("2017-01-01T00:00:00Z"));
	assert_int_equal(parse("1970-01-01T00:00:00+23:59"), -86340000000);
	assert_int_equal(parse("2024-02-29T00:00:00Z"), 1709164800000000);
	assert_int_equal(parse("2000-02-29T23:59:59Z"), 951868799000000);
	assert_int_equal(parse("1970-12-31T00:00:00Z"), 364LL * 86400 * 1000000);
}

static void evt_4_what_is_no_time_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"2026",
		"2026-01-02",
		"2026-01-02T03:04:05",
		"2026-01-02 03:04:05Z",
		"2026-01-02T03:04Z",
		"2026-01-02T03:04:05.Z",
		"2026-01-02T03:04:05,5Z",
		"2026-01-02T03:04:05ZZ",
		"2026-01-02T03:04:05Z ",
		" 2026-01-02T03:04:05Z",
		"2026-00-02T03:04:05Z",
		"2026-13-02T03:04:05Z",
		"2026-01-00T03:04:05Z",
		"2026-01-32T03:04:05Z",
		"2026-04-31T03:04:05Z",
		"2026-02-29T03:04:05Z",
		"2024-02-30T03:04:05Z",
		"1900-02-29T00:00:00Z",
		"2026-01-02T24:00:00Z",
		"2026-01-02T03:60:05Z",
		"2026-01-02T03:04:61Z",
		"2026-01-02T03:04:05+24:00",
		"2026-01-02T03:04:05+01:60",
		"2026-01-02T03:04:05+0100",
		"2026-01-02T03:04:05+01",
		"2026-01-02T03:04:05*01:00",
		"20260102T030405Z",
		"2026-1-02T03:04:05Z",
		"2026-01-02T3:04:05Z",
		"202/-01-02T03:04:05Z",
		"202:-01-02T03:04:05Z",
		"+026-01-02T03:04:05Z",
		"2026/01/02T03:04:05Z",
		"2026-01/02T03:04:05Z",
		"2026-01-02T03-04:05Z",
		"2026-01-02T03:04-05Z",
		"2026-01-0",
		"2026-01-02T03:0",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		refused(bad[i]);
	assert_int_equal(parse("1999-09-09T09:09:09Z"), 936868149000000);
	assert_int_equal(parse("1999-12-31T23:59:00Z"), 946684740000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_5_a_fixed_clock_stands_still),
		cmocka_unit_test(ses_5_the_system_clock_runs),
		cmocka_unit_test(api_1_times_are_rfc_3339_utc),
		cmocka_unit_test(api_1_years_have_four_digits),
		cmocka_unit_test(api_1_the_calendar_agrees_with_libc),
		cmocka_unit_test(api_1_parse_inverts_format),
		cmocka_unit_test(evt_4_offsets_and_fractions_are_understood),
		cmocka_unit_test(evt_4_what_is_no_time_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
