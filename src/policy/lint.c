// SPDX-License-Identifier: Apache-2.0
/* Rules that cannot take effect: one that an earlier rule covers is never reached; a deny behind an
 * allow that it overlaps comes too late for the part they share. Every pair of rules of a class is
 * looked at, in the order in which they are tried (final ones first), until MAX_PAIRS of their
 * patterns were compared. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/glob.h"
#include "policy/snapshot.h"
#include "policy/source.h"

#define MAX_PAIRS 2500000U /* a policy of a thousand rules is compared in full */

struct linter {
	struct loader *l;
	enum op_class class;
	const struct source_rule **rule; /* in the order of trial */
	uint64_t *bits;			 /* two rules without a common bit have nothing in common */
	size_t n;
	size_t pairs;
};

typedef bool pattern_fn(const char *a, const char *b);

/* Two patterns whose literal ends differ have nothing in common. */
static bool ending_differs(const char *a, const char *b)
{
	const char *ae = a + strlen(a), *be = b + strlen(b);

	while (ae > a && be > b && strchr("*?]\\/", ae[-1]) == NULL &&
	       strchr("*?]\\/", be[-1]) == NULL)
		if (*--ae != *--be)
			return true;
	return false;
}

/* Two patterns whose literal beginnings differ have nothing in common. */
static bool literal_differs(const char *a, const char *b)
{
	while (*a == *b && *a != '\0' && strchr("*?[\\", *a) == NULL) {
		a++;
		b++;
	}
	/* "/w" against "/w/<two stars>" still can meet: a slash may end it */
	return *a != *b && *a != '\0' && *b != '\0' && strchr("*?[\\", *a) == NULL &&
	       strchr("*?[\\", *b) == NULL;
}

static bool path_covers(const char *a, const char *b)
{
	return !literal_differs(a, b) && !ending_differs(a, b) && glob_path_covers(a, b);
}

static bool path_overlaps(const char *a, const char *b)
{
	return !literal_differs(a, b) && !ending_differs(a, b) && glob_path_overlaps(a, b);
}

/* A name covers a path that ends with it. */
static bool command_covers(const char *a, const char *b)
{
	const char *slash = strrchr(b, '/');

	if (strchr(a, '/') != NULL)
		return slash != NULL && path_covers(a, b);
	return glob_text_covers(a, slash != NULL ? slash + 1 : b);
}

/* A name that allows counts only in the system's directories. */
static bool allowed_command_covers(const char *a, const char *b)
{
	if (strchr(a, '/') == NULL && strchr(b, '/') != NULL && !decide_in_system(b))
		return false;
	return command_covers(a, b);
}

static bool command_overlaps(const char *a, const char *b)
{
	const bool pa = strchr(a, '/') != NULL, pb = strchr(b, '/') != NULL;

	if (pa && pb)
		return path_overlaps(a, b);
	return glob_text_overlaps(pa ? strrchr(a, '/') + 1 : a, pb ? strrchr(b, '/') + 1 : b);
}

static bool allowed_command_overlaps(const char *a, const char *b)
{
	const char *slash = strrchr(b, '/');

	if (strchr(a, '/') == NULL && slash != NULL && glob_is_literal(b, (size_t)(slash - b)) &&
	    !decide_in_system(b))
		return false;
	return command_overlaps(a, b);
}

static bool any(struct linter *t, const struct strv *a, const char *b, pattern_fn *f)
{
	for (size_t i = 0; i < a->n; i++) {
		t->pairs++;
		if (f(a->v[i], b))
			return true;
	}
	return false;
}

/* Every pattern of b is covered by one of a. */
static bool list_covers(struct linter *t, const struct strv *a, const struct strv *b, pattern_fn *f)
{
	for (size_t i = 0; i < b->n; i++)
		if (!any(t, a, b->v[i], f))
			return false;
	return b->n > 0;
}

