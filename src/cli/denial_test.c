// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/denial.h"
#include "cli/cli.h"

static void assert_denial(const struct denial *d, const char *want)
{
	cleanup_buf struct buf out = {0};
	char packed[1024];

	denial_pack(d, packed, sizeof(packed));
	cli_denial(packed, &out);
	assert_string_equal(out.data != NULL ? out.data : "", want);
}

static void pol_2_a_denial_is_told_in_lines(void **state)
{
	char *alternatives[] = {(char *)"git", (char *)"make, cc", NULL};

	assert_denial(&(struct denial){.rule = (char *)"deny-privilege",
				       .reason = (char *)"no root",
				       .operation = (char *)"exec",
				       .target = (char *)"/usr/bin/sudo",
				       .final = true,
				       .alternatives = {alternatives, 2}},
		      "agentsh:   rule: deny-privilege (final)\n"
		      "agentsh:   reason: no root\n"
		      "agentsh:   asked: exec /usr/bin/sudo\n"
		      "agentsh:   allowed: git\n"
		      "agentsh:   allowed: make, cc\n");
	assert_denial(&(struct denial){.rule = (char *)"default",
				       .operation = (char *)"exec",
				       .target = (char *)"x"},
		      "agentsh:   rule: default\nagentsh:   asked: exec x\n");
}

static void pol_2_what_is_no_denial_is_left_out(void **state)
{
	cleanup_buf struct buf out = {0};

	cli_denial("", &out);
	cli_denial("{\"rule\":\"r\"}", &out);
	assert_int_equal(out.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_2_a_denial_is_told_in_lines),
		cmocka_unit_test(pol_2_what_is_no_denial_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
