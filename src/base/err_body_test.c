// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/denial.h"
#include "base/err_body.h"
#include "base/json.h"

static void assert_body(const struct err *err, const char *want)
{
	cleanup_buf struct buf out = {0};

	err_body_format(err, "req-1", &out);
	assert_string_equal(out.data, want);
}

static void api_1_an_error_has_code_message_subject_and_request(void **state)
{
	struct err err = {0};

	err_set(&err, E_SESSION_NOT_FOUND, "session-x", "no session '%s'", "session-x");
	assert_body(&err, "{\"error\":{\"code\":\"E_SESSION_NOT_FOUND\","
			  "\"message\":\"no session 'session-x'\",\"subject\":\"session-x\","
			  "\"request_id\":\"req-1\"}}");
}

static void pol_2_a_denial_stands_in_the_body(void **state)
{
	struct denial d = {.rule = (char *)"r", .reason = (char *)"a \"b\"", .final = true};
	struct err err = {0};

	err_set(&err, E_POLICY_DENIED, "/bin/x", "no");
	denial_pack(&d, err.denial, sizeof(err.denial));
	assert_body(&err,
		    "{\"error\":{\"code\":\"E_POLICY_DENIED\",\"message\":\"no\","
		    "\"subject\":\"/bin/x\",\"policy\":{\"rule\":\"r\",\"reason\":\"a \\\"b\\\"\","
		    "\"operation\":\"\",\"target\":\"\",\"final\":true},"
		    "\"request_id\":\"req-1\"}}");
}

static void api_1_what_does_not_apply_is_absent(void **state)
{
	cleanup_buf struct buf local = {0};
	struct err err = {0};

	err_set(&err, E_CONFLICT, NULL, "twice");
	assert_body(&err, "{\"error\":{\"code\":\"E_CONFLICT\",\"message\":\"twice\","
			  "\"subject\":\"\",\"request_id\":\"req-1\"}}");
	err_body_format(&err, NULL, &local);
	assert_string_equal(local.data, "{\"error\":{\"code\":\"E_CONFLICT\",\"message\":\"twice\","
					"\"subject\":\"\"}}");
}

static void api_1_an_error_without_words_has_its_rows_text(void **state)
{
	assert_body(&(struct err){.code = E_RATE_LIMITED},
		    "{\"error\":{\"code\":\"E_RATE_LIMITED\",\"message\":\"too many requests\","
		    "\"subject\":\"\",\"request_id\":\"req-1\"}}");
}

static void api_1_details_name_field_and_problem(void **state)
{
	struct err err = {0};

	err_detail(&err, "timeout", "not a duration: '%s'", "abc");
	err_detail(&err, "id", "bad \"id\"");
	assert_int_equal(err_from_details(&err, NULL), -E_BAD_REQUEST);
	assert_body(
		&err,
		"{\"error\":{\"code\":\"E_BAD_REQUEST\","
		"\"message\":\"2 fields are wrong: timeout, "
		"id\",\"subject\":\"timeout\",\"details\":["
		"{\"field\":\"timeout\",\"problem\":\"not a duration: 'abc'\"},"
		"{\"field\":\"id\",\"problem\":\"bad \\\"id\\\"\"}],\"request_id\":\"req-1\"}}");
}

/* More problems than are kept: the body has those that are. */
static void api_1_details_are_bounded(void **state)
{
	struct err err = {0};
	cleanup_buf struct buf out = {0};
	json_t *doc = NULL;

	for (int i = 0; i < ERR_DETAILS + 3; i++)
		err_detail(&err, "f", "%d", i);
	err_from_details(&err, NULL);
	err_body_format(&err, "req-1", &out);
	assert_int_equal(json_parse(out.data, out.len, &doc, NULL), 0);
	assert_int_equal(json_array_size(json_object_get(json_object_get(doc, "error"), "details")),
			 ERR_DETAILS);
	json_decref(doc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_an_error_has_code_message_subject_and_request),
		cmocka_unit_test(pol_2_a_denial_stands_in_the_body),
		cmocka_unit_test(api_1_what_does_not_apply_is_absent),
		cmocka_unit_test(api_1_an_error_without_words_has_its_rows_text),
		cmocka_unit_test(api_1_details_name_field_and_problem),
		cmocka_unit_test(api_1_details_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
