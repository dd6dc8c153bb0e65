// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/inside.h"
#include <fcntl.h>

static void ses_3_a_plan_arrives_whole_and_sealed(void **state)
{
	struct sandbox_plan plan = {.uid = 1, .gid = 2, .owner_uid = 3, .owner_gid = 4, .idmap = 5};
	struct sandbox_plan got;
	cleanup_fd int fd = -1;

	plan.session_id = mem_strdup("s-1");
	plan.hostname = mem_strdup("host");
	plan.state_program = mem_strdup("/x/state");
	strv_add(&plan.unenforced, "uid");
	plan.root_inside = 6;
	plan.namespaces = 0x20000;
	strv_add(&plan.read_only_paths, "/r");
	strv_add(&plan.passthrough_paths, "/p");
	strv_add(&plan.monitored_paths, "/m");
	strv_add(&plan.blocked_paths, "/b");
	strv_add(&plan.kept_out, "/k");
	assert_int_equal(plan_seal(&plan, &fd, NULL), 0);
	assert_int_equal(write(fd, "x", 1), -1);
	/* the stub reads it, and then init */
	assert_int_equal(plan_load(fd, &got, NULL), 0);
	sandbox_plan_done(&got);
	assert_int_equal(plan_load(fd, &got, NULL), 0);
	assert_int_equal(got.namespaces, 0x20000);
	assert_string_equal(got.session_id, "s-1");
	assert_string_equal(got.hostname, "host");
	assert_string_equal(got.state_program, "/x/state");
	assert_string_equal(got.unenforced.v[0], "uid");
	assert_int_equal(got.root_inside, 6);
	assert_string_equal(got.read_only_paths.v[0], "/r");
	assert_string_equal(got.passthrough_paths.v[0], "/p");
	assert_string_equal(got.monitored_paths.v[0], "/m");
	assert_string_equal(got.blocked_paths.v[0], "/b");
	assert_string_equal(got.kept_out.v[0], "/k");
	assert_int_equal(got.uid, 1);
	assert_int_equal(got.gid, 2);
	assert_int_equal(got.owner_uid, 3);
	assert_int_equal(got.owner_gid, 4);
	assert_int_equal(got.idmap, 5);
	assert_int_equal(got.privileged, 0);
	sandbox_plan_done(&got);
	sandbox_plan_done(&plan);
	assert_null(plan.session_id);
}

static void expect_refused(const void *bytes, size_t n)
{
	cleanup_fd int fd = fdio_sealed("plan", bytes, n);
	struct sandbox_plan got;

	assert_true(fd >= 0);
	assert_int_equal(plan_load(fd, &got, NULL), -E_BAD_REQUEST);
}

static void ses_3_a_broken_plan_is_refused(void **state)
{
	const uint8_t cut[6] = {0};
	cleanup_fd int fd = fdio_sealed("plan", cut, 0);
	struct sandbox_plan got;

	expect_refused(cut, 3);
	expect_refused(cut, 6);
	assert_int_equal(plan_load(fd, &got, NULL), 0);
	assert_int_equal(got.namespaces, 0);
	assert_null(got.session_id);
}

static void sbx_5_only_named_walls_may_be_missing(void **state)
{
	struct sandbox_plan plan = {0};

	assert_false(wall_listed(&plan.unenforced, WALL_uts_namespace));
	strv_add(&plan.unenforced, "uid");
	strv_add(&plan.unenforced, "uts_namespace");
	assert_true(wall_listed(&plan.unenforced, WALL_uts_namespace));
	assert_false(wall_listed(&plan.unenforced, WALL_ipc_namespace));
	sandbox_plan_done(&plan);
}

/* Root needs one only to show root inside, and not where the session is uid 0 anyway. */
static void sbx_1_who_has_a_user_namespace(void **state)
{
	static const struct {
		uint32_t privileged, root_inside, uid;
		bool user;
	} rows[] = {{0, 0, 1000, true}, {0, 1, 1000, true}, {1, 0, 1000, false},
		    {1, 1, 1000, true}, {1, 1, 1, true},    {1, 1, 0, false}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct sandbox_plan plan = {.privileged = rows[i].privileged,
						  .root_inside = rows[i].root_inside,
						  .uid = rows[i].uid};

		assert_int_equal(sandbox_user_namespace(&plan), rows[i].user);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_3_a_plan_arrives_whole_and_sealed),
		cmocka_unit_test(sbx_1_who_has_a_user_namespace),
		cmocka_unit_test(ses_3_a_broken_plan_is_refused),
		cmocka_unit_test(sbx_5_only_named_walls_may_be_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
