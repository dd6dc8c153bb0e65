// SPDX-License-Identifier: Apache-2.0
/* Describes a policy to people and agents. */
#include "base/mem.h"
#include "policy/snapshot.h"

#define ALTERNATIVES 4
#define PATTERNS_SHOWN 6
#define NAMES_SHOWN 12
#define RULES_SHOWN 40

void snapshot_format_patterns(const struct policy *p, const struct snapshot_span *s, uint32_t most,
			      struct buf *out)
{
	for (uint32_t i = 0; i < s->n && i < most; i++)
		buf_addf(out, "%s%s", i > 0 ? ", " : "", snapshot_pattern(p, s->at + i));
	if (s->n > most)
		buf_addf(out, " and %u more", s->n - most);
}

static void format_port(const struct port_range *range, struct buf *out)
{
	buf_addf(out, "%u", range->low);
	if (range->high != range->low)
		buf_addf(out, "-%u", range->high);
}

/* Adds the words of the bits of a rule. */
static void format_bits(unsigned class, const struct snapshot_rule *r, const char *before,
			struct buf *out)
{
	for (unsigned i = 0; rule_classes[class].bit_words[i] != NULL; i++)
		if (r->bits & 1U << i) {
			buf_addf(out, "%s%s", before, rule_classes[class].bit_words[i]);
			before = ", ";
		}
}

/* Says in a few words what the rule is about. */
static void format_subject(const struct policy *p, unsigned class, const struct snapshot_rule *r,
			   struct buf *out)
{
	const struct {
		const char *before;
		const struct snapshot_span *list;
	} lists[] = {{" with arguments ", &r->args},
		     {r->args.n > 0 ? " or like " : " with arguments like ", &r->regex}};
	const char *before;

	snapshot_format_patterns(p, &r->subject, PATTERNS_SHOWN, out);
	if (r->scripts.n > 0)
		buf_adds(out, r->subject.n > 0 ? " with scripts " : "scripts ");
	snapshot_format_patterns(p, &r->scripts, PATTERNS_SHOWN, out);
	if (class == OP_EXEC)
		format_bits(class, r, out->len > 0 ? " as " : "programs of kind ", out);
	for (unsigned i = 0; i < ARRAY_LEN(lists); i++) {
		if (lists[i].list->n > 0)
			buf_adds(out, lists[i].before);
		snapshot_format_patterns(p, lists[i].list, PATTERNS_SHOWN, out);
	}
	for (uint32_t i = 0; i < r->groups.n && i < PATTERNS_SHOWN; i++)
		buf_addf(out, "%s%s", i > 0 ? " and " : " with one of ",
			 snapshot_pattern(p, r->groups.at + i));
	before = out->len > 0 ? " at " : "";
	for (uint32_t i = 0; i < r->cidrs.n && i < PATTERNS_SHOWN; i++, before = ", ") {
		buf_adds(out, before);
		cidr_format(&p->cidrs[r->cidrs.at + i], out);
	}
	if (r->cidrs.n > PATTERNS_SHOWN)
		buf_addf(out, " and %u more", r->cidrs.n - PATTERNS_SHOWN);
	before = out->len > 0 ? " on port " : "port ";
	for (uint32_t i = 0; i < r->ports.n; i++, before = ", ") {
		buf_adds(out, before);
		format_port(&p->ports[r->ports.at + i], out);
	}
	if (class == OP_NET)
		format_bits(class, r, out->len > 0 ? " by " : "", out);
}

void policy_alternatives(const struct policy *p, const struct op *op, struct strv *out)
{
	const unsigned class = op->class == OP_DNS ? OP_NET : op->class;
	const struct snapshot_class *c = &p->head->class[class];
	unsigned n = 0;

	for (uint32_t i = 0; i < c->rules.n && n < ALTERNATIVES; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, class, i);
		cleanup_buf struct buf text = {0};

		if (!decision_permits(r->decision) ||
		    (class == OP_FILE && (r->bits & 1U << op->file.op) == 0))
			continue;
		if (class == OP_FILE)
			buf_addf(&text, "%s of ", op_file_name(op->file.op));
		format_subject(p, class, r, &text);
		strv_add(out, text.data != NULL ? text.data : "");
		n++;
	}
}

