// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/mem.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static void exe_1_every_append_ends_with_nul(void **state)
{
	cleanup_buf struct buf b = {0};

	buf_add(&b, NULL, 0);
	assert_non_null(b.data);
	assert_int_equal(b.data[0], 0);
	buf_adds(&b, "ab");
	buf_addc(&b, 'c');
	buf_addf(&b, "%d", 42);
	buf_add(&b, "x\0y", 3);
	assert_int_equal(b.len, 8);
	assert_memory_equal(b.data, "abc42x\0y", 9);
}

/* Under ASan a room that is one byte short is seen. */
static void exe_1_growth_at_every_length(void **state)
{
	for (size_t n = 0; n < 300; n++) {
		struct buf one = {0}, many = {0}, text = {0};
		char block[300];

		memset(block, 'a', sizeof(block));
		buf_add(&one, block, n);
		assert_int_equal(one.len, n);
		assert_int_equal(one.data[n], 0);
		for (size_t i = 0; i < n; i++)
			buf_addc(&many, 'a');
		buf_addf(&text, "%.*s", (int)n, block);
		assert_int_equal(text.len, n);
		assert_int_equal(strlen(text.data), n);
		if (n > 0)
			assert_string_equal(many.data, one.data);
		buf_addf(&one, "%.*s", (int)n, block);
		assert_int_equal(strlen(one.data), 2 * n);
		buf_done(&one);
		buf_done(&many);
		buf_done(&text);
	}
}

static void exe_1_reserve_gives_room_and_does_not_move_twice(void **state)
{
	cleanup_buf struct buf b = {0};
	char *at;

	buf_reserve(&b, 1000);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.data[0], 0);
	assert_true(b.cap > 1000);
	at = b.data;
	b.data[1000] = '\0';
	for (int i = 0; i < 1000; i++)
		buf_addc(&b, 'x');
	assert_ptr_equal(b.data, at);
	buf_reserve(&b, b.cap - b.len - 1);
	assert_ptr_equal(b.data, at);
	assert_true(b.cap < 1100);
}

static void exe_1_first_growth_is_worthwhile(void **state)
{
	cleanup_buf struct buf b = {0};
	size_t cap;

	buf_addc(&b, 'x');
	assert_int_equal(b.cap, 64);
	while (b.len < 63)
		buf_addc(&b, 'x');
	assert_int_equal(b.cap, 64);
	buf_addc(&b, 'x');
	assert_int_equal(b.cap, 128);
	cap = b.cap;
	buf_reserve(&b, 10 * cap);
	assert_int_equal(b.cap, 64 + 10 * cap + 1);
}

static void exe_1_drop_keeps_the_tail(void **state)
{
	cleanup_buf struct buf b = {0};

	buf_drop(&b, 0);
	buf_adds(&b, "abcdef");
	buf_drop(&b, 0);
	assert_string_equal(b.data, "abcdef");
	buf_drop(&b, 2);
	assert_string_equal(b.data, "cdef");
	assert_int_equal(b.len, 4);
	buf_drop(&b, 4);
	assert_string_equal(b.data, "");
	assert_int_equal(b.len, 0);
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

static void drop_too_much(void)
{
	cleanup_buf struct buf b = {0};

	buf_adds(&b, "ab");
	buf_drop(&b, 3);
}

static void reserve_too_much(void)
{
	cleanup_buf struct buf b = {0};

	buf_adds(&b, "ab");
	buf_reserve(&b, SIZE_MAX - 1);
}

static void exe_1_impossible_sizes_abort(void **state)
{
	assert_int_equal(signal_of(drop_too_much), SIGABRT);
	assert_int_equal(signal_of(reserve_too_much), SIGABRT);
}

static void exe_1_clear_keeps_memory_and_take_gives_it_away(void **state)
{
	struct buf b = {0};
	char *s, *at;

	buf_clear(&b);
	assert_null(b.data);
	s = buf_take(&b);
	assert_string_equal(s, "");
	assert_null(b.data);
	free(s);

	buf_adds(&b, "abc");
	at = b.data;
	buf_clear(&b);
	assert_ptr_equal(b.data, at);
	assert_string_equal(b.data, "");
	buf_adds(&b, "xy");
	s = buf_take(&b);
	assert_string_equal(s, "xy");
	assert_int_equal(b.len + b.cap, 0);
	free(s);
	buf_done(&b);
	buf_adds(&b, "again");
	assert_string_equal(b.data, "again");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_1_every_append_ends_with_nul),
		cmocka_unit_test(exe_1_growth_at_every_length),
		cmocka_unit_test(exe_1_reserve_gives_room_and_does_not_move_twice),
		cmocka_unit_test(exe_1_first_growth_is_worthwhile),
		cmocka_unit_test(exe_1_drop_keeps_the_tail),
		cmocka_unit_test(exe_1_impossible_sizes_abort),
		cmocka_unit_test(exe_1_clear_keeps_memory_and_take_gives_it_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
