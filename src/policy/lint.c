// SPDX-License-Identifier: Apache-2.0
/* Finds rules that cannot take effect. A rule that earlier rules cover is never reached. A deny
 * rule behind an allow rule that it overlaps comes too late for the part they share. The linter
 * compares every pair of rules of a class, in the order of trial (final rules first), until it has
 * compared MAX_PAIRS of their patterns. */
#include "base/mem.h"
#include "model/workspace_names.h"
#include "policy/domain.h"
#include "policy/flags.h"
#include "policy/glob.h"
#include "policy/load.h"
#include <stdio.h>

#define MAX_PAIRS 2500000U /* enough for a policy of a thousand rules */
#define COND_LINE (COND_ARGS | COND_REGEX)
#define LOOKUPS (1U << OP_PROTOS) /* among the protocols of a network rule */

struct linted {
	const struct snapshot_rule *r;
	unsigned asks; /* conditions that not every operation meets */
	uint64_t bits; /* two rules without a common bit match no common operation */
};
struct linter {
	const struct policy *p;
	struct problems *out;
	enum op_class class;
	struct linted *rule; /* in the order of trial */
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

/* A name covers a path that ends with it; a path covers a name only if it covers all paths. */
static bool command_covers(const char *a, const char *b)
{
	if (glob_is_path(a))
		return glob_path_covers(a, glob_is_path(b) ? b : "**");
	return glob_text_covers(a, glob_name(b));
}

/* A name that allows counts only in the system's directories. */
static bool allowed_command_covers(const char *a, const char *b)
{
	if (!glob_is_path(a) && glob_is_path(b) &&
	    (!decide_in_system(b) || strcmp(strrchr(b, '/'), "/**") == 0))
		return false;
	return command_covers(a, b);
}

static COLD bool command_overlaps(const char *a, const char *b)
{
	if (glob_is_path(a) && glob_is_path(b))
		return glob_path_overlaps(a, b);
	return glob_text_overlaps(glob_name(a), glob_name(b));
}

static COLD bool allowed_command_overlaps(const char *a, const char *b)
{
	char path[GLOB_MAX + 32];

	if (glob_is_path(a) || !glob_is_path(b))
		return command_overlaps(a, b);
	for (size_t i = 0; decide_system_dirs[i] != NULL; i++) {
		snprintf(path, sizeof(path), "%s%s", decide_system_dirs[i], a);
		if (glob_path_overlaps(path, b))
			return true;
	}
	return false;
}

static bool any(struct linter *t, const struct snapshot_span *a, const char *b, pattern_fn *f)
{
	for (uint32_t i = 0; i < a->n; i++) {
		t->pairs++;
		if (f(snapshot_pattern(t->p, a->at + i), b))
			return true;
	}
	return false;
}

/* Whether every pattern of b (all), or some pattern of b, has a pattern of a for which f is true.
 */
static bool lists_match(struct linter *t, const struct snapshot_span *a,
			const struct snapshot_span *b, pattern_fn *f, bool all)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (any(t, a, snapshot_pattern(t->p, b->at + i), f) != all)
			return !all;
	return all;
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a, b) == 0;
}

/* Whether every port of the range is in a range of a. */
static bool range_within(const struct linter *t, const struct snapshot_rule *a,
			 const struct port_range *range)
{
	const struct port_range *port = &t->p->ports[a->ports.at];
	uint32_t at = range->low;
	bool found = true;

	while (found && at <= range->high) {
		found = false;
		for (uint32_t i = 0; i < a->ports.n; i++)
			if (port[i].low <= at && at <= port[i].high) {
				at = port[i].high + 1U;
				found = true;
			}
	}
	return found;
}

static bool cidrs_cover(const struct linter *t, const struct snapshot_rule *a,
			const struct snapshot_rule *b, bool all)
{
	for (uint32_t j = 0; j < b->cidrs.n; j++) {
		const struct cidr *y = &t->p->cidrs[b->cidrs.at + j];
		bool found = false;

		for (uint32_t i = 0; i < a->cidrs.n; i++) {
			const struct cidr *x = &t->p->cidrs[a->cidrs.at + i];

			found |= cidr_covers(x, y) || (!all && cidr_covers(y, x));
		}
		if (found != all)
			return found;
	}
	return all;
}

/* How many letters of short options the pattern has; 0 if it is compared as a text. */
static size_t letters_of(const struct snapshot_rule *r, const char *pattern)
{
	return r->flags && !r->args_whole ? flags_letters(pattern) : 0;
}

/* Whether a pattern of a matches every argument that the pattern of b matches. An argument with
 * letters begins with a dash; only fewer letters or a pattern for all such arguments cover letters.
 */
