// SPDX-License-Identifier: Apache-2.0
/* Finds rules that cannot take effect. A rule that earlier rules cover is never reached. A deny
 * rule behind an allow rule that it overlaps comes too late for the part they share. The linter
 * compares every pair of rules of a class, in the order of trial (final rules first), until it has
 * compared MAX_PAIRS of their patterns. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/snapshot.h"
#include "policy/source.h"
#include <stdio.h>

#define MAX_PAIRS 2500000U /* enough for a policy of a thousand rules */
#define COND_LINE (COND_ARGS | COND_REGEX)
#define LOOKUPS (1U << OP_PROTOS) /* among the protocols of a network rule */

struct linted {
	const struct source_rule *r;
	unsigned asks; /* conditions that not every operation meets */
	uint64_t bits; /* two rules without a common bit match no common operation */
};
struct linter {
	struct loader *l;
	enum op_class class;
	struct linted *rule; /* in the order of trial */
	size_t n;
	size_t pairs;
};
/* The part of a rule that the rules before it do not match: operations or protocols for each of its
 * patterns (or ports, if it has no patterns). */
struct left {
	unsigned counted; /* the condition that has one entry for each item; 0: one entry in all */
	uint32_t *bits;	  /* owned */
	size_t n, open;	  /* open: how many are not 0 */
	unsigned takers;
	bool allowed; /* one of them allows */
};

typedef bool pattern_fn(const char *a, const char *b);

/* Two patterns whose literal ends differ match no common text. */
static bool ending_differs(const char *a, const char *b)
{
	const char *ae = a + strlen(a), *be = b + strlen(b);

	while (ae > a && be > b && strchr("*?]\\/", ae[-1]) == NULL &&
	       strchr("*?]\\/", be[-1]) == NULL)
		if (*--ae != *--be)
			return true;
	return false;
}

/* Two patterns whose literal beginnings differ match no common text. */
static bool literal_differs(const char *a, const char *b)
{
	while (*a == *b && *a != '\0' && strchr("*?[\\", *a) == NULL) {
		a++;
		b++;
	}
	/* "/w" and "/w/<two stars>" can match a common path */
	return *a != *b && *a != '\0' && *b != '\0' && strchr("*?[\\", *a) == NULL &&
	       strchr("*?[\\", *b) == NULL;
}

/* Where b begins or ends with any number of components, a must be as wide. */
static bool path_covers(const char *a, const char *b)
{
	const size_t na = strlen(a), nb = strlen(b);

	if ((strncmp(b + (*b == '/'), "**", 2) == 0 && a[*a == '/'] != '*') ||
	    (nb > 1 && strcmp(b + nb - 2, "**") == 0 && a[na - 1] != '*'))
		return false;
	return !literal_differs(a, b) && !ending_differs(a, b) && glob_path_covers(a, b);
}

static bool path_overlaps(const char *a, const char *b)
{
	return !literal_differs(a, b) && !ending_differs(a, b) && glob_path_overlaps(a, b);
}

static bool is_path(const char *pattern)
{
	return strchr(pattern, '/') != NULL || strcmp(pattern, "**") == 0;
}

/* A name covers a path that ends with it; a path covers a name only if it covers all paths. */
static bool command_covers(const char *a, const char *b)
{
	const char *slash = strrchr(b, '/');

	if (is_path(a))
		return is_path(b) ? path_covers(a, b) : path_covers(a, "**");
	return glob_text_covers(a, slash != NULL ? slash + 1 : b);
}

/* A name that allows counts only in the system's directories. */
static bool allowed_command_covers(const char *a, const char *b)
{
	if (!is_path(a) && is_path(b) &&
	    (!decide_in_system(b) || strcmp(strrchr(b, '/'), "/**") == 0))
		return false;
	return command_covers(a, b);
}

static COLD bool command_overlaps(const char *a, const char *b)
{
	const bool pa = is_path(a), pb = is_path(b);

	if (pa && pb)
		return path_overlaps(a, b);
	return glob_text_overlaps(pa && strrchr(a, '/') != NULL ? strrchr(a, '/') + 1 : a,
				  pb && strrchr(b, '/') != NULL ? strrchr(b, '/') + 1 : b);
}

