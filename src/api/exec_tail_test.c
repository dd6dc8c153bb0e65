// SPDX-License-Identifier: Apache-2.0
/* Output at the reader's pace: from a command that runs, and from one that is over. The test is a
 * provider of calls itself: it records the messages and sets how much room there is. */
#include "api/testkit/api_testkit.h"

#define PATH "/api/v1/sessions/s/exec"
#define FULL (1024 * 1024) /* bytes that a slow reader has not taken */

struct heard {
	struct call call; /* first */
	struct rig *r;
	struct fake *f;
	size_t pending;
	int status; /* of the answer, or of the stream's begin; 0: neither */
	struct buf part[CALL_PARTS], body;
	uint64_t at[CALL_PARTS]; /* of the last message */
	bool ended, freed;
};

static const char *param(const struct call *call, const char *name)
{
	return NULL;
}

static void check_params(const struct call *call, struct err *err)
{
}

static int credential(const struct call *call, const char **secret, struct err *err)
{
	*secret = "agent-1";
	return 0;
}

static bool set_peer(struct call *call, const char *name)
{
	return true;
}

static void answer(struct call *call, int status, enum err_code code, const char *type,
		   const struct buf *body)
{
	struct heard *h = (struct heard *)call;

	h->status = status;
	buf_add(&h->body, body->data, body->len);
}

static int stream_begin(struct call *call)
{
	return ((struct heard *)call)->status = 200;
}

static void stream_write(struct call *call, const struct call_message *m)
{
	struct heard *h = (struct heard *)call;

	buf_add(&h->part[m->part], m->data, m->len);
	h->at[m->part] = m->at;
}

static size_t stream_pending(const struct call *call)
{
	return ((const struct heard *)call)->pending;
}

static void stream_end(struct call *call)
{
	((struct heard *)call)->ended = true;
}

static void forget(struct call *call)
{
	((struct heard *)call)->freed = true;
}

static const struct call_provider provider = {
	.param = param,
	.check_params = check_params,
	.credential = credential,
	.set_peer = set_peer,
	.answer = answer,
	.stream_begin = stream_begin,
	.stream_write = stream_write,
	.stream_pending = stream_pending,
	.stream_end = stream_end,
	.free = forget,
};

static const struct method *row_of(const char *rpc)
{
	for (size_t i = 0; i < api_nmethods; i++)
		if (strcmp(api_methods[i].rpc, rpc) == 0)
			return &api_methods[i];
	fail_msg("no method %s", rpc);
	return NULL;
}

/* Calls a method of the session's exec path. */
static void ask(struct heard *h, const char *rpc, const char *body)
{
	const struct method *row = row_of(rpc);
	cleanup_free char *path =
		mem_printf(PATH "%s", strcmp(rpc, "ExecuteStream") == 0 ? "/stream" : "");

	call_init(&h->call, &h->r->api, &provider, NULL);
	h->call.listener = LISTENER_TCP;
	h->call.fd = -1;
	h->call.target = PATH;
	h->call.body = body;
	h->call.body_len = strlen(body);
	assert_true(call_match(&h->call, row, path));
	call_run(&h->call, row);
	kit_turn(h->r->k);
}

static void start(struct heard *h, const char *rpc)
{
	ask(h, rpc, "{\"command\":\"a\"}");
	assert_int_equal(h->status, 0);
	fake_take_exec(h->f);
	fake_start(h->r->k, h->f);
	assert_int_equal(h->status, 200);
}

static int setup(void **state)
{
	struct heard *h = mem_new(struct heard);
	void *rig = NULL;

	rig_setup(&rig);
	h->r = rig;
	h->f = kit_session(h->r->k, "s");
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct heard *h = *state;
	void *rig = h->r;

	sessions_abandon(h->r->k->ss);
	if (h->call.api != NULL && !h->freed)
		call_free(&h->call, true);
	rig_teardown(&rig);
	for (int i = 0; i < CALL_PARTS; i++)
		buf_done(&h->part[i]);
	buf_done(&h->body);
	free(h);
	return 0;
}

static void wrote(struct heard *h, int stream, const char *text)
{
	assert_int_equal(fdio_write_all(h->f->out[stream - 1], text, strlen(text)), 0);
	fake_send(h->r->k, h->f, MSG_warden_output,
		  &(struct warden_output){.command_id = h->f->command});
}

