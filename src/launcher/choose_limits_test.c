// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BIT(name) (UINT64_C(1) << WALL_##name)
#define NONE CGROUP_NO_LIMIT

static struct config plain(void)
{
	return (struct config){.cpu_period_us = 100000};
}

static void sbx_4_without_a_request_there_is_no_limit(void **state)
{
	const struct config c = plain();
	const struct launcher_create ask = {0};
	struct cgroup_limits l;

	limits_choose(&c, &ask, 5, &l);
	assert_false(cgroup_limits_any(&l));
	assert_int_equal(l.swap_bytes, NONE);
	assert_int_equal(l.io_device, 5);
	assert_int_equal(limits_scratch_mb(&c, &ask), 0);
}

/* The smaller one counts, from whichever side it comes. */
static void sbx_4_what_is_asked_for_stays_within_the_servers_own(void **state)
{
	static const struct {
		uint64_t asked;
		int64_t own;
		uint64_t got;
	} rows[] = {{0, 0, NONE}, {7, 0, 7}, {0, 7, 7}, {7, 8, 7}, {8, 7, 7}, {7, 7, 7}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const uint64_t a = rows[i].asked, got = rows[i].got;
		const int64_t own = rows[i].own;
		struct config c = plain();
		const struct launcher_create ask = {.max_memory_mb = a,
						    .max_cpu_percent = a,
						    .pids_max = a,
						    .max_disk_mb = a,
						    .io_read_bps_max = a,
						    .io_write_bps_max = a};
		struct cgroup_limits l;

		c.max_memory_mb = c.max_cpu_percent = c.pids_max = c.max_disk_mb = own;
		c.io_read_bps_max = c.io_write_bps_max = own;
		limits_choose(&c, &ask, 0, &l);
		assert_int_equal(l.memory_bytes, got == NONE ? NONE : got * 1024 * 1024);
		assert_int_equal(l.cpu_percent, got);
		assert_int_equal(l.cpu_period_us, 100000);
		assert_int_equal(l.pids, got);
		assert_int_equal(l.io_read_bps, got);
		assert_int_equal(l.io_write_bps, got);
		assert_int_equal(limits_scratch_mb(&c, &ask), got == NONE ? 0 : got);
	}
}

/* No number of the API child's makes another one by overflow. */
static void sbx_4_the_largest_request_is_bounded(void **state)
{
	const struct config c = plain();
	struct launcher_create ask = {.max_memory_mb = UINT64_MAX,
				      .max_cpu_percent = UINT64_MAX,
				      .pids_max = UINT64_MAX,
				      .max_disk_mb = UINT64_MAX,
				      .io_read_bps_max = UINT64_MAX - 1};
	struct cgroup_limits l;

	limits_choose(&c, &ask, 0, &l);
	assert_int_equal(l.memory_bytes, UINT64_C(1) << 60);
	assert_int_equal(l.cpu_percent, 409600);
	assert_int_equal(l.pids, 1 << 22);
	assert_int_equal(l.io_read_bps, UINT64_C(1) << 50);
	assert_int_equal(limits_scratch_mb(&c, &ask), UINT32_MAX);
	ask = (struct launcher_create){.max_cpu_percent = 409599, .pids_max = (1 << 22) - 1};
	limits_choose(&c, &ask, 0, &l);
	assert_int_equal(l.cpu_percent, 409599);
	assert_int_equal(l.pids, (1 << 22) - 1);
}

static void sbx_4_swap_is_limited_with_memory(void **state)
{
	static const struct {
		uint64_t memory;
		int64_t swap;
		uint64_t got;
	} rows[] = {{0, 0, NONE}, {0, 5, NONE}, {9, 0, 0}, {9, 5, 5 << 20}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct config c = plain();
		const struct launcher_create ask = {.max_memory_mb = rows[i].memory};
		struct cgroup_limits l;

		c.memory_swap_max_mb = rows[i].swap;
		limits_choose(&c, &ask, 0, &l);
		assert_int_equal(l.swap_bytes, rows[i].got);
	}
}

/* Half of it, from whichever side the smaller number comes. */
static void sbx_4_scratch_files_leave_memory_to_processes(void **state)
{
	static const struct {
		uint64_t memory;
		enum wall_state wall;
		uint32_t asked, got;
	} rows[] = {{NONE, WALL_UP, 0, 0},
		    {NONE, WALL_UP, 7, 7},
		    {UINT64_C(64) << 20, WALL_UP, 0, 32},
		    {UINT64_C(64) << 20, WALL_PARTIAL, 0, 32},
		    {UINT64_C(64) << 20, WALL_UP, 31, 31},
		    {UINT64_C(64) << 20, WALL_UP, 32, 32},
		    {UINT64_C(64) << 20, WALL_UP, 33, 32},
		    {UINT64_C(64) << 20, WALL_UNAVAILABLE, 0, 0},
		    {UINT64_C(64) << 20, WALL_ABSENT, 33, 33},
		    {UINT64_C(4) << 20, WALL_UP, 0, 2},
		    {UINT64_C(3) << 20, WALL_UP, 0, 1},
		    {UINT64_C(1) << 20, WALL_UP, 0, 1},
		    {UINT64_C(1) << 20, WALL_UP, 9, 1},
		    {UINT64_C(1) << 60, WALL_UP, 0, UINT32_MAX}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct wall_report walls;
		uint32_t mb = rows[i].asked;
		const bool said = rows[i].memory != NONE &&
				  (rows[i].wall == WALL_UP || rows[i].wall == WALL_PARTIAL);

		wall_report_init(&walls);
		wall_set(&walls, WALL_memory_limit, rows[i].wall, "so much");
		limits_share(rows[i].memory, &walls, &mb);
		assert_int_equal(mb, rows[i].got);
		assert_int_equal(walls.wall[WALL_memory_limit].state, rows[i].wall);
		assert_string_equal(walls.wall[WALL_memory_limit].detail,
				    said ? "so much; /tmp and home count" : "so much");
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
		cmocka_unit_test(sbx_4_without_a_request_there_is_no_limit),
		cmocka_unit_test(sbx_4_what_is_asked_for_stays_within_the_servers_own),
		cmocka_unit_test(sbx_4_the_largest_request_is_bounded),
		cmocka_unit_test(sbx_4_swap_is_limited_with_memory),
		cmocka_unit_test(sbx_4_scratch_files_leave_memory_to_processes),
		cmocka_unit_test(sbx_4_only_limits_that_may_not_be_missing_are_required),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
