// SPDX-License-Identifier: Apache-2.0
/* base/id.h - names of sessions, commands and requests. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define ID_MAX 64
/* [A-Za-z0-9][A-Za-z0-9._-]{0,63} */
bool id_valid(const char *s);
/* "cmd" -> "cmd-k3v9x2m4q7ta" (60 random bits) */
void id_make(char out[ID_MAX + 1], const char *prefix);
