// SPDX-License-Identifier: Apache-2.0
#include "session/session_testkit.h"
#include <sys/stat.h>
#include <sys/time.h>

static bool has_file(struct kit *k, const char *id)
{
	cleanup_free char *path = mem_printf("s1/%s.out", id);

	return faccessat(k->output_dir, path, F_OK, 0) == 0;
}

static void exe_1_the_next_id_and_its_files_are_made_ahead(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_wish wish = kit_wish("true");
	struct seen_by a = {0}, b = {0}, c = {0};
	char spare[ID_MAX + 1];

	kit_submit(k, "s1", &wish, &a);
	assert_string_equal(kit_get(k, "s1")->spare_id, "");
	fake_run(k, f, 0, "");
	memcpy(spare, kit_get(k, "s1")->spare_id, sizeof(spare));
	assert_memory_equal(spare, "cmd-", 4);
	assert_true(has_file(k, spare));
	wish.command_id = (char *)"chosen";
	kit_submit(k, "s1", &wish, &b);
	fake_run(k, f, 0, "");
	assert_string_equal(kit_get(k, "s1")->spare_id, spare); /* is still there */
	wish.command_id = NULL;
	kit_submit(k, "s1", &wish, &c);
	fake_run(k, f, 0, "out");
	assert_string_equal(c.id, spare);
	assert_at(&c.answer, "result.stdout", "out");
	assert_string_not_equal(kit_get(k, "s1")->spare_id, spare);
	kit_seen_done(&a);
	kit_seen_done(&b);
	kit_seen_done(&c);
}

static ino_t file_inode(struct kit *k, const char *id, const char *ending)
{
	cleanup_free char *path = mem_printf("s1/%s%s", id, ending);
	struct stat st;

	return fstatat(k->output_dir, path, &st, 0) == 0 ? st.st_ino : 0;
}

static void assert_output(struct kit *k, const char *id, const char *text)
{
	struct command *c = NULL;
	cleanup_buf struct buf raw = {0};
	struct err err = {0};

	assert_int_equal(command_get(k->ss, &k->who, kit_get(k, "s1"), id, &c, &err), 0);
	assert_int_equal(command_output(c, 1, 0, 100, NULL, &raw, &err), 0);
	assert_string_equal(raw.data != NULL ? raw.data : "", text);
}

/* EXE-3: a file into which nothing was written is the next command's; nobody reads that one's
 * output as his own. */
static void exe_3_an_empty_file_is_passed_on(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by a = {0}, b = {0};
	ino_t out, errors;

	kit_submit(k, "s1", &wish, &a);
	out = file_inode(k, kit_get(k, "s1")->running->id, ".out");
	errors = file_inode(k, kit_get(k, "s1")->running->id, ".err");
	assert_true(out > 0 && errors > 0);
	fake_run(k, f, 0, "");
	assert_false(has_file(k, a.id));
	assert_int_equal(file_inode(k, kit_get(k, "s1")->spare_id, ".out"), out);
	assert_int_equal(file_inode(k, kit_get(k, "s1")->spare_id, ".err"), errors);
	kit_submit(k, "s1", &wish, &b);
	fake_run(k, f, 0, "secret");
	assert_output(k, a.id, "");
	assert_output(k, b.id, "secret");
	assert_int_equal(file_inode(k, b.id, ".out"), out);
	assert_int_not_equal(file_inode(k, kit_get(k, "s1")->spare_id, ".out"), out);
	assert_int_equal(file_inode(k, kit_get(k, "s1")->spare_id, ".err"), errors);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void exe_3_the_files_of_no_command_go_with_the_session(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_wish wish = kit_wish("true");
	struct seen_by o = {0};
	const struct timespec then[2] = {{1000, 0}, {1000, 0}};
	char spare[ID_MAX + 1];

	kit_submit(k, "s1", &wish, &o);
	fake_run(k, f, 0, "");
	memcpy(spare, kit_get(k, "s1")->spare_id, sizeof(spare));
	assert_int_equal(futimens(kit_get(k, "s1")->spare_fd[0], then), 0);
	assert_int_equal(futimens(kit_get(k, "s1")->spare_fd[1], then), 0);
	sessions_sweep_output(k->ss);
	assert_true(has_file(k, spare));
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &(struct told){0});
	kit_turn(k);
	link_done(&f->link);
	kit_turn(k);
	assert_false(has_file(k, spare));
	kit_seen_done(&o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_1_the_next_id_and_its_files_are_made_ahead),
		TEST(exe_3_an_empty_file_is_passed_on),
		TEST(exe_3_the_files_of_no_command_go_with_the_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
