// SPDX-License-Identifier: Apache-2.0
/* Files that are named by the kernel's links to the caller itself. */
#include "exec/testkit/exec_testkit.h"

extern char **environ;

/* A path is before, then the test's directory if in_dir, then after. */
struct named {
	const char *before, *after;
	bool in_dir;
	int want;
	const char *file; /* what is decided; NULL: no decision is made */
};

static void write_path(const struct named *n, char out[256])
{
	snprintf(out, 256, "%s%s%s", n->before, n->in_dir ? kit.dir : "", n->after);
}

static int guest_exec(void *arg)
{
	char *argv[] = {(char *)"x", NULL};
	char path[256];

	write_path(arg, path);
	if (chdir(kit.dir) == 0)
		execve(path, argv, environ);
	return errno == EACCES ? KIT_NOT_RUN : errno;
}

static void check(const struct named *n)
{
	char path[256];

	write_path(n, path);
	if (kit_run(guest_exec, (void *)(uintptr_t)n) != n->want)
		fail_msg("%s: another result", path);
	assert_int_equal(kit.nrecords, n->file != NULL);
	if (n->file == NULL)
		return;
	assert_string_equal(kit.record[0].path, kit_path(n->file));
	assert_string_equal(kit.record[0].called, path);
	assert_int_equal(kit.record[0].outcome, n->want == 0 ? GATE_DONE : GATE_REFUSED);
}

static void pol_4_the_callers_own_root_and_directory(void **state)
{
	const struct named cases[] = {
		{"/proc/self/root", "/good", true, 0, "good"},
		{"/proc/thread-self/root/..", "//./good", true, 0, "good"},
		{"/proc/self/cwd/good", "", false, 0, "good"},
		{"/proc/thread-self/cwd/good", "", false, 0, "good"},
		{"/proc/self/cwd/../..", "/good", true, 0, "good"},
		{"/proc/self/root/proc/self/cwd/good", "", false, 0, "good"},
		{"/proc/self/root", "/evil", true, KIT_NOT_RUN, "evil"},
		{"/proc/self/cwd/evil", "", false, KIT_NOT_RUN, "evil"},
		{"/proc/self/cwd/missing", "", false, ENOENT, NULL},
		{"/proc/self/root", "", false, KIT_NOT_RUN, NULL}, /* directories */
		{"/proc/self/cwd", "", false, KIT_NOT_RUN, NULL},
		{"/proc/self/rootgood", "", false, ENOENT, NULL},
		{"/proc/self/cwdgood", "", false, ENOENT, NULL},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(&cases[i]);
}

/* /proc/self is the process, not the thread: its first thread's directory counts. */
static void *exec_in_thread(void *arg)
{
	char *argv[] = {(char *)"x", NULL};

	if (unshare(CLONE_FS) == 0 && chdir("/usr") == 0)
		execve(arg, argv, environ);
	_exit(errno);
}

static int guest_thread(void *arg)
{
	pthread_t t;

	if (chdir(kit.dir) < 0 || pthread_create(&t, NULL, exec_in_thread, arg) != 0)
		return KIT_BROKEN;
	pthread_join(t, NULL);
	return KIT_BROKEN;
}

static void pol_4_a_thread_with_another_directory(void **state)
{
	assert_int_equal(kit_run(guest_thread, (void *)(uintptr_t) "/proc/self/cwd/good"), 0);
	assert_string_equal(kit.record[0].path, kit_path("good"));
	assert_int_equal(
		kit_run(guest_thread, (void *)(uintptr_t) "/proc/thread-self/cwd/bin/true"), 0);
	assert_string_equal(kit.record[0].path, "/usr/bin/true");
}

static int find_initial(const char *path, const char *cwd, struct exec_initial **out)
{
	static struct exec_looker *l;
	char *argv[] = {(char *)"x"};
	const struct strv v = {argv, 1};
	const struct exec_initial_ask ask = {.path = path, .cwd = cwd, .exact = true, .argv = &v};

	if (l == NULL)
		l = exec_looker_new(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), NULL);
	return exec_initial_find(l, &ask, out);
}

static int look_initial(const char *path, const char *cwd)
{
	struct exec_initial *i = NULL;
	const int r = find_initial(path, cwd, &i);

	if (r == 0)
		assert_string_equal(exec_initial_op(i)->exec.path, kit_path("good"));
	exec_initial_free(i);
	return r;
}

/* Its directory is a text that a client may choose. */
static void pol_4_the_initial_exec_has_no_process_yet(void **state)
{
	cleanup_free char *path = mem_printf("/proc/self/root%s", kit_path("good"));

	assert_int_equal(look_initial(path, "/"), 0);
	assert_int_equal(look_initial("/proc/self/cwd/good", kit.dir), 0);
	assert_int_equal(look_initial("/proc/self/cwd/good", "/usr"), ENOENT);
	assert_int_equal(look_initial("/proc/self/cwd/good", "/proc/self/cwd"), ELOOP);
	assert_int_equal(look_initial("/proc/self/cwd/good", "/proc/self/cwd/x"), ELOOP);
	assert_int_equal(look_initial("/proc/self/cwd/good", ""), EPERM);
}

static void pol_4_links_are_counted(void **state)
{
	cleanup_buf struct buf path = {0};
	cleanup_free char *more = NULL;

	for (int i = 0; i < 40; i++)
		buf_adds(&path, "/proc/self/root");
	buf_adds(&path, kit_path("good"));
	assert_int_equal(look_initial(path.data, "/"), 0);
	more = mem_printf("/proc/self/root%s", path.data);
	assert_int_equal(look_initial(more, "/"), ELOOP);
}

static unsigned initial_flags(const char *path)
{
	struct exec_initial *i = NULL;
	unsigned flags;

	assert_int_equal(find_initial(path, "/usr/bin", &i), 0);
	flags = exec_initial_op(i)->exec.flags;
	assert_non_null(exec_initial_op(i)->exec.script);
	exec_initial_free(i);
	return flags;
}

/* A process that replaces a link decides which file the interpreter opens. */
static void pol_4_a_script_by_a_name_that_can_change(void **state)
{
	char dir[] = "/tmp/agentsh-loose-XXXXXX";
	cleanup_free char *link = NULL, *own = NULL;
	const uid_t nobody = 65534;
	int fd;

	if (geteuid() == 0)
		assert_int_equal(seteuid(nobody), 0);
	assert_non_null(mkdtemp(dir));
	link = mem_printf("%s/link", dir);
	own = mem_printf("%s/own", dir);
	fd = open(own, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, "#!/bin/sh\n", 10), 10);
	close(fd);
	assert_int_equal(symlink("/usr/bin/ldd", link), 0);
	assert_int_equal(initial_flags("/usr/bin/ldd"), 0);
	assert_int_equal(initial_flags(link), OP_EXEC_LOOSE);
	assert_int_equal(initial_flags("./ldd"), OP_EXEC_LOOSE);
	assert_int_equal(initial_flags(own), 0); /* written by the caller anyway */
	unlink(link);
	assert_int_equal(symlink("own", link), 0);
	assert_int_equal(initial_flags(link), 0);
	unlink(link);
	unlink(own);
	rmdir(dir);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_the_callers_own_root_and_directory),
		cmocka_unit_test(pol_4_a_thread_with_another_directory),
		cmocka_unit_test(pol_4_the_initial_exec_has_no_process_yet),
		cmocka_unit_test(pol_4_links_are_counted),
		cmocka_unit_test(pol_4_a_script_by_a_name_that_can_change),
	};

	return cmocka_run_group_tests(tests, kit_prepare, kit_clean);
}
