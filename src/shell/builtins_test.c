// SPDX-License-Identifier: Apache-2.0
/* The builtins on a directory of the test's own as the session's root. */
#include "base/fdio.h"
#include "base/mem.h"
#include "shell/builtins.h"
#include "shell/session_root.h"
#include "shell/testkit/words_testkit.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

struct runtime {
	char path[64];
	int root;
	struct shell_memory m;
};

static const char passwd[] = "root:x:0:0::/root:/bin/sh\nother:x:1:1::/home/other:/bin/sh\n"
			     "short:x:1\nlast:x:2:2::/home/agent";

static int make_place(void **state)
{
	struct runtime *p = mem_new(struct runtime);
	struct strv env = {0};
	int fd;

	snprintf(p->path, sizeof(p->path), "/tmp/builtins.XXXXXX");
	if (mkdtemp(p->path) == NULL)
		return -1;
	p->root = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	mkdirat(p->root, "work", 0755);
	mkdirat(p->root, "work/sub", 0755);
	mkdirat(p->root, "home", 0755);
	mkdirat(p->root, "home/agent", 0755);
	mkdirat(p->root, "home/other", 0755);
	mkdirat(p->root, "etc", 0755);
	if (symlinkat("/work/sub", p->root, "link") < 0 ||
	    symlinkat("/../../../../etc", p->root, "out") < 0)
		return -1;
	fd = openat(p->root, "etc/passwd", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	fdio_write_all(fd, passwd, strlen(passwd));
	close(fd);
	strv_add(&env, "PATH=/bin");
	shell_memory_init(&p->m, &env, "/work", 4096);
	strv_done(&env);
	*state = p;
	return 0;
}

static int remove_place(void **state)
{
	struct runtime *p = *state;
	cleanup_free char *command = mem_printf("rm -rf '%s'", p->path);
	const int r = system(command);

	close(p->root);
	shell_memory_done(&p->m);
	free(p);
	return r;
}

static void expect(struct runtime *p, const char *line, int status, const char *out,
		   const char *err)
{
	struct strv argv = {0};
	struct builtin_call c = {.memory = &p->m,
				 .root_fd = p->root,
				 .cwd = p->m.cwd,
				 .session_id = "s-1",
				 .argv = &argv};
	cleanup_free char *cwd = mem_strdup(p->m.cwd);
	int got;

	c.cwd = cwd;
	words_of(line, &argv);
	assert_true(builtin_is(&argv));
	buf_adds(&c.out, "");
	buf_adds(&c.err, "");
	got = builtin_run(&c);
	if (got != status || strcmp(c.out.data, out) != 0 || strcmp(c.err.data, err) != 0)
		fail_msg("%s: %d '%s' '%s'", line, got, c.out.data, c.err.data);
	buf_done(&c.out);
	buf_done(&c.err);
	strv_done(&argv);
}

static void sta_1_which_words_are_builtins(void **state)
{
	static const struct {
		const char *line;
		bool is;
	} rows[] = {{"cd x", true},  {"env", true},	  {"env X=1 true", false},
		    {"ls", false},   {"/bin/pwd", false}, {"popd", true},
		    {"dirs", false}, {"unalias", true}};
	struct strv none = {0};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct strv argv = {0};

		words_of(rows[i].line, &argv);
		assert_int_equal(builtin_is(&argv), rows[i].is);
		strv_done(&argv);
	}
	assert_false(builtin_is(&none));
}

/* STA-2 */
static void sta_2_cd_as_a_shell(void **state)
{
	struct runtime *p = *state;

	expect(p, "cd sub", 0, "", "");
	assert_string_equal(p->m.cwd, "/work/sub");
	assert_string_equal(p->m.oldpwd, "/work");
	expect(p, "cd -", 0, "/work\n", "");
	expect(p, "cd -", 0, "/work/sub\n", "");
	expect(p, "cd ../..//./home", 0, "", "");
	assert_string_equal(p->m.cwd, "/home");
	expect(p, "cd", 0, "", "");
	assert_string_equal(p->m.cwd, "/home/agent");
	expect(p, "cd ~other", 0, "", "");
	assert_string_equal(p->m.cwd, "/home/other");
	expect(p, "cd ~last/.", 0, "", "");
	assert_string_equal(p->m.cwd, "/home/agent");
	expect(p, "cd ~/../other", 0, "", "");
	assert_string_equal(p->m.cwd, "/home/other");
	expect(p, "cd -- /", 0, "", "");
	assert_string_equal(p->m.cwd, "/");
	expect(p, "cd ../../..", 0, "", "");
	assert_string_equal(p->m.cwd, "/");
	expect(p, "cd ''", 0, "", "");
	assert_string_equal(p->m.cwd, "/");
}

