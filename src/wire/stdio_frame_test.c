// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "wire/stdio_frame.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ALL 0x1fU

struct seen {
	struct buf log;
	size_t bytes;
	unsigned stop_at, n; /* returns 5 at this frame */
};

static int note(enum stdio_type type, const uint8_t *p, size_t n, void *arg)
{
	struct seen *s = arg;

	buf_addf(&s->log, "%d:%.*s;", type, (int)(n < 20 ? n : 20), (const char *)p);
	s->bytes += n;
	return ++s->n == s->stop_at ? 5 : 0;
}

static void exe_4_frames_survive_any_split(void **state)
{
	cleanup_buf struct buf out = {0};

	stdio_frame(&out, STDIO_STDIN, "in", 2);
	stdio_frame(&out, STDIO_CONTROL, "{\"eof\":true}", 12);
	stdio_frame(&out, STDIO_STDERR, "", 0);
	stdio_frame(&out, STDIO_RESULT, "{}", 2);
	assert_memory_equal(out.data, "\0\0\0\0\0\0\0\2in\3\0\0\0\0\0\0\14{", 19);
	for (size_t piece = 1; piece <= out.len; piece++) {
		struct stdio_parser p = {0};
		struct seen s = {0};
		struct err err = {0};

		for (size_t at = 0; at < out.len; at += piece)
			assert_int_equal(stdio_parse(&p, out.data + at,
						     out.len - at < piece ? out.len - at : piece,
						     ALL, note, &s, &err),
					 0);
		assert_string_equal(s.log.data, "0:in;3:{\"eof\":true};2:;4:{};");
		assert_int_equal(p.in.len, 0);
		buf_done(&s.log);
		stdio_parser_done(&p);
	}
}

static void exe_4_long_output_is_split(void **state)
{
	static const struct {
		enum stdio_type type;
		size_t n;
		unsigned frames;
	} rows[] = {
		{STDIO_STDOUT, STDIO_FRAME_MAX, 1},    {STDIO_STDOUT, STDIO_FRAME_MAX + 1, 2},
		{STDIO_STDIN, 2 * STDIO_FRAME_MAX, 2}, {STDIO_RESULT, STDIO_FRAME_MAX + 1, 1},
		{STDIO_RESULT, STDIO_RESULT_MAX, 1},
	};
	cleanup_free char *bytes = mem_alloc(STDIO_RESULT_MAX);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf out = {0};
		struct stdio_parser p = {0};
		struct seen s = {0};
		struct err err = {0};

		stdio_frame(&out, rows[i].type, bytes, rows[i].n);
		assert_int_equal(out.len, rows[i].n + 8 * rows[i].frames);
		assert_int_equal(stdio_parse(&p, out.data, out.len, ALL, note, &s, &err), 0);
		assert_int_equal(s.n, rows[i].frames);
		assert_int_equal(s.bytes, rows[i].n);
		buf_done(&s.log);
		stdio_parser_done(&p);
	}
}

static void exe_4_bad_frames_are_refused(void **state)
{
	static const struct {
		const char *name;
		uint8_t head[8];
		unsigned allowed;
		int r;
	} rows[] = {
		{"unknown type", {5, 0, 0, 0, 0, 0, 0, 0}, ~0U, -E_BAD_REQUEST},
		{"type 255", {255, 0, 0, 0, 0, 0, 0, 0}, ~0U, -E_BAD_REQUEST},
		{"not for this side", {1, 0, 0, 0, 0, 0, 0, 0}, ALL & ~(1U << 1), -E_BAD_REQUEST},
		{"only for this side", {1, 0, 0, 0, 0, 0, 0, 0}, 1U << 1, 0},
		{"result", {4, 0, 0, 0, 0, 0, 0, 0}, ALL, 0},
		{"first padding", {0, 1, 0, 0, 0, 0, 0, 0}, ALL, -E_BAD_REQUEST},
		{"second padding", {0, 0, 1, 0, 0, 0, 0, 0}, ALL, -E_BAD_REQUEST},
		{"third padding", {0, 0, 0, 1, 0, 0, 0, 0}, ALL, -E_BAD_REQUEST},
		{"64 KiB", {0, 0, 0, 0, 0, 1, 0, 0}, ALL, 0},
		{"64 KiB and one", {0, 0, 0, 0, 0, 1, 0, 1}, ALL, -E_BAD_REQUEST},
		{"control of 64 KiB and one", {3, 0, 0, 0, 0, 1, 0, 1}, ALL, -E_BAD_REQUEST},
		{"result of 16 MiB", {4, 0, 0, 0, 1, 0, 0, 0}, ALL, 0},
		{"result of 16 MiB and one", {4, 0, 0, 0, 1, 0, 0, 1}, ALL, -E_BAD_REQUEST},
		{"4 GiB", {4, 0, 0, 0, 255, 255, 255, 255}, ALL, -E_BAD_REQUEST},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stdio_parser p = {0};
		struct seen s = {0};
		struct err err = {0};
		/* The verdict falls with the eighth byte of the head, not before. */
		const int early = stdio_parse(&p, rows[i].head, 7, rows[i].allowed, note, &s, &err);
		const int r = stdio_parse(&p, rows[i].head + 7, 1, rows[i].allowed, note, &s, &err);

		if (early != 0 || r != rows[i].r)
			fail_msg("%s: %d, %d", rows[i].name, early, r);
		assert_int_equal(err.code, -r);
		buf_done(&s.log);
		stdio_parser_done(&p);
	}
}

static void exe_4_a_stop_keeps_the_rest(void **state)
{
	cleanup_buf struct buf out = {0};
	struct stdio_parser p = {0};
	struct seen s = {.stop_at = 2};
	struct err err = {0};

	stdio_frame(&out, STDIO_STDOUT, "a", 1);
	stdio_frame(&out, STDIO_STDOUT, "b", 1);
	stdio_frame(&out, STDIO_STDOUT, "c", 1);
	assert_int_equal(stdio_parse(&p, out.data, out.len, ALL, note, &s, &err), 5);
	assert_string_equal(s.log.data, "1:a;1:b;");
	assert_int_equal(stdio_parse(&p, "", 0, ALL, note, &s, &err), 0);
	assert_string_equal(s.log.data, "1:a;1:b;1:c;");
	buf_done(&s.log);
	stdio_parser_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_4_frames_survive_any_split),
		cmocka_unit_test(exe_4_long_output_is_split),
		cmocka_unit_test(exe_4_bad_frames_are_refused),
		cmocka_unit_test(exe_4_a_stop_keeps_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
