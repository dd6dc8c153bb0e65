// SPDX-License-Identifier: Apache-2.0
/* Rules that cannot take effect: one that earlier rules cover is never reached; a deny behind an
 * allow that it overlaps comes too late for the part they share. Every pair of rules of a class is
 * looked at, in the order in which they are tried (final ones first), until MAX_PAIRS of their
 * patterns were compared. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/snapshot.h"
#include "policy/source.h"
#include <stdio.h>

#define MAX_PAIRS 2500000U /* a policy of a thousand rules is compared in full */
#define COND_LINE (COND_ARGS | COND_REGEX)
#define LOOKUPS (1U << OP_PROTOS) /* among the protocols of a network rule */

struct linted {
	const struct source_rule *r;
	unsigned asks; /* conditions that leave anything out */
	uint64_t bits; /* two rules without a common bit have nothing in common */
};
struct linter {
	struct loader *l;
	enum op_class class;
	struct linted *rule; /* in the order of trial */
	size_t n;
	size_t pairs;
};
/* What the rules before have not matched yet of a rule: for each of its patterns (of its ports, if
 * it has no patterns), which operations or protocols. */
struct left {
	unsigned counted; /* the condition that bits are of; 0: there is one for all */
	uint32_t *bits;	  /* owned */
	size_t n, open;	  /* open: how many are not 0 */
	unsigned takers;
	bool allowed; /* one of them allows */
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

/* Where b begins or ends with any number of components, a must be as wide. */
static bool is_narrower(const char *a, const char *b)
{
	const size_t na = strlen(a), nb = strlen(b);

	if (strncmp(b + (*b == '/'), "**", 2) == 0 && a[*a == '/'] != '*')
		return true;
	return nb > 1 && strcmp(b + nb - 2, "**") == 0 && a[na - 1] != '*';
}

static bool path_covers(const char *a, const char *b)
{
	return !is_narrower(a, b) && !literal_differs(a, b) && !ending_differs(a, b) &&
	       glob_path_covers(a, b);
}

static bool path_overlaps(const char *a, const char *b)
{
	return !literal_differs(a, b) && !ending_differs(a, b) && glob_path_overlaps(a, b);
}

static bool is_path(const char *pattern)
{
	return strchr(pattern, '/') != NULL || strcmp(pattern, "**") == 0;
}

/* A name covers a path that ends with it; a path covers a name only if it covers all. */
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

/* Every pattern of b is covered by one of a. */
static bool list_covers(struct linter *t, const struct strv *a, const struct strv *b, pattern_fn *f)
{
	for (size_t i = 0; i < b->n; i++)
		if (!any(t, a, b->v[i], f))
			return false;
	return b->n > 0;
}

/* Every port of the range is in one of a's. */
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

static bool ports_cover(const struct source_rule *a, const struct source_rule *b)
{
	for (size_t i = 0; i < b->nport; i++)
		if (!range_within(a, &b->port[i]))
			return false;
	return true;
}

static bool ports_overlap(const struct source_rule *a, const struct source_rule *b)
{
	for (size_t i = 0; i < a->nport; i++)
		for (size_t j = 0; j < b->nport; j++)
			if (a->port[i].low <= b->port[j].high && b->port[j].low <= a->port[i].high)
				return true;
	return false;
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

/* Letters of short options that a pattern of the rule stands for; 0: it is compared as text. */
static size_t letters_of(const struct source_rule *r, const char *pattern)
{
	return r->flags && !r->args_whole ? flags_letters(pattern) : 0;
}

/* A pattern of a that matches what the pattern of b does. Where letters are given is an argument
 * that begins with a dash; letters are covered by fewer of them, and by nothing else. */
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
		/* groups of b stand for its letters, too */
		for (size_t k = 0; n > 0 && letters > 0 && b->groups.n == 0; k++) {
			if (k == n)
				return true;
			if (memchr(pattern + 1, of_a[1 + k], letters) == NULL)
				break;
		}
	}
	return false;
}

