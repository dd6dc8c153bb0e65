// SPDX-License-Identifier: Apache-2.0
/* shell/testkit/words_testkit.h - a line of text as words. */
#pragma once
#include "base/fields.h"

/* Adds the words of an alias with this value; WORDS_ALIAS for an empty one. */
#define WORDS_ALIAS "the-alias"
void words_of(const char *line, struct strv *words);
