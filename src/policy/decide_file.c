// SPDX-License-Identifier: Apache-2.0
/* What a policy says about one path: the rules of all operations, found in one search. Nothing here
 * writes to the policy, so that any thread may call it. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

struct all_search {
	const char *path;
	bool real; /* only rules that do not permit match it */
	bool made;
	struct file_rules *out;
};

/* Notes the rule for the operations that have no better one. Never ends the search. */
static enum match_result match_all(const struct policy *p, const struct snapshot_rule *r,
				   uint32_t pattern, const void *arg)
{
	const struct all_search *s = arg;
	const uint32_t index = (uint32_t)(r - snapshot_rule(p, OP_FILE, 0));
	unsigned better = 0;

	if ((s->real && !rule_has_host_name(r)) || (s->made && r->args_whole))
		return MATCH_NO;
	for (unsigned op = 0; op < OP_FILES; op++)
		if ((r->bits & 1U << op) != 0 && index < s->out->rule[op])
			better |= 1U << op;
	if (better == 0 || !glob_match_path(snapshot_pattern(p, pattern), s->path))
		return MATCH_NO;
	for (unsigned op = 0; op < OP_FILES; op++)
		if ((better & 1U << op) != 0)
			s->out->rule[op] = index;
	return MATCH_NO;
}

void decide_file_plain(const struct policy *p, const char *path, bool made, struct file_rules *out)
{
	char name[POLICY_NAME_MAX];
	const struct all_search all = {path, false, made, out},
				other = {policy_real_name(p, path, name), true, made, out};
	struct rule_search s = {.p = p,
				.class = OP_FILE,
				.match = match_all,
				.arg = &all,
				.best = {.rule = SNAPSHOT_NONE}};

	*out = (struct file_rules){.plain = glob_plain_path(path)};
	for (unsigned op = 0; op < OP_FILES; op++)
		out->rule[op] = SNAPSHOT_NONE;
	if (!out->plain)
		return;
	search_key(&s, SNAPSHOT_ALWAYS);
	search_path(&s, path);
	if (other.path == NULL)
		return;
	s.arg = &other;
	search_key(&s, SNAPSHOT_ALWAYS);
	search_path(&s, other.path);
}

/* The decision of a rule, or of the default. */
static enum decision decision_of(const struct policy *p, uint32_t rule)
{
	return rule != SNAPSHOT_NONE ? snapshot_rule(p, OP_FILE, rule)->decision
				     : p->head->class[OP_FILE].fallback;
}

/* The stricter of two decisions has the higher rank. */
static unsigned rank(const struct policy *p, uint32_t rule, bool again)
{
	static const unsigned char ranks[DECISIONS] = {
		[DECISION_allow] = 0,	    [DECISION_redirect] = 1, [DECISION_log] = 2,
		[DECISION_soft_delete] = 3, [DECISION_approve] = 4,  [DECISION_deny] = 5,
	};

	if (rule != SNAPSHOT_NONE && snapshot_rule(p, OP_FILE, rule)->flags) /* it hides */
		return 6;
	return ranks[again ? DECISION_deny : decision_of(p, rule)];
}

void policy_decide_file(const struct policy *p, const char *path, bool made, struct file_rules *out)
{
	struct file_redirect to;
	struct file_rules at;

	decide_file_plain(p, path, made, out);
	if (p->redirects > 0 && strlen(path) >= PATH_MAX)
		out->plain = false;
	if (!out->plain || !policy_redirect(p, path, &to))
		return;
	/* not known of the directory that has the other name, unless it is the same */
	decide_file_plain(p, to.path, made && !to.here, &at);
	for (unsigned op = 0; op < OP_FILES; op++) {
		const bool again = decision_of(p, at.rule[op]) == DECISION_redirect;

		if (rank(p, at.rule[op], again) <= rank(p, out->rule[op], false))
			continue;
		out->rule[op] = at.rule[op];
		out->again |= (unsigned)again << op;
	}
}

void policy_file_verdict(const struct policy *p, const struct file_rules *f, enum op_file op,
			 bool approver, struct verdict *v)
{
	if (!f->plain) {
		decide_refuse(v, DECIDE_NOT_PLAIN);
		return;
	}
	decide_conclude(p, OP_FILE, &(struct rule_found){.rule = f->rule[op]}, approver, v);
	if (f->again & 1U << op) {
		v->decision = v->effective = DECISION_deny;
		v->message = NULL;
		v->why = "the path to which it is redirected is redirected itself";
	}
}