static void sta_2_cd_messages(void **state)
{
	struct runtime *p = *state;

	expect(p, "cd -", 1, "", "cd: OLDPWD not set\n");
	expect(p, "cd nowhere", 1, "", "cd: nowhere: No such file or directory\n");
	expect(p, "cd nowhere/..", 1, "", "cd: nowhere/..: No such file or directory\n");
	expect(p, "cd /etc/passwd", 1, "", "cd: /etc/passwd: Not a directory\n");
	expect(p, "cd a b", 1, "", "cd: too many arguments\n");
	expect(p, "cd -L -x", 2, "", "cd: -x: invalid option\n");
	expect(p, "cd ~nobody", 1, "", "cd: ~nobody: No such file or directory\n");
	expect(p, "cd ~short", 1, "", "cd: ~short: No such file or directory\n");
	assert_string_equal(p->m.cwd, "/work");
	assert_null(p->m.oldpwd);
	if (geteuid() != 0) {
		mkdirat(p->root, "shut", 0);
		expect(p, "cd /shut", 1, "", "cd: /shut: Permission denied\n");
	}
}

/* STA-2: links stay visible, unless the physical way is asked for; none leads out. */
static void sta_2_links_and_the_root(void **state)
{
	struct runtime *p = *state;

	expect(p, "cd /link", 0, "", "");
	expect(p, "pwd", 0, "/link\n", "");
	expect(p, "cd ..", 0, "", "");
	assert_string_equal(p->m.cwd, "/");
	expect(p, "cd /out", 0, "", "");
	assert_int_equal(root_dir(p->root, "/out"), 0);
	assert_int_equal(root_dir(p->root, "/out/passwd"), ENOTDIR);
	expect(p, "pwd -Q", 2, "", "pwd: -Q: invalid option\n");
}

static void sta_1_export_and_unset(void **state)
{
	struct runtime *p = *state;

	expect(p, "export A=1 'B=two words' PATH", 0, "", "");
	assert_string_equal(strv_env_get(&p->m.env, "B"), "two words");
	expect(p, "export 1x=2 C=3 a-b", 1, "",
	       "export: `1x=2': not a valid identifier\nexport: `a-b': not a valid identifier\n");
	assert_string_equal(strv_env_get(&p->m.env, "C"), "3");
	expect(p, "export LD_PRELOAD=/x", 0, "", "");
	assert_null(strv_env_get(&p->m.env, "LD_PRELOAD"));
	expect(p, "export -n C", 0, "", "");
	assert_null(strv_env_get(&p->m.env, "C"));
	expect(p, "export -x", 2, "", "export: -x: invalid option\n");
	expect(p, "export 'Q=a\"b$c\\`'", 0, "", "");
	expect(p, "unset A B nosuch", 0, "", "");
	expect(p, "unset 1x", 1, "", "unset: `1x': not a valid identifier\n");
	expect(p, "unset -f PATH", 0, "", "");
	expect(p, "export -p", 0,
	       "declare -x AGENTSH_IN_SESSION=\"1\"\ndeclare -x AGENTSH_SESSION_ID=\"s-1\"\n"
	       "declare -x HOME=\"/home/agent\"\ndeclare -x PATH=\"/bin\"\ndeclare -x "
	       "PWD=\"/work\"\n"
	       "declare -x Q=\"a\\\"b\\$c\\\\\\`\"\n",
	       "");
	expect(p, "unset -v Q", 0, "", "");
	expect(p, "env", 0,
	       "AGENTSH_IN_SESSION=1\nAGENTSH_SESSION_ID=s-1\nHOME=/home/agent\nPATH=/bin\nPWD=/"
	       "work\n",
	       "");
	p->m.env_max = 20;
	expect(p, "export LONG=12345678901234567890", 1, "",
	       "export: LONG: the environment would have more than 20 bytes or 2048 variables\n");
}

