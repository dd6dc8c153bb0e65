// SPDX-License-Identifier: Apache-2.0
/* policy/flags.h - options on a command line, for `flags` of a rule. Private to this folder.
 *
 * A group is a text of options that mean the same, one space apart: "-r -R --recursive". Options
 * end at "--". The policy does not know which letter takes a value: each letter behind a single
 * dash counts. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* How many letters a pattern for short options has ("-rf", "-rf*", "-r *"), from pattern + 1 on;
 * 0: the pattern is not one. */
size_t flags_letters(const char *pattern);
/* Returns what is wrong with an option of a group, or NULL. */
const char *flags_check(const char *option);
/* The same for a whole group of a snapshot. */
const char *flags_check_group(const char *group);
bool flags_group_has(const char *group, const char *option, size_t len);
/* Every option of b is one of a's: where b is given, a is. */
bool flags_group_covers(const char *a, const char *b);

/* Arguments, and whether an abbreviated long option counts ("--recurs"). It counts for a rule that
 * restricts, because programs accept abbreviations. */
struct flags_line {
	const char *const *v;
	size_t n;
	bool abbreviated;
};
bool flags_letter_given(const struct flags_line *line, char letter);
bool flags_group_given(const struct flags_line *line, const char *group);
