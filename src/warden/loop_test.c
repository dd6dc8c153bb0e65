// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include "warden/loop.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct fixture {
	struct loop *loop;
	struct watch *a, *b;
	unsigned calls, turns, stop_after;
	int64_t at_us;
	int fd[2];
};

static void on_turn(void *arg)
{
	struct fixture *f = arg;

	f->turns++;
	if (f->calls >= f->stop_after)
		loop_stop(f->loop);
}

static int make(void **state)
{
	struct fixture *f = mem_new(struct fixture);

	f->loop = loop_new(on_turn, f);
	f->stop_after = 1;
	*state = f;
	return pipe2(f->fd, O_CLOEXEC);
}

static int unmake(void **state)
{
	struct fixture *f = *state;

	watch_free(f->a);
	watch_free(f->b);
	loop_free(f->loop);
	loop_free(NULL);
	watch_free(NULL);
	watch_stop(NULL);
	close(f->fd[0]);
	close(f->fd[1]);
	free(f);
	return 0;
}

static void count(void *arg)
{
	struct fixture *f = arg;

	f->calls++;
	f->at_us = clock_mono_us(&clock_system);
}

/* EXE-4: a timer never fires before its time, is replaced, and can be stopped. */
static void exe_4_a_timer_is_not_early(void **state)
{
	struct fixture *f = *state;

	f->a = watch_timer(f->loop, count, f);
	f->b = watch_timer(f->loop, count, f);
	watch_after_ms(f->b, 1);
	watch_stop(f->b);
	for (uint64_t ms = 0; ms < 30; ms += 7) {
		const int64_t begun = clock_mono_us(&clock_system);

		f->calls = 0;
		watch_after_ms(f->a, 10000);
		watch_after_ms(f->a, ms);
		loop_run(f->loop);
		assert_int_equal(f->calls, 1);
		assert_true(f->at_us - begun >= (int64_t)ms * 1000);
		assert_true(f->at_us - begun < 5000000);
	}
}

static void free_self(void *arg)
{
	struct fixture *f = arg;

	f->calls++;
	watch_free(f->a);
	f->a = NULL;
}

/* EXE-6: readable repeats until stopped, writable fires once, each is followed by a turn. */
static void exe_6_descriptors(void **state)
{
	struct fixture *f = *state;

	f->a = watch_readable(f->loop, f->fd[0], count, f);
	f->b = watch_writable(f->loop, f->fd[1], count, f);
	watch_start(f->b);
	loop_run(f->loop);
	assert_int_equal(f->calls, 1);
	assert_int_equal(write(f->fd[1], "x", 1), 1);
	watch_start(f->a);
	watch_start(f->a);
	f->stop_after = 4;
	loop_run(f->loop);
	assert_int_equal(f->calls, 4);
	assert_int_equal(f->turns, 4);
	watch_stop(f->a);
	watch_start(f->b);
	f->stop_after = 5;
	loop_run(f->loop);
	assert_int_equal(f->calls, 5);
	watch_free(f->a);
	f->a = watch_readable(f->loop, f->fd[0], free_self, f);
	watch_start(f->a);
	f->stop_after = 6;
	loop_run(f->loop);
	assert_int_equal(f->calls, 6);
	assert_null(f->a);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(exe_4_a_timer_is_not_early),
		TEST(exe_6_descriptors),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
