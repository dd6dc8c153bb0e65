// SPDX-License-Identifier: Apache-2.0
/* Real shells run each script twice: alone, and with our text before it. What users see must be the
 * same; what the capture program saw is compared with the row. The capture program of this test
 * appends PWD and $FOO to a file; in the shell's place it ends with the shell's status. */
#include "base/fdio.h"
#include "base/mem.h"
#include "shell/shell.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static char dir[64];
static char program[96], placed[96], seen_path[96];

static int write_program(char path[96], const char *name, const char *line)
{
	cleanup_free char *text =
		mem_printf("#!/bin/sh\necho \"%s\" >>'%s'\nexit ${1-0}\n", line, seen_path);
	cleanup_fd int fd = -1;

	snprintf(path, 96, "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	return fd < 0 || fdio_write_all(fd, text, strlen(text)) < 0;
}

static int make_dir(void **state)
{
	strcpy(dir, "/tmp/agentsh-shell-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(seen_path, sizeof(seen_path), "%s/seen", dir);
	return write_program(program, "capture", "$PWD ${FOO-unset}") ||
	       write_program(placed, "placed", "${1-child}");
}

static int remove_dir(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf '%s'", dir);

	return system(command);
}

struct seen {
	int status;
	struct buf out, err;
};

static void seen_done(struct seen *s)
{
	buf_done(&s->out);
	buf_done(&s->err);
}

static void load(const char *name, struct buf *out)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);

	buf_adds(out, "");
	fdio_load_path(path, 1 << 20, out, NULL);
	unlink(path);
}

static _Noreturn void become(const char *shell, struct strv *argv, struct strv *env)
{
	static const char *const name[] = {"in", "out", "err"};

	for (int i = 0; i < 3; i++) {
		cleanup_free char *path = mem_printf("%s/%s", dir, name[i]);
		const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		if (dup2(fd, i) < 0)
			_exit(99);
	}
	if (chdir("/usr") == 0)
		execve(shell, argv->v, env->v);
	_exit(99);
}

static void run(const char *shell, struct strv *argv, struct strv *env, struct seen *s)
{
	const pid_t pid = fork();

	if (pid == 0)
		become(shell, argv, env);
	assert_int_equal(waitpid(pid, &s->status, 0), pid);
	load("out", &s->out);
	load("err", &s->err);
}

static void run_alone(const char *shell, const char *script, struct seen *s)
{
	const char *slash = strrchr(shell, '/');
	struct strv argv = {0}, env = {0};

	strv_add(&argv, slash + 1);
	strv_add(&argv, "-c");
	strv_add(&argv, script);
	strv_add(&env, "PATH=/usr/bin:/bin");
	run(shell, &argv, &env, s);
	strv_done(&argv);
	strv_done(&env);
}

static void run_with(const char *shell, const char *script, uint32_t last, const char *capture,
		     struct seen *s)
{
	const struct shell_ask ask = {shell, NULL, script, capture, last};
	struct strv argv = {0}, env = {0};

	strv_add(&env, "PATH=/usr/bin:/bin");
	shell_argv(&ask, &argv, &env);
	run(shell, &argv, &env, s);
	strv_done(&argv);
	strv_done(&env);
}

static void run_with_ours(const char *shell, const char *script, uint32_t last, struct seen *s)
{
	run_with(shell, script, last, program, s);
}

/* What may differ on stderr: the shell's own words about where an error is. */
enum { SAME = 0, OTHER_WORDS = 1 };

struct row {
	const char *script;
	const char *captures; /* lines, "/usr unset\n" for one without a change */
	int words;
};
#define PLAIN "/usr unset\n"

static void check(const char *shell, const struct row *r)
{
	struct seen alone = {0}, ours = {0};
	cleanup_buf struct buf captures = {0};

	run_alone(shell, r->script, &alone);
	run_with_ours(shell, r->script, 0, &ours);
	load("seen", &captures);
	if (alone.status != ours.status || strcmp(alone.out.data, ours.out.data) != 0 ||
	    (r->words == SAME && strcmp(alone.err.data, ours.err.data) != 0))
		fail_msg("%s: %s\nalone: %#x '%s' '%s'\nours:  %#x '%s' '%s'", shell, r->script,
			 (unsigned)alone.status, alone.out.data, alone.err.data,
			 (unsigned)ours.status, ours.out.data, ours.err.data);
	if (strcmp(captures.data, r->captures) != 0)
		fail_msg("%s: %s\ncaptured '%s', expected '%s'", shell, r->script, captures.data,
			 r->captures);
	seen_done(&alone);
	seen_done(&ours);
}

