// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/limits.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SWAP LIMIT_memory_swap_max_mb
#define SHARE(percent) (JSON_SHARE | (percent))

static const struct limits none;

static struct limits one(enum limit i, int64_t v)
{
	struct limits l = {0};

	l.value[i] = v;
	return l;
}

static void assert_list(const struct strv *list, const char *text)
{
	cleanup_buf struct buf b = {0};

	buf_adds(&b, "");
	for (size_t i = 0; i < list->n; i++)
		buf_addf(&b, "%s%s", i > 0 ? " " : "", list->v[i]);
	assert_string_equal(b.data, text);
}

static void sbx_4_the_rows_are_whole(void **state)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		const struct limit_row *r = &limit_rows[i];

		assert_true(r->low >= 0 && r->low < r->high && r->high < JSON_SHARE);
		assert_true(r->help[0] != '\0' && r->field[0] != '\0' && r->unit[0] != '\0');
	}
}

static void sbx_4_without_a_request_there_is_no_limit(void **state)
{
	struct limits l = {0};

	limits_choose(&l, &none, &none, 1000, NULL);
	for (unsigned i = 0; i < LIMITS; i++)
		assert_false(limits_has(&l, i));
	assert_int_equal(limits_walls(&l), 0);
}

/* The smaller one counts, from whichever side it comes. */
static void sbx_4_the_smallest_limit_holds(void **state)
{
	static const struct {
		int64_t asked, server, policy, got;
		bool capped;
	} rows[] = {{0, 0, 0, 0, false}, {7, 0, 0, 7, false}, {0, 7, 0, 7, false},
		    {0, 0, 7, 7, false}, {7, 8, 9, 7, false}, {8, 7, 9, 7, true},
		    {9, 8, 7, 7, true},	 {7, 7, 7, 7, false}, {0, 8, 7, 7, false}};

	for (size_t k = 0; k < ARRAY_LEN(rows); k++)
		for (unsigned i = 0; i < LIMITS; i++) {
			struct limits l = one(i, rows[k].asked);
			const struct limits server = one(i, rows[k].server);
			const struct limits policy = one(i, rows[k].policy);
			struct strv capped = {0};

			/* the server's swap is that of sessions with less memory */
			if (i == SWAP && rows[k].server != 0)
				continue;
			limits_choose(&l, &server, &policy, 0, &capped);
			assert_int_equal(l.value[i], rows[k].got);
			assert_list(&capped, rows[k].capped ? limit_rows[i].field : "");
			strv_done(&capped);
		}
}

/* No number of a sender makes another one by overflow. */
static void sbx_4_the_largest_number_is_bounded(void **state)
{
	static const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX, JSON_SHARE, SHARE(101)};

	for (size_t k = 0; k < ARRAY_LEN(wrong); k++)
		for (unsigned i = 0; i < LIMITS; i++) {
			struct limits l = one(i, wrong[k]);

			limits_choose(&l, &none, &none, 1000, NULL);
			assert_int_equal(l.value[i], limit_rows[i].high);
		}
}

static void sbx_4_swap_is_limited_with_memory(void **state)
{
	static const struct {
		int64_t memory, server, asked, got;
		bool has;
	} rows[] = {{0, 0, 0, 0, false}, {0, 5, 0, 0, false}, {9, 0, 0, 0, true},
		    {9, 5, 0, 5, true},	 {9, 5, 4, 4, true},  {9, 5, 6, 5, true},
		    {0, 5, 6, 6, true},	 {9, 0, 6, 0, true}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct limits l = {
			.value = {[LIMIT_max_memory_mb] = rows[i].memory, [SWAP] = rows[i].asked}};
		const struct limits server = {.value[SWAP] = rows[i].server};

		limits_choose(&l, &server, &none, 0, NULL);
		assert_int_equal(limits_has(&l, SWAP), rows[i].has);
		assert_int_equal(l.value[SWAP], rows[i].got);
	}
}

/* 0 is a limit of swap, and none of commands. */
static void ses_5_what_a_given_0_means(void **state)
{
	struct limits l = {.given = {[SWAP] = true, [LIMIT_max_commands] = true}};
	const struct limits policy = {.value = {[SWAP] = 5, [LIMIT_max_commands] = 5}};
	struct strv capped = {0};

	assert_true(limits_has(&l, SWAP));
	assert_false(limits_has(&l, LIMIT_max_commands));
	limits_choose(&l, &none, &policy, 0, &capped);
	assert_int_equal(l.value[SWAP], 0);
	assert_int_equal(l.value[LIMIT_max_commands], 5);
	assert_list(&capped, "limits.max_commands");
	strv_done(&capped);
}

static void ses_5_wider_ones_are_dropped(void **state)
{
	struct limits asked = {
		.value = {[LIMIT_pids_max] = 6, [LIMIT_max_disk_mb] = 4, [LIMIT_max_memory_mb] = 3},
		.given[LIMIT_max_commands] = true};
	const struct limits now = {
		.value = {[LIMIT_pids_max] = 5, [LIMIT_max_disk_mb] = 4, [LIMIT_max_commands] = 1}};
	struct strv capped = {0};

	limits_drop_wider(&asked, &now, &capped);
	assert_list(&capped, "resource_limits.pids_max limits.max_commands");
	assert_false(limits_has(&asked, LIMIT_pids_max));
	assert_int_equal(asked.value[LIMIT_max_disk_mb], 4);
	assert_int_equal(asked.value[LIMIT_max_memory_mb], 3);
	strv_done(&capped);
}