static COLD bool allowed_command_overlaps(const char *a, const char *b)
{
	char path[GLOB_MAX + 32];

	if (is_path(a) || !is_path(b))
		return command_overlaps(a, b);
	for (size_t i = 0; decide_system_dirs[i] != NULL; i++) {
		snprintf(path, sizeof(path), "%s%s", decide_system_dirs[i], a);
		if (path_overlaps(path, b))
			return true;
	}
	return false;
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

static bool list_overlaps(struct linter *t, const struct strv *a, const struct strv *b,
			  pattern_fn *f)
{
	for (size_t i = 0; i < b->n; i++)
		if (any(t, a, b->v[i], f))
			return true;
	return false;
}

/* Whether every port of the range is in a range of a. */
static bool range_within(const struct source_rule *a, const struct port_range *range)
{
	uint32_t at = range->low;
	bool found = true;

	while (found && at <= range->high) {
		found = false;
		for (size_t i = 0; i < a->nport; i++)
			if (a->port[i].low <= at && at <= a->port[i].high) {
				at = a->port[i].high + 1U;
				found = true;
			}
	}
	return found;
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

static bool has_text(const struct strv *list, const char *text)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->v[i], text) == 0)
			return true;
	return false;
}

/* How many letters of short options the pattern has; 0 if it is compared as a text. */
static size_t letters_of(const struct source_rule *r, const char *pattern)
{
	return r->flags && !r->args_whole ? flags_letters(pattern) : 0;
}

/* Whether a pattern of a matches every argument that the pattern of b matches. An argument with
 * letters begins with a dash; only fewer letters or a pattern for all such arguments cover letters.
 */
static bool args_cover(struct linter *t, const struct source_rule *a, const struct source_rule *b,
		       const char *pattern)
{
	const size_t letters = letters_of(b, pattern);

	for (size_t i = 0; i < a->args.n; i++) {
		const char *of_a = a->args.v[i];
		const size_t n = letters_of(a, of_a);

		t->pairs++;
		if (n == 0 && glob_text_covers(of_a, letters > 0 ? "-*" : pattern))
			return true;
		/* an option of a group of b can replace a letter */
		for (size_t k = 0; n > 0 && letters > 0 && b->groups.n == 0; k++) {
			if (k == n)
				return true;
			if (memchr(pattern + 1, of_a[1 + k], letters) == NULL)
				break;
		}
	}
	return false;
}

/* Two rules that try every argument overlap: a command can have an argument for each. A star in a
 * pattern for the whole line leaves room for one more argument. */
static COLD bool lines_overlap(struct linter *t, const struct source_rule *a,
			       const struct source_rule *b)
{
	const struct source_rule *whole = a->args_whole ? a : b;

	if (!whole->args_whole)
		return true;
	for (size_t i = 0; a->args_whole != b->args_whole && i < whole->args.n; i++)
		if (strchr(whole->args.v[i], '*') != NULL)
			return true;
	return list_overlaps(t, &a->args, &b->args, glob_text_overlaps);
}

/* How patterns of an earlier rule relate to patterns of a later one; [1] if the earlier one allows.
 */
static const struct {
	pattern_fn *covers, *overlaps;
} relations[POLICY_RULE_CLASSES][2] = {
	[OP_FILE] = {{path_covers, path_overlaps}, {path_covers, path_overlaps}},
	[OP_EXEC] = {{command_covers, command_overlaps},
		     {allowed_command_covers, allowed_command_overlaps}},
	[OP_NET] = {{domain_covers, domain_overlaps}, {domain_covers, domain_overlaps}},
};

/* Operations of a file rule; protocols of a network rule (a rule with ports does not match ICMP),
 * and whether it is for lookups. */
static uint32_t bits_of(enum op_class class, const struct linted *x)
{
	const uint32_t ports = x->r->conditions & COND_PORTS ? 1U << OP_PROTO_ICMP : 0;
	const uint32_t all = x->asks & COND_PROTOCOLS ? x->r->bits : (1U << OP_PROTOS) - 1;

	if (class != OP_NET)
		return class == OP_FILE ? x->r->bits : 1;
	return (all & ~ports) |
	       (rule_is_for_lookups(x->r->decision, x->r->conditions) ? LOOKUPS : 0);
}

