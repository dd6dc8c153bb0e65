// SPDX-License-Identifier: Apache-2.0
/* Output at the reader's pace: from a command that runs, and from one that is over. */
#include "api/api_testkit.h"
#include "api/exec_tail.h"

/* A command that has been taken by its warden, and its reader. */
struct tailed {
	struct rig *r;
	struct fake *f;
	struct seen_by seen;
	struct call call;
	struct exec_tail tail;
};

static int setup(void **state)
{
	struct tailed *t = mem_new(struct tailed);
	const struct exec_request request = kit_request("a");
	void *rig = NULL;

	rig_setup(&rig);
	t->r = rig;
	t->f = kit_session(t->r->k, "s");
	t->call = (struct call){.api = &t->r->api, .who = t->r->k->who};
	t->tail = (struct exec_tail){.call = &t->call,
				     .live = kit_submit(t->r->k, "s", &request, &t->seen)};
	snprintf(t->tail.id, sizeof(t->tail.id), "%s", command_id(t->tail.live));
	fake_take_exec(t->f);
	fake_start(t->r->k, t->f);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct tailed *t = *state;
	void *rig = t->r;

	exec_tail_done(&t->tail, false);
	kit_seen_done(&t->seen);
	rig_teardown(&rig);
	free(t);
	return 0;
}

static void wrote(struct tailed *t, int stream, const char *text)
{
	assert_int_equal(fdio_write_all(t->f->out[stream - 1], text, strlen(text)), 0);
}

static void ended(struct tailed *t)
{
	struct command *c = NULL;

	assert_int_equal(command_get(t->r->k->ss, &t->r->k->who, NULL, t->tail.id, &c, NULL), 0);
	exec_tail_finish(&t->tail, NULL, c);
	assert_true(t->tail.done);
	assert_null(t->tail.live);
}

static void finish(struct tailed *t)
{
	fake_finish(t->r->k, t->f, 0, "");
	assert_int_equal(t->seen.done, 1);
	ended(t);
}

static void assert_read(struct tailed *t, int stream, size_t max, bool whole, const char *want)
{
	cleanup_buf struct buf out = {0};

	buf_adds(&out, "before ");
	exec_tail_read(&t->tail, stream, max, whole, &out);
	assert_int_equal(t->tail.unread.code, E_OK);
	assert_int_equal(out.len, strlen("before ") + strlen(want));
	assert_memory_equal(out.data + strlen("before "), want, strlen(want));
}

static void exe_6_output_is_read_as_it_comes(void **state)
{
	struct tailed *t = *state;

	assert_read(t, 1, 100, false, "");
	wrote(t, 1, "one two");
	wrote(t, 2, "three");
	assert_read(t, 1, 4, false, "one ");
	assert_read(t, 1, 100, false, "two");
	assert_read(t, 1, 100, false, "");
	assert_read(t, 2, 100, false, "three");
	assert_int_equal(t->tail.sent[1], 7);
	assert_int_equal(t->tail.sent[2], 5);
	wrote(t, 1, "!");
	assert_read(t, 1, 100, false, "!");
	assert_int_equal(t->tail.sent[1], 8);
	finish(t);
}

static void exe_6_reading_goes_on_after_the_end(void **state)
{
	struct tailed *t = *state;
	const struct warden_result end = fake_result(t->f, 0, "0123456789");

	assert_read(t, 1, 4, false, "0123");
	fake_send(t->r->k, t->f, MSG_warden_result, &end);
	ended(t);
	kit_turn(t->r->k);
	assert_read(t, 1, 4, false, "4567");
	assert_false(exec_tail_all_sent(&t->tail));
	assert_read(t, 1, 4, false, "89");
	assert_true(exec_tail_all_sent(&t->tail));
	assert_read(t, 1, 4, false, "");
}

/* EXE-3: a file that is shorter than what was written to it is an error of the result, not an empty
 * output; a reader of it holds nothing up. */
