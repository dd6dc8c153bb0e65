// SPDX-License-Identifier: Apache-2.0
/* Every act against a BPF program, on this kernel. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/testkit/child_testkit.h"
#include "probe/probe.h"
#include <unistd.h>

static int run(const void *arg)
{
	const struct probe_act *act = arg;
	char detail[PROBE_DETAIL] = "";
	const long r = act->run(NULL, detail);

	if (r == PROBE_UNTRIED)
		fprintf(stderr, "# %s: %s\n", act->wall, detail);
	_exit(r == PROBE_REFUSED ? 1 : r == PROBE_UNTRIED ? 2 : 0);
}

/* agentsh-probe-bpf is not this program, so the exec cannot be tried here; pytest does. */
static void sbx_5_each_program_refuses_counts_or_records(void **state)
{
	int tried = 0;

	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
	for (const struct probe_act *act = probe_bpf_acts + 1; act->group != NULL; act++, tried++)
		assert_int_equal(kid_run(run, act, false), 1);
	assert_int_equal(tried, 6);
}

/* Without privilege each act says why, and none of them leaves anything behind. */
static void sbx_5_a_normal_user_cannot_try(void **state)
{
	for (const struct probe_act *act = probe_bpf_acts; act->group != NULL; act++)
		assert_int_equal(kid_run(run, act, true), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_each_program_refuses_counts_or_records),
		cmocka_unit_test(sbx_5_a_normal_user_cannot_try),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
