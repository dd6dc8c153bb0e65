// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "fs/space.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MANY 5000

static struct node_key key_of(uint64_t ino)
{
	return (struct node_key){.ino = ino, .dev = 7, .birth = 3};
}

static void charge(struct space *s, uint64_t ino, int64_t grown, uint64_t most)
{
	const struct node_key k = key_of(ino);

	space_charge(s, &k, grown, most);
}

static int make(void **state)
{
	*state = space_new();
	return 0;
}

static int unmake(void **state)
{
	space_free(*state);
	space_free(NULL);
	return 0;
}

static void ses_5_what_the_session_frees_of_its_own_is_given_back(void **state)
{
	struct space *s = *state;

	charge(s, 1, 100, UINT64_MAX);
	charge(s, 2, 50, UINT64_MAX);
	assert_int_equal(space_added(s), 150);
	charge(s, 1, -30, UINT64_MAX);
	assert_int_equal(space_added(s), 120);
	/* the rest of the file is the person's */
	charge(s, 1, -1000, UINT64_MAX);
	assert_int_equal(space_added(s), 50);
	charge(s, 3, -1000, UINT64_MAX);
	assert_int_equal(space_added(s), 50);
	/* it has not more on the disk */
	charge(s, 2, 0, 20);
	assert_int_equal(space_added(s), 20);
	charge(s, 2, 0, 0);
	assert_int_equal(space_added(s), 0);
}

static void ses_5_a_reserve_counts_until_it_is_returned(void **state)
{
	struct space *s = *state;

	assert_int_equal(space_left(s), UINT64_MAX);
	assert_true(space_reserve(s, UINT64_MAX / 2)); /* without a limit */
	space_unreserve(s, UINT64_MAX / 2);
	space_limit(s, 100);
	charge(s, 1, 40, UINT64_MAX);
	assert_false(space_reserve(s, 61));
	assert_false(space_reserve(s, UINT64_MAX));
	assert_true(space_reserve(s, 60));
	assert_int_equal(space_left(s), 0);
	assert_false(space_reserve(s, 1));
	assert_true(space_reserve(s, 0));
	space_unreserve(s, 60);
	assert_int_equal(space_left(s), 60);
	/* one request may be larger than it said */
	charge(s, 1, 100, UINT64_MAX);
	assert_int_equal(space_left(s), 0);
	assert_true(space_reserve(s, 0));
	assert_false(space_reserve(s, 1));
}

static void ses_5_a_charge_that_is_forgotten_stays_in_the_sum(void **state)
{
	struct space *s = *state;
	const struct node_key k = key_of(1), other = key_of(2);

	charge(s, 1, 40, UINT64_MAX);
	space_forget(s, &other);
	space_forget(s, &k);
	assert_int_equal(space_added(s), 40);
	charge(s, 1, -40, UINT64_MAX);
	assert_int_equal(space_added(s), 40);
}

/* The table grows, and what is removed leaves no gap before what stays. */
static void ses_5_many_objects(void **state)
{
	struct space *s = *state;
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= MANY; i++) {
		charge(s, i, (int64_t)i, UINT64_MAX);
		sum += i;
	}
	assert_int_equal(space_added(s), sum);
	for (uint64_t i = 1; i <= MANY; i += 2) {
		charge(s, i, -(int64_t)i - 5, UINT64_MAX);
		sum -= i;
		assert_int_equal(space_added(s), sum);
	}
	for (uint64_t i = 2; i <= MANY; i += 2) {
		charge(s, i, 0, 1);
		sum -= i - 1;
		assert_int_equal(space_added(s), sum);
	}
}

/* Numbers of inodes are used again, and two devices have the same ones. */
static void ses_5_objects_are_told_apart_by_device_and_birth(void **state)
{
	struct space *s = *state;
	const struct node_key a = key_of(1);
	struct node_key born_later = a, elsewhere = a;

	born_later.birth++;
	elsewhere.dev++;
	space_charge(s, &a, 10, UINT64_MAX);
	space_charge(s, &born_later, -10, UINT64_MAX);
	space_charge(s, &elsewhere, -10, UINT64_MAX);
	assert_int_equal(space_added(s), 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(ses_5_what_the_session_frees_of_its_own_is_given_back),
		TEST(ses_5_a_reserve_counts_until_it_is_returned),
		TEST(ses_5_a_charge_that_is_forgotten_stays_in_the_sum),
		TEST(ses_5_many_objects),
		TEST(ses_5_objects_are_told_apart_by_device_and_birth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