/* Wherever all groups of b are given, all of a are. */
static bool groups_cover(const struct source_rule *a, const struct source_rule *b)
{
	for (size_t i = 0; i < a->groups.n; i++) {
		size_t k = 0;

		while (k < b->groups.n && !flags_group_covers(a->groups.v[i], b->groups.v[k]))
			k++;
		if (k == b->groups.n)
			return false;
	}
	return true;
}

/* Either key of a rule is enough. */
static COLD bool line_covers(struct linter *t, const struct source_rule *a,
			     const struct source_rule *b)
{
	if (a->args_whole != b->args_whole)
		return false;
	for (size_t i = 0; i < b->regex.n; i++)
		if (!has_text(&a->regex, b->regex.v[i]))
			return false;
	for (size_t i = 0; i < b->args.n; i++)
		if (!args_cover(t, a, b, b->args.v[i]))
			return false;
	return true;
}

/* Two that try every argument meet where an argument of each is given; a star in a pattern for the
 * whole line leaves room for one. */
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

static const struct strv *subject(enum op_class class, const struct source_rule *r)
{
	return class == OP_FILE ? &r->paths : class == OP_EXEC ? &r->commands : &r->domains;
}

static const unsigned subject_of[POLICY_RULE_CLASSES] = {
	[OP_FILE] = COND_PATHS, [OP_EXEC] = COND_COMMANDS, [OP_NET] = COND_DOMAINS};

static pattern_fn *subject_covers(enum op_class class, const struct source_rule *r)
{
	if (class == OP_EXEC)
		return decision_permits(r->decision) ? allowed_command_covers : command_covers;
	return class == OP_FILE ? path_covers : domain_covers;
}

static pattern_fn *subject_overlaps(enum op_class class, const struct source_rule *r)
{
	if (class == OP_EXEC)
		return decision_permits(r->decision) ? allowed_command_overlaps : command_overlaps;
	return class == OP_FILE ? path_overlaps : domain_overlaps;
}

/* Operations of a file rule; protocols of a network rule, of which one has no ports, and whether it
 * is for lookups. */
static uint32_t bits_of(enum op_class class, const struct linted *x)
{
	const uint32_t ports = x->r->conditions & COND_PORTS ? 1U << OP_PROTO_ICMP : 0;
	const uint32_t all = x->asks & COND_PROTOCOLS ? x->r->protocols : (1U << OP_PROTOS) - 1;

	if (class != OP_NET)
		return class == OP_FILE ? x->r->operations : 1;
	return (all & ~ports) |
	       (rule_is_for_lookups(x->r->decision, x->r->conditions) ? LOOKUPS : 0);
}

/* Whether a matches where b does, but for what left counts and those bits. */
static COLD bool rest_covers(struct linter *t, const struct linted *a, const struct linted *b,
			     unsigned counted)
{
	const unsigned more = a->asks & ~b->asks & ~(unsigned)(COND_PROTOCOLS | COND_LINE);
	const unsigned asks = a->asks & ~counted;

	/* an allow without 'kinds' is not for what has one */
	if (more != 0 || (decision_permits(a->r->decision) && (b->asks & ~a->asks & COND_KINDS)))
		return false;
	return (!(asks & COND_CIDRS) || cidrs_cover(a->r, b->r, true)) &&
	       (!(asks & COND_PORTS) || ports_cover(a->r, b->r)) &&
	       (!(asks & COND_KINDS) || (b->r->kinds & ~a->r->kinds) == 0) &&
	       (!(asks & COND_SCRIPTS) ||
		list_covers(t, &a->r->scripts, &b->r->scripts, path_covers)) &&
	       (!(asks & COND_FLAGS) || groups_cover(a->r, b->r)) &&
	       (!(asks & COND_LINE) || ((b->asks & COND_LINE) && line_covers(t, a->r, b->r)));
}

/* Whether a matches one of what is counted of b. */
static bool item_covered(struct linter *t, const struct source_rule *a, const struct source_rule *b,
			 unsigned counted, size_t i)
{
	if (counted == COND_PORTS)
		return range_within(a, &b->port[i]);
	return any(t, subject(t->class, a), subject(t->class, b)->v[i],
		   subject_covers(t->class, a));
}

