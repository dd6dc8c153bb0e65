// SPDX-License-Identifier: Apache-2.0
/* An exec whose standard input and output are a bidirectional stream, with credit in both
 * directions.
 *
 * Output: the client's credit is the window; the warden may produce READ_AHEAD more into the file.
 * Input: the client may send STDIO_WINDOW bytes more than the command has taken. */
#include "api/exec_tail.h"
#include "base/mem.h"
#include "base/proc.h"
#include "wire/stdio_frame.h"
#include <inttypes.h>
#include <stdio.h>

#define READ_AHEAD (256 * 1024)
#define CREDIT_STEP (16 * 1024)

struct piping {
	struct exec_tail tail; /* first: the observer's argument */
	uint64_t stdin_got, stdin_taken, stdin_told;
	bool eof;
};

static void piping_left(struct call *call, bool gone)
{
	struct piping *p = call->work;

	exec_tail_done(&p->tail, gone);
	free(p);
}

/* --- from the client --- */

struct control {
	char *signal, *credit_stream;
	int64_t credit_bytes, cols, rows;
	bool eof;
};
static const struct json_field credit_table[] = {
	{"stream", JSON_FIELD_STR, offsetof(struct control, credit_stream), 1, 16, NULL, 0},
	{"bytes", JSON_FIELD_INT, offsetof(struct control, credit_bytes), 1, INT32_MAX, NULL, 0},
	{NULL},
};
static const struct json_field resize_table[] = {
	{"cols", JSON_FIELD_INT, offsetof(struct control, cols), 1, 65535, NULL, 0},
	{"rows", JSON_FIELD_INT, offsetof(struct control, rows), 1, 65535, NULL, 0},
	{NULL},
};
static const struct json_field control_table[] = {
	{"signal", JSON_FIELD_STR, offsetof(struct control, signal), 1, 16, NULL, 0},
	{"eof", JSON_FIELD_BOOL, offsetof(struct control, eof), 0, 0, NULL, 0},
	{"credit", JSON_FIELD_OBJ, 0, 0, 0, credit_table, 0},
	{"resize", JSON_FIELD_OBJ, 0, 0, 0, resize_table, 0},
	{NULL},
};

static void end_stdin(struct piping *p)
{
	if (p->eof)
		return;
	p->eof = true;
	if (p->tail.live != NULL)
		command_stdin(p->tail.live, NULL, 0, true);
}

static int grant(struct piping *p, const struct control *c, struct err *err)
{
	int stream = c->credit_stream == NULL		       ? 0
		     : strcmp(c->credit_stream, "stdout") == 0 ? 1
		     : strcmp(c->credit_stream, "stderr") == 0 ? 2
							       : 0;

	if (stream == 0)
		return err_set(err, E_BAD_REQUEST, "credit", "credit is for stdout or stderr");
	p->tail.allowed[stream] += (uint64_t)c->credit_bytes;
	if (p->tail.live != NULL)
		command_window(p->tail.live, stream, p->tail.allowed[stream] + READ_AHEAD);
	return 0;
}

static int on_control(struct piping *p, const char *text, size_t len, struct err *err)
{
	struct control c = {0};
	json_t *doc = NULL;
	int r = json_parse(text, len, &doc, err);

	if (r == 0)
		r = json_read(doc, control_table, &c, err);
	if (r == 0 && c.credit_bytes > 0)
		r = grant(p, &c, err);
	if (r == 0 && c.signal != NULL && p->tail.live != NULL) {
		int sig = proc_signal_by_name(c.signal);

		if (sig < 0)
			r = err_set(err, E_BAD_REQUEST, "signal", "no signal '%s'", c.signal);
		else
			r = command_signal(p->tail.live, sig, 0, true, err);
	}
	if (r == 0 && c.eof)
		end_stdin(p);
	json_read_done(control_table, &c);
	json_decref(doc);
	return r;
}

static int on_message(struct call *call, const struct call_message *m, struct err *err)
{
	struct piping *p = call->work;

	if (m->part == CALL_CONTROL)
		return on_control(p, m->data, m->len, err);
	if (p->eof && m->len > 0)
		return err_set(err, E_BAD_REQUEST, "stdin", "bytes after the end of stdin");
	if (p->stdin_got + m->len > p->stdin_taken + 2 * STDIO_WINDOW)
		return err_set(err, E_BAD_REQUEST, "stdin", "more bytes than the credit allows");
	p->stdin_got += m->len;
	if (m->len == 0)
		end_stdin(p);
	else if (p->tail.live != NULL)
		command_stdin(p->tail.live, m->data, m->len, false);
	return 0;
}

static void on_end(struct call *call)
{
	end_stdin(call->work);
}

/* A client that breaks the protocol is treated as gone: its command gets HUP, and the answer is not
 * sent. */
static void on_broken(struct call *call, const struct err *err)
{
	struct piping *p = call->work;

	call_error(call, err, &call->reply);
	call_send(call, CALL_RESULT, 0, call->reply.data, call->reply.len);
	if (p->tail.live != NULL)
		command_unobserve(p->tail.live, p, true);
	p->tail.live = NULL;
	call_stream_end(call);
}

static const struct call_stream stream = {exec_tail_room, on_message, on_end, on_broken};

/* --- from the command --- */

static void on_started(struct command *c, void *arg)
{
	struct piping *p = arg;

	exec_tail_begin(&p->tail);
	command_window(c, 1, p->tail.allowed[1] + READ_AHEAD);
	command_window(c, 2, p->tail.allowed[2] + READ_AHEAD);
	exec_tail_pump(&p->tail);
}

static void on_taken(struct command *c, uint64_t total, void *arg)
{
	struct piping *p = arg;
	char text[80];
	int n;

	p->stdin_taken = total;
	/* In steps, but whole once everything is taken: a client may wait for the full window. */
	if (total == p->stdin_told || (total - p->stdin_told < CREDIT_STEP && total < p->stdin_got))
		return;
	n = snprintf(text, sizeof(text),
		     "{\"credit\":{\"stream\":\"stdin\",\"bytes\":%" PRIu64 "}}",
		     total - p->stdin_told);
	call_send(p->tail.call, CALL_CONTROL, 0, text, (size_t)n);
	p->stdin_told = total;
}

void api_exec_stdio(struct call *call)
{
	struct exec_call r;
	struct err err = {0};
	struct piping *p;

	if (exec_call_read(call, &r, &err) == 0 && (r.request.detach || r.key != NULL))
		err_set(&err, E_BAD_REQUEST, "detach",
			"a stdio stream takes neither detach nor Idempotency-Key");
	if (err.code != E_OK) {
		call_fail(call, &err);
		exec_call_done(&r);
		return;
	}
	p = mem_new(struct piping);
	p->tail = (struct exec_tail){
		.call = call, .stream = &stream, .allowed = {0, STDIO_WINDOW, STDIO_WINDOW}};
	call->work = p;
	call->work_free = piping_left;
	command_submit(
		call->session, &call->who,
		&(struct command_ask){.request = &r.request, .stdin_open = true, .flow = true},
		&(struct command_observer){.started = on_started,
					   .output = exec_tail_output,
					   .stdin_taken = on_taken,
					   .done = exec_tail_finish,
					   .arg = p},
		&p->tail.live);
	exec_call_done(&r);
}
