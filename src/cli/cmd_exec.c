// SPDX-License-Identifier: Apache-2.0
/* exec and run: they print the structured answer, pass the streams through, or print them as they
 * come. */
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/cli.h"
#include <inttypes.h>
#include <stdio.h>

#define RUN_PATH "/api/v1/run"

enum form {
	FORM_JSON,  /* the answer as it is */
	FORM_SHELL, /* stdin, stdout and stderr pass through */
	FORM_TEXT,  /* stdout, stderr, then a summary */
	FORM_LIVE,  /* lines of output and events as they come */
};

static struct client_call post(const struct cli *cli, const char *path, const struct buf *body)
{
	return (struct client_call){.method = "POST",
				    .path = path,
				    .body = body->data,
				    .len = body->len,
				    .idempotency_key = cli->v.idempotency_key};
}

/* Prints what a person needs of the answer besides the output. */
static void print_notes(const struct cli *cli, const json_t *answer, enum form form)
{
	const json_t *result = json_object_get(answer, "result"), *one;
	const char *message = cli_string(json_object_get(result, "error"), "message");
	cleanup_buf struct buf notes = {0}, summary = {0};
	size_t i;

	/* like a shell, say why a command could not be started */
	if (message[0] != '\0' && (form == FORM_SHELL || (form == FORM_TEXT && cli->v.quiet)))
		cli_line(&notes, "agentsh: %s", message);
	if (!cli->v.quiet)
		cli_refusals(answer, &notes);
	if (form == FORM_SHELL && !cli->v.quiet)
		json_array_foreach(json_object_get(result, "warnings"), i, one)
			cli_line(&notes, "agentsh: %s", json_string_value(one));
	if (form == FORM_TEXT && !cli->v.quiet) {
		/* the output may end within a line */
		fputs(result != NULL ? "\n" : "", stdout);
		fflush(stdout);
		cli_summary(answer, &summary);
	}
	if (notes.len > 0)
		fwrite(notes.data, 1, notes.len, stderr);
	cli_print(&summary);
}

static void print_stream(const json_t *result, const char *name, FILE *to)
{
	cleanup_free char *encoding = mem_printf("%s_encoding", name);
	cleanup_free char *truncated = mem_printf("%s_truncated", name);
	cleanup_buf struct buf raw = {0};

	if (!cli_bytes(result, name, encoding, &raw))
		return;

	fwrite(raw.data, 1, raw.len, to);
	fflush(to);
	if (json_is_true(json_object_get(result, truncated)))
		fprintf(stderr, "\nagentsh: %s goes on; 'agentsh output' prints all of it\n", name);
}

/* Prints the rules that the server does not enforce. */
static void print_unenforced(const struct cli *cli, const json_t *session)
{
	const json_t *policy = cli->v.quiet ? NULL : json_object_get(session, "policy"), *one;
	cleanup_buf struct buf notes = {0};
	size_t i;

	json_array_foreach(json_object_get(policy, "unenforced"), i, one)
		cli_line(&notes, "agentsh: policy '%s': %s", cli_string(policy, "name"),
			 json_string_value(one));
	if (notes.len > 0)
		fwrite(notes.data, 1, notes.len, stderr);
}

/* Prints the answer, with the output unless it was printed before, and returns the exit status. */
static int conclude(struct cli *cli, const struct buf *answer, enum form form, bool with_output,
		    struct err *err)
{
	json_auto_t *doc = NULL;
	const int r = json_parse(answer->data, answer->len, &doc, err);

	if (r < 0)
		return r;
	if (form == FORM_JSON) {
		print_unenforced(cli, json_object_get(doc, "session"));
		cli_print_json(answer);
	} else if (with_output) {
		print_stream(json_object_get(doc, "result"), "stdout", stdout);
		print_stream(json_object_get(doc, "result"), "stderr", stderr);
	}
	if (form != FORM_JSON)
		print_notes(cli, doc, form);
	return cli_exit_code(doc, err);
}

