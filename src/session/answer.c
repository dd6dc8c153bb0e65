// SPDX-License-Identifier: Apache-2.0
/* The exec answer and the command record of the interface, field for field. */
#include "base/denial.h"
#include "base/line.h"
#include "base/path.h"
#include "base/proc.h"
#include "model/workspace_names.h"
#include "session/command_events.h"
#include "session/session_state.h"

#define WORD_MAX 4096

/* ---- the error: what the command met, and what may help ---- */

void answer_blame(struct command *c)
{
	struct outcome *o = &c->out;
	struct denial d;

	if (o->error_code == NULL && c->exit_code > 0 && o->ops.seen[SEEN_BLOCKED] > 0 &&
	    c->denial != NULL && denial_unpack(c->denial, &d)) {
		o->error_code =
			mem_strdup(d.error != NULL ? d.error : err_row(E_POLICY_DENIED)->name);
		o->error_message =
			mem_printf("rule '%s' denies %s: %s", d.rule, d.target, d.reason);
		o->error_path = take(d.target);
		o->error_policy = take(c->denial);
		strv_done(&o->similar); /* they belong to another operation */
		denial_done(&d);
	}
	if (o->error_code == NULL && c->exit_code > 0 && c->failed_path != NULL) {
		const char *name = strerrorname_np(c->failed_errno);

		o->error_code = mem_strdup(name != NULL ? name : "EIO");
		o->error_message = mem_printf("%s: %s (the last operation on a file that failed)",
					      c->failed_path, strerror(c->failed_errno));
		o->error_path = take(c->failed_path);
	}
	/* A shell that does not find a program executes nothing. */
	if (o->error_code == NULL && c->is_script &&
	    c->exit_code == err_row(E_COMMAND_NOT_FOUND)->exit) {
		o->error_code = mem_strdup(err_row(E_COMMAND_NOT_FOUND)->name);
		o->error_message = mem_strdup(
			"the shell ended with 127, as it does when it does not find a command");
	}
}

enum about { ABOUT_PATH, ABOUT_DIRECTORY, ABOUT_KIND, ABOUT_SESSION, ABOUT_NOTHING };

static const struct help_row {
	const char *code;
	bool by_path; /* it was called by a path, not looked for */
	enum about about;
	const char *action, *command, *reason;
} help_rows[] = {
	{"E_COMMAND_NOT_FOUND", true, ABOUT_DIRECTORY, "list_directory", "ls",
	 "See what files exist"},
	{"E_COMMAND_NOT_FOUND", false, ABOUT_NOTHING, "show_path", "echo \"$PATH\"",
	 "See where programs are looked for"},
	{"E_COMMAND_NOT_EXECUTABLE", true, ABOUT_PATH, "show_file", "ls -ld",
	 "See what it is and who may execute it"},
	{"E_APPROVAL_DENIED", true, ABOUT_SESSION, "show_policy", "agentsh policy show --effective",
	 "See what is allowed without asking"},
	{"E_POLICY_DENIED", true, ABOUT_SESSION, "show_policy", "agentsh policy show --effective",
	 "See what is allowed"},
	{"ENOENT", true, ABOUT_DIRECTORY, "list_directory", "ls", "See what files exist"},
	{"ENOENT", true, ABOUT_KIND, "search", "find", "Find similar files"},
	{"EACCES", true, ABOUT_PATH, "show_file", "ls -ld", "See what it is and who may use it"},
	{"EPERM", true, ABOUT_PATH, "show_file", "ls -ld", "See what it is and who may use it"},
	{"ENOSPC", true, ABOUT_PATH, "show_space", "df -h", "See how much space is left"},
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

/* The pattern of files of the same kind: "*.txt", or the name itself. */
static char *kind_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
	const char *dot = strrchr(name, '.');

	return dot != NULL && dot > name ? mem_printf("*%s", dot) : mem_strdup(name);
}

/* A command that works in the workspace by its real path may not see it at /workspace
 * (sandbox.workspace_at). */
