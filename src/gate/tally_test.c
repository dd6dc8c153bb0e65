// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "gate/tally.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static int make(void **state)
{
	*state = tally_new();
	return 0;
}

static int unmake(void **state)
{
	tally_free(*state);
	tally_free(NULL);
	return 0;
}

static struct actor actor_of(const char *command)
{
	struct actor a = {.pid = 1};

	snprintf(a.command_id, sizeof(a.command_id), "%s", command);
	return a;
}

static bool allows(struct tally *t, const char *command)
{
	const struct actor a = actor_of(command);

	return tally_allows(t, &a);
}

static void settle(struct tally *t, const char *command, const char *path, enum gate_outcome how,
		   int error)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_open, path}};
	const struct gate_case k = {.op = &op, .actor = actor_of(command)};
	const struct gate_report r = {.outcome = how, .error = error};

	tally_settled(t, &k, &r);
}

static void ses_5_the_limit_counts_operations_of_all_commands(void **state)
{
	struct tally *t = *state;
	enum tally_limit limit = TALLY_LIMITS;
	char id[ID_MAX + 1];

	tally_limit(t, 3);
	settle(t, "a", "/x", GATE_DONE, 0);
	settle(t, "b", "/x", GATE_REFUSED, EACCES);
	assert_true(allows(t, "a"));
	settle(t, "", "/x", GATE_DONE, 0); /* one without a command counts, too */
	assert_false(tally_next_over(t, id, &limit));
	assert_false(allows(t, "a"));
	assert_false(allows(t, "a"));
	assert_false(allows(t, ""));
	assert_true(tally_next_over(t, id, &limit)); /* once */
	assert_string_equal(id, "a");
	assert_false(tally_next_over(t, id, &limit));
	assert_false(allows(t, "b"));
	assert_true(tally_next_over(t, id, &limit));
	assert_string_equal(id, "b");
	tally_limit(t, 4);
	assert_true(allows(t, "a"));
	tally_limit(t, 0);
	settle(t, "a", "/x", GATE_DONE, 0);
	assert_true(allows(t, "a"));
}

static void ses_5_each_limit_that_a_command_meets_is_told_once(void **state)
{
	const struct actor a = actor_of("a"), none = actor_of("");
	enum tally_limit limit = TALLY_LIMITS;
	struct tally *t = *state;
	char id[ID_MAX + 1];

	tally_over(t, &none, TALLY_max_disk_mb);
	assert_false(tally_has_over(t));
	for (int i = 0; i < 2; i++) {
		tally_over(t, &a, TALLY_max_disk_mb);
		assert_int_equal(tally_has_over(t), i == 0);
		assert_int_equal(tally_next_over(t, id, &limit), i == 0);
		assert_int_equal(limit, TALLY_max_disk_mb);
		assert_false(tally_next_over(t, id, &limit));
	}
	tally_over(t, &a, TALLY_max_file_ops);
	assert_true(tally_next_over(t, id, &limit));
	assert_int_equal(limit, TALLY_max_file_ops);
	assert_false(tally_next_over(t, id, &limit));
	assert_false(tally_has_over(t));
}

static void exe_2_the_last_failure_of_each_command(void **state)
{
	struct tally *t = *state;
	char *path = NULL;

	assert_int_equal(tally_forget(t, "a", &path), 0);
	assert_null(path);
	settle(t, "a", "/1", GATE_FAILED, ENOENT);
	settle(t, "b", "/2", GATE_FAILED, ENOTDIR);
	settle(t, "a", "/3", GATE_FAILED, ENOSPC);
	settle(t, "a", "/4", GATE_REFUSED, EACCES); /* a denial, which is another thing */
	settle(t, "a", "/5", GATE_DONE, 0);
	assert_int_equal(tally_forget(t, "a", &path), ENOSPC);
	assert_string_equal(path, "/3");
	free(path);
	assert_int_equal(tally_forget(t, "a", &path), 0);
	assert_int_equal(tally_forget(t, "b", &path), ENOTDIR);
	assert_string_equal(path, "/2");
	free(path);
}

static void make_name(struct tally *t, const char *command, enum event_type type, const char *path,
		      const char *to)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_create, path}};
	const struct gate_case k = {.op = &op, .actor = actor_of(command)};
	const struct gate_report r = {.outcome = GATE_DONE, .type = type, .to = to};

	tally_settled(t, &k, &r);
}

static void exe_2_a_look_up_before_a_creation_is_not_a_failure(void **state)
{
	struct tally *t = *state;
	char *path = NULL;

	settle(t, "a", "/new", GATE_FAILED, ENOENT);
	make_name(t, "a", EVENT_file_create, "/new", NULL);
	assert_int_equal(tally_forget(t, "a", &path), 0);
	/* what failed before is the last failure again */
	settle(t, "a", "/missing", GATE_FAILED, ENOENT);
	settle(t, "a", "/new", GATE_FAILED, ENOENT);
	make_name(t, "a", EVENT_dir_create, "/new", NULL);
	settle(t, "a", "/to", GATE_FAILED, ENOENT);
	settle(t, "a", "/to", GATE_FAILED, ENOENT);
	make_name(t, "a", EVENT_file_rename, "/from", "/to");
	/* another name, another error and another command */
	make_name(t, "a", EVENT_file_create, "/other", NULL);
	make_name(t, "b", EVENT_file_create, "/missing", NULL);
	assert_int_equal(tally_forget(t, "a", &path), ENOENT);
	assert_string_equal(path, "/missing");
	free(path);
	settle(t, "a", "/full", GATE_FAILED, ENOSPC);
	make_name(t, "a", EVENT_file_create, "/full", NULL);
	assert_int_equal(tally_forget(t, "a", &path), ENOSPC);
	free(path);
}

static void fil_2_open_files_by_command(void **state)
{
	struct tally *t = *state;
	const struct actor a = actor_of("a"), b = actor_of("b"), none = actor_of("");
	char *path = NULL;

	tally_opened(t, &a);
	tally_opened(t, &a);
	tally_opened(t, &b);
	tally_opened(t, &none);
	tally_closed(t, &none);
	assert_int_equal(tally_open_files(t, "a"), 2);
	tally_closed(t, &a);
	assert_int_equal(tally_open_files(t, "a"), 1);
	assert_int_equal(tally_open_files(t, "b"), 1);
	tally_forget(t, "a", &path);
	assert_int_equal(tally_open_files(t, "a"), 0);
	tally_closed(t, &a); /* a late one */
	assert_int_equal(tally_open_files(t, "a"), 0);
	assert_int_equal(tally_open_files(t, ""), 0);
}

static void fil_2_commands_that_come_back_do_not_pile_up(void **state)
{
	struct tally *t = *state;
	char id[16], *path = NULL;

	for (int i = 0; i < 1000; i++) {
		snprintf(id, sizeof(id), "c%d", i);
		settle(t, id, "/x", GATE_FAILED, ENOENT);
		settle(t, "busy", "/y", GATE_FAILED, ENOENT);
	}
	assert_int_equal(tally_forget(t, "c0", &path), 0);
	assert_int_equal(tally_forget(t, "c999", &path), ENOENT);
	free(path);
	assert_int_equal(tally_forget(t, "busy", &path), ENOENT);
	free(path);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_5_the_limit_counts_operations_of_all_commands),
		TEST(ses_5_each_limit_that_a_command_meets_is_told_once),
		TEST(exe_2_the_last_failure_of_each_command),
		TEST(exe_2_a_look_up_before_a_creation_is_not_a_failure),
		TEST(fil_2_open_files_by_command),
		TEST(fil_2_commands_that_come_back_do_not_pile_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
