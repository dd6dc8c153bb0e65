// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "warden/warden.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct warden_args plain(void)
{
	return (struct warden_args){.session_id = "s-1",
				    .listen_fd = 0,
				    .api_fd = 1,
				    .init_fd = 2,
				    .ring_fd = 0,
				    .ack_fd = 1,
				    .init_pid = 4711,
				    .api_uid = 4294967294U};
}

/* SES-1: what the stub writes is what the warden reads; descriptors are closed at the next exec. */
static void ses_1_arguments_there_and_back(void **state)
{
	struct warden_args a = plain(), b;
	struct strv argv = {0};
	struct err err = {0};
	const int flags = fcntl(0, F_GETFD);

	strv_add(&a.walls, "seccomp\tup\t61 rules");
	strv_add(&a.walls, "landlock\tabsent\t=");
	strv_add(&a.counters, "0 1/pids.events");
	warden_args_format(&a, &argv);
	if (warden_args_parse((int)argv.n, argv.v, &b, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(b.session_id, "s-1");
	assert_int_equal(b.listen_fd, 0);
	assert_int_equal(b.api_fd, 1);
	assert_int_equal(b.init_fd, 2);
	assert_int_equal(b.init_pid, 4711);
	assert_int_equal(b.api_uid, 4294967294U);
	assert_int_equal(b.walls.n, 2);
	assert_string_equal(b.walls.v[0], "seccomp\tup\t61 rules");
	assert_string_equal(b.walls.v[1], "landlock\tabsent\t=");
	assert_int_equal(b.counters.n, 1);
	assert_string_equal(b.counters.v[0], "0 1/pids.events");
	assert_int_equal(fcntl(0, F_GETFD), FD_CLOEXEC);
	for (int i = 0; i < 3; i++)
		fcntl(i, F_SETFD, flags);
	warden_args_done(&a);
	warden_args_done(&b);
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
					  "init_pid=4294967296",
					  "init_pid=99999999999999999999"};
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct warden_args a = plain(), b = {.init_pid = 77};
		struct strv argv = {0};
		const char *equals = strchr(bad[i], '=');

		strv_add(&a.walls, "x");
		warden_args_format(&a, &argv);
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
		assert_int_equal(warden_args_parse((int)argv.n, argv.v, &b, &err), -E_BAD_REQUEST);
		assert_int_equal(b.init_pid, 77);
		strv_done(&argv);
		strv_done(&a.walls);
	}
}

static void ses_1_nothing_may_be_missing(void **state)
{
	struct warden_args a = plain(), b;
	struct strv argv = {0};
	char *none[] = {NULL};
	struct err err = {0};

	warden_args_format(&a, &argv);
	for (int n = 0; n < (int)argv.n; n++)
		assert_int_equal(warden_args_parse(n, n > 0 ? argv.v : none, &b, &err),
				 -E_BAD_REQUEST);
	assert_int_equal(warden_args_parse((int)argv.n, argv.v, &b, &err), 0);
	free(argv.v[1]);
	argv.v[1] = mem_strdup("../s");
	assert_int_equal(warden_args_parse((int)argv.n, argv.v, &b, &err), -E_BAD_REQUEST);
	strv_done(&argv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_1_arguments_there_and_back),
		cmocka_unit_test(ses_1_bad_arguments_are_refused),
		cmocka_unit_test(ses_1_nothing_may_be_missing),
	};

	return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
