// SPDX-License-Identifier: Apache-2.0
/* base/line.h - a command as one line for people: in events, lists, errors and the history. */
#pragma once
#include "base/buf.h"
#include "base/fields.h"

#define LINE_BYTES 1024 /* a longer line is cut at a character and ends in "…" */

/* One word as it could be typed; no more of it once out is longer than most. */
void line_add_word(struct buf *out, const char *word, size_t most);
/* The words as they could be typed, or the script as it is; the caller frees it. */
char *line_of(const struct strv *argv, const char *script);
