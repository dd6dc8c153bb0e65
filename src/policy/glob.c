// SPDX-License-Identifier: Apache-2.0
/* The same greedy walk matches components of a path and characters of a component: a star first
 * takes as little as possible and grows on a mismatch. Only the last star ever has to grow, so the
 * walk needs no recursion. */
#include "policy/glob.h"
#include "base/utf8.h"
#include <stdint.h>
#include <string.h>

#define LAST_CHARACTER 0x10ffffU

/* Reads a text: a string up to end, or several strings joined by spaces. */
struct glob_reader {
	const char *p, *end; /* of the current string; end NULL: up to its NUL */
	const char *const *next, *const *last;
};

/* Reads one character and its length; a byte that is not UTF-8 stands for itself. */
static uint32_t character(const char *p, const char *end, int *len)
{
	const size_t left = end != NULL ? (size_t)(end - p) : strnlen(p, 4);
	const uint8_t *u = (const uint8_t *)p;

	*len = 1;
	if (u[0] < 0x80)
		return u[0];
	*len = utf8_char(u, left);
	if (*len <= 0) {
		*len = 1;
		return 0x110000U + u[0];
	}
	return *len == 2   ? (u[0] & 0x1fU) << 6 | (u[1] & 0x3fU)
	       : *len == 3 ? (u[0] & 0xfU) << 12 | (u[1] & 0x3fU) << 6 | (u[2] & 0x3fU)
			   : (u[0] & 0x7U) << 18 | (u[1] & 0x3fU) << 12 | (u[2] & 0x3fU) << 6 |
				     (u[3] & 0x3fU);
}

static bool ended(const struct glob_reader *r)
{
	return (r->end != NULL ? r->p == r->end : *r->p == '\0') && r->next == r->last;
}

/* The next character of a text that has not ended. */
static uint32_t read_one(struct glob_reader *r)
{
	uint32_t c;
	int len;

	if (r->end != NULL ? r->p == r->end : *r->p == '\0') {
		r->p = *r->next++;
		return ' ';
	}
	c = character(r->p, r->end, &len);
	r->p += len;
	return c;
}

/* One unit of a pattern: a literal, ?, or a class; never a star. */
struct unit {
	enum { UNIT_LITERAL, UNIT_ANY, UNIT_CLASS } kind;
	uint32_t c;	     /* LITERAL */
	const char *in, *to; /* CLASS: between the brackets, without the negation */
	bool negated;
};

/* Returns the ']' of a class that begins behind '[', or NULL. */
static const char *class_end(const char *p, const char *end)
{
	if (p < end && (*p == '!' || *p == '^'))
		p++;
	if (p < end && *p == ']')
		p++;
	while (p < end && *p != ']')
		p += *p == '\\' && p + 1 < end ? 2 : 1;
	return p < end ? p : NULL;
}

/* Reads the unit at p (p < end, not a star) and returns its end. */
static const char *unit_read(const char *p, const char *end, struct unit *u)
{
	const char *close = *p == '[' ? class_end(p + 1, end) : NULL;
	int len;

	*u = (struct unit){.kind = UNIT_LITERAL};
	if (*p == '?') {
		u->kind = UNIT_ANY;
		return p + 1;
	}
	if (close != NULL) {
		u->kind = UNIT_CLASS;
		u->negated = p[1] == '!' || p[1] == '^';
		u->in = p + 1 + u->negated;
		u->to = close;
		return close + 1;
	}
	if (*p == '\\' && p + 1 < end)
		p++;
	u->c = character(p, end, &len);
	return p + len;
}

static const char *class_character(const char *p, const char *to, uint32_t *c)
{
	int len;

	if (*p == '\\' && p + 1 < to)
		p++;
	*c = character(p, to, &len);
	return p + len;
}

/* Reads the range (or the one character) at p and returns its end. */
static const char *class_range(const char *p, const char *to, uint32_t *low, uint32_t *high)
{
	p = class_character(p, to, low);
	*high = *low;
	return p + 1 < to && *p == '-' ? class_character(p + 1, to, high) : p;
}

static bool unit_matches(const struct unit *u, uint32_t c)
{
	bool found = u->kind == UNIT_LITERAL && u->c == c;

	if (u->kind != UNIT_CLASS)
		return found || u->kind == UNIT_ANY;
	for (const char *p = u->in; p < u->to;) {
		uint32_t low, high;

		p = class_range(p, u->to, &low, &high);
		found |= low <= c && c <= high;
	}
	return found != u->negated;
}

