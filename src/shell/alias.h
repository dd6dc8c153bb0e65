// SPDX-License-Identifier: Apache-2.0
/* shell/alias.h - an alias replaces a command's first word; the result is decided as any exec. */
#pragma once
#include "base/err.h"
#include "shell/shell_memory.h"

#define ALIAS_MAX 256
#define ALIAS_BYTES_MAX (64 * 1024) /* all together */

/* E_BAD_REQUEST: not a name, or a quote of the value does not close; E_TOO_LARGE. */
int alias_set(struct shell_memory *m, const char *name, const char *value, struct err *err);
/* Replaces the first word as long as it is an alias that was not replaced before. */
void alias_expand(const struct shell_memory *m, struct strv *argv);
