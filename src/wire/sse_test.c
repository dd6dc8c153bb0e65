// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "wire/sse.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void note(const char *id, const char *name, const char *data, size_t len, void *arg)
{
	struct buf *log = arg;

	assert_int_equal(strlen(data), len);
	buf_addf(log, "[%s|%s|%s]", id, name, data);
}

static void exe_6_messages_are_formatted(void **state)
{
	cleanup_buf struct buf out = {0};

	sse_format(&out, "7", "stdout", "a\nb", 3);
	assert_string_equal(out.data, "id: 7\nevent: stdout\ndata: a\ndata: b\n\n");
	buf_clear(&out);
	sse_format(&out, NULL, NULL, "", 0);
	assert_string_equal(out.data, "data: \n\n");
	buf_clear(&out);
	sse_format(&out, "12", "xy", "a\r\nb\rc\n", 7);
	assert_string_equal(out.data, "id: 12\nevent: xy\ndata: a\ndata: b\ndata: c\ndata: \n\n");
	buf_clear(&out);
	sse_format(&out, NULL, NULL, "a\r", 2);
	assert_string_equal(out.data, "data: a\ndata: \n\n");
	buf_clear(&out);
	sse_comment(&out, "alive");
	assert_string_equal(out.data, ": alive\n\n");
}

static const struct {
	const char *bytes, *log;
} rows[] = {
	{"data: a\n\n", "[|message|a]"},
	{"data:a\r\n\r\n", "[|message|a]"},
	{"data: a\r\r", "[|message|a]"},
	{"data:  a\n\n", "[|message| a]"},
	{"data: a\ndata: b\n\n", "[|message|a\nb]"},
	{"data: a\r\ndata: b\r\n\r\n", "[|message|a\nb]"},
	{"data\n\n", "[|message|]"},
	{"data:\n\n", "[|message|]"},
	{"data: a\n", ""},
	{"\n\n\n", ""},
	{"event: e\n\ndata: a\n\n", "[|message|a]"},
	{"event: e\ndata: a\n\ndata: b\n\n", "[|e|a][|message|b]"},
	{"event: e\nevent: f\ndata: a\n\n", "[|f|a]"},
	{"id: 1\ndata: a\n\ndata: b\n\nid: 2\ndata: c\n\n",
	 "[1|message|a][1|message|b][2|message|c]"},
	{"id: 1\ndata: a\n\nid\ndata: b\n\n", "[1|message|a][|message|b]"},
	{": comment\ndata: a\n:\n\n", "[|message|a]"},
	{"retry: 5\nother: x\ndataa: b\ndat: c\ndata: a\n\n", "[|message|a]"},
};

static void exe_6_messages_are_parsed_in_any_pieces(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t piece = 1; piece < 9; piece++) {
			const size_t len = strlen(rows[i].bytes);
			cleanup_buf struct buf log = {0};
			struct sse_parser p = {0};

			buf_reserve(&log, 0);
			for (size_t at = 0; at < len; at += piece)
				assert_int_equal(sse_parse(&p, rows[i].bytes + at,
							   len - at < piece ? len - at : piece,
							   note, &log),
						 0);
			assert_string_equal(log.data, rows[i].log);
			sse_parser_done(&p);
		}
}

static void exe_6_an_id_with_nul_is_ignored(void **state)
{
	static const char bytes[] = "id: 1\nid: 2\0003\ndata: a\n\n";
	cleanup_buf struct buf log = {0};
	struct sse_parser p = {0};

	assert_int_equal(sse_parse(&p, bytes, sizeof(bytes) - 1, note, &log), 0);
	assert_string_equal(log.data, "[1|message|a]");
	sse_parser_done(&p);
}

static void count(const char *id, const char *name, const char *data, size_t len, void *arg)
{
	*(size_t *)arg += len;
}

static void exe_6_lines_and_messages_are_bounded(void **state)
{
	const size_t max = 16 * 1024 * 1024;
	cleanup_free char *big = mem_alloc(max + 2);
	struct sse_parser p = {0};
	size_t got = 0;

	memset(big, 'x', max + 1);
	memcpy(big, "data:", 5);
	/* A line of exactly the limit passes, one byte more does not. */
	assert_int_equal(sse_parse(&p, big, max, count, &got), 0);
	assert_int_equal(sse_parse(&p, "\n\n", 2, count, &got), 0);
	assert_int_equal(got, max - 5);
	assert_int_equal(sse_parse(&p, big, max + 1, count, &got), -1);
	sse_parser_done(&p);
	/* So does a message of several lines: 5 bytes of it are still free. */
	got = 0;
	assert_int_equal(sse_parse(&p, big, max, count, &got), 0);
	assert_int_equal(sse_parse(&p, "\ndata:1234\n\n", 12, count, &got), 0);
	assert_int_equal(got, max);
	assert_int_equal(sse_parse(&p, big, max, count, &got), 0);
	assert_int_equal(sse_parse(&p, "\ndata:12345\n\n", 13, count, &got), -1);
	sse_parser_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_6_messages_are_formatted),
		cmocka_unit_test(exe_6_messages_are_parsed_in_any_pieces),
		cmocka_unit_test(exe_6_an_id_with_nul_is_ignored),
		cmocka_unit_test(exe_6_lines_and_messages_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