static const struct row for_all[] = {
	{"export FOO=1; cd /", "/ 1\n", SAME},
	{"FOO=1; cd /", "/ unset\n", SAME},
	{"exit 3", PLAIN, SAME},
	{"", PLAIN, SAME},
	{"# only this", PLAIN, SAME},
	{"#!/bin/sh\nexport FOO=2", "/usr 2\n", SAME},
	{"cd / # comment", "/ unset\n", SAME},
	{"cat <<X\nheredoc\nX", PLAIN, SAME},
	{"cat <<X\nno end", PLAIN, OTHER_WORDS},
	{"echo x\\", PLAIN, SAME},
	{"export FOO=a\nif then", "/usr a\n", OTHER_WORDS},
	{"echo $#-$*; set -- a b; echo $#", PLAIN, SAME},
	{"set -e; cd /; false; echo no", "/ unset\n", SAME},
	{"set -u; export FOO=2; echo $NOPE; echo no", "/usr 2\n", OTHER_WORDS},
	{"unset PATH; export FOO=3", "/usr 3\n", SAME},
	{"IFS=0123456789; set -f; exit 12", PLAIN, SAME},
	{"IFS=_a; trap 'echo x' EXIT; export FOO=1", "/usr 1\n/usr 1\n", SAME},
	{"exec true", "", SAME},
	{"kill -9 $$", "", SAME},
	{"env | grep -c __agentsh", PLAIN, SAME},
	{"true\ntrue; (exit 7)", PLAIN, SAME},
	{"f() { export FOO=1; exit 9; }; f; export FOO=2", "/usr 1\n", SAME},
	{"export FOO=1; (exit 3); exit", "/usr 1\n", SAME},
	{"set -e; f() { false; }; export FOO=1; f; export FOO=2", "/usr 1\n", SAME},
	{"for i in 5 6; do exit $i; done; export FOO=no", PLAIN, SAME},
	{"echo a | { read x; exit 4; }", PLAIN, SAME},
	{"kill -KILL $$ & wait; exit 3", "", SAME},
	/* traps */
	{"trap 'echo bye $?' EXIT; exit 4", PLAIN PLAIN, SAME},
	{"trap 'echo bye $?; exit 9' EXIT; cd /; exit 4", "/ unset\n", SAME},
	{"trap 'echo bye; exit' EXIT; exit 5", PLAIN, SAME},
	{"trap 'cd /; export FOO=x' EXIT; (exit 6)", PLAIN "/ x\n", SAME},
	{"trap 'echo a' EXIT; trap - EXIT; echo end", PLAIN, SAME},
	{"trap 'echo a' 0; trap; trap '' EXIT; trap", PLAIN, SAME},
	{"trap 'echo a' EXIT; trap 0; trap", PLAIN, SAME},
	{"trap 'echo a' EXIT; trap EXIT; trap", PLAIN, SAME},
	{"trap 'echo a' EXIT INT TERM; trap; trap - INT EXIT; trap", PLAIN, SAME},
	{"trap 'echo y' 0 1 2; trap 0 1; trap", PLAIN, SAME},
	{"trap \"echo 'it''s'\" EXIT; trap", PLAIN PLAIN, SAME},
	{"trap 'echo \"a\nb\"' EXIT; trap", PLAIN PLAIN, SAME},
	{"f() { trap 'echo bye' EXIT; trap 'echo t' TERM; }; f; kill -TERM $$; trap", PLAIN PLAIN,
	 SAME},
	{"(trap 'echo sub' EXIT; echo in); (exit 2)", PLAIN, SAME},
	{"trap 'echo main' EXIT; (trap 'echo sub' EXIT; echo in); echo | { trap 'echo p' EXIT; "
	 "cat; }; (exit 2)",
	 PLAIN PLAIN, SAME},
	{"set -e; trap 'echo bye $?; false; echo no' EXIT; false", PLAIN, SAME},
	{"set -eu; trap 'echo bye $?' EXIT; false", PLAIN PLAIN, SAME},
	{"trap -- 'echo x' EXIT; trap -- - EXIT; trap --; echo $?", PLAIN, SAME},
	{"trap 'echo got; exit 7' TERM; kill $$; echo no", PLAIN, SAME},
	{"trap 'echo bye' EXIT; exec echo gone", "", SAME},
	{"trap '# only a comment' EXIT; exit 3", PLAIN PLAIN, SAME},
	{"trap 'echo bye; trap - EXIT; exit 4' EXIT", PLAIN, SAME},
	{"trap 'trap \"echo second\" EXIT; echo first' EXIT", PLAIN PLAIN, SAME},
	{"eval 'trap \"echo e\" EXIT'", PLAIN PLAIN, SAME},
	{"set -a; trap 'echo x' EXIT; FOO=all", "/usr all\n/usr all\n", SAME},
	{"set -x; true", PLAIN, SAME},
	{"trap '' INT; kill -INT $$; trap - INT; echo on", PLAIN, SAME},
	{"trap 'x' NOSUCH 2>/dev/null; echo $?", PLAIN, SAME},
	/* Past our `trap`: the script's handler is the only one, and the old state stands. */
	{"command trap 'echo own' EXIT; export FOO=9", "", SAME},
};

