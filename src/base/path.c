// SPDX-License-Identifier: Apache-2.0
#include "base/path.h"
#include <string.h>

bool path_within(const char *path, const char *dir)
{
	const size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool path_overlap(const char *a, const char *b)
{
	return path_within(a, b) || path_within(b, a);
}