/* Makes one call; the answer contains the output. */
static int exec_call(struct cli *cli, const char *path, const struct buf *body, enum form form,
		     struct err *err)
{
	cleanup_buf struct buf answer = {0};
	const int r = cli_call(cli, "POST", path, body, &answer, err);

	if (r < 0)
		return r;
	cli->structured = false; /* print no second document */
	return conclude(cli, &answer, form, true, err);
}

/* Ends a session of run that the server has not ended by itself. */
static void end_session(struct cli *cli, const char *id)
{
	cleanup_free char *path = mem_printf("/api/v1/sessions/%s", id);
	cleanup_buf struct buf ignored = {0};
	struct err err = {0};

	if (cli_call(cli, "DELETE", path, NULL, &ignored, &err) < 0)
		fprintf(stderr, "agentsh: the session could not be ended: %s\n", err.message);
}

/* The session of a run. */
struct ran {
	struct cli *cli;
	char *id; /* NULL: not known */
};

static void on_session(const json_t *session, void *arg)
{
	struct ran *ran = arg;

	mem_replace(&ran->id, mem_strdup(cli_string(session, "id")));
	print_unenforced(ran->cli, session);
}

static int exec_stdio(struct cli *cli, const char *path, const struct buf *body, enum form form,
		      struct err *err)
{
	struct client_call call = post(cli, path, body);
	struct ran ran = {.cli = cli};
	cleanup_buf struct buf answer = {0};
	int r = cli_connect(cli, err);

	call.on_session = on_session;
	call.arg = &ran;
	if (r == 0)
		r = client_stdio(cli->client, &call, &answer, err);
	/* the API process was replaced: the next one does not know that the session was for us */
	if (r == -E_UNAVAILABLE && ran.id != NULL)
		end_session(cli, ran.id);
	free(ran.id);
	if (r < 0)
		/* without a message, like a program that SIGPIPE ends */
		return cli_reader_left() ? CLI_PIPE : r;
	return conclude(cli, &answer, form, false, err);
}

#define LINE_MAX_BYTES 65536 /* a longer line is printed in pieces */

/* --stream: lines "[stdout] text", "[file] write: path (n bytes)", "[net] connect: host:port". */
struct live {
	struct buf line[2];
	uint64_t received[2];
	bool begun;
	struct buf result;
};

static void print_lines(struct buf *line, const char *label, const char *data, size_t len)
{
	const char *end;

	buf_add(line, data, len);
	while (line->len > 0 && (end = memchr(line->data, '\n', line->len)) != NULL) {
		size_t len_of_line = (size_t)(end - line->data) + 1;

		printf("[%s] ", label);
		fwrite(line->data, 1, len_of_line, stdout); /* may contain NUL */
		buf_drop(line, len_of_line);
	}
	if (line->len >= LINE_MAX_BYTES) {
		printf("[%s] ", label);
		fwrite(line->data, 1, line->len, stdout);
		putchar('\n');
		buf_clear(line);
	}
	fflush(stdout);
}

static void print_event(const json_t *e)
{
	const char *type = cli_string(e, "type");
	const json_t *net = json_object_get(e, "connection");
	const long long bytes =
		json_integer_value(json_object_get(json_object_get(e, "operation"), "bytes"));
	cleanup_buf struct buf line = {0};

	if (strncmp(type, "file_", 5) == 0 && bytes > 0)
		cli_line(&line, "[file] %s: %s (%lld bytes)", type + 5, cli_string(e, "path"),
			 bytes);
	else if (strncmp(type, "file_", 5) == 0)
		cli_line(&line, "[file] %s: %s", type + 5, cli_string(e, "path"));
	else if (strncmp(type, "net_", 4) == 0)
		cli_line(&line, "[net] %s: %s:%lld", type + 4, cli_string(net, "remote_addr"),
			 (long long)json_integer_value(json_object_get(net, "remote_port")));
	cli_print(&line);
	fflush(stdout);
}

