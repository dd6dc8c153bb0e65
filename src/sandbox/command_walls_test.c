// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "sandbox/command_walls.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int own_score(void)
{
	cleanup_buf struct buf text = {0};

	if (fdio_load_path("/proc/self/oom_score_adj", 16, &text, NULL) < 0)
		return -1;
	return atoi(text.data);
}

/* Exit status of a child that checks itself: bit 0: its score, bit 1: its child's, bit 2: it has
 * the descriptor. */
static int child(const struct oom *o, int score)
{
	const pid_t pid = oom_fork(o);
	int status = 0;

	if (pid == 0) {
		const pid_t inner = fork();

		if (inner == 0)
			_exit(own_score() != score);
		waitpid(inner, &status, 0);
		_exit((own_score() != score) | (WEXITSTATUS(status) << 1) |
		      (fcntl(o->fd, F_GETFD) != -1 || errno != EBADF) << 2);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void sbx_4_what_is_forked_goes_first(void **state)
{
	const int before = own_score();
	struct oom o;

	oom_open(&o);
	assert_int_equal(fcntl(o.fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(child(&o, 1000), 0);
	assert_int_equal(own_score(), before);
	/* again: it is not used up */
	assert_int_equal(child(&o, 1000), 0);
	assert_int_equal(own_score(), before);
	close(o.fd);
}

static void sbx_4_a_score_above_zero_is_kept(void **state)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
		struct oom o;

		fdio_write_all(fd, "500", 3);
		oom_open(&o);
		_exit(child(&o, 1000) != 0 || own_score() != 500);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void sbx_4_without_it_a_fork_is_a_fork(void **state)
{
	const struct oom none = {.fd = -1};
	const int before = own_score();

	assert_int_equal(child(&none, before), 0);
	assert_int_equal(own_score(), before);
}

static void sbx_4_a_fork_that_fails_says_why(void **state)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		const struct rlimit few = {0, 0};
		const int before = own_score();
		struct oom o;

		oom_open(&o);
		if (setrlimit(RLIMIT_NPROC, &few) < 0 || (geteuid() == 0 && setuid(65534) < 0))
			_exit(2);
		errno = 0;
		_exit(oom_fork(&o) != -1 || errno != EAGAIN || own_score() != before);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_4_what_is_forked_goes_first),
		cmocka_unit_test(sbx_4_a_score_above_zero_is_kept),
		cmocka_unit_test(sbx_4_without_it_a_fork_is_a_fork),
		cmocka_unit_test(sbx_4_a_fork_that_fails_says_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
