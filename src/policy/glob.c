// SPDX-License-Identifier: Apache-2.0
/* The same greedy walk matches components of a path and characters of a component: a star first
 * takes as little as possible and grows on a mismatch. Only the last star ever has to grow, so the
 * walk needs no recursion. */
#include "policy/glob.h"
#include "base/utf8.h"
#include <stdint.h>

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

bool glob_match_text(const char *pattern, const char *text)
{
	return match(pattern, pattern + strlen(pattern), (struct glob_reader){.p = text},
		     &(bool){0});
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

/* How many components the pattern has; 0 if one of them is a double star. */
static unsigned plain_components(const char *p)
{
	unsigned n = 0;
	size_t len;

	for (; *p != '\0'; n++) {
		const char *c = component(&p, &len);

		if (is_double(c, len))
			return 0;
	}
	return n;
}

/* The last n components of the text; NULL if it has fewer. */
static const char *last_components(const char *text, unsigned n)
{
	const char *p = text + strlen(text);

	while (n > 0 && p > text)
		if (*--p == '/' || p == text)
			n--;
	return n == 0 ? p + (*p == '/') : NULL;
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
			const unsigned n = plain_components(p);

			if (*p == '\0')
				return true;
			star = pat = p;
			grown = text;
			if (n > 0) { /* the rest can only be at the end */
				star = NULL;
				text = last_components(text, n);
			}
			if (text == NULL)
				return false;
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

uint64_t glob_rest(const char *pattern, const char *dir)
{
	uint64_t states = 1;
	const char *text = dir + 1;
	size_t nc, nt;

	for (bool more = true; more;) {
		const char *p = pattern + (*pattern == '/'), *tc = component(&text, &nt);
		uint64_t next = 0;

		more = nt > 0;
		for (unsigned i = 0; *p != '\0'; i++) {
			const char *c = component(&p, &nc);
			const bool here = (states >> i & 1) != 0, both = is_double(c, nc);

			if (here && both && i + 1 < GLOB_COMPONENTS && *p != '\0')
				states |= UINT64_C(1) << (i + 1);
			if (here && both)
				next |= UINT64_C(1) << i;
			else if (here && more && *p != '\0' && i + 1 < GLOB_COMPONENTS &&
				 match(c, c + nc, (struct glob_reader){.p = tc, .end = tc + nt},
				       &(bool){0}))
				next |= UINT64_C(1) << (i + 1);
		}
		if (more)
			states = next;
	}
	return states;
}

const char *glob_component(const char *pattern, unsigned n)
{
	const char *p = pattern + (*pattern == '/');
	size_t len;

	while (n-- > 0)
		component(&p, &len);
	return p;
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

unsigned glob_fixed(const char *pattern, char *out)
{
	const char *p = pattern;
	unsigned n = 0;
	size_t len = 0;

	while (p[0] == '/' && p[1] != '\0') {
		const char *c = p + 1;
		const size_t before = len;

		for (; *c != '\0' && *c != '/' && strchr("*?[", *c) == NULL; c++) {
			c += *c == '\\' && c[1] != '\0';
			if (out != NULL)
				out[len + 1] = *c;
			len++;
		}
		if (*c != '\0' && *c != '/') {
			len = before;
			break;
		}
		if (out != NULL)
			out[before] = '/';
		len++;
		n++;
		p = c;
	}
	if (out != NULL)
		out[len] = '\0';
	return n;
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

/* A part of a pattern: a component of a path, or a unit of a text. A star stands for any number of
 * parts. */
struct part {
	const char *c, *end;
	bool star;
};
/* Whether both match something in common (both), or a matches all that b matches. */
typedef bool relate_fn(const struct part *a, const struct part *b, bool both);

/* Walks both patterns at once: now[j] means that the parts before a and the first j parts of b can
 * match the same beginning; then[j] means the same with one more part of a. */
static COLD bool walk(const struct part *a, size_t na, const struct part *b, size_t nb,
		      relate_fn *relate, bool both)
{
	uint8_t rows[2][GLOB_MAX + 2], *now = rows[0], *then = rows[1];

	memset(now, 0, nb + 1);
	now[0] = 1;
	for (size_t i = 0;; i++, a++) {
		uint8_t *back = now;
		bool open = false;

		memset(then, 0, nb + 2);
		for (size_t j = 0; j <= nb; j++) {
			const bool star = i < na && a->star, other = j < nb && b[j].star;

			if (!now[j])
				continue;
			if (star || (other && both)) {
				now[j + 1] = 1; /* beyond nb it is not read */
				then[j] = 1;
			} else if (!other && i < na && j < nb && relate(a, &b[j], both)) {
				then[j + 1] = 1;
			}
			open |= then[j] || then[j + 1];
		}
		if (i == na || !open)
			return i == na && now[nb];
		now = then;
		then = back;
	}
}

/* Whether c matches b, and a too (both) or not. */
static bool is_witness(const struct unit *a, const struct unit *b, uint32_t c, bool both)
{
	return c != 0 && unit_matches(b, c) && unit_matches(a, c) == both;
}

/* Tries the characters at and beside every edge of u: all others match like one of these. */
static COLD bool edge_is_witness(const struct unit *u, const struct unit *a, const struct unit *b,
				 bool both)
{
	const char *p = u->kind == UNIT_CLASS ? u->in : NULL;

	if (u->kind == UNIT_LITERAL)
		return is_witness(a, b, u->c, both);
	while (p != NULL && p < u->to) {
		uint32_t low, high;

		p = class_range(p, u->to, &low, &high);
		if (is_witness(a, b, low - 1, both) || is_witness(a, b, low, both) ||
		    is_witness(a, b, high, both) || is_witness(a, b, high + 1, both))
			return true;
	}
	return false;
}

static COLD bool relate_units(const struct part *a, const struct part *b, bool both)
{
	struct unit x, y;

	unit_read(a->c, a->end, &x);
	unit_read(b->c, b->end, &y);
	if (x.kind == UNIT_LITERAL && y.kind == UNIT_LITERAL)
		return x.c == y.c;
	/* some character is matched by both, or by b alone */
	return (edge_is_witness(&x, &x, &y, both) || edge_is_witness(&y, &x, &y, both) ||
		is_witness(&x, &y, LAST_CHARACTER, both)) == both;
}

static size_t split_text(const struct part *text, struct part out[GLOB_MAX])
{
	size_t n = 0;
	struct unit u;

	for (const char *p = text->c; p < text->end; p = out[n++].end)
		out[n] = (struct part){p, *p == '*' ? p + 1 : unit_read(p, text->end, &u),
				       *p == '*'};
	return n;
}

static COLD bool relate_texts(const struct part *a, const struct part *b, bool both)
{
	struct part units_a[GLOB_MAX], units_b[GLOB_MAX];

	/* only the name of a directory is longer than any pattern; it may overlap */
	if (b->end - b->c > GLOB_MAX)
		return both;
	return walk(units_a, split_text(a, units_a), units_b, split_text(b, units_b), relate_units,
		    both);
}

/* "**" and then "*" means the same as "*" and then "**". doubles_last chooses one order for both.
 */
static size_t split_path(const char *pattern, bool doubles_last, struct part out[GLOB_COMPONENTS])
{
	const char *p = pattern + (*pattern == '/');
	size_t n = 0, len;

	for (; *p != '\0' && n < GLOB_COMPONENTS; n++) {
		out[n].c = component(&p, &len);
		out[n].end = out[n].c + len;
		out[n].star = is_double(out[n].c, len);
		for (struct part *at = &out[n]; at > out; at--) {
			const struct part last = at[0], before = at[-1];
			const struct part *single = doubles_last ? &last : &before;

			if (last.star == before.star || single->star ||
			    single->end - single->c != 1 || single->c[0] != '*')
				break;
			at[0] = before;
			at[-1] = last;
		}
	}
	return n;
}

/* Two patterns whose literal beginnings or ends differ match no common text. Most pairs differ. */
static bool ends_differ(const char *a, const char *b)
{
	const char *ae = a + strlen(a), *be = b + strlen(b);

	while (ae > a && be > b && strchr("*?]\\/", ae[-1]) == NULL &&
	       strchr("*?]\\/", be[-1]) == NULL)
		if (*--ae != *--be)
			return true;
	while (*a == *b && *a != '\0' && strchr("*?[\\", *a) == NULL) {
		a++;
		b++;
	}
	/* strchr finds the end, too: "/w" and "/w/<two stars>" can match a common path */
	return *a != *b && strchr("*?[\\", *a) == NULL && strchr("*?[\\", *b) == NULL;
}

static bool relate_paths(const char *a, bool a_doubles_last, const char *b, bool b_doubles_last,
			 bool both)
{
	struct part parts_a[GLOB_COMPONENTS], parts_b[GLOB_COMPONENTS];

	return walk(parts_a, split_path(a, a_doubles_last, parts_a), parts_b,
		    split_path(b, b_doubles_last, parts_b), relate_texts, both);
}

/* A component of a without wildcards is a component of all that b matches, so that b has it. Most
 * pairs that are compared differ here. */
static bool lacks_component(const char *a, const char *b)
{
	const size_t nb = strlen(b);

	if (strpbrk(b, "[\\") != NULL)
		return false;
	for (const char *end; *a != '\0'; a = end + (*end == '/')) {
		end = strchrnul(a, '/');
		if (strcspn(a, "*?[\\") >= (size_t)(end - a) &&
		    memmem(b, nb, a, (size_t)(end - a)) == NULL)
			return true;
	}
	return false;
}

bool glob_path_covers(const char *a, const char *b)
{
	const size_t na = strlen(a), nb = strlen(b);

	/* where b begins or ends with any number of components, a must be as wide */
	if ((strncmp(b + (*b == '/'), "**", 2) == 0 && a[*a == '/'] != '*') ||
	    (nb > 1 && strcmp(b + nb - 2, "**") == 0 && a[na - 1] != '*'))
		return false;
	return !ends_differ(a, b) && !lacks_component(a, b) &&
	       (relate_paths(a, false, b, true, false) || relate_paths(a, true, b, true, false));
}

bool glob_path_overlaps(const char *a, const char *b)
{
	return !ends_differ(a, b) && relate_paths(a, false, b, false, true);
}

static bool relate_strings(const char *a, const char *b, bool both)
{
	const struct part of_a = {.c = a, .end = a + strlen(a)},
			  of_b = {.c = b, .end = b + strlen(b)};

	return strcmp(a, b) == 0 || (!ends_differ(a, b) && relate_texts(&of_a, &of_b, both));
}

bool glob_text_covers(const char *a, const char *b)
{
	return relate_strings(a, b, false);
}

bool glob_text_overlaps(const char *a, const char *b)
{
	return relate_strings(a, b, true);
}
