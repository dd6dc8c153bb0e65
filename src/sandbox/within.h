// SPDX-License-Identifier: Apache-2.0
/* sandbox/within.h - whether one real path lies in another; private to this folder. */
#pragma once
#include <stdbool.h>
#include <string.h>

/* path is dir, or below it. Both are absolute and without `.`, `..` or a slash at the end. */
static inline bool within(const char *path, const char *dir)
{
	const size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Either lies in the other. */
static inline bool within_overlap(const char *a, const char *b)
{
	return within(a, b) || within(b, a);
}
