// SPDX-License-Identifier: Apache-2.0
/* `policy test` calls the function that decides at run time. */
#include "base/mem.h"
#include "cli/cmd_policy.h"

static void format_json(const struct policy *p, const struct verdict *v, const struct op *op,
			struct buf *out)
{
	cleanup_buf struct buf text = {0};
	struct strv other = {0};
	struct jw w = JW(out);

	verdict_format_reason(v, op, &text);
	jw_obj(&w);
	jw_kstr(&w, "decision", decision_name(v->decision));
	jw_kstr(&w, "effective_decision", decision_name(v->effective));
	jw_kstr(&w, "rule", v->rule);
	jw_kstr(&w, "file", v->file);
	jw_kint(&w, "line", v->line);
	jw_kint(&w, "column", v->column);
	jw_kstr(&w, "message", text.data != NULL ? text.data : "");
	jw_kbool(&w, "final", v->final);
	if (v->target != NULL)
		jw_kstr(&w, "redirect_to", v->target);
	buf_clear(&text);
	op_format_kind(op, &text);
	jw_kstr(&w, "operation", text.data);
	buf_clear(&text);
	op_format_target(op, &text);
	jw_kstr(&w, "target", text.data != NULL ? text.data : "");
	if (!verdict_allows(v))
		policy_alternatives(p, op, &other);
	if (other.n > 0)
		jw_kstrv(&w, "alternatives", &other);
	jw_kstr(&w, "policy", policy_name(p));
	jw_kstr(&w, "version", policy_version(p));
	jw_kbool(&w, "cached", v->cached);
	jw_obj_end(&w);
	strv_done(&other);
}

static void format_text(const struct verdict *v, const struct op *op, struct buf *out)
{
	cleanup_buf struct buf text = {0};

	buf_addf(out, "Decision:  %s%s%s\n", decision_name(v->decision), v->final ? " (final)" : "",
		 v->decision == DECISION_approve && !verdict_allows(v) ? " (denied: no approver)"
								       : "");
	buf_addf(out, "Rule:      %s\n", v->rule);
	if (v->file != NULL)
		buf_addf(out, "Place:     %s:%u:%u\n", v->file, v->line, v->column);
	else
		buf_adds(out, "Place:     built in\n");
	op_format_target(op, &text);
	buf_addf(out, "Target:    %s\n", text.data != NULL ? text.data : "");
	if (v->target != NULL)
		buf_addf(out, "Runs:      %s\n", v->target);
	buf_clear(&text);
	verdict_format_reason(v, op, &text);
	if (text.len > 0)
		buf_addf(out, "Reason:    %s\n", text.data);
}

int cmd_policy_test(struct cli *cli, struct err *err)
{
	struct cli_operation o = {0};
	struct cli_policies at = {0};
	struct cli_policy p = {0};
	struct verdict v;
	cleanup_buf struct buf out = {0};
	int r = cli_operation_read(cli->argc, cli->argv, &o, err);

	if (r == 0)
		r = cli_policy_open(cli, &at, err);
	if (r == 0)
		r = cli_policy_load(&at, cli->v.policy != NULL ? cli->v.policy : at.fallback, &p,
				    err);
	if (r == 0) {
		policy_decide(p.p, NULL, &o.op, false, &v);
		cli_policy_unenforced(p.p, 1U << o.op.class);
		if (cli->v.json) {
			format_json(p.p, &v, &o.op, &out);
			cli_print_json(&out);
		} else {
			format_text(&v, &o.op, &out);
			cli_print(&out);
		}
	}
	cli_policy_done(&p);
	cli_policy_close(&at);
	cli_operation_done(&o);
	return r;
}
