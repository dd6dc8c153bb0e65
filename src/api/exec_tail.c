// SPDX-License-Identifier: Apache-2.0
#include "api/exec_tail.h"
#include "base/mem.h"
#include <inttypes.h>
#include <stdio.h>

static const char *const names[] = {[1] = "stdout", [2] = "stderr"};

/* Where the next bytes are: behind a part that was dropped, if there is one at this place. */
static int read_on(struct exec_tail *t, struct command *c, int stream, size_t max, struct buf *out,
		   uint64_t *next, struct err *err)
{
	const size_t before = out->len;
	const uint64_t at = t->sent[stream];
	int r = command_follow(c, stream, at, max, out, next, err);

	if (r < 0 || out->len > before || *next == at)
		return r;
	if (t->gap_stream == 0) {
		t->gap_stream = stream;
		t->gap_from = t->gap_to = at;
	}
	if (t->gap_stream == stream && t->gap_to == at)
		t->gap_to = *next;
	t->sent[stream] = *next;
	return command_follow(c, stream, *next, max, out, next, err);
}

void exec_tail_read(struct exec_tail *t, int stream, size_t max, struct buf *out)
{
	struct command *c = t->live != NULL ? t->live : t->ended;
	const size_t before = out->len;
	uint64_t next = t->sent[stream];
	struct err err = {0};
	size_t got;

	if (c == NULL || t->broken[stream])
		return;
	if (read_on(t, c, stream, max, out, &next, &err) < 0) {
		t->broken[stream] = true;
		if (t->unread.code == E_OK)
			t->unread = err;
		command_has_read(c, t, stream, UINT64_MAX); /* it must not wait for this reader */
		return;
	}
	got = out->len - before;
	if (t->whole && got > 0 && t->live != NULL && json_text_cut(out->data + before, got) == 0)
		got = 0;
	out->len = before + got;
	t->sent[stream] += got;
	command_has_read(c, t, stream, t->sent[stream]);
}

/* One message of at most a chunk; false when there is nothing to send now. */
static bool send_output(struct exec_tail *t, int stream)
{
	const uint64_t room = t->allowed[stream] - t->sent[stream];
	cleanup_buf struct buf raw = {0};

	if (room > 0)
		exec_tail_read(t, stream, room < TAIL_CHUNK ? room : TAIL_CHUNK, &raw);
	if (raw.len == 0)
		return false;
	call_send(t->call, stream == 1 ? CALL_STDOUT : CALL_STDERR, t->sent[stream] - raw.len,
		  raw.data, raw.len);
	return true;
}

void exec_tail_begin(struct exec_tail *t)
{
	if (!t->call->begun)
		call_stream_begin(t->call, t->stream);
}

void exec_tail_pump(void *tail)
{
	struct exec_tail *t = tail;
	const struct buf *result;
	bool more[2] = {true, true}, caught_up;

	if (!t->call->begun)
		return;
	for (int turn = 0; (more[0] || more[1]) && call_has_room(t->call); turn ^= 1)
		if (more[turn])
			more[turn] = send_output(t, turn + 1);
	caught_up = t->feed == NULL || event_feed_pump(t->feed);
	for (int i = 1; i <= 2 && t->ended != NULL; i++)
		if (!t->broken[i] && t->sent[i] < command_bytes(t->ended, i))
			return;
	if (!t->done || !caught_up)
		return;
	result = exec_tail_result(t);
	call_send(t->call, CALL_RESULT, 0, result->data, result->len);
	call_stream_end(t->call);
}

void exec_tail_output(struct command *c, void *tail)
{
	exec_tail_pump(tail);
}

void exec_tail_room(struct call *call)
{
	exec_tail_pump(call->work);
}

void exec_tail_finish(const struct err *err, struct command *c, void *tail)
{
	struct exec_tail *t = tail;

	t->live = NULL;
	if (err != NULL && !t->call->begun) {
		call_fail(t->call, err);
		return;
	}
	t->done = true;
	if (err != NULL) {
		call_error(t->call, err, &t->result);
	} else {
		t->ended = command_ref(c);
		snprintf(t->id, sizeof(t->id), "%s", command_id(c));
	}
	exec_tail_begin(t);
	exec_tail_pump(t);
}

const struct buf *exec_tail_result(struct exec_tail *t)
{
	struct jw w = JW(&t->result);

	if (t->unread.code == E_OK && t->gap_stream != 0)
		err_set(&t->unread, E_RESOURCE_LIMIT, t->id,
			"the bytes %" PRIu64 " to %" PRIu64
			" of %s were dropped: they came behind output.command_quota while this "
			"reader was not attached, or could not be written",
			t->gap_from, t->gap_to - 1, names[t->gap_stream]);
	if (t->ended != NULL)
		command_format_answer(t->ended, t->unread.code != E_OK ? &t->unread : NULL, &w);
	return &t->result;
}

void exec_tail_done(struct exec_tail *t, bool gone)
{
	event_feed_close(t->feed);
	if (gone && t->live != NULL)
		command_unobserve(t->live, t, true);
	if (t->ended != NULL)
		command_unref(t->ended);
	buf_done(&t->result);
}
