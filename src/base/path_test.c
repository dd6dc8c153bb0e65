// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/path.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void sbx_1_a_path_lies_in_a_directory(void **state)
{
	static const struct {
		const char *path, *dir;
		bool within, overlap;
	} rows[] = {
		{"/a", "/a", true, true},	{"/a/b", "/a", true, true},
		{"/a/b/c", "/a", true, true},	{"/a", "/a/b", false, true},
		{"/ab", "/a", false, false},	{"/a", "/ab", false, false},
		{"/a/b", "/a/c", false, false}, {"/", "/", true, true},
		{"/a", "/", true, true},	{"/", "/a", false, true},
		{"/b/a", "/a", false, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(path_within(rows[i].path, rows[i].dir), rows[i].within);
		assert_int_equal(path_overlap(rows[i].path, rows[i].dir), rows[i].overlap);
		assert_int_equal(path_overlap(rows[i].dir, rows[i].path), rows[i].overlap);
	}
}

static void sbx_1_a_path_is_cleaned_by_its_letters(void **state)
{
	static const struct {
		const char *base, *path, *clean;
	} rows[] = {
		{"/w", "a", "/w/a"},
		{"/w", "/a", "/a"},
		{"/w", "", "/w"},
		{"/w", ".", "/w"},
		{"/w", "..", "/"},
		{"/w", "../..", "/"},
		{"/", "a//b/./c/", "/a/b/c"},
		{"/w", "/a/../b", "/b"},
		{"/w", "...", "/w/..."},
		{"/w", "/", "/"},
		{"/w/x", "../.a", "/w/.a"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *got = path_clean(rows[i].base, rows[i].path);

		assert_string_equal(got, rows[i].clean);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_1_a_path_lies_in_a_directory),
		cmocka_unit_test(sbx_1_a_path_is_cleaned_by_its_letters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
