// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

struct fixture {
	struct loop *loop;
	struct watch *a, *b, *c;
	unsigned calls, turns, stop_after, order, seen;
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
	watch_free(f->c);
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
	watch_after(f->b, 1);
	watch_stop(f->b);
	for (uint64_t ms = 0; ms < 30; ms += 7) {
		const int64_t begun = clock_mono_us(&clock_system);

		f->calls = 0;
		watch_after(f->a, 10000);
		watch_after(f->a, ms);
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

/* SES-5: a boot-time timer is set, replaced and stopped like any other, and is not early. */
static void ses_5_a_boot_timer_counts_by_its_own_clock(void **state)
{
	struct fixture *f = *state;
	int64_t begun;

	f->a = watch_boot_timer(f->loop, count, f);
	assert_non_null(f->a);
	assert_int_equal(watch_due_us(f->a), 0);
	watch_after(f->a, 0);
	watch_stop(f->a);
	loop_pass(f->loop);
	assert_int_equal(f->calls, 0);
	for (unsigned ms = 0; ms < 15; ms += 7) {
		f->calls = 0;
		watch_after(f->a, 3600000);
		begun = clock_boot_us(&clock_system);
		watch_after(f->a, ms);
		assert_true(watch_due_us(f->a) - begun >= ms * 1000);
		assert_true(watch_due_us(f->a) - begun < 5000000);
		loop_run(f->loop);
		assert_int_equal(f->calls, 1);
		assert_int_equal(watch_due_us(f->a), 0);
		assert_true(clock_boot_us(&clock_system) - begun >= ms * 1000);
	}
}

static void note_a(void *arg)
{
	struct fixture *f = arg;

	f->order = f->order * 10 + 1;
	f->calls++;
	watch_soon(f->b);
	watch_after(f->c, 0);
}

static void note_b(void *arg)
{
	struct fixture *f = arg;

	f->order = f->order * 10 + 2;
	f->calls++;
}

static void note_c(void *arg)
{
	struct fixture *f = arg;

	f->order = f->order * 10 + 3;
	f->calls++;
}

/* EVT-2: a deferred call comes in the same turn, behind what is ready; a timer of no time comes in
 * the next one. */
static void evt_2_a_deferred_call_ends_the_turn(void **state)
{
	struct fixture *f = *state;
	struct watch *other = watch_timer(f->loop, note_a, f);

	f->stop_after = 100;
	f->a = watch_timer(f->loop, note_a, f);
	f->b = watch_timer(f->loop, note_b, f);
	f->c = watch_timer(f->loop, note_c, f);
	watch_after(f->a, 0);
	watch_after(other, 0);
	loop_pass(f->loop);
	assert_int_equal(f->order, 112);
	assert_true(watch_due_us(f->c) > 0);
	loop_pass(f->loop);
	assert_int_equal(f->order, 1123);
	watch_soon(f->b);
	watch_stop(f->b);
	loop_pass(f->loop);
	assert_int_equal(f->order, 1123);
	watch_free(other);
}

static void remember(void *arg)
{
	struct fixture *f = arg;

	f->calls++;
	f->seen = watch_seen(f->a);
}

/* API-1: a watch of edges tells each change once, and what has changed. */
static void api_1_edges_are_told_once(void **state)
{
	struct fixture *f = *state;
	int pair[2];

	f->stop_after = 100;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	f->a = watch_edges(f->loop, pair[0], WATCH_READABLE | WATCH_CLOSED, remember, f);
	assert_int_equal(watch_start(f->a), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(write(pair[1], "x", 1), 1);
		loop_pass(f->loop);
		loop_pass(f->loop);
		assert_int_equal(f->calls, i + 1);
		assert_int_equal(f->seen, WATCH_READABLE);
	}
	watch_soon(f->a);
	loop_pass(f->loop);
	assert_int_equal(f->calls, 3);
	assert_int_equal(f->seen, 0);
	assert_int_equal(shutdown(pair[1], SHUT_WR), 0);
	loop_pass(f->loop);
	assert_int_equal(f->calls, 4);
	assert_int_equal(f->seen, WATCH_READABLE | WATCH_CLOSED);
	close(pair[0]);
	close(pair[1]);
}

/* SES-8: a stop that comes before the run ends it. */
static void ses_8_a_stop_before_the_run_counts(void **state)
{
	struct fixture *f = *state;

	loop_stop(f->loop);
	loop_run(f->loop);
	f->a = watch_timer(f->loop, count, f);
	watch_after(f->a, 0);
	loop_run(f->loop);
	assert_int_equal(f->calls, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(exe_4_a_timer_is_not_early),
		TEST(exe_6_descriptors),
		TEST(ses_5_a_boot_timer_counts_by_its_own_clock),
		TEST(evt_2_a_deferred_call_ends_the_turn),
		TEST(api_1_edges_are_told_once),
		TEST(ses_8_a_stop_before_the_run_counts),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
