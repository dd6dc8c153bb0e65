// SPDX-License-Identifier: Apache-2.0
/* The stdio stream: frames of agentsh-stdio/1 over an upgraded connection, with credit in both
 * directions.
 *
 * Output: the client's credit is the window; the warden may produce READ_AHEAD more into the file.
 * Input: the client may send STDIO_WINDOW bytes more than the command has taken.
 *
 * TCP: a client that has gone and one that has only ended its input send the same (FIN). A client
 * that has gone answers bytes with a reset, so that after the end of its input it gets credit for
 * nothing now and then: harmless to one that is there, and the reset shows the other. */
#include "api/exec_tail.h"
#include "base/mem.h"
#include "base/proc.h"
#include "wire/stdio_frame.h"
#include <inttypes.h>
#include <stdio.h>

#define PROBE_S 5
#define PENDING_MAX (256 * 1024)
#define READ_AHEAD (256 * 1024)
#define CREDIT_STEP (16 * 1024)
#define FROM_CLIENT (1u << STDIO_STDIN | 1u << STDIO_CONTROL)

struct piping {
	struct exec_tail tail; /* first: the observer's argument */
	struct stdio_parser in;
	uint64_t credit[3]; /* total bytes the client will take, by stream */
	uint64_t stdin_got, stdin_taken, stdin_told;
	bool eof;
	bool broken; /* the client broke the protocol: nothing more is read */
	struct watch *probe;
};

static void piping_left(struct call *call, bool gone)
{
	struct piping *p = call->work;

	watch_free(p->probe);
	stdio_parser_done(&p->in);
	exec_tail_done(&p->tail, gone);
	free(p);
}

static void send_frame(struct piping *p, enum stdio_type type, const void *data, size_t len)
{
	cleanup_buf struct buf out = {0};

	stdio_frame(&out, type, data, len);
	http_stream_write(p->tail.call->req, out.data, out.len);
}

static bool send_output(struct piping *p, int stream)
{
	uint64_t room = p->credit[stream] - p->tail.sent[stream];
	cleanup_buf struct buf raw = {0};

	if (room > 0)
		exec_tail_read(&p->tail, stream, room < TAIL_CHUNK ? room : TAIL_CHUNK, false,
			       &raw);
	if (raw.len == 0)
		return false;
	send_frame(p, stream == 1 ? STDIO_STDOUT : STDIO_STDERR, raw.data, raw.len);
	return true;
}

static void pump(struct piping *p)
{
	struct call *call = p->tail.call;
	const struct buf *result;
	bool more[2] = {true, true};

	if (!p->tail.begun)
		return;
	for (int turn = 0; (more[0] || more[1]) && http_pending(call->req) < PENDING_MAX; turn ^= 1)
		if (more[turn])
			more[turn] = send_output(p, turn + 1);
	if (!p->tail.done || !exec_tail_all_sent(&p->tail))
		return;
	result = exec_tail_result(&p->tail);
	send_frame(p, STDIO_RESULT, result->data, result->len);
	http_stream_end(call->req);
	call_end(call);
}