static COLD void left_init(struct linter *t, const struct linted *b, struct left *left)
{
	*left = (struct left){.counted = b->asks & subject_of[t->class]};
	if (left->counted == 0)
		left->counted = b->asks & COND_PORTS;
	left->n = left->counted == 0		? 1
		  : left->counted == COND_PORTS ? b->r->nport
						: subject(t->class, b->r)->n;
	left->open = left->n;
	left->bits = mem_resize(NULL, left->n + 1, sizeof(*left->bits));
	for (size_t i = 0; i < left->n; i++)
		left->bits[i] = bits_of(t->class, b);
}

/* Takes away what a matches of what is left of b; true if that was the last of it but lookups. */
static COLD bool take_from(struct linter *t, const struct linted *a, const struct linted *b,
			   struct left *left)
{
	const uint32_t mine = bits_of(t->class, a), lookups = t->class == OP_NET ? LOOKUPS : 0;
	const size_t before = left->open;
	bool took = false;

	if (!rest_covers(t, a, b, left->counted))
		return false;
	for (size_t i = 0; i < left->n; i++) {
		const bool was_open = (left->bits[i] & ~lookups) != 0;

		if ((left->bits[i] & mine) == 0 ||
		    ((a->asks & left->counted) && !item_covered(t, a->r, b->r, left->counted, i)))
			continue;
		left->bits[i] &= ~mine;
		left->open -= was_open && (left->bits[i] & ~lookups) == 0;
		took = true;
	}
	left->takers += took;
	left->allowed |= took && decision_permits(a->r->decision);
	return left->open == 0 && before > 0;
}

static bool has_lookups(const struct left *left)
{
	for (size_t i = 0; i < left->n; i++)
		if (left->bits[i] != 0)
			return true;
	return false;
}

static bool covers(struct linter *t, const struct linted *a, const struct linted *b)
{
	struct left left;
	bool all;

	left_init(t, b, &left);
	all = take_from(t, a, b, &left);
	free(left.bits);
	return all;
}

static COLD bool overlaps(struct linter *t, const struct linted *a, const struct linted *b)
{
	const unsigned both = a->asks & b->asks, lookups = t->class == OP_NET ? LOOKUPS : 0;

	if ((bits_of(t->class, a) & bits_of(t->class, b) & ~lookups) == 0 ||
	    ((both & COND_CIDRS) && !cidrs_cover(a->r, b->r, false)) ||
	    ((both & COND_PORTS) && !ports_overlap(a->r, b->r)))
		return false;
	/* an allow without 'kinds' is not for what has one */
	if (t->class == OP_EXEC &&
	    ((both & COND_KINDS) ? (a->r->kinds & b->r->kinds) == 0 : (b->asks & COND_KINDS) != 0))
		return false;
	if ((both & COND_SCRIPTS) &&
	    !list_overlaps(t, &a->r->scripts, &b->r->scripts, path_overlaps))
		return false;
	if ((a->asks & COND_LINE) && (b->asks & COND_LINE) && !lines_overlap(t, a->r, b->r))
		return false;
	return !(both & subject_of[t->class]) ||
	       list_overlaps(t, subject(t->class, a->r), subject(t->class, b->r),
			     subject_overlaps(t->class, a->r));
}

/* Rule b, of which a takes the rest. What restricts commands matches by more names than what
 * allows them: it is reached by those. */
