// SPDX-License-Identifier: Apache-2.0
/* Forked copies of this test play the shell's capture program and those who would like to be it. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "shell/capture_in.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_BYTES 100

struct fixture {
	struct loop *loop;
	struct capture_in *in;
	struct sockaddr_un at;
	struct captured captured;
	bool owned, later;
	bool asked; /* for an owner: a connection was accepted */
	struct watch *tick;
	bool (*until)(struct fixture *f);
	int64_t stop_us;
};

static struct captured *owner(pid_t pid, bool *later, void *arg)
{
	struct fixture *f = arg;

	f->asked = true;
	*later |= f->later;
	return f->owned ? &f->captured : NULL;
}

static void on_tick(void *arg)
{
	struct fixture *f = arg;

	if (f->until(f) || clock_mono_us(&clock_system) > f->stop_us)
		loop_stop(f->loop);
	else
		watch_after(f->tick, 2);
}

static void wait_until(struct fixture *f, bool (*until)(struct fixture *f), int ms)
{
	f->until = until;
	f->stop_us = clock_mono_us(&clock_system) + (int64_t)ms * 1000;
	watch_after(f->tick, 0);
	loop_run(f->loop);
}

static int given_end = -1; /* where connections are handed in */

/* As make_with, but no process can connect: a socketpair brings connections. */
static int make_given(void **state)
{
	struct fixture *f = mem_new(struct fixture);
	cleanup_fd int program_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	struct capture_in_setup s = {.program_fd = program_fd,
				     .given = true,
				     .max = MAX_BYTES,
				     .owner = owner,
				     .arg = f};
	int pair[2];

	f->loop = loop_new(NULL, NULL);
	f->tick = watch_timer(f->loop, on_tick, f);
	f->owned = true;
	s.loop = f->loop;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	s.listen_fd = pair[0];
	given_end = pair[1];
	*state = f;
	return capture_in_open(&s, &f->in, NULL);
}

static int make_with(void **state, const char *program)
{
	struct fixture *f = mem_new(struct fixture);
	cleanup_fd int program_fd = open(program, O_PATH | O_CLOEXEC);
	struct capture_in_setup s = {
		.program_fd = program_fd, .max = MAX_BYTES, .owner = owner, .arg = f};
	static unsigned n;

	signal(SIGPIPE, SIG_IGN);
	f->loop = loop_new(NULL, NULL);
	f->tick = watch_timer(f->loop, on_tick, f);
	f->owned = true;
	f->at.sun_family = AF_UNIX;
	/* abstract */
	snprintf(f->at.sun_path + 1, sizeof(f->at.sun_path) - 1, "capture-test-%d-%u", getpid(),
		 n++);
	s.loop = f->loop;
	s.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(s.listen_fd, (struct sockaddr *)&f->at, sizeof(f->at)) < 0 ||
	    listen(s.listen_fd, 32) < 0 || capture_in_open(&s, &f->in, NULL) < 0)
		return -1;
	*state = f;
	return 0;
}

static int make(void **state)
{
	return make_with(state, "/proc/self/exe");
}

static int make_other(void **state)
{
	return make_with(state, "/bin/sh");
}

static int unmake(void **state)
{
	struct fixture *f = *state;

	capture_in_close(f->in);
	capture_in_close(NULL);
	captured_done(&f->captured);
	watch_free(f->tick);
	loop_free(f->loop);
	free(f);
	return 0;
}

static int dial(const struct fixture *f)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&f->at, sizeof(f->at)) < 0)
		_exit(9);
	return fd;
}

/* A sender of these datagrams; its exit status is 0 if it got the ack. */
static pid_t sender(const struct fixture *f, const char *const *datagrams)
{
	const pid_t pid = fork();
	char c = 0;
	int fd;

	if (pid != 0)
		return pid;
	fd = dial(f);
	for (; *datagrams != NULL; datagrams++) {
		/* A variable ends with NUL; so does the string. */
		const size_t nul = **datagrams == CAPTURE_ENV;

		if (send(fd, *datagrams, strlen(*datagrams) + nul, MSG_NOSIGNAL) < 0)
			_exit(2);
	}
	_exit(recv(fd, &c, 1, 0) == 1 && c == CAPTURE_ACK ? 0 : 1);
}
#define SENDER(f, ...) sender(f, (const char *const[]){__VA_ARGS__, NULL})

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static bool is_taken(struct fixture *f)
{
	return f->captured.taken;
}

static bool is_noted(struct fixture *f)
{
	return f->captured.note[0] != '\0';
}

static bool is_asked(struct fixture *f)
{
	return f->asked;
}

static bool never(struct fixture *f)
{
	return false;
}

