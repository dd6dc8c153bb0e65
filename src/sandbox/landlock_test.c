// SPDX-License-Identifier: Apache-2.0
/* Real rulesets on real children, as uid 1000. The scratch directory has open/, shut/ and files in
 * both; it is made by the test and removed at its end. */
#include "base/testkit/child_testkit.h"
#include "sandbox/landlock.h"
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char top[] = "/tmp/landlock-test-XXXXXX";

static char *at(const char *name)
{
	return mem_printf("%s/%s", top, name);
}

static void put(const char *name, const char *text)
{
	cleanup_free char *path = at(name);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(path, 0777), 0);
}

static int make_tree(void **state)
{
	static const char *const dirs[] = {"open", "shut", "exec"};

	if (mkdtemp(top) == NULL || chmod(top, 0777) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		cleanup_free char *path = at(dirs[i]);

		if (mkdir(path, 0777) < 0 || chmod(path, 0777) < 0)
			return -1;
	}
	put("open/file", "text");
	put("shut/file", "text");
	put("exec/run", "#!/bin/sh\nexit 0\n");
	return 0;
}

static int remove_tree(void **state)
{
	cleanup_free char *line = mem_printf("rm -rf %s", top);

	return system(line);
}

/* What a child is given and tries. */
struct trial {
	struct landlock_rule rules[4];
	size_t nrules;
	unsigned scopes;
	int abi;
	kid_fn *fn;
	const void *arg;
};

static int try_behind(const void *arg)
{
	const struct trial *t = arg;
	const struct landlock_ask ask = {t->rules, t->nrules, t->scopes, t->abi};
	struct wall_report walls;
	struct err err = {0};
	int ruleset = -1, r;

	wall_report_init(&walls);
	if (chdir(top) < 0)
		return 249;
	if (landlock_prepare(&ask, &ruleset, &walls, &err) < 0) {
		fprintf(stderr, "# %s\n", err.message);
		return 250;
	}
	if (fcntl(ruleset, F_GETFD) != FD_CLOEXEC)
		return 248;
	r = landlock_enter(ruleset);
	return r != 0 ? r : t->fn(t->arg);
}

static int behind(const struct trial *t)
{
	return kid_run(try_behind, t, true);
}

#define TREE(path, access)                                   \
	{                                                    \
		AT_FDCWD, path, LANDLOCK_TREE, access, false \
	}
#define RW (LANDLOCK_READ | LANDLOCK_WRITE)

struct opening {
	const char *path;
	int flags;
};

static int try_open(const void *arg)
{
	const struct opening *o = arg;

	return kid_errno(open(o->path, o->flags | O_CLOEXEC, 0666));
}

static int expect_open(struct landlock_rule rule, const char *path, int flags)
{
	const struct opening o = {path, flags};

	return behind(&(struct trial){.rules = {rule}, .nrules = 1, .fn = try_open, .arg = &o});
}

static void sbx_3_what_no_rule_names_is_shut(void **state)
{
	const struct landlock_rule all = TREE("open", RW), look = TREE("open", LANDLOCK_READ);

	assert_int_equal(expect_open(all, "shut/file", O_RDONLY), EACCES);
	assert_int_equal(expect_open(all, "shut", O_RDONLY | O_DIRECTORY), EACCES);
	assert_int_equal(expect_open(all, "open/../shut/new", O_WRONLY | O_CREAT), EACCES);
	assert_int_equal(expect_open(all, "open", O_RDONLY | O_DIRECTORY), 0);
	assert_int_equal(expect_open(all, "open/file", O_RDWR), 0);
	assert_int_equal(expect_open(all, "open/file", O_WRONLY | O_TRUNC), 0);
	assert_int_equal(expect_open(all, "open/new", O_WRONLY | O_CREAT), 0);
	assert_int_equal(expect_open(look, "open/file", O_RDONLY), 0);
	assert_int_equal(expect_open(look, "open/file", O_WRONLY), EACCES);
	assert_int_equal(expect_open(look, "open/other", O_WRONLY | O_CREAT), EACCES);
}

static void sbx_3_names_without_what_is_in_them(void **state)
{
	const struct landlock_rule names = TREE("open", LANDLOCK_LIST);

	assert_int_equal(expect_open(names, "open", O_RDONLY | O_DIRECTORY), 0);
	assert_int_equal(expect_open(names, "open/file", O_RDONLY), EACCES);
	assert_int_equal(expect_open(names, "open/file", O_WRONLY), EACCES);
	assert_int_equal(expect_open(names, "shut", O_RDONLY | O_DIRECTORY), EACCES);
}

