// SPDX-License-Identifier: Apache-2.0
/* POST exec and POST run: a command's result comes as one answer, at the end of a server stream of
 * its output and events, or at the end of a bidirectional stream that carries its input, too.
 *
 * A stream reads output from the file by offset, at the reader's pace: a slow reader costs no
 * memory, and reading goes on after the command has ended. Output that cannot be read is passed
 * over and named in the result.
 *
 * A bidirectional stream has credit in both directions. Output: the client's credit is the window;
 * the warden may write READ_AHEAD bytes more into the file. Input: the client may send STDIO_WINDOW
 * bytes more than the command has taken. */
#include "api/event_feed.h"
#include "api/handlers.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/proc.h"
#include "wire/stdio_frame.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#define KEY_MAX 128
#define CHUNK (32 * 1024)    /* of a message of a server stream */
#define FILE_MIN (16 * 1024) /* fewer bytes are read: one call sends them with their head */
#define READ_AHEAD (256 * 1024)
#define CREDIT_STEP (16 * 1024)

/* ---- the request ---- */

struct exec_call {
	struct exec_request request;
	bool ends_session;	/* run */
	const char *key;	/* Idempotency-Key, borrowed from the call, or NULL */
	uint8_t hash[HASH_LEN]; /* of what the body says, with a key */
};

static int check_key(const char *key, struct err *err)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < len; i++)
		if (!isgraph((unsigned char)key[i]))
			len = 0;
	if (len == 0 || len > KEY_MAX)
		return err_set(err, E_BAD_REQUEST, "Idempotency-Key",
			       "Idempotency-Key must be 1 to %d printable characters, no spaces",
			       KEY_MAX);
	return 0;
}