static char *as_seen(const struct command *c, const char *path)
{
	const char *real = c->s->workspace;

	return c->cwd != NULL && path_within(c->cwd, real) && path_within(path, WORKSPACE_CANONICAL)
		       ? mem_printf("%s%s", real, path + strlen(WORKSPACE_CANONICAL))
		       : mem_strdup(path);
}

static void format_help(const struct help_row *row, const struct command *c, struct jw *w)
{
	const char *path = c->out.error_path;
	cleanup_free char *dir = row->about == ABOUT_DIRECTORY
					 ? directory_of(path, c->cwd != NULL ? c->cwd : "")
					 : NULL;
	cleanup_free char *kind = row->about == ABOUT_KIND ? kind_of(path) : NULL;
	const char *const words[] = {[ABOUT_PATH] = path,
				     [ABOUT_DIRECTORY] = dir,
				     [ABOUT_KIND] = WORKSPACE_CANONICAL,
				     [ABOUT_SESSION] = c->s->id,
				     [ABOUT_NOTHING] = NULL};
	cleanup_buf struct buf line = {0};

	buf_adds(&line, row->command);
	if (words[row->about] != NULL) {
		cleanup_free char *word = as_seen(c, words[row->about]);

		buf_addc(&line, ' ');
		line_add_word(&line, word, WORD_MAX);
	}
	if (kind != NULL) {
		buf_adds(&line, " -name ");
		line_add_word(&line, kind, WORD_MAX);
	}
	jw_obj(w);
	jw_kstr(w, "action", row->action);
	jw_kstr(w, "command", line.data);
	jw_kstr(w, "reason", row->reason);
	jw_obj_end(w);
}

static void format_suggestions(const struct command *c, struct jw *w)
{
	const char *code = c->out.error_code, *path = c->out.error_path;

	jw_arr(w);
	for (size_t i = 0; code != NULL && path != NULL && i < ARRAY_LEN(help_rows); i++)
		if (strcmp(help_rows[i].code, code) == 0 &&
		    help_rows[i].by_path == (strchr(path, '/') != NULL))
			format_help(&help_rows[i], c, w);
	jw_arr_end(w);
}

/* What an approver was asked about. */
static void format_approval(const struct outcome *o, struct jw *w)
{
	struct denial d = {0};

	if (o->error_policy != NULL && denial_unpack(o->error_policy, &d) &&
	    d.approval_id != NULL) {
		jw_kstr(w, "operation", d.operation);
		jw_kstr(w, "path", d.target);
		jw_kstr(w, "rule", d.rule);
		jw_kstr(w, "approval_id", d.approval_id);
	}
	denial_done(&d);
}

static void answer_error(struct command *c, const struct err *unread, struct jw *w)
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
		denial_format_text(o->error_policy, w);
	}
	jw_kobj(w, "context");
	jw_kstr(w, "working_dir", c->cwd);
	jw_kstr(w, "command", c->line);
	format_approval(o, w);
	jw_obj_end(w);
	jw_key(w, "suggestions");
	format_suggestions(c, w);
	jw_kstrv(w, "similar_files", &o->similar);
	jw_kstr(w, "request_id", o->request_id);
	jw_obj_end(w);
}

/* ---- the lists of its operations: the events as the store has them ---- */

static const struct list_row {
	const char *key, *total;
} list_rows[SEEN_KINDS] = {
	[SEEN_FILE] = {"file_operations", "file"},
	[SEEN_NETWORK] = {"network_operations", "network"},
	[SEEN_EXEC] = {"exec_operations", "exec"},
	[SEEN_BLOCKED] = {"blocked_operations", "blocked"},
};

struct event_list {
	struct jw *w;
	int64_t operations;
};

static void list_event(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct event_list *l = arg;
	json_t *doc = NULL;

	jw_raw(l->w, json, len);
	if (json_parse(json, len, &doc, NULL) < 0)
		return;
	l->operations += json_integer_value(json_object_get(doc, "count"));
	json_decref(doc);
}

