// SPDX-License-Identifier: Apache-2.0
/* The homes that the server keeps for later sessions. */
#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"

#define CACHES "/api/v1/caches"

int cmd_cache_list(struct cli *cli, struct err *err)
{
	static const struct cli_column columns[] = {
		{"ID", "id", CLI_WORDS},	   {"LAST USED", "last_used", CLI_TIME},
		{"BYTES", "bytes", CLI_THOUSANDS}, {"AGENT", "agent_id", CLI_WORDS},
		{"POLICY", "policy", CLI_WORDS},   {"WORKSPACE", "workspace", CLI_WORDS},
	};
	cleanup_buf struct buf answer = {0};
	const int r = cli_call(cli, "GET", CACHES, NULL, &answer, err);

	if (r == 0)
		cli_show_table(cli, &answer, "caches", columns, ARRAY_LEN(columns));
	return r;
}

static int purge(struct cli *cli, const char *id, struct err *err)
{
	cleanup_free char *path = mem_printf(CACHES "/%s", id);
	cleanup_buf struct buf line = {0};
	json_auto_t *doc = NULL;
	int r;

	if (!id_valid(id)) /* it goes into a path */
		return err_set(err, E_NOT_FOUND, id, "no cache '%.64s'", id);
	r = cli_call_json(cli, "DELETE", path, NULL, cli->v.json, &doc, err);
	if (r == 0 && !cli->v.json)
		cli_line(&line, "Cache purged: %s", id);
	cli_print(&line);
	return r;
}

static int purge_unused(struct cli *cli, struct err *err)
{
	json_auto_t *doc = NULL;
	int r = cli_call_json(cli, "GET", CACHES, NULL, false, &doc, err);
	const json_t *cache;
	size_t i;

	/* one that cannot be removed does not keep the others */
	json_array_foreach(json_object_get(doc, "caches"), i, cache)
	{
		const int one = json_is_true(json_object_get(cache, "in_use"))
					? 0
					: purge(cli, cli_string(cache, "id"), err);

		r = one < 0 ? one : r;
	}
	return r;
}

int cmd_cache_purge(struct cli *cli, struct err *err)
{
	int r = 0;

	if (cli->v.all != (cli->argc == 0))
		return err_set(err, E_BAD_REQUEST, NULL,
			       "name the caches (agentsh cache list), or say --all");
	if (cli->v.all)
		return purge_unused(cli, err);
	for (int i = 0; r == 0 && i < cli->argc; i++)
		r = purge(cli, cli->argv[i], err);
	return r;
}