static void sbx_3_a_descriptor_is_a_rule_too(void **state)
{
	cleanup_free char *path = at("open");
	cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct landlock_rule whole = {dir, NULL, LANDLOCK_TREE, RW, false},
				   below = {dir, "file", LANDLOCK_FILE, RW, false};

	assert_int_equal(expect_open(whole, "open/file", O_RDWR), 0);
	assert_int_equal(expect_open(whole, "shut/file", O_RDWR), EACCES);
	assert_int_equal(expect_open(below, "open/file", O_RDWR), 0);
	assert_int_equal(expect_open(below, "open/new2", O_RDWR | O_CREAT), EACCES);
}

static int run_it(const void *arg)
{
	execl(arg, "run", (char *)NULL);
	return errno;
}

static int execute(unsigned access)
{
	const struct trial t = {.rules = {TREE("/", LANDLOCK_READ),
					  TREE("/usr", LANDLOCK_READ | LANDLOCK_EXEC),
					  {AT_FDCWD, "exec/run", LANDLOCK_FILE, access, false},
					  {AT_FDCWD, "/nothing/here", LANDLOCK_TREE, RW, true}},
				.nrules = 4,
				.fn = run_it,
				.arg = "exec/run"};

	return behind(&t);
}

static void sbx_3_execution_is_a_right_of_its_own(void **state)
{
	assert_int_equal(execute(LANDLOCK_READ | LANDLOCK_EXEC), 0);
	assert_int_equal(execute(RW), EACCES);
	assert_int_equal(execute(0), EACCES);
}

/* prepare alone, in this process */
static int prepare(const struct landlock_rule *rule, int abi, struct wall_report *walls,
		   struct err *err)
{
	const struct landlock_ask ask = {rule, 1, LANDLOCK_SIGNALS, abi}, more = {rule, 1, 0, abi};
	int ruleset = -1, r;

	wall_report_init(walls);
	r = landlock_prepare(&ask, &ruleset, walls, err);
	assert_int_equal(ruleset >= 0, r == 0);
	if (ruleset >= 0) {
		const int made = ruleset;

		/* A rule that is added leaves the report as it is. */
		assert_int_equal(landlock_prepare(&more, &ruleset, walls, err), 0);
		assert_int_equal(ruleset, made);
		close(ruleset);
	}
	return r;
}

static void sbx_3_a_rule_is_of_its_kind(void **state)
{
	static const struct {
		const char *path;
		enum landlock_kind kind;
		bool fits;
	} rules[] = {
		{"/usr/bin", LANDLOCK_FILE, false},	{"/usr/bin/env", LANDLOCK_FILE, true},
		{"/usr/bin/env", LANDLOCK_TREE, false}, {"/usr/bin", LANDLOCK_TREE, true},
		{"/dev/null", LANDLOCK_DEVICE, true},	{"/dev/null", LANDLOCK_FILE, false},
		{"/nothing", LANDLOCK_TREE, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		const struct landlock_rule rule = {AT_FDCWD, rules[i].path, rules[i].kind, RW,
						   false};
		struct wall_report walls;
		struct err err = {0};
		const int r = prepare(&rule, 0, &walls, &err);

		assert_int_equal(r, rules[i].fits ? 0 : -E_ENFORCEMENT);
		assert_int_equal(walls.wall[WALL_landlock].state != WALL_ABSENT, rules[i].fits);
		if (!rules[i].fits)
			assert_string_equal(err.subject, "landlock");
	}
}

static void dep_2_the_report_says_what_an_abi_lacks(void **state)
{
	static const struct {
		int abi;
		enum wall_state state;
		const char *lacks, *has;
	} rows[] = {
		{1, WALL_PARTIAL, "moves between directories", "?"},
		{2, WALL_PARTIAL, "truncation is not refused", "moves between"},
		{3, WALL_PARTIAL, "ioctl of devices", "truncation"},
		{4, WALL_PARTIAL, "ioctl of devices", "truncation"},
		{5, WALL_PARTIAL, "no scopes", "ioctl"},
		{6, WALL_UP, "ABI 6", ";"},
	};
	const struct landlock_rule rule = TREE("/usr", LANDLOCK_READ);

	for (size_t i = 0; i < ARRAY_LEN(rows) && rows[i].abi <= landlock_abi(); i++) {
		struct wall_report walls;
		const char *detail = walls.wall[WALL_landlock].detail;

		assert_int_equal(prepare(&rule, rows[i].abi, &walls, NULL), 0);
		assert_int_equal(walls.wall[WALL_landlock].state, rows[i].state);
		assert_non_null(strstr(detail, rows[i].lacks));
		assert_null(strstr(detail, rows[i].has));
	}
}

static int try_truncate(const void *arg)
{
	return kid_errno(truncate("shut/file", 4));
}

static int try_move(const void *arg)
{
	return kid_errno(rename("open/moved", "exec/moved")) != 0
		       ? errno
		       : kid_errno(rename("exec/moved", "open/moved"));
}

/* An older ABI holds less, or more: the running kernel is asked to behave like it. */
static void dep_2_older_abis(void **state)
{
	struct trial t = {.rules = {TREE("open", RW), TREE("exec", RW)}, .nrules = 2};

	put("open/moved", "x");
	t.fn = try_truncate;
	t.abi = 2;
	assert_int_equal(behind(&t), 0);
	t.abi = 3;
	assert_int_equal(behind(&t), landlock_abi() < 3 ? 0 : EACCES);
	t.fn = try_move;
	t.abi = 1;
	assert_int_equal(behind(&t), EXDEV);
	t.abi = 2;
	assert_int_equal(behind(&t), 0);
}

static int try_ioctl(const void *arg)
{
	const int fd = open("/dev/ptmx", O_RDONLY | O_NOCTTY | O_CLOEXEC);
	int n;

	return fd == -1 ? 240 : kid_errno(ioctl(fd, TIOCGPTN, &n));
}

static void sbx_3_ioctls_of_devices(void **state)
{
	struct trial t = {.rules = {TREE("/dev", RW)}, .nrules = 1, .fn = try_ioctl};

	assert_int_equal(behind(&t), 0);
	t.rules[0].kind = LANDLOCK_DEVICE;
	t.rules[0].path = "/dev/ptmx";
	assert_int_equal(behind(&t), 0);
	t.rules[0].access = LANDLOCK_READ;
	t.abi = 4;
	assert_int_equal(behind(&t), 0);
	t.abi = 5;
	assert_int_equal(behind(&t), landlock_abi() < 5 ? 0 : EACCES);
}

static int try_signal(const void *arg)
{
	return kid_errno(kill(*(const pid_t *)arg, 0));
}

static int try_connect(const void *arg)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return kid_errno(connect(fd, arg, sizeof(sa_family_t) + 16));
}