static void exe_3_a_damaged_file_is_named_in_the_result(void **state)
{
	struct tailed *t = *state;
	const struct warden_result end = fake_result(t->f, 0, "0123456789");
	cleanup_buf struct buf out = {0};
	const struct buf *result;

	assert_read(t, 1, 4, false, "0123");
	fake_send(t->r->k, t->f, MSG_warden_result, &end);
	ended(t);
	assert_int_equal(ftruncate(t->f->out[0], 7), 0);
	exec_tail_read(&t->tail, 1, 100, false, &out);
	assert_int_equal(out.len, 0);
	assert_int_equal(t->tail.unread.code, E_INTERNAL);
	assert_true(exec_tail_all_sent(&t->tail));
	result = exec_tail_result(&t->tail);
	assert_at(result, "result.error.code", "E_INTERNAL");
	assert_at(
		result, "result.error.message",
		"the output's file is damaged: it ends at byte 7, and 10 bytes were written to it");
	assert_at(result, "result.exit_code", "0");
}

/* A character that has come in part waits for its rest; bytes that are no text wait for nothing. */
static void exe_6_characters_are_kept_whole(void **state)
{
	struct tailed *t = *state;

	wrote(t, 1, "abcd\xc3");
	assert_read(t, 1, 100, true, "abcd");
	assert_read(t, 1, 100, true, "");
	wrote(t, 1, "\xa4x");
	assert_read(t, 1, 100, true, "\xc3\xa4x");
	wrote(t, 1, "\xe2\x82\xac\xe2\x82\xac");
	assert_read(t, 1, 5, true, "\xe2\x82\xac"); /* the limit cuts, too */
	assert_read(t, 1, 5, true, "\xe2\x82\xac");
	wrote(t, 1, "abcd\xff\xc3");
	assert_read(t, 1, 100, true, "abcd\xff\xc3");
	wrote(t, 1, "\xff");
	assert_read(t, 1, 100, true, "\xff");
	finish(t);
}

static void exe_6_parts_of_characters_come_where_whole_ones_are_not_asked_for(void **state)
{
	struct tailed *t = *state;

	wrote(t, 1, "\xf0\x9f\x98");
	assert_read(t, 1, 100, false, "\xf0\x9f\x98");
	finish(t);
}

/* At the end nothing is held back. */
static void exe_6_a_last_part_of_a_character_comes(void **state)
{
	struct tailed *t = *state;
	const struct warden_result end = fake_result(t->f, 0, "abc\xf0\x9f\x98");

	assert_read(t, 1, 100, true, "abc");
	assert_read(t, 1, 100, true, "");
	fake_send(t->r->k, t->f, MSG_warden_result, &end);
	ended(t);
	assert_read(t, 1, 100, true, "\xf0\x9f\x98");
}

static void exe_6_the_answer_is_kept(void **state)
{
	struct tailed *t = *state;
	const struct buf *result;

	fake_finish(t->r->k, t->f, 5, "x");
	ended(t);
	result = exec_tail_result(&t->tail);
	assert_at(result, "result.exit_code", "5");
	assert_at(result, "result.stdout", "x");
}

/* The reader leaves: its command is told only if it was the client that went. */
static void exe_6_leaving(void **state)
{
	struct tailed *t = *state;
	struct command *c = t->tail.live;
	const struct command_observer obs = {.arg = &t->tail};

	command_unobserve(c, &t->seen, false);
	kit_skip(&t->f->link, MSG_warden_window); /* no reader is left */
	kit_skip(&t->f->link, MSG_warden_window);
	command_add_observer(c, &obs);
	exec_tail_done(&t->tail, false);
	kit_recv_nothing(&t->f->link);
	exec_tail_done(&t->tail, true);
	kit_skip(&t->f->link, MSG_warden_kill);
	t->tail.live = NULL;
	exec_tail_done(&t->tail, true); /* over: nothing to tell */
	kit_recv_nothing(&t->f->link);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_6_output_is_read_as_it_comes),
		TEST(exe_6_reading_goes_on_after_the_end),
		TEST(exe_3_a_damaged_file_is_named_in_the_result),
		TEST(exe_6_characters_are_kept_whole),
		TEST(exe_6_parts_of_characters_come_where_whole_ones_are_not_asked_for),
		TEST(exe_6_a_last_part_of_a_character_comes),
		TEST(exe_6_the_answer_is_kept),
		TEST(exe_6_leaving),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
