// SPDX-License-Identifier: Apache-2.0
/* `policy show --effective` and `policy reload`: what a running server says. */
#include "base/mem.h"
#include "cli/cmd_policy.h"
#include <stdio.h>

static const char *text_at(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s != NULL ? s : "";
}

static int get(struct cli *cli, const char *path, json_t **out, struct buf *text, struct err *err)
{
	const int r = cli_call(cli, "GET", path, NULL, text, err);

	return r < 0 ? r : json_parse(text->data, text->len, out, err);
}

/* The only living session, if there is one. */
static int only_session(struct cli *cli, char **id, struct err *err)
{
	cleanup_buf struct buf text = {0};
	const json_t *one;
	json_t *doc = NULL;
	unsigned living = 0;
	size_t i;
	int r = get(cli, "/api/v1/sessions?limit=1000", &doc, &text, err);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(doc, "sessions"), i, one)
	{
		const char *state = text_at(one, "state");

		if (strcmp(state, "stopped") == 0 || strcmp(state, "failed") == 0)
			continue;
		free(*id);
		*id = mem_strdup(text_at(one, "id"));
		living++;
	}
	json_decref(doc);
	if (living == 1)
		return 0;
	return err_set(err, E_BAD_REQUEST, NULL,
		       "policy show --effective: %u sessions live, name one", living);
}

static void format_session(const json_t *s, struct buf *out)
{
	const json_t *policy = json_object_get(s, "policy"), *one;
	size_t i;

	buf_addf(out, "Session:  %s\nName:     %s\nVersion:  %s\n", text_at(s, "id"),
		 text_at(policy, "name"), text_at(policy, "version"));
	json_array_foreach(json_object_get(policy, "summary"), i, one)
		buf_addf(out, "%s\n", json_string_value(one));
	json_array_foreach(json_object_get(s, "capped"), i, one)
		buf_addf(out, "lowered: %s\n", json_string_value(one));
}

int cmd_policy_effective(struct cli *cli, struct err *err)
{
	cleanup_free char *id = cli->argc == 1 ? mem_strdup(cli->argv[0]) : NULL;
	cleanup_free char *path = NULL;
	cleanup_buf struct buf text = {0}, out = {0};
	json_t *doc = NULL;
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
	r = get(cli, path, &doc, &text, err);
	if (r == 0 && cli->v.json) {
		cli_print_json(&text);
	} else if (r == 0) {
		format_session(doc, &out);
		cli_print(&out);
	}
	json_decref(doc);
	return r;
}

/* What changed to stdout, what is broken to stderr. */
static int tell_reload(const json_t *doc, struct err *err)
{
	const json_t *failed = json_object_get(doc, "failed"), *one;
	size_t i;

	json_array_foreach(json_object_get(doc, "loaded"), i, one)
		printf("loaded: %s\n", json_string_value(one));
	if (json_array_size(json_object_get(doc, "loaded")) == 0 && json_array_size(failed) == 0)
		printf("nothing has changed\n");
	json_array_foreach(failed, i, one) fprintf(stderr, "agentsh: the old '%s' stays: %s\n",
						   text_at(one, "name"), text_at(one, "problem"));
	if (json_array_size(failed) > 0)
		return err_set(err, E_BAD_REQUEST, NULL, "%zu of the policies in use %s broken",
			       json_array_size(failed),
			       json_array_size(failed) == 1 ? "is" : "are");
	return 0;
}

int cmd_policy_reload(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf answer = {0};
	json_t *doc = NULL;
	int r = cli_call(cli, "POST", "/api/v1/policies/reload", NULL, &answer, err);

	if (r == 0)
		r = json_parse(answer.data, answer.len, &doc, err);
	if (r == 0 && cli->v.json) {
		cli_print_json(&answer);
		if (json_array_size(json_object_get(doc, "failed")) > 0)
			r = CLI_FAILED;
	} else if (r == 0) {
		r = tell_reload(doc, err);
	}
	json_decref(doc);
	return r;
}
