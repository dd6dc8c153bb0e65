// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "cli/cli.h"

static void assert_pretty(const char *json, const char *want)
{
	cleanup_buf struct buf out = {0};

	cli_pretty(json, strlen(json), &out);
	assert_string_equal(out.data, want);
}

static void cli_1_pretty_indents_by_two(void **state)
{
	assert_pretty("{\"a\":1,\"b\":[true,null],\"c\":{\"d\":-2.5e3}}", "{\n"
									  "  \"a\": 1,\n"
									  "  \"b\": [\n"
									  "    true,\n"
									  "    null\n"
									  "  ],\n"
									  "  \"c\": {\n"
									  "    \"d\": -2.5e3\n"
									  "  }\n"
									  "}\n");
	assert_pretty("7", "7\n");
}

static void cli_1_pretty_keeps_empty_ones_on_a_line(void **state)
{
	assert_pretty("{}", "{}\n");
	assert_pretty("[]", "[]\n");
	assert_pretty("[{},[]]", "[\n  {},\n  []\n]\n");
	assert_pretty("[", "[\n  \n"); /* the last byte looks at nothing behind it */
}

static void cli_1_pretty_changes_no_string(void **state)
{
	assert_pretty("\"a,b:{[ ]}\"", "\"a,b:{[ ]}\"\n");
	assert_pretty("[\"\\\"\",\"\\\\\",\"x\"]", "[\n  \"\\\"\",\n  \"\\\\\",\n  \"x\"\n]\n");
	assert_pretty("{\"\":\"\"}", "{\n  \"\": \"\"\n}\n");
	assert_pretty("\"open, ", "\"open, \n"); /* cut off: as it is */
	assert_pretty("\"\\", "\"\\\n");
}

static void cli_1_pretty_drops_old_space(void **state)
{
	assert_pretty(" { \"a\" :\t1 ,\r\n \"b\" : 2 } ", "{\n  \"a\": 1,\n  \"b\": 2\n}\n");
}

static void cli_1_pretty_survives_too_many_ends(void **state)
{
	assert_pretty("]]", "\n]\n]\n");
}

static void cli_1_columns_are_as_wide_as_their_widest_cell(void **state)
{
	const char *const cells[] = {"ID", "STATE", "X",       "a-longer-id", "up",
				     "",   "b",	    "stopped", "end"};
	cleanup_buf struct buf out = {0};

	cli_columns(cells, 3, 3, &out);
	assert_string_equal(out.data, "ID           STATE    X\n"
				      "a-longer-id  up       \n"
				      "b            stopped  end\n");
}

/* What a session has named must not steer the terminal of who lists it. */
static void cli_1_columns_show_control_characters(void **state)
{
	const char *const cells[] = {"a\x1b[2Jb", "x", "\xc2\x9b\x7f\n\t", "\xc3\xa9"};
	cleanup_buf struct buf out = {0};

	cli_columns(cells, 2, 2, &out);
	assert_string_equal(out.data, "a\\x1b[2Jb         x\n"
				      "\\x9b\\x7f\\x0a\\x09  \xc3\xa9\n");
}

static void cli_1_one_column_is_not_padded(void **state)
{
	const char *const cells[] = {"a", "long", "b"};
	cleanup_buf struct buf out = {0};

	cli_columns(cells, 1, 3, &out);
	assert_string_equal(out.data, "a\nlong\nb\n");
	buf_clear(&out);
	cli_columns(cells, 3, 0, &out);
	assert_int_equal(out.len, 0);
}

static void cli_1_thousands(void **state)
{
	static const struct {
		int64_t n;
		const char *text;
	} rows[] = {
		{0, "0"},
		{7, "7"},
		{99, "99"},
		{100, "100"},
		{999, "999"},
		{1000, "1,000"},
		{1234, "1,234"},
		{99999, "99,999"},
		{100000, "100,000"},
		{999999, "999,999"},
		{1000000, "1,000,000"},
		{-1, "-1"},
		{-999, "-999"},
		{-1000, "-1,000"},
		{-123456, "-123,456"},
		{INT64_MAX, "9,223,372,036,854,775,807"},
		{INT64_MIN, "-9,223,372,036,854,775,808"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf out = {0};

		cli_thousands(rows[i].n, &out);
		assert_string_equal(out.data, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_pretty_indents_by_two),
		cmocka_unit_test(cli_1_pretty_keeps_empty_ones_on_a_line),
		cmocka_unit_test(cli_1_pretty_changes_no_string),
		cmocka_unit_test(cli_1_pretty_drops_old_space),
		cmocka_unit_test(cli_1_pretty_survives_too_many_ends),
		cmocka_unit_test(cli_1_columns_are_as_wide_as_their_widest_cell),
		cmocka_unit_test(cli_1_columns_show_control_characters),
		cmocka_unit_test(cli_1_one_column_is_not_padded),
		cmocka_unit_test(cli_1_thousands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
