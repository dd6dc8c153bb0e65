// SPDX-License-Identifier: Apache-2.0
/* What a process is after it became a session's user: the test lets it execute cat on its own
 * status. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>

/* Output of cat with these arguments, as the warden of the plan; become_first: a uid to have
 * before. */
static void run_cat(const struct sandbox_plan *plan, uid_t become_first, const char *path,
		    struct buf *out)
{
	const char *const argv[] = {"cat", path, NULL};
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		cleanup_fd int cat = open("/bin/cat", O_RDONLY | O_CLOEXEC);

		if (become_first != 0 && (setgroups(0, NULL) < 0 ||
					  setresgid(become_first, become_first, become_first) < 0 ||
					  setresuid(become_first, become_first, become_first) < 0))
			_exit(2);
		if (dup2(ends[1], STDOUT_FILENO) < 0)
			_exit(3);
		if (sandbox_become_user(plan, NULL) == 0)
			sandbox_execute(cat, (char *const *)argv, NULL);
		_exit(4);
	}
	close(ends[1]);
	assert_int_equal(fdio_load(ends[0], 1 << 20, out, NULL), 0);
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void expect_line(const struct buf *text, const char *line)
{
	if (strstr(text->data, line) == NULL)
		fail_msg("no line '%s' in:\n%s", line, text->data);
}

static void sbx_1_the_warden_has_no_power(void **state)
{
	const struct sandbox_plan plan = {.privileged = 1, .uid = 64999, .gid = 64998};
	const gid_t groups[] = {0, 7};
	cleanup_buf struct buf text = {0};

	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
	assert_int_equal(setgroups(2, groups), 0);
	run_cat(&plan, 0, "/proc/self/status", &text);
	expect_line(&text, "\nUid:\t64999\t64999\t64999\t64999\n");
	expect_line(&text, "\nGid:\t64998\t64998\t64998\t64998\n");
	expect_line(&text, "\nGroups:\t \n");
	expect_line(&text, "\nCapInh:\t0000000000000000\n");
	expect_line(&text, "\nCapPrm:\t0000000000000000\n");
	expect_line(&text, "\nCapEff:\t0000000000000000\n");
	expect_line(&text, "\nCapBnd:\t0000000000000000\n");
	expect_line(&text, "\nCapAmb:\t0000000000000000\n");
	expect_line(&text, "\nNoNewPrivs:\t1\n");
	assert_int_equal(setgroups(0, NULL), 0);
}

static void sbx_5_a_normal_users_warden_stays_the_user(void **state)
{
	const uid_t user = geteuid() == 0 ? 1000 : 0;
	const struct sandbox_plan plan = {.uid = user != 0 ? user : geteuid()};
	cleanup_free char *uid =
		mem_printf("\nUid:\t%u\t%u\t%u\t%u\n", plan.uid, plan.uid, plan.uid, plan.uid);
	cleanup_buf struct buf text = {0};

	run_cat(&plan, user, "/proc/self/status", &text);
	expect_line(&text, uid);
	expect_line(&text, "\nCapEff:\t0000000000000000\n");
	expect_line(&text, "\nNoNewPrivs:\t1\n");
}

static void sta_4_the_servers_environment_stays_behind(void **state)
{
	const uid_t user = geteuid() == 0 ? 1000 : 0;
	const struct sandbox_plan plan = {.uid = user != 0 ? user : geteuid()};
	cleanup_buf struct buf text = {0};

	assert_int_equal(setenv("AGENTSH_API_KEY", "secret", 1), 0);
	assert_int_equal(setenv("TZ", "Etc/GMT+3", 1), 0);
	run_cat(&plan, user, "/proc/self/environ", &text);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == '\0')
			text.data[i] = '\n';
	assert_null(strstr(text.data, "secret"));
	assert_null(strstr(text.data, "PATH="));
	expect_line(&text, "TZ=Etc/GMT+3\n");
	unsetenv("TZ");
}

static void sbx_1_a_program_that_cannot_be_executed_is_an_error(void **state)
{
	const char *const argv[] = {"x", NULL};
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct err err = {0};
		const int r = sandbox_execute(-1, (char *const *)argv, &err);

		_exit(r == -E_UNAVAILABLE && strstr(err.message, "Bad file") != NULL ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_1_the_warden_has_no_power),
		cmocka_unit_test(sbx_5_a_normal_users_warden_stays_the_user),
		cmocka_unit_test(sta_4_the_servers_environment_stays_behind),
		cmocka_unit_test(sbx_1_a_program_that_cannot_be_executed_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