/* Whether a meets every condition of b except what left counts. */
static COLD bool rest_covers(struct linter *t, const struct linted *a, const struct linted *b,
			     unsigned counted)
{
	const unsigned more = a->asks & ~b->asks & ~(unsigned)(COND_PROTOCOLS | COND_LINE);
	const unsigned asks = a->asks & ~counted;
	const struct source_rule *x = a->r, *y = b->r;

	/* an allow rule without 'kinds' does not match a program that has a kind */
	if (more != 0 || (decision_permits(x->decision) && (b->asks & ~a->asks & COND_KINDS)) ||
	    ((asks & COND_CIDRS) && !cidrs_cover(x, y, true)) ||
	    ((asks & COND_KINDS) && (y->bits & ~x->bits) != 0) ||
	    ((asks & COND_SCRIPTS) && y->scripts.n == 0) ||
	    ((asks & COND_LINE) && (!(b->asks & COND_LINE) || x->args_whole != y->args_whole)))
		return false;
	for (size_t i = 0; (asks & COND_PORTS) && i < y->nport; i++)
		if (!range_within(x, &y->port[i]))
			return false;
	for (size_t i = 0; (asks & COND_SCRIPTS) && i < y->scripts.n; i++)
		if (!any(t, &x->scripts, y->scripts.v[i], path_covers))
			return false;
	for (size_t i = 0; i < x->groups.n; i++) {
		size_t k = 0;

		while (k < y->groups.n && !flags_group_covers(x->groups.v[i], y->groups.v[k]))
			k++;
		if (k == y->groups.n)
			return false;
	}
	for (size_t i = 0; (asks & COND_LINE) && i < y->regex.n; i++)
		if (!has_text(&x->regex, y->regex.v[i]))
			return false;
	for (size_t i = 0; (asks & COND_LINE) && i < y->args.n; i++)
		if (!args_cover(t, x, y, y->args.v[i]))
			return false;
	return true;
}

static COLD void left_init(struct linter *t, const struct linted *b, struct left *left)
{
	*left = (struct left){.counted = b->asks & COND_SUBJECT};
	if (left->counted == 0)
		left->counted = b->asks & COND_PORTS;
	left->n = left->counted == 0		? 1
		  : left->counted == COND_PORTS ? b->r->nport
						: b->r->subject.n;
	left->open = left->n;
	left->bits = mem_resize(NULL, left->n + 1, sizeof(*left->bits));
	for (size_t i = 0; i < left->n; i++)
		left->bits[i] = bits_of(t->class, b);
}

/* Removes the part that a matches from left, which is of b. True if then only lookups are left. */
static COLD bool take_from(struct linter *t, const struct linted *a, const struct linted *b,
			   struct left *left)
{
	const uint32_t mine = bits_of(t->class, a), lookups = t->class == OP_NET ? LOOKUPS : 0;
	const bool permits = decision_permits(a->r->decision);
	const size_t before = left->open;
	bool took = false;

	if (!rest_covers(t, a, b, left->counted))
		return false;
	for (size_t i = 0; i < left->n; i++) {
		const bool was_open = (left->bits[i] & ~lookups) != 0;

		if ((left->bits[i] & mine) == 0)
			continue;
		if ((a->asks & left->counted) &&
		    !(left->counted == COND_PORTS ? range_within(a->r, &b->r->port[i])
						  : any(t, &a->r->subject, b->r->subject.v[i],
							relations[t->class][permits].covers)))
			continue;
		left->bits[i] &= ~mine;
		left->open -= was_open && (left->bits[i] & ~lookups) == 0;
		took = true;
	}
	left->takers += took;
	left->allowed |= took && permits;
	return left->open == 0 && before > 0;
}

static COLD bool overlaps(struct linter *t, const struct linted *a, const struct linted *b)
{
	const unsigned both = a->asks & b->asks, lookups = t->class == OP_NET ? LOOKUPS : 0;
	const struct source_rule *x = a->r, *y = b->r;
	bool ports = !(both & COND_PORTS);

	for (size_t i = 0; i < x->nport; i++)
		for (size_t j = 0; j < y->nport; j++)
			ports |= x->port[i].low <= y->port[j].high &&
				 y->port[j].low <= x->port[i].high;
	if (!ports || (bits_of(t->class, a) & bits_of(t->class, b) & ~lookups) == 0 ||
	    ((both & COND_CIDRS) && !cidrs_cover(x, y, false)))
		return false;
	/* an allow rule without 'kinds' does not match a program that has a kind */
	if (t->class == OP_EXEC &&
	    ((both & COND_KINDS) ? (x->bits & y->bits) == 0 : (b->asks & COND_KINDS) != 0))
		return false;
	if ((both & COND_SCRIPTS) && !list_overlaps(t, &x->scripts, &y->scripts, path_overlaps))
		return false;
	if ((a->asks & COND_LINE) && (b->asks & COND_LINE) && !lines_overlap(t, x, y))
		return false;
	return !(both & COND_SUBJECT) ||
	       list_overlaps(t, &x->subject, &y->subject,
			     relations[t->class][decision_permits(x->decision)].overlaps);
}

