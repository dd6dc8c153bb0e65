// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>

static void exe_1_allocations_are_zeroed_and_copies_exact(void **state)
{
	cleanup_free unsigned char *p = mem_alloc(16);
	cleanup_free char *none = mem_alloc(0);
	cleanup_free char *s = mem_strdup("abc"), *cut = mem_strndup("abcdef", 2);
	cleanup_free char *whole = mem_strndup("ab", 9), *f = mem_printf("%d-%s", 7, "x");
	cleanup_free char *d = mem_dup("a\0b", 3), *empty = mem_dup(NULL, 0);

	for (int i = 0; i < 16; i++)
		assert_int_equal(p[i], 0);
	assert_non_null(none);
	assert_non_null(empty);
	assert_string_equal(s, "abc");
	assert_string_equal(cut, "ab");
	assert_string_equal(whole, "ab");
	assert_string_equal(f, "7-x");
	assert_memory_equal(d, "a\0b", 3);
	assert_null(mem_strdup(NULL));
	free(d);
	d = mem_printf("%s", "");
	assert_string_equal(d, "");
}

static void exe_1_resize_keeps_contents(void **state)
{
	char *p = mem_resize(NULL, 2, 2);

	memcpy(p, "abc", 4);
	p = mem_resize(p, 100, 10);
	assert_string_equal(p, "abc");
	p = mem_resize(p, 0, 10);
	assert_non_null(p);
	free(p);
}

static void overflow(void)
{
	free(mem_resize(NULL, SIZE_MAX / 2, 3));
}

static void broken(void)
{
	ensure(1 + 1 == 3);
}

static int signal_of(void (*fn)(void))
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		close(STDERR_FILENO);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void exe_1_broken_invariants_abort(void **state)
{
	assert_int_equal(signal_of(overflow), SIGABRT);
	assert_int_equal(signal_of(broken), SIGABRT);
	ensure(1 + 1 == 2);
}

static void exe_1_take_moves_out_of_the_cleanup(void **state)
{
	char *kept;
	int fd, kept_fd, closed;

	{
		cleanup_free char *p = mem_strdup("x");
		cleanup_fd int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
		cleanup_fd int b = open("/dev/null", O_RDONLY | O_CLOEXEC);
		cleanup_fd int none = -1;

		closed = b;
		assert_int_equal(none, -1);
		kept = take(p);
		assert_null(p);
		fd = a;
		kept_fd = take_fd(a);
		assert_int_equal(a, -1);
	}
	assert_string_equal(kept, "x");
	assert_int_equal(kept_fd, fd);
	assert_int_equal(fcntl(kept_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(closed, F_GETFD), -1);
	close(kept_fd);
	free(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_1_allocations_are_zeroed_and_copies_exact),
		cmocka_unit_test(exe_1_resize_keeps_contents),
		cmocka_unit_test(exe_1_broken_invariants_abort),
		cmocka_unit_test(exe_1_take_moves_out_of_the_cleanup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