static void sbx_4_a_share_becomes_a_number_before_it_is_compared(void **state)
{
	static const struct {
		int64_t asked, server, policy, share_mb, got;
		bool capped;
	} rows[] = {
		{SHARE(75), 0, 0, 1000, 750, false},
		{0, SHARE(75), 0, 1000, 750, false},
		{0, 0, SHARE(75), 1000, 750, false},
		{749, 0, SHARE(75), 1000, 749, false},
		{751, 0, SHARE(75), 1000, 750, true},
		{SHARE(90), 0, SHARE(75), 1000, 750, true},
		{SHARE(50), 0, SHARE(75), 1000, 500, false},
		{SHARE(50), 400, 0, 1000, 400, true},
		{SHARE(1), 0, 0, 5, 1, false},
		{SHARE(100), 0, 0, 5, 5, false},
		{SHARE(75), 0, 0, 0, SHARE(75), false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct limits l = {.value[LIMIT_max_memory_mb] = rows[i].asked};
		const struct limits server = {.value[LIMIT_max_memory_mb] = rows[i].server};
		const struct limits policy = {.value[LIMIT_max_memory_mb] = rows[i].policy};
		struct strv capped = {0};

		limits_choose(&l, &server, &policy, rows[i].share_mb, &capped);
		assert_int_equal(l.value[LIMIT_max_memory_mb], rows[i].got);
		assert_list(&capped, rows[i].capped ? "resource_limits.max_memory_mb" : "");
		strv_done(&capped);
	}
}

static void sbx_4_a_number_needs_its_wall_and_a_share_does_not(void **state)
{
	struct limits l = {.value = {[LIMIT_max_memory_mb] = SHARE(75),
				     [LIMIT_pids_max] = 4,
				     [LIMIT_cpu_period_us] = 1000,
				     [LIMIT_session_timeout] = 1}};

	assert_int_equal(limits_walls(&l), UINT64_C(1) << WALL_pids_limit);
	limits_resolve(&l, 100);
	assert_int_equal(limits_walls(&l),
			 UINT64_C(1) << WALL_pids_limit | UINT64_C(1) << WALL_memory_limit);
}

static void net_8_what_nothing_enforces_is_refused(void **state)
{
	static const struct {
		enum limit limit;
		const char *wall, *message;
	} rows[] = {
		{LIMIT_net_bandwidth_mbps, "network_limit",
		 "resource_limits.net_bandwidth_mbps: nothing enforces this limit yet; leave it "
		 "out"},
		{LIMIT_max_file_ops, "file_rules",
		 "limits.max_file_ops: operations on files are not counted where monitoring.mode "
		 "is native; set it to fuse, or leave this limit out"},
		{LIMIT_max_net_ops, "network_rules",
		 "limits.max_net_ops: nothing enforces this limit yet; leave it out"},
	};
	struct limits most = {0};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct limits l = one(rows[i].limit, 1);
		struct err err = {0};

		assert_int_equal(limits_enforceable(&l, false, &err), -E_ENFORCEMENT);
		assert_string_equal(err.subject, rows[i].wall);
		assert_string_equal(err.message, rows[i].message);
	}
	for (unsigned i = 0; i < LIMITS; i++)
		most.value[i] = limit_rows[i].by < LIMIT_BY_RULES;
	assert_int_equal(limits_enforceable(&most, true, NULL), 0);
	assert_int_equal(limits_enforceable(&most, false, NULL), -E_ENFORCEMENT);
}

static void sbx_4_messages_carry_every_limit(void **state)
{
	static const char *const wrong[] = {"pids_max", "pids_max=", "pids_max=x", "pids_max=-1",
					    "pids=1",	"=1",	     "",	   "pids_max=1 "};
	struct limits l = {.given[SWAP] = true}, got = {0};
	struct strv text = {0};

	for (unsigned i = 0; i < LIMITS; i++)
		l.value[i] = i == SWAP ? 0 : limit_rows[i].high - i;
	limits_pack(&l, &text);
	assert_int_equal(text.n, LIMITS);
	assert_int_equal(limits_unpack(&got, &text, NULL), 0);
	assert_memory_equal(got.value, l.value, sizeof(l.value));
	assert_true(limits_has(&got, SWAP));
	strv_done(&text);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		struct err err = {0};

		strv_add(&text, wrong[i]);
		assert_int_equal(limits_unpack(&got, &text, &err), -E_BAD_REQUEST);
		strv_done(&text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_4_the_rows_are_whole),
		cmocka_unit_test(sbx_4_without_a_request_there_is_no_limit),
		cmocka_unit_test(sbx_4_the_smallest_limit_holds),
		cmocka_unit_test(sbx_4_the_largest_number_is_bounded),
		cmocka_unit_test(sbx_4_swap_is_limited_with_memory),
		cmocka_unit_test(ses_5_what_a_given_0_means),
		cmocka_unit_test(ses_5_wider_ones_are_dropped),
		cmocka_unit_test(sbx_4_a_share_becomes_a_number_before_it_is_compared),
		cmocka_unit_test(sbx_4_a_number_needs_its_wall_and_a_share_does_not),
		cmocka_unit_test(net_8_what_nothing_enforces_is_refused),
		cmocka_unit_test(sbx_4_messages_carry_every_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