/* Warns about rule b, of which a takes the rest. A rule that restricts commands matches more names
 * than one that allows them, so it can still be reached by those names. */
static COLD void tell_covered(struct linter *t, const struct source_rule *a,
			      const struct source_rule *b, const struct left *left)
{
	struct problems *p = &t->l->p;
	const char *or_final = b->decision == DECISION_deny ? ", or make it final" : "";
	bool lookups = false;

	for (size_t i = 0; t->class == OP_NET && i < left->n; i++)
		lookups |= left->bits[i] != 0;

	if (left->allowed && !decision_permits(b->decision) && t->class == OP_EXEC)
		warning(p, b->line, b->column,
			"%s '%s' comes too late: '%s' (line %u) allows it first; put it before "
			"that%s",
			decision_name(b->decision), b->name, a->name, a->line, or_final);
	else if (lookups)
		warning(p, b->line, b->column,
			"rule '%s' is for lookups only: its connections are all matched first, the "
			"last by '%s' (line %u)",
			b->name, a->name, a->line);
	else if (left->takers > 1)
		warning(p, b->line, b->column,
			"rule '%s' is never reached: the rules up to '%s' (line %u) match all of "
			"it first",
			b->name, a->name, a->line);
	else if (left->allowed && b->decision == DECISION_deny)
		warning(p, b->line, b->column,
			"deny '%s' never takes effect: '%s' (line %u) allows all of it first; put "
			"it before that, or make it final",
			b->name, a->name, a->line);
	else
		warning(p, b->line, b->column,
			"rule '%s' is never reached: '%s' (line %u) matches all of it first",
			b->name, a->name, a->line);
}

static uint64_t bit_of(const char *s, size_t n)
{
	uint32_t h = 2166136261U;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)s[i]) * 16777619U;
	return UINT64_C(1) << (h >> 7) % 64;
}

/* Bits of a name, the name of a path, a domain, or the first two components: two patterns that
 * overlap share it. A pattern with a special character there has all bits. */
static COLD uint64_t rule_bits(enum op_class class, const struct source_rule *r)
{
	uint64_t bits = r->subject.n == 0 ? UINT64_MAX : 0;

	for (size_t i = 0; i < r->subject.n; i++) {
		const char *s = r->subject.v[i], *slash = strrchr(s, '/');
		size_t len;

		if (class == OP_FILE) {
			slash = s[0] == '/' ? strchr(s + 1, '/') : NULL;
			len = slash != NULL ? (size_t)(slash + 1 - s) + strcspn(slash + 1, "/") : 0;
		} else {
			s = slash != NULL ? slash + 1 : s;
			len = strlen(s);
		}
		bits |= len > 0 && glob_is_literal(s, len) ? bit_of(s, len) : UINT64_MAX;
	}
	return bits;
}

/* The conditions of the rule without those that every operation meets. */
static COLD unsigned rule_asks(enum op_class class, const struct source_rule *r)
{
	const struct port_range all = {1, UINT16_MAX};
	unsigned asks = r->conditions;

	if (class == OP_NET && range_within(r, &all))
		asks &= ~(unsigned)COND_PORTS;
	if (class == OP_NET && has_text(&r->subject, "*"))
		asks &= ~(unsigned)COND_DOMAINS;
	if (class == OP_NET && r->bits == (1U << OP_PROTOS) - 1)
		asks &= ~(unsigned)COND_PROTOCOLS;
	if (class == OP_EXEC && !decision_permits(r->decision) &&
	    (has_text(&r->subject, "*") || has_text(&r->subject, "**") ||
	     has_text(&r->subject, "/**")))
		asks &= ~(unsigned)COND_COMMANDS;
	return asks;
}

