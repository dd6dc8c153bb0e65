// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "cli/cli.h"
#include "config/config.h"
#include "policy/policy.h"
#include <stdio.h>
#include <sys/stat.h>

/* The file a server started now would read; NULL if there is none. */
static char *usual_place(enum config_mode mode)
{
	const char *env = getenv("AGENTSH_CONFIG"), *home = getenv("HOME");
	cleanup_free char *path = NULL;
	struct stat st;

	if (env != NULL)
		return mem_strdup(env);
	if (mode == CONFIG_SYSTEM)
		path = mem_strdup("/etc/agentsh/config.yaml");
	else if (home != NULL)
		path = mem_printf("%s/.config/agentsh/config.yaml", home);
	return path != NULL && stat(path, &st) == 0 ? take(path) : NULL;
}

/* Defaults, file, environment, flags: in this order, as the server does. */
int cli_config(struct cli *cli, const char *file, struct config *c, struct buf *report,
	       struct err *err)
{
	enum config_mode mode = geteuid() == 0 ? CONFIG_SYSTEM : CONFIG_USER;
	cleanup_free char *usual = file != NULL ? NULL : usual_place(mode);
	const char *path = file != NULL ? file : usual;
	int r = config_defaults(mode, c, err);

	if (r == 0)
		r = config_load(path, c, report, err);
	for (size_t i = 0; r == 0 && i < cli->v.set.n; i++)
		r = config_override(cli->v.set.v[i], c, err);
	if (r == 0)
		r = config_check(c, err);
	return r;
}

int cmd_config_show(struct cli *cli, struct err *err)
{
	struct config c = {0};
	cleanup_buf struct buf out = {0};
	int r = cli_config(cli, cli->v.config, &c, NULL, err);

	if (r == 0) {
		config_show(&c, cli->v.json, &out);
		cli_print(&out);
	}
	config_done(&c);
	return r;
}

/* What a server checks that starts with it. */
static int check_policies(const struct config *c, struct err *err)
{
	cleanup_free char *unknown = policy_unknown(c->policy_dir, &c->policy_selectable);
	cleanup_free char *problem = NULL;

	if (unknown == NULL)
		return 0;
	problem = mem_printf("policies.selectable: %s", unknown);
	return config_wrong(c, problem, err);
}

int cmd_config_validate(struct cli *cli, struct err *err)
{
	struct config c = {0};
	cleanup_buf struct buf report = {0};
	int r;

	if (cli->argc + (cli->v.config != NULL) > 1)
		return err_set(err, E_BAD_REQUEST, NULL, "one file at a time");
	r = cli_config(cli, cli->argc > 0 ? cli->argv[0] : cli->v.config, &c, &report, err);
	if (report.len > 0) { /* the error is its first line */
		fwrite(report.data, 1, report.len, stderr);
		err_set(err, E_BAD_REQUEST, NULL, "the configuration is not valid");
	}
	if (r == 0)
		r = check_policies(&c, err);
	if (r == 0)
		fputs(cli->v.json ? "{\"valid\":true}\n" : "The configuration is valid.\n", stdout);
	config_done(&c);
	return r;
}

int cmd_config_keys(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf out = {0};
	cleanup_buf struct buf pretty = {0};
	struct jw w = JW(&out);

	if (!cli->v.json) {
		config_reference(&out);
		cli_print(&out);
		return 0;
	}
	config_keys(&w);
	cli_pretty(out.data, out.len, &pretty);
	cli_print(&pretty);
	return 0;
}