static const struct row for_bash[] = {
	{"echo 'open", "", OTHER_WORDS},
	{"echo $LINENO\necho $LINENO; nosuch", PLAIN, SAME},
	{"if then", "", OTHER_WORDS},
	{"kill -TERM $$", PLAIN, SAME},
	{"kill -INT $$; echo no", PLAIN, SAME},
	{"kill -HUP $$; exit 3", PLAIN, SAME},
	{"kill -XCPU $$", PLAIN, SAME},
	{"sh -c 'kill -INT $$ $PPID'; echo no", PLAIN, SAME},
	{"exit $(kill -TERM $$; echo 3)", PLAIN, SAME},
	{"exec() { echo mine; }; shopt() { echo mine; }; exit 3", PLAIN, SAME},
	{"exit() { echo mine; }; exit 3; exit", PLAIN, SAME},
	{"exit() { builtin exit 7; }; exit 5", PLAIN, SAME},
	{"set -o posix; export FOO=1; exit 3", "/usr 1\n", SAME},
	{"exit 300", PLAIN, SAME},
	{"exit nonsense", PLAIN, SAME},
	{"true\nexit 1 2\nexport FOO=on", PLAIN, SAME},
	{"true &&", "", OTHER_WORDS},
	{"true |\n", "", OTHER_WORDS},
	{"export FOO=1\necho a |&", "/usr 1\n", OTHER_WORDS},
	{"export FOO=1\ntrue && # then", "/usr 1\n", OTHER_WORDS},
	{"export FOO=1\nfalse ||\n# one\n# two\n", "/usr 1\n", OTHER_WORDS},
	{"f()", "", OTHER_WORDS},
	{"f( )\n\n", "", OTHER_WORDS},
	{"echo 'open\n", "", OTHER_WORDS},
	{"if true; then echo a", "", OTHER_WORDS},
	{"cat <<X\nX\nexit 3", PLAIN, SAME},
	{"x=$(exit 3)", PLAIN, SAME},
	{"echo \\\n", PLAIN, SAME},
	{"shopt -so xtrace; exit 3", PLAIN, SAME},
	{"if true; then set -x; fi; true", PLAIN, SAME},
	{"\\trap 'echo own' EXIT; FOO=1 . /dev/null; export FOO=2", "/usr 2\n/usr 2\n", SAME},
	{"t=trap; $t 'echo own' EXIT; export FOO=9", "/usr 9\n/usr 9\n", SAME},
	{"t''rap 'echo own' EXIT; export FOO=9", "/usr 9\n/usr 9\n", SAME},
	{"2>&1 trap 'echo own' EXIT; export FOO=9", "/usr 9\n/usr 9\n", SAME},
	{"> /dev/null trap 'echo own' EXIT; export FOO=9", "/usr 9\n/usr 9\n", SAME},
	{"trap 'echo a' exit; trap -p EXIT; x=$(trap -p); echo \"$x\"; trap 'x' SIGEXIT; trap - "
	 "exit",
	 PLAIN, OTHER_WORDS},
	{"trap -l | head -1; trap 'echo x'; echo $?", PLAIN, SAME},
	{"set -x; trap 'echo bye' TERM; trap -- '' INT; true", PLAIN, SAME},
	{"trap 'echo D' DEBUG; true; trap - DEBUG; true; trap -p", PLAIN, SAME},
	{"trap 'echo \"D:$LINENO:$BASH_COMMAND\"' DEBUG\ntrue\ntrap -p\nf() { :; }\nf\ntrap - "
	 "DEBUG",
	 PLAIN, SAME},
	{"trap 'last=$cur; cur=$BASH_COMMAND' DEBUG; trap 'echo \"$last: $?\"' EXIT; set -e; false",
	 PLAIN PLAIN, SAME},
	{"g() { trap 'echo R' RETURN; echo in; }; g; g; trap -p", PLAIN, SAME},
	{"g() { trap 'echo R; trap - RETURN' RETURN; echo in; }; g; h() { :; }; h; trap -p", PLAIN,
	 SAME},
	{"trap 'echo E' ERR; false; trap -p; trap - ERR; false; trap -p; echo end", PLAIN, SAME},
	{"trap 'echo E $?' ERR; trap 'echo F' ERR; false; trap '' ERR; false; trap -p ERR", PLAIN,
	 SAME},
	{"set -E; trap 'echo E' ERR; f() { false; true; }; f; trap -p ERR; trap - ERR; false",
	 PLAIN, SAME},
	{"set -eE; trap 'echo err $LINENO $?' ERR\nf() {\n false\n}\nf", PLAIN, SAME},
	{"IFS=x; trap 'echo E' ERR; trap -p INT ERR; trap 'echo F' EXIT; trap -p EXIT INT; trap",
	 PLAIN PLAIN, SAME},
	{"trap 'return 3' EXIT; true", PLAIN PLAIN, SAME},
	{"shopt -s extglob nullglob; readonly FOO=ro; export FOO", "/usr ro\n", SAME},
	{". /dev/stdin <<<'trap \"echo src\" EXIT'", PLAIN PLAIN, SAME},
	{"shopt -s lastpipe; echo z | { trap 'echo lp' EXIT; }", PLAIN PLAIN, SAME},
	{"set -o posix; export FOO=9", "/usr 9\n", SAME},
	{"trap 'echo own' EXIT; set -o posix; export FOO=9", "/usr 9\n/usr 9\n", SAME},
	{"set -o posix; trap 'echo own' EXIT; export FOO=9", "", SAME},
	{"builtin trap 'echo own' EXIT; export FOO=9", "", SAME},
	{"trap \"echo 'a'\\''b'; echo \\$((1+1))\" EXIT ERR DEBUG; trap -p; trap - DEBUG ERR",
	 PLAIN PLAIN, SAME},
};

