// SPDX-License-Identifier: Apache-2.0
/* policy/regex.h - PCRE2 patterns with limits on the cost of a match. Private to this folder.
 *
 * Matching uses memory that regexes_new allocated; a match that needs more memory or too many steps
 * is over the limit. The patterns belong to one thread. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

#define REGEX_MAX 1024	      /* bytes of a pattern */
#define REGEX_STEPS 20000     /* match limit, of one try */
#define REGEX_TOTAL 1000000   /* steps of all matches of a decision */
#define REGEX_DEPTH 500	      /* depth limit */
#define REGEX_SUBJECT 131072  /* bytes; a longer text is over the limit */
#define REGEX_PATTERNS 100000 /* of a policy */

struct regexes; /* the compiled patterns of a policy */
enum regex_result { REGEX_NO, REGEX_YES, REGEX_OVER };

int regex_check(const char *pattern, struct err *err);
struct regexes *regexes_new(size_t room); /* for patterns with numbers below room */
int regexes_add(struct regexes *r, size_t i, const char *pattern, struct err *err);
void regexes_free(struct regexes *r); /* NULL is fine */
/* Begins another decision: the steps are counted from zero. */
void regexes_begin(struct regexes *r);
/* Tries all strings joined by spaces and, unless whole is set, each string alone. */
enum regex_result regexes_match(struct regexes *r, size_t i, const char *const *v, size_t n,
				bool whole);
