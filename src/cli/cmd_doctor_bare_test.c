// SPDX-License-Identifier: Apache-2.0
/* The doctor's report on a session without namespaces: other walls must refuse the acts. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "cli/cmd_doctor.h"
#include "probe/probe.h"

#define ACTS_OUTSIDE                                   \
	"mount_namespace\tdone\t" PROBE_CANARY "\t-\n" \
	"net_namespace\tdone\t" PROBE_TCP "\t-\n"      \
	"ipc_namespace\tdone\t" PROBE_SYSV "\t-\n"     \
	"mount_namespace\tdone\tshare the machine's mounts\t-\n"

static void claim(struct doctor_report *r, enum wall w, enum wall_state state)
{
	r->wall[w].known = true;
	r->wall[w].state = state;
	r->wall[w].may_lack = true;
}

static void bare_report(struct doctor_report *r)
{
	*r = (struct doctor_report){0};
	for (unsigned w = WALL_user_namespace; w <= WALL_cgroup_namespace; w++)
		claim(r, (enum wall)w, WALL_UNAVAILABLE);
	claim(r, WALL_landlock, WALL_UP);
	claim(r, WALL_seccomp, WALL_UP);
	doctor_read_acts(r, ACTS_OUTSIDE, false);
}

static void sbx_5_other_walls_are_judged_by_the_acts(void **state)
{
	struct doctor_report r;

	bare_report(&r);
	doctor_read_acts(&r,
			 "mount_namespace\trefused\t" PROBE_CANARY "\tEACCES\n"
			 "net_namespace\trefused\t" PROBE_TCP "\tEPERM\n"
			 "mount_namespace\tdone\tshare the machine's mounts\tmnt:[1]\n",
			 true);
	doctor_judge(&r);
	assert_int_equal(r.wall[WALL_landlock].verdict, DOCTOR_OK);
	assert_int_equal(r.wall[WALL_seccomp].verdict, DOCTOR_OK);
	assert_int_equal(r.wall[WALL_mount_namespace].verdict, DOCTOR_ALLOWED);
	assert_int_equal(r.wall[WALL_net_namespace].verdict, DOCTOR_ALLOWED);
	assert_false(doctor_failed(&r));
	doctor_report_done(&r);
}

static void sbx_5_an_act_that_they_let_through_is_a_lie(void **state)
{
	struct doctor_report r;

	bare_report(&r);
	doctor_read_acts(&r,
			 "mount_namespace\tdone\t" PROBE_CANARY "\topened\n"
			 "ipc_namespace\tdone\t" PROBE_SYSV "\tfound\n",
			 true);
	doctor_judge(&r);
	assert_int_equal(r.wall[WALL_landlock].verdict, DOCTOR_LIE);
	assert_int_equal(r.wall[WALL_seccomp].verdict, DOCTOR_LIE);
	assert_true(doctor_failed(&r));
	doctor_report_done(&r);
}

/* With namespaces each wall has its own acts; other walls are not judged by them. */
static void sbx_5_with_namespaces_acts_are_their_own(void **state)
{
	struct doctor_report r;

	bare_report(&r);
	claim(&r, WALL_mount_namespace, WALL_UP);
	doctor_read_acts(&r,
			 "mount_namespace\trefused\t" PROBE_CANARY "\tENOENT\n"
			 "net_namespace\tdone\t" PROBE_TCP "\tconnected\n",
			 true);
	doctor_judge(&r);
	assert_int_equal(r.wall[WALL_mount_namespace].verdict, DOCTOR_OK);
	assert_int_equal(r.wall[WALL_landlock].verdict, DOCTOR_UNPROVEN);
	assert_int_equal(r.wall[WALL_seccomp].verdict, DOCTOR_UNPROVEN);
	assert_int_equal(r.wall[WALL_net_namespace].verdict, DOCTOR_ALLOWED);
	/* nor is it bare where no session was made at all */
	claim(&r, WALL_mount_namespace, WALL_UNAVAILABLE);
	r.refusal = mem_strdup("no");
	doctor_judge(&r);
	assert_int_equal(r.wall[WALL_seccomp].verdict, DOCTOR_UNPROVEN);
	doctor_report_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_other_walls_are_judged_by_the_acts),
		cmocka_unit_test(sbx_5_an_act_that_they_let_through_is_a_lie),
		cmocka_unit_test(sbx_5_with_namespaces_acts_are_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