/* A child that has the same uid and is outside of the domain. */
static int sleep_long(const void *arg)
{
	pause();
	return 0;
}

static pid_t start_sleeper(void)
{
	const pid_t pid = fork();

	if (pid == 0) {
		alarm(KID_SECONDS);
		if (geteuid() == 0 && setresuid(KID_USER, KID_USER, KID_USER) < 0)
			_exit(1);
		_exit(sleep_long(NULL));
	}
	return pid;
}

static void sbx_3_scopes(void **state)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	cleanup_fd int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct trial t = {.rules = {TREE("/", RW)}, .nrules = 1, .fn = try_signal};
	pid_t pid;

	if (landlock_abi() < 6) {
		print_message("# skipped: scopes need Landlock ABI 6\n");
		skip();
	}
	pid = start_sleeper();
	t.arg = &pid;
	snprintf(name.sun_path + 1, 32, "landlock-%d", (int)getpid());
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t) + 16), 0);
	assert_int_equal(listen(listener, 8), 0);
	/* the sleeper has taken its uid once a signal may reach it */
	while (behind(&t) == EPERM)
		;
	t.scopes = LANDLOCK_SIGNALS;
	assert_int_equal(behind(&t), EPERM);
	t.scopes = LANDLOCK_ABSTRACT_SOCKETS;
	assert_int_equal(behind(&t), 0);
	t.fn = try_connect;
	t.arg = &name;
	assert_int_equal(behind(&t), EPERM);
	t.abi = 5;
	assert_int_equal(behind(&t), 0);
	t.abi = 6;
	assert_int_equal(behind(&t), EPERM);
	t.scopes = LANDLOCK_SIGNALS;
	assert_int_equal(behind(&t), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static int enter_nothing(const void *arg)
{
	return landlock_enter(-1);
}

static void sbx_3_a_ruleset_that_is_none_is_an_errno(void **state)
{
	assert_int_equal(kid_run(enter_nothing, NULL, true), EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_3_what_no_rule_names_is_shut),
		cmocka_unit_test(sbx_3_names_without_what_is_in_them),
		cmocka_unit_test(sbx_3_a_descriptor_is_a_rule_too),
		cmocka_unit_test(sbx_3_execution_is_a_right_of_its_own),
		cmocka_unit_test(sbx_3_a_rule_is_of_its_kind),
		cmocka_unit_test(dep_2_the_report_says_what_an_abi_lacks),
		cmocka_unit_test(dep_2_older_abis),
		cmocka_unit_test(sbx_3_ioctls_of_devices),
		cmocka_unit_test(sbx_3_scopes),
		cmocka_unit_test(sbx_3_a_ruleset_that_is_none_is_an_errno),
	};

	if (landlock_abi() == 0) {
		printf("1..0 # SKIP the kernel has no Landlock\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
