// SPDX-License-Identifier: Apache-2.0
/* Describes a policy to people and agents. */
#include "base/mem.h"
#include "policy/snapshot.h"

#define ALTERNATIVES 4
#define PATTERNS_SHOWN 6
#define NAMES_SHOWN 12

static const char *const section[POLICY_RULE_CLASSES] = {
	[OP_FILE] = "file_rules", [OP_EXEC] = "command_rules", [OP_NET] = "network_rules"};
static const char *const word[POLICY_RULE_CLASSES] = {
	[OP_FILE] = "files", [OP_EXEC] = "commands", [OP_NET] = "network"};

static const char *const kinds[] = {"memfd", "deleted", "loader"};

void snapshot_format_patterns(const struct policy *p, const struct snapshot_span *s, uint32_t most,
			      struct buf *out)
{
	for (uint32_t i = 0; i < s->n && i < most; i++)
		buf_addf(out, "%s%s", i > 0 ? ", " : "", snapshot_pattern(p, s->at + i));
	if (s->n > most)
		buf_addf(out, " and %u more", s->n - most);
}

/* Says in a few words what the rule is about. */
static void format_subject(const struct policy *p, unsigned class, const struct snapshot_rule *r,
			   struct buf *out)
{
	const char *between;

	snapshot_format_patterns(p, &r->subject, PATTERNS_SHOWN, out);
	if (r->scripts.n > 0) {
		buf_adds(out, r->subject.n > 0 ? " with scripts " : "scripts ");
		snapshot_format_patterns(p, &r->scripts, PATTERNS_SHOWN, out);
	}
	between = out->len > 0 ? " as " : "programs of kind ";
	for (unsigned i = 0; class == OP_EXEC && i < ARRAY_LEN(kinds); i++)
		if (r->bits & 1U << i) {
			buf_addf(out, "%s%s", between, kinds[i]);
			between = ", ";
		}

	if (r->args.n > 0) {
		buf_adds(out, " with arguments ");
		snapshot_format_patterns(p, &r->args, PATTERNS_SHOWN, out);
	}
	if (r->regex.n > 0) {
		buf_adds(out, r->args.n > 0 ? " or like " : " with arguments like ");
		snapshot_format_patterns(p, &r->regex, PATTERNS_SHOWN, out);
	}
	for (uint32_t i = 0; i < r->groups.n && i < PATTERNS_SHOWN; i++)
		buf_addf(out, "%s%s", i > 0 ? " and " : " with one of ",
			 snapshot_pattern(p, r->groups.at + i));
	between = out->len > 0 ? " at " : "";
	for (uint32_t i = 0; i < r->cidrs.n && i < PATTERNS_SHOWN; i++, between = ", ") {
		buf_adds(out, between);
		cidr_format(&p->cidrs[r->cidrs.at + i], out);
	}
	if (r->cidrs.n > PATTERNS_SHOWN)
		buf_addf(out, " and %u more", r->cidrs.n - PATTERNS_SHOWN);
	between = out->len > 0 ? " on port " : "port ";
	for (uint32_t i = 0; i < r->ports.n; i++, between = ", ") {
		const struct port_range *at = &p->ports[r->ports.at + i];

		buf_addf(out, "%s%u", between, at->low);
		if (at->high != at->low)
			buf_addf(out, "-%u", at->high);
	}
	between = out->len > 0 ? " by " : "";
	for (unsigned i = 0; class == OP_NET && i < OP_PROTOS; i++)
		if (r->bits & 1U << i) {
			buf_addf(out, "%s%s", between, op_proto_name((enum op_proto)i));
			between = ", ";
		}
}

