// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/mem.h"
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static void api_1_commas_and_nesting_are_kept(void **state)
{
	cleanup_buf struct buf b = {0};
	struct jw w = JW(&b);

	jw_obj(&w);
	jw_kstr(&w, "a", "x");
	jw_kstr(&w, "n", NULL);
	jw_key(&w, "list");
	jw_arr(&w);
	jw_int(&w, 1);
	jw_obj(&w);
	jw_obj_end(&w);
	jw_arr(&w);
	jw_arr_end(&w);
	jw_bool(&w, true);
	jw_null(&w);
	jw_arr_end(&w);
	jw_kbool(&w, "f", false);
	jw_kint(&w, "i", -5);
	jw_kreal(&w, "r", 2341.5);
	jw_key(&w, "raw");
	jw_raw(&w, "{\"k\":1}", 7);
	jw_key(&w, "t");
	jw_time_us(&w, 1767323045678901);
	jw_key(&w, "t0");
	jw_time_us(&w, 0);
	jw_key(&w, "d");
	jw_duration_ms(&w, 300000);
	jw_key(&w, "u");
	jw_uint(&w, UINT64_MAX);
	jw_obj_end(&w);
	assert_int_equal(w.depth, 0);
	assert_string_equal(
		b.data,
		"{\"a\":\"x\",\"n\":null,\"list\":[1,{},[],true,null],\"f\":false,\"i\":-5,"
		"\"r\":2341.5,\"raw\":{\"k\":1},\"t\":\"2026-01-02T03:04:05.678901Z\",\"t0\":null,"
		"\"d\":\"5m\",\"u\":18446744073709551615}");
}

static void is(const char *s, size_t n, const char *want)
{
	cleanup_buf struct buf b = {0};
	cleanup_free char *copy = mem_dup(s, n);
	struct jw w = JW(&b);

	jw_strn(&w, copy, n);
	assert_string_equal(b.data, want);
	assert_int_equal(b.len, strlen(want));
}

static void api_1_strings_are_escaped(void **state)
{
	is("", 0, "\"\"");
	is("plain", 5, "\"plain\"");
	is("a\"b\\c/d", 7, "\"a\\\"b\\\\c/d\"");
	is("\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\"");
	is("\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\"");
	is(" ~", 2, "\" ~\"");
	is("ä€😀", 9, "\"ä€😀\"");
	is("\"\"", 2, "\"\\\"\\\"\"");
}

