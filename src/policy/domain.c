// SPDX-License-Identifier: Apache-2.0
#include "policy/domain.h"
#include <ctype.h>
#include <string.h>

#define LABEL_MAX 63

bool domain_normal(const char *name, char out[DOMAIN_ROOM])
{
	size_t len = strnlen(name, DOMAIN_MAX + 2), label = 0;

	if (len > 0 && name[len - 1] == '.')
		len--;
	if (len == 0 || len > DOMAIN_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)name[i];

		if (c == '.' ? label == 0 : !isalnum(c) && c != '-' && c != '_')
			return false;
		label = c == '.' ? 0 : label + 1;
		if (label > LABEL_MAX)
			return false;
		out[i] = (char)tolower(c); /* the locale is C: only A to Z */
	}
	out[len] = '\0';
	return label > 0;
}

const char *domain_check(const char *pattern, char out[DOMAIN_ROOM])
{
	const bool below = strncmp(pattern, "*.", 2) == 0;

	if (strcmp(pattern, "*") == 0) {
		strcpy(out, "*");
		return NULL;
	}
	if (strchr(pattern + (below ? 2 : 0), '*') != NULL)
		return "a star must be alone, or be the '*.' in front";
	if (strchr(pattern, '/') != NULL || strchr(pattern, ':') != NULL)
		return "write the name alone, without scheme, port or path";
	if (below) {
		out[0] = '*';
		out[1] = '.';
	}
	if (!domain_normal(pattern + (below ? 2 : 0), out + (below ? 2 : 0)))
		return "not a domain name (letters, digits, '-' and '.'; xn-- for others)";
	return NULL;
}

/* Whether name lies below suffix. */
static bool is_below(const char *name, const char *suffix)
{
	const size_t n = strlen(name), s = strlen(suffix);

	return n > s + 1 && name[n - s - 1] == '.' && memcmp(name + n - s, suffix, s) == 0;
}

bool domain_match(const char *pattern, const char *name)
{
	if (pattern[0] != '*')
		return strcmp(pattern, name) == 0;
	return pattern[1] == '\0' || is_below(name, pattern + 2);
}

bool domain_covers(const char *a, const char *b)
{
	if (strcmp(a, b) == 0 || strcmp(a, "*") == 0)
		return true;
	if (a[0] != '*' || strcmp(b, "*") == 0)
		return false;
	return is_below(b[0] == '*' ? b + 2 : b, a + 2);
}

bool domain_overlaps(const char *a, const char *b)
{
	return domain_covers(a, b) || domain_covers(b, a);
}
