// SPDX-License-Identifier: Apache-2.0
/* As a normal user: what of the file system is fixed for it. */
#include "exec/immutable_paths.h"
#include "exec/testkit/exec_testkit.h"
#include <sys/mount.h>

static bool is_immutable(const char *path)
{
	static struct immutable_paths names;
	cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const bool first = immutable_path(&names, root, path);

	assert_int_equal(immutable_path(&names, root, path), first);
	immutable_paths_done(&names);
	return first;
}

static void pol_4_the_system_is_fixed(void **state)
{
	assert_true(is_immutable("/usr/bin/true"));
	assert_true(is_immutable("/bin/sh")); /* links: the directory and the file */
	assert_true(is_immutable("//usr/./bin/../bin/true"));
	assert_true(is_immutable("/"));
	assert_false(is_immutable("/usr/bin/does-not-exist"));
	assert_false(is_immutable("usr/bin/true"));
}

static void pol_4_what_we_own_or_may_write_is_not(void **state)
{
	assert_false(is_immutable(kit_path("good")));
	assert_int_equal(chmod(kit_path("good"), 0555), 0); /* we could change it back */
	assert_false(is_immutable(kit_path("good")));
	assert_int_equal(symlink("/usr/bin/true", kit_path("true")), 0);
	assert_false(is_immutable(kit_path("true")));
	assert_false(is_immutable("/tmp"));
	assert_int_equal(symlink("loop", kit_path("loop")), 0);
	assert_false(is_immutable(kit_path("loop")));
}

static void pol_4_long_names_are_not(void **state)
{
	char path[5000];

	memset(path, '/', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_false(is_immutable(path));
	path[4095] = '\0';
	assert_true(is_immutable(path)); /* the root, with many slashes */
	memset(path + 1, 'n', 256);
	path[257] = '\0';
	assert_false(is_immutable(path));
}

/* ---- a root that belongs to us, as the session's does in a user namespace ---- */

static bool write_text(const char *path, const char *text)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool make_root(const char *root)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "%d %d 1", geteuid(), geteuid());
	snprintf(gids, sizeof(gids), "%d %d 1", getegid(), getegid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	       write_text("/proc/self/uid_map", uids) &&
	       write_text("/proc/self/setgroups", "deny") &&
	       write_text("/proc/self/gid_map", gids) && mkdir(root, 0755) == 0 &&
	       mount("x", root, "tmpfs", 0, "mode=0755") == 0 && chdir(root) == 0 &&
	       mkdir("usr", 0755) == 0 && mkdir("part", 0755) == 0 && mkdir("again", 0755) == 0 &&
	       mkdir("proc", 0755) == 0 && mkdir("workspace", 0755) == 0 &&
	       symlink("usr/bin", "bin") == 0 &&
	       mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL) == 0 &&
	       mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL) == 0;
}

static bool shut(const char *path)
{
	return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0;
}

static bool in_root(const char *path)
{
	struct immutable_paths names = {0};
	cleanup_fd int root = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const bool yes = immutable_path(&names, root, path);

	if (immutable_path(&names, root, path) != yes)
		_exit(KIT_BROKEN);
	immutable_paths_done(&names);
	return yes;
}

/* The number of the first statement that does not hold; 0: all do. */
static int look_at_own_root(void)
{
	if (!make_root(kit_path("root")))
		return KIT_BROKEN;
	if (in_root("/usr/bin/true"))
		return 1; /* its root is writable */
	if (mount("part", "again", NULL, MS_BIND, NULL) < 0 || !shut(kit_path("root")) ||
	    chdir(kit_path("root")) < 0)
		return KIT_BROKEN;
	if (in_root("/usr/bin/true"))
		return 2; /* the same file system is writable at another place */
	if (!shut("again"))
		return KIT_BROKEN;
	if (!in_root("/usr/bin/true") || !in_root("/bin/true") || !in_root("/part"))
		return 3;
	if (in_root("/proc/self/cwd") || in_root("/proc/version"))
		return 4; /* each process sees another one */
	if (in_root("/usr/bin/does-not-exist"))
		return 5;
	/* The workspace is a part of the system, where its owner is another. */
	if (mount("/usr/bin", "workspace", NULL, MS_BIND | MS_REC, NULL) < 0)
		return KIT_BROKEN;
	if (in_root("/usr/bin/true") || in_root("/bin/true") || in_root("/workspace/true"))
		return 6;
	return in_root("/usr/lib") ? 0 : 7;
}

static void pol_4_a_shut_root_of_ours_is_fixed(void **state)
{
	const pid_t pid = fork();

	if (pid == 0)
		_exit(look_at_own_root());
	assert_int_equal(kit_status(pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_the_system_is_fixed),
		cmocka_unit_test(pol_4_what_we_own_or_may_write_is_not),
		cmocka_unit_test(pol_4_long_names_are_not),
		cmocka_unit_test(pol_4_a_shut_root_of_ours_is_fixed),
	};

	if (kit_become_user() < 0)
		return 1;
	return cmocka_run_group_tests(tests, kit_prepare, kit_clean);
}
