// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/line.h"
#include "base/mem.h"
#include <string.h>

static char *line(const char *const *words, size_t n)
{
	const struct strv argv = {(char **)(uintptr_t)words, n};

	return line_of(&argv, NULL);
}

static void evt_1_words_can_be_typed_again(void **state)
{
	const char *words[] = {"echo", "",  "a b",  "it's", "$x", "a\tb",
			       "-x=1", "ü", "a\nb", "~",    "#"};
	cleanup_free char *text = line(words, ARRAY_LEN(words));
	cleanup_free char *none = line(NULL, 0);

	assert_string_equal(text, "echo '' 'a b' 'it'\\''s' '$x' 'a\tb' -x=1 ü 'a\nb' '~' '#'");
	assert_string_equal(none, "");
}

static void evt_1_a_script_is_as_it_is(void **state)
{
	const char *words[] = {"no"};
	const struct strv argv = {(char **)(uintptr_t)words, 1};
	cleanup_free char *text = line_of(&argv, "echo $x # it's");

	assert_string_equal(text, "echo $x # it's");
}

/* Returns the line of a first word of n bytes and a second. */
static char *long_line(size_t n, const char *second)
{
	cleanup_free char *word = mem_alloc(n + 1);
	const char *words[] = {word, second};

	memset(word, 'x', n);
	word[n] = '\0';
	return line(words, 2);
}

static void evt_1_a_long_line_is_cut_at_a_character(void **state)
{
	cleanup_free char *fits = long_line(LINE_BYTES - 2, "y");
	cleanup_free char *over = long_line(LINE_BYTES - 1, "y");
	cleanup_free char *inside = long_line(LINE_BYTES - 2, "ü");
	cleanup_free char *quoted = long_line(LINE_BYTES - 3, "it's a long one");

	assert_int_equal(strlen(fits), LINE_BYTES);
	assert_string_equal(fits + LINE_BYTES - 2, " y");
	assert_int_equal(strlen(over), LINE_BYTES + strlen("…"));
	assert_string_equal(over + LINE_BYTES - 1, " …");
	assert_string_equal(inside + LINE_BYTES - 2, " …");
	assert_string_equal(quoted + LINE_BYTES - 3, " 'i…");
}

static void evt_1_a_long_script_is_cut_too(void **state)
{
	cleanup_free char *word = mem_alloc(LINE_BYTES + 2);
	cleanup_free char *fits = NULL, *over = NULL;

	memset(word, 'x', LINE_BYTES + 1);
	word[LINE_BYTES + 1] = '\0';
	over = line_of(NULL, word);
	word[LINE_BYTES] = '\0';
	fits = line_of(NULL, word);
	assert_int_equal(strlen(fits), LINE_BYTES);
	assert_int_equal(strlen(over), LINE_BYTES + strlen("…"));
	assert_string_equal(over + LINE_BYTES, "…");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evt_1_words_can_be_typed_again),
		cmocka_unit_test(evt_1_a_script_is_as_it_is),
		cmocka_unit_test(evt_1_a_long_line_is_cut_at_a_character),
		cmocka_unit_test(evt_1_a_long_script_is_cut_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
