// SPDX-License-Identifier: Apache-2.0
/* As a normal user: how an initial exec is executed, and what of it is remembered. The root that is
 * looked into belongs to another user, so that nothing in it can be changed by us; a helper that
 * has stayed root changes it. */
#include "exec/testkit/exec_testkit.h"
#include <sys/resource.h>

static char immutable_root[] = "/tmp/agentsh-first-XXXXXX"; /* root's; "" if we are not root */
static int helper = -1; /* takes lines for sh, answers with a byte */

static int find(struct exec_looker *l, const char *path, struct exec_initial **out)
{
	static char *argv[] = {(char *)"name", (char *)"one"};
	const struct strv v = {argv, 2};
	const struct exec_initial_ask ask = {.path = path, .cwd = "/", .exact = true, .argv = &v};

	return exec_initial_find(l, &ask, out);
}

static struct exec_initial *look_in(struct exec_looker *l, const char *path, int expected)
{
	struct exec_initial *i = NULL;

	assert_int_equal(find(l, path, &i), expected);
	return i;
}

/* How it is executed. */
struct way {
	int fd;
	char *path;
	struct strv argv;
	struct err err;
};

static int apply(struct exec_initial *i, struct way *w)
{
	*w = (struct way){.fd = -1, .path = mem_strdup("unchanged")};
	strv_add(&w->argv, "name");
	strv_add(&w->argv, "one");
	exec_initial_decide(i, kit.gate, NULL);
	return exec_initial_apply(i, &w->path, &w->argv, &w->fd, &w->err);
}

static void way_done(struct way *w)
{
	free(w->path);
	strv_done(&w->argv);
}

/* ---- by path or by descriptor ---- */

static struct exec_looker *system_looker(void)
{
	static int root = -1;

	if (root == -1)
		root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return exec_looker_new(root, NULL);
}

static void expect_way(const char *path, const char *called, const char *argv, bool by_fd)
{
	struct exec_looker *l = system_looker();
	struct exec_initial *i = look_in(l, path, 0);
	struct way w;
	char text[512];

	assert_int_equal(apply(i, &w), 0);
	assert_string_equal(w.path, called);
	assert_int_equal(w.fd >= 0, by_fd);
	kit_join(text, sizeof(text), (const char *const *)w.argv.v, w.argv.n);
	assert_string_equal(text, argv);
	way_done(&w);
	exec_initial_free(i);
	exec_looker_free(l);
}

static void pol_4_what_nobody_can_change_is_executed_by_its_path(void **state)
{
	expect_way("/usr/bin/true", "/usr/bin/true", "name|one", false);
	expect_way("/bin/sh", "/bin/sh", "name|one", false);
}

