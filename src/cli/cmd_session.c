// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include <stdio.h>

int cli_session_body(const struct cli_values *v, struct buf *body, struct err *err)
{
	cleanup_free char *here = realpath(v->workspace ? v->workspace : ".", NULL);
	cleanup_free char *start = realpath(".", NULL);
	const struct {
		const char *key, *value;
	} rows[] = {
		{"id", v->id},
		{"workspace", here ? here : v->workspace},
		{"working_dir",
		 here != NULL && start != NULL && path_within(start, here) ? start : NULL},
		{"policy", v->policy},
		{"timeout", v->timeout},
		{"idle_timeout", v->idle_timeout},
		{"background", v->background},
	};
	struct jw w = JW(body);
	int r = 0;

	if (here == NULL && (v->workspace == NULL || v->workspace[0] != '/'))
		return err_errno(err, E_BAD_REQUEST, v->workspace, "workspace %s",
				 v->workspace ? v->workspace : ".");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++)
		r = cli_text(rows[i].key, rows[i].value, err);
	if (r < 0)
		return r;
	jw_obj(&w);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].value != NULL)
			jw_kstr(&w, rows[i].key, rows[i].value);
	if (v->env.n > 0)
		r = cli_env(&w, "environment", &v->env, err);
	jw_obj_end(&w);
	return r;
}

int cmd_session_create(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf body = {0};
	json_auto_t *doc = NULL;
	int r = cli_session_body(&cli->v, &body, err);

	if (r == 0)
		r = cli_call_json(cli, "POST", "/api/v1/sessions", &body, cli->v.json, &doc, err);
	if (r == 0 && !cli->v.json)
		printf("Session created: %s\n", cli_string(doc, "id"));
	return r;
}

/* Sorts the newest first. Times of one format and zone compare as text. */
static int by_age(const void *a, const void *b)
{
	return strcmp(cli_string(*(json_t *const *)b, "created"),
		      cli_string(*(json_t *const *)a, "created"));
}

bool cli_session_ended(const json_t *session)
{
	const char *state = cli_string(session, "state");

	return strcmp(state, "stopped") == 0 || strcmp(state, "failed") == 0;
}

static void print_list(const json_t *sessions, bool all)
{
	static const struct cli_column columns[] = {
		{"ID", "id", CLI_WORDS},
		{"STATE", "state", CLI_WORDS},
		{"CREATED", "created", CLI_TIME},
		{"COMMANDS", "command_count", CLI_NUMBER},
		{"WORKSPACE", "workspace", CLI_WORDS},
	};
	cleanup_free json_t **sorted =
		mem_resize(NULL, json_array_size(sessions) + 1, sizeof(*sorted));
	cleanup_buf struct buf out = {0};
	json_auto_t *shown = json_array();
	json_t *s;
	size_t i, rows = 0;

	json_array_foreach(sessions, i, s) if (all || !cli_session_ended(s)) sorted[rows++] = s;
	qsort(sorted, rows, sizeof(*sorted), by_age);
	for (i = 0; i < rows; i++)
		json_array_append(shown, sorted[i]);
	cli_table(shown, columns, ARRAY_LEN(columns), &out);
	cli_print(&out);
}

/* Joins all pages into one list. */
static int list_all(struct cli *cli, json_t *list, struct err *err)
{
	cleanup_free char *cursor = mem_strdup("");
	int r = 0;

	do {
		cleanup_free char *path = mem_printf("/api/v1/sessions?limit=1000%s%s",
						     cursor[0] ? "&cursor=" : "", cursor);
		json_auto_t *page = NULL;

		r = cli_call_json(cli, "GET", path, NULL, false, &page, err);
		json_array_extend(list, json_object_get(page, "sessions"));
		free(cursor);
		cursor = mem_strdup(cli_string(page, "next"));
	} while (r == 0 && cursor[0] != '\0');
	return r;
}

int cmd_session_list(struct cli *cli, struct err *err)
{
	json_auto_t *all = json_array(), *answer = NULL;
	int r;

	if (cli->v.json)
		return cli_call_json(cli, "GET", "/api/v1/sessions?limit=1000", NULL, true, &answer,
				     err);
	r = list_all(cli, all, err);
	if (r == 0)
		print_list(all, cli->v.all);
	return r;
}

/* Calls the API for the session that the operand names. */
static int call_session(struct cli *cli, const char *method, json_t **doc, struct err *err)
{
	cleanup_free char *path = NULL;
	const int r = cli_session_path(cli->argv[0], "", &path, err);

	return r < 0 ? r : cli_call_json(cli, method, path, NULL, cli->v.json, doc, err);
}

int cmd_session_info(struct cli *cli, struct err *err)
{
	static const struct cli_column rows[] = {
		{"ID:", "id", CLI_WORDS},
		{"State:", "state", CLI_WORDS},
		{"Created:", "created", CLI_TIME},
		{"Last Activity:", "last_activity", CLI_TIME},
		{"Commands:", "command_count", CLI_THOUSANDS},
		{"File Ops:", "total_file_ops", CLI_THOUSANDS},
		{"Net Ops:", "total_net_ops", CLI_THOUSANDS},
		{"Working Dir:", "working_dir", CLI_WORDS},
		{"Failure:", "failure", CLI_WORDS},
	};
	cleanup_buf struct buf out = {0};
	json_auto_t *doc = NULL;
	const int r = call_session(cli, "GET", &doc, err);

	for (size_t i = 0; r == 0 && !cli->v.json && i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf value = {0};

		if (json_is_null(json_object_get(doc, rows[i].key)))
			continue;
		cli_cell(doc, rows[i].key, rows[i].kind, &value);
		cli_line(&out, "%-15s%s", rows[i].head, value.data);
	}
	cli_print(&out);
	return r;
}

int cmd_session_destroy(struct cli *cli, struct err *err)
{
	json_auto_t *doc = NULL;
	const int r = call_session(cli, "DELETE", &doc, err);

	if (r == 0 && !cli->v.json)
		printf("Session destroyed: %s\n", cli_string(doc, "id"));
	return r;
}
