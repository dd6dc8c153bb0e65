// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "shell/alias.h"
#include "shell/testkit/words_testkit.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void expect_words(const char *value, const char *const *want)
{
	struct strv words = {0};
	size_t i = 0;

	words_of(value, &words);
	for (; want[i] != NULL; i++) {
		assert_true(i < words.n);
		assert_string_equal(words.v[i], want[i]);
	}
	assert_int_equal(words.n, i);
	strv_done(&words);
}
#define WORDS(value, ...) expect_words(value, (const char *const[]){__VA_ARGS__})

static void sta_1_an_alias_splits_as_a_shell(void **state)
{
	struct shell_memory m = {0};
	struct err err = {0};

	WORDS("", WORDS_ALIAS, NULL); /* an alias without words stays */
	WORDS(" \t\n", WORDS_ALIAS, NULL);
	WORDS("ls -l  --color", "ls", "-l", "--color", NULL);
	WORDS("a 'b  c' \"d 'e'\" f\\ g ''", "a", "b  c", "d 'e'", "f g", "", NULL);
	WORDS("'a\\'b", "a\\b", NULL);
	WORDS("\"a\\\"b\\$c\\d\"", "a\"b$c\\d", NULL);
	WORDS("a\\", "a\\", NULL);
	WORDS("$x;|&", "$x;|&", NULL);
	assert_int_equal(alias_set(&m, "x", "a 'b", &err), -E_BAD_REQUEST);
	assert_int_equal(alias_set(&m, "x", "a \"b'", &err), -E_BAD_REQUEST);
	assert_int_equal(m.aliases.n, 0);
}

static void expect_argv(const struct shell_memory *m, const char *in, const char *out)
{
	struct strv argv = {0};
	cleanup_buf struct buf b = {0};

	words_of(in, &argv);
	alias_expand(m, &argv);
	for (size_t i = 0; i < argv.n; i++)
		buf_addf(&b, "%s%s", i > 0 ? "|" : "", argv.v[i]);
	assert_string_equal(b.data, out);
	strv_done(&argv);
}

static void sta_1_the_first_word_is_replaced(void **state)
{
	struct shell_memory m = {0};

	assert_int_equal(alias_set(&m, "ll", "ls -l", NULL), 0);
	assert_int_equal(alias_set(&m, "ls", "ls --color", NULL), 0);
	assert_int_equal(alias_set(&m, "a", "b 1", NULL), 0);
	assert_int_equal(alias_set(&m, "b", "a 2", NULL), 0);
	assert_int_equal(alias_set(&m, "..", "cd ..", NULL), 0);
	assert_int_equal(alias_set(&m, "none", "", NULL), 0);
	expect_argv(&m, "echo ll", "echo|ll");
	expect_argv(&m, "ll x", "ls|--color|-l|x");
	expect_argv(&m, "a 'x y'", "a|2|1|x y");
	expect_argv(&m, ".. z", "cd|..|z");
	expect_argv(&m, "none", "none");
	assert_int_equal(alias_set(&m, "ll", "ls -a", NULL), 0);
	expect_argv(&m, "ll", "ls|--color|-a");
	shell_memory_done(&m);
}

static void sta_1_aliases_are_bounded(void **state)
{
	cleanup_free char *big = mem_alloc(ALIAS_BYTES_MAX);
	struct shell_memory m = {0};
	struct err err = {0};

	assert_int_equal(alias_set(&m, "", "x", &err), -E_BAD_REQUEST);
	assert_int_equal(alias_set(&m, "a/b", "x", &err), -E_BAD_REQUEST);
	assert_int_equal(alias_set(&m, "a", "'x", &err), -E_BAD_REQUEST);
	memset(big, 'x', ALIAS_BYTES_MAX - 1);
	assert_int_equal(alias_set(&m, "a", big, &err), -E_TOO_LARGE);
	big[ALIAS_BYTES_MAX - 3] = '\0';
	assert_int_equal(alias_set(&m, "a", big, &err), 0); /* name, =, value, NUL */
	assert_int_equal(alias_set(&m, "b", "", &err), -E_TOO_LARGE);
	assert_int_equal(alias_set(&m, "a", "", &err), 0);
	for (int i = 1; i < ALIAS_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "n%d", i);
		assert_int_equal(alias_set(&m, name, "x", &err), 0);
	}
	assert_int_equal(alias_set(&m, "more", "x", &err), -E_TOO_LARGE);
	assert_int_equal(alias_set(&m, "n1", "y", &err), 0);
	shell_memory_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_1_an_alias_splits_as_a_shell),
		cmocka_unit_test(sta_1_the_first_word_is_replaced),
		cmocka_unit_test(sta_1_aliases_are_bounded),
	};

	return cmocka_run_group_tests_name("alias", tests, NULL, NULL);
}