static const struct row for_dash[] = {
	{"echo 'open", "", SAME},
	{"if then", "", SAME},
	{"true\nnosuch\necho a", PLAIN, SAME},
	{"kill -TERM $$", "", SAME},
	{"kill -INT $$; echo no", "", SAME},
	{"trap -p; echo no", PLAIN, SAME},
	{"alias x='echo y'\nx", PLAIN, SAME},
	{"trap 'echo f' 0; x=$(trap); echo \"x=$x\"", PLAIN PLAIN, SAME},
};

static void check_all(const char *shell, const struct row *rows, size_t n)
{
	if (access(shell, X_OK) < 0)
		skip(); /* this shell is not installed */
	for (size_t i = 0; i < n; i++)
		check(shell, &rows[i]);
}

/* STA-3: a script in bash does as it would alone, and its state is captured. */
static void sta_3_bash_is_as_it_was(void **state)
{
	check_all("/bin/bash", for_all, ARRAY_LEN(for_all));
	check_all("/bin/bash", for_bash, ARRAY_LEN(for_bash));
}

static void sta_3_dash_is_as_it_was(void **state)
{
	check_all("/bin/dash", for_all, ARRAY_LEN(for_all));
	check_all("/bin/dash", for_dash, ARRAY_LEN(for_dash));
}

