// SPDX-License-Identifier: Apache-2.0
#include "shell/testkit/words_testkit.h"
#include "shell/alias.h"
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

void words_of(const char *line, struct strv *words)
{
	struct shell_memory m = {0};

	assert_int_equal(alias_set(&m, WORDS_ALIAS, line, NULL), 0);
	strv_add(words, WORDS_ALIAS);
	alias_expand(&m, words);
	shell_memory_done(&m);
}
