// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "cli/cli.h"
#include "config/config.h"
#include "policy/policy.h"
#include <stdio.h>
#include <sys/stat.h>

/* Reads defaults, file, environment and flags in the order of the server. Without a file, it takes
 * the file that a server would read if it started now. */
int cli_config(struct cli *cli, const char *file, struct config *c, struct buf *report,
	       struct err *err)
{
	const enum config_mode mode = geteuid() == 0 ? CONFIG_SYSTEM : CONFIG_USER;
	const char *home = getenv("HOME");
	cleanup_free char *usual = NULL;
	struct stat st;
	int r = config_defaults(mode, c, err);

	if (file == NULL)
		file = getenv("AGENTSH_CONFIG");
	if (file == NULL && mode == CONFIG_SYSTEM)
		usual = mem_strdup("/etc/agentsh/config.yaml");
	else if (file == NULL && home != NULL)
		usual = mem_printf("%s/.config/agentsh/config.yaml", home);
	if (usual != NULL && stat(usual, &st) == 0)
		file = usual;
	if (r == 0)
		r = config_load(file, c, report, err);
	for (size_t i = 0; r == 0 && i < cli->v.set.n; i++)
		r = config_override(cli->v.set.v[i], c, err);
	if (r == 0)
		r = config_check(c, err);
	return r;
}

int cmd_config_show(struct cli *cli, struct err *err)
{
	cleanup_config struct config c = {0};
	cleanup_buf struct buf out = {0};
	const int r = cli_config(cli, cli->v.config, &c, NULL, err);

	if (r < 0)
		return r;
	config_show(&c, cli->v.json, &out);
	cli_print(&out);
	return 0;
}

int cmd_config_validate(struct cli *cli, struct err *err)
{
	cleanup_config struct config c = {0};
	cleanup_buf struct buf report = {0};
	int r;

	if (cli->argc + (cli->v.config != NULL) > 1)
		return err_set(err, E_BAD_REQUEST, NULL, "one file at a time");
	r = cli_config(cli, cli->argc > 0 ? cli->argv[0] : cli->v.config, &c, &report, err);
	if (report.len > 0) { /* the error is its first line */
		fwrite(report.data, 1, report.len, stderr);
		err_set(err, E_BAD_REQUEST, NULL, "the configuration is not valid");
	}
	if (r == 0) {
		cleanup_free char *unknown = policy_unknown(c.policy_dir, &c.policy_selectable);
		cleanup_free char *problem =
			unknown != NULL ? mem_printf("policies.selectable: %s", unknown) : NULL;

		r = problem != NULL ? config_wrong(&c, problem, err) : 0;
	}

	if (r == 0)
		fputs(cli->v.json ? "{\"valid\":true}\n" : "The configuration is valid.\n", stdout);
	return r;
}

int cmd_config_keys(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf out = {0};

	if (cli->v.json)
		config_keys(&JW(&out));
	else
		config_reference(&out);
	cli_show(cli, &out);
	return 0;
}