void policy_unenforced(const struct policy *p, enum op_class class, struct buf *out)
{
	static const char *const remedy[POLICY_RULE_CLASSES] = {
		[OP_FILE] = "without monitoring.mode: fuse nothing decides on single files, only a "
			    "place that is denied as a whole is shut; "
			    "filesystem.blocked_paths keeps files away from sessions, too",
		[OP_NET] = "nothing decides on connections yet; what a session can reach stands in "
			   "its wall report",
	};
	const unsigned c = class == OP_DNS ? OP_NET : class;
	const struct snapshot_class *rules = &p->head->class[c];
	const uint32_t n = rules->rules.n;
	/* without an interceptor no connection leaves a session: only a file default matters */
	const bool fallback = c == OP_FILE && !decision_permits(rules->fallback);
	/* this version does not count these operations */
	const enum limit limit = c == OP_FILE ? LIMIT_max_file_ops : LIMIT_max_net_ops;
	const bool limited = limits_has(&p->head->limits, limit);
	const char *before = "";

	if (remedy[c] == NULL || (n == 0 && !fallback && !limited))
		return;
	buf_addf(out, "%s rules are not enforced here: ", c == OP_FILE ? "file" : "network");
	for (uint32_t i = 0; i < n && i < NAMES_SHOWN; i++, before = ", ")
		buf_addf(out, "%s%s", before, snapshot_text(p, snapshot_rule(p, c, i)->name));
	if (n > NAMES_SHOWN)
		buf_addf(out, " and %u more", n - NAMES_SHOWN);
	if (fallback) {
		buf_addf(out, "%sdefault: %s", before, decision_name(rules->fallback));
		before = ", ";
	}
	if (limited)
		buf_addf(out, "%sresource_limits.%s", before, limit_rows[limit].name);
	buf_addf(out, "; %s", remedy[c]);
}

static const char *past(enum decision d)
{
	static const char *const words[DECISIONS] = {
		[DECISION_allow] = "allowed",	  [DECISION_deny] = "denied",
		[DECISION_approve] = "asked for", [DECISION_log] = "allowed and marked",
		[DECISION_redirect] = "replaced", [DECISION_soft_delete] = "kept in the trash",
	};

	return words[d];
}

void policy_summary(const struct policy *p, struct strv *out)
{
	if (p->head->description != 0)
		strv_add(out, policy_description(p));
	for (unsigned k = 0; k < POLICY_RULE_CLASSES; k++) {
		const unsigned class = rule_class_order[k];
		const struct snapshot_class *c = &p->head->class[class];
		cleanup_buf struct buf text = {0};

		buf_addf(&text, "%s: ", rule_classes[class].word);
		for (uint32_t i = 0; i < c->rules.n && i < RULES_SHOWN; i++) {
			const struct snapshot_rule *r = snapshot_rule(p, class, i);

			buf_addf(&text, "%s %s; ", snapshot_text(p, r->name),
				 r->final ? "denied (final)" : past(r->decision));
		}
		if (c->rules.n > RULES_SHOWN)
			buf_addf(&text, "%u more rules; ", c->rules.n - RULES_SHOWN);
		buf_addf(&text, "%s %s", c->rules.n > 0 ? "else" : "all", past(c->fallback));
		strv_add(out, text.data);
	}
}

static void format_list(const struct policy *p, const char *key, const struct snapshot_span *s,
			struct jw *w)
{
	if (s->n == 0)
		return;
	jw_karr(w, key);
	for (uint32_t i = 0; i < s->n; i++)
		jw_str(w, snapshot_pattern(p, s->at + i));
	jw_arr_end(w);
}

static void format_net_parts(const struct policy *p, const struct snapshot_rule *r, struct jw *w)
{
	cleanup_buf struct buf text = {0};

	if (r->cidrs.n > 0) {
		jw_karr(w, "cidrs");
		for (uint32_t i = 0; i < r->cidrs.n; i++) {
			buf_clear(&text);
			cidr_format(&p->cidrs[r->cidrs.at + i], &text);
			jw_str(w, text.data);
		}
		jw_arr_end(w);
	}
	if (r->ports.n > 0) {
		jw_karr(w, "ports");
		for (uint32_t i = 0; i < r->ports.n; i++) {
			const struct port_range *range = &p->ports[r->ports.at + i];

			buf_clear(&text);
			format_port(range, &text);
			if (range->low == range->high)
				jw_uint(w, range->low);
			else
				jw_str(w, text.data);
		}
		jw_arr_end(w);
	}
}

