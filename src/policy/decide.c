// SPDX-License-Identifier: Apache-2.0
/* policy_decide checks the operation, asks the cache or searches the class's index for the first
 * rule that matches, and fills in the verdict. It does not allocate memory. */
#include "base/mem.h"
#include "base/path.h"
#include "model/workspace_names.h"
#include "policy/glob.h"
#include "policy/snapshot.h"
#include <stdio.h>

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

void policy_name_workspace(struct policy *p, const char *real)
{
	mem_replace(&p->real, real != NULL ? mem_strdup(real) : NULL);
}

const char *policy_real_name(const struct policy *p, const char *path, char out[POLICY_NAME_MAX])
{
	const size_t len = strlen(WORKSPACE_CANONICAL);

	if (p->real == NULL || !path_within(path, WORKSPACE_CANONICAL))
		return NULL;
	return snprintf(out, POLICY_NAME_MAX, "%s%s",
			strcmp(p->real, "/") == 0 && path[len] != '\0' ? "" : p->real,
			path + len) < POLICY_NAME_MAX
		       ? out
		       : NULL;
}

static enum match_result match_file(const struct policy *p, const struct snapshot_rule *r,
				    uint32_t pattern, const void *arg)
{
	const struct op *op = arg;

	return (r->bits & 1U << op->file.op) != 0 && !(r->args_whole && op->file.made) &&
			       glob_match_path(snapshot_pattern(p, pattern), op->file.path)
		       ? MATCH_YES
		       : MATCH_NO;
}

/* By the other name of a file, which the agent can choose. */
static enum match_result match_restriction(const struct policy *p, const struct snapshot_rule *r,
					   uint32_t pattern, const void *arg)
{
	return rule_has_host_name(r) ? match_file(p, r, pattern, arg) : MATCH_NO;
}

enum decision policy_effect(const struct policy *p, enum decision d, bool approver)
{
	if (d == DECISION_approve && p->head->shadow == 0)
		return approver ? DECISION_approve : DECISION_deny;
	return d == DECISION_deny ? DECISION_deny : DECISION_allow;
}

static const char *text_or_null(const struct policy *p, uint32_t at)
{
	return at != 0 ? snapshot_text(p, at) : NULL;
}

void decide_conclude(const struct policy *p, enum op_class class, const struct rule_found *f,
		     bool approver, struct verdict *v)
{
	const struct snapshot_class *c = &p->head->class[class];
	const char *why = "no rule allows it";

	*v = (struct verdict){.decision = c->fallback,
			      .rule = "default",
			      .file = c->line != 0 ? text_or_null(p, p->head->file) : NULL,
			      .line = c->line,
			      .column = c->column};
	if (f->rule == SNAPSHOT_NO_PRIVILEGE) {
		*v = (struct verdict){
			.decision = DECISION_deny,
			.rule = POLICY_NO_PRIVILEGE,
			.message = "{path} cannot raise privilege in a session: run the command "
				   "without it; the session's state stays as it was",
			.final = true};
		why = NULL;
	} else if (f->rule != SNAPSHOT_NONE) {
		const struct snapshot_rule *r = snapshot_rule(p, class, f->rule);

		*v = (struct verdict){.decision = f->over ? DECISION_deny : r->decision,
				      .rule = snapshot_text(p, r->name),
				      .file = text_or_null(p, p->head->file),
				      .line = r->line,
				      .column = r->column};
		why = f->over ? "a pattern of this rule is over its limit: the arguments are too "
				"many, or comparing them takes too long"
			      : "a rule denies it";
		if (!f->over) {
			v->message = text_or_null(p, r->message);
			v->target = class == OP_EXEC ? text_or_null(p, r->redirect_to) : NULL;
			v->final = r->final;
		}
	}
	v->effective = policy_effect(p, v->decision, approver);
	v->shadow = v->decision == DECISION_approve && p->head->shadow != 0;
	if (v->effective == DECISION_deny)
		v->why = v->decision == DECISION_approve ? "no approver" : why;
}

void decide_refuse(struct verdict *v, const char *why)
{
	*v = (struct verdict){.decision = DECISION_deny,
			      .effective = DECISION_deny,
			      .rule = "default",
			      .why = why};
}

static void search_file(struct rule_search *s, const struct op *op)
{
	char real[POLICY_NAME_MAX];
	const struct op other = {
		.class = OP_FILE,
		.file = {op->file.op, policy_real_name(s->p, op->file.path, real), op->file.made}};

	s->match = match_file;
	s->arg = op;
	search_key(s, SNAPSHOT_ALWAYS);
	search_path(s, op->file.path);
	if (other.file.path == NULL)
		return;
	s->match = match_restriction;
	s->arg = &other;
	search_key(s, SNAPSHOT_ALWAYS);
	search_path(s, other.file.path);
}

void policy_decide(const struct policy *p, const struct op *op, bool approver, struct verdict *v)
{
	const enum op_class class = op->class == OP_DNS ? OP_NET : op->class;
	struct rule_search s = {.p = p, .class = class, .best = {.rule = SNAPSHOT_NONE}};
	const char *wrong = NULL;
	bool cached = false;

	if (class == OP_FILE && policy_redirects(p)) {
		struct file_rules f;

		policy_decide_file(p, op->file.path, op->file.made, &f);
		policy_file_verdict(p, &f, op->file.op, approver, v);
		return;
	}
	if (class != OP_NET && !glob_plain_path(class == OP_FILE ? op->file.path : op->exec.path))
		wrong = DECIDE_NOT_PLAIN;
	else if (p->cache != NULL && cache_get(p->cache, op, &s.best))
		cached = true;
	else if (class == OP_FILE)
		search_file(&s, op);
	else if (class == OP_EXEC)
		s.best = decide_exec(s, op);
	else
		wrong = decide_net(s, op, &s.best);
	if (wrong != NULL) {
		decide_refuse(v, wrong);
		return;
	}
	if (p->cache != NULL && !cached)
		cache_put(p->cache, &s.best);
	decide_conclude(p, class, &s.best, approver, v);
	if (s.best.rule == SNAPSHOT_NONE && v->decision == DECISION_deny && class == OP_EXEC &&
	    (op->exec.flags & OP_EXEC_LOOSE) != 0)
		v->why = "no rule allows it by a name that can lead elsewhere (call it by its own "
			 "absolute path)";
	v->cached = cached;
}
