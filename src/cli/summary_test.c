// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "cli/cli.h"
#include <string.h>

static void assert_told(void (*tell)(const json_t *, struct buf *), const char *answer,
			const char *want)
{
	cleanup_buf struct buf out = {0};
	json_t *doc = NULL;

	assert_int_equal(json_parse(answer, strlen(answer), &doc, NULL), 0);
	tell(doc, &out);
	json_decref(doc);
	assert_string_equal(out.data != NULL ? out.data : "", want);
}

static void cli_1_walls_with_one_reason_stand_together(void **state)
{
	assert_told(
		cli_summary,
		"{\"command_id\":\"c\",\"command_state\":\"finished\","
		"\"result\":{\"exit_code\":137,\"signal\":\"KILL\",\"duration_ms\":1234.5},"
		"\"resources\":{\"cpu_time_ms\":9.96,\"memory_peak_mb\":1.25},"
		"\"events\":{\"totals\":{\"exec\":2,\"blocked\":0}},"
		"\"state\":{\"working_dir\":\"/w\",\"environment_changed\":[\"A\",\"B\"]},"
		"\"enforcement\":[{\"wall\":\"a\",\"state\":\"absent\",\"detail\":\"not asked\"},"
		"{\"wall\":\"b\",\"state\":\"up\",\"detail\":\"x\"},"
		"{\"wall\":\"c\",\"state\":\"partial\",\"detail\":\"not asked\"},"
		"{\"wall\":\"d\",\"state\":\"absent\",\"detail\":\"not asked\"}]}",
		"exit:        137 (signal KILL), 1.23 s, CPU 10.0 ms, memory 1.2 MB\n"
		"programs:    2 run, 0 refused\n"
		"walls up:    b\n"
		"not up:      a, d absent (not asked); c partial (not asked)\n"
		"kept:        directory /w; variables A, B; output: agentsh output c\n");
}

static void cli_1_a_command_without_a_result_has_a_summary(void **state)
{
	assert_told(
		cli_summary,
		"{\"command_id\":\"c\",\"command_state\":\"lost\",\"result\":{\"exit_code\":null,"
		"\"error\":{\"message\":\"never\\u001brun\"},\"warnings\":[\"one\"]}}",
		"exit:        unknown (lost), 0.0 ms, CPU 0.0 ms, memory 0.0 MB\n"
		"error:       never\\x1brun\n"
		"programs:    0 run, 0 refused\n"
		"walls up:    none\n"
		"kept:        directory ; output: agentsh output c\n"
		"warning:     one\n");
}

static void pol_2_a_refusal_is_told_once_per_rule_and_target(void **state)
{
	assert_told(
		cli_refusals,
		"{\"events\":{\"totals\":{\"blocked\":9},\"query\":\"/q\",\"blocked_operations\":["
		"{\"count\":2,\"policy\":{\"operation\":\"exec\",\"target\":\"/"
		"a\",\"rule\":\"r\"}},"
		"{\"count\":1,\"policy\":{\"operation\":\"exec\",\"target\":\"/b\",\"rule\":\"r\","
		"\"reason\":\"why\"}},"
		"{\"count\":3,\"policy\":{\"operation\":\"exec\",\"target\":\"/"
		"a\",\"rule\":\"r\"}},"
		"{\"count\":1,\"policy\":{\"operation\":\"exec\",\"target\":\"/"
		"a\",\"rule\":\"s\"}}]}}",
		"agentsh: refused: exec /a (rule r, 5 times)\n"
		"agentsh: refused: exec /b (rule r): why\n"
		"agentsh: refused: exec /a (rule s)\n"
		"agentsh: refused: 2 more, see /q\n");
	assert_told(cli_refusals, "{\"events\":{\"totals\":{\"blocked\":0}}}", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_walls_with_one_reason_stand_together),
		cmocka_unit_test(cli_1_a_command_without_a_result_has_a_summary),
		cmocka_unit_test(pol_2_a_refusal_is_told_once_per_rule_and_target),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