static int read_call(struct call *call, struct exec_call *out, struct err *err)
{
	const char *id = session_id(call->session);
	json_t *doc = NULL;
	int r = 0;

	*out = (struct exec_call){.key = call_param(call, "Idempotency-Key")};
	if (out->key != NULL)
		r = check_key(out->key, err);
	if (r == 0)
		r = call_json(call, false, &doc, err);
	if (r == 0 && out->key != NULL) {
		/* White space and the order of keys make no difference. */
		char *text = json_dumps(doc, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

		ensure(text != NULL);
		hash_sha256(out->hash, id, strlen(id) + 1, text, strlen(text));
		free(text);
	}
	if (r == 0)
		r = exec_request_read(doc, &out->request, err);
	json_decref(doc);
	return r;
}

static void submit(struct call *call, const struct exec_call *r,
		   const struct command_observer *observer, struct command **out)
{
	const bool stdio = call->method->kind == BIDIRECTIONAL;

	command_submit(call->session, &call->who,
		       &(struct command_ask){.request = &r->request,
					     .idempotency_key = r->key,
					     .body_hash = r->hash,
					     .stdin_open = stdio,
					     .flow = stdio,
					     .ends_session = r->ends_session},
		       observer, out);
}

/* ---- one answer ---- */

static void waiting_left(struct call *call, bool gone)
{
	if (gone && call->command != NULL)
		command_unobserve(call->command, call, true);
}

static void answer_started(const struct err *err, struct command *c, void *arg)
{
	struct call *call = arg;

	call->command = NULL;
	if (err != NULL) {
		call_fail(call, err);
		return;
	}
	command_format(c, &call->w);
	call_reply(call, 202);
}

static void answer_result(const struct err *err, struct command *c, void *arg)
{
	struct call *call = arg;

	call->command = NULL;
	if (err != NULL) {
		call_fail(call, err);
		return;
	}
	command_format_answer(c, NULL, &call->w);
	call_reply(call, 200);
}

/* ---- streams ---- */

struct exec_stream {
	struct call *call;
	bool stdio;		 /* it is bidirectional */
	bool names_session;	 /* run: tell the client which session it has */
	struct event_feed *feed; /* of the command's events; NULL for stdio */
	struct command *live;	 /* while it runs; NULL afterwards */
	struct command *ended;	 /* afterwards, owned; NULL: it was refused */
	char id[ID_MAX + 1];
	uint64_t allowed[3]; /* bytes that the reader takes in all, by stream number */
	uint64_t sent[3];
	bool broken[3];	   /* it cannot be read any more */
	struct err unread; /* why a stream is broken; its code is E_OK if none is */
	int gap_stream;	   /* of the first part that was dropped; 0: none was */
	uint64_t gap_from, gap_to;
	bool done;	   /* there is a result */
	struct buf result; /* of one that was refused */
	uint64_t stdin_got, stdin_taken, stdin_granted;
	bool eof; /* of stdin */
};

static void stream_left(struct call *call, bool gone)
{
	struct exec_stream *s = call->work;

	event_feed_close(s->feed);
	if (gone && s->live != NULL)
		command_unobserve(s->live, s, true);
	if (s->ended != NULL)
		command_unref(s->ended);
	buf_done(&s->result);
	free(s);
}

/* Reads behind what was sent. A part that was dropped at this place is passed over. */
static int read_on(struct exec_stream *s, struct command *c, int stream, size_t max,
		   struct buf *out, struct err *err)
{
	const uint64_t at = s->sent[stream];
	uint64_t next = at;
	const int r = command_follow(c, stream, at, max, out, &next, err);

	if (r < 0 || out->len > 0 || next == at)
		return r;
	if (s->gap_stream == 0) {
		s->gap_stream = stream;
		s->gap_from = s->gap_to = at;
	}
	if (s->gap_stream == stream && s->gap_to == at)
		s->gap_to = next;
	s->sent[stream] = next;
	return command_follow(c, stream, next, max, out, &next, err);
}

/* Leaves a character that is not complete for the next message. live: its rest may still come. */
static void cut_text(struct buf *raw, bool live)
{
	const size_t whole = json_text_cut(raw->data, raw->len);

	if (whole == 0 ? live : (live || raw->len == CHUNK) && json_is_text(raw->data, whole))
		raw->len = whole;
}

/* One message at most; false when there is nothing to send now. raw is scratch. */
static bool send_output(struct exec_stream *s, int stream, struct buf *raw)
{
	struct command *c = s->live != NULL ? s->live : s->ended;
	const uint64_t room = s->allowed[stream] - s->sent[stream];
	const size_t most = s->stdio ? STDIO_FRAME_MAX : CHUNK;
	size_t n = room < most ? (size_t)room : most;
	struct err err = {0};
	int fd;

	buf_clear(raw);
	if (room == 0 || c == NULL || s->broken[stream])
		return false;
	fd = s->stdio ? command_file(c, stream, s->sent[stream], &n) : -1;
	if (fd != -1 && n >= FILE_MIN) {
		call_send_file(s->call, (enum call_part)stream, s->sent[stream], fd, n);
		s->sent[stream] += n;
		command_has_read(c, s, stream, s->sent[stream]);
		return true;
	}
	if (read_on(s, c, stream, n, raw, &err) < 0) {
		s->broken[stream] = true;
		if (s->unread.code == E_OK)
			s->unread = err;
		command_has_read(c, s, stream, UINT64_MAX); /* it must not wait for this reader */
		return false;
	}
	if (!s->stdio)
		cut_text(raw, s->live != NULL);
	if (raw->len > 0)
		call_send(s->call, (enum call_part)stream, s->sent[stream], raw->data, raw->len);
	s->sent[stream] += raw->len;
	command_has_read(c, s, stream, s->sent[stream]);
	return raw->len > 0;
}

/* Ends the call, and with it s. */
static void send_result(struct exec_stream *s)
{
	static const char *const names[] = {[1] = "stdout", [2] = "stderr"};
	struct jw w = JW(&s->result);

	if (s->unread.code == E_OK && s->gap_stream != 0)
		err_set(&s->unread, E_RESOURCE_LIMIT, s->id,
			"the bytes %" PRIu64 " to %" PRIu64
			" of %s were dropped: they came behind output.command_quota while this "
			"reader was not attached, or could not be written",
			s->gap_from, s->gap_to - 1, names[s->gap_stream]);
	if (s->ended != NULL)
		command_format_answer(s->ended, s->unread.code != E_OK ? &s->unread : NULL, &w);
	call_send(s->call, CALL_RESULT, 0, s->result.data, s->result.len);
	call_stream_end(s->call);
}

/* Sends what there is room for; may end the call. */
static void pump(void *arg)
{
	struct exec_stream *s = arg;
	bool more[2] = {true, true}, caught_up;
	cleanup_buf struct buf raw = {0};

	if (!s->call->begun)
		return;
	for (int turn = 0; more[0] || more[1]; turn ^= 1) {
		/* A stdio stream waits for an empty queue: bytes that the socket does not take are
		 * copied. */
		if (s->stdio ? s->call->provider->stream_pending(s->call) > 0
			     : !call_has_room(s->call))
			break;
		if (more[turn])
			more[turn] = send_output(s, turn + 1, &raw);
	}
	caught_up = s->feed == NULL || event_feed_pump(s->feed);
	for (int i = 1; i <= 2 && s->ended != NULL; i++)
		if (!s->broken[i] && s->sent[i] < command_bytes(s->ended, i))
			return;
	if (s->done && caught_up)
		send_result(s);
}

/* ---- from the client ---- */

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

static void on_end(struct call *call)
{
	struct exec_stream *s = call->work;

	if (s->eof)
		return;
	s->eof = true;
	if (s->live != NULL)
		command_stdin(s->live, NULL, 0, true);
}

static int grant(struct exec_stream *s, const struct control *c, struct err *err)
{
	const int stream = c->credit_stream == NULL		     ? 0
			   : strcmp(c->credit_stream, "stdout") == 0 ? 1
			   : strcmp(c->credit_stream, "stderr") == 0 ? 2
								     : 0;

	if (stream == 0)
		return err_set(err, E_BAD_REQUEST, "credit", "credit is for stdout or stderr");
	s->allowed[stream] += (uint64_t)c->credit_bytes;
	if (s->live != NULL)
		command_window(s->live, stream, s->allowed[stream] + READ_AHEAD);
	return 0;
}

static int on_control(struct exec_stream *s, const char *text, size_t len, struct err *err)
{
	struct control c = {0};
	json_t *doc = NULL;
	int r = json_parse(text, len, &doc, err);

	if (r == 0)
		r = json_read(doc, control_table, &c, err);
	if (r == 0 && c.credit_bytes > 0)
		r = grant(s, &c, err);
	if (r == 0 && c.signal != NULL && s->live != NULL) {
		int sig = proc_signal_by_name(c.signal);

		if (sig < 0)
			r = err_set(err, E_BAD_REQUEST, "signal", "no signal '%s'", c.signal);
		else
			r = command_signal(s->live, sig, 0, true, err);
	}
	if (r == 0 && c.eof)
		on_end(s->call);
	json_read_done(control_table, &c);
	json_decref(doc);
	return r;
}

static int on_message(struct call *call, const struct call_message *m, struct err *err)
{
	struct exec_stream *s = call->work;

	if (m->part == CALL_CONTROL)
		return on_control(s, m->data, m->len, err);
	if (s->eof && m->len > 0)
		return err_set(err, E_BAD_REQUEST, "stdin", "bytes after the end of stdin");
	if (s->stdin_got + m->len > s->stdin_taken + 2 * STDIO_WINDOW)
		return err_set(err, E_BAD_REQUEST, "stdin", "more bytes than the credit allows");
	s->stdin_got += m->len;
	if (m->len == 0)
		on_end(call);
	else if (s->live != NULL)
		command_stdin(s->live, m->data, m->len, false);
	return 0;
}

/* A client that breaks the protocol counts as gone: its command gets HUP, and no result is sent. */
static void on_broken(struct call *call, const struct err *err)
{
	struct exec_stream *s = call->work;

	call_error(call, err, &call->reply);
	call_send(call, CALL_RESULT, 0, call->reply.data, call->reply.len);
	if (s->live != NULL)
		command_unobserve(s->live, s, true);
	s->live = NULL;
	call_stream_end(call);
}

static void on_room(struct call *call)
{
	pump(call->work);
}

/* ---- from the command ---- */

/* The session goes ahead of the output: its client may want to say something about the policy. */
static void send_session(struct call *call, struct command *c)
{
	cleanup_buf struct buf text = {0};
	struct jw w = JW(&text);

	jw_obj(&w);
	jw_key(&w, "session");
	command_format_session(c, &w);
	jw_obj_end(&w);
	call_send(call, CALL_CONTROL, 0, text.data, text.len);
}

static void begin(struct exec_stream *s, struct command *c)
{
	static const struct call_stream stream = {on_room, on_message, on_end, on_broken};

	if (s->call->begun)
		return;
	call_stream_begin(s->call, &stream);
	if (s->names_session)
		send_session(s->call, c);
}

static void on_started(struct command *c, void *arg)
{
	struct exec_stream *s = arg;

	begin(s, c);
	for (int i = 1; i <= 2 && s->stdio; i++)
		command_window(c, i, s->allowed[i] + READ_AHEAD);
	pump(s);
}

static void on_output(struct command *c, void *arg)
{
	pump(arg);
}

static void on_taken(struct command *c, uint64_t total, void *arg)
{
	struct exec_stream *s = arg;
	const uint64_t more = total - s->stdin_granted;
	char text[80];
	int n;

	s->stdin_taken = total;
	/* In steps, but whole once everything is taken: a client may wait for the full window. */
	if (more == 0 || (more < CREDIT_STEP && total < s->stdin_got))
		return;
	n = snprintf(text, sizeof(text),
		     "{\"credit\":{\"stream\":\"stdin\",\"bytes\":%" PRIu64 "}}", more);
	call_send(s->call, CALL_CONTROL, 0, text, (size_t)n);
	s->stdin_granted = total;
}

/* Answers the call if the stream has not begun, else goes on to the end. */
static void on_done(const struct err *err, struct command *c, void *arg)
{
	struct exec_stream *s = arg;

	s->live = NULL;
	if (err != NULL && !s->call->begun) {
		call_fail(s->call, err);
		return;
	}
	s->done = true;
	if (err != NULL) {
		call_error(s->call, err, &s->result);
	} else {
		s->ended = command_ref(c);
		snprintf(s->id, sizeof(s->id), "%s", command_id(c));
	}
	begin(s, c);
	pump(s);
}

/* ---- the command's events ---- */

static bool can_send(void *arg)
{
	struct exec_stream *s = arg;

	return s->call->begun && call_has_room(s->call);
}

static void emit(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct exec_stream *s = arg;

	call_send(s->call, CALL_EVENT, seq, json, len);
}

/* The id is chosen here, so that the command's events can be followed from the first. */
static void follow_events(struct exec_stream *s, struct exec_request *request)
{
	struct store *store = s->call->api->store;

	if (request->command_id == NULL) {
		id_make(s->id, "cmd");
		request->command_id = mem_strdup(s->id);
	}
	snprintf(s->id, sizeof(s->id), "%s", request->command_id);
	s->feed = event_feed_open(
		store, &(struct event_query){.command_id = s->id}, store_last_seq(store),
		&(struct event_feed_ops){emit, can_send, pump, s->call->who.agent_id, s});
}

static void stream_run(struct call *call, struct exec_call *r)
{
	struct exec_stream *s = mem_new(struct exec_stream);

	s->call = call;
	s->stdio = call->method->kind == BIDIRECTIONAL;
	s->names_session = s->stdio && r->ends_session;
	s->allowed[1] = s->allowed[2] = s->stdio ? STDIO_WINDOW : UINT64_MAX;
	call->work = s;
	call->work_free = stream_left;
	if (!s->stdio)
		follow_events(s, &r->request);
	submit(call, r, &(struct command_observer){on_started, on_output, on_taken, on_done, s},
	       &s->live);
}

static int check_call(const struct call *call, const struct exec_call *r, struct err *err)
{
	const enum method_kind kind = call->method->kind;

	if (kind == BIDIRECTIONAL && (r->request.detach || r->key != NULL))
		return err_set(err, E_BAD_REQUEST, "detach",
			       "a stdio stream takes neither detach nor Idempotency-Key");
	if ((kind == SERVER_STREAM || r->request.stream_output) && r->request.detach)
		return err_set(err, E_BAD_REQUEST, "detach",
			       "a stream has no detach: it ends with the command");
	return 0;
}

static void start(struct call *call, struct exec_call *r)
{
	if (call->method->kind != UNARY || r->request.stream_output) {
		stream_run(call, r);
		return;
	}
	call->work_free = waiting_left;
	submit(call, r,
	       &(struct command_observer){
		       .done = r->request.detach ? answer_started : answer_result, .arg = call},
	       &call->command);
}

void api_exec(struct call *call)
{
	struct exec_call r;
	struct err err = {0};

	if (read_call(call, &r, &err) < 0 || check_call(call, &r, &err) < 0)
		call_fail(call, &err);
	else
		start(call, &r);
	exec_request_done(&r.request);
}

/* ---- run: a session for one command ---- */

static int read_run(struct call *call, struct exec_call *out, struct session_request *session,
		    struct err *err)
{
	json_t *doc = NULL, *asked;
	int r = call_json(call, false, &doc, err);

	*out = (struct exec_call){.ends_session = true};
	asked = json_object_get(doc, "session");
	if (r == 0 && call_param(call, "Idempotency-Key") != NULL)
		r = err_set(err, E_BAD_REQUEST, "Idempotency-Key",
			    "run takes no Idempotency-Key: create a session, and execute in it");
	if (r == 0 && !json_is_object(asked)) {
		err_detail(err, "session", "an object with the session's workspace is needed");
		r = err_from_details(err, NULL);
	}
	if (r == 0)
		r = session_request_read(asked, session, err);
	if (r == 0) {
		json_object_del(doc, "session");
		r = exec_request_read(doc, &out->request, err);
	}
	json_decref(doc);
	return r == 0 ? check_call(call, out, err) : r;
}

static void ignore(const struct err *err, struct session *s, void *arg)
{
}

static void run_left(struct call *call, bool gone)
{
	struct exec_call *r = call->work;

	exec_request_done(&r->request);
	free(r);
}

static void run_made(const struct err *err, struct session *s, void *arg)
{
	struct call *call = arg;
	struct exec_call *r;

	if (call->gone && s != NULL)
		session_destroy(s, &call->who, SESSION_BY_REQUEST, ignore, NULL);
	if (!call_resume(call))
		return;
	r = take(call->work);
	call->work_free = NULL;
	if (err == NULL) {
		call->session = s;
		start(call, r);
	} else if (!api_create_again(call, err)) {
		call_fail(call, err);
	}
	exec_request_done(&r->request);
	free(r);
}

void api_run(struct call *call)
{
	struct session_request session = {0};
	struct err err = {0};

	call->work = mem_new(struct exec_call);
	call->work_free = run_left;
	if (read_run(call, call->work, &session, &err) < 0)
		call_fail(call, &err);
	else
		session_create(call->api->sessions, &call->who, &session, run_made,
			       call_wait(call));
	session_request_done(&session);
}