/* STA-3: where the end of the shell is certain, the program takes its place and ends with its
 * status; else it is a child. */
static void sta_3_the_program_takes_the_place_of_the_shell(void **state)
{
	static const struct {
		const char *shell, *script, *seen;
	} rows[] = {
		{"/bin/bash", "true", "0\n"},
		{"/bin/bash", "exit 3", "3\n"},
		{"/bin/bash", "f() { exit 4; }; f", "4\n"},
		{"/bin/bash", "cd /nope 2>/dev/null || exit; true", "1\n"},
		{"/bin/bash", "set -euo pipefail; ls . | cat; (exit 0) # trap", "0\n"},
		{"/bin/bash", "cat <<X\nX\n", "child\n"},
		{"/bin/bash", "sleep 0 & ", "0\n"},
		{"/bin/bash", "", "0\n"},
		{"/bin/bash", "set -e; false", "child\n"},
		{"/bin/bash", "kill -TERM $$", "child\n"},
		{"/bin/bash", "set -x; exit 3", "child\n"},
		{"/bin/bash", "true; . /dev/null; exit 3", "child\n"},
		{"/bin/bash", "eval exit 3", "child\n"},
		{"/bin/bash", "trap true EXIT; exit 3", "child\nchild\n"},
		{"/bin/dash", "exit 3", "child\n"},
		{"/bin/dash", "trap true EXIT; exit 3", "child\nchild\n"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf seen = {0};
		struct seen s = {0};

		if (access(rows[i].shell, X_OK) < 0)
			continue;
		run_with(rows[i].shell, rows[i].script, 0, placed, &s);
		load("seen", &seen);
		if (strcmp(seen.data, rows[i].seen) != 0)
			fail_msg("%s: %s: '%s'", rows[i].shell, rows[i].script, seen.data);
		seen_done(&s);
	}
}

/* STA-3: messages have the script's own line numbers. */
static void sta_3_line_numbers_are_the_scripts(void **state)
{
	static const struct {
		const char *shell, *message;
	} rows[] = {{"/bin/bash", "bash: line 3: nosuch: command not found\n"},
		    {"/bin/dash", "dash: 3: nosuch: not found\n"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct seen s = {0};

		if (access(rows[i].shell, X_OK) < 0)
			continue;
		run_with_ours(rows[i].shell, "true\n\nnosuch", 0, &s);
		assert_string_equal(s.err.data, rows[i].message);
		seen_done(&s);
	}
}

/* STA-3: `$?` of the command before is there, and does not end a script by itself. */
static void sta_3_the_last_status_is_visible(void **state)
{
	static const char *const shells[] = {"/bin/bash", "/bin/dash", "/bin/sh"};

	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		for (uint32_t last = 0; last < 256; last += 85) {
			cleanup_free char *want = mem_printf("%u\non\n", last);
			struct seen s = {0};

			if (access(shells[i], X_OK) < 0)
				continue;
			run_with_ours(shells[i], "echo $?; set -e; echo on", last, &s);
			assert_string_equal(s.out.data, want);
			assert_int_equal(s.status, 0);
			seen_done(&s);
		}
}

/* EXE-8: a script without a command does not end with the status of another. */
static void exe_8_a_script_without_a_command_succeeds(void **state)
{
	static const char *const shells[] = {"/bin/bash", "/bin/dash"};
	static const struct {
		const char *script;
		int status;
	} rows[] = {{"", 0},
		    {" \n\t", 0},
		    {"# a\n  # b\n", 0},
		    {"# a\n# false", 0},
		    {"#\n(exit $?)", 85},
		    {"x=1 # $?", 0}};

	for (size_t i = 0; i < 2 * ARRAY_LEN(rows); i++) {
		struct seen s = {0};

		if (access(shells[i % 2], X_OK) < 0)
			continue;
		run_with_ours(shells[i % 2], rows[i / 2].script, 85, &s);
		assert_int_equal(WEXITSTATUS(s.status), rows[i / 2].status);
		seen_done(&s);
	}
}

/* STA-5: a capture program that fails or is missing changes neither output nor status. */
static void sta_5_a_failing_capture_is_silent(void **state)
{
	static const char *const shells[] = {"/bin/bash", "/bin/dash"};
	static const char *const programs[] = {"/bin/false", "/no/such/program"};

	for (size_t i = 0; i < 4; i++) {
		const char *shell = shells[i % 2];
		const struct shell_ask ask = {shell, "zero",
					      "set -e; trap 'echo bye $?' EXIT; echo $0; exit 3",
					      programs[i / 2], 0};
		struct strv argv = {0}, env = {0};
		struct seen s = {0};

		if (access(shell, X_OK) < 0)
			continue;
		shell_argv(&ask, &argv, &env);
		run(shell, &argv, &env, &s);
		assert_string_equal(s.out.data, "zero\nbye 3\n");
		assert_string_equal(s.err.data, "");
		assert_int_equal(WEXITSTATUS(s.status), 3);
		seen_done(&s);
		strv_done(&argv);
		strv_done(&env);
	}
}

/* STA-5: a program that cannot take the shell's place changes neither output nor status. */
static void sta_5_a_place_that_is_not_taken_is_silent(void **state)
{
	static const char *const shells[] = {"/bin/bash", "/bin/dash"};
	static const char *const programs[] = {program, "/no/such/program"};

	for (size_t i = 0; i < 4; i++) {
		struct seen s = {0};

		if (access(shells[i % 2], X_OK) < 0)
			continue;
		/* The first program is there, and its environment is too large. */
		run_with(shells[i % 2],
			 "export BIG=$(head -c 200000 /dev/zero | tr '\\0' x); exit 3", 0,
			 programs[i / 2], &s);
		assert_string_equal(s.err.data, "");
		assert_int_equal(s.status, 3 << 8);
		seen_done(&s);
	}
}

/* STA-3: bash where there is one, else sh; what was asked for by name or path is not replaced. */
static void sta_3_the_shell_of_a_session(void **state)
{
	static const struct {
		const char *asked, *found;
	} rows[] = {{NULL, "/bin/sh"},	      {"", "/bin/sh"},	   {"bash", "/bin/sh"},
		    {"sh", "/bin/sh"},	      {"zsh", "/bin/zsh"}, {"/opt/x", "/opt/x"},
		    {"true", "/usr/bin/true"}};
	cleanup_free char *command = mem_printf("mkdir -p %s/root/bin %s/root/usr/bin; touch "
						"%s/root/bin/bash; cp /bin/true %s/root/usr/bin",
						dir, dir, dir, dir);
	cleanup_free char *root_path = mem_printf("%s/root", dir);
	cleanup_free char *bash = mem_printf("%s/root/bin/bash", dir);
	cleanup_fd int root = -1;

	assert_int_equal(system(command), 0);
	root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *found = shell_find(root, rows[i].asked);

		assert_string_equal(found, rows[i].found);
	}
	assert_int_equal(chmod(bash, 0755), 0);
	{
		cleanup_free char *found = shell_find(root, "bash");

		assert_string_equal(found, "/bin/bash");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_3_bash_is_as_it_was),
		cmocka_unit_test(sta_3_dash_is_as_it_was),
		cmocka_unit_test(sta_3_the_program_takes_the_place_of_the_shell),
		cmocka_unit_test(sta_3_line_numbers_are_the_scripts),
		cmocka_unit_test(sta_3_the_last_status_is_visible),
		cmocka_unit_test(exe_8_a_script_without_a_command_succeeds),
		cmocka_unit_test(sta_5_a_failing_capture_is_silent),
		cmocka_unit_test(sta_5_a_place_that_is_not_taken_is_silent),
		cmocka_unit_test(sta_3_the_shell_of_a_session),
	};

	return cmocka_run_group_tests_name("shell", tests, make_dir, remove_dir);
}
