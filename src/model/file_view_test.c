// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/file_view.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void fill(struct file_view *v)
{
	static const struct file_place places[] = {
		{.path = "/", .alone = true, .open = FILE_OP(stat), .rest = HOLDER_MOUNT},
		{.path = "/tmp", .open = FILE_OPS},
		{.path = "/tmp/hidden", .rest = HOLDER_VIEW},
		{.path = "/tmp/hidden", .alone = true, .open = FILE_OP(stat), .rest = HOLDER_VIEW},
		{.path = "/data",
		 .open = FILE_OP(read),
		 .landlock = FILE_OP(write),
		 .rest = HOLDER_MOUNT},
		{.path = "/home/me/a b", .canonical = "/workspace", .rest = HOLDER_SERVER},
	};

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		file_view_add(v, &places[i]);
}

static void check(const struct file_view *v)
{
	static const struct {
		enum op_file op;
		const char *path;
		enum file_holder want;
	} rows[] = {
		{OP_FILE_stat, "/", HOLDER_NOTHING},
		{OP_FILE_write, "/", HOLDER_MOUNT},
		{OP_FILE_stat, "/srv", HOLDER_VIEW},
		{OP_FILE_write, "/tmp", HOLDER_NOTHING},
		{OP_FILE_write, "/tmp/x/y", HOLDER_NOTHING},
		{OP_FILE_write, "/tmpx", HOLDER_VIEW},
		{OP_FILE_stat, "/tmp/hidden", HOLDER_NOTHING},
		{OP_FILE_read, "/tmp/hidden", HOLDER_VIEW},
		{OP_FILE_stat, "/tmp/hidden/x", HOLDER_VIEW},
		{OP_FILE_read, "/data/x", HOLDER_NOTHING},
		{OP_FILE_write, "/data/x", HOLDER_LANDLOCK},
		{OP_FILE_chmod, "/data/x", HOLDER_MOUNT},
		{OP_FILE_read, "/home/me/a b/c", HOLDER_SERVER},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (file_view_holder(v, rows[i].op, rows[i].path) != rows[i].want)
			fail_msg("%s %s", op_file_name(rows[i].op), rows[i].path);
	assert_true(file_view_served(v));
	assert_string_equal(file_view_find(v, "/home/me/a b")->canonical, "/workspace");
	assert_null(file_view_find(v, "/tmp")->canonical);
}

static void fil_3_a_path_belongs_to_the_innermost_place(void **state)
{
	cleanup_file_view struct file_view view = {0}, other = {0};
	cleanup_strv struct strv packed = {0};
	struct err err = {0};

	fill(&view);
	check(&view);
	fill(&view); /* replaces */
	assert_int_equal(view.n, 6);
	file_view_pack(&view, &packed);
	assert_int_equal(file_view_unpack(&packed, &other, &err), 0);
	check(&other);
	assert_false(file_view_served(&(struct file_view){0}));
}

static void fil_3_bad_places_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"0 0 0 0 4",
		"0 0 0 0 4 tmp/",
		"0 0 0 0 5 /tmp",
		"5 0 0 0 4 /tmp",
		"0 0 16384 0 4 /tmp",
		"0 0 0 99999 4 /tmp",
		"0 0 0 0 3 /tmp",
		"0 0 0 0 0 /tmp",
		"x 0 0 0 4 /tmp",
		"-1 0 0 0 4 /tmp",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_file_view struct file_view view = {0};
		cleanup_strv struct strv list = {0};
		struct err err = {0};

		strv_add(&list, bad[i]);
		if (file_view_unpack(&list, &view, &err) != -E_BAD_REQUEST)
			fail_msg("%s", bad[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_3_a_path_belongs_to_the_innermost_place),
		cmocka_unit_test(fil_3_bad_places_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
