// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"
#include "base/mem.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void api_1_every_code_has_a_row_and_a_name(void **state)
{
	for (int c = E_OK; c < E_CODES; c++) {
		const struct err_row *row = err_row((enum err_code)c);

		assert_non_null(row->name);
		assert_non_null(row->text);
		if (c != E_OK)
			assert_int_equal(err_code_by_name(row->name), c);
	}
	assert_string_equal(err_row(E_SESSION_NOT_FOUND)->name, "E_SESSION_NOT_FOUND");
	assert_int_equal(err_row(E_SESSION_NOT_FOUND)->http, 404);
	assert_int_equal(err_row(E_SESSION_NOT_FOUND)->grpc, 5);
	assert_int_equal(err_row(E_COMMAND_TIMEOUT)->exit, 124);
	assert_int_equal(err_row(E_OK)->http, 200);
}

static void api_1_unknown_codes_are_internal(void **state)
{
	assert_ptr_equal(err_row(E_CODES), err_row(E_INTERNAL));
	assert_ptr_not_equal(err_row(E_CODES - 1), err_row(E_INTERNAL));
	assert_ptr_equal(err_row((enum err_code) - 1), err_row(E_INTERNAL));
	assert_int_equal(err_code_by_name("E_NOPE"), E_INTERNAL);
	assert_int_equal(err_code_by_name("E_OK"), E_INTERNAL);
	assert_int_equal(err_code_by_name(""), E_INTERNAL);
	assert_int_equal(err_code_by_name(NULL), E_INTERNAL);
}

static void api_1_set_fills_and_returns_the_code(void **state)
{
	struct err err = {0};

	assert_int_equal(err_set(&err, E_NOT_FOUND, "x", "no %s", "x"), -E_NOT_FOUND);
	assert_int_equal(err.code, E_NOT_FOUND);
	assert_string_equal(err.subject, "x");
	assert_string_equal(err.message, "no x");
	assert_int_equal(err_set(&err, E_CONFLICT, err.subject, "again: %s", err.message),
			 -E_CONFLICT);
	assert_string_equal(err.subject, "x");
	assert_string_equal(err.message, "again: no x");
	assert_int_equal(err_set(&err, E_CONFLICT, NULL, "z"), -E_CONFLICT);
	assert_string_equal(err.subject, "");
	assert_int_equal(err_set(NULL, E_CONFLICT, NULL, "z"), -E_CONFLICT);
	assert_int_equal(err_errno(NULL, E_CONFLICT, NULL, "z"), -E_CONFLICT);
}

static void api_1_long_texts_are_cut(void **state)
{
	struct err err = {0};
	char text[2000];

	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	err_set(&err, E_INTERNAL, text, "%s", text);
	assert_int_equal(strlen(err.subject), sizeof(err.subject) - 1);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	errno = ENOENT;
	err_errno(&err, E_INTERNAL, text, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	err_detail(&err, text, "%s", text);
	assert_int_equal(strlen(err.details[0].field), sizeof(err.details[0].field) - 1);
	assert_int_equal(strlen(err.details[0].problem), sizeof(err.details[0].problem) - 1);
}

static void api_1_errno_is_told_and_kept(void **state)
{
	struct err err = {0};

	errno = ENOENT;
	assert_int_equal(err_errno(&err, E_INTERNAL, "p", "open %s", "p"), -E_INTERNAL);
	assert_string_equal(err.message, "open p: No such file or directory");
	assert_int_equal(errno, ENOENT);
}

static void api_1_details_become_one_error(void **state)
{
	struct err err = {0};

	assert_int_equal(err_from_details(NULL, NULL), 0);
	err_detail(NULL, "a", "is ignored");
	assert_int_equal(err_from_details(&err, "s"), 0);
	assert_int_equal(err.code, E_OK);

	err_detail(&err, "timeout", "not a duration: '%s'", "abc");
	assert_int_equal(err_from_details(&err, "s"), -E_BAD_REQUEST);
	assert_string_equal(err.message, "1 field is wrong: timeout");
	assert_string_equal(err.subject, "s");
	assert_string_equal(err.details[0].field, "timeout");
	assert_string_equal(err.details[0].problem, "not a duration: 'abc'");

	err_detail(&err, "a.b", "x");
	assert_int_equal(err_from_details(&err, NULL), -E_BAD_REQUEST);
	assert_string_equal(err.message, "2 fields are wrong: timeout, a.b");
	assert_string_equal(err.subject, "timeout");
}

static void api_1_details_beyond_the_room_are_counted(void **state)
{
	struct err err = {0};
	char name[64];

	for (int i = 1; i <= ERR_DETAILS; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		err_detail(&err, name, "x");
	}
	err_from_details(&err, NULL);
	assert_string_equal(err.message, "8 fields are wrong: f1, f2, f3, f4, f5, f6, f7, f8");
	err_detail(&err, "f9", "x");
	err_from_details(&err, NULL);
	assert_int_equal(err.ndetails, 9);
	assert_string_equal(err.message, "9 fields are wrong: f1, f2, f3, f4, f5, f6, f7, f8, …");
}

static void api_1_long_field_names_stay_inside_the_message(void **state)
{
	struct err err = {0};
	char name[64];

	memset(name, 'n', sizeof(name));
	name[63] = '\0';
	for (int i = 0; i < 12; i++)
		err_detail(&err, name, "x");
	assert_int_equal(err_from_details(&err, NULL), -E_BAD_REQUEST);
	assert_true(strlen(err.message) < sizeof(err.message));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_every_code_has_a_row_and_a_name),
		cmocka_unit_test(api_1_unknown_codes_are_internal),
		cmocka_unit_test(api_1_set_fills_and_returns_the_code),
		cmocka_unit_test(api_1_long_texts_are_cut),
		cmocka_unit_test(api_1_errno_is_told_and_kept),
		cmocka_unit_test(api_1_details_become_one_error),
		cmocka_unit_test(api_1_details_beyond_the_room_are_counted),
		cmocka_unit_test(api_1_long_field_names_stay_inside_the_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
