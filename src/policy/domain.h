// SPDX-License-Identifier: Apache-2.0
/* policy/domain.h - domain names and their patterns: "name", "*.name" (below it, at any depth, and
 * not the name itself) and "*" (everything). Private to this folder. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define DOMAIN_MAX 253
#define DOMAIN_ROOM (DOMAIN_MAX + 3) /* with "*." and NUL */

/* Writes the name in lower case without its last dot. False for a text that is not a host name
 * (empty or long labels, characters other than letters, digits, '-' and '_'); out is then
 * undefined. */
bool domain_normal(const char *name, char out[DOMAIN_ROOM]);
/* Writes the pattern in its normal form and returns NULL, or returns what is wrong with it. */
const char *domain_check(const char *pattern, char out[DOMAIN_ROOM]);
/* Both arguments have their normal form. */
bool domain_match(const char *pattern, const char *name);
/* Whether a matches everything that b matches. */
bool domain_covers(const char *a, const char *b);
bool domain_overlaps(const char *a, const char *b);
