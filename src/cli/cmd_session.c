// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include <stdio.h>

/* Prints the answer as JSON, or parses it. */
static int answer_json(struct cli *cli, const struct buf *answer, json_t **doc, struct err *err)
{
	if (!cli->v.json)
		return json_parse(answer->data, answer->len, doc, err);
	cli_print_json(answer);
	return 0;
}

/* "2026-01-02T03:04:05.678901Z" -> "2026-01-02T03:04:05Z" */
static void to_second(const char *time, char out[32])
{
	size_t n = strcspn(time, ".");

	snprintf(out, 32, "%.*s%s", (int)(n < 24 ? n : 24), time, time[n] == '.' ? "Z" : "");
}

static int create_body(struct cli *cli, struct buf *body, struct err *err)
{
	const struct cli_values *v = &cli->v;
	cleanup_free char *here = realpath(v->workspace ? v->workspace : ".", NULL);
	const struct {
		const char *key, *value;
	} rows[] = {
		{"id", v->id},
		{"workspace", here ? here : v->workspace},
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
	cleanup_buf struct buf answer = {0};
	json_t *doc = NULL;
	int r = cli->argc == 0 ? create_body(cli, &body, err)
			       : err_set(err, E_BAD_REQUEST, cli->argv[0], "unexpected '%s'",
					 cli->argv[0]);

	if (r == 0)
		r = cli_call(cli, "POST", "/api/v1/sessions", &body, &answer, err);
	if (r == 0)
		r = answer_json(cli, &answer, &doc, err);
	if (doc != NULL)
		printf("Session created: %s\n", cli_string(doc, "id"));
	json_decref(doc);
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
	static const char *const head[] = {"ID", "STATE", "CREATED", "COMMANDS", "WORKSPACE"};
	const size_t most = json_array_size(sessions);
	json_t **shown = mem_resize(NULL, most + 1, sizeof(*shown));
	const char **cells = mem_resize(NULL, (most + 1) * 5, sizeof(char *));
	char(*made)[2][32] = mem_resize(NULL, most + 1, sizeof(*made));
	cleanup_buf struct buf out = {0};
	size_t i, rows = 0, n = 0;
	json_t *s;

	json_array_foreach(sessions, i, s) if (all || !cli_session_ended(s)) shown[rows++] = s;
	qsort(shown, rows, sizeof(*shown), by_age);
	for (; n < 5; n++)
		cells[n] = head[n];
	for (i = 0; i < rows; i++) {
		s = shown[i];
		to_second(cli_string(s, "created"), made[i][0]);
		snprintf(made[i][1], 32, "%lld",
			 (long long)json_integer_value(json_object_get(s, "command_count")));
		cells[n++] = cli_string(s, "id");
		cells[n++] = cli_string(s, "state");
		cells[n++] = made[i][0];
		cells[n++] = made[i][1];
		cells[n++] = cli_string(s, "workspace");
	}
	cli_columns(cells, 5, rows + 1, &out);
	cli_print(&out);
	free(shown);
	free(cells);
	free(made);
}

/* Joins all pages into one list. */
static int list_all(struct cli *cli, json_t **all, struct err *err)
{
	cleanup_free char *cursor = mem_strdup("");
	json_t *list = json_array();
	int r = 0;

	do {
		cleanup_free char *path = mem_printf("/api/v1/sessions?limit=1000%s%s",
						     cursor[0] ? "&cursor=" : "", cursor);
		json_t *page = NULL;

		r = cli_call_json(cli, "GET", path, NULL, NULL, &page, err);
		if (r == 0)
			json_array_extend(list, json_object_get(page, "sessions"));
		free(cursor);
		cursor = mem_strdup(cli_string(page, "next"));
		json_decref(page);
	} while (r == 0 && cursor[0] != '\0');
	if (r == 0)
		*all = list;
	else
		json_decref(list);
	return r;
}

int cmd_session_list(struct cli *cli, struct err *err)
{
	json_t *all = NULL;
	cleanup_buf struct buf answer = {0};
	int r;

	if (cli->v.json) {
		r = cli_call(cli, "GET", "/api/v1/sessions?limit=1000", NULL, &answer, err);
		return r < 0 ? r : answer_json(cli, &answer, NULL, err);
	}
	r = list_all(cli, &all, err);
	if (r == 0)
		print_list(all, cli->v.all);
	json_decref(all);
	return r;
}

static void print_info(const json_t *s)
{
	static const struct {
		const char *label, *key;
		int kind; /* 0 text, 1 time, 2 number */
	} rows[] = {
		{"ID:", "id", 0},
		{"State:", "state", 0},
		{"Created:", "created", 1},
		{"Last Activity:", "last_activity", 1},
		{"Commands:", "command_count", 2},
		{"File Ops:", "total_file_ops", 2},
		{"Net Ops:", "total_net_ops", 2},
		{"Working Dir:", "working_dir", 0},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf value = {0};
		char time[32];

		if (rows[i].kind == 2)
			cli_thousands(json_integer_value(json_object_get(s, rows[i].key)), &value);
		else if (rows[i].kind == 1)
			to_second(cli_string(s, rows[i].key), time);
		cli_visible(rows[i].kind == 0	? cli_string(s, rows[i].key)
			    : rows[i].kind == 1 ? time
						: "",
			    &value);
		printf("%-15s%s\n", rows[i].label, value.data);
	}
}

/* Calls the API for the session that the one operand names. */
static int call_session(struct cli *cli, const char *method, json_t **doc, struct err *err)
{
	cleanup_buf struct buf answer = {0};
	cleanup_free char *path = NULL;
	int r;

	if (cli->argc != 1)
		return err_set(err, E_BAD_REQUEST, NULL, "exactly one session is needed");
	r = cli_session_name(cli->argv[0], err);
	if (r < 0)
		return r;
	path = mem_printf("/api/v1/sessions/%s", cli->argv[0]);
	r = cli_call(cli, method, path, NULL, &answer, err);
	return r < 0 ? r : answer_json(cli, &answer, doc, err);
}

int cmd_session_info(struct cli *cli, struct err *err)
{
	json_t *doc = NULL;
	const int r = call_session(cli, "GET", &doc, err);

	if (doc != NULL)
		print_info(doc);
	json_decref(doc);
	return r;
}

int cmd_session_destroy(struct cli *cli, struct err *err)
{
	json_t *doc = NULL;
	const int r = call_session(cli, "DELETE", &doc, err);

	if (doc != NULL)
		printf("Session destroyed: %s\n", cli_string(doc, "id"));
	json_decref(doc);
	return r;
}
