// SPDX-License-Identifier: Apache-2.0
/* A normal user's session where /proc is covered in part, as container engines do it: no new /proc
 * is to be had. */
#include "spawn/testkit/init_testkit.h"
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

static void sbx_5_a_missing_wall_is_named_with_its_remedy(void **state)
{
	struct box_session s = {0};
	struct init_failed failed;
	struct link_msg m;
	int status;

	box_session_of(state);
	box_plan(&s.plan, geteuid(), false);
	box_start(&s, geteuid(), &m);
	assert_int_equal(m.type, MSG_init_failed);
	assert_int_equal(link_unpack(&m, &failed, NULL), 0);
	assert_string_equal(failed.wall, "pid_namespace");
	assert_non_null(strstr(failed.message, "(proc): Operation not permitted"));
	assert_non_null(strstr(failed.message, "list pid_namespace in sandbox.allow_unenforced"));
	msg_done(MSG_init_failed, &failed);
	assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
	assert_int_equal(WEXITSTATUS(status), 1);
	link_done(&s.init);
	sandbox_plan_done(&s.plan);
}

static void sbx_5_a_wall_that_may_be_missing_is_reported(void **state)
{
	struct box_session s = {0};

	box_session_of(state);
	box_plan(&s.plan, geteuid(), false);
	strv_add(&s.plan.unenforced, "pid_namespace");
	box_open(&s, geteuid());
	assert_int_equal(s.walls.wall[WALL_pid_namespace].state, WALL_PARTIAL);
	assert_non_null(strstr(s.walls.wall[WALL_pid_namespace].detail, "host's processes"));
	box_expect(&s, "touch /proc/sys/kernel/x 2>/dev/null || echo shut; cat /proc/self/comm",
		   "shut\ncat\n");
	box_close(&s);
}

static int run_group(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_a_missing_wall_is_named_with_its_remedy),
		cmocka_unit_test(sbx_5_a_wall_that_may_be_missing_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	box_ready = geteuid() == 0 && box_prepare(BOX_USER) == 0 && unshare(CLONE_NEWNS) == 0 &&
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		    mount("tmpfs", "/proc/fs", "tmpfs", MS_RDONLY, NULL) == 0;
	return box_run_as_user(run_group);
}
