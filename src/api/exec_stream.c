// SPDX-License-Identifier: Apache-2.0
/* exec/stream: SSE messages stdout, stderr, event, and at the end result. */
#include "api/event_feed.h"
#include "api/exec_tail.h"
#include "base/mem.h"
#include "wire/sse.h"
#include <inttypes.h>
#include <stdio.h>

#define PENDING_MAX (256 * 1024)

struct exec_streaming {
	struct exec_tail tail; /* first: the observer's argument */
	struct event_feed *feed;
};

static void streaming_left(struct call *call, bool gone)
{
	struct exec_streaming *s = call->work;

	event_feed_close(s->feed);
	exec_tail_done(&s->tail, gone);
	free(s);
}

static void send_message(struct exec_streaming *s, const char *name, const char *data, size_t len)
{
	cleanup_buf struct buf out = {0};

	sse_format(&out, NULL, name, data, len);
	http_stream_write(s->tail.call->req, out.data, out.len);
}

static bool can_send(void *arg)
{
	struct exec_streaming *s = arg;

	return s->tail.begun && http_pending(s->tail.call->req) < PENDING_MAX;
}

static void emit(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	send_message(arg, "event", json, len);
}

/* One message of at most a chunk; false when there is nothing to send now. */
static bool send_output(struct exec_streaming *s, int stream)
{
	cleanup_buf struct buf raw = {0};
	cleanup_buf struct buf json = {0};
	struct jw w = JW(&json);
	const char *encoding;

	exec_tail_read(&s->tail, stream, TAIL_CHUNK, true, &raw);
	if (raw.len == 0)
		return false;
	jw_obj(&w);
	jw_kint(&w, "offset", (int64_t)(s->tail.sent[stream] - raw.len));
	jw_key(&w, "data");
	encoding = jw_data(&w, raw.data, raw.len);
	jw_kstr(&w, "encoding", encoding);
	jw_obj_end(&w);
	send_message(s, stream == 1 ? "stdout" : "stderr", json.data, json.len);
	return true;
}

static void pump(struct exec_streaming *s)
{
	struct call *call = s->tail.call;
	const struct buf *result;
	bool more[2] = {true, true}, caught_up;

	if (!s->tail.begun)
		return;
	for (int turn = 0; can_send(s) && (more[0] || more[1]); turn ^= 1)
		if (more[turn])
			more[turn] = send_output(s, turn + 1);
	caught_up = event_feed_pump(s->feed);
	if (!s->tail.done || !exec_tail_all_sent(&s->tail) || !caught_up)
		return;
	result = exec_tail_result(&s->tail);
	send_message(s, "result", result->data, result->len);
	http_stream_end(call->req);
	call_end(call);
}

static void on_drain(struct http_request *req, void *arg)
{
	pump(arg);
}

static void on_answered(void *arg)
{
	pump(arg);
}

static void begin(struct exec_streaming *s)
{
	struct call *call = s->tail.call;

	if (s->tail.begun)
		return;
	s->tail.begun = true;
	call_begin_sse(call);
	http_on_drain(call->req, on_drain, s);
}

static void on_started(struct command *c, void *arg)
{
	begin(arg);
	pump(arg);
}

static void on_output(struct command *c, void *arg)
{
	pump(arg);
}

static void on_done(const struct err *err, struct command *c, void *arg)
{
	struct exec_streaming *s = arg;

	if (err != NULL && !s->tail.begun) {
		s->tail.live = NULL;
		call_fail(s->tail.call, err);
		return;
	}
	exec_tail_finish(&s->tail, err, c);
	begin(s);
	pump(s);
}

void api_exec_stream(struct call *call)
{
	struct exec_call r;
	struct err err = {0};
	struct exec_streaming *s;
	uint64_t last = store_last_seq(call->api->store);

	if (api_exec_call(call, &r, &err) == 0 && r.request.detach)
		err_set(&err, E_BAD_REQUEST, "detach",
			"a stream has no detach: it ends with the command");
	if (err.code != E_OK) {
		call_fail(call, &err);
		api_exec_call_done(&r);
		return;
	}
	if (r.request.command_id ==
	    NULL) { /* chosen here, so that its events can be followed from the first */
		char id[ID_MAX + 1];

		id_make(id, "cmd");
		r.request.command_id = mem_strdup(id);
	}
	s = mem_new(struct exec_streaming);
	s->tail.call = call;
	snprintf(s->tail.id, sizeof(s->tail.id), "%s", r.request.command_id);
	call->work = s;
	call->work_free = streaming_left;
	s->feed = event_feed_open(
		call->api->store, &(struct event_query){.command_id = s->tail.id}, last,
		&(struct event_feed_ops){emit, can_send, on_answered, call->who.agent_id, s});
	command_submit(
		call->session, &call->who,
		&(struct command_ask){
			.request = &r.request, .idempotency_key = r.key, .body_hash = r.hash},
		&(struct command_observer){
			.started = on_started, .output = on_output, .done = on_done, .arg = s},
		&s->tail.live);
	api_exec_call_done(&r);
}
