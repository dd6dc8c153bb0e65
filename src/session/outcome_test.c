// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/session_testkit.h"

static void ses_8_an_outcome_survives_its_row(void **state)
{
	struct outcome o = {.refused = true,
			    .error_code = mem_strdup("E_COMMAND_TIMEOUT"),
			    .error_message = mem_strdup("it \"ran\" out of time"),
			    .request_id = mem_strdup("req-1"),
			    .working_dir = mem_strdup("/workspace"),
			    .duration_us = 1,
			    .cpu_us = 2,
			    .maxrss_kb = 3,
			    .read_bytes = 4,
			    .write_bytes = 5,
			    .extent = {[1].kept = INT64_MAX, [2].kept = 7},
			    .ops.seen = {8, 9, 10, 11}};
	struct outcome back = {0};
	cleanup_buf struct buf a = {0}, b = {0};
	struct err err = {0};

	strv_add(&o.env_changed, "FOO");
	strv_add(&o.similar, "/usr/bin/python3");
	strv_add(&o.background, "ended 12 sleep 60");
	strv_add(&o.warnings, "something was left out");
	outcome_format(&o, &a);
	assert_int_equal(outcome_parse(a.data, &back, &err), 0);
	assert_true(back.refused);
	assert_string_equal(back.error_message, "it \"ran\" out of time");
	assert_null(back.error_path);
	assert_string_equal(back.request_id, "req-1");
	assert_string_equal(back.similar.v[0], "/usr/bin/python3");
	assert_string_equal(back.warnings.v[0], "something was left out");
	assert_int_equal(back.extent[1].kept, INT64_MAX);
	assert_int_equal(back.ops.seen[SEEN_BLOCKED], 11);
	outcome_format(&back, &b);
	assert_string_equal(a.data, b.data);
	outcome_done(&o);
	outcome_done(&back);
}

static void ses_8_an_empty_outcome_is_short(void **state)
{
	struct outcome o = {0}, back = {0};
	cleanup_buf struct buf b = {0};
	struct err err = {0};

	outcome_format(&o, &b);
	assert_string_equal(b.data, "{}");
	assert_int_equal(outcome_parse("{}", &back, &err), 0);
	assert_int_equal(outcome_parse("{\"unknown\":1}", &back, &err), -E_BAD_REQUEST);
	assert_int_equal(outcome_parse("", &back, &err), -E_BAD_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_8_an_outcome_survives_its_row),
		cmocka_unit_test(ses_8_an_empty_outcome_is_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
