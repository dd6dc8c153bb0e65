// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "fs/fs_walls.h"
#include "fs/fuse_kernel.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *arg)
{
	return arg;
}

/* The number of the first thing that is not as it should be. */
static int behind_walls(int tree)
{
	const struct sandbox_trees trees = {&tree, 1, {0}};
	const struct sandbox_plan plan = {0};
	pthread_t t;
	struct err err = {0};
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    fs_walls_raise(&plan, &trees, -1, false, &err) < 0)
		return 1;
	fd = openat(tree, "made", O_RDWR | O_CREAT, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1 || renameat(tree, "made", tree, "dir/moved") < 0)
		return 2;
	if (pthread_create(&t, NULL, thread, NULL) != 0 || pthread_join(t, NULL) != 0)
		return 3;
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM)
		return 4;
	if (fork() != -1 || errno != EPERM)
		return 5;
	if (fanotify_mark(-1, FAN_MARK_FLUSH, 0, AT_FDCWD, NULL) == 0 || errno != EBADF)
		return 10;
	if (fanotify_init(FAN_CLASS_NOTIF, O_RDONLY) >= 0 || errno != EPERM)
		return 11;
	if (openat(AT_FDCWD, "/etc/passwd", O_RDONLY) >= 0 || errno != EACCES)
		return 6;
	if (openat(tree, "../other", O_RDONLY) >= 0 || errno != EACCES)
		return 7;
	if (mount("none", "/mnt", "tmpfs", 0, NULL) == 0 || errno != EPERM)
		return 8;
	if (execl("/bin/true", "true", NULL) == 0 || errno != EPERM)
		return 9;
	return 0;
}

/* What CAP_SYS_ADMIN allows beside passthrough; every call would work for root. */
static int behind_walls_with_admin(int tree)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};
	const struct sandbox_trees trees = {&tree, 1, {0}};
	const struct sandbox_plan plan = {0};
	char page[4096] __attribute__((aligned(4096)));
	struct err err = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    fs_walls_raise(&plan, &trees, -1, true, &err) < 0)
		return 1;
	data[0].effective = data[0].permitted = 1U << CAP_SYS_ADMIN;
	if (syscall(SYS_capset, &head, data) < 0)
		return 2;
	if (mount("none", "/mnt", "tmpfs", 0, NULL) == 0 || errno != EPERM)
		return 3;
	if (ioctl(tree, FIFREEZE, 0) == 0 || errno != EPERM)
		return 4;
	if (madvise(page, sizeof(page), MADV_HWPOISON) == 0 || errno != EPERM)
		return 5;
	/* the filter lets it pass; the descriptor is not that of a FUSE device */
	if (ioctl(tree, FS_BACKING_CLOSE, 0) == 0 || errno != EBADF)
		return 6;
	return madvise(page, sizeof(page), MADV_NORMAL) == 0 ? 0 : 7;
}

static void sbx_6_passthrough_needs_one_right_and_uses_it_for_two_calls(void **state)
{
	const int tree = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
	pid = fork();
	if (pid == 0)
		_exit(behind_walls_with_admin(tree));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(tree);
}

static void sbx_6_the_file_server_reaches_its_tree_alone(void **state)
{
	char dir[] = "/tmp/agentsh-walls-XXXXXX";
	int top, tree, status;
	pid_t pid;

	assert_non_null(mkdtemp(dir));
	top = open(dir, O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(top, "tree", 0755), 0);
	assert_int_equal(mkdirat(top, "tree/dir", 0755), 0);
	close(openat(top, "other", O_CREAT | O_WRONLY, 0644));
	tree = openat(top, "tree", O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid = fork();
	if (pid == 0)
		_exit(behind_walls(tree));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* the same without walls */
	assert_true(openat(tree, "../other", O_RDONLY) >= 0);
	unlinkat(top, "tree/dir/moved", 0);
	unlinkat(top, "tree/dir", AT_REMOVEDIR);
	unlinkat(top, "tree", AT_REMOVEDIR);
	unlinkat(top, "other", 0);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_6_the_file_server_reaches_its_tree_alone),
		cmocka_unit_test(sbx_6_passthrough_needs_one_right_and_uses_it_for_two_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