static void sta_1_aliases(void **state)
{
	struct runtime *p = *state;

	expect(p, "alias", 0, "", "");
	expect(p, "alias \"z=it's\\\"\\\"\" a='ls -l'", 1, "", "alias: a quote does not close\n");
	expect(p, "alias 'z=e \"x\"' \"a=ls -l\"", 0, "", "");
	expect(p, "alias", 0, "alias a='ls -l'\nalias z='e \"x\"'\n", "");
	expect(p, "alias a nosuch", 1, "alias a='ls -l'\n", "alias: nosuch: not found\n");
	expect(p, "alias \"q=e \\\"'\\\"\"", 0, "", "");
	expect(p, "alias -p q", 0,
	       "alias a='ls -l'\nalias q='e \"'\\''\"'\nalias z='e \"x\"'\nalias q='e \"'\\''\"'\n",
	       "");
	expect(p, "unalias a nosuch", 1, "", "unalias: nosuch: not found\n");
	expect(p, "unalias", 2, "", "unalias: usage: unalias [-a] name [name ...]\n");
	expect(p, "unalias -a", 0, "", "");
	expect(p, "alias", 0, "", "");
}

static void sta_1_history(void **state)
{
	struct runtime *p = *state;

	expect(p, "history", 0, "", "");
	shell_memory_remember(&p->m, "one");
	shell_memory_remember(&p->m, "two");
	shell_memory_remember(&p->m, "three");
	expect(p, "history", 0, "    1  one\n    2  two\n    3  three\n", "");
	expect(p, "history 2", 0, "    2  two\n    3  three\n", "");
	expect(p, "history 3", 0, "    1  one\n    2  two\n    3  three\n", "");
	expect(p, "history 0", 0, "", "");
	expect(p, "history x", 1, "", "history: x: numeric argument required\n");
	expect(p, "history 1 2", 1, "", "history: too many arguments\n");
	expect(p, "history -c", 0, "", "");
	expect(p, "history", 0, "", "");
}

static void push_root(struct runtime *p)
{
	cleanup_buf struct buf line = {0};

	buf_adds(&line, "/");
	for (size_t i = p->m.dirs.n; i > 0; i--)
		buf_addf(&line, " %s", i == p->m.dirs.n ? p->m.cwd : p->m.dirs.v[i]);
	buf_addf(&line, " %s\n", p->m.dirs.v[0]);
	expect(p, "pushd /", 0, line.data, "");
}

static void sta_1_the_directory_stack(void **state)
{
	struct runtime *p = *state;

	expect(p, "pushd", 1, "", "pushd: no other directory\n");
	expect(p, "popd", 1, "", "popd: directory stack empty\n");
	expect(p, "pushd sub", 0, "/work/sub /work\n", "");
	assert_string_equal(p->m.oldpwd, "/work");
	expect(p, "pushd ~", 0, "~ /work/sub /work\n", "");
	expect(p, "pushd", 0, "/work/sub ~ /work\n", "");
	expect(p, "pushd +2", 0, "/work /work/sub ~\n", "");
	expect(p, "pushd -1", 0, "/work/sub ~ /work\n", "");
	expect(p, "pushd +3", 1, "", "pushd: +3: No such file or directory\n");
	expect(p, "popd +1", 0, "/work/sub /work\n", "");
	expect(p, "popd -0", 0, "/work/sub\n", "");
	expect(p, "popd", 1, "", "popd: directory stack empty\n");
	expect(p, "pushd /home", 0, "/home /work/sub\n", "");
	expect(p, "popd", 0, "/work/sub\n", "");
	assert_string_equal(p->m.cwd, "/work/sub");
	expect(p, "pushd nowhere", 1, "", "pushd: nowhere: No such file or directory\n");
	expect(p, "pushd a b", 1, "", "pushd: too many arguments\n");
	expect(p, "pushd /work", 0, "/work /work/sub\n", "");
	assert_int_equal(unlinkat(p->root, "work/sub", AT_REMOVEDIR), 0);
	expect(p, "popd", 1, "", "popd: /work/sub: No such file or directory\n");
	for (int i = 0; i < 9; i++)
		push_root(p);
	expect(p, "popd +9", 0, "/ / / / / / / / / /work/sub\n", "");
	expect(p, "popd +9", 0, "/ / / / / / / / /\n", "");
	expect(p, "popd +9", 1, "", "popd: +9: invalid argument\n");
	expect(p, "popd x", 1, "", "popd: x: invalid argument\n");
	assert_string_equal(p->m.cwd, "/");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_1_which_words_are_builtins),
		TEST(sta_2_cd_as_a_shell),
		TEST(sta_2_cd_messages),
		TEST(sta_2_links_and_the_root),
		TEST(sta_1_export_and_unset),
		TEST(sta_1_aliases),
		TEST(sta_1_history),
		TEST(sta_1_the_directory_stack),
	};

	return cmocka_run_group_tests_name("builtins", tests, NULL, NULL);
}