void policy_alternatives(const struct policy *p, const struct op *op, struct strv *out)
{
	const unsigned class = op->class == OP_DNS ? OP_NET : op->class;
	const struct snapshot_class *c = &p->head->class[class];
	unsigned n = 0;

	for (uint32_t i = 0; i < c->rules.n && n < ALTERNATIVES; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, class, i);
		cleanup_buf struct buf text = {0};

		if (!decision_permits((enum decision)r->decision) ||
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
		[OP_FILE] = "nothing decides on single files yet, only a place that is denied as a "
			    "whole is shut; keep files away from sessions by "
			    "filesystem.blocked_paths of the server's configuration",
		[OP_NET] = "nothing decides on connections yet; what a session can reach stands in "
			   "its wall report",
	};
	const unsigned c = class == OP_DNS ? OP_NET : class;
	const struct snapshot_class *rules = &p->head->class[c];
	const uint32_t n = rules->rules.n;
	/* without an interceptor no connection leaves a session: only a file default matters */
	const bool fallback = c == OP_FILE && !decision_permits((enum decision)rules->fallback);
	/* this version does not count these operations */
	const enum limit limit = c == OP_FILE ? LIMIT_max_file_ops : LIMIT_max_net_ops;
	const bool limited = limits_has(&p->limits, limit);

	if (remedy[c] == NULL || (n == 0 && !fallback && !limited))
		return;
	buf_addf(out, "%s rules are not enforced here: ", c == OP_FILE ? "file" : "network");
	for (uint32_t i = 0; i < n && i < NAMES_SHOWN; i++)
		buf_addf(out, "%s%s", i > 0 ? ", " : "",
			 snapshot_text(p, snapshot_rule(p, c, i)->name));
	if (n > NAMES_SHOWN)
		buf_addf(out, " and %u more", n - NAMES_SHOWN);
	if (fallback)
		buf_addf(out, "%sdefault: %s", n > 0 ? ", " : "",
			 decision_name((enum decision)rules->fallback));
	if (limited)
		buf_addf(out, "%sresource_limits.%s", n > 0 || fallback ? ", " : "",
			 limit_rows[limit].name);
	buf_addf(out, "; %s", remedy[c]);
}

static const char *past(enum decision d)
{
	static const char *const words[DECISIONS] = {
		[DECISION_allow] = "allowed",	  [DECISION_deny] = "denied",
		[DECISION_approve] = "asked for", [DECISION_log] = "allowed and marked",
		[DECISION_redirect] = "replaced",
	};

	return words[d];
}

