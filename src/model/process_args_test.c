// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/process_args.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct process_row *const row = &process_table[PROCESS_warden];

static struct process_args plain(void)
{
	const struct process_link init = {&process_table[PROCESS_init], 4711, 2};
	struct process_args a = {.session_id = "s-1",
				 .listen_fd = 0,
				 .api_fd = 1,
				 .ring_fd = 0,
				 .ack_fd = 1,
				 .api_uid = 4294967294U,
				 .exec_map_fd = -1,
				 .exec_link_fd = -1};

	process_args_add(&a, &init);
	return a;
}

/* SES-1: what the stub writes is what the warden reads; descriptors are closed at the next exec. */
static void ses_1_arguments_there_and_back(void **state)
{
	struct process_args a = plain(), b;
	struct strv argv = {0};
	struct err err = {0};
	const int flags = fcntl(0, F_GETFD);

	strv_add(&a.walls, "seccomp\tup\t61 rules");
	strv_add(&a.walls, "landlock\tabsent\t=");
	strv_add(&a.counters, "0 1/pids.events");
	a.exec_map_fd = 2;
	process_args_format(row, &a, &argv);
	if (process_args_parse(row, (int)argv.n, argv.v, &b, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(b.session_id, "s-1");
	assert_int_equal(b.listen_fd, 0);
	assert_int_equal(b.api_fd, 1);
	assert_int_equal(b.nothers, 1);
	assert_ptr_equal(b.other[0].row, &process_table[PROCESS_init]);
	assert_int_equal(b.other[0].fd, 2);
	assert_int_equal(b.other[0].pid, 4711);
	assert_int_equal(b.init_fd, 2);
	assert_int_equal(b.init_pid, 4711);
	assert_int_equal(b.api_uid, 4294967294U);
	assert_int_equal(b.exec_map_fd, 2);
	assert_int_equal(b.exec_link_fd, -1);
	assert_int_equal(b.walls.n, 2);
	assert_string_equal(b.walls.v[0], "seccomp\tup\t61 rules");
	assert_string_equal(b.walls.v[1], "landlock\tabsent\t=");
	assert_int_equal(b.counters.n, 1);
	assert_string_equal(b.counters.v[0], "0 1/pids.events");
	assert_int_equal(fcntl(0, F_GETFD), FD_CLOEXEC);
	for (int i = 0; i < 3; i++)
		fcntl(i, F_SETFD, flags);
	process_args_done(&a);
	process_args_done(&b);
	strv_done(&argv);
}

/* SES-1: anything wrong is named, and nothing is given. */
static void ses_1_bad_arguments_are_refused(void **state)
{
	static const char *const bad[] = {"nosuch=1",
					  "api=1",
					  "listen=-1",
					  "listen=x",
					  "listen=",
					  "wall",
					  "listen=1x",
					  "listen=999",
					  "link=1",
					  "exec_map=999",
					  "exec_link=x",
					  "process=init 4294967296 2",
					  "process=init 99999999999999999999 2",
					  "process=init 1 999",
					  "process=init 1",
					  "process=nosuch 1 2",
					  "process=",
					  "api_uid=4294967296"};
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct process_args a = plain(), b = {.init_pid = 77};
		struct strv argv = {0};
		const char *equals = strchr(bad[i], '=');

		strv_add(&a.walls, "x");
		process_args_format(row, &a, &argv);
		/* In the place of the argument with that key, else behind all. */
		for (size_t k = 2; k < argv.n && strcmp(bad[i], "api=1") != 0; k++)
			if (equals != NULL &&
			    strncmp(argv.v[k], bad[i], (size_t)(equals - bad[i]) + 1) == 0)
				argv.v[k][0] = '\0';
		strv_add(&argv, bad[i]);
		for (size_t k = 2; k < argv.n; k++)
			if (argv.v[k][0] == '\0') {
				free(argv.v[k]);
				argv.v[k] = argv.v[argv.n - 1];
				argv.v[--argv.n] = NULL;
			}
		assert_int_equal(process_args_parse(row, (int)argv.n, argv.v, &b, &err),
				 -E_BAD_REQUEST);
		assert_int_equal(b.init_pid, 77);
		strv_done(&argv);
		process_args_done(&a);
	}
}

static void ses_1_nothing_may_be_missing(void **state)
{
	struct process_args a = plain(), b;
	struct strv argv = {0};
	char *none[] = {NULL};
	struct err err = {0};

	process_args_format(row, &a, &argv);
	for (int n = 0; n < (int)argv.n; n++)
		assert_int_equal(process_args_parse(row, n, n > 0 ? argv.v : none, &b, &err),
				 -E_BAD_REQUEST);
	assert_int_equal(process_args_parse(row, (int)argv.n, argv.v, &b, &err), 0);
	process_args_done(&b);
	free(argv.v[1]);
	argv.v[1] = mem_strdup("../s");
	assert_int_equal(process_args_parse(row, (int)argv.n, argv.v, &b, &err), -E_BAD_REQUEST);
	strv_done(&argv);
	process_args_done(&a);
}

/* Descriptors that a row does not name stay closed at exec. */
static void sbx_6_only_what_the_row_names_is_passed(void **state)
{
	struct process_row own = *row;
	struct process_args a = plain();

	a.listen_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
	a.policy_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
	a.other[0].fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
	own.args = PROCESS_ARG(listen) | PROCESS_ARG(wall);
	assert_int_equal(process_args_pass(&own, &a), 0);
	assert_int_equal(fcntl(a.listen_fd, F_GETFD), 0);
	assert_int_equal(fcntl(a.policy_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(a.other[0].fd, F_GETFD), FD_CLOEXEC);
	own.args |= PROCESS_ARG(process);
	assert_int_equal(process_args_pass(&own, &a), 0);
	assert_int_equal(fcntl(a.other[0].fd, F_GETFD), 0);
	close(a.listen_fd);
	assert_int_equal(process_args_pass(&own, &a), -1);
	close(a.policy_fd);
	close(a.other[0].fd);
	process_args_done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_1_arguments_there_and_back),
		cmocka_unit_test(ses_1_bad_arguments_are_refused),
		cmocka_unit_test(ses_1_nothing_may_be_missing),
		cmocka_unit_test(sbx_6_only_what_the_row_names_is_passed),
	};

	return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
