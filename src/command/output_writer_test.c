// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "command/output_writer.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include <cmocka.h>

struct fixture {
	struct loop *loop;
	struct output o;
	struct input in;
	int theirs; /* the command's end */
	unsigned calls;
	uint64_t stop_at;
};

static void on_data(void *arg)
{
	struct fixture *f = arg;

	f->calls++;
	if (f->o.stream.bytes >= f->stop_at)
		loop_stop(f->loop);
}

static int make(void **state)
{
	struct fixture *f = mem_new(struct fixture);

	signal(SIGPIPE, SIG_IGN);
	f->loop = loop_new(NULL, NULL);
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *f = *state;

	loop_free(f->loop);
	free(f);
	return 0;
}

static void open_output(struct fixture *f, uint64_t quota)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	fdio_nonblock(fd[0]);
	f->theirs = fd[1];
	output_init(&f->o, fd[0], memfd_create("o", MFD_CLOEXEC), quota);
}

static void fill(int fd, size_t n)
{
	static char x[65536];

	memset(x, 'x', sizeof(x));
	assert_int_equal(write(fd, x, n), n);
}

/* EXE-6: exactly the window is taken; a wider one goes on; a narrower one changes nothing. */
static void exe_6_the_window_is_exact(void **state)
{
	struct fixture *f = *state;

	open_output(f, 1 << 30);
	f->o.allowed = OUTPUT_FIRST_WINDOW;
	f->o.allowed = 10;
	fill(f->theirs, 100);
	output_start(&f->o, f->loop, on_data, f);
	f->stop_at = 10;
	loop_run(f->loop);
	assert_int_equal(f->o.stream.bytes, 10);
	output_window(&f->o, 5, OUTPUT_UNREAD);
	assert_int_equal(f->o.allowed, 10);
	output_window(&f->o, 11, OUTPUT_UNREAD);
	f->stop_at = 11;
	loop_run(f->loop);
	assert_int_equal(f->o.stream.bytes, 11);
	/* At the end the rest is taken, window or not. */
	output_drain(&f->o);
	assert_int_equal(f->o.stream.bytes, 100);
	close(f->theirs);
	output_done(&f->o);
}

/* EXE-6: a pipe that was full once gets larger; one with few bytes does not. */
static void exe_6_a_full_pipe_gets_larger(void **state)
{
	struct fixture *f = *state;

	open_output(f, 1 << 30);
	output_start(&f->o, f->loop, on_data, f);
	fill(f->theirs, 100);
	f->stop_at = 100;
	loop_run(f->loop);
	assert_int_equal(fcntl(f->theirs, F_GETPIPE_SZ), 65536);
	fill(f->theirs, 65536);
	f->stop_at = 65636;
	loop_run(f->loop);
	assert_int_equal(fcntl(f->theirs, F_GETPIPE_SZ), 524288);
	close(f->theirs);
	output_done(&f->o);
}

/* EXE-4: a command can open its own pipe for reading and take what was counted; a read that waits
 * for more would hold the warden, and with it every time-out. */
static void exe_4_a_drain_does_not_wait_for_what_another_took(void **state)
{
	struct fixture *f = *state;

	open_output(f, 1 << 30);
	assert_int_equal(fcntl(f->o.fd, F_SETFL, 0), 0); /* as it is before it is watched */
	output_drain(&f->o);
	assert_int_equal(f->o.stream.bytes, 0);
	fill(f->theirs, 1);
	output_drain(&f->o);
	assert_int_equal(f->o.stream.bytes, 1);
	assert_true((fcntl(f->o.fd, F_GETFL) & O_NONBLOCK) != 0);
	close(f->theirs);
	output_done(&f->o);
}

static void exe_6_without_flow_all_is_taken(void **state)
{
	struct fixture *f = *state;

	open_output(f, 50);
	fill(f->theirs, 65536);
	output_start(&f->o, f->loop, on_data, f);
	f->stop_at = 65536;
	loop_run(f->loop);
	assert_int_equal(f->o.stream.kept, 50);
	assert_int_equal(f->calls, 1);
	f->o.allowed = OUTPUT_FIRST_WINDOW;
	fill(f->theirs, 10);
	output_unbind(&f->o);
	f->stop_at = 65546;
	loop_run(f->loop);
	assert_int_equal(f->o.stream.bytes, 65546);
	/* The end of the pipe closes it. */
	fill(f->theirs, 1);
	close(f->theirs);
	output_drain(&f->o);
	assert_int_equal(f->o.stream.bytes, 65547);
	assert_true(f->o.fd >= 0);
	output_drain(&f->o);
	output_done(&f->o);
	assert_int_equal(f->o.fd, -1);
	output_drain(&f->o);
	output_done(&f->o);
}

/* EXE-6: behind the quota the reader's position holds the command; no reader, or a file that takes
 * nothing more, holds nothing. */