static void format_groups(const struct policy *p, const struct snapshot_rule *r, struct jw *w)
{
	jw_karr(w, "flags");
	for (uint32_t i = 0; i < r->groups.n; i++) {
		const char *at = snapshot_pattern(p, r->groups.at + i);

		jw_arr(w);
		for (size_t len; *at != '\0'; at += len + (at[len] == ' ')) {
			len = strcspn(at, " ");
			jw_strn(w, at, len);
		}
		jw_arr_end(w);
	}
	jw_arr_end(w);
}

static void format_rule(const struct policy *p, unsigned class, const struct snapshot_rule *r,
			struct jw *w)
{
	const struct rule_class *c = &rule_classes[class];

	jw_obj(w);
	jw_kstr(w, "name", snapshot_text(p, r->name));
	format_list(p, c->subject, &r->subject, w);
	format_list(p, "scripts", &r->scripts, w);
	format_list(p, "args_pattern", &r->args, w);
	format_list(p, "args_regex", &r->regex, w);
	format_net_parts(p, r, w);
	if (r->bits != 0) {
		jw_karr(w, c->bits);
		for (unsigned i = 0; c->bit_words[i] != NULL; i++)
			if (r->bits & 1U << i)
				jw_str(w, c->bit_words[i]);
		jw_arr_end(w);
	}
	if (r->groups.n > 0)
		format_groups(p, r, w);
	else if (r->flags)
		jw_kbool(w, class == OP_FILE ? "hide" : "flags", true);
	if (r->args_whole)
		jw_kbool(w, class == OP_FILE ? "existing_only" : "args_whole", true);
	jw_kstr(w, "decision", decision_name(r->decision));
	if (r->final)
		jw_kbool(w, "final", true);
	if (r->message != 0)
		jw_kstr(w, "message", snapshot_text(p, r->message));
	if (r->redirect_to != 0)
		jw_kstr(w, "redirect_to", snapshot_text(p, r->redirect_to));
	jw_kint(w, "line", r->line);
	jw_obj_end(w);
}

static void format_limits(const struct limits *l, struct jw *w)
{
	jw_kobj(w, "resource_limits");
	for (unsigned i = 0; i < LIMITS; i++) {
		if (!limits_has(l, (enum limit)i))
			continue;
		jw_key(w, limit_rows[i].name);
		if (limit_rows[i].type == LIMIT_DURATION)
			jw_duration_ms(w, l->value[i]);
		else
			jw_share(w, l->value[i]);
	}
	jw_obj_end(w);
}

void policy_format(const struct policy *p, const struct file_view *view, struct jw *w)
{
	const struct snapshot_head *h = p->head;

	jw_obj(w);
	jw_kstr(w, "name", policy_name(p));
	jw_kstr(w, "version", policy_version(p));
	jw_kstr(w, "description", policy_description(p));
	jw_kstr(w, "file", snapshot_text(p, h->file));
	jw_kobj(w, "default");
	for (unsigned k = 0; k < POLICY_RULE_CLASSES; k++)
		jw_kstr(w, rule_classes[rule_class_order[k]].word,
			decision_name(h->class[rule_class_order[k]].fallback));
	jw_obj_end(w);
	for (unsigned k = 0; k < POLICY_RULE_CLASSES; k++) {
		const unsigned class = rule_class_order[k];

		jw_karr(w, rule_classes[class].section);
		for (uint32_t i = 0; i < h->class[class].rules.n; i++)
			format_rule(p, class, snapshot_rule(p, class, i), w);
		jw_arr_end(w);
	}
	format_limits(&h->limits, w);
	if (h->has_env_allow || h->env_deny.n > 0) {
		jw_kobj(w, "environment");
		format_list(p, "allow", &h->env_allow, w);
		format_list(p, "deny", &h->env_deny, w);
		jw_obj_end(w);
	}
	if (view != NULL) {
		jw_key(w, "not_held");
		policy_format_lacking(p, view, w);
	}
	jw_obj_end(w);
}