static bool list_overlaps(struct linter *t, const struct strv *a, const struct strv *b,
			  pattern_fn *f)
{
	for (size_t i = 0; i < b->n; i++)
		if (any(t, a, b->v[i], f))
			return true;
	return false;
}

static bool same(const struct strv *a, const struct strv *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	return a->n == b->n;
}

static bool ports_cover(const struct source_rule *a, const struct source_rule *b, bool all)
{
	for (size_t j = 0; j < b->nport; j++) {
		bool found = false;

		for (size_t i = 0; i < a->nport; i++)
			found |= all ? a->port[i].low <= b->port[j].low &&
						 b->port[j].high <= a->port[i].high
				     : a->port[i].low <= b->port[j].high &&
						 b->port[j].low <= a->port[i].high;
		if (found != all)
			return found;
	}
	return all;
}

static bool cidrs_cover(const struct source_rule *a, const struct source_rule *b, bool all)
{
	for (size_t j = 0; j < b->ncidr; j++) {
		bool found = false;

		for (size_t i = 0; i < a->ncidr; i++)
			found |= cidr_covers(&a->cidr[i], &b->cidr[j]) ||
				 (!all && cidr_covers(&b->cidr[j], &a->cidr[i]));
		if (found != all)
			return found;
	}
	return all;
}

/* Whether a has a condition that b lacks: it then matches less. */
static bool asks_more(const struct source_rule *a, const struct source_rule *b)
{
	return (a->conditions & ~b->conditions) != 0;
}

static bool covers(struct linter *t, const struct source_rule *a, const struct source_rule *b)
{
	if (asks_more(a, b))
		return false;
	if (t->class == OP_FILE)
		return (b->operations & ~a->operations) == 0 &&
		       list_covers(t, &a->paths, &b->paths, path_covers);
	if (t->class == OP_NET)
		return (!(a->conditions & COND_DOMAINS) ||
			list_covers(t, &a->domains, &b->domains, domain_covers)) &&
		       (!(a->conditions & COND_CIDRS) || cidrs_cover(a, b, true)) &&
		       (!(a->conditions & COND_PORTS) || ports_cover(a, b, true)) &&
		       (!(a->conditions & COND_PROTOCOLS) || (b->protocols & ~a->protocols) == 0);
	return (!(a->conditions & COND_COMMANDS) ||
		list_covers(t, &a->commands, &b->commands,
			    decision_permits(a->decision) ? allowed_command_covers
							  : command_covers)) &&
	       (!(a->conditions & COND_SCRIPTS) ||
		list_covers(t, &a->scripts, &b->scripts, path_covers)) &&
	       (!(a->conditions & COND_KINDS) || (b->kinds & ~a->kinds) == 0) &&
	       (!(a->conditions & COND_ARGS) || (same(&a->args, &b->args) && a->flags == b->flags &&
						 a->args_whole == b->args_whole)) &&
	       (!(a->conditions & COND_REGEX) || same(&a->regex, &b->regex));
}

static bool overlaps(struct linter *t, const struct source_rule *a, const struct source_rule *b)
{
	const unsigned both = a->conditions & b->conditions;

	if (t->class == OP_FILE)
		return (a->operations & b->operations) != 0 &&
		       list_overlaps(t, &a->paths, &b->paths, path_overlaps);
	if (t->class == OP_NET)
		return (!(both & COND_DOMAINS) ||
			list_overlaps(t, &a->domains, &b->domains, domain_overlaps)) &&
		       (!(both & COND_CIDRS) || cidrs_cover(a, b, false)) &&
		       (!(both & COND_PORTS) || ports_cover(a, b, false)) &&
		       (!(both & COND_PROTOCOLS) || (a->protocols & b->protocols) != 0);
	/* An allow without 'kinds' does not match what a rule with 'kinds' is for; whether two
	 * patterns for arguments can meet is not known. */
	return (a->conditions & COND_KINDS) == (b->conditions & COND_KINDS) &&
	       (both & (COND_ARGS | COND_REGEX)) == 0 && (both & COND_COMMANDS) != 0 &&
	       list_overlaps(t, &a->commands, &b->commands,
			     decision_permits(a->decision) ? allowed_command_overlaps
							   : command_overlaps);
}