static void exe_6_a_reader_holds_the_command_behind_the_quota(void **state)
{
	struct fixture *f = *state;
	const uint64_t quota = 4096;

	open_output(f, quota);
	assert_true(fcntl(f->theirs, F_SETPIPE_SZ, 1 << 20) >= 1 << 20);
	output_window(&f->o, 0, 0);
	for (int i = 0; i < 16; i++)
		fill(f->theirs, 65536);
	output_start(&f->o, f->loop, on_data, f);
	f->stop_at = STREAM_WINDOW; /* 0 is read: so much is held for it */
	loop_run(f->loop);
	fill(f->theirs, 65536);
	output_window(&f->o, 0, 1000);
	f->stop_at = STREAM_WINDOW + 1000;
	loop_run(f->loop);
	assert_int_equal(f->o.stream.bytes, STREAM_WINDOW + 1000);
	assert_int_equal(f->o.stream.from, quota);
	output_unbind(&f->o);
	f->stop_at = STREAM_WINDOW + 65536;
	loop_run(f->loop);
	assert_int_equal(f->o.stream.from, STREAM_WINDOW + 65536);
	output_window(&f->o, 0, 0);
	f->o.stream.failed = ENOSPC;
	fill(f->theirs, 65536);
	output_window(&f->o, 0, 0);
	f->stop_at = STREAM_WINDOW + 2 * 65536;
	loop_run(f->loop);
	assert_int_equal(f->o.stream.kept, quota);
	close(f->theirs);
	output_done(&f->o);
}

/* EXE-3: a drain takes what is there and waits for nothing. */
static void exe_3_a_drain_does_not_wait(void **state)
{
	struct fixture *f = *state;

	open_output(f, 1 << 20);
	output_drain(&f->o);
	assert_int_equal(f->o.stream.bytes, 0);
	fill(f->theirs, 65536);
	output_drain(&f->o);
	assert_int_equal(f->o.stream.bytes, 65536);
	close(f->theirs);
	output_done(&f->o);
}

static void open_input(struct fixture *f)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	fdio_nonblock(fd[1]);
	f->theirs = fd[0];
	f->in = (struct input){.fd = fd[1]};
}

static void on_taken(void *arg)
{
	struct fixture *f = arg;

	f->calls++;
	if (f->in.taken >= f->stop_at)
		loop_stop(f->loop);
}

/* EXE-4: what the pipe does not take waits, is counted when it goes, and the end closes. */
static void exe_4_input_waits_for_the_command(void **state)
{
	struct fixture *f = *state;
	cleanup_free char *big = mem_alloc(100000);
	struct err err = {0};
	ssize_t n;

	open_input(f);
	f->stop_at = 100001;
	assert_int_equal(input_add(&f->in, "a", 1, false, &err), 0);
	assert_int_equal(f->in.taken, 1);
	input_start(&f->in, f->loop, on_taken, f);
	assert_int_equal(f->calls, 0);
	assert_int_equal(input_add(&f->in, big, 100000, true, &err), 0);
	assert_true(f->in.taken > 1 && f->in.taken < 100001);
	assert_int_equal(f->calls, 1);
	n = read(f->theirs, big, 65536);
	assert_true(n > 0);
	loop_run(f->loop);
	assert_int_equal(f->in.fd, -1);
	assert_int_equal(fdio_read_full(f->theirs, big, 100000), 100001 - n);
	close(f->theirs);
	input_done(&f->in);
}

/* EXE-4: input without a reader counts as taken, also later input; too much is refused. */
static void exe_4_input_without_a_reader(void **state)
{
	struct fixture *f = *state;
	cleanup_free char *big = mem_alloc(INPUT_MAX + 1);
	struct err err = {0};

	open_input(f);
	input_start(&f->in, f->loop, on_taken, f);
	close(f->theirs);
	assert_int_equal(input_add(&f->in, "abc", 3, false, &err), 0);
	assert_int_equal(f->in.taken, 3);
	assert_int_equal(f->in.fd, -1);
	assert_int_equal(input_add(&f->in, "de", 2, false, &err), 0);
	assert_int_equal(f->in.taken, 5);
	assert_int_equal(f->calls, 2);
	input_done(&f->in);

	open_input(f);
	assert_int_equal(input_add(&f->in, big, INPUT_MAX + 1, false, &err), -E_TOO_LARGE);
	assert_int_equal(input_add(&f->in, big, INPUT_MAX, false, &err), 0);
	assert_int_equal(input_add(&f->in, big, f->in.taken + 1, false, &err), -E_TOO_LARGE);
	assert_int_equal(input_add(&f->in, big, f->in.taken, false, &err), 0);
	close(f->theirs);
	input_done(&f->in);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(exe_6_the_window_is_exact),
		TEST(exe_6_a_full_pipe_gets_larger),
		TEST(exe_6_without_flow_all_is_taken),
		TEST(exe_4_a_drain_does_not_wait_for_what_another_took),
		TEST(exe_3_a_drain_does_not_wait),
		TEST(exe_6_a_reader_holds_the_command_behind_the_quota),
		TEST(exe_4_input_waits_for_the_command),
		TEST(exe_4_input_without_a_reader),
	};

	return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
