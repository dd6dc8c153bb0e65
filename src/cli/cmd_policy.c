// SPDX-License-Identifier: Apache-2.0
/* `policy list`, `show` and `validate` read the files themselves and need no server. */
#include "cli/cmd_policy.h"
#include "base/mem.h"
#include "config/config.h"
#include <stdio.h>

int cli_policy_open(struct cli *cli, struct cli_policies *p, struct err *err)
{
	struct config c = {0};
	int r;

	*p = (struct cli_policies){0};
	r = cli_config(cli, cli->v.config, &c, NULL, err);
	if (r == 0) {
		policy_dirs_init(&p->dirs, c.policy_dir);
		p->dir = mem_strdup(c.policy_dir);
		p->fallback = mem_strdup(c.policy_default);
		p->shadow = strcmp(c.approvals_mode, "shadow") == 0;
	}
	config_done(&c);
	return r;
}

void cli_policy_close(struct cli_policies *p)
{
	policy_dirs_done(&p->dirs);
	free(p->dir);
	free(p->fallback);
}

int cli_policy_load(const struct cli_policies *at, const char *name, struct cli_policy *out,
		    struct err *err)
{
	const struct policy_options o = {.strict = at->strict, .shadow = at->shadow};
	const char *dot = strrchr(name, '.');
	const bool file = strchr(name, '/') != NULL ||
			  (dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
	int r;

	*out = (struct cli_policy){0};
	r = file ? policy_load_file(&at->dirs, name, &o, &out->report, &out->bytes, err)
		 : policy_load(&at->dirs, name, &o, &out->report, &out->bytes, err);
	if (r == 0)
		r = policy_open(out->bytes.data, out->bytes.len, &out->p, err);
	return r;
}

void cli_policy_done(struct cli_policy *p)
{
	policy_close(p->p);
	buf_done(&p->bytes);
	buf_done(&p->report);
}

void cli_policy_unenforced(const struct policy *p, unsigned classes)
{
	for (unsigned c = 0; c < OP_CLASSES; c++) {
		cleanup_buf struct buf text = {0};

		if (classes & 1U << c)
			policy_unenforced(p, (enum op_class)c, &text);
		if (text.len > 0)
			fprintf(stderr, "agentsh: policy '%s': %s\n", policy_name(p), text.data);
	}
}

/* Lists name, file and description; a policy that cannot be read has its error as description. */
int cmd_policy_list(struct cli *cli, struct err *err)
{
	struct cli_policies at;
	struct strv names = {0}, cells = {0};
	cleanup_buf struct buf json = {0}, out = {0};
	struct jw w = JW(&json);
	int r = cli_policy_open(cli, &at, err);

	if (r == 0)
		policy_list(&at.dirs, false, &names);
	strv_add(&cells, "NAME");
	strv_add(&cells, "FILE");
	strv_add(&cells, "DESCRIPTION");
	jw_obj(&w);
	jw_karr(&w, "policies");
	for (size_t i = 0; i < names.n; i++) {
		cleanup_free char *file = policy_find_file(&at.dirs, false, names.v[i]);
		struct cli_policy p;
		struct err own = {0};
		const bool valid = cli_policy_load(&at, names.v[i], &p, &own) == 0;
		const char *description = valid ? policy_description(p.p) : own.message;

		strv_add(&cells, names.v[i]);
		strv_add(&cells, file != NULL ? file : "");
		strv_add(&cells, description);
		jw_obj(&w);
		jw_kstr(&w, "name", names.v[i]);
		jw_kstr(&w, "file", file);
		jw_kbool(&w, "valid", valid);
		jw_kstr(&w, "version", valid ? policy_version(p.p) : NULL);
		jw_kstr(&w, "description", description);
		jw_obj_end(&w);
		cli_policy_done(&p);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	cli_columns((const char *const *)cells.v, 3, cells.n / 3, &out);
	if (r == 0 && cli->v.json)
		cli_print_json(&json);
	else if (r == 0)
		cli_print(&out);
	strv_done(&cells);
	strv_done(&names);
	cli_policy_close(&at);
	return r;
}

int cmd_policy_show(struct cli *cli, struct err *err)
{
	struct cli_policies at;
	struct cli_policy p = {0};
	cleanup_buf struct buf out = {0};
	struct strv lines = {0};
	int r;

	if (cli->v.effective)
		return cmd_policy_effective(cli, err);
	if (cli->argc != 1)
		return err_set(err, E_BAD_REQUEST, NULL, "policy show: one name is needed");
	r = cli_policy_open(cli, &at, err);
	if (r == 0)
		r = cli_policy_load(&at, cli->argv[0], &p, err);
	if (r == 0 && cli->v.json) {
		policy_format(p.p, &JW(&out));
		cli_print_json(&out);
	} else if (r == 0) {
		buf_addf(&out, "Name:     %s\nVersion:  %s\n", policy_name(p.p),
			 policy_version(p.p));
		policy_summary(p.p, &lines);
		for (size_t i = 0; i < lines.n; i++)
			buf_addf(&out, "%s\n", lines.v[i]);
		strv_done(&lines);

		cli_print(&out);
	}
	cli_policy_done(&p);
	cli_policy_close(&at);
	return r;
}

/* Validates one policy and prints its problems to stderr or, for JSON, into w. */
static int validate_one(struct cli *cli, const struct cli_policies *at, const char *name,
			struct jw *w, struct err *err)
{
	struct cli_policy p;
	struct err own = {0};
	const int r = cli_policy_load(at, name, &p, &own);

	if (!cli->v.json && p.report.len > 0)
		fwrite(p.report.data, 1, p.report.len, stderr);
	if (r == 0)
		cli_policy_unenforced(p.p, 1U << OP_FILE | 1U << OP_NET);
	if (cli->v.json) {
		jw_obj(w);
		jw_kstr(w, "name", name);
		jw_kbool(w, "valid", r == 0);
		jw_kstr(w, "version", r == 0 ? policy_version(p.p) : NULL);
		jw_karr(w, "problems");
		for (char *line = p.report.data, *next; line != NULL && *line != '\0';
		     line = next) {
			next = strchrnul(line, '\n');
			jw_strn(w, line, (size_t)(next - line));
			next += *next == '\n';
		}
		if (r < 0 && p.report.len == 0)
			jw_str(w, own.message);
		jw_arr_end(w);
		jw_obj_end(w);
	} else if (r == 0) {
		printf("The policy '%s' is valid.\n", name);
	}
	/* do not repeat the report */
	if (r < 0 && p.report.len == 0 && err->code == E_OK)
		*err = own;
	cli_policy_done(&p);
	return r;
}

int cmd_policy_validate(struct cli *cli, struct err *err)
{
	struct cli_policies at;
	struct strv names = {0};
	cleanup_buf struct buf out = {0};
	struct jw w = JW(&out);
	int r = cli_policy_open(cli, &at, err), first = 0;

	at.strict = cli->v.strict;
	for (int i = 0; i < cli->argc; i++)
		strv_add(&names, cli->argv[i]);
	if (r == 0 && names.n == 0)
		policy_list(&at.dirs, false, &names);
	jw_obj(&w);
	jw_karr(&w, "policies");
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		const int one = validate_one(cli, &at, names.v[i], &w, err);

		first = first != 0 ? first : one;
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	if (r == 0 && cli->v.json)
		cli_print_json(&out);
	strv_done(&names);
	cli_policy_close(&at);
	if (first != 0 && (cli->v.json || err->code == E_OK))
		return CLI_FAILED; /* the report names the problems */
	return r != 0 ? r : first;
}
