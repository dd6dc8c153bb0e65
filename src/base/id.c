// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"
#include "base/mem.h"
#include <stdint.h>
#include <stdio.h>

#define RANDOM_CHARS 12

/* Crockford's base32 in lower case: no i, l, o, u, so that people can read an id aloud. */
static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

static bool alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool id_valid(const char *s)
{
	size_t n = 1;

	if (s == NULL || !alnum(s[0]))
		return false;
	for (; s[n] != '\0'; n++)
		if (n >= ID_MAX || (!alnum(s[n]) && strchr("._-", s[n]) == NULL))
			return false;
	return true;
}

void id_make(char out[ID_MAX + 1], const char *prefix)
{
	char text[RANDOM_CHARS + 1] = "";
	uint64_t bits;

	ensure(getentropy(&bits, sizeof(bits)) == 0);
	for (size_t i = 0; i < RANDOM_CHARS; i++, bits >>= 5)
		text[i] = alphabet[bits & 31];
	ensure(snprintf(out, ID_MAX + 1, "%s-%s", prefix, text) <= ID_MAX);
}
