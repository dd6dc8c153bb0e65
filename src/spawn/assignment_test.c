// SPDX-License-Identifier: Apache-2.0
/* A test as the launcher and as init of a process that waits; the process is a child of the test.
 * What it is after it obeyed is in become_test.c and in the launcher's tests. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "spawn/assignment.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct scene {
	int sock, init;	       /* ours: the launcher's and init's */
	int report, api, lock; /* read ends */
	int hold;	       /* the process lives until this is closed */
	pid_t pid;
};

static void pair(int fd[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
}

static void begin(struct scene *s, bool refuses)
{
	int sock[2], init[2], hold[2];

	*s = (struct scene){.report = -1, .api = -1, .lock = -1};
	pair(sock);
	pair(init);
	assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
	s->pid = fork();
	if (s->pid == 0) {
		struct process_args args = {.session_id = ASSIGNMENT_ID,
					    .wait_fd = sock[1],
					    .prepared_fd = init[1],
					    .exec_map_fd = -1,
					    .exec_link_fd = -1};
		const struct process_link inside = {&process_table[process_of(PROCESS_INSIDE)],
						    4711, dup(init[1])};
		struct strv argv = {0};
		struct err why = {0};
		char byte;

		close(sock[0]);
		close(init[0]);
		close(hold[1]);
		if (refuses) {
			err_set(&why, E_ENFORCEMENT, "pid_namespace", "no such thing");
			assignment_refuse(sock[1], &why);
		}
		process_args_add(&args, &inside);
		process_args_format(&process_waiting, &args, &argv);
		if (assignment_await((int)argv.n, argv.v, NULL, &args, &why) < 0)
			_exit(9);
		dprintf(args.api_fd, "%s %s %u %d %d %s %d", argv.v[1], args.session_id,
			args.api_uid, args.log_level, args.log_format, args.walls.v[0],
			(int)args.init_pid);
		close(args.api_fd);
		close(args.ring_fd);
		close(args.ack_fd);
		close(args.policy_fd);
		while (read(hold[0], &byte, 1) > 0)
			;
		_exit(fcntl(sock[1], F_GETFD) == -1 && fcntl(init[1], F_GETFD) == -1 &&
				      fcntl(args.listen_fd, F_GETFD) == FD_CLOEXEC
			      ? 7
			      : 8);
	}
	close(hold[0]);
	s->hold = hold[1];
	close(sock[1]);
	close(init[1]);
	s->sock = sock[0];
	s->init = init[0];
}

static int give(struct scene *s)
{
	const struct sandbox_plan plan = {
		.session_id = (char *)(uintptr_t) "s1", .uid = geteuid(), .gid = getegid()};
	char *walls[] = {(char *)(uintptr_t) "wall", NULL};
	struct assignment o = {.session_id = plan.session_id,
			       .walls = {walls, 1},
			       .api_uid = 5,
			       .log_level = 2,
			       .log_format = 1};
	const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int report[2], api[2], lock[2], r;

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	assert_int_equal(pipe2(api, O_CLOEXEC), 0);
	assert_int_equal(pipe2(lock, O_CLOEXEC), 0);
	assert_int_equal(
		bind(listener, &(const struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t)),
		0);
	const int fd[ASSIGNMENT_FDS] = {
		[ASSIGNMENT_LISTEN] = listener,	 [ASSIGNMENT_API] = api[1],
		[ASSIGNMENT_TREE] = lock[1],	 [ASSIGNMENT_RING] = api[1],
		[ASSIGNMENT_ACK] = api[1],	 [ASSIGNMENT_POLICY] = api[1],
		[ASSIGNMENT_REPORT] = report[1], [ASSIGNMENT_LOCK] = lock[1]};

	r = assignment_send(s->sock, &o, &plan, fd, NULL, NULL);
	close(listener);
	close(report[1]);
	close(api[1]);
	close(lock[1]);
	s->report = report[0];
	s->api = api[0];
	s->lock = lock[0];
	return r;
}

static int end(struct scene *s)
{
	int status;

	mem_cleanup_fd(&s->sock);
	mem_cleanup_fd(&s->init);
	mem_cleanup_fd(&s->report);
	mem_cleanup_fd(&s->api);
	mem_cleanup_fd(&s->lock);
	mem_cleanup_fd(&s->hold);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static char word_of(int fd)
{
	char word = 0;

	assert_int_equal(assignment_recv(fd, &word, NULL, NULL), 1);
	return word;
}

static void expect_obeyed(struct scene *s)
{
	cleanup_buf struct buf text = {0}, told = {0};
	struct assignment_report report;
	int fd[2];
	size_t nfds = 2;
	char byte;

	assert_int_equal(fdio_load(s->report, 65536, &text, NULL), 0);
	assert_int_equal(text.len, sizeof(report));
	memcpy(&report, text.data, sizeof(report));
	assert_int_equal(report.process, process_of(PROCESS_INSIDE));
	assert_int_equal(report.pid, 4711);
	assert_int_equal(report.err.code, E_OK);
	/* init has its plan and its workspace */
	assert_int_equal(assignment_recv(s->init, &byte, fd, &nfds), 1);
	assert_int_equal(nfds, 2);
	close(fd[0]);
	close(fd[1]);
	assert_int_equal(fdio_load(s->api, 4096, &told, NULL), 0);
	assert_string_equal(told.data, "s1 s1 5 2 1 wall 4711");
	/* neither the lock nor the workspace is open any more */
	buf_clear(&told);
	assert_int_equal(fdio_load(s->lock, 4096, &told, NULL), 0);
}

static void ses_1_it_says_when_it_is_ready_and_obeys(void **state)
{
	const char prepared = SANDBOX_PREPARED;
	struct scene s;

	begin(&s, false);
	assert_int_equal(fdio_send(s.init, &prepared, 1, NULL, 0), 0);
	assert_int_equal(word_of(s.sock), ASSIGNMENT_READY);
	assert_int_equal(give(&s), 0);
	expect_obeyed(&s);
	assert_int_equal(end(&s), 7);
}

/* The launcher has gone by then, with a word unread. */
static void ses_1_orders_may_come_before_it_is_ready(void **state)
{
	const char prepared = SANDBOX_PREPARED;
	struct scene s;

	begin(&s, false);
	assert_int_equal(give(&s), 0);
	fdio_send(s.init, &prepared, 1, NULL, 0);
	close(take_fd(s.sock));
	expect_obeyed(&s);
	assert_int_equal(end(&s), 7);
}

static void ses_2_without_a_launcher_it_goes(void **state)
{
	struct scene s;

	begin(&s, false);
	close(take_fd(s.sock));
	assert_int_equal(end(&s), 0);
}

static void ses_2_without_init_it_does_not_wait(void **state)
{
	struct scene s;
	struct pollfd pfd = {.events = POLLIN};

	begin(&s, false);
	close(take_fd(s.init));
	pfd.fd = s.sock;
	assert_int_equal(poll(&pfd, 1, 20000), 1);
	assert_int_equal(end(&s), 125);
}

/* A stub that could not prepare its sandbox reports the reason with the assignment. */
static void sbx_5_a_refusal_waits_for_the_orders(void **state)
{
	cleanup_buf struct buf text = {0};
	struct assignment_report report;
	struct scene s;

	begin(&s, true);
	assert_int_equal(word_of(s.sock), ASSIGNMENT_FAILED);
	assert_int_equal(give(&s), 0);
	assert_int_equal(fdio_load(s.report, 65536, &text, NULL), 0);
	assert_int_equal(text.len, sizeof(report));
	memcpy(&report, text.data, sizeof(report));
	assert_int_equal(report.pid, 0);
	assert_int_equal(report.err.code, E_ENFORCEMENT);
	assert_string_equal(report.err.subject, "pid_namespace");
	assert_int_equal(end(&s), 125);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_1_it_says_when_it_is_ready_and_obeys),
		cmocka_unit_test(ses_1_orders_may_come_before_it_is_ready),
		cmocka_unit_test(ses_2_without_a_launcher_it_goes),
		cmocka_unit_test(ses_2_without_init_it_does_not_wait),
		cmocka_unit_test(sbx_5_a_refusal_waits_for_the_orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