/* Sets *starred when everything before the first star matched. */
static bool match(const char *pat, const char *end, struct glob_reader text, bool *starred)
{
	const char *star = NULL;
	struct glob_reader grown = {0}; /* the text behind the last star */

	for (;;) {
		struct glob_reader ahead = text;
		const char *behind = pat;
		struct unit u;

		if (pat < end && *pat == '*') {
			star = ++pat;
			grown = text;
			*starred = true;
			continue;
		}
		if (pat == end && ended(&text))
			return true;
		if (pat < end && !ended(&text)) {
			behind = unit_read(pat, end, &u);
			if (unit_matches(&u, read_one(&ahead))) {
				pat = behind;
				text = ahead;
				continue;
			}
		}
		if (star == NULL || ended(&grown))
			return false;
		read_one(&grown);
		pat = star;
		text = grown;
	}
}

bool glob_match_text(const char *pattern, const char *text)
{
	return match(pattern, pattern + strlen(pattern), (struct glob_reader){.p = text},
		     &(bool){0});
}

static bool match_joined(const char *pattern, const char *const *v, size_t n, bool *starred)
{
	static const char nothing[] = "";
	struct glob_reader text = {.p = n > 0 ? v[0] : nothing};

	if (n > 1) {
		text.next = v + 1;
		text.last = v + n;
	}
	return match(pattern, pattern + strlen(pattern), text, starred);
}

bool glob_match_joined(const char *pattern, const char *const *v, size_t n)
{
	return match_joined(pattern, v, n, &(bool){0});
}

/* All rests have the same end. If the part before the first star matches and the part behind it
 * does not, the part behind it matches from no later place either. */
bool glob_match_rests(const char *pattern, const char *const *v, size_t n)
{
	bool starred = false;

	for (size_t i = 0; i < n && !starred; i++)
		if (match_joined(pattern, v + i, n - i, &starred))
			return true;
	return false;
}

/* Returns the component at *p and moves *p behind its slash. */
static const char *component(const char **p, size_t *len)
{
	const char *start = *p;

	*len = strcspn(start, "/");
	*p = start + *len + (start[*len] == '/');
	return start;
}

static bool is_double(const char *c, size_t len)
{
	return len == 2 && c[0] == '*' && c[1] == '*';
}

bool glob_match_path(const char *pattern, const char *path)
{
	const char *pat = pattern + (*pattern == '/'), *text = path + 1;
	const char *star = NULL, *grown = NULL;

	for (;;) {
		const char *p = pat, *t = text, *pc, *tc;
		size_t np, nt;

		if (*pat == '\0' && *text == '\0')
			return true;
		pc = component(&p, &np);
		if (is_double(pc, np)) {
			star = pat = p;
			grown = text;
			continue;
		}
		tc = component(&t, &nt);
		if (*pat != '\0' && *text != '\0' &&
		    match(pc, pc + np, (struct glob_reader){.p = tc, .end = tc + nt}, &(bool){0})) {
			pat = p;
			text = t;
			continue;
		}
		if (star == NULL || *grown == '\0')
			return false;
		component(&grown, &nt);
		pat = star;
		text = grown;
	}
}

