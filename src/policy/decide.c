// SPDX-License-Identifier: Apache-2.0
/* policy_decide checks the operation, asks the cache or searches the class's index for the first
 * rule that matches, and fills in the verdict. It does not allocate memory. */
#include "base/mem.h"

#include "policy/glob.h"
#include "policy/snapshot.h"

static void scan(struct rule_search *s, const struct snapshot_span *span)
{
	const struct snapshot_posting *at = &s->p->postings[span->at], *end = at + span->n;

	/* Postings are sorted by rule: none behind the best one so far can be better. */
	for (; at < end && at->rule < s->best.rule; at++) {
		const enum match_result m = s->match(s->p, snapshot_rule(s->p, s->class, at->rule),
						     at->pattern, s->arg);

		if (m != MATCH_NO) {
			s->best = (struct rule_found){at->rule, m == MATCH_OVER};
			return;
		}
	}
}

void search_always(struct rule_search *s)
{
	scan(s, &s->p->head->class[s->class].always);
}

void search_key(struct rule_search *s, uint32_t hash)
{
	const struct snapshot_span *span = &s->p->head->class[s->class].slots;
	const struct snapshot_slot *slots = &s->p->slots[span->at];

	for (uint32_t i = 0; i < span->n; i++) {
		const struct snapshot_slot *slot = &slots[(hash + i) & (span->n - 1)];

		if (slot->postings.n == 0)
			return;
		if (slot->hash == hash) {
			scan(s, &slot->postings);
			return;
		}
	}
}

void search_path(struct rule_search *s, const char *path)
{
	const char *at = path + 1, *name = strrchr(path, '/'), *dot = strrchr(name, '.');

	while (*at != '\0') {
		const size_t len = strcspn(at, "/");

		search_key(s, snapshot_hash(KEY_COMPONENT, at, len));
		at += len + (at[len] == '/');
	}
	if (dot != NULL)
		search_key(s, snapshot_hash(KEY_ENDING, dot, strlen(dot)));
}

static enum match_result match_file(const struct policy *p, const struct snapshot_rule *r,
				    uint32_t pattern, const void *arg)
{
	const struct op *op = arg;

	return (r->bits & 1U << op->file.op) != 0 &&
			       glob_match_path(snapshot_pattern(p, pattern), op->file.path)
		       ? MATCH_YES
		       : MATCH_NO;
}

/* why: the reason of a denial. The gate decides what an approve becomes. */
static void set_effect(const struct policy *p, struct verdict *v, const char *why)
{
	const bool asks = v->decision == DECISION_approve;

	v->effective = asks || v->decision == DECISION_deny ? v->decision : DECISION_allow;
	v->shadow = asks && p->head->shadow != 0;
	v->why = v->effective == DECISION_deny ? why : NULL;
}

static const char *text_or_null(const struct policy *p, uint32_t at)
{
	return at != 0 ? snapshot_text(p, at) : NULL;
}

static const struct verdict no_privilege = {
	.decision = DECISION_deny,
	.effective = DECISION_deny,
	.rule = POLICY_NO_PRIVILEGE,
	.message = "{path} cannot raise privilege in a session: run the command without it; the "
		   "session's state stays as it was",
	.final = true};

static void conclude(const struct policy *p, unsigned class, const struct rule_found *f,
		     struct verdict *v)
{
	const struct snapshot_class *c = &p->head->class[class];
	const struct snapshot_rule *r;

	*v = (struct verdict){.file = text_or_null(p, p->head->file)};
	if (f->rule == SNAPSHOT_NONE) {
		v->decision = (enum decision)c->fallback;
		v->rule = "default";
		v->line = c->line;
		v->column = c->column;
		if (c->line == 0)
			v->file = NULL;
		set_effect(p, v, "no rule allows it");
		return;
	}
	if (f->rule == SNAPSHOT_NO_PRIVILEGE) {
		*v = no_privilege;
		return;
	}
	r = snapshot_rule(p, class, f->rule);
	v->rule = snapshot_text(p, r->name);
	v->line = r->line;
	v->column = r->column;
	if (f->over) {
		v->decision = v->effective = DECISION_deny;
		v->why = "a pattern of this rule is over its limit: the arguments are too many, or "
			 "comparing them takes too long";
		return;
	}
	v->decision = (enum decision)r->decision;
	v->message = text_or_null(p, r->message);
	v->target = text_or_null(p, r->redirect_to);
	v->final = r->final;
	set_effect(p, v, "a rule denies it");
}

void policy_decide(const struct policy *p, struct policy_cache *cache, const struct op *op,
		   struct verdict *v)
{
	const enum op_class class = op->class == OP_DNS ? OP_NET : op->class;
	struct rule_search s = {.p = p, .class = class, .best = {.rule = SNAPSHOT_NONE}};
	const char *wrong = NULL;
	bool cached;

	if (class != OP_NET && !glob_plain_path(class == OP_FILE ? op->file.path : op->exec.path))
		wrong = "not a plain absolute path";
	cached = wrong == NULL && cache != NULL && cache_get(cache, p, op, &s.best);
	if (wrong == NULL && !cached) {
		if (class == OP_EXEC) {
			s.best = decide_exec(s, op);
		} else if (class == OP_NET) {
			wrong = decide_net(s, op, &s.best);
		} else {
			s.match = match_file;
			s.arg = op;
			search_always(&s);
			search_path(&s, op->file.path);
		}
	}
	if (wrong != NULL) {
		*v = (struct verdict){.decision = DECISION_deny,
				      .effective = DECISION_deny,
				      .rule = "default",
				      .why = wrong};
		return;
	}
	if (cache != NULL && !cached)
		cache_put(cache, &s.best);
	conclude(p, class, &s.best, v);
	if (s.best.rule == SNAPSHOT_NONE && v->effective == DECISION_deny && class == OP_EXEC &&
	    (op->exec.flags & OP_EXEC_LOOSE) != 0)
		v->why = "no rule allows it by a name that can lead elsewhere (call it by its own "
			 "absolute path)";
	v->cached = cached;
}