/* True: the list has not all operations. */
static bool format_events(struct command *c, enum seen kind, struct jw *w)
{
	const struct listed_events *known = &c->listed_events[kind];
	struct event_list l = {w, known->operations};
	struct event_query q = command_list_query(kind);
	const int64_t total = c->out.ops.seen[kind];

	jw_karr(w, list_rows[kind].key);
	/* The whole list is in memory, unless an earlier API process stored a part of it. */
	if (c->recovered || (known->operations < total && known->n < LISTED_MAX)) {
		l.operations = 0;
		command_query(c, &q, list_event, &l);
	} else if (known->n > 0) {
		jw_raw(w, known->json.data, known->json.len);
	}
	jw_arr_end(w);
	return total > l.operations;
}

static void answer_events(struct command *c, struct jw *w)
{
	cleanup_free char *query =
		mem_printf("/api/v1/sessions/%s/history?command_id=%s", c->s->id, c->id);
	bool truncated = false;

	jw_obj(w);
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++)
		truncated |= format_events(c, kind, w);
	jw_kobj(w, "totals");
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++)
		jw_kint(w, list_rows[kind].total, c->out.ops.seen[kind]);
	jw_obj_end(w);
	jw_kbool(w, "truncated", truncated);
	jw_kstr(w, "query", query);
	jw_obj_end(w);
}

static void answer_network(const struct network_summary *sum, struct jw *w)
{
	jw_obj(w);
	jw_kint(w, "connections", sum->connections);
	jw_kint(w, "dns_queries", sum->dns_queries);
	jw_kint(w, "bytes_sent", sum->sent);
	jw_kint(w, "bytes_received", sum->received);
	jw_kint(w, "blocked_connections", sum->blocked);
	jw_kstrv(w, "unique_destinations", &sum->destinations);
	jw_obj_end(w);
}

/* ---- answer and record ---- */

static const char *const stream_keys[3][4] = {
	[1] = {"stdout", "stdout_truncated", "stdout_total_bytes", "stdout_total_lines"},
	[2] = {"stderr", "stderr_truncated", "stderr_total_bytes", "stderr_total_lines"},
};

static void format_exit(const struct command *c, struct jw *w)
{
	jw_key(w, "exit_code");
	if (c->exit_code < 0)
		jw_null(w);
	else
		jw_int(w, c->exit_code);
	jw_kstr(w, "signal", proc_signal_name(c->signal)); /* 0 has no name */
}