bool glob_plain_path(const char *path)
{
	const char *p = path;

	if (*p++ != '/')
		return false;
	if (*p == '\0')
		return true;
	for (;;) {
		const size_t len = strcspn(p, "/");

		if (len == 0 || (len == 1 && p[0] == '.') ||
		    (len == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (p[len] == '\0')
			return true;
		p += len + 1;
	}
}

bool glob_is_literal(const char *pattern, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (strchr("*?[\\", pattern[i]) != NULL)
			return false;
	return true;
}

void glob_escape(const char *text, char *out)
{
	for (; *text != '\0'; text++) {
		if (strchr("*?[\\", *text) != NULL)
			*out++ = '\\';
		*out++ = *text;
	}
	*out = '\0';
}

/* Checks that every class has its end, that no lone backslash is the last character and, with
 * single, that no two stars follow each other. */
static const char *check(const char *p, const char *end, bool single)
{
	while (p < end) {
		struct unit u;

		if (*p == '\\' && p + 1 == end)
			return "a backslash at the end escapes nothing";
		if (*p == '[' && class_end(p + 1, end) == NULL)
			return "'[' without ']' (write '\\[' for the character)";
		if (single && *p == '*' && p + 1 < end && p[1] == '*')
			return "'**' must be a whole path component";
		p = *p == '*' ? p + 1 : unit_read(p, end, &u);
	}
	return NULL;
}

const char *glob_check_text(const char *pattern)
{
	const size_t len = strlen(pattern);

	if (len == 0)
		return "an empty pattern matches nothing";
	return len > GLOB_MAX ? "too long" : check(pattern, pattern + len, false);
}

const char *glob_check_path(const char *pattern)
{
	const char *p = pattern + (*pattern == '/');

	if (strlen(pattern) > GLOB_MAX)
		return "too long";
	if (*pattern != '/' && (strncmp(pattern, "**", 2) != 0 || strchr("/", pattern[2]) == NULL))
		return "a path pattern begins with '/' or '**/'";
	for (unsigned n = 1; *p != '\0'; n++) {
		size_t len;
		const char *c = component(&p, &len), *problem;

		if (len == 0)
			return "an empty path component matches nothing";
		if ((len == 1 && c[0] == '.') || (len == 2 && c[0] == '.' && c[1] == '.'))
			return "'.' and '..' never match: paths are resolved before";
		problem = check(c, c + len, len > 2);
		if (problem != NULL)
			return problem;
		if (n > GLOB_COMPONENTS)
			return "too many components";
		if (*p == '\0' && p[-1] == '/')
			return "a slash at the end matches nothing (add '**' for all below)";
	}
	return NULL;
}

/* --- relations between patterns --- */

typedef bool relate_fn(const char *a, const char *ae, const char *b, const char *be);

/* Whether b matches c, and a matches it too (both) or does not. */
static bool tells(const struct unit *a, const struct unit *b, uint32_t c, bool both)
{
	return c != 0 && unit_matches(b, c) && unit_matches(a, c) == both;
}

/* Tries the characters at and beside every edge of u: all others match like one of these. */
static COLD bool edge_tells(const struct unit *u, const struct unit *a, const struct unit *b,
			    bool both)
{
	const char *p = u->kind == UNIT_CLASS ? u->in : NULL;

	if (u->kind == UNIT_LITERAL)
		return tells(a, b, u->c, both);
	while (p != NULL && p < u->to) {
		uint32_t low, high;

		p = class_range(p, u->to, &low, &high);
		if (tells(a, b, low - 1, both) || tells(a, b, low, both) ||
		    tells(a, b, high, both) || tells(a, b, high + 1, both))
			return true;
	}
	return false;
}

/* Whether some character is matched by both (both), or by b alone. */
static bool units_tell(const struct unit *a, const struct unit *b, bool both)
{
	return edge_tells(a, a, b, both) || edge_tells(b, a, b, both) ||
	       tells(a, b, LAST_CHARACTER, both);
}

static COLD bool units_meet(const struct unit *a, const struct unit *b)
{
	return a->kind == UNIT_LITERAL	 ? unit_matches(b, a->c)
	       : b->kind == UNIT_LITERAL ? unit_matches(a, b->c)
					 : units_tell(a, b, true);
}

/* Works like match(): a star of a takes as little of b as it can. */
static bool text_covers(const char *a, const char *ae, const char *b, const char *be)
{
	const char *star = NULL, *grown = NULL;

	for (;;) {
		struct unit x, y;

		if (a < ae && *a == '*') {
			star = ++a;
			grown = b;
			continue;
		}
		if (a == ae && b == be)
			return true;
		if (a < ae && b < be && *b != '*') {
			const char *an = unit_read(a, ae, &x), *bn = unit_read(b, be, &y);

			if (y.kind == UNIT_LITERAL
				    ? unit_matches(&x, y.c)
				    : x.kind == UNIT_ANY || !units_tell(&x, &y, false)) {
				a = an;
				b = bn;
				continue;
			}
		}
		if (star == NULL || grown == be)
			return false;
		grown = *grown == '*' ? grown + 1 : unit_read(grown, be, &y);
		a = star;
		b = grown;
	}
}

/* Patterns whose literal beginnings or ends differ match no common text. Most pairs differ. */
static COLD bool ends_differ(const char *a, const char *ae, const char *b, const char *be)
{
	while (a < ae && b < be && *a != '*' && *b != '*') {
		struct unit x, y;

		a = unit_read(a, ae, &x);
		b = unit_read(b, be, &y);
		if (!units_meet(&x, &y))
			return true;
	}
	/* A backslash could make the last byte mean something else. */
	if (memchr(a, '\\', (size_t)(ae - a)) != NULL || memchr(b, '\\', (size_t)(be - b)) != NULL)
		return false;
	while (a < ae && b < be && strchr("*?]", ae[-1]) == NULL && strchr("*?]", be[-1]) == NULL)
		if (*--ae != *--be)
			return true;
	return false;
}

/* Walks both patterns at once: now[j] means that the part before a and the first j bytes of b can
 * match the same text; then[j] means the same for the part before the next unit of a. */
static COLD bool text_overlaps(const char *a, const char *ae, const char *b, const char *be)
{
	uint8_t rows[2][GLOB_MAX + 1], *now = rows[0], *then = rows[1], *back;
	const size_t n = (size_t)(be - b);
	struct unit x, y;

	if (n > GLOB_MAX || ends_differ(a, ae, b, be))
		return n >
		       GLOB_MAX; /* only a directory is longer than any pattern; it may overlap */
	memset(now, 0, n + 1);
	now[0] = 1;
	for (;;) {
		const bool any = a < ae && *a == '*';
		const char *behind = any || a == ae ? a + 1 : unit_read(a, ae, &x);

		memset(then, 0, n + 1);
		for (size_t j = 0; j <= n; j++) {
			const bool star = j < n && b[j] == '*';
			const size_t next = j == n ? n
					    : star ? j + 1
						   : (size_t)(unit_read(b + j, be, &y) - b);

			if (!now[j])
				continue;
			now[next] |= star || any;
			then[j] |= star || any;
			if (!star && !any && a < ae && j < n)
				then[next] |= units_meet(&x, &y);
		}
		if (a == ae)
			return now[n];
		a = behind;
		back = now;
		now = then;
		then = back;
	}
}

struct part {
	const char *c;
	size_t len;
};
struct parts {
	struct part v[GLOB_COMPONENTS];
	size_t n;
};

/* "**" and then "*" means the same as "*" and then "**". doubles_last chooses one order for both.
 */
static void split(const char *pattern, bool doubles_last, struct parts *out)
{
	const char *p = pattern + (*pattern == '/');

	for (out->n = 0; *p != '\0' && out->n < GLOB_COMPONENTS; out->n++) {
		out->v[out->n].c = component(&p, &out->v[out->n].len);
		for (struct part *at = &out->v[out->n]; at > out->v; at--) {
			const struct part last = at[0], before = at[-1];
			const struct part *single = doubles_last ? &last : &before;
			const struct part *twice = doubles_last ? &before : &last;

			if (single->len != 1 || single->c[0] != '*' ||
			    !is_double(twice->c, twice->len))
				break;
			at[0] = before;
			at[-1] = last;
		}
	}
}

/* reach[i][j]: the first i components of a and the first j of b can match the same beginning.
 * Without both_ways only a "**" of a matches a "**" of b. */
static bool walk(const struct parts *a, const struct parts *b, relate_fn *f, bool both_ways)
{
	uint8_t reach[GLOB_COMPONENTS + 2][GLOB_COMPONENTS + 2];

	for (size_t i = 0; i < a->n + 2; i++)
		memset(reach[i], 0, b->n + 2);
	reach[0][0] = 1;
	for (size_t i = 0; i <= a->n; i++)
		for (size_t j = 0; j <= b->n; j++) {
			const bool more_a = i < a->n, more_b = j < b->n;
			const struct part *x = &a->v[i], *y = &b->v[j];

			if (!reach[i][j])
				continue;
			if (more_a && is_double(x->c, x->len)) {
				reach[i + 1][j] = 1;
				if (more_b)
					reach[i][j + 1] = 1;
			} else if (more_b && is_double(y->c, y->len)) {
				reach[i][j + 1] |= both_ways;
				if (more_a)
					reach[i + 1][j] |= both_ways;
			} else if (more_a && more_b &&
				   f(x->c, x->c + x->len, y->c, y->c + y->len)) {
				reach[i + 1][j + 1] = 1;
			}
		}
	return reach[a->n][b->n];
}

bool glob_path_covers(const char *a, const char *b)
{
	struct parts pa, pb;

	split(a, false, &pa);
	split(b, true, &pb);
	if (walk(&pa, &pb, text_covers, false))
		return true;
	split(a, true, &pa);
	return walk(&pa, &pb, text_covers, false);
}

bool glob_path_overlaps(const char *a, const char *b)
{
	struct parts pa, pb;

	split(a, false, &pa);
	split(b, false, &pb);
	return walk(&pa, &pb, text_overlaps, true);
}

bool glob_text_covers(const char *a, const char *b)
{
	return text_covers(a, a + strlen(a), b, b + strlen(b));
}

bool glob_text_overlaps(const char *a, const char *b)
{
	return text_overlaps(a, a + strlen(a), b, b + strlen(b));
}
