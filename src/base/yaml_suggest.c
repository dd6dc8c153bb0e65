// SPDX-License-Identifier: Apache-2.0
/* In a file of its own: the warden suggests names, too, and must not load libyaml for it. */
#include "base/yaml.h"
#include <string.h>

#define MAX_WORD 64
#define MAX_DISTANCE 3

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Insertions, deletions, changes and swaps of neighbours that make a into b; both at most MAX_WORD
 * long. */
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][MAX_WORD + 1]; /* of the last two characters of a and this one */
	const size_t na = strlen(a), nb = strlen(b);

	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *now = rows[i % 3], *last = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			now[j] = least(last[j], now[j - 1]) + 1;
			now[j] = least(now[j], last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
	}
	return rows[na % 3][nb];
}

const char *yaml_suggest(const char *word, const char *const *candidates)
{
	const char *best = NULL;
	size_t least_so_far = MAX_DISTANCE + 1;

	if (strlen(word) > MAX_WORD || candidates == NULL)
		return NULL;
	for (; *candidates != NULL; candidates++) {
		const size_t len = strlen(*candidates);
		const size_t d = len <= MAX_WORD ? distance(word, *candidates) : len;

		if (d < least_so_far && d * 2 < len) {
			least_so_far = d;
			best = *candidates;
		}
	}
	return best;
}