static void pol_4_what_can_change_is_executed_by_its_descriptor(void **state)
{
	struct exec_looker *l = system_looker();
	struct exec_initial *f = look_in(l, kit_path("good"), 0);
	struct stat a, b;
	struct way w;

	assert_int_equal(stat(kit_path("good"), &a), 0);
	assert_int_equal(apply(f, &w), 0);
	assert_int_equal(fstat(w.fd, &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	way_done(&w);
	exec_initial_free(f);
	exec_looker_free(l);
	expect_way(kit_path("good"), kit_path("good"), "name|one", true);
	assert_int_equal(symlink("/usr/bin/true", kit_path("to-system")), 0);
	expect_way(kit_path("to-system"), kit_path("to-system"), "name|one", true);
	expect_way("usr/bin/true", "/usr/bin/true", "name|one",
		   true); /* by a directory that may change */
}

/* The script's first line is not read again: its interpreter is what is executed. */
static void pol_4_a_script_that_can_change_is_executed_by_its_interpreter(void **state)
{
	cleanup_free char *line = mem_printf("#!%s -x y\n", kit_path("good"));
	cleanup_free char *head = NULL;

	kit_write("script", "#!/bin/sh -e\n", 0755);
	head = mem_printf("/bin/sh|-e|%s|one", kit_path("script"));
	expect_way(kit_path("script"), "/bin/sh", head, false);
	kit_write("odd", line, 0755);
	free(head);
	head = mem_printf("%s|-x y|%s|one", kit_path("good"), kit_path("odd"));
	expect_way(kit_path("odd"), kit_path("good"), head, true);
}

static bool is_replaceable(const char *loader, const char *program)
{
	struct exec_looker *l = system_looker();
	char *argv[] = {(char *)(uintptr_t)loader, (char *)(uintptr_t)program};
	const struct strv v = {argv, 2};
	const struct exec_initial_ask ask = {.path = loader, .cwd = "/", .argv = &v};
	struct exec_initial *i = NULL;
	struct way w;
	int r;

	assert_int_equal(exec_initial_find(l, &ask, &i), 0);
	r = apply(i, &w);
	if (r != 0) {
		assert_int_equal(r, -E_POLICY_DENIED);
		assert_non_null(strstr(w.err.message, "a file that can be replaced"));
		assert_int_equal(kit.record[kit.nrecords - 1].outcome, GATE_REFUSED);
	}
	way_done(&w);
	exec_initial_free(i);
	exec_looker_free(l);
	return r != 0;
}

static void pol_4_what_a_loader_loads_must_not_change(void **state)
{
#if defined(__x86_64__)
	static const char loader[] = "/lib64/ld-linux-x86-64.so.2";
#else
	static const char loader[] = "/lib/ld-linux-aarch64.so.1";
#endif

	assert_true(is_replaceable(loader, kit_path("good")));
	assert_false(is_replaceable(loader, "/usr/bin/true"));
	assert_false(is_replaceable("/usr/bin/true", kit_path("good")));
}

/* ---- what is remembered ---- */

static void as_root(const char *line)
{
	char c;

	assert_int_equal(write(helper, line, strlen(line) + 1), (ssize_t)strlen(line) + 1);
	assert_int_equal(read(helper, &c, 1), 1);
	assert_int_equal(c, 0);
}

/* A look that may open nothing: only what is remembered is found, by one look at the file. */
static void expect_known(struct exec_looker *l, const char *path, bool known)
{
	struct rlimit before, none;
	struct exec_initial *f = NULL;
	struct way w;
	int r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = find(l, path, &f);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(r, known ? 0 : EMFILE);
	if (known) {
		assert_string_equal(exec_initial_op(f)->exec.called, path);
		assert_int_equal(apply(f, &w), 0);
		assert_string_equal(w.path, path);
		way_done(&w);
		assert_int_equal(exec_initial_op(f)->exec.argc, 2);
		assert_string_equal(exec_initial_op(f)->exec.argv[1], "one");
	}
	exec_initial_free(f);
}

static void look_once(struct exec_looker *l, const char *path)
{
	exec_initial_free(look_in(l, path, 0));
}

static struct exec_looker *root_looker(int *root)
{
	if (immutable_root[0] == '\0')
		skip();
	*root = open(immutable_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(*root >= 0);
	return exec_looker_new(*root, NULL);
}

static void pol_4_a_fixed_program_is_remembered(void **state)
{
	cleanup_fd int root = -1;
	struct exec_looker *l = root_looker(&root);

	expect_known(l, "/program", false);
	look_once(l, "/program");
	expect_known(l, "/program", true);
	expect_known(l, "/other", false);
	look_once(l, "//ours/./../program");
	expect_known(l, "//ours/./../program", false); /* ours can be put elsewhere */
	look_once(l, "//dir/./../program");
	expect_known(l, "//dir/./../program", true);
	look_once(l, "/../program"); /* is the same, but not for statx */
	expect_known(l, "/../program", false);
	look_once(l, "/script"); /* hangs on two files */
	expect_known(l, "/script", false);
	look_once(l, "/ours/good");
	expect_known(l, "/ours/good", false);
	look_once(l, "/link");
	expect_known(l, "/link", true);
	look_once(l, "/absolute"); /* this one needs a descriptor to be looked at */
	expect_known(l, "/absolute", false);
	exec_looker_free(l);
}

static void expect_forgotten(struct exec_looker *l, const char *change)
{
	look_once(l, "/program");
	expect_known(l, "/program", true);
	as_root(change);
	expect_known(l, "/program", false);
}

static void pol_4_a_program_that_has_changed_is_forgotten(void **state)
{
	cleanup_fd int root = -1;
	struct exec_looker *l = root_looker(&root);
	struct exec_initial *f;

	expect_forgotten(l, "cp -p program copy; mv copy program"); /* another file */
	expect_forgotten(l, "chmod 0711 program; chmod 0755 program");
	expect_forgotten(l, "printf x >> program");
	look_once(l, "/program");
	as_root("chmod 0644 program");
	look_in(l, "/program", EACCES);
	as_root("chmod 0755 program");
	/* By a link: it leads elsewhere. */
	for (int i = 0; i < 2; i++) {
		static const char *const link[] = {"/link", "/absolute"};

		look_once(l, link[i]);
		f = look_in(l, link[i], 0);
		assert_true(kit_ends(exec_initial_op(f)->exec.path, "/program"));
		exec_initial_free(f);
		as_root("ln -sfn other link; ln -sfn /other absolute");
		f = look_in(l, link[i], 0);
		assert_true(kit_ends(exec_initial_op(f)->exec.path, "/other"));
		exec_initial_free(f);
		as_root("ln -sfn program link; ln -sfn /program absolute");
	}
	as_root("rm program");
	look_in(l, "/program", ENOENT);
	as_root("cp other program");
	exec_looker_free(l);
}

/* Names that share a place: the later one has it. */
static void pol_4_few_programs_are_remembered(void **state)
{
	cleanup_fd int root = -1;
	struct exec_looker *l = root_looker(&root);
	char path[80] = "/program";

	look_once(l, path);
	for (int i = 0; i < 2000; i++) {
		snprintf(path, sizeof(path), "/%.*s/program", 1 + i % 60,
			 "./././././././././././././././././././././././././././././././");
		look_once(l, path);
	}
	look_once(l, "/program");
	expect_known(l, "/program", true);
	exec_looker_free(l);
}

/* ---- the helper ---- */

static void serve(int sock)
{
	char line[256];
	ssize_t n;

	if (chdir(immutable_root) < 0)
		_exit(1);
	while ((n = read(sock, line, sizeof(line) - 1)) > 0) {
		char answer;

		line[n] = '\0';
		answer = (char)(system(line) != 0);
		if (write(sock, &answer, 1) != 1)
			_exit(1);
	}
	if (chdir("/") == 0) {
		cleanup_free char *clean = mem_printf("rm -rf %s", immutable_root);

		_exit(system(clean));
	}
	_exit(1);
}

static int prepare(void **state)
{
	int sock[2];

	if (geteuid() != 0) {
		immutable_root[0] = '\0';
	} else {
		if (mkdtemp(immutable_root) == NULL || chmod(immutable_root, 0755) < 0 ||
		    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
			return -1;
		if (fork() == 0) {
			close(sock[0]);
			serve(sock[1]);
		}
		close(sock[1]);
		helper = sock[0];
		as_root("cp /usr/bin/true program; cp /usr/bin/true other; ln -s program link; ln "
			"-s /program absolute;"
			"printf '#!/program\\n' >script; chmod 755 script;"
			"mkdir dir ours; cp other ours/good; chown -R 1000:1000 ours");
	}
	if (kit_become_user() < 0 || kit_prepare(state) < 0)
		return -1;
	kit_open_gate(kit_record, "  - {name: no, commands: [evil], decision: deny}\n");
	return 0;
}

static int clean(void **state)
{
	if (helper >= 0)
		close(helper);
	kit_close_gate();
	return kit_clean(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_what_nobody_can_change_is_executed_by_its_path),
		cmocka_unit_test(pol_4_what_can_change_is_executed_by_its_descriptor),
		cmocka_unit_test(pol_4_a_script_that_can_change_is_executed_by_its_interpreter),
		cmocka_unit_test(pol_4_what_a_loader_loads_must_not_change),
		cmocka_unit_test(pol_4_a_fixed_program_is_remembered),
		cmocka_unit_test(pol_4_a_program_that_has_changed_is_forgotten),
		cmocka_unit_test(pol_4_few_programs_are_remembered),
	};

	return cmocka_run_group_tests(tests, prepare, clean);
}
