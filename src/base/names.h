// SPDX-License-Identifier: Apache-2.0
/* base/names.h - a name's place in a table of names. */
#pragma once
#include <string.h>

/* Index of the name that is the len bytes at s, or -1. */
static inline int name_find(const char *const *names, size_t n, const char *s, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(names[i]) == len && memcmp(names[i], s, len) == 0)
			return (int)i;
	return -1;
}