uint32_t policy_file_set(const struct policy *p, const struct file_rules *f)
{
	uint32_t set = 0;

	if (!f->plain)
		return POLICY_FILE_ALL;
	for (unsigned op = 0; op < OP_FILES; op++) {
		const struct snapshot_rule *r = f->rule[op] != SNAPSHOT_NONE
							? snapshot_rule(p, OP_FILE, f->rule[op])
							: NULL;
		const enum decision d =
			f->again & 1U << op ? DECISION_deny : decision_of(p, f->rule[op]);

		if (policy_effect(p, d, false) == DECISION_deny)
			set |= 1U << op;
		if (d != DECISION_allow && d != DECISION_deny)
			set |= 1U << (OP_FILES + op);
		if (op == OP_FILE_stat && r != NULL && r->flags)
			set |= POLICY_FILE_HIDDEN;
	}
	return set;
}

bool policy_approves(const struct policy *p, unsigned ops)
{
	const struct snapshot_class *c = &p->head->class[OP_FILE];

	if (policy_effect(p, c->fallback, true) == DECISION_approve)
		return true;
	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_FILE, i);

		if ((r->bits & ops) != 0 && policy_effect(p, r->decision, true) == DECISION_approve)
			return true;
	}
	return false;
}

unsigned policy_replace_ops(uint32_t set)
{
	const unsigned overwrite = 1U << OP_FILE_write | 1U << OP_FILE_truncate;
	const unsigned delete = 1U << OP_FILE_delete;

	return (POLICY_FILE_APPROVE(set) & delete) != 0 && (set & overwrite) == 0 ? 0 : delete;
}

/* ---- moves ---- */

/* A directory by both of its names; real may be NULL. */
struct place {
	const char *path, *real;
	/* Its redirected name: what is done by it is done elsewhere, and compared there as well.
	 * By its own name, what is redirected below it cannot be reached. */
	bool redirected;
};
struct move {
	const struct policy *p;
	bool for_good; /* a soft_delete counts as a denial */
	struct place from, to;
	unsigned ops;
	bool made;     /* what lies in directories that the session made, or all else */
	bool approver; /* what an approver may allow counts as permitted */
};

static bool counts(const struct move *m, const struct snapshot_rule *r)
{
	return !(m->made && r->args_whole);
}

static bool permits(const struct move *m, const struct place *dir, enum decision d)
{
	return policy_effect(m->p, d, m->approver) != DECISION_deny &&
	       !(m->for_good && d == DECISION_soft_delete) &&
	       (d != DECISION_redirect || dir->redirected);
}

/* What is left of the rule's pattern below the directory. */
static uint64_t rest_below(const struct snapshot_rule *r, const char *pattern,
			   const struct place *dir)
{
	const bool other = dir->real != NULL && rule_has_host_name(r);

	return glob_rest(pattern, dir->path) | (other ? glob_rest(pattern, dir->real) : 0);
}

/* How a rule relates to what the relative pattern `rest` matches below the directory. */
enum relation { RELATION_NONE, RELATION_SOME, RELATION_ALL };
static enum relation relate(const struct policy *p, const struct snapshot_rule *r,
			    const struct place *dir, const char *rest)
{
	enum relation found = RELATION_NONE;

	for (uint32_t k = 0; k < r->subject.n && found != RELATION_ALL; k++) {
		const char *pattern = snapshot_pattern(p, r->subject.at + k);
		const uint64_t below = rest_below(r, pattern, dir);

		for (unsigned n = 0; n < GLOB_COMPONENTS; n++) {
			if ((below >> n & 1) == 0)
				continue;
			if (glob_path_covers(glob_component(pattern, n), rest))
				return RELATION_ALL;
			if (glob_path_overlaps(glob_component(pattern, n), rest))
				found = RELATION_SOME;
		}
	}
	return found;
}

/* The operations among ops that are certainly permitted (or else denied) on everything that `rest`
 * matches below the directory. Denying rules before `same` count for nothing if they match the same
 * below both directories. */