/* What rule b meets of the earlier rule a; true if it was reported. */
static bool compare(struct linter *t, const struct source_rule *a, const struct source_rule *b)
{
	struct problems *p = &t->l->p;
	const bool late =
		decision_permits(a->decision) && b->decision == DECISION_deny && !b->final;

	if (covers(t, a, b)) {
		warning(p, b->line, b->column,
			late ? "deny '%s' never takes effect: '%s' (line %u) allows all of it "
			       "first; put it before that, or make it final"
			     : "rule '%s' is never reached: '%s' (line %u) matches all of it first",
			b->name, a->name, a->line);
		return true;
	}
	if (late && overlaps(t, a, b) && !covers(t, b, a)) {
		warning(p, b->line, b->column,
			"deny '%s' comes too late for what '%s' (line %u) allows first; put it "
			"before that, or make it final",
			b->name, a->name, a->line);
		return true;
	}
	return false;
}

static uint64_t bit_of(const char *s, size_t n)
{
	uint32_t h = 2166136261U;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * 16777619U;
	return UINT64_C(1) << (h >> 7) % 64;
}

/* A name, the name of a path, a domain, or the first two components: what two patterns that meet
 * must share. All bits, where a special character is in the way. */
static uint64_t pattern_bits(enum op_class class, const char *s)
{
	const char *second = s[0] == '/' ? strchr(s + 1, '/') : NULL, *name = strrchr(s, '/');
	size_t len;

	if (class == OP_FILE) {
		len = second != NULL ? (size_t)(second + 1 - s) + strcspn(second + 1, "/") : 0;
		return len > 0 && glob_is_literal(s, len) ? bit_of(s, len) : UINT64_MAX;
	}
	name = name != NULL ? name + 1 : s;
	return glob_is_literal(name, strlen(name)) ? bit_of(name, strlen(name)) : UINT64_MAX;
}

static uint64_t rule_bits(enum op_class class, const struct source_rule *r)
{
	const struct strv *list = class == OP_FILE   ? &r->paths
				  : class == OP_EXEC ? &r->commands
						     : &r->domains;
	uint64_t bits = list->n == 0 ? UINT64_MAX : 0;

	for (size_t i = 0; i < list->n; i++)
		bits |= pattern_bits(class, list->v[i]);
	return bits;
}

static void lint_class(struct linter *t)
{
	for (size_t j = 1; j < t->n; j++)
		for (size_t i = 0; i < j; i++) {
			if ((t->bits[i] & t->bits[j]) == 0)
				continue;
			if (t->pairs > MAX_PAIRS) {
				notice(&t->l->p, t->rule[j]->line, t->rule[j]->column,
				       "too many rules: from here on they were not compared with "
				       "those before");
				return;
			}
			t->pairs++;
			if (compare(t, t->rule[i], t->rule[j]))
				break;
		}
}

void source_lint(struct loader *l)
{
	for (unsigned c = 0; c < POLICY_RULE_CLASSES; c++) {
		const struct source_rules *rules = &l->to->rules[c];
		cleanup_free const struct source_rule **order =
			mem_resize(NULL, rules->n + 1, sizeof(struct source_rule *));
		cleanup_free uint64_t *bits = mem_resize(NULL, rules->n + 1, sizeof(*bits));
		struct linter t = {.l = l, .class = (enum op_class)c, .rule = order, .bits = bits};

		for (unsigned final = 2; final-- > 0;)
			for (size_t i = 0; i < rules->n; i++)
				if (rules->v[i].final == final) {
					bits[t.n] = rule_bits(t.class, &rules->v[i]);
					order[t.n++] = &rules->v[i];
				}
		lint_class(&t);
	}
}
