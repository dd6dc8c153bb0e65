// SPDX-License-Identifier: Apache-2.0
/* Walks that hang in read(2) of a pipe. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "walk/walker.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#define TIMEOUT_S 60

static struct {
	struct walker *w;
	int hang[2]; /* a byte ends one walk */
	int woken;   /* eventfd: counts */
	atomic_uint began, ran, dropped, threads;
} t;

static void count(void *counter)
{
	atomic_fetch_add((atomic_uint *)counter, 1);
}

static void uncount(void *counter)
{
	atomic_fetch_sub((atomic_uint *)counter, 1);
}

static void hang(void *arg)
{
	char c;

	count(&t.began);
	if (read(t.hang[0], &c, 1) == 1)
		count(&t.ran);
}

static void wake(void *to)
{
	assert_int_equal(eventfd_write(*(int *)to, 1), 0);
}

static struct walk *start(void)
{
	const struct walk_job job = {hang, count, &t.dropped, wake, &t.woken};

	return walk_start(t.w, &job);
}

static void let(unsigned n)
{
	while (n-- > 0)
		assert_int_equal(write(t.hang[1], "g", 1), 1);
}

/* The program's alarm is the limit. */
static void wait_until(atomic_uint *counter, unsigned n)
{
	while (atomic_load(counter) != n)
		sched_yield();
}

static void await_wakes(unsigned n)
{
	eventfd_t got;

	for (unsigned sum = 0; sum < n; sum += (unsigned)got)
		assert_int_equal(eventfd_read(t.woken, &got), 0);
}

static int begin(void **state)
{
	alarm(TIMEOUT_S);
	t.began = t.ran = t.dropped = 0;
	t.woken = eventfd(0, EFD_CLOEXEC);
	t.w = walker_new(count, uncount, &t.threads);
	return pipe2(t.hang, O_CLOEXEC);
}

static int end(void **state)
{
	const bool over = walker_free(t.w);

	close(t.hang[0]);
	close(t.hang[1]);
	close(t.woken);
	return over && t.threads == 0 ? 0 : -1;
}

static void exe_5_a_walk_tells_when_it_is_over(void **state)
{
	struct walk *k = start();

	wait_until(&t.began, 1);
	assert_false(walk_over(k));
	let(1);
	await_wakes(1);
	assert_true(walk_over(k));
	assert_true(walk_end(k));
	assert_int_equal(t.dropped, 0);
	assert_int_equal(t.threads, 1);
}

static void exe_5_a_walk_that_hangs_is_given_up(void **state)
{
	struct walk *first = start(), *second = start();
	eventfd_t none;

	wait_until(&t.began, 2);
	assert_false(walk_end(first));
	assert_int_equal(t.dropped, 0); /* it still uses its argument */
	let(2);
	await_wakes(1);
	assert_true(walk_end(second));
	wait_until(&t.dropped, 1);
	assert_int_equal(fcntl(t.woken, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(eventfd_read(t.woken, &none), -1);
}

static void exe_5_more_walks_than_threads_wait(void **state)
{
	struct walk *k[WALKER_THREADS + 2];

	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		k[i] = start();
	wait_until(&t.began, WALKER_THREADS);
	assert_false(walk_end(k[WALKER_THREADS])); /* never begun: dropped at once */
	assert_int_equal(t.dropped, 1);
	let(WALKER_THREADS + 1);
	await_wakes(WALKER_THREADS + 1);
	assert_int_equal(t.began, WALKER_THREADS + 1);
	for (size_t i = 0; i < ARRAY_LEN(k); i++)
		if (i != WALKER_THREADS)
			assert_true(walk_end(k[i]));
	assert_int_equal(t.threads, WALKER_THREADS);
}

static void exe_5_a_caller_waits_for_a_limited_time(void **state)
{
	const struct walk_job job = {hang, count, &t.dropped};

	assert_false(walk_within(t.w, &job, 1));
	let(2);
	wait_until(&t.dropped, 1); /* it has begun or not */
	assert_true(walk_within(t.w, &job, TIMEOUT_S * 1000));
	assert_int_equal(t.dropped, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(exe_5_a_walk_tells_when_it_is_over),
		TEST(exe_5_a_walk_that_hangs_is_given_up),
		TEST(exe_5_more_walks_than_threads_wait),
		TEST(exe_5_a_caller_waits_for_a_limited_time),
	};

	return cmocka_run_group_tests_name("walker", tests, NULL, NULL);
}