static int on_message(const char *id, const char *name, const char *data, size_t len, void *arg)
{
	struct live *live = arg;
	cleanup_buf struct buf raw = {0};
	json_auto_t *doc = NULL;

	live->begun = true;
	if (name == NULL || json_parse(data, len, &doc, NULL) < 0)
		return 0;
	if (strcmp(name, "stdout") == 0 || strcmp(name, "stderr") == 0) {
		const int stream = strcmp(name, "stderr") == 0;

		if (cli_bytes(doc, "data", "encoding", &raw)) {
			live->received[stream] += raw.len;
			print_lines(&live->line[stream], name, raw.data, raw.len);
		}
	} else if (strcmp(name, "event") == 0) {
		print_event(doc);
	} else if (strcmp(name, "result") == 0) {
		buf_add(&live->result, data, len);
	}
	return ferror(stdout);
}

static int exec_live(struct cli *cli, const char *path, const struct buf *body, struct err *err)
{
	const struct client_call call = post(cli, path, body);
	struct live live = {0};
	int r = cli_connect(cli, err);

	if (r == 0)
		r = client_stream(cli->client, &call, on_message, &live, err);
	for (int i = 0; i < 2; i++) {
		if (live.line[i].len > 0)
			print_lines(&live.line[i], i == 0 ? "stdout" : "stderr", "\n", 1);
		buf_done(&live.line[i]);
	}
	if (r == 0 && live.result.len > 0 && !ferror(stdout))
		r = conclude(cli, &live.result, FORM_LIVE, false, err);
	else if ((r == 0 || live.begun) && !ferror(stdout)) /* cli_main reports stdout */
		r = err_set(err, E_UNAVAILABLE, NULL,
			    "the server went away before the command's result, after %" PRIu64
			    " bytes of stdout and %" PRIu64 " of stderr",
			    live.received[0], live.received[1]);
	buf_done(&live.result);
	return r;
}

/* Returns an enum form or an error. `fallback` is the form without --output. */
static int form_of(const struct cli *cli, enum form fallback, struct err *err)
{
	static const char *const names[] = {
		[FORM_JSON] = "json", [FORM_SHELL] = "shell", [FORM_TEXT] = "text"};
	const char *o = cli->v.output;

	if (o == NULL)
		return (int)fallback;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(o, names[i]) == 0)
			return (int)i;
	return err_set(err, E_BAD_REQUEST, o, "--output is json, shell or text, not '%s'", o);
}

static int exec_in(struct cli *cli, const char *session, const struct buf *body, enum form form,
		   struct err *err)
{
	cleanup_free char *path = NULL;
	/* a stdio stream cannot carry these */
	const bool one_call =
		cli->v.json_text != NULL || cli->v.detach || cli->v.idempotency_key != NULL;
	const int r =
		cli_session_path(session, form == FORM_LIVE ? "/exec/stream" : "/exec", &path, err);

	if (r < 0)
		return r;
	if (form == FORM_LIVE)
		return exec_live(cli, path, body, err);
	return form == FORM_JSON || (form == FORM_TEXT && one_call)
		       ? exec_call(cli, path, body, form, err)
		       : exec_stdio(cli, path, body, form, err);
}

static int session_body(struct cli *cli, const char *id, struct buf *body, struct err *err)
{
	const char *dir = cli->v.workspace ? cli->v.workspace : ".";
	cleanup_free char *here = realpath(dir, NULL);
	const struct cli_values v = {
		.id = id,
		.workspace = here,
		.policy = cli->v.policy,
		.idle_timeout =
			id == NULL ? "1m" : NULL, /* of run: ends if the server was killed */
	};

	return here == NULL ? err_errno(err, E_BAD_REQUEST, dir, "workspace %s", dir)
			    : cli_session_body(&v, body, err);
}

static int make_session(struct cli *cli, const struct buf *body, json_t **doc, struct err *err)
{
	return cli_call_json(cli, "POST", "/api/v1/sessions", body, false, doc, err);
}

static int stop_at_first(const char *id, const char *name, const char *data, size_t len, void *arg)
{
	return 1;
}

static void forget_refusal(struct cli *cli, struct err *err)
{
	*err = (struct err){0};
	buf_clear(&cli->refusal);
}

