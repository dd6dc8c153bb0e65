// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "session/testkit/command_testkit.h"

/* A running command that has written out and err. */
static struct command *running(struct kit *k, const char *out, const char *errors,
			       struct seen_by *o)
{
	const struct exec_request request = kit_request("true");
	struct fake *f = kit_session(k, "s1");
	struct command *c = kit_submit(k, "s1", &request, o);

	fake_take_exec(f);
	assert_int_equal(fdio_write_all(f->out[0], out, strlen(out)), 0);
	assert_int_equal(fdio_write_all(f->out[1], errors, strlen(errors)), 0);
	return c;
}

static struct buf page(struct command *c, int stream, uint64_t offset, uint64_t limit)
{
	struct buf b = {0};
	struct err err = {0};

	assert_int_equal(command_output(c, stream, offset, limit, &JW(&b), &err), 0);
	return b;
}

#define assert_page(c, stream, offset, limit, expected)                                    \
	do {                                                                               \
		cleanup_buf struct buf page_ = page(c, stream, offset, limit);             \
		cleanup_free char *want_ =                                                 \
			mem_printf("{\"command_id\":\"%s\"," expected "}", command_id(c)); \
		assert_string_equal(page_.data, want_);                                    \
	} while (0)

static void exe_3_output_is_read_while_it_grows(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct command *c = running(k, "one\ntwo", "", &o);
	struct fake *f = &k->warden[0];

	assert_int_equal(command_bytes(c, 1), 7);
	assert_int_equal(command_bytes(c, 2), 0);
	assert_page(c, 1, 0, 4,
		    "\"stream\":\"stdout\",\"offset\":0,\"data\":\"one\\n\",\"encoding\":\"text\","
		    "\"total_bytes\":7,\"total_lines\":2,\"kept_bytes\":7,\"next_offset\":4,"
		    "\"complete\":false,"
		    "\"has_more\":true");
	assert_page(c, 1, 7, 4,
		    "\"stream\":\"stdout\",\"offset\":7,\"data\":\"\",\"encoding\":\"text\","
		    "\"total_bytes\":7,\"total_lines\":2,\"kept_bytes\":7,\"next_offset\":7,"
		    "\"complete\":false,"
		    "\"has_more\":true");
	assert_int_equal(fdio_write_all(f->out[0], "\n\n", 2), 0);
	assert_page(c, 1, 7, 4,
		    "\"stream\":\"stdout\",\"offset\":7,\"data\":\"\\n\\n\",\"encoding\":\"text\","
		    "\"total_bytes\":9,\"total_lines\":3,\"kept_bytes\":9,\"next_offset\":9,"
		    "\"complete\":false,"
		    "\"has_more\":true");
}

static void exe_3_paging_ends(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct command *c = running(k, "", "bad", &o);
	struct fake *f = &k->warden[0];
	struct warden_result r = fake_result(f, 0, "abc\n");

	r.stderr_bytes = r.stderr_kept = 3;
	r.stderr_lines = 1;
	fake_send(k, f, MSG_warden_result, &r);
	assert_int_equal(command_get(k->ss, &k->who, NULL, o.id, &c, NULL), 0);
	assert_page(c, 1, 0, 3,
		    "\"stream\":\"stdout\",\"offset\":0,\"data\":\"abc\",\"encoding\":\"text\","
		    "\"total_bytes\":4,\"total_lines\":1,\"kept_bytes\":4,\"next_offset\":3,"
		    "\"complete\":true,"
		    "\"has_more\":true");
	assert_page(c, 1, 3, 3,
		    "\"stream\":\"stdout\",\"offset\":3,\"data\":\"\\n\",\"encoding\":\"text\","
		    "\"total_bytes\":4,\"total_lines\":1,\"kept_bytes\":4,\"next_offset\":4,"
		    "\"complete\":true,"
		    "\"has_more\":false");
	assert_page(c, 1, 99, 3,
		    "\"stream\":\"stdout\",\"offset\":99,\"data\":\"\",\"encoding\":\"text\","
		    "\"total_bytes\":4,\"total_lines\":1,\"kept_bytes\":4,\"next_offset\":99,"
		    "\"complete\":true,"
		    "\"has_more\":false");
	assert_page(c, 2, 0, 9,
		    "\"stream\":\"stderr\",\"offset\":0,\"data\":\"bad\",\"encoding\":\"text\","
		    "\"total_bytes\":3,\"total_lines\":1,\"kept_bytes\":3,\"next_offset\":3,"
		    "\"complete\":true,"
		    "\"has_more\":false");
	assert_int_equal(command_bytes(c, 1), 4);
	assert_int_equal(command_bytes(c, 2), 3);
	kit_seen_done(&o);
}

static void exe_3_bytes_come_raw(void **state)
{
	struct kit *k = *state;
	struct seen_by o = {0};
	struct command *c = running(k,
				    "a\xff"
				    "b",
				    "", &o);
	cleanup_buf struct buf raw = {0};
	struct err err = {0};
	uint64_t next = 0;

	buf_adds(&raw, "before ");
	assert_int_equal(command_follow(c, 1, 1, 1, &raw, &next, &err), 0);
	assert_string_equal(raw.data, "before \xff");
	assert_int_equal(next, 2);
	assert_int_equal(command_follow(c, 1, 1, 100, &raw, &next, &err), 0);
	assert_int_equal(next, 3);
	assert_string_equal(raw.data, "before \xff\xff"
				      "b");
	assert_int_equal(command_output(c, 0, 0, 1, NULL, &err), -E_BAD_REQUEST);
	assert_int_equal(command_output(c, 3, 0, 1, NULL, &err), -E_BAD_REQUEST);
}

static void exe_3_a_waiting_command_has_no_output_yet(void **state)
{
	struct kit *k = *state;
	const struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0};
	struct command *c;

	running(k, "", "", &a);
	c = kit_submit(k, "s1", &request, &b);
	assert_page(c, 1, 0, 4,
		    "\"stream\":\"stdout\",\"offset\":0,\"data\":\"\",\"encoding\":\"text\","
		    "\"total_bytes\":0,\"total_lines\":0,\"kept_bytes\":0,\"next_offset\":0,"
		    "\"complete\":false,"
		    "\"has_more\":true");
	assert_int_equal(command_kill(c, NULL, 0, NULL), 0);
	kit_turn(k);
	assert_int_equal(command_get(k->ss, &k->who, NULL, b.id, &c, NULL), 0);
	assert_page(c, 1, 0, 4,
		    "\"stream\":\"stdout\",\"offset\":0,\"data\":\"\",\"encoding\":\"text\","
		    "\"total_bytes\":0,\"total_lines\":0,\"kept_bytes\":0,\"next_offset\":0,"
		    "\"complete\":true,"
		    "\"has_more\":false");
	kit_seen_done(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_3_output_is_read_while_it_grows),
		TEST(exe_3_paging_ends),
		TEST(exe_3_bytes_come_raw),
		TEST(exe_3_a_waiting_command_has_no_output_yet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