static COLD void tell_covered(struct linter *t, const struct source_rule *a,
			      const struct source_rule *b, const struct left *left)
{
	struct problems *p = &t->l->p;
	const char *or_final = b->decision == DECISION_deny ? ", or make it final" : "";

	if (left->allowed && !decision_permits(b->decision) && t->class == OP_EXEC)
		warning(p, b->line, b->column,
			"%s '%s' comes too late: '%s' (line %u) allows it first; put it before "
			"that%s",
			decision_name(b->decision), b->name, a->name, a->line, or_final);
	else if (t->class == OP_NET && has_lookups(left))
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

/* What rule b meets of the earlier rule a; true if it was reported. */
static COLD bool compare(struct linter *t, const struct linted *a, const struct linted *b,
			 struct left *left)
{
	const bool late =
		decision_permits(a->r->decision) && b->r->decision == DECISION_deny && !b->r->final;

	if (take_from(t, a, b, left)) {
		tell_covered(t, a->r, b->r, left);
		return true;
	}
	if (late && overlaps(t, a, b) && !covers(t, b, a)) {
		warning(&t->l->p, b->r->line, b->r->column,
			"deny '%s' comes too late for what '%s' (line %u) allows first; put it "
			"before that, or make it final",
			b->r->name, a->r->name, a->r->line);
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
static COLD uint64_t pattern_bits(enum op_class class, const char *s)
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

static COLD uint64_t rule_bits(enum op_class class, const struct source_rule *r)
{
	const struct strv *list = subject(class, r);
	uint64_t bits = list->n == 0 ? UINT64_MAX : 0;

	for (size_t i = 0; i < list->n; i++)
		bits |= pattern_bits(class, list->v[i]);
	return bits;
}

/* Without the conditions that everything meets. */
static COLD unsigned rule_asks(enum op_class class, const struct source_rule *r)
{
	const struct port_range all = {1, UINT16_MAX};
	unsigned asks = r->conditions;

	if (class == OP_NET && range_within(r, &all))
		asks &= ~(unsigned)COND_PORTS;
	if (class == OP_NET && has_text(&r->domains, "*"))
		asks &= ~(unsigned)COND_DOMAINS;
	if (class == OP_NET && r->protocols == (1U << OP_PROTOS) - 1)
		asks &= ~(unsigned)COND_PROTOCOLS;
	if (class == OP_EXEC && !decision_permits(r->decision) &&
	    (has_text(&r->commands, "*") || has_text(&r->commands, "**") ||
	     has_text(&r->commands, "/**")))
		asks &= ~(unsigned)COND_COMMANDS;
	return asks;
}

/* Compares a rule with those before; false: it is too much. */
static COLD bool lint_rule(struct linter *t, size_t j)
{
	const struct linted *b = &t->rule[j];
	struct left left;
	bool told = false;

	left_init(t, b, &left);
	for (size_t i = 0; i < j && !told && t->pairs <= MAX_PAIRS; i++) {
		if ((t->rule[i].bits & b->bits) == 0)
			continue;
		t->pairs++;
		told = compare(t, &t->rule[i], b, &left);
	}
	free(left.bits);
	return t->pairs <= MAX_PAIRS;
}

static void lint_class(struct linter *t)
{
	for (size_t j = 1; j < t->n; j++)
		if (!lint_rule(t, j)) {
			notice(&t->l->p, t->rule[j].r->line, t->rule[j].r->column,
			       "too many rules: from here on they were not compared with those "
			       "before");
			return;
		}
}

/* Whether requests may set the variable, or one of those that begin so. */
static bool may_be_set(const struct source *s, const char *name)
{
	bool may = !s->has_env_allow;

	for (size_t i = 0; i < s->env_allow.n; i++)
		may |= glob_text_overlaps(s->env_allow.v[i], name);
	for (size_t i = 0; i < s->env_deny.n; i++)
		may &= !glob_text_covers(s->env_deny.v[i], name);
	return may;
}

static bool reads(const struct source_rule *r, const struct request_env_loader *v)
{
	cleanup_free char *programs = mem_strdup(v->programs);
	char *save = NULL;

	for (char *p = programs != NULL ? strtok_r(programs, " ", &save) : NULL; p != NULL;
	     p = strtok_r(NULL, " ", &save))
		for (size_t i = 0; i < r->commands.n; i++)
			if (command_overlaps(r->commands.v[i], p))
				return true;
	return false;
}

/* Rules about arguments of a program that runs other code than these name, because of a variable.
 * Where commands are denied by default, a session goes without: policy_drops_env. */
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
			if (may_be_set(l->to, v->name) && reads(r, v))
				buf_addf(&names, "%s%s", names.len > 0 ? ", " : "", v->name);
		if (names.len > 0)
			warning(&l->p, r->line, r->column,
				"the arguments of rule '%s' can be walked around by variables that "
				"load code (%.200s); name them in environment.deny, or have "
				"default: {commands: deny}",
				r->name, names.data);
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
		lint_class(&t);
	}
	lint_variables(l);
}
