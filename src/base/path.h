// SPDX-License-Identifier: Apache-2.0
/* base/path.h - compares paths as text. Both are absolute and without `.`, `..`, empty parts or a
 * slash at the end. */
#pragma once
#include <stdbool.h>

/* Whether path is dir, or below it. */
bool path_within(const char *path, const char *dir);
/* Whether one of them lies in the other. */
bool path_overlap(const char *a, const char *b);
/* Puts base before a relative path and removes empty parts, `.` and `..` without looking at files.
 * The caller frees the result. */
char *path_clean(const char *base, const char *path);
/* The path with `to` in the place of `from`, in which it lies. The caller frees the result. NULL:
 * it does not lie there. */
char *path_swap(const char *path, const char *from, const char *to);
