// SPDX-License-Identifier: Apache-2.0
/* `policy list`, `show`, `validate` and `test` read the files themselves and need no server.
 * `policy show --effective` and `policy reload` ask a running server. */
#include "cli/cmd_policy.h"
#include "base/mem.h"
#include <stdio.h>

int cli_policy_open(struct cli *cli, struct cli_policies *p, struct err *err)
{
	const int r = cli_config(cli, cli->v.config, &p->config, NULL, err);

	if (r == 0)
		policy_dirs_init(&p->dirs, p->config.policy_dir);
	return r;
}

void cli_policy_close(struct cli_policies *p)
{
	strv_done(&p->dirs);
	config_done(&p->config);
}

int cli_policy_load(const struct cli_policies *at, const char *name, struct cli_policy *out,
		    struct err *err)
{
	const struct policy_options o = {
		.strict = at->strict, .shadow = strcmp(at->config.approvals_mode, "shadow") == 0};
	const char *dot = strrchr(name, '.');
	const bool file = strchr(name, '/') != NULL ||
			  (dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
	const int r = file ? policy_load_file(&at->dirs, name, &o, &out->report, &out->bytes, err)
			   : policy_load(&at->dirs, name, &o, &out->report, &out->bytes, err);

	return r < 0 ? r : policy_open(out->bytes.data, out->bytes.len, &out->p, err);
}

void cli_policy_done(struct cli_policy *p)
{
	policy_close(p->p);
	buf_done(&p->bytes);
	buf_done(&p->report);
}

/* Writes to stderr which rules of these classes (bits of enum op_class) are not enforced. */
static void note_unenforced(const struct policy *p, const struct cli_view *view, unsigned classes)
{
	for (unsigned c = 0; c < OP_CLASSES; c++) {
		cleanup_buf struct buf text = {0};

		if ((classes & 1U << c) == 0)
			continue;
		if (c == OP_FILE && file_view_served(&view->files))
			cli_view_lacking(view, p, &text);
		else
			policy_unenforced(p, (enum op_class)c, &text);
		if (text.len > 0)
			fprintf(stderr, "agentsh: policy '%s': %s\n", policy_name(p), text.data);
	}
}

/* Lists name, file and description; a policy that cannot be read has its error as description. */
int cmd_policy_list(struct cli *cli, struct err *err)
{
	static const struct cli_column columns[] = {
		{"NAME", "name", CLI_WORDS},
		{"FILE", "file", CLI_WORDS},
		{"DESCRIPTION", "description", CLI_WORDS},
	};
	cleanup_policies struct cli_policies at = {0};
	cleanup_strv struct strv names = {0};
	cleanup_buf struct buf json = {0};
	struct jw w = JW(&json);
	const int r = cli_policy_open(cli, &at, err);

	if (r < 0)
		return r;
	policy_list(&at.dirs, false, &names);
	jw_obj(&w);
	jw_karr(&w, "policies");
	for (size_t i = 0; i < names.n; i++) {
		cleanup_free char *file = policy_find_file(&at.dirs, false, names.v[i]);
		cleanup_policy struct cli_policy p = {0};
		struct err own = {0};
		const bool valid = cli_policy_load(&at, names.v[i], &p, &own) == 0 &&
				   cli_view_enforceable(&at, p.p, &own) == 0;

		jw_obj(&w);
		jw_kstr(&w, "name", names.v[i]);
		jw_kstr(&w, "file", file);
		jw_kbool(&w, "valid", valid);
		jw_kstr(&w, "version", valid ? policy_version(p.p) : NULL);
		jw_kstr(&w, "description", valid ? policy_description(p.p) : own.message);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	cli_show_table(cli, &json, "policies", columns, ARRAY_LEN(columns));
	return 0;
}

/* Finds the session that runs, if it is the only one. */
static int only_session(struct cli *cli, char **id, struct err *err)
{
	const json_t *one;
	json_auto_t *doc = NULL;
	unsigned living = 0;
	size_t i;
	int r = cli_call_json(cli, "GET", "/api/v1/sessions?limit=1000", NULL, false, &doc, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(doc, "sessions"), i, one)
	{
		if (cli_session_ended(one))
			continue;
		free(*id);
		*id = mem_strdup(cli_string(one, "id"));
		living++;
	}
	if (living == 1)
		return 0;
	return err_set(err, E_BAD_REQUEST, NULL,
		       "policy show --effective: %u sessions live, name one", living);
}

static int show_effective(struct cli *cli, struct err *err)
{
	cleanup_free char *id = cli->argc == 1 ? mem_strdup(cli->argv[0]) : NULL;
	cleanup_free char *path = NULL;
	cleanup_buf struct buf out = {0};
	const json_t *policy, *one;
	json_auto_t *doc = NULL;
	size_t i;
	int r = id == NULL ? only_session(cli, &id, err) : 0;

	if (r == 0)
		r = cli_session_path(id, cli->v.json ? "/policy" : "", &path, err);
	if (r == 0)
		r = cli_call_json(cli, "GET", path, NULL, cli->v.json, &doc, err);
	if (r == 0 && !cli->v.json) {
		policy = json_object_get(doc, "policy");
		buf_addf(&out, "Session:  %s\nName:     %s\nVersion:  %s\n", cli_string(doc, "id"),
			 cli_string(policy, "name"), cli_string(policy, "version"));
		json_array_foreach(json_object_get(policy, "summary"), i, one)
			buf_addf(&out, "%s\n", json_string_value(one));
		json_array_foreach(json_object_get(doc, "capped"), i, one)
			buf_addf(&out, "lowered: %s\n", json_string_value(one));
		cli_print(&out);
	}
	return r;
}

int cmd_policy_show(struct cli *cli, struct err *err)
{
	cleanup_policies struct cli_policies at = {0};
	cleanup_policy struct cli_policy p = {0};
	cleanup_buf struct buf out = {0}, lacking = {0};
	cleanup_strv struct strv lines = {0};
	cleanup_view struct cli_view view = {0};
	int r;

	if (cli->v.effective)
		return show_effective(cli, err);
	if (cli->argc == 0)
		return err_set(err, E_BAD_REQUEST, NULL, "policy show: one name is needed");
	r = cli_policy_open(cli, &at, err);
	if (r == 0)
		r = cli_policy_load(&at, cli->argv[0], &p, err);
	if (r < 0)
		return r;
	cli_view_open(&at, p.p, &view);
	if (cli->v.json) {
		policy_format(p.p, &view.files, &JW(&out));
	} else {
		buf_addf(&out, "Name:     %s\nVersion:  %s\n", policy_name(p.p),
			 policy_version(p.p));
		policy_summary(p.p, &lines);
		for (size_t i = 0; i < lines.n; i++)
			buf_addf(&out, "%s\n", lines.v[i]);
		cli_view_lacking(&view, p.p, &lacking);
		if (lacking.len > 0)
			buf_addf(&out, "files %s\n", lacking.data);
	}
	cli_show(cli, &out);
	return 0;
}

/* Validates one policy and prints its problems to stderr or, for JSON, into w. */
static int validate_one(struct cli *cli, const struct cli_policies *at, const char *name,
			struct jw *w, struct err *err)
{
	cleanup_policy struct cli_policy p = {0};
	cleanup_view struct cli_view view = {0};
	struct err own = {0};
	bool valid;
	int r = cli_policy_load(at, name, &p, &own);

	valid = r == 0;
	if (r == 0)
		r = cli_view_enforceable(at, p.p, &own);
	if (!cli->v.json && p.report.len > 0)
		fwrite(p.report.data, 1, p.report.len, stderr);
	if (valid)
		cli_view_open(at, p.p, &view);
	if (r == 0)
		note_unenforced(p.p, &view, 1U << OP_FILE | 1U << OP_NET);
	if (cli->v.json) {
		jw_obj(w);
		jw_kstr(w, "name", name);
		jw_kbool(w, "valid", r == 0);
		jw_kstr(w, "version", valid ? policy_version(p.p) : NULL);
		if (valid) {
			jw_key(w, "not_held");
			policy_format_lacking(p.p, &view.files, w);
		}
		jw_karr(w, "problems");
		for (char *line = p.report.data, *next; line != NULL && *line != '\0';
		     line = next) {
			next = strchrnul(line, '\n');
			jw_strn(w, line, (size_t)(next - line));
			next += *next == '\n';
		}
		if (r < 0 && (valid || p.report.len == 0))
			jw_str(w, own.message);
		jw_arr_end(w);
		jw_obj_end(w);
	} else if (r == 0) {
		printf("The policy '%s' is valid.\n", name);
	}
	/* do not repeat the report */
	if (r < 0 && (valid || p.report.len == 0) && err->code == E_OK)
		*err = own;
	return r;
}

int cmd_policy_validate(struct cli *cli, struct err *err)
{
	cleanup_policies struct cli_policies at = {0};
	cleanup_strv struct strv names = {0};
	cleanup_buf struct buf out = {0};
	struct jw w = JW(&out);
	int r = cli_policy_open(cli, &at, err);

	if (r < 0)
		return r;
	at.strict = cli->v.strict;
	for (int i = 0; i < cli->argc; i++)
		strv_add(&names, cli->argv[i]);
	if (names.n == 0)
		policy_list(&at.dirs, false, &names);
	jw_obj(&w);
	jw_karr(&w, "policies");
	for (size_t i = 0; i < names.n; i++) {
		const int one = validate_one(cli, &at, names.v[i], &w, err);

		r = r != 0 ? r : one;
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	if (cli->v.json)
		cli_print_json(&out);
	if (r != 0 && (cli->v.json || err->code == E_OK))
		return CLI_FAILED; /* the report names the problems */
	return r;
}

/* `policy test` calls the function that decides at run time. */

/* What is used instead: a program, or another file. NULL: nothing else is. */
static const char *redirected_to(const struct policy *p, const struct verdict *v,
				 const struct op *op, struct file_redirect *room)
{
	return op->class == OP_FILE && policy_redirect(p, op->file.path, room) ? room->path
									       : v->target;
}

static void format_json(const struct policy *p, const struct verdict *v, const struct op *op,
			const char *holder, struct buf *out)
{
	cleanup_buf struct buf text = {0};
	cleanup_strv struct strv other = {0};
	struct jw w = JW(out);
	struct file_redirect room;
	const char *to = redirected_to(p, v, op, &room);

	buf_reserve(&text, 0);
	verdict_format_reason(v, op, &text);
	jw_obj(&w);
	jw_kstr(&w, "decision", decision_name(v->decision));
	jw_kstr(&w, "effective_decision", decision_name(v->effective));
	jw_kstr(&w, "rule", v->rule);
	jw_kstr(&w, "file", v->file);
	jw_kint(&w, "line", v->line);
	jw_kint(&w, "column", v->column);
	jw_kstr(&w, "message", text.data);
	jw_kbool(&w, "final", v->final);
	if (to != NULL)
		jw_kstr(&w, "redirect_to", to);
	buf_clear(&text);
	op_format_kind(op, &text);
	jw_kstr(&w, "operation", text.data);
	buf_clear(&text);
	op_format_target(op, &text);
	jw_kstr(&w, "target", text.data);
	if (holder != NULL)
		jw_kstr(&w, "enforced_by", holder);
	if (!verdict_allows(v))
		policy_alternatives(p, op, &other);
	if (other.n > 0)
		jw_kstrv(&w, "alternatives", &other);
	jw_kstr(&w, "policy", policy_name(p));
	jw_kstr(&w, "version", policy_version(p));
	jw_kbool(&w, "cached", v->cached);
	jw_obj_end(&w);
}

static void format_text(const struct policy *p, const struct verdict *v, const struct op *op,
			struct buf *out)
{
	cleanup_buf struct buf text = {0};
	struct file_redirect room;
	const char *to = redirected_to(p, v, op, &room);

	buf_reserve(&text, 0);
	buf_addf(out, "Decision:  %s%s%s\n", decision_name(v->decision), v->final ? " (final)" : "",
		 v->decision == DECISION_approve && !verdict_allows(v) ? " (denied: no approver)"
								       : "");
	buf_addf(out, "Rule:      %s\n", v->rule);
	if (v->file != NULL)
		buf_addf(out, "Place:     %s:%u:%u\n", v->file, v->line, v->column);
	else
		buf_adds(out, "Place:     built in\n");
	op_format_target(op, &text);
	buf_addf(out, "Target:    %s\n", text.data);
	if (to != NULL)
		buf_addf(out, "%s%s\n", op->class == OP_FILE ? "Leads to:  " : "Runs:      ", to);
	buf_clear(&text);
	verdict_format_reason(v, op, &text);
	if (text.len > 0)
		buf_addf(out, "Reason:    %s\n", text.data);
}

int cmd_policy_test(struct cli *cli, struct err *err)
{
	cleanup_operation struct cli_operation o = {0};
	cleanup_policies struct cli_policies at = {0};
	cleanup_policy struct cli_policy p = {0};
	cleanup_view struct cli_view view = {0};
	cleanup_buf struct buf out = {0};
	enum file_holder holder = HOLDER_NOTHING;
	struct verdict v;
	int r = cli_operation_read(cli->argc, cli->argv, &o, err);

	if (r == 0 && cli->v.made && o.op.class != OP_FILE)
		r = err_set(err, E_BAD_REQUEST, "--made", "--made is for operations on files");
	if (r == 0 && cli->v.made)
		o.op.file.made = true;
	if (r == 0)
		r = cli_policy_open(cli, &at, err);
	if (r == 0)
		r = cli_policy_load(
			&at, cli->v.policy != NULL ? cli->v.policy : at.config.policy_default, &p,
			err);
	if (r < 0)
		return r;
	cli_view_open(&at, p.p, &view);
	if (o.op.class == OP_FILE)
		holder = file_view_holder(&view.files, o.op.file.op, o.op.file.path);
	cli_view_name(&view, &o.op);
	policy_decide(p.p, &o.op, false, &v);
	note_unenforced(p.p, &view, 1U << o.op.class);
	if (cli->v.json)
		format_json(p.p, &v, &o.op, o.op.class == OP_FILE ? file_holder_name(holder) : NULL,
			    &out);
	else
		format_text(p.p, &v, &o.op, &out);
	if (!cli->v.json && o.op.class == OP_FILE && !verdict_allows(&v))
		buf_addf(&out, "Enforced:  %s\n", file_holder_text(holder));
	else if (!cli->v.json && holder != HOLDER_NOTHING && holder != HOLDER_SERVER)
		buf_addf(&out, "Refused:   %s\n", file_holder_text(holder));
	cli_show(cli, &out);
	return 0;
}

/* Prints the policies that changed to stdout and those that are broken to stderr. */
int cmd_policy_reload(struct cli *cli, struct err *err)
{
	const json_t *loaded, *failed, *one;
	json_auto_t *doc = NULL;
	size_t i, broken;
	int r = cli_call_json(cli, "POST", "/api/v1/policies/reload", NULL, cli->v.json, &doc, err);

	if (r < 0)
		return r;
	loaded = json_object_get(doc, "loaded");
	failed = json_object_get(doc, "failed");
	broken = json_array_size(failed);
	if (cli->v.json)
		return broken > 0 ? CLI_FAILED : 0;
	json_array_foreach(loaded, i, one) printf("loaded: %s\n", json_string_value(one));
	if (json_array_size(loaded) == 0 && broken == 0)
		printf("nothing has changed\n");
	json_array_foreach(failed, i, one)
		fprintf(stderr, "agentsh: the old '%s' stays: %s\n", cli_string(one, "name"),
			cli_string(one, "problem"));
	if (broken == 0)
		return 0;
	return err_set(err, E_BAD_REQUEST, NULL, "%zu of the policies in use %s broken", broken,
		       broken == 1 ? "is" : "are");
}
