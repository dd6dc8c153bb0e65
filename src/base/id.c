// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"
#include "base/mem.h"
#include <stdint.h>
#include <stdio.h>

#define RANDOM_CHARS 12
#define ID_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

/* Crockford's base32 in lower case: no i, l, o, u, so that people can read an id aloud. */
static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

bool id_valid(const char *s)
{
	const size_t n = s != NULL ? strspn(s, ID_CHARS) : 0;

	return n > 0 && n <= ID_MAX && s[n] == '\0' && strchr("._-", s[0]) == NULL;
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
