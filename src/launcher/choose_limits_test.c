// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "launcher/session_limits.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BIT(name) (UINT64_C(1) << WALL_##name)

/* Half of it, from whichever side the smaller number comes. */
static void sbx_4_scratch_files_leave_memory_to_processes(void **state)
{
	static const struct {
		int64_t memory;
		enum wall_state wall;
		uint32_t asked, got;
	} rows[] = {{0, WALL_UP, 0, 0},		 {0, WALL_UP, 7, 7},
		    {64, WALL_UP, 0, 32},	 {64, WALL_PARTIAL, 0, 32},
		    {64, WALL_UP, 31, 31},	 {64, WALL_UP, 32, 32},
		    {64, WALL_UP, 33, 32},	 {64, WALL_UNAVAILABLE, 0, 0},
		    {64, WALL_ABSENT, 33, 33},	 {4, WALL_UP, 0, 2},
		    {3, WALL_UP, 0, 1},		 {1, WALL_UP, 0, 1},
		    {1, WALL_UP, 9, 1},		 {2047, WALL_UP, 0, 1023},
		    {2048, WALL_UP, 0, 0},	 {INT64_C(1) << 40, WALL_UP, 0, 0},
		    {4096, WALL_UP, 1500, 1500}, {4096, WALL_UP, UINT32_MAX, 2048}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct wall_report walls;
		uint32_t mb = rows[i].asked;
		const bool said = rows[i].memory != 0 &&
				  (rows[i].wall == WALL_UP || rows[i].wall == WALL_PARTIAL);

		wall_report_init(&walls);
		wall_set(&walls, WALL_memory_limit, rows[i].wall, "so much");
		limits_share(rows[i].memory, &walls, &mb);
		assert_int_equal(mb, rows[i].got);
		assert_int_equal(walls.wall[WALL_memory_limit].state, rows[i].wall);
		assert_string_equal(walls.wall[WALL_memory_limit].detail,
				    said ? "so much; /tmp counts" : "so much");
	}
}

static void sbx_4_only_limits_that_may_not_be_missing_are_required(void **state)
{
	struct launcher_create ask = {.required = BIT(memory_limit) | BIT(cpu_limit) |
						  BIT(pids_limit) | BIT(io_limit) | BIT(seccomp)};

	assert_int_equal(limits_required(&ask),
			 BIT(memory_limit) | BIT(cpu_limit) | BIT(pids_limit) | BIT(io_limit));
	strv_add(&ask.unenforced, "cpu_limit");
	strv_add(&ask.unenforced, "uid");
	assert_int_equal(limits_required(&ask),
			 BIT(memory_limit) | BIT(pids_limit) | BIT(io_limit));
	strv_done(&ask.unenforced);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_4_scratch_files_leave_memory_to_processes),
		cmocka_unit_test(sbx_4_only_limits_that_may_not_be_missing_are_required),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