static void api_1_bad_utf8_becomes_a_replacement(void **state)
{
	is("a\xff"
	   "b",
	   3,
	   "\"a\xef\xbf\xbd"
	   "b\"");
	is("\x80\x80", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	is("€", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"");
	is("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	is("\xc3(", 2, "\"\xef\xbf\xbd(\"");
}

/* Whatever the bytes, jansson reads what was written. */
static void api_1_every_byte_pair_gives_valid_json(void **state)
{
	for (int a = 0; a < 256; a++)
		for (int c = 0; c < 256; c++) {
			cleanup_buf struct buf b = {0};
			const char two[] = {(char)a, (char)c};
			struct jw w = JW(&b);
			json_t *v;

			jw_strn(&w, two, 2);
			v = json_loadb(b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
			assert_non_null(v);
			if (a < 0x80 && c < 0x80) {
				assert_int_equal(json_string_length(v), 2);
				assert_memory_equal(json_string_value(v), two, 2);
			}
			json_decref(v);
		}
}

/* Every byte at every place of strings of every length around a machine word. */
static void api_1_long_strings_see_every_byte(void **state)
{
	for (int c = 0; c < 256; c++)
		for (size_t at = 0; at < 20; at++)
			for (size_t n = at + 1; n < 22; n++) {
				cleanup_buf struct buf b = {0};
				cleanup_free char *text = mem_alloc(n);
				struct jw w = JW(&b);
				json_t *v;

				memset(text, at % 2 == 0 ? ' ' : '~', n);
				text[at] = (char)c;
				jw_strn(&w, text, n);
				v = json_loadb(b.data, b.len, JSON_DECODE_ANY | JSON_ALLOW_NUL,
					       NULL);
				assert_non_null(v);
				assert_int_equal(json_string_length(v), c < 0x80 ? n : n + 2);
				assert_memory_equal(json_string_value(v), text, at);
				assert_int_equal((uint8_t)json_string_value(v)[at],
						 c < 0x80 ? c : 0xef);
				/* two quotes around what is plain */
				if (c >= ' ' && c < 0x7f && c != '"' && c != '\\')
					assert_int_equal(b.len, n + 2);
				if (c == 0x7f || c < ' ')
					assert_true(b.len > n + 2);
				json_decref(v);
			}
}

static void api_1_keys_are_escaped_too(void **state)
{
	cleanup_buf struct buf b = {0};
	struct jw w = JW(&b);

	jw_obj(&w);
	jw_kint(&w, "a\"\n", 1);
	jw_obj_end(&w);
	assert_string_equal(b.data, "{\"a\\\"\\n\":1}");
}

static void integer(int64_t v, const char *want)
{
	cleanup_buf struct buf b = {0};
	struct jw w = JW(&b);

	jw_int(&w, v);
	assert_string_equal(b.data, want);
}

static void api_1_integers_at_their_ends(void **state)
{
	integer(0, "0");
	integer(1, "1");
	integer(-1, "-1");
	integer(9, "9");
	integer(10, "10");
	integer(-10, "-10");
	integer(INT64_MAX, "9223372036854775807");
	integer(INT64_MIN, "-9223372036854775808");
}

static const char *real(double v)
{
	static char text[512];
	cleanup_buf struct buf b = {0};
	struct jw w = JW(&b);

	jw_kreal(&w, "", v);
	assert_true(b.len < sizeof(text));
	memcpy(text, b.data + strlen("\"\":"), b.len + 1 - strlen("\"\":"));
	return text;
}

static void exe_1_reals_have_up_to_three_decimals(void **state)
{
	assert_string_equal(real(2341.5), "2341.5");
	assert_string_equal(real(0.04), "0.04");
	assert_string_equal(real(0), "0");
	assert_string_equal(real(-0.0), "0");
	assert_string_equal(real(-0.0001), "0");
	assert_string_equal(real(0.0004), "0");
	assert_string_equal(real(0.0006), "0.001");
	assert_string_equal(real(-0.5), "-0.5");
	assert_string_equal(real(-5), "-5");
	assert_string_equal(real(1), "1");
	assert_string_equal(real(10), "10");
	assert_string_equal(real(100.25), "100.25");
	assert_string_equal(real(1.9996), "2");
	assert_string_equal(real(NAN), "0");
	assert_string_equal(real(INFINITY), "0");
	assert_string_equal(real(-INFINITY), "0");
	assert_string_equal(real(1e21), "1000000000000000000000");
	assert_int_equal(strlen(real(DBL_MAX)), 309);
	assert_int_equal(strlen(real(-DBL_MAX)), 310);
}

static void exe_1_data_is_text_or_base64(void **state)
{
	cleanup_buf struct buf b = {0};
	struct jw w = JW(&b);

	jw_arr(&w);
	assert_string_equal(jw_data(&w, "a\n", 2), "text");
	assert_string_equal(jw_data(&w, "a\0", 2), "base64");
	assert_string_equal(jw_data(&w, "\xff", 1), "base64");
	assert_string_equal(jw_data(&w, NULL, 0), "text");
	jw_arr_end(&w);
	assert_string_equal(b.data, "[\"a\\n\",\"YQA=\",\"/w==\",\"\"]");
}

static void api_1_an_end_without_a_beginning_aborts(void **state)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct buf b = {0};
		struct jw w = JW(&b);

		close(STDERR_FILENO);
		jw_arr(&w);
		jw_arr_end(&w);
		jw_arr_end(&w);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_commas_and_nesting_are_kept),
		cmocka_unit_test(api_1_strings_are_escaped),
		cmocka_unit_test(api_1_bad_utf8_becomes_a_replacement),
		cmocka_unit_test(api_1_every_byte_pair_gives_valid_json),
		cmocka_unit_test(api_1_long_strings_see_every_byte),
		cmocka_unit_test(api_1_keys_are_escaped_too),
		cmocka_unit_test(api_1_integers_at_their_ends),
		cmocka_unit_test(exe_1_reals_have_up_to_three_decimals),
		cmocka_unit_test(exe_1_data_is_text_or_base64),
		cmocka_unit_test(api_1_an_end_without_a_beginning_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