/* Compares a rule with those before it until one is reported; false if MAX_PAIRS is exceeded. */
static COLD bool lint_rule(struct linter *t, size_t j)
{
	const struct linted *b = &t->rule[j];
	const bool may_be_late = b->r->decision == DECISION_deny && !b->r->final;
	struct left left, rest;
	bool told = false;

	left_init(t, b, &left);
	for (size_t i = 0; i < j && !told && t->pairs <= MAX_PAIRS; i++) {
		const struct linted *a = &t->rule[i];

		if ((a->bits & b->bits) == 0)
			continue;
		t->pairs++;
		told = take_from(t, a, b, &left);
		if (told) {
			tell_covered(t, a->r, b->r, &left);
		} else if (may_be_late && decision_permits(a->r->decision) && overlaps(t, a, b)) {
			left_init(t, a, &rest);
			told = !take_from(t, b, a, &rest);
			free(rest.bits);
			if (told)
				warning(&t->l->p, b->r->line, b->r->column,
					"deny '%s' comes too late for what '%s' (line %u) allows "
					"first; put it before that, or make it final",
					b->r->name, a->r->name, a->r->line);
		}
	}
	free(left.bits);
	return t->pairs <= MAX_PAIRS;
}

/* Whether a request may set the variable and a program of the rule reads it. */
static bool can_load(const struct source *s, const struct source_rule *r,
		     const struct request_env_loader *v)
{
	cleanup_free char *programs = mem_strdup(v->programs);
	bool may = !s->has_env_allow;
	char *save = NULL;

	for (size_t i = 0; i < s->env_allow.n; i++)
		may |= glob_text_overlaps(s->env_allow.v[i], v->name);
	for (size_t i = 0; i < s->env_deny.n; i++)
		may &= !glob_text_covers(s->env_deny.v[i], v->name);
	for (char *p = may && programs != NULL ? strtok_r(programs, " ", &save) : NULL; p != NULL;
	     p = strtok_r(NULL, " ", &save))
		for (size_t i = 0; i < r->subject.n; i++)
			if (command_overlaps(r->subject.v[i], p))
				return true;
	return false;
}

/* Warns about rules for arguments of a program that a variable makes run other code. A policy that
 * denies commands by default drops such variables: policy_drops_env. */
static COLD void lint_variables(struct loader *l)
{
	const struct source_rules *rules = &l->to->rules[OP_EXEC];

	if (!decision_permits(l->to->fallback[OP_EXEC]))
		return;
	for (size_t i = 0; i < rules->n; i++) {
		const struct source_rule *r = &rules->v[i];
		cleanup_buf struct buf names = {0};

		if (decision_permits(r->decision) || !(r->conditions & (COND_LINE | COND_FLAGS)))
			continue;
		for (const struct request_env_loader *v = request_env_loaders; v->name != NULL; v++)
			if (can_load(l->to, r, v))
				buf_addf(&names, "%s%s", names.len > 0 ? ", " : "", v->name);
		if (names.len > 0)
			warning(&l->p, r->line, r->column,
				"variables that load code (%.200s) get around the arguments of "
				"rule "
				"'%s'; name them in environment.deny, or set default: {commands: "
				"deny}",
				names.data, r->name);
	}
}

COLD void source_lint(struct loader *l)
{
	for (unsigned c = 0; c < POLICY_RULE_CLASSES; c++) {
		const struct source_rules *rules = &l->to->rules[c];
		cleanup_free struct linted *order =
			mem_resize(NULL, rules->n + 1, sizeof(struct linted));
		struct linter t = {.l = l, .class = (enum op_class)c, .rule = order};

		for (unsigned final = 2; final-- > 0;)
			for (size_t i = 0; i < rules->n; i++)
				if (rules->v[i].final == final)
					order[t.n++] = (struct linted){
						&rules->v[i], rule_asks(t.class, &rules->v[i]),
						rule_bits(t.class, &rules->v[i])};
		for (size_t j = 1; j < t.n; j++)
			if (!lint_rule(&t, j)) {
				notice(&l->p, order[j].r->line, order[j].r->column,
				       "too many rules: from here on they were not compared with "
				       "those before");
				break;
			}
	}
	lint_variables(l);
}
