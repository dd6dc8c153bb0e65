// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"
#include "base/mem.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

static void ses_1_ids_have_a_first_character_and_64_at_most(void **state)
{
	char id[ID_MAX + 2];

	memset(id, 'a', sizeof(id));
	id[ID_MAX + 1] = '\0';
	assert_false(id_valid(id));
	id[ID_MAX] = '\0';
	assert_true(id_valid(id));
	assert_true(id_valid("a"));
	assert_false(id_valid(""));
	assert_false(id_valid(NULL));
}

static bool first_allowed(int c)
{
	return strchr("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", c) != NULL;
}

static void ses_1_every_byte_is_judged(void **state)
{
	for (int c = 1; c < 256; c++) {
		char first[] = {(char)c, 'a', '\0'}, later[] = {'a', (char)c, '\0'};

		assert_int_equal(id_valid(first), first_allowed(c));
		assert_int_equal(id_valid(later), first_allowed(c) || strchr("._-", c) != NULL);
	}
}

static void ses_1_made_ids_are_valid_and_differ(void **state)
{
	char a[ID_MAX + 1], b[ID_MAX + 1];
	unsigned seen[256] = {0}, kinds = 0;

	id_make(a, "cmd");
	id_make(b, "cmd");
	assert_int_equal(strlen(a), strlen("cmd-") + 12);
	assert_memory_equal(a, "cmd-", 4);
	assert_true(id_valid(a));
	assert_string_not_equal(a, b);
	for (int i = 0; i < 1000; i++) {
		id_make(a, "s");
		for (const char *p = a + 2; *p != '\0'; p++)
			seen[(unsigned char)*p]++;
	}
	for (int c = 0; c < 256; c++)
		kinds += seen[c] > 0;
	assert_int_equal(kinds, 32);
	assert_int_equal(seen['i'] + seen['l'] + seen['o'] + seen['u'], 0);
	for (int c = 0; c < 256; c++)
		assert_true(seen[c] == 0 || seen[c] > 200);
}

static void ses_1_the_longest_prefix_fits(void **state)
{
	char id[ID_MAX + 1], prefix[ID_MAX] = "";
	int status;
	pid_t pid;

	memset(prefix, 'p', ID_MAX - 13);
	id_make(id, prefix);
	assert_int_equal(strlen(id), ID_MAX);
	assert_true(id_valid(id));
	pid = fork();
	if (pid == 0) {
		close(STDERR_FILENO);
		prefix[ID_MAX - 13] = 'p';
		id_make(id, prefix);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_1_ids_have_a_first_character_and_64_at_most),
		cmocka_unit_test(ses_1_every_byte_is_judged),
		cmocka_unit_test(ses_1_made_ids_are_valid_and_differ),
		cmocka_unit_test(ses_1_the_longest_prefix_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