void policy_summary(const struct policy *p, struct strv *out)
{
	static const unsigned order[] = {OP_FILE, OP_NET, OP_EXEC};

	if (p->head->description != 0)
		strv_add(out, policy_description(p));
	for (unsigned k = 0; k < ARRAY_LEN(order); k++) {
		const unsigned class = order[k];
		const struct snapshot_class *c = &p->head->class[class];
		cleanup_buf struct buf text = {0};

		buf_addf(&text, "%s: ", word[class]);
		for (uint32_t i = 0; i < c->rules.n; i++) {
			const struct snapshot_rule *r = snapshot_rule(p, class, i);

			buf_addf(&text, "%s %s; ", snapshot_text(p, r->name),
				 r->final ? "denied (final)" : past((enum decision)r->decision));
			if (i + 1 == 40 && i + 1 < c->rules.n) {
				buf_addf(&text, "%u more rules; ", c->rules.n - 40);
				break;
			}
		}
		buf_addf(&text, "%s %s", c->rules.n > 0 ? "else" : "all",
			 past((enum decision)c->fallback));
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
	if (r->cidrs.n > 0) {
		jw_karr(w, "cidrs");
		for (uint32_t i = 0; i < r->cidrs.n; i++) {
			cleanup_buf struct buf text = {0};

			cidr_format(&p->cidrs[r->cidrs.at + i], &text);
			jw_str(w, text.data);
		}
		jw_arr_end(w);
	}
	if (r->ports.n > 0) {
		jw_karr(w, "ports");
		for (uint32_t i = 0; i < r->ports.n; i++) {
			const struct port_range *at = &p->ports[r->ports.at + i];
			cleanup_buf struct buf text = {0};

			if (at->low == at->high) {
				jw_uint(w, at->low);
				continue;
			}
			buf_addf(&text, "%u-%u", at->low, at->high);
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
	static const char *const subject[POLICY_RULE_CLASSES] = {
		[OP_FILE] = "paths", [OP_EXEC] = "commands", [OP_NET] = "domains"};
	static const struct {
		const char *key;
		unsigned n;
	} bits[POLICY_RULE_CLASSES] = {[OP_FILE] = {"operations", OP_FILES},
				       [OP_EXEC] = {"kinds", ARRAY_LEN(kinds)},
				       [OP_NET] = {"protocols", OP_PROTOS}};

	jw_obj(w);
	jw_kstr(w, "name", snapshot_text(p, r->name));
	format_list(p, subject[class], &r->subject, w);
	format_list(p, "scripts", &r->scripts, w);
	format_list(p, "args_pattern", &r->args, w);
	format_list(p, "args_regex", &r->regex, w);
	format_net_parts(p, r, w);
	if (r->bits != 0) {
		jw_karr(w, bits[class].key);
		for (unsigned i = 0; i < bits[class].n; i++)
			if (r->bits & 1U << i)
				jw_str(w, class == OP_FILE   ? op_file_name((enum op_file)i)
					  : class == OP_EXEC ? kinds[i]
							     : op_proto_name((enum op_proto)i));
		jw_arr_end(w);
	}
	if (r->groups.n > 0)
		format_groups(p, r, w);
	else if (r->flags)
		jw_kbool(w, "flags", true);
	if (r->args_whole)
		jw_kbool(w, "args_whole", true);
	jw_kstr(w, "decision", decision_name((enum decision)r->decision));
	if (r->final)
		jw_kbool(w, "final", true);
	if (r->message != 0)
		jw_kstr(w, "message", snapshot_text(p, r->message));
	if (r->redirect_to != 0)
		jw_kstr(w, "redirect_to", snapshot_text(p, r->redirect_to));
	jw_kint(w, "line", r->line);
	jw_obj_end(w);
}

static void format_limits(const struct policy *p, struct jw *w)
{
	jw_kobj(w, "resource_limits");
	for (unsigned i = 0; i < LIMITS; i++) {
		if (!limits_has(&p->limits, (enum limit)i))
			continue;
		jw_key(w, limit_rows[i].name);
		if (limit_rows[i].type == LIMIT_DURATION)
			jw_duration_ms(w, p->limits.value[i]);
		else
			jw_share(w, p->limits.value[i]);
	}
	jw_obj_end(w);
}

void policy_format(const struct policy *p, struct jw *w)
{
	static const unsigned order[] = {OP_FILE, OP_NET, OP_EXEC};

	jw_obj(w);
	jw_kstr(w, "name", policy_name(p));
	jw_kstr(w, "version", policy_version(p));
	jw_kstr(w, "description", policy_description(p));
	jw_kstr(w, "file", snapshot_text(p, p->head->file));
	jw_kobj(w, "default");
	for (unsigned k = 0; k < ARRAY_LEN(order); k++)
		jw_kstr(w, word[order[k]],
			decision_name((enum decision)p->head->class[order[k]].fallback));
	jw_obj_end(w);
	for (unsigned k = 0; k < ARRAY_LEN(order); k++) {
		jw_karr(w, section[order[k]]);
		for (uint32_t i = 0; i < p->head->class[order[k]].rules.n; i++)
			format_rule(p, order[k], snapshot_rule(p, order[k], i), w);
		jw_arr_end(w);
	}
	format_limits(p, w);
	if (p->head->has_env_allow || p->head->env_deny.n > 0) {
		jw_kobj(w, "environment");
		format_list(p, "allow", &p->head->env_allow, w);
		format_list(p, "deny", &p->head->env_deny, w);
		jw_obj_end(w);
	}
	jw_obj_end(w);
}
