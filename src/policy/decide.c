// SPDX-License-Identifier: Apache-2.0
/* The one function that decides: checks the operation, asks the cache, else searches the class's
 * index for the first rule that matches, and fills in the verdict. Nothing here allocates. */
#include "base/mem.h"
#include "policy/domain.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

static void scan(struct rule_search *s, const struct snapshot_span *span)
{
	const struct snapshot_posting *at = &s->p->postings[span->at], *end = at + span->n;

	/* sorted by rule: behind the best so far nothing can be better */
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

struct rule_found decide_file(const struct policy *p, enum op_file kind, const char *path)
{
	const struct op op = {.class = OP_FILE, .file = {kind, path}};
	struct rule_search s = {.p = p,
				.class = OP_FILE,
				.match = match_file,
				.arg = &op,
				.best = {.rule = SNAPSHOT_NONE}};

	search_always(&s);
	search_path(&s, path);
	return s.best;
}

static void denied(struct verdict *v, const char *why)
{
	*v = (struct verdict){.decision = DECISION_deny,
			      .effective = DECISION_deny,
			      .rule = "default",
			      .why = why};
}

/* why: of a denial. What an approve comes to is for the gate to say. */
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

/* A host that is an address stands for that address. False: it is neither name nor address. */
static bool read_host(const char *host, char room[DOMAIN_ROOM], struct decide_net *n)
{
	struct op_address literal;
	bool named;

	if (host == NULL || host[0] == '\0')
		return true;
	named = domain_normal(host, room);
	if (op_address_parse(named ? room : host, &literal)) {
		if (n->address.family == 0)
			n->address = literal;
		return true;
	}
	n->host = room;
	return named;
}

static const char *search_net(const struct policy *p, const struct op *op, struct rule_found *f)
{
	char room[DOMAIN_ROOM];
	struct decide_net n = {.dns = op->class == OP_DNS};

	if (!n.dns) {
		n.address = op->net.address;
		n.port = op->net.port;
		n.proto = op->net.proto;
	}
	if (!read_host(n.dns ? op->dns.name : op->net.host, room, &n))
		return "this is no host name";
	n.address = cidr_normal(&n.address);
	*f = decide_net(p, &n);
	return NULL;
}

static const char *search(const struct policy *p, const struct op *op, struct rule_found *f)
{
	if (op->class == OP_NET || op->class == OP_DNS)
		return search_net(p, op, f);
	*f = op->class == OP_FILE ? decide_file(p, op->file.op, op->file.path) : decide_exec(p, op);
	return NULL;
}

void policy_decide(const struct policy *p, struct policy_cache *cache, const struct op *op,
		   struct verdict *v)
{
	const unsigned class = op->class == OP_DNS ? OP_NET : op->class;
	struct rule_found f = {.rule = SNAPSHOT_NONE};
	const char *wrong = NULL;
	bool cached;

	if (op->class == OP_FILE || op->class == OP_EXEC)
		wrong = glob_plain_path(op->class == OP_FILE ? op->file.path : op->exec.path)
				? NULL
				: "this is no plain absolute path";
	cached = wrong == NULL && cache != NULL && cache_get(cache, p, op, &f);
	if (wrong == NULL && !cached)
		wrong = search(p, op, &f);
	if (wrong != NULL) {
		denied(v, wrong);
		return;
	}
	if (cache != NULL && !cached)
		cache_put(cache, &f);
	conclude(p, class, &f, v);
	if (f.rule == SNAPSHOT_NONE && v->effective == DECISION_deny && op->class == OP_EXEC &&
	    (op->exec.flags & OP_EXEC_LOOSE) != 0)
		v->why = "no rule allows it by a name that can lead elsewhere (call it by its own "
			 "absolute path)";
	v->cached = cached;
}