/* Several clients may exec in the same missing session: one makes it, the others use it. */
static int exec_making(struct cli *cli, const struct buf *body, enum form form, struct err *err)
{
	const char *id = cli->argv[0];
	cleanup_buf struct buf session = {0};
	json_auto_t *made = NULL;
	int r = exec_in(cli, id, body, form, err);

	if (!cli->v.create && r == -E_SESSION_NOT_FOUND)
		return err_set(err, E_SESSION_NOT_FOUND, id,
			       "no session '%s' (agentsh session list; exec --create makes it)",
			       id);
	if (!cli->v.create)
		return r;
	if (r == -E_SESSION_NOT_FOUND) {
		forget_refusal(cli, err);
		r = session_body(cli, id, &session, err);
		if (r == 0)
			r = make_session(cli, &session, &made, err);
		if (r < 0 && r != -E_CONFLICT)
			return r;
		forget_refusal(cli, err);
		r = exec_in(cli, id, body, form, err);
	}
	/* The error is about the session, so the command has not run. Another client makes the
	 * session: its first event shows that it is ready. If it fails, the stream ends, and the
	 * next call returns the reason. */
	if (r == -E_UNAVAILABLE && strcmp(err->subject, id) == 0) {
		cleanup_free char *path =
			mem_printf("/api/v1/sessions/%s/events?type=session_created", id);
		const struct client_call call = {
			.method = "GET", .path = path, .last_event_id = "0"};

		forget_refusal(cli, err);
		client_stream(cli->client, &call, stop_at_first, NULL, NULL);
		r = exec_in(cli, id, body, form, err);
	}
	return r;
}

int cmd_exec(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf body = {0};
	int form = form_of(cli, isatty(STDOUT_FILENO) ? FORM_TEXT : FORM_JSON, err), r;

	if (form < 0)
		return form;
	if (cli->v.stream && cli->v.output != NULL)
		return err_set(err, E_BAD_REQUEST, NULL, "give either --stream or --output");
	r = cli_exec_body(cli, 1, &body, err);
	if (r < 0)
		return r;
	if (cli->v.stream)
		form = FORM_LIVE;
	cli->structured = form == FORM_JSON; /* not for errors of usage */
	return exec_making(cli, &body, (enum form)form, err);
}

/* Three calls, for a server of the version before. */
static int run_in_steps(struct cli *cli, const struct buf *session, const struct buf *body,
			enum form form, struct err *err)
{
	json_auto_t *doc = NULL;
	int r = make_session(cli, session, &doc, err);

	if (r < 0)
		return r;
	print_unenforced(cli, doc);
	r = exec_in(cli, cli_string(doc, "id"), body, form, err);
	end_session(cli, cli_string(doc, "id"));
	return r;
}

int cmd_run(struct cli *cli, struct err *err)
{
	cleanup_buf struct buf command = {0}, session = {0}, body = {0};
	cleanup_free char *here = realpath(".", NULL), *root = NULL;
	int form = form_of(cli, FORM_SHELL, err), r = form < 0 ? form : 0;

	if (cli->v.workspace != NULL)
		root = realpath(cli->v.workspace, NULL);
	else if (here != NULL)
		cli->v.workspace = root = cli_run_root(here);
	if (here != NULL && root != NULL && path_within(here, root))
		cli->v.working_dir = here;
	if (r == 0)
		r = cli_exec_body(cli, 0, &command, err);
	cli->structured = r == 0 && form == FORM_JSON;
	if (r == 0)
		r = session_body(cli, NULL, &session, err);
	if (r < 0)
		return r;
	/* the body of exec, and the session in it */
	buf_addf(&body, "{\"session\":%s,", session.data);
	buf_add(&body, command.data + 1, command.len - 1);
	r = form == FORM_JSON ? exec_call(cli, RUN_PATH, &body, FORM_JSON, err)
			      : exec_stdio(cli, RUN_PATH, &body, (enum form)form, err);
	if (r != -E_NOT_FOUND || strcmp(err->subject, RUN_PATH) != 0)
		return r;
	forget_refusal(cli, err);
	return run_in_steps(cli, &session, &command, (enum form)form, err);
}
