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
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define CALLER 1000
#define OTHER 1001

static char top[64];

static char *below(const char *name)
{
	return mem_printf("%s/%s", top, name);
}

static void make_dir(const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	cleanup_free char *path = below(name);

	assert_int_equal(mkdir(path, 0700), 0);
	if (geteuid() == 0)
		assert_int_equal(chown(path, uid, gid), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static int set_up(void **state)
{
	cleanup_free char *link = NULL;
	cleanup_free char *file = NULL;

	/* What a test mounts goes with the program. */
	if (geteuid() == 0 &&
	    (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
		return -1;
	umask(0);
	snprintf(top, sizeof(top), "/tmp/agentsh-test-XXXXXX");
	assert_non_null(mkdtemp(top));
	assert_int_equal(chmod(top, 0755), 0);
	make_dir("mine", 0700, CALLER, CALLER);
	make_dir("mine/sub", 0700, OTHER, OTHER);
	make_dir("minette", 0755, OTHER, OTHER);
	make_dir("shut", 0700, 0, 0);
	make_dir("shut/mine", 0700, CALLER, CALLER);
	make_dir("group", 0750, 0, 0);
	make_dir("group/mine", 0700, CALLER, CALLER);
	link = below("link");
	assert_int_equal(symlink("mine", link), 0);
	file = below("file");
	close(open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	return 0;
}

static int tear_down(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", top);

	return system(command);
}

/* Asks for a path as the caller of a privileged server; whatever comes back is closed. */
struct answer {
	int r;
	char real[PATH_MAX];
	struct stat st;
	struct err err;
};
static struct answer ask_as(const char *path, uint32_t uid, uint32_t gid, const struct strv *listed)
{
	const struct sandbox_workspace_ask ask = {path, uid, gid, listed};
	const struct sandbox_plan plan = {.privileged = geteuid() == 0, .uid = uid, .gid = gid};
	struct answer a = {0};
	char *real = NULL;
	int fd = -1;

	a.r = sandbox_workspace(&ask, &plan, &fd, &real, &a.err);
	if (a.r < 0) {
		assert_int_equal(fd, -1);
		assert_null(real);
		assert_int_equal(a.err.code, -a.r);
		return a;
	}
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd, &a.st), 0);
	snprintf(a.real, sizeof(a.real), "%s", real);
	free(real);
	close(fd);
	return a;
}

static struct answer ask(const char *name, const struct strv *listed)
{
	cleanup_free char *path = below(name);

	return ask_as(path, CALLER, CALLER, listed);
}

static void need_root(void)
{
	if (geteuid() != 0) {
		print_message("# skipped: needs root\n");
		skip();
	}
}

static void ses_3_an_own_directory_is_taken_by_any_name(void **state)
{
	cleanup_free char *mine = below("mine");
	struct answer a;
	struct stat st;

	need_root();
	assert_int_equal(stat(mine, &st), 0);
	a = ask("mine", NULL);
	assert_int_equal(a.r, 0);
	assert_string_equal(a.real, mine);
	assert_int_equal(a.st.st_ino, st.st_ino);
	a = ask("link", NULL);
	assert_int_equal(a.r, 0);
	assert_string_equal(a.real, mine);
	a = ask("./shut/../mine/", NULL);
	assert_int_equal(a.r, -E_FORBIDDEN);
	a = ask("./mine/", NULL);
	assert_int_equal(a.r, 0);
}

static void ses_3_bad_paths_are_named(void **state)
{
	cleanup_free char *missing = below("missing");
	struct answer a;

	need_root();
	assert_int_equal(ask_as(NULL, CALLER, CALLER, NULL).r, -E_BAD_REQUEST);
	assert_int_equal(ask_as("", CALLER, CALLER, NULL).r, -E_BAD_REQUEST);
	a = ask_as("tmp", CALLER, CALLER, NULL);
	assert_int_equal(a.r, -E_BAD_REQUEST);
	assert_string_equal(a.err.message, "workspace 'tmp' is not an absolute path");
	assert_int_equal(ask("file", NULL).r, -E_BAD_REQUEST);
	a = ask("missing", NULL);
	assert_int_equal(a.r, -E_NOT_FOUND);
	assert_string_equal(a.err.subject, missing);
	assert_int_equal(ask("file/x", NULL).r, -E_BAD_REQUEST);
}

static void ses_3_another_owner_is_refused_unless_listed(void **state)
{
	struct strv listed = {0};
	cleanup_free char *mine = below("mine");
	cleanup_free char *link = below("link");
	cleanup_free char *minette = below("minette");

	need_root();
	assert_int_equal(ask("minette", NULL).r, -E_FORBIDDEN);
	assert_int_equal(ask("mine/sub", NULL).r, -E_FORBIDDEN);
	strv_add(&listed, "/no/such/directory");
	strv_add(&listed, mine);
	assert_int_equal(ask("mine/sub", &listed).r, 0);
	/* A name that merely begins alike is not below. */
	assert_int_equal(ask("minette", &listed).r, -E_FORBIDDEN);
	strv_add(&listed, minette);
	assert_int_equal(ask("minette", &listed).r, 0);
	strv_done(&listed);
	strv_add(&listed, link);
	assert_int_equal(ask("mine/sub", &listed).r, 0);
	strv_done(&listed);
	strv_add(&listed, "/");
	assert_int_equal(ask("minette", &listed).r, 0);
	strv_done(&listed);
}

static void ses_3_root_may_use_any_directory(void **state)
{
	cleanup_free char *mine = below("mine");

	need_root();
	assert_int_equal(ask_as(mine, 0, 0, NULL).r, 0);
	assert_int_equal(ask_as(mine, OTHER, OTHER, NULL).r, -E_FORBIDDEN);
}

/* The path is walked with the caller's rights: neither root's nor those of the server's groups. */
static void ses_3_the_caller_must_reach_it_himself(void **state)
{
	const gid_t groups[] = {0, 7};
	gid_t now[8];

	need_root();
	assert_int_equal(setgroups(2, groups), 0);
	assert_int_equal(ask("shut/mine", NULL).r, -E_FORBIDDEN);
	assert_int_equal(ask("group/mine", NULL).r, -E_FORBIDDEN);
	/* What was borrowed is given back. */
	assert_int_equal(getgroups(8, now), 2);
	assert_int_equal(now[0], 0);
	assert_int_equal(now[1], 7);
	assert_int_equal(access("/etc/shadow", R_OK), 0);
	assert_int_equal(setgroups(0, NULL), 0);
}

static void ses_3_the_callers_primary_group_counts(void **state)
{
	cleanup_free char *path = below("group/mine");

	need_root();
	assert_int_equal(ask_as(path, CALLER, 0, NULL).r, 0);
}

static void ses_3_places_of_the_machine_are_refused(void **state)
{
	static const char *const paths[] = {"/",	   "/proc",	"/proc/self", "/sys",
					    "/sys/kernel", "/dev",	"/dev/pts",   "/run",
					    "/proc/../",   "/proc/1/fd"};
	struct answer a;

	need_root();
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		assert_int_equal(ask_as(paths[i], 0, 0, NULL).r, -E_FORBIDDEN);
	a = ask_as("/dev/shm", 0, 0, NULL);
	assert_int_equal(a.r, 0);
	assert_string_equal(a.real, "/dev/shm");
	assert_int_equal(ask_as("/usr", 0, 0, NULL).r, 0);
}

static void ses_3_the_reason_tells_in_from_contains(void **state)
{
	struct answer a;

	need_root();
	a = ask_as("/sys/kernel", 0, 0, NULL);
	assert_string_equal(a.err.message, "workspace /sys/kernel is in /sys");
	a = ask_as("/run", 0, 0, NULL);
	assert_string_equal(a.err.message, "workspace /run contains /run/agentsh");
}

static void ses_3_owners_are_mapped_in_the_tree(void **state)
{
	const struct sandbox_plan plan = {.privileged = 1, .idmap = 1, .uid = 64999, .gid = 64998};
	cleanup_free char *path = below("shut");
	struct sandbox_workspace_ask a = {path, 0, 0, NULL};
	cleanup_free char *real = NULL;
	cleanup_fd int tree = -1;
	struct err err = {0};
	struct stat st;

	need_root();
	assert_int_equal(sandbox_idmap(&(struct idmap){0, 0, 64999, 64998}, &a.userns, &err), 0);
	if (sandbox_workspace(&a, &plan, &tree, &real, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(fstat(tree, &st), 0);
	assert_int_equal(st.st_uid, 64999);
	assert_int_equal(st.st_gid, 64998);
	assert_int_equal(fstatat(tree, "mine", &st, 0), 0);
	assert_int_equal(st.st_uid, CALLER);
	close(a.userns);
}

static void sbx_1_where_owners_cannot_be_mapped_the_wall_is_named(void **state)
{
	const struct sandbox_plan plan = {.privileged = 1, .idmap = 1, .uid = 64999, .gid = 64999};
	cleanup_free char *path = below("ram");
	char fs[SANDBOX_FS] = "";
	struct sandbox_workspace_ask a = {path, 0, 0, NULL, -1, fs};
	struct err err = {0};
	char *real = NULL;
	int tree = -1;

	need_root();
	assert_int_equal(sandbox_idmap(&(struct idmap){0, 0, 64999, 64999}, &a.userns, &err), 0);
	make_dir("ram", 0755, 0, 0);
	assert_int_equal(mount("ramfs", path, "ramfs", 0, NULL), 0);
	assert_int_equal(sandbox_workspace(&a, &plan, &tree, &real, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "uid");
	assert_non_null(strstr(err.message, "list uid in sandbox.allow_unenforced"));
	assert_string_equal(fs, "ramfs");
	assert_int_equal(tree, -1);
	assert_null(real);
	/* also where it is mounted further below */
	a.path = top;
	assert_int_equal(sandbox_workspace(&a, &plan, &tree, &real, &err), -E_ENFORCEMENT);
	assert_string_equal(fs, "ramfs");
	assert_int_equal(umount(path), 0);
	close(a.userns);
}

static void sbx_5_a_normal_user_gets_a_plain_directory(void **state)
{
	const struct sandbox_plan plan = {.uid = geteuid()};
	const struct sandbox_workspace_ask a = {top, geteuid(), getegid(), NULL};
	cleanup_free char *real = NULL;
	cleanup_fd int fd = -1;

	assert_int_equal(sandbox_workspace(&a, &plan, &fd, &real, NULL), 0);
	assert_true((fcntl(fd, F_GETFL) & O_PATH) != 0);
	assert_string_equal(real, top);
}

static void ses_3_a_removed_directory_is_not_found(void **state)
{
	const struct sandbox_plan plan = {.uid = geteuid()};
	cleanup_free char *path = below("gone");
	cleanup_free char *self = NULL;
	struct sandbox_workspace_ask a = {NULL, geteuid(), getegid(), NULL};
	char *real = NULL;
	int fd, out = -1;

	make_dir("gone", 0755, geteuid(), getegid());
	fd = open(path, O_PATH | O_CLOEXEC);
	assert_int_equal(rmdir(path), 0);
	self = mem_printf("/proc/self/fd/%d", fd);
	a.path = self;
	assert_int_equal(sandbox_workspace(&a, &plan, &out, &real, NULL), -E_NOT_FOUND);
	assert_int_equal(out, -1);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_3_an_own_directory_is_taken_by_any_name),
		cmocka_unit_test(ses_3_bad_paths_are_named),
		cmocka_unit_test(ses_3_another_owner_is_refused_unless_listed),
		cmocka_unit_test(ses_3_root_may_use_any_directory),
		cmocka_unit_test(ses_3_the_caller_must_reach_it_himself),
		cmocka_unit_test(ses_3_the_callers_primary_group_counts),
		cmocka_unit_test(ses_3_places_of_the_machine_are_refused),
		cmocka_unit_test(ses_3_the_reason_tells_in_from_contains),
		cmocka_unit_test(ses_3_owners_are_mapped_in_the_tree),
		cmocka_unit_test(sbx_1_where_owners_cannot_be_mapped_the_wall_is_named),
		cmocka_unit_test(sbx_5_a_normal_user_gets_a_plain_directory),
		cmocka_unit_test(ses_3_a_removed_directory_is_not_found),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
