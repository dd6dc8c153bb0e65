// SPDX-License-Identifier: Apache-2.0
/* `policy show --effective` and `policy reload` ask a running server. */
#include "base/mem.h"
#include "cli/cmd_policy.h"
#include <stdio.h>

/* Finds the session that runs, if it is the only one. */
static int only_session(struct cli *cli, char **id, struct err *err)
{
	const json_t *one;
	json_t *doc = NULL;
	unsigned living = 0;
	size_t i;
	int r = cli_call_json(cli, "GET", "/api/v1/sessions?limit=1000", NULL, NULL, &doc, err);

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
	json_decref(doc);
	if (living == 1)
		return 0;
	return err_set(err, E_BAD_REQUEST, NULL,
		       "policy show --effective: %u sessions live, name one", living);
}

int cmd_policy_effective(struct cli *cli, struct err *err)
{
	cleanup_free char *id = cli->argc == 1 ? mem_strdup(cli->argv[0]) : NULL;
	cleanup_free char *path = NULL;
	cleanup_buf struct buf text = {0}, out = {0};
	const json_t *policy, *one;
	json_t *doc = NULL;
	size_t i;
	int r = 0;

	if (cli->argc > 1)
		return err_set(err, E_BAD_REQUEST, NULL,
			       "policy show --effective: one session at most");
	if (id == NULL)
		r = only_session(cli, &id, err);
	else
		r = cli_session_name(id, err);
	if (r < 0)
		return r;
	path = mem_printf("/api/v1/sessions/%s%s", id, cli->v.json ? "/policy" : "");
	r = cli_call_json(cli, "GET", path, NULL, &text, &doc, err);
	if (r == 0 && cli->v.json) {
		cli_print_json(&text);
	} else if (r == 0) {
		policy = json_object_get(doc, "policy");
		buf_addf(&out, "Session:  %s\nName:     %s\nVersion:  %s\n", cli_string(doc, "id"),
			 cli_string(policy, "name"), cli_string(policy, "version"));
		json_array_foreach(json_object_get(policy, "summary"), i, one)
			buf_addf(&out, "%s\n", json_string_value(one));
		json_array_foreach(json_object_get(doc, "capped"), i, one)
			buf_addf(&out, "lowered: %s\n", json_string_value(one));
		cli_print(&out);
	}
	json_decref(doc);
	return r;
}

/* Prints the policies that changed to stdout and those that are broken to stderr. */
int cmd_policy_reload(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf answer = {0};
	const json_t *loaded, *failed, *one;
	json_t *doc = NULL;
	size_t i, broken;
	int r = cli_call_json(cli, "POST", "/api/v1/policies/reload", NULL, &answer, &doc, err);

	if (r < 0)
		return r;
	loaded = json_object_get(doc, "loaded");
	failed = json_object_get(doc, "failed");
	broken = json_array_size(failed);
	if (cli->v.json) {
		cli_print_json(&answer);
		r = broken > 0 ? CLI_FAILED : 0;
	} else {
		json_array_foreach(loaded, i, one) printf("loaded: %s\n", json_string_value(one));
		if (json_array_size(loaded) == 0 && broken == 0)
			printf("nothing has changed\n");
		json_array_foreach(failed, i, one)
			fprintf(stderr, "agentsh: the old '%s' stays: %s\n",
				cli_string(one, "name"), cli_string(one, "problem"));
		if (broken > 0)
			r = err_set(err, E_BAD_REQUEST, NULL,
				    "%zu of the policies in use %s broken", broken,
				    broken == 1 ? "is" : "are");
	}
	json_decref(doc);
	return r;
}
