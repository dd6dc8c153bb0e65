// SPDX-License-Identifier: Apache-2.0
/* The object `error` of a result and of a record: what the command met, and what may help. */
#include "base/line.h"
#include "session/internal.h"

#define WORD_MAX 4096

static const char *text_at(const json_t *doc, const char *key)
{
	return json_string_value(json_object_get(doc, key));
}

/* ---- what a denial inside the command did to it ---- */

static void take_denial(struct outcome *o, const json_t *policy)
{
	static const char *const kept[] = {"rule",   "reason", "operation",
					   "target", "final",  "alternatives"};
	json_t *own = json_object();

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		json_object_set(own, kept[i], json_object_get(policy, kept[i]));
	o->error_code = mem_strdup(err_row(E_POLICY_DENIED)->name);
	o->error_message = mem_printf("rule '%s' denies %s: %s", text_at(policy, "rule"),
				      text_at(policy, "target"), text_at(policy, "reason"));
	o->error_path = mem_strdup(text_at(policy, "target"));
	o->error_policy = json_dumps(own, JSON_COMPACT | JSON_PRESERVE_ORDER);
	json_decref(own);
}

static void on_denied(uint64_t seq, const char *json, size_t len, void *arg)
{
	json_t *doc = NULL;
	const json_t *policy;

	if (json_parse(json, len, &doc, NULL) < 0)
		return;
	policy = json_object_get(doc, "policy");
	if (text_at(policy, "rule") != NULL && text_at(policy, "target") != NULL &&
	    text_at(policy, "reason") != NULL)
		take_denial(arg, policy);
	json_decref(doc);
}

/* A shell that looks for a program executes nothing if it finds none. */
static void blame_search(struct command *c)
{
	json_t *request = NULL;

	if (c->out.error_code == NULL && c->exit_code == err_row(E_COMMAND_NOT_FOUND)->exit &&
	    json_parse(c->request, strlen(c->request), &request, NULL) == 0 &&
	    text_at(request, "script") != NULL) {
		c->out.error_code = mem_strdup(err_row(E_COMMAND_NOT_FOUND)->name);
		c->out.error_message = mem_strdup(
			"the shell ended with 127, as it does when it does not find a command");
	}
	json_decref(request);
}

void answer_blame(struct command *c)
{
	const struct event_query q = {.session_id = c->s->id,
				      .command_id = c->id,
				      .decision = "deny",
				      .limit = 1,
				      .newest_first = true};

	if (c->out.error_code == NULL && c->exit_code > 0 && c->out.blocked > 0)
		store_query(c->s->ss->deps.store, &q, on_denied, &c->out, NULL, NULL);
	blame_search(c);
}

/* ---- what may help ---- */

enum about { ABOUT_PATH, ABOUT_DIRECTORY, ABOUT_SESSION, ABOUT_NOTHING };

static const struct help_row {
	enum err_code code;
	bool by_path; /* it was called by a path, not looked for */
	enum about about;
	const char *action, *command, *reason;
} help_rows[] = {
	{E_COMMAND_NOT_FOUND, true, ABOUT_DIRECTORY, "list_directory", "ls",
	 "See what files exist"},
	{E_COMMAND_NOT_FOUND, false, ABOUT_NOTHING, "show_path", "echo \"$PATH\"",
	 "See where programs are looked for"},
	{E_COMMAND_NOT_EXECUTABLE, true, ABOUT_PATH, "show_file", "ls -ld",
	 "See what it is and who may execute it"},
	{E_POLICY_DENIED, true, ABOUT_SESSION, "show_policy", "agentsh policy show --effective",
	 "See what is allowed"},
};

/* The directory that a path lies in, as the command saw it. */
static char *directory_of(const char *path, const char *cwd)
{
	const char *slash;

	while (strncmp(path, "./", 2) == 0)
		path += 2;
	slash = strrchr(path, '/');
	if (path[0] == '/')
		return mem_strndup(path, slash > path ? (size_t)(slash - path) : 1);
	if (slash == NULL)
		return mem_strdup(cwd);
	return mem_printf("%s/%.*s", strcmp(cwd, "/") == 0 ? "" : cwd, (int)(slash - path), path);
}

static void format_help(const struct help_row *row, const struct command *c, const char *cwd,
			struct jw *w)
{
	const char *path = c->out.error_path;
	cleanup_free char *dir = row->about == ABOUT_DIRECTORY ? directory_of(path, cwd) : NULL;
	const char *const words[] = {[ABOUT_PATH] = path,
				     [ABOUT_DIRECTORY] = dir,
				     [ABOUT_SESSION] = c->s->id,
				     [ABOUT_NOTHING] = NULL};
	cleanup_buf struct buf line = {0};

	buf_adds(&line, row->command);
	if (words[row->about] != NULL) {
		buf_addc(&line, ' ');
		line_add_word(&line, words[row->about], WORD_MAX);
	}
	jw_obj(w);
	jw_kstr(w, "action", row->action);
	jw_kstr(w, "command", line.data);
	jw_kstr(w, "reason", row->reason);
	jw_obj_end(w);
}

static void format_suggestions(const struct command *c, const char *cwd, struct jw *w)
{
	const enum err_code code =
		c->out.error_code != NULL ? err_code_by_name(c->out.error_code) : E_OK;
	const char *path = c->out.error_path;

	jw_arr(w);
	for (size_t i = 0; path != NULL && i < ARRAY_LEN(help_rows); i++)
		if (help_rows[i].code == code &&
		    help_rows[i].by_path == (strchr(path, '/') != NULL))
			format_help(&help_rows[i], c, cwd, w);
	jw_arr_end(w);
}

void answer_error(const struct command *c, const struct err *unread, struct jw *w)
{
	const struct outcome *o = &c->out;
	const char *code = o->error_code, *message = o->error_message;
	cleanup_free char *line = NULL;
	cleanup_free char *both = NULL;
	json_t *request = NULL;
	const char *cwd = NULL;

	if (code == NULL && unread == NULL) {
		jw_null(w);
		return;
	}
	if (unread != NULL && code != NULL)
		message = both =
			mem_printf("%s; %s", message != NULL ? message : "", unread->message);
	if (code == NULL) {
		code = err_row(unread->code)->name;
		message = unread->message;
	}
	if (json_parse(c->request, strlen(c->request), &request, NULL) == 0)
		cwd = text_at(request, "working_dir");
	line = command_line_of(c->request);
	jw_obj(w);
	jw_kstr(w, "code", code);
	jw_kstr(w, "message", message != NULL ? message : "");
	jw_kstr(w, "subject", c->id);
	jw_kstr(w, "path", o->error_path);
	if (o->error_policy != NULL) {
		jw_key(w, "policy");
		jw_raw(w, o->error_policy, strlen(o->error_policy));
	}
	jw_key(w, "context");
	jw_obj(w);
	jw_kstr(w, "working_dir", cwd);
	jw_kstr(w, "command", line);
	jw_obj_end(w);
	jw_key(w, "suggestions");
	format_suggestions(c, cwd != NULL ? cwd : "", w);
	jw_key(w, "similar_files");
	jw_arr(w);
	for (size_t i = 0; i < o->similar.n; i++)
		jw_str(w, o->similar.v[i]);
	jw_arr_end(w);
	jw_kstr(w, "request_id", o->request_id);
	jw_obj_end(w);
	json_decref(request);
}
