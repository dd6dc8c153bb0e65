// SPDX-License-Identifier: Apache-2.0
#include "base/testkit/child_testkit.h"
#include "sandbox/rlimit.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct rlimit_ask nothing = {RLIMIT_NOT_ASKED, RLIMIT_NOT_ASKED, RLIMIT_NOT_ASKED,
					  RLIMIT_NOT_ASKED};

static int raise_limits(const struct rlimit_ask *ask)
{
	struct rlimit_plan plan;

	if (rlimit_prepare(ask, &plan, NULL) < 0)
		return 250;
	return rlimit_apply(&plan) | rlimit_apply_files(&plan);
}

static bool is(int resource, rlim_t soft, rlim_t hard)
{
	struct rlimit now;

	return getrlimit(resource, &now) == 0 && now.rlim_cur == soft && now.rlim_max == hard;
}

static int always(const void *arg)
{
	const struct rlimit no_core = {0, RLIM_INFINITY}, files = {20, 30};

	if (geteuid() == 0 && setrlimit(RLIMIT_CORE, &no_core) < 0)
		return 1;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || raise_limits(&nothing) != 0)
		return 2;
	if (geteuid() == 0 && !is(RLIMIT_CORE, 1, 1))
		return 3;
	if (!is(RLIMIT_RTPRIO, 0, 0) || !is(RLIMIT_NICE, 0, 0))
		return 4;
	return is(RLIMIT_NOFILE, 20, 30) ? 0 : 5;
}

static void sbx_4_cores_and_priorities_are_always_shut(void **state)
{
	assert_int_equal(kid_run(always, NULL, false), 0);
	assert_int_equal(kid_run(always, NULL, true), 0);
}

static int never_raised(const void *arg)
{
	const struct rlimit files = {20, 30};
	struct rlimit_ask ask = nothing;

	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return 1;
	ask.open_files = 31;
	if (raise_limits(&ask) != 0 || !is(RLIMIT_NOFILE, 20, 30))
		return 2;
	ask.open_files = 29;
	if (raise_limits(&ask) != 0 || !is(RLIMIT_NOFILE, 20, 29))
		return 3;
	ask.open_files = 19;
	return raise_limits(&ask) == 0 && is(RLIMIT_NOFILE, 19, 19) ? 0 : 4;
}

static void sbx_4_a_limit_only_narrows(void **state)
{
	assert_int_equal(kid_run(never_raised, NULL, false), 0);
	assert_int_equal(kid_run(never_raised, NULL, true), 0);
}

/* A limit of 0 cannot become 1 without a capability: it stays, and nothing fails. */
static int core_is_zero(const void *arg)
{
	const struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_CORE, &none) < 0 || raise_limits(&nothing) != 0)
		return 1;
	return is(RLIMIT_CORE, 0, 0) ? 0 : 2;
}

static void sbx_4_a_hard_zero_stays(void **state)
{
	assert_int_equal(kid_run(core_is_zero, NULL, true), 0);
}

static int open_many(const void *arg)
{
	struct rlimit_ask ask = nothing;

	ask.open_files = 10;
	if (raise_limits(&ask) != 0)
		return 250;
	for (int i = 0; i < 10; i++)
		if (open("/dev/null", O_RDONLY | O_CLOEXEC) == -1)
			return errno;
	return 0;
}

static int write_much(const void *arg)
{
	cleanup_fd int fd = memfd_create("x", MFD_CLOEXEC);
	struct rlimit_ask ask = nothing;

	ask.file_bytes = 4096;
	signal(SIGXFSZ, SIG_IGN);
	if (raise_limits(&ask) != 0)
		return 250;
	if (pwrite(fd, "x", 1, 4095) != 1)
		return 251;
	return kid_errno(pwrite(fd, "x", 1, 4096));
}

static int lock_much(const void *arg)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit_ask ask = nothing;

	ask.locked_bytes = 4096;
	if (raise_limits(&ask) != 0)
		return 250;
	/* the system call itself: ASan makes a no-op of libc's */
	if (syscall(SYS_mlock, p, 4096) < 0)
		return 251;
	return kid_errno(syscall(SYS_mlock, p, 8192));
}

static int fork_once(const void *arg)
{
	struct rlimit_ask ask = nothing;
	pid_t pid;

	ask.processes = 1;
	if (raise_limits(&ask) != 0)
		return 250;
	pid = fork();
	if (pid == 0)
		_exit(0);
	return kid_errno(pid);
}

static void sbx_4_the_kernel_holds_them(void **state)
{
	assert_int_equal(kid_run(open_many, NULL, true), EMFILE);
	assert_int_equal(kid_run(write_much, NULL, true), EFBIG);
	assert_int_equal(kid_run(lock_much, NULL, true), ENOMEM);
	assert_int_equal(kid_run(fork_once, NULL, true), EAGAIN);
}

static int cannot_apply(const void *arg)
{
	const struct rlimit_plan files = {1, {{RLIMIT_NOFILE, {2, 1}}}};
	const struct rlimit_plan core = {1, {{RLIMIT_CORE, {2, 1}}}};

	if (rlimit_apply(&files) != 0 || rlimit_apply_files(&core) != 0)
		return 1; /* that was the other's */
	return rlimit_apply(&core) == EINVAL ? rlimit_apply_files(&files) : 2;
}

static int own_files(const void *arg)
{
	const struct rlimit files = {20, 30};
	struct rlimit_ask ask = nothing;
	struct rlimit_plan plan;

	ask.open_files = 25;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || rlimit_prepare(&ask, &plan, NULL) < 0)
		return 1;
	/* what was prepared before stays as it was */
	if (rlimit_raise_files() != 0 || !is(RLIMIT_NOFILE, 30, 30))
		return 2;
	if (rlimit_apply(&plan) != 0 || !is(RLIMIT_NOFILE, 30, 30))
		return 3;
	return rlimit_apply_files(&plan) == 0 && is(RLIMIT_NOFILE, 20, 25) ? 0 : 4;
}

/* SBX-4: a leader may have more files than its commands. */
static void sbx_4_open_files_are_the_commands_own(void **state)
{
	assert_int_equal(kid_run(own_files, NULL, true), 0);
}

static void sbx_4_a_limit_that_fails_is_an_errno(void **state)
{
	assert_int_equal(kid_run(cannot_apply, NULL, true), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_4_cores_and_priorities_are_always_shut),
		cmocka_unit_test(sbx_4_a_limit_only_narrows),
		cmocka_unit_test(sbx_4_a_hard_zero_stays),
		cmocka_unit_test(sbx_4_the_kernel_holds_them),
		cmocka_unit_test(sbx_4_a_limit_that_fails_is_an_errno),
		cmocka_unit_test(sbx_4_open_files_are_the_commands_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