/* STA-3: a whole capture is taken and acknowledged; the last one counts. */
static void sta_3_the_last_capture_counts(void **state)
{
	struct fixture *f = *state;
	pid_t pid = SENDER(f, "EA=1", "EB=2", "D/tmp", "F");

	wait_until(f, is_taken, 5000);
	assert_int_equal(status_of(pid), 0);
	assert_int_equal(f->captured.env.n, 2);
	assert_string_equal(f->captured.env.v[1], "B=2");
	assert_string_equal(f->captured.cwd, "/tmp");
	f->captured.taken = false;
	pid = SENDER(f, "EC=3", "D/", "F");
	wait_until(f, is_taken, 5000);
	assert_int_equal(status_of(pid), 0);
	assert_int_equal(f->captured.env.n, 1);
	assert_string_equal(f->captured.cwd, "/");
	assert_string_equal(f->captured.note, "");
}

/* STA-5: nothing broken, oversized or late changes what was taken before; the reason is kept. */
static void sta_5_bad_captures_leave_the_good_one(void **state)
{
	static const struct {
		const char *part[4], *note;
	} rows[] = {
		{{"EA=9", "Drelative", "F"}, "capture: the directory is not absolute"},
		{{"EA=9", "EA=8", "D/", "F"}, "capture: a variable twice"},
		{{"X"}, "capture: unknown kind of datagram"},
		{{"D/", "EA=9"}, "capture: environment after the directory"},
		{{"E12345678901234567890123456789012345678901234567890",
		  "E12345678901234567890123456789012345678901234567890"},
		 "capture: more than 100 bytes"},
	};
	struct fixture *f = *state;
	pid_t pid = SENDER(f, "EA=1", "D/tmp", "F");

	wait_until(f, is_taken, 5000);
	assert_int_equal(status_of(pid), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const part[] = {rows[i].part[0], rows[i].part[1], rows[i].part[2],
					    rows[i].part[3], NULL};

		f->captured.note[0] = '\0';
		pid = sender(f, part);
		wait_until(f, is_noted, 5000);
		assert_string_equal(f->captured.note, rows[i].note);
		assert_true(status_of(pid) != 0);
		assert_true(f->captured.taken);
		assert_string_equal(f->captured.env.v[0], "A=1");
	}
	f->captured.note[0] = '\0';
	pid = fork();
	if (pid == 0) {
		close(dial(f));
		_exit(0);
	}
	wait_until(f, is_noted, 5000);
	assert_string_equal(f->captured.note, "capture: cut before its end");
	status_of(pid);
}

/* STA-6: only our program is believed. */
static void sta_6_another_program_is_not_believed(void **state)
{
	struct fixture *f = *state;
	const pid_t pid = SENDER(f, "EA=1", "D/tmp", "F");

	wait_until(f, is_noted, 5000);
	assert_string_equal(f->captured.note, "capture: not from our program");
	assert_false(f->captured.taken);
	assert_int_equal(status_of(pid), 1);
}

/* STA-6: the connection of a process that belongs to no command is closed. */
static void sta_6_a_stranger_is_refused(void **state)
{
	struct fixture *f = *state;
	pid_t pid;

	f->owned = false;
	pid = SENDER(f, "EA=1", "D/tmp", "F");
	wait_until(f, never, 200);
	assert_true(status_of(pid) != 0);
	assert_false(f->captured.taken);
	assert_string_equal(f->captured.note, "");
}

