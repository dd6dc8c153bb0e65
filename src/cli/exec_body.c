// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"

int cli_text(const char *what, const char *value, struct err *err)
{
	if (value == NULL || json_is_text(value, strlen(value)))
		return 0;
	return err_set(err, E_BAD_REQUEST, what, "%s is not UTF-8: the API cannot carry it", what);
}

int cli_env(struct jw *w, const char *key, const struct strv *env, struct err *err)
{
	jw_kobj(w, key);
	for (size_t i = 0; i < env->n; i++) {
		const char *eq = strchr(env->v[i], '=');

		if (eq == NULL)
			return err_set(err, E_BAD_REQUEST, env->v[i], "--env needs NAME=VALUE");
		if (cli_text("--env", env->v[i], err) < 0)
			return -E_BAD_REQUEST;
		cleanup_free char *name = mem_strndup(env->v[i], (size_t)(eq - env->v[i]));

		jw_kstr(w, name, eq + 1);
	}
	jw_obj_end(w);
	return 0;
}

int cli_exec_body(struct cli *cli, int first, struct buf *out, struct err *err)
{
	const struct cli_values *v = &cli->v;
	const struct {
		const char *key, *value;
	} rows[] = {
		{"script", v->script},		 {"timeout", v->timeout},	{"argv0", v->argv0},
		{"working_dir", v->working_dir}, {"command_id", v->command_id},
	};
	struct jw w = JW(out);
	int r = 0;

	if ((v->script != NULL) + (v->json_text != NULL) + (cli->argc > first) != 1)
		return err_set(
			err, E_BAD_REQUEST, NULL,
			"give one of: -- CMD [ARG...], --script TEXT, exec's --json REQUEST");
	if (v->json_text != NULL &&
	    (v->timeout != NULL || v->argv0 != NULL || v->working_dir != NULL ||
	     v->command_id != NULL || v->env.n > 0 || v->no_queue || v->detach))
		return err_set(err, E_BAD_REQUEST, NULL,
			       "--json is the whole request: write its options inside it");
	if (v->json_text != NULL) {
		buf_adds(out, v->json_text);
		return 0;
	}
	for (int i = first; r == 0 && i < cli->argc; i++)
		r = cli_text(i == first ? "the command" : "an argument", cli->argv[i], err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++)
		r = cli_text(rows[i].key, rows[i].value, err);
	if (r < 0)
		return r;
	jw_obj(&w);
	if (cli->argc > first) {
		jw_kstr(&w, "command", cli->argv[first]);
		jw_karr(&w, "args");
		for (int i = first + 1; i < cli->argc; i++)
			jw_str(&w, cli->argv[i]);
		jw_arr_end(&w);
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].value != NULL)
			jw_kstr(&w, rows[i].key, rows[i].value);
	if (v->env.n > 0)
		r = cli_env(&w, "env", &v->env, err);
	if (v->no_queue)
		jw_kbool(&w, "queue", false);
	if (v->detach)
		jw_kbool(&w, "detach", true);
	jw_obj_end(&w);
	return r;
}

int cli_exit_code(const json_t *answer, struct err *err)
{
	const json_t *error = json_object_get(answer, "error");
	const json_t *result = json_object_get(answer, "result");
	const json_t *code = json_object_get(result, "exit_code");
	const char *message = cli_string(error, "message");

	/* An error body ends the stream; in a record, error is the error of its command. */
	if (json_is_object(error) && json_object_get(answer, "command_id") == NULL)
		return err_set(err, err_code_by_name(cli_string(error, "code")), NULL, "%s",
			       message[0] != '\0' ? message : "the server gave no reason");
	if (result == NULL)
		return 0; /* the record of a detached command has no result */
	/* a lost command has no exit code */
	return json_is_integer(code) && json_integer_value(code) >= 0 &&
			       json_integer_value(code) <= 255
		       ? (int)json_integer_value(code)
		       : CLI_FAILED;
}
