// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "cli/cli.h"

static void assert_denial(const char *json, const char *want)
{
	cleanup_buf struct buf out = {0};

	cli_denial(json, &out);
	assert_string_equal(out.data != NULL ? out.data : "", want);
}

static void pol_2_a_denial_is_told_in_lines(void **state)
{
	assert_denial("{\"rule\":\"deny-privilege\",\"reason\":\"no root\",\"operation\":\"exec\","
		      "\"target\":\"/usr/bin/sudo\",\"final\":true,"
		      "\"alternatives\":[\"git\",\"make, cc\"]}",
		      "agentsh:   rule: deny-privilege (final)\n"
		      "agentsh:   reason: no root\n"
		      "agentsh:   asked: exec /usr/bin/sudo\n"
		      "agentsh:   allowed: git\n"
		      "agentsh:   allowed: make, cc\n");
	assert_denial(
		"{\"rule\":\"default\",\"reason\":\"\",\"operation\":\"exec\",\"target\":\"x\","
		"\"final\":false,\"alternatives\":[]}",
		"agentsh:   rule: default\nagentsh:   asked: exec x\n");
}

static void pol_2_what_is_no_denial_is_left_out(void **state)
{
	assert_denial("", "");
	assert_denial("{\"rule\":", "");
	assert_denial("{\"rule\":1,\"operation\":\"exec\",\"alternatives\":[1,null]}",
		      "agentsh:   rule: \nagentsh:   asked: exec \n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_2_a_denial_is_told_in_lines),
		cmocka_unit_test(pol_2_what_is_no_denial_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
