// SPDX-License-Identifier: Apache-2.0
#include "policy/flags.h"
#include <stdio.h>
#include <string.h>

#define OPTION_MAX 127 /* bytes */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

size_t flags_letters(const char *pattern)
{
	const char *p = pattern + 1, *end;

	if (pattern[0] != '-')
		return 0;
	while (is_letter(*p))
		p++;
	end = p + strspn(p, " ");
	if (*end != '*')
		return *p == '\0' ? (size_t)(p - pattern - 1) : 0;
	return end[strspn(end, "*")] == '\0' ? (size_t)(p - pattern - 1) : 0;
}

const char *flags_check(const char *option)
{
	const char *p = option + 2;

	if (strlen(option) > OPTION_MAX)
		return "the option is too long";
	if (option[0] == '-' && is_letter(option[1]))
		return option[2] == '\0'
			       ? NULL
			       : "an option has one letter behind its dash; write one group for "
				 "each letter, and 'args_pattern' for an argument such as -delete";
	if (strncmp(option, "--", 2) != 0 || !is_letter(*p))
		return "an option is a dash and a letter, or two dashes and a name";
	while (is_letter(*p) || *p == '-' || *p == '_' || *p == '.')
		p++;
	return *p == '\0' ? NULL : "an option has no value here: write '--name' for '--name=value'";
}

/* The next option of a group; *len is 0 at the end. */
static const char *next_option(const char *at, size_t *len)
{
	at += *len + (at[*len] == ' ');
	*len = strcspn(at, " ");
	return at;
}

const char *flags_check_group(const char *group)
{
	for (size_t len = strcspn(group, " ");; group = next_option(group, &len)) {
		char option[OPTION_MAX + 2];
		const char *wrong;

		snprintf(option, sizeof(option), "%.*s", (int)len, group);
		wrong = flags_check(option);
		if (wrong != NULL || group[len] == '\0')
			return wrong;
	}
}

bool flags_group_has(const char *group, const char *option, size_t option_len)
{
	size_t len = 0;

	for (group = next_option(group, &len); len > 0; group = next_option(group, &len))
		if (len == option_len && memcmp(group, option, len) == 0)
			return true;
	return false;
}

bool flags_group_covers(const char *a, const char *b)
{
	size_t len = 0;

	for (b = next_option(b, &len); len > 0; b = next_option(b, &len))
		if (!flags_group_has(a, b, len))
			return false;
	return true;
}

bool flags_letter_given(const struct flags_line *line, char letter)
{
	for (size_t i = 0; i < line->n && strcmp(line->v[i], "--") != 0; i++)
		if (line->v[i][0] == '-' && line->v[i][1] != '-' && line->v[i][1] != '\0' &&
		    strchr(line->v[i] + 1, letter) != NULL)
			return true;
	return false;
}

bool flags_group_given(const struct flags_line *line, const char *group)
{
	size_t len = 0;

	for (group = next_option(group, &len); len > 0; group = next_option(group, &len)) {
		if (len == 2 && flags_letter_given(line, group[1]))
			return true;
		for (size_t i = 0; len > 2 && i < line->n && strcmp(line->v[i], "--") != 0; i++) {
			const size_t given = strcspn(line->v[i], "=");

			if (given > 2 &&
			    memcmp(line->v[i], group, given < len ? given : len) == 0 &&
			    (given == len || (line->abbreviated && given < len)))
				return true;
		}
	}
	return false;
}
