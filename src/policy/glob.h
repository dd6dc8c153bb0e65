// SPDX-License-Identifier: Apache-2.0
/* policy/glob.h - patterns for paths, names and arguments. Private to this folder.
 *
 * `*` any characters, `?` one character, `[a-z]` `[!a-z]` one of a class, `\` makes the next
 * character literal. In a path none of them matches a slash, and a component of two stars matches
 * any number of components, also zero: behind /w/ it matches /w and all below it. Matching costs at
 * most the product of the two lengths and allocates no memory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GLOB_MAX 4096	   /* bytes of a pattern */
#define GLOB_COMPONENTS 64 /* components of a path pattern */
#define COLD            \
	__attribute__(( \
		cold)) /* of this folder: code that deciding does not need; small, not fast */

/* Each returns NULL or what is wrong with the pattern. */
const char *glob_check_path(const char *pattern);
const char *glob_check_text(const char *pattern);

/* path is plain: see glob_plain_path. */
bool glob_match_path(const char *pattern, const char *path);
bool glob_match_text(const char *pattern, const char *text);
/* The same on n strings as if they were joined by single spaces. */
bool glob_match_joined(const char *pattern, const char *const *v, size_t n);
/* Tries the last n, n - 1, …, 1 of the strings at the cost of one try. */
bool glob_match_rests(const char *pattern, const char *const *v, size_t n);

/* The part of a path or pattern behind its last slash; all of it without a slash. */
static inline const char *glob_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}
/* Whether a pattern for commands is one for paths, and not for names. */
static inline bool glob_is_path(const char *pattern)
{
	return pattern[0] == '/' || strchr(pattern, '/') != NULL || strcmp(pattern, "**") == 0;
}
/* Absolute, and without empty, "." and ".." components; "/" is plain. */
bool glob_plain_path(const char *path);
/* What is left of a path pattern below a directory: bit i means that the components from the i-th
 * on match something below it. */
uint64_t glob_rest(const char *pattern, const char *dir);
const char *glob_component(const char *pattern, unsigned n); /* from the n-th on */
/* How many components come before the first one that is a pattern. out gets them as a path (""
 * without any) and has room for the pattern; NULL: only the number is wanted. */
unsigned glob_fixed(const char *pattern, char *out);
/* Whether the text has no special character in it (a backslash is one). */
bool glob_is_literal(const char *pattern, size_t len);
/* Writes text so that it matches only itself; out has room for 2 * strlen + 1. */
void glob_escape(const char *text, char *out);

/* For warnings. covers: a matches everything that b matches (a "no" may be wrong); overlaps: some
 * text matches both. */
bool glob_path_covers(const char *a, const char *b);
bool glob_path_overlaps(const char *a, const char *b);
bool glob_text_covers(const char *a, const char *b);
bool glob_text_overlaps(const char *a, const char *b);
