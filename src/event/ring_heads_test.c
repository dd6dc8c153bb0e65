// SPDX-License-Identifier: Apache-2.0
#include "event/ring_heads.h"
#include "event/testkit/journal_testkit.h"

/* EVT-2: where a command ends in the ring of another process. */
static void evt_2_heads_of_other_rings_are_seen_and_told(void **state)
{
	struct pair *p = *state;
	struct ring_heads h = {0};
	struct strv list = {0};

	assert_false(ring_heads_look(&h));
	ring_heads_format(&h, &list);
	assert_int_equal(list.n, 0);
	assert_int_equal(ring_heads_add(&h, "fs", dup(p->ring_fd), NULL), 0);
	assert_false(ring_heads_look(&h));
	pair_append(p, 0, 0);
	assert_true(ring_heads_look(&h));
	ring_heads_format(&h, &list);
	assert_int_equal(list.n, 1);
	assert_int_equal(ring_heads_find(&list, "fs"), journal_head(p->j));
	/* What comes between the look and the bell is for the next one. */
	pair_append(p, 1, 0);
	ring_heads_rung(&h);
	assert_true(ring_heads_look(&h));
	ring_heads_rung(&h);
	assert_false(ring_heads_look(&h));
	ring_heads_format(&h, &list); /* in place of what was there */
	assert_int_equal(list.n, 1);
	assert_int_equal(ring_heads_find(&list, "fs"), journal_head(p->j));
	strv_done(&list);
	ring_heads_close(&h);
}

static void evt_2_a_ring_is_found_by_its_whole_name(void **state)
{
	char *v[] = {(char *)"net2 8", (char *)"net 16", NULL};
	const struct strv list = {v, 2};

	assert_int_equal(ring_heads_find(&list, "net"), 16);
	assert_int_equal(ring_heads_find(&list, "net2"), 8);
	assert_int_equal(ring_heads_find(&list, "ne"), UINT64_MAX);
	assert_int_equal(ring_heads_find(&(struct strv){0}, "net"), UINT64_MAX);
}

static void evt_2_what_is_not_a_ring_is_refused(void **state)
{
	struct pair *p = *state;
	struct ring_heads h = {0};
	struct err err = {0};

	assert_int_equal(ring_heads_add(&h, "fs", dup(p->ack_fd), &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "not a ring"));
	ring_heads_close(&h);
	assert_int_equal(ftruncate(p->ack_fd, 1), 0);
	assert_int_equal(ring_heads_add(&h, "fs", dup(p->ack_fd), &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "too short"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)
	const struct CMUnitTest tests[] = {
		TEST(evt_2_heads_of_other_rings_are_seen_and_told),
		TEST(evt_2_a_ring_is_found_by_its_whole_name),
		TEST(evt_2_what_is_not_a_ring_is_refused),
	};

	return cmocka_run_group_tests_name("ring_heads", tests, NULL, NULL);
}