static void on_drain(struct http_request *req, void *arg)
{
	pump(arg);
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
	p->credit[stream] += (uint64_t)c->credit_bytes;
	if (p->tail.live != NULL)
		command_window(p->tail.live, stream, p->credit[stream] + READ_AHEAD);
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

struct incoming {
	struct piping *p;
	struct err *err;
};

static int on_frame(enum stdio_type type, const uint8_t *data, size_t len, void *arg)
{
	struct incoming *in = arg;
	struct piping *p = in->p;

	if (type == STDIO_CONTROL)
		return on_control(p, (const char *)data, len, in->err);
	if (p->eof && len > 0)
		return err_set(in->err, E_BAD_REQUEST, "stdin", "bytes after the end of stdin");
	if (p->stdin_got + len > p->stdin_taken + 2 * STDIO_WINDOW)
		return err_set(in->err, E_BAD_REQUEST, "stdin",
			       "more bytes than the credit allows");
	p->stdin_got += len;
	if (len == 0)
		end_stdin(p);
	else if (p->tail.live != NULL)
		command_stdin(p->tail.live, data, len, false);
	return 0;
}

/* A client that breaks the protocol is treated as gone: its command gets HUP, and the answer is not
 * sent. */
static void break_off(struct piping *p, const struct err *err)
{
	struct call *call = p->tail.call;
	cleanup_buf struct buf body = {0};

	p->broken = true;
	call_error(call, err, &body);
	send_frame(p, STDIO_RESULT, body.data, body.len);
	if (p->tail.live != NULL)
		command_unobserve(p->tail.live, p, true);
	p->tail.live = NULL;
	http_stream_end(call->req);
	call_end(call);
}

static void send_credit(struct piping *p, uint64_t bytes)
{
	char text[80];
	const int n = snprintf(text, sizeof(text),
			       "{\"credit\":{\"stream\":\"stdin\",\"bytes\":%" PRIu64 "}}", bytes);

	send_frame(p, STDIO_CONTROL, text, (size_t)n);
}

static void on_probe(void *arg)
{
	struct piping *p = arg;

	watch_after(p->probe, PROBE_S * 1000);
	send_credit(p, 0);
}

/* The client has closed its sending side; on a unix socket the kernel tells if it has gone. */
static void on_end(struct piping *p)
{
	struct api *api = p->tail.call->api;

	end_stdin(p);
	if (api->listener_unix[http_tag(p->tail.call->req)])
		return;
	p->probe = watch_timer(api->loop, on_probe, p);
	on_probe(p);
}

static size_t on_data(struct http_request *req, const void *data, size_t n, void *arg)
{
	struct piping *p = arg;
	struct err err = {0};
	struct incoming in = {p, &err};

	if (n == 0)
		on_end(p);
	else if (!p->broken && stdio_parse(&p->in, data, n, FROM_CLIENT, on_frame, &in, &err) < 0)
		break_off(p, &err);
	else
		pump(p);
	return n;
}

/* --- from the command --- */

static void begin(struct piping *p)
{
	struct call *call = p->tail.call;

	if (p->tail.begun)
		return;
	p->tail.begun = true;
	call_begun(call, 101);
	http_upgrade(call->req, STDIO_PROTOCOL, on_data, p);
	http_on_drain(call->req, on_drain, p);
}

static void on_started(struct command *c, void *arg)
{
	struct piping *p = arg;

	begin(p);
	command_window(c, 1, p->credit[1] + READ_AHEAD);
	command_window(c, 2, p->credit[2] + READ_AHEAD);
	pump(p);
}

static void on_output(struct command *c, void *arg)
{
	pump(arg);
}

static void on_taken(struct command *c, uint64_t total, void *arg)
{
	struct piping *p = arg;

	p->stdin_taken = total;
	/* In steps, but whole once everything is taken: a client may wait for the full window. */
	if (total == p->stdin_told || (total - p->stdin_told < CREDIT_STEP && total < p->stdin_got))
		return;
	send_credit(p, total - p->stdin_told);
	p->stdin_told = total;
}

static void on_done(const struct err *err, struct command *c, void *arg)
{
	struct piping *p = arg;

	if (err != NULL && !p->tail.begun) {
		p->tail.live = NULL;
		call_fail(p->tail.call, err);
		return;
	}
	exec_tail_finish(&p->tail, err, c);
	begin(p);
	pump(p);
}

void api_exec_stdio(struct call *call)
{
	struct exec_call r;
	struct err err = {0};
	struct piping *p;

	if (api_exec_call(call, &r, &err) == 0 && (r.request.detach || r.key != NULL))
		err_set(&err, E_BAD_REQUEST, "detach",
			"a stdio stream takes neither detach nor Idempotency-Key");
	if (err.code != E_OK) {
		call_fail(call, &err);
		api_exec_call_done(&r);
		return;
	}
	p = mem_new(struct piping);
	p->tail.call = call;
	p->credit[1] = p->credit[2] = STDIO_WINDOW;
	call->work = p;
	call->work_free = piping_left;
	command_submit(
		call->session, &call->who,
		&(struct command_ask){.request = &r.request, .stdin_open = true, .flow = true},
		&(struct command_observer){.started = on_started,
					   .output = on_output,
					   .stdin_taken = on_taken,
					   .done = on_done,
					   .arg = p},
		&p->tail.live);
	api_exec_call_done(&r);
}
