// SPDX-License-Identifier: Apache-2.0
/* The object `error` of a result and of a record: what the command met, and what may help. */
#include "base/line.h"
#include "session/answer.h"
#include "session/session_state.h"

#define WORD_MAX 4096

void answer_blame(struct command *c)
{
	struct outcome *o = &c->out;

	if (o->error_code == NULL && c->exit_code > 0 && o->ops.seen[SEEN_BLOCKED] > 0 &&
	    c->denial.message.len > 0) {
		o->error_code = mem_strdup(err_row(E_POLICY_DENIED)->name);
		o->error_message = buf_take(&c->denial.message);
		o->error_path = buf_take(&c->denial.path);
		o->error_policy = buf_take(&c->denial.policy);
	}
	/* A shell that does not find a program executes nothing. */
	if (o->error_code == NULL && c->is_script &&
	    c->exit_code == err_row(E_COMMAND_NOT_FOUND)->exit) {
		o->error_code = mem_strdup(err_row(E_COMMAND_NOT_FOUND)->name);
		o->error_message = mem_strdup(
			"the shell ended with 127, as it does when it does not find a command");
	}
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

static void format_help(const struct help_row *row, const struct command *c, struct jw *w)
{
	const char *path = c->out.error_path;
	cleanup_free char *dir = row->about == ABOUT_DIRECTORY
					 ? directory_of(path, c->cwd != NULL ? c->cwd : "")
					 : NULL;
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

static void format_suggestions(const struct command *c, struct jw *w)
{
	const enum err_code code =
		c->out.error_code != NULL ? err_code_by_name(c->out.error_code) : E_OK;
	const char *path = c->out.error_path;

	jw_arr(w);
	for (size_t i = 0; path != NULL && i < ARRAY_LEN(help_rows); i++)
		if (help_rows[i].code == code &&
		    help_rows[i].by_path == (strchr(path, '/') != NULL))
			format_help(&help_rows[i], c, w);
	jw_arr_end(w);
}

void answer_error(struct command *c, const struct err *unread, struct jw *w)
{
	const struct outcome *o = &c->out;
	const char *code = o->error_code, *message = o->error_message;
	cleanup_free char *both = NULL;

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
	command_read_request(c);
	jw_obj(w);
	jw_kstr(w, "code", code);
	jw_kstr(w, "message", message != NULL ? message : "");
	jw_kstr(w, "subject", c->id);
	jw_kstr(w, "path", o->error_path);
	if (o->error_policy != NULL) {
		jw_key(w, "policy");
		jw_raw(w, o->error_policy, strlen(o->error_policy));
	}
	jw_kobj(w, "context");
	jw_kstr(w, "working_dir", c->cwd);
	jw_kstr(w, "command", c->line);
	jw_obj_end(w);
	jw_key(w, "suggestions");
	format_suggestions(c, w);
	jw_kstrv(w, "similar_files", &o->similar);
	jw_kstr(w, "request_id", o->request_id);
	jw_obj_end(w);
}