/* What has come of a stream since the last look. */
static void assert_got(struct heard *h, enum call_part part, const char *want)
{
	struct buf *b = &h->part[part];

	assert_int_equal(b->len, strlen(want));
	assert_memory_equal(b->len > 0 ? b->data : "", want, b->len);
	buf_clear(b);
}

static void give_room(struct heard *h, size_t pending)
{
	h->pending = pending;
	h->call.stream->room(&h->call);
}

static void credit(struct heard *h, const char *stream, unsigned bytes)
{
	cleanup_free char *text =
		mem_printf("{\"credit\":{\"stream\":\"%s\",\"bytes\":%u}}", stream, bytes);
	struct err err = {0};

	assert_int_equal(h->call.stream->message(
				 &h->call,
				 &(struct call_message){CALL_CONTROL, 0, text, strlen(text)}, &err),
			 0);
	h->call.stream->room(&h->call);
}

static void exe_6_output_is_read_as_it_comes(void **state)
{
	struct heard *h = *state;

	start(h, "ExecuteStream");
	assert_got(h, CALL_STDOUT, "");
	wrote(h, 1, "one two");
	wrote(h, 2, "three");
	assert_got(h, CALL_STDOUT, "one two");
	assert_got(h, CALL_STDERR, "three");
	assert_int_equal(h->at[CALL_STDERR], 0);
	wrote(h, 1, "!");
	assert_got(h, CALL_STDOUT, "!");
	assert_int_equal(h->at[CALL_STDOUT], 7);
	fake_finish(h->r->k, h->f, 5, "");
	kit_turn(h->r->k);
	assert_true(h->ended && h->freed);
	assert_at(&h->part[CALL_RESULT], "result.exit_code", "5");
}

/* EXE-6: a reader without room gets nothing, and after the command's end the rest. */
static void exe_6_reading_goes_on_after_the_end(void **state)
{
	struct heard *h = *state;

	start(h, "ExecuteStream");
	h->pending = FULL;
	fake_finish(h->r->k, h->f, 0, "0123456789");
	kit_turn(h->r->k);
	assert_false(h->ended);
	assert_got(h, CALL_STDOUT, "");
	assert_got(h, CALL_RESULT, "");
	give_room(h, 0);
	kit_turn(h->r->k);
	assert_got(h, CALL_STDOUT, "0123456789");
	assert_true(h->ended && h->freed);
	assert_at(&h->part[CALL_RESULT], "result.exit_code", "0");
	assert_at(&h->part[CALL_RESULT], "result.stdout", "0123456789");
}

/* EXE-5: a client of a bidirectional stream gets as much as its credit allows. */
static void exe_5_credit_is_the_window(void **state)
{
	struct heard *h = *state;
	cleanup_free char *text = mem_alloc(65536 + 9);

	memset(text, 'x', 65536 + 8);
	memcpy(text + 65536, "01234567", 9);
	start(h, "ExecuteStdio");
	wrote(h, 1, text);
	assert_int_equal(h->part[CALL_STDOUT].len, 65536);
	buf_clear(&h->part[CALL_STDOUT]);
	credit(h, "stdout", 4);
	assert_got(h, CALL_STDOUT, "0123");
	assert_int_equal(h->at[CALL_STDOUT], 65536);
	credit(h, "stderr", 4);
	assert_got(h, CALL_STDOUT, "");
	credit(h, "stdout", 100);
	assert_got(h, CALL_STDOUT, "4567");
}

/* EXE-3: a file that is shorter than what was written to it is an error of the result, not an empty
 * output; a reader of it holds nothing up. */
static void exe_3_a_damaged_file_is_named_in_the_result(void **state)
{
	struct heard *h = *state;
	struct warden_result end;

	start(h, "ExecuteStream");
	wrote(h, 1, "0123");
	h->pending = FULL;
	wrote(h, 1, "456789");
	end = fake_result(h->f, 0, "");
	end.stdout_bytes = end.stdout_kept = 10;
	fake_send(h->r->k, h->f, MSG_warden_result, &end);
	kit_turn(h->r->k);
	assert_int_equal(ftruncate(h->f->out[0], 7), 0);
	assert_got(h, CALL_STDOUT, "0123");
	give_room(h, 0);
	kit_turn(h->r->k);
	assert_got(h, CALL_STDOUT, "");
	assert_true(h->ended);
	assert_at(&h->part[CALL_RESULT], "result.error.code", "E_INTERNAL");
	assert_at(
		&h->part[CALL_RESULT], "result.error.message",
		"the output's file is damaged: it ends at byte 7, and 10 bytes were written to it");
	assert_at(&h->part[CALL_RESULT], "result.exit_code", "0");
}

