// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "sandbox/sandbox.h"
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], listed[96], other[96];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "/tmp/agentsh-fingerprint-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(listed, sizeof(listed), "%s/listed", dir);
	snprintf(other, sizeof(other), "%s/other", dir);
	return mkdir(listed, 0755);
}

static int teardown(void **state)
{
	unlink(listed);
	rmdir(listed);
	rmdir(other);
	return rmdir(dir);
}

/* In each list a name that leads elsewhere is seen, and only that. */
static void fil_6_a_name_that_leads_elsewhere_is_seen(void **state)
{
	struct sandbox_plan plan = {.state_program = (char *)(uintptr_t) "/bin/true"};
	struct strv *const lists[] = {&plan.read_only_paths, &plan.passthrough_paths,
				      &plan.monitored_paths, &plan.kept_out};

	assert_int_equal(mkdir(other, 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		uint64_t with, without, linked;

		strv_add(lists[i], listed);
		with = sandbox_fingerprint(&plan);
		assert_true(with != 0);
		assert_true(sandbox_fingerprint(&plan) == with);
		assert_int_equal(chmod(listed, 0700), 0);
		assert_true(sandbox_fingerprint(&plan) == with);
		assert_int_equal(rmdir(listed), 0);
		without = sandbox_fingerprint(&plan);
		assert_true(without != with);
		assert_int_equal(symlink(other, listed), 0);
		linked = sandbox_fingerprint(&plan);
		assert_true(linked != with && linked != without);
		assert_int_equal(unlink(listed), 0);
		assert_int_equal(mkdir(listed, 0755), 0);
		strv_done(lists[i]);
	}
}

/* A blocked path is covered where it is when the session begins. */
static void fil_6_what_is_covered_later_is_not_looked_at(void **state)
{
	struct sandbox_plan plan = {.state_program = (char *)(uintptr_t) "/bin/true"};
	const uint64_t before = sandbox_fingerprint(&plan);

	strv_add(&plan.blocked_paths, listed);
	assert_true(sandbox_fingerprint(&plan) == before);
	strv_done(&plan.blocked_paths);
	plan.state_program = listed;
	assert_true(sandbox_fingerprint(&plan) != before);
}

/* Recipes differ by the paths that are shown, not by the session. */
static void ses_1_a_recipe_is_not_a_session(void **state)
{
	struct sandbox_plan plan = {.privileged = 1};
	cleanup_buf struct buf one = {0}, two = {0}, three = {0};

	sandbox_recipe(&plan, &one);
	plan.session_id = plan.hostname = (char *)(uintptr_t) "s1";
	plan.uid = plan.gid = plan.owner_uid = plan.owner_gid = 7;
	plan.idmap = plan.scratch_mb = 1;
	sandbox_recipe(&plan, &two);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
	plan.exec_control = 1;
	sandbox_recipe(&plan, &three);
	assert_true(three.len != one.len || memcmp(three.data, one.data, one.len) != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fil_6_a_name_that_leads_elsewhere_is_seen, setup,
						teardown),
		cmocka_unit_test_setup_teardown(fil_6_what_is_covered_later_is_not_looked_at, setup,
						teardown),
		cmocka_unit_test(ses_1_a_recipe_is_not_a_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
