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
#include "cli/cli.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static char top[] = "/tmp/agentsh-root-XXXXXX";

static void make_dir(const char *name)
{
	cleanup_free char *path = mem_printf("%s/%s", top, name);

	assert_int_equal(mkdir(path, 0755), 0);
}

static void make_file(const char *name, const char *text)
{
	cleanup_free char *path = mem_printf("%s/%s", top, name);
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
}

static void expect(const char *here, const char *want)
{
	cleanup_free char *path = mem_printf("%s/%s", top, here);
	cleanup_free char *wanted = mem_printf("%s/%s", top, want);
	cleanup_free char *root = cli_run_root(path);

	assert_string_equal(root, wanted);
}

static int set_up(void **state)
{
	assert_non_null(mkdtemp(top));
	setenv("HOME", "/nonexistent", 1);
	make_dir("home");
	make_dir("home/repo");
	make_dir("home/repo/.git");
	make_dir("home/repo/src");
	make_dir("home/repo/src/deep");
	make_dir("home/repo/module");
	make_dir("home/plain");
	make_dir("home/tree");
	make_dir("home/tree/src");
	make_file("home/repo/module/.git", "gitdir: ../.git/modules/module\n");
	make_file("home/tree/.git", "gitdir: /somewhere/repo/.git/worktrees/tree\n");
	return 0;
}

static int tear_down(void **state)
{
	cleanup_free char *remove = mem_printf("rm -r %s", top);

	return system(remove);
}

static void cli_1_run_works_on_the_repository_around_the_directory(void **state)
{
	expect("home/repo", "home/repo");
	expect("home/repo/src/deep", "home/repo");
	expect("home/repo/module", "home/repo");
	expect("home/tree/src", "home/tree");
	expect("home/plain", "home/plain");
}

static void cli_1_run_never_takes_the_whole_home(void **state)
{
	cleanup_free char *home = mem_printf("%s/home", top);
	cleanup_free char *inner = mem_printf("%s/home/repo/src", top);

	make_dir("home/.git");
	setenv("HOME", home, 1);
	expect("home/plain", "home/plain");
	expect("home/repo/src", "home/repo");
	setenv("HOME", inner, 1); /* a repository above the home */
	expect("home/repo/src/deep", "home/repo/src/deep");
	setenv("HOME", "/nonexistent", 1);
	expect("home/plain", "home");
}

static void cli_1_run_takes_no_repository_of_another_user(void **state)
{
	cleanup_free char *repo = mem_printf("%s/home/repo", top);

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(repo, 12345, 12345), 0);
	expect("home/repo/src", "home/repo/src");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_run_works_on_the_repository_around_the_directory),
		cmocka_unit_test(cli_1_run_never_takes_the_whole_home),
		cmocka_unit_test(cli_1_run_takes_no_repository_of_another_user),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
