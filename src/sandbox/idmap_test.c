// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/mnt.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

static void expect_map(uint32_t a, uint32_t b, const char *lines)
{
	cleanup_buf struct buf text = {0};

	idmap_format(&text, a, b);
	assert_string_equal(text.data, lines);
}

static void ses_3_two_ids_change_places_and_the_rest_stay(void **state)
{
	expect_map(0, 1000, "0 1000 1\n1 1 999\n1000 0 1\n1001 1001 4294966294\n");
	expect_map(1000, 0, "0 1000 1\n1 1 999\n1000 0 1\n1001 1001 4294966294\n");
	expect_map(5, 7, "0 0 5\n5 7 1\n6 6 1\n7 5 1\n8 8 4294967287\n");
	expect_map(0, 1, "0 1 1\n1 0 1\n2 2 4294967293\n");
	expect_map(0, 4294967294, "0 4294967294 1\n1 1 4294967293\n4294967294 0 1\n");
	expect_map(0, 0, "0 0 1\n1 1 4294967294\n");
	expect_map(9, 9, "0 0 9\n9 9 1\n10 10 4294967285\n");
}

/* Another process joins the namespace and reads the maps as the kernel holds them. */
static void ses_3_the_namespace_outlives_its_maker(void **state)
{
	const struct idmap m = {0, 0, 64999, 64998};
	cleanup_buf struct buf text = {0};
	struct err err = {0};
	int userns = -1, ends[2];
	pid_t pid;

	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
	if (sandbox_idmap(&m, &userns, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(fcntl(userns, F_GETFD), FD_CLOEXEC);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (setns(userns, CLONE_NEWUSER) < 0 || dup2(ends[1], STDOUT_FILENO) < 0)
			_exit(1);
		execlp("cat", "cat", "/proc/self/uid_map", "/proc/self/gid_map", (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(fdio_load(ends[0], 4096, &text, NULL), 0);
	close(ends[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_non_null(strstr(text.data, "         0      64999          1\n"));
	assert_non_null(strstr(text.data, "     64998          0          1\n"));
	close(userns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_3_two_ids_change_places_and_the_rest_stay),
		cmocka_unit_test(ses_3_the_namespace_outlives_its_maker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
