// SPDX-License-Identifier: Apache-2.0
#include "policy/regex.h"
#include "base/mem.h"
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>

/* PCRE2's backtracking memory begins at 20 KiB and doubles up to the heap limit. PCRE2 does not
 * reuse the smaller blocks, so the arena holds the sum of all. */
#define HEAP_KIB 256
#define ARENA ((size_t)640 * 1024)
#define NESTING 32
#define SCANNED 16 /* skipping this many characters costs one step */
#define OPTIONS                                                                            \
	(PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY | \
	 PCRE2_AUTO_CALLOUT)

struct arena {
	size_t used;
	_Alignas(16) uint8_t data[ARENA];
};
struct regexes {
	pcre2_code **code; /* owned; NULL: not added */
	size_t room, n;
	struct arena *arena; /* owned; of the match data */
	pcre2_general_context *memory;
	pcre2_match_context *limits;
	pcre2_match_data *match;
	char *joined; /* owned, REGEX_SUBJECT */
	size_t left;  /* steps that the matches of this decision may still take */
	size_t at;    /* where the last step was */
};

static void *arena_take(size_t n, void *arg)
{
	struct arena *a = arg;
	void *p = a->data + a->used;

	n = (n + 15) & ~(size_t)15;
	if (n > ARENA - a->used)
		return NULL;
	a->used += n;
	return p;
}

static void arena_give(void *p, void *arg)
{
}

/* PCRE2 calls this before every item of a pattern. PCRE2's own limit is for one try at one place of
 * the subject; this limit is for all tries. */
static int count_step(pcre2_callout_block *b, void *arg)
{
	struct regexes *r = arg;
	const size_t scanned = b->current_position > r->at ? b->current_position - r->at : 0;
	const size_t cost = 1 + scanned / SCANNED;

	r->at = b->current_position;
	if (cost > r->left)
		return PCRE2_ERROR_MATCHLIMIT;
	r->left -= cost;
	return 0;
}

static int compile(const char *pattern, pcre2_code **out, struct err *err)
{
	pcre2_compile_context *c = pcre2_compile_context_create(NULL);
	PCRE2_SIZE at = 0;
	char text[120];
	int code = 0;

	ensure(c != NULL);
	pcre2_set_max_pattern_length(c, REGEX_MAX);
	pcre2_set_parens_nest_limit(c, NESTING);
	*out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, OPTIONS, &code, &at, c);
	pcre2_compile_context_free(c);
	if (*out != NULL)
		return 0;
	pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof(text));
	return err_set(err, E_BAD_REQUEST, NULL, "%s at character %zu", text, (size_t)at + 1);
}

int regex_check(const char *pattern, struct err *err)
{
	pcre2_code *code = NULL;
	const int rc = compile(pattern, &code, err);

	pcre2_code_free(code);
	return rc;
}

struct regexes *regexes_new(size_t room)
{
	struct regexes *r = mem_new(struct regexes);

	r->code = mem_alloc(room * sizeof(pcre2_code *));
	r->room = room;
	r->arena = mem_new(struct arena);
	r->memory = pcre2_general_context_create(arena_take, arena_give, r->arena);
	r->limits = pcre2_match_context_create(NULL);
	ensure(r->memory != NULL && r->limits != NULL);
	r->match = pcre2_match_data_create(1, r->memory);
	ensure(r->match != NULL);
	pcre2_set_match_limit(r->limits, REGEX_STEPS);
	pcre2_set_depth_limit(r->limits, REGEX_DEPTH);
	pcre2_set_heap_limit(r->limits, HEAP_KIB);
	pcre2_set_callout(r->limits, count_step, r);
	regexes_begin(r);
	r->joined = mem_alloc(REGEX_SUBJECT);
	return r;
}

void regexes_begin(struct regexes *r)
{
	r->left = REGEX_TOTAL;
}

int regexes_add(struct regexes *r, size_t i, const char *pattern, struct err *err)
{
	if (r->code[i] != NULL)
		return 0;
	if (r->n++ == REGEX_PATTERNS)
		return err_set(err, E_BAD_REQUEST, NULL, "more than %d regular expressions",
			       REGEX_PATTERNS);
	return compile(pattern, &r->code[i], err);
}

void regexes_free(struct regexes *r)
{
	if (r == NULL)
		return;
	for (size_t i = 0; i < r->room; i++)
		pcre2_code_free(r->code[i]);
	free(r->code);
	pcre2_match_context_free(r->limits);
	free(r->arena); /* with memory and match */
	free(r->joined);
	free(r);
}

/* len is at most REGEX_SUBJECT. */
static enum regex_result match(struct regexes *r, size_t i, const char *text, size_t len)
{
	int rc;

	r->at = 0;
	rc = pcre2_match(r->code[i], (PCRE2_SPTR)text, len, 0, 0, r->match, r->limits);
	return rc >= 0 ? REGEX_YES : rc == PCRE2_ERROR_NOMATCH ? REGEX_NO : REGEX_OVER;
}

enum regex_result regexes_match(struct regexes *r, size_t i, const char *const *v, size_t n,
				bool whole)
{
	enum regex_result got;
	size_t len = 0;

	for (size_t k = 0; k < n; k++) {
		const size_t more = strlen(v[k]);

		if (more + 1 > REGEX_SUBJECT - len)
			return REGEX_OVER;
		if (k > 0)
			r->joined[len++] = ' ';
		memcpy(r->joined + len, v[k], more);
		len += more;
	}
	got = match(r, i, r->joined, len);
	for (size_t k = 0; !whole && got == REGEX_NO && k < n; k++)
		got = match(r, i, v[k], strlen(v[k]));
	return got;
}