/* "ended 123 sleep 60" */
static void format_background(const struct strv *list, struct jw *w)
{
	jw_arr(w);
	for (size_t i = 0; i < list->n; i++) {
		const char *s = list->v[i];
		const size_t word = strcspn(s, " ");
		char *rest = (char *)s + word;
		const long long pid = strtoll(rest, &rest, 10);

		jw_obj(w);
		jw_kint(w, "pid", pid);
		jw_kstr(w, "command", rest + (*rest == ' '));
		jw_key(w, "action");
		jw_strn(w, s, word);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void format_pagination(struct command *c, const uint64_t next_offset[3], struct jw *w)
{
	const int more = next_offset[1] < command_kept(c, 1)   ? 1
			 : next_offset[2] < command_kept(c, 2) ? 2
							       : 0;
	cleanup_free char *next =
		more == 0 ? NULL
			  : mem_printf("agentsh output %s%s --offset=%llu --limit=%lld", c->id,
				       more == 2 ? " --stream=stderr" : "",
				       (unsigned long long)next_offset[more],
				       (long long)(c->max_output > 0 ? c->max_output : 10000));

	jw_obj(w);
	jw_kint(w, "current_offset", 0);
	jw_kint(w, "current_limit", c->max_output);
	jw_kbool(w, "has_more", more != 0);
	jw_kstr(w, "next_command", next);
	jw_obj_end(w);
}

static void format_result(struct command *c, const struct err *unread, struct jw *w)
{
	cleanup_buf struct buf out = {0}, errors = {0};
	struct buf *data[3] = {NULL, &out, &errors};
	uint64_t next[3] = {0};
	const char *encoding[3];
	struct err err = {0};

	jw_obj(w);
	format_exit(c, w);
	for (int i = 1; i <= 2; i++) {
		/* An empty file is not opened. */
		if (command_kept(c, i) > 0 && c->max_output > 0 &&
		    command_read_first(c, i, (size_t)c->max_output, data[i], &next[i], &err) < 0 &&
		    unread == NULL)
			unread = &err;
		jw_key(w, stream_keys[i][0]);
		encoding[i] = jw_data(w, data[i]->len > 0 ? data[i]->data : "", data[i]->len);
	}
	jw_kstr(w, "stdout_encoding", encoding[1]);
	jw_kstr(w, "stderr_encoding", encoding[2]);
	for (int i = 1; i <= 2; i++) {
		jw_kbool(w, stream_keys[i][1], data[i]->len < c->out.extent[i].bytes);
		jw_kuint(w, stream_keys[i][2], c->out.extent[i].bytes);
		jw_kuint(w, stream_keys[i][3], c->lines[i]);
	}
	jw_kreal(w, "duration_ms", (double)c->out.duration_us / 1000);
	jw_key(w, "error");
	answer_error(c, unread, w);
	jw_kstrv(w, "warnings", &c->out.warnings);
	jw_key(w, "background");
	format_background(&c->out.background, w);
	jw_key(w, "pagination");
	format_pagination(c, next, w);
	jw_obj_end(w);
}

/* Blocks that disks moved for the command, or bytes of files that it read or wrote: a cache may
 * hide the first, and files that are not watched have no events. */
static double megabytes(int64_t blocks, int64_t files)
{
	return (double)(blocks > files ? blocks : files) / (1024 * 1024);
}

static void format_resources(const struct outcome *o, struct jw *w)
{

	jw_obj(w);
	jw_kreal(w, "cpu_time_ms", (double)o->cpu_us / 1000);
	jw_kreal(w, "memory_peak_mb", (double)o->maxrss_kb / 1024);
	jw_kreal(w, "disk_read_mb", megabytes(o->read_bytes, o->ops.file_read));
	jw_kreal(w, "disk_write_mb", megabytes(o->write_bytes, o->ops.file_written));
	jw_kreal(w, "net_sent_kb", (double)o->ops.net.sent / 1024);
	jw_kreal(w, "net_received_kb", (double)o->ops.net.received / 1024);
	jw_obj_end(w);
}

void command_format_answer(struct command *c, const struct err *unread, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "command_id", c->id);
	jw_kstr(w, "session_id", c->s->id);
	jw_ktime_us(w, "timestamp", c->created_us);
	jw_kstr(w, "command_state", command_state_names[c->state]);
	jw_key(w, "request");
	jw_raw(w, c->request, strlen(c->request));
	jw_key(w, "result");
	format_result(c, unread, w);
	jw_key(w, "events");
	answer_events(c, w);
	jw_key(w, "network_summary");
	answer_network(&c->out.ops.net, w);
	jw_key(w, "resources");
	format_resources(&c->out, w);
	jw_kobj(w, "state");
	jw_kstr(w, "working_dir", c->out.working_dir);
	jw_kstrv(w, "environment_changed", &c->out.env_changed);
	jw_obj_end(w);
	jw_key(w, "enforcement");
	wall_format(&c->s->walls, w);
	if (c->ends_session) {
		jw_key(w, "session");
		command_format_session(c, w);
	}
	jw_obj_end(w);
}

void command_format(struct command *c, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "command_id", c->id);
	jw_kstr(w, "session_id", c->s->id);
	jw_kstr(w, "agent_id", c->s->agent_id);
	jw_kstr(w, "state", command_state_names[c->state]);
	jw_key(w, "request");
	jw_raw(w, c->request, strlen(c->request));
	jw_ktime_us(w, "created", c->created_us);
	jw_ktime_us(w, "started", c->started_us);
	jw_ktime_us(w, "finished", c->finished_us);
	format_exit(c, w);
	jw_kreal(w, "duration_ms", (double)c->out.duration_us / 1000);
	jw_key(w, "error");
	answer_error(c, NULL, w);
	for (int i = 1; i <= 2; i++) {
		jw_kuint(w, stream_keys[i][2], command_bytes(c, i));
		jw_kuint(w, stream_keys[i][3], command_lines(c, i));
	}
	jw_kbool(w, "detach", c->detach);
	jw_obj_end(w);
}