/* STA-6: a connection speaks for the process that made it. */
static void sta_6_a_lent_connection_is_not_believed(void **state)
{
	struct fixture *f = *state;
	int accepted[2];
	pid_t pid;

	assert_int_equal(pipe2(accepted, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		const int fd = dial(f);
		pid_t child;
		char c;

		close(accepted[1]);
		if (read(accepted[0], &c, 1) != 0) /* until the test closes its end */
			_exit(9);
		child = fork();
		if (child == 0) {
			send(fd, "EA=1", 5, MSG_NOSIGNAL);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		recv(fd, &c, 1, 0);
		_exit(0);
	}
	close(accepted[0]);
	wait_until(f, is_asked, 5000);
	close(accepted[1]);
	wait_until(f, is_noted, 5000);
	assert_string_equal(f->captured.note, "capture: from another process");
	status_of(pid);
}

/* STA-3: a shell may end before its leader reports its start; its state is taken then. */
static void sta_3_an_early_capture_waits_for_its_command(void **state)
{
	struct fixture *f = *state;
	pid_t pid;

	f->owned = false;
	f->later = true;
	pid = SENDER(f, "EA=1", "D/tmp", "F");
	wait_until(f, never, 200);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	f->later = false;
	f->owned = true;
	capture_in_settle(f->in);
	assert_true(f->captured.taken);
	assert_int_equal(status_of(pid), 0);

	f->captured.taken = false;
	f->owned = false;
	f->later = true;
	pid = SENDER(f, "EA=1", "D/tmp", "F");
	wait_until(f, never, 200);
	f->later = false;
	capture_in_settle(f->in);
	assert_int_equal(status_of(pid), 1);
	assert_false(f->captured.taken);
}

static pid_t silent(const struct fixture *f)
{
	const pid_t pid = fork();
	char c;

	if (pid == 0)
		_exit(recv(dial(f), &c, 1, 0) == 0 ? 0 : 1);
	return pid;
}

/* STA-5: so many at a time, and none for ever. */
static void sta_5_connections_are_few_and_short(void **state)
{
	struct fixture *f = *state;
	pid_t pid[CAPTURE_CONNECTIONS + 1];
	const int64_t begun = clock_mono_us(&clock_system);

	for (int i = 0; i < CAPTURE_CONNECTIONS; i++)
		pid[i] = silent(f);
	wait_until(f, never, 200);
	assert_string_equal(f->captured.note, "");
	pid[CAPTURE_CONNECTIONS] = silent(f);
	wait_until(f, is_noted, 5000);
	assert_string_equal(f->captured.note, "capture: too many at once");
	assert_int_equal(status_of(pid[CAPTURE_CONNECTIONS]), 0);
	f->captured.note[0] = '\0';
	wait_until(f, is_noted, 10000);
	assert_string_equal(f->captured.note, "capture: it took too long");
	assert_true(clock_mono_us(&clock_system) - begun >= CAPTURE_DEADLINE_MS * INT64_C(1000));
	wait_until(f, never, 500);
	for (int i = 0; i < CAPTURE_CONNECTIONS; i++)
		assert_int_equal(status_of(pid[i]), 0);
}

/* The child gets one end, we hand the other in with a pid. */
static pid_t given_sender(const char *const *datagrams, bool lie)
{
	const int on = 1;
	int pair[2];
	pid_t pid, said;
	char c = 0;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	fdio_nonblock(pair[0]);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		for (; *datagrams != NULL; datagrams++)
			if (send(pair[1], *datagrams,
				 strlen(*datagrams) + (**datagrams == CAPTURE_ENV),
				 MSG_NOSIGNAL) < 0)
				_exit(2);
		_exit(recv(pair[1], &c, 1, 0) == 1 && c == CAPTURE_ACK ? 0 : 1);
	}
	close(pair[1]);
	said = lie ? getpid() : pid;
	assert_true(fdio_send(given_end, &said, sizeof(said), &pair[0], 1) >= 0);
	close(pair[0]);
	return pid;
}

/* STA-3: where no process can connect, a connection is given; the sender is checked all the same.
 */
static void sta_3_a_given_connection_is_judged_alike(void **state)
{
	static const char *const whole[] = {"EA=1", "D/tmp", "F", NULL};
	struct fixture *f = *state;
	pid_t pid = given_sender(whole, false);

	wait_until(f, is_taken, 5000);
	assert_int_equal(status_of(pid), 0);
	assert_string_equal(f->captured.env.v[0], "A=1");
	f->captured.taken = false;
	/* what comes from another than the one that it was given to */
	pid = given_sender(whole, true);
	wait_until(f, is_noted, 5000);
	assert_int_not_equal(status_of(pid), 0);
	assert_false(f->captured.taken);
	/* no command's: hung up; nonsense without a connection: passed over */
	f->owned = f->asked = false;
	pid = given_sender(whole, false);
	wait_until(f, is_asked, 5000);
	assert_int_not_equal(status_of(pid), 0);
	f->asked = false;
	assert_int_equal(send(given_end, "x", 1, 0), 1);
	wait_until(f, is_asked, 50);
	assert_false(f->asked);
	close(given_end);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, unmake)
	const struct CMUnitTest tests[] = {
		TEST(sta_3_the_last_capture_counts),
		TEST(sta_5_bad_captures_leave_the_good_one),
		cmocka_unit_test_setup_teardown(sta_3_a_given_connection_is_judged_alike,
						make_given, unmake),
		cmocka_unit_test_setup_teardown(sta_6_another_program_is_not_believed, make_other,
						unmake),
		TEST(sta_6_a_stranger_is_refused),
		TEST(sta_6_a_lent_connection_is_not_believed),
		TEST(sta_3_an_early_capture_waits_for_its_command),
		TEST(sta_5_connections_are_few_and_short),
	};

	return cmocka_run_group_tests_name("capture_in", tests, NULL, NULL);
}