static unsigned certain(const struct move *m, const struct place *dir, const char *rest,
			unsigned ops, bool permitted, uint32_t same)
{
	const struct snapshot_class *c = &m->p->head->class[OP_FILE];
	unsigned result = 0;

	for (uint32_t i = 0; i < c->rules.n && ops != 0; i++) {
		const struct snapshot_rule *r = snapshot_rule(m->p, OP_FILE, i);
		const bool allows = permits(m, dir, r->decision);
		bool alike = !allows && i < same;
		enum relation relation;

		if ((r->bits & ops) == 0 || !counts(m, r))
			continue;
		for (uint32_t k = 0; alike && k < r->subject.n; k++) {
			const char *pattern = snapshot_pattern(m->p, r->subject.at + k);

			alike = rest_below(r, pattern, &m->from) == rest_below(r, pattern, &m->to);
		}
		if (alike)
			continue;
		relation = relate(m->p, r, dir, rest);
		if (relation == RELATION_ALL && allows == permitted)
			result |= r->bits & ops;
		if (relation == RELATION_ALL || (relation == RELATION_SOME && allows != permitted))
			ops &= ~r->bits;
	}
	return permits(m, dir, c->fallback) == permitted ? result | ops : result;
}

/* A file gains an operation if the rule that denied it does not match any more, or if one that
 * permits it matches now. Only what these rules match is looked at. A denial by a rule that matches
 * in both places is lost only to an earlier rule that permits, which is looked at for itself. */
static bool move_gains(const struct move *m)
{
	const uint32_t rules = m->p->head->class[OP_FILE].rules.n;

	for (uint32_t i = 0; i < rules; i++) {
		const struct snapshot_rule *r = snapshot_rule(m->p, OP_FILE, i);
		const bool redirects = r->decision == DECISION_redirect;
		const bool allows = permits(m, &m->to, r->decision);

		for (uint32_t k = 0; counts(m, r) && k < r->subject.n; k++) {
			const char *pattern = snapshot_pattern(m->p, r->subject.at + k);
			const uint64_t before = rest_below(r, pattern, &m->from),
				       now = rest_below(r, pattern, &m->to);
			const uint64_t cause = allows ? now & ~before : before & ~now;

			for (unsigned n = 0; n < GLOB_COMPONENTS; n++) {
				const char *rest;
				unsigned ops = r->bits & m->ops;

				if ((cause >> n & 1) == 0 || ops == 0 ||
				    (redirects && m->from.redirected))
					continue;
				if (redirects)
					return true;
				rest = glob_component(pattern, n);
				ops &= ~certain(m, &m->from, rest, ops, true, allows ? i : rules);
				if (certain(m, &m->to, rest, ops, false, 0) != ops)
					return true;
			}
		}
	}
	return false;
}

/* Who made the directory of something below does not change with the move. */
static bool gains_at(const struct policy *p, const struct place *from, const struct place *to,
		     unsigned ops)
{
	const bool keeps = policy_soft_deletes(p), spares = policy_spares(p, NULL);
	struct move m = {.p = p, .from = *from, .to = *to, .ops = ops};
	bool gains = false;

	for (unsigned i = 0; i < 6 && !gains; i++) {
		m.approver = i % 3 == 1;
		m.for_good = i % 3 == 2;
		m.made = i >= 3;
		gains = (keeps || !m.for_good) && (spares || !m.made) && move_gains(&m);
	}
	return gains;
}

/* What is allowed by a redirected name is allowed by the other one as well, so that only that one
 * is looked at where something may be gained. */
bool policy_file_gains(const struct policy *p, const char *from, const char *to, unsigned ops)
{
	struct file_redirect moved[2];
	char names[3][POLICY_NAME_MAX];
	const bool by_other = policy_redirect(p, from, &moved[0]);
	const char *at = by_other ? moved[0].path : from,
		   *now = policy_redirect(p, to, &moved[1]) ? moved[1].path : to;
	const struct place place = {at, policy_real_name(p, at, names[0])},
			   by_name = {from, policy_real_name(p, from, names[1]), true},
			   target = {now, policy_real_name(p, now, names[2])};

	return gains_at(p, &place, &target, ops) ||
	       (by_other && gains_at(p, &by_name, &target, ops));
}

bool policy_spares(const struct policy *p, const char *dir)
{
	const struct snapshot_class *c = &p->head->class[OP_FILE];
	char real[POLICY_NAME_MAX];
	const struct place place = {dir, dir != NULL ? policy_real_name(p, dir, real) : NULL};

	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_FILE, i);

		if (r->args_whole && (dir == NULL || relate(p, r, &place, "*") != RELATION_NONE))
			return true;
	}
	return false;
}