static bool args_cover(struct linter *t, const struct snapshot_rule *a,
		       const struct snapshot_rule *b, const char *pattern)
{
	const size_t letters = letters_of(b, pattern);

	for (uint32_t i = 0; i < a->args.n; i++) {
		const char *of_a = snapshot_pattern(t->p, a->args.at + i);
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
static COLD bool lines_overlap(struct linter *t, const struct snapshot_rule *a,
			       const struct snapshot_rule *b)
{
	const struct snapshot_rule *whole = a->args_whole ? a : b;

	if (!whole->args_whole)
		return true;
	for (uint32_t i = 0; a->args_whole != b->args_whole && i < whole->args.n; i++)
		if (strchr(snapshot_pattern(t->p, whole->args.at + i), '*') != NULL)
			return true;
	return lists_match(t, &a->args, &b->args, glob_text_overlaps, false);
}

static bool group_within(const char *a, const char *b)
{
	return flags_group_covers(b, a);
}

/* How patterns of an earlier rule relate to patterns of a later one; [1] if the earlier one allows.
 */
static const struct {
	pattern_fn *covers, *overlaps;
} relations[POLICY_RULE_CLASSES][2] = {
	[OP_FILE] = {{glob_path_covers, glob_path_overlaps},
		     {glob_path_covers, glob_path_overlaps}},
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
	return (all & ~ports) | (rule_is_for_lookups(x->r) ? LOOKUPS : 0);
}

/* Whether a meets every condition of b except what left counts. */
static COLD bool rest_covers(struct linter *t, const struct linted *a, const struct linted *b,
			     unsigned counted)
{
	const unsigned more = a->asks & ~b->asks & ~(unsigned)(COND_PROTOCOLS | COND_LINE);
	const unsigned asks = a->asks & ~counted;
	const struct snapshot_rule *x = a->r, *y = b->r;

	/* an allow rule without 'kinds' does not match a program that has a kind */
	if (more != 0 || (t->class == OP_FILE && x->args_whole && !y->args_whole) ||
	    (decision_permits(x->decision) && (b->asks & ~a->asks & COND_KINDS)) ||
	    ((asks & COND_CIDRS) && !cidrs_cover(t, x, y, true)) ||
	    ((asks & COND_KINDS) && (y->bits & ~x->bits) != 0) ||
	    ((asks & COND_SCRIPTS) &&
	     (y->scripts.n == 0 ||
	      !lists_match(t, &x->scripts, &y->scripts, glob_path_covers, true))) ||
	    ((asks & COND_LINE) && (!(b->asks & COND_LINE) || x->args_whole != y->args_whole ||
				    !lists_match(t, &x->regex, &y->regex, same_text, true))))
		return false;
	for (uint32_t i = 0; (asks & COND_PORTS) && i < y->ports.n; i++)
		if (!range_within(t, x, &t->p->ports[y->ports.at + i]))
			return false;
	for (uint32_t i = 0; (asks & COND_LINE) && i < y->args.n; i++)
		if (!args_cover(t, x, y, snapshot_pattern(t->p, y->args.at + i)))
			return false;
	/* a command that has an option of each group of y has one of each group of x */
	return lists_match(t, &y->groups, &x->groups, group_within, true);
}

static COLD void left_init(struct linter *t, const struct linted *b, struct left *left)
{
	*left = (struct left){.counted = b->asks & COND_SUBJECT};
	if (left->counted == 0)
		left->counted = b->asks & COND_PORTS;
	left->n = left->counted == 0		? 1
		  : left->counted == COND_PORTS ? b->r->ports.n
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
		    !(left->counted == COND_PORTS
			      ? range_within(t, a->r, &t->p->ports[b->r->ports.at + i])
			      : any(t, &a->r->subject,
				    snapshot_pattern(t->p, b->r->subject.at + (uint32_t)i),
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
	const struct snapshot_rule *x = a->r, *y = b->r;
	bool ports = !(both & COND_PORTS);

	for (uint32_t i = 0; i < x->ports.n; i++)
		for (uint32_t j = 0; j < y->ports.n; j++) {
			const struct port_range *of_x = &t->p->ports[x->ports.at + i],
						*of_y = &t->p->ports[y->ports.at + j];

			ports |= of_x->low <= of_y->high && of_y->low <= of_x->high;
		}
	if (!ports || (bits_of(t->class, a) & bits_of(t->class, b) & ~lookups) == 0 ||
	    ((both & COND_CIDRS) && !cidrs_cover(t, x, y, false)))
		return false;
	/* an allow rule without 'kinds' does not match a program that has a kind */
	if (t->class == OP_EXEC &&
	    ((both & COND_KINDS) ? (x->bits & y->bits) == 0 : (b->asks & COND_KINDS) != 0))
		return false;
	if ((both & COND_SCRIPTS) &&
	    !lists_match(t, &x->scripts, &y->scripts, glob_path_overlaps, false))
		return false;
	if ((a->asks & COND_LINE) && (b->asks & COND_LINE) && !lines_overlap(t, x, y))
		return false;
	return !(both & COND_SUBJECT) ||
	       lists_match(t, &x->subject, &y->subject,
			   relations[t->class][decision_permits(x->decision)].overlaps, false);
}

/* Warns about rule b because of the rule a before it: "KIND 'b' BETWEEN'a' (line N)END". */
static void warn(struct linter *t, const struct snapshot_rule *a, const struct snapshot_rule *b,
		 const char *kind, const char *between, const char *end)
{
	problem_add(t->out, PROBLEM_WARNING, b->line, b->column, "%s '%s' %s'%s' (line %u)%s", kind,
		    snapshot_text(t->p, b->name), between, snapshot_text(t->p, a->name), a->line,
		    end);
}

#define LATE "; put it before that, or make it final"

/* Warns about rule b, of which a takes the rest. A rule that restricts commands matches more names
 * than one that allows them, so it can still be reached by those names. */
static COLD void warn_covered(struct linter *t, const struct snapshot_rule *a,
			      const struct snapshot_rule *b, const struct left *left)
{
	const bool deny = b->decision == DECISION_deny;
	bool lookups = false;

	for (size_t i = 0; t->class == OP_NET && i < left->n; i++)
		lookups |= left->bits[i] != 0;
	if (left->allowed && !decision_permits(b->decision) && t->class == OP_EXEC)
		warn(t, a, b, decision_name(b->decision), "comes too late: ",
		     deny ? " allows it first" LATE : " allows it first; put it before that");
	else if (lookups)
		warn(t, a, b, "rule",
		     "is for lookups only: its connections are all matched first, the last by ",
		     "");
	else if (left->takers > 1)
		warn(t, a, b, "rule", "is never reached: the rules up to ",
		     " match all of it first");
	else if (left->allowed && deny)
		warn(t, a, b, "deny", "never takes effect: ", " allows all of it first" LATE);
	else
		warn(t, a, b, "rule", "is never reached: ", " matches all of it first");
}

/* Bits of a name, the name of a path, a domain, or the first two components: two patterns that
 * overlap share it. A pattern with a special character there has all bits. */
static COLD uint64_t rule_bits(const struct linter *t, const struct snapshot_rule *r)
{
	uint64_t bits = r->subject.n == 0 ? UINT64_MAX : 0;

	for (uint32_t i = 0; i < r->subject.n; i++) {
		const char *s = snapshot_pattern(t->p, r->subject.at + i);
		const char *slash = s[0] == '/' ? strchr(s + 1, '/') : NULL;
		size_t len = slash != NULL ? (size_t)(slash + 1 - s) + strcspn(slash + 1, "/") : 0;

		if (t->class != OP_FILE) {
			s = glob_name(s);
			len = strlen(s);
		}
		bits |= len > 0 && glob_is_literal(s, len)
				? UINT64_C(1) << snapshot_hash(KEY_NAME, s, len) % 64
				: UINT64_MAX;
	}
	return bits;
}

/* The conditions of the rule without those that every operation meets. */
static COLD unsigned rule_asks(struct linter *t, const struct snapshot_rule *r)
{
	const struct port_range all = {1, UINT16_MAX};
	const bool star = any(t, &r->subject, "*", same_text);
	unsigned asks = r->conditions;

	if (t->class == OP_NET && range_within(t, r, &all))
		asks &= ~(unsigned)COND_PORTS;
	if (t->class == OP_NET && star)
		asks &= ~(unsigned)COND_DOMAINS;
	if (t->class == OP_NET && r->bits == (1U << OP_PROTOS) - 1)
		asks &= ~(unsigned)COND_PROTOCOLS;
	if (t->class == OP_EXEC && !decision_permits(r->decision) &&
	    (star || any(t, &r->subject, "**", same_text) || any(t, &r->subject, "/**", same_text)))
		asks &= ~(unsigned)COND_COMMANDS;
	return asks;
}

/* Compares a rule with those before it until one is reported; false if MAX_PAIRS is exceeded. */
static COLD bool lint_rule(struct linter *t, uint32_t j)
{
	const struct linted *b = &t->rule[j];
	const bool may_be_late = b->r->decision == DECISION_deny && !b->r->final;
	struct left left, rest;
	bool told = false;

	left_init(t, b, &left);
	for (uint32_t i = 0; i < j && !told && t->pairs <= MAX_PAIRS; i++) {
		const struct linted *a = &t->rule[i];

		if ((a->bits & b->bits) == 0)
			continue;
		t->pairs++;
		told = take_from(t, a, b, &left);
		if (told) {
			warn_covered(t, a->r, b->r, &left);
		} else if (may_be_late && decision_permits(a->r->decision) && overlaps(t, a, b)) {
			left_init(t, a, &rest);
			told = !take_from(t, b, a, &rest);
			free(rest.bits);
			if (told)
				warn(t, a->r, b->r, "deny", "comes too late for what ",
				     " allows first" LATE);
		}
	}
	free(left.bits);
	return t->pairs <= MAX_PAIRS;
}

/* Whether a request may set the variable and a program of the rule reads it. */
static bool can_load(struct linter *t, const struct snapshot_rule *r,
		     const struct request_env_loader *v)
{
	const struct snapshot_head *h = t->p->head;
	cleanup_free char *programs = mem_strdup(v->programs);
	char *save = NULL;

	if (programs == NULL || any(t, &h->env_deny, v->name, glob_text_covers) ||
	    (h->has_env_allow && !any(t, &h->env_allow, v->name, glob_text_overlaps)))
		return false;
	for (char *p = strtok_r(programs, " ", &save); p != NULL; p = strtok_r(NULL, " ", &save))
		if (any(t, &r->subject, p, command_overlaps))
			return true;
	return false;
}

/* Warns about rules for arguments of a program that a variable makes run other code. A policy that
 * denies commands by default drops such variables: policy_drops_env. */
static COLD void lint_variables(struct linter *t)
{
	const struct snapshot_class *c = &t->p->head->class[OP_EXEC];

	for (uint32_t i = 0; decision_permits(c->fallback) && i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(t->p, OP_EXEC, i);
		cleanup_buf struct buf names = {0};

		if (decision_permits(r->decision) || !(r->conditions & (COND_LINE | COND_FLAGS)))
			continue;
		for (const struct request_env_loader *v = request_env_loaders; v->name != NULL; v++)
			if (can_load(t, r, v))
				buf_addf(&names, "%s%s", names.len > 0 ? ", " : "", v->name);
		if (names.len > 0)
			problem_add(t->out, PROBLEM_WARNING, r->line, r->column,
				    "variables that load code (%.200s) get around the arguments of "
				    "rule '%s'; name them in environment.deny, or set default: "
				    "{commands: deny}",
				    names.data, snapshot_text(t->p, r->name));
	}
}

/* Warns about patterns for arguments that name a file of the workspace: a program may name the same
 * file by its real path. */
static COLD void lint_arguments(struct linter *t)
{
	const struct snapshot_class *c = &t->p->head->class[OP_EXEC];

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(t->p, OP_EXEC, i);
		const struct snapshot_span *const lists[] = {&r->args, &r->regex};

		for (uint32_t k = 0; k < r->args.n + r->regex.n; k++) {
			const bool regex = k >= r->args.n;
			const char *s = snapshot_pattern(t->p, lists[regex]->at + k -
								       (regex ? r->args.n : 0));

			s += regex && s[0] == '^';
			if (strncmp(s, WORKSPACE_CANONICAL, strlen(WORKSPACE_CANONICAL)) != 0)
				continue;
			problem_add(t->out, PROBLEM_WARNING, r->line, r->column,
				    "a pattern of rule '%s' for arguments begins "
				    "with " WORKSPACE_CANONICAL
				    ": it does not match the same file by its real path; write a "
				    "rule about the file, or begin the pattern with '*'",
				    snapshot_text(t->p, r->name));
			break;
		}
	}
}

COLD void policy_lint(const struct policy *p, struct problems *out)
{
	struct linter t = {.p = p, .out = out};

	for (unsigned c = 0; c < POLICY_RULE_CLASSES; c++) {
		const uint32_t n = p->head->class[c].rules.n;
		uint32_t j = 0;

		t.class = (enum op_class)c;
		t.pairs = 0;
		t.rule = mem_resize(NULL, n + 1, sizeof(struct linted));
		for (uint32_t i = 0; i < n; i++) {
			const struct snapshot_rule *r = snapshot_rule(p, c, i);

			t.rule[i] = (struct linted){r, rule_asks(&t, r), rule_bits(&t, r)};
		}
		while (j < n && lint_rule(&t, j))
			j++;
		if (j < n)
			problem_add(out, PROBLEM_NOTICE, t.rule[j].r->line, t.rule[j].r->column,
				    "too many rules: from here on they were not compared with "
				    "those before");
		free(t.rule);
	}
	lint_variables(&t);
	lint_arguments(&t);
}