/* A part of a character waits for the rest; bytes that are not text do not wait. */
static void exe_6_characters_are_kept_whole(void **state)
{
	struct heard *h = *state;
	char *chunk = mem_alloc(32768 + 3);

	start(h, "ExecuteStream");
	wrote(h, 1, "abcd\xc3");
	assert_got(h, CALL_STDOUT, "abcd");
	wrote(h, 1, "\xa4x");
	assert_got(h, CALL_STDOUT, "\xc3\xa4x");
	wrote(h, 1, "abcd\xff\xc3");
	assert_got(h, CALL_STDOUT, "abcd\xff\xc3");
	wrote(h, 1, "\xff");
	assert_got(h, CALL_STDOUT, "\xff");
	memset(chunk, 'a', 32767);
	memcpy(chunk + 32767, "\xe2\x82\xac", 4);
	wrote(h, 1, chunk); /* the end of a message cuts, too */
	assert_got(h, CALL_STDOUT, chunk);
	assert_int_equal(h->at[CALL_STDOUT], 14 + 32767);
	free(chunk);
}

static void exe_6_parts_of_characters_come_where_whole_ones_are_not_asked_for(void **state)
{
	struct heard *h = *state;

	start(h, "ExecuteStdio");
	wrote(h, 1, "\xf0\x9f\x98");
	assert_got(h, CALL_STDOUT, "\xf0\x9f\x98");
}

/* At the end nothing is held back. */
static void exe_6_a_last_part_of_a_character_comes(void **state)
{
	struct heard *h = *state;

	start(h, "ExecuteStream");
	fake_finish(h->r->k, h->f, 0, "abc\xf0\x9f\x98");
	kit_turn(h->r->k);
	assert_got(h, CALL_STDOUT, "abc\xf0\x9f\x98");
	assert_true(h->ended);
}

/* The client leaves: its command gets HUP. */
static void exe_6_leaving(void **state)
{
	struct heard *h = *state;

	start(h, "ExecuteStream");
	kit_recv_nothing(&h->f->link);
	call_free(&h->call, true);
	assert_true(h->freed);
	kit_skip(&h->f->link, MSG_warden_kill);
}

/* API-1: any provider can bring a call; an answer needs no stream. */
static void api_1_a_call_is_answered_without_http(void **state)
{
	struct heard *h = *state;

	ask(h, "Execute", "{\"command\":\"a\"}");
	fake_take_exec(h->f);
	fake_start(h->r->k, h->f);
	assert_int_equal(h->status, 0);
	fake_finish(h->r->k, h->f, 3, "x");
	kit_turn(h->r->k);
	assert_int_equal(h->status, 200);
	assert_at(&h->body, "result.exit_code", "3");
	assert_true(h->freed);
	assert_false(h->ended);
}

static void api_1_a_refusal_comes_before_the_stream(void **state)
{
	struct heard *h = *state;

	ask(h, "ExecuteStream", "{\"command\":\"a\",\"detach\":true}");
	assert_int_equal(h->status, 400);
	assert_at(&h->body, "error.subject", "detach");
	assert_true(h->freed);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_6_output_is_read_as_it_comes),
		TEST(exe_6_reading_goes_on_after_the_end),
		TEST(exe_5_credit_is_the_window),
		TEST(exe_3_a_damaged_file_is_named_in_the_result),
		TEST(exe_6_characters_are_kept_whole),
		TEST(exe_6_parts_of_characters_come_where_whole_ones_are_not_asked_for),
		TEST(exe_6_a_last_part_of_a_character_comes),
		TEST(exe_6_leaving),
		TEST(api_1_a_call_is_answered_without_http),
		TEST(api_1_a_refusal_comes_before_the_stream),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
