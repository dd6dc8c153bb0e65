// SPDX-License-Identifier: Apache-2.0
/* Commands, output and shell state through the real warden, init and leader. */
#include "base/line.h"
#include "command/testkit/warden_testkit.h"

/* EXE-1: output, exit code, totals and times of a plain command; its events are in the ring. */
static void exe_1_a_command_runs(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c =
		wkit_run(k, "sh", "-c", "echo out; echo a; echo err >&2; sleep 0.1; exit 3");
	cleanup_free char *out = wkit_text(&c, 0);
	cleanup_free char *err = wkit_text(&c, 1);

	assert_string_equal(out, "out\na\n");
	assert_string_equal(err, "err\n");
	assert_int_equal(c.result.exit_code, 3);
	assert_int_equal(c.result.signal, 0);
	assert_null(c.result.error_code);
	assert_null(c.result.capture);
	assert_int_equal(c.result.stdout_bytes, 6);
	assert_int_equal(c.result.stdout_lines, 2);
	assert_int_equal(c.result.stderr_lines, 1);
	assert_int_equal(c.result.stdout_kept, 6);
	assert_string_equal(c.result.cwd, "/workspace");
	assert_true(c.result.duration_us > 0 && c.result.duration_us < 10000000);
	assert_true(c.result.finished_us >= c.result.started_us);
	assert_true(c.result.maxrss_kb > 0);
	wkit_drain(k);
	assert_true(k->pid > 1);
	assert_string_equal(k->events, "command_started cmd-1 -1;command_finished cmd-1 3;");
	assert_int_equal(c.result.ring_end, journal_reader_pos(k->reader));
	wkit_done(&c);
}

/* EVT-1: events show the command as it could be typed, cut where it is long. */
static void evt_1_events_show_the_command(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_run(k, "pwd", "a b", "it's", "", "-x=1", "$y");
	cleanup_free char *longer = mem_alloc(5000);

	wkit_drain(k);
	assert_string_equal(k->line, "pwd 'a b' 'it'\\''s' '' -x=1 '$y'");
	wkit_done(&c);
	memset(longer, 'x', 4999);
	c = wkit_run(k, "pwd", longer, longer);
	wkit_drain(k);
	assert_true(strlen(k->line) >= 400 && strlen(k->line) <= LINE_BYTES + 3);
	assert_memory_equal(k->line, "pwd xxxx", 8);
	wkit_done(&c);
	wkit_expect(k, "true # a script", "", 0);
	wkit_drain(k);
	assert_string_equal(k->line, "true # a script");
}

/* EXE-8 */
static void exe_8_codes_are_a_shells(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_run(k, "no-such-program");

	assert_int_equal(c.result.exit_code, 127);
	assert_string_equal(c.result.error_code, "E_COMMAND_NOT_FOUND");
	assert_string_equal(c.result.error_path, "no-such-program");
	wkit_done(&c);
	c = wkit_run(k, "/etc/passwd");
	assert_int_equal(c.result.exit_code, 126);
	assert_string_equal(c.result.error_code, "E_COMMAND_NOT_EXECUTABLE");
	wkit_done(&c);
	c = wkit_run(k, "sh", "-c", "kill -SEGV $$");
	assert_int_equal(c.result.exit_code, 128 + SIGSEGV);
	assert_int_equal(c.result.signal, SIGSEGV);
	assert_string_equal(c.result.error_code, "E_COMMAND_KILLED");
	wkit_done(&c);
	wkit_expect(k, "exit 255", "", 255);
	wkit_drain(k);
	assert_non_null(strstr(k->events, "command_killed cmd-3 139;"));
}

/* EXE-4: stdin, environment, directory and argv0 of one request, which the next does not see. */
static void exe_4_a_request_has_its_own_things(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_command(k);
	cleanup_free char *out = NULL;

	c.ask.script = mem_strdup("cat; echo \" $FOO $PWD $0 ${LD_PRELOAD-none}\"; export BAR=1");
	c.ask.cwd = mem_strdup("/tmp");
	c.ask.argv0 = mem_strdup("named");
	strv_add(&c.ask.env, "FOO=bar");
	strv_add(&c.ask.env, "LD_PRELOAD=/evil.so");
	bytes_set(&c.ask.stdin_data, "input", 5);
	wkit_send(k, &c);
	wkit_wait(k, &c);
	out = wkit_text(&c, 0);
	assert_string_equal(out, "input bar /tmp named none\n");
	for (size_t i = 0; i < c.result.env_changed.n; i++)
		assert_string_equal(c.result.env_changed.v[i], "BAR");
	assert_string_equal(c.result.cwd, "/workspace");
	wkit_done(&c);
	wkit_expect(k, "echo ${FOO-none} $PWD $BAR; cat", "none /workspace 1\n", 0);
	c = wkit_command(k);
	strv_add(&c.ask.argv, "pwd");
	c.ask.cwd = mem_strdup("../usr/./bin");
	wkit_send(k, &c);
	wkit_wait(k, &c);
	{
		cleanup_free char *pwd = wkit_text(&c, 0);

		assert_string_equal(pwd, "/usr/bin\n");
	}
	wkit_done(&c);
}

/* EXE-4: a directory that is missing refuses the command before it starts. */
static void exe_4_a_missing_directory_is_refused(void **state)
{
	struct wkit *k = wkit_of(state);
	static const char *const bad[] = {"/no/such", "/etc/passwd", "nowhere/sub"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct wkit_command c = wkit_command(k);

		strv_add(&c.ask.argv, i == 1 ? "pwd" : "true");
		c.ask.cwd = mem_strdup(bad[i]);
		wkit_send(k, &c);
		wkit_wait(k, &c);
		assert_string_equal(c.refused.code, "E_BAD_REQUEST");
		assert_string_equal(c.refused.subject, "working_dir");
		wkit_done(&c);
	}
	wkit_drain(k);
	assert_string_equal(k->events, "");
}

/* EXE-4: an id is never run twice. */
static void exe_4_an_id_runs_once(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command a = wkit_command(k), b;

	strv_add(&a.ask.argv, "true");
	wkit_send(k, &a);
	while (!wkit_step(k, &a))
		;
	k->made--;
	b = wkit_run(k, "true");
	assert_string_equal(b.refused.code, "E_CONFLICT");
	wkit_ack(k, a.id);
	wkit_done(&a);
	wkit_done(&b);
}

/* STA-3: directory, exports and unsets of a script are there in the next; its status too. */
static void sta_3_state_comes_back(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c =
		wkit_script(k, "mkdir -p sub && cd sub && export FOO='a\nb' X=1; exit 7");

	assert_int_equal(c.result.exit_code, 7);
	assert_string_equal(c.result.capture, "taken");
	assert_string_equal(c.result.cwd, "/workspace/sub");
	assert_int_equal(c.result.env_changed.n, 2);
	assert_non_null(strv_env_get(&c.result.env, "FOO"));
	assert_null(strv_env_get(&c.result.env, "SHLVL"));
	assert_null(strv_env_get(&c.result.env, "_"));
	wkit_done(&c);
	wkit_expect(k, "echo $? \"$FOO\" $PWD $OLDPWD; unset X; cd -",
		    "7 a\nb /workspace/sub /workspace\n/workspace\n", 0);
	wkit_expect(k, "echo ${X-unset} $PWD $OLDPWD $AGENTSH_IN_SESSION $AGENTSH_SESSION_ID $HOME",
		    "unset /workspace /workspace/sub 1 session-test /home/agent\n", 0);
	wkit_expect(k, "echo $SHLVL ${__agentsh-} ${__agentsh_h-}; env | grep -c agentsh_",
		    "1\n0\n", 1);
	wkit_expect(k, "(exit 5)", "", 5);
	wkit_expect_argv(k, "5\n", "", 0, "sh", "-c", "echo $1", "sh", "5");
	wkit_expect(k, "rmdir sub; echo $?", "0\n", 0);
	/* The shell becomes the program, which needs no other process. */
	wkit_expect(k, "export LAST=1; ulimit -u 0; exit 6", "", 6);
	wkit_expect(k, "echo $LAST", "1\n", 0);
}

/* STA-3: whatever the script ends with. */
static void sta_3_any_end_of_a_script(void **state)
{
	static const char *const scripts[] = {
		"export N=%d # comment",
		"export N=%d\ncat <<X\nheredoc\nX",
		"export N=%d; true \\",
		"export N=%d; exit 3",
		"trap 'true' EXIT; export N=%d",
		"trap 'exit 4' EXIT; export N=%d",
		"trap 'export N=%d' EXIT",
		"set -e; export N=%d; false; export N=no",
		"set -u; export N=%d; echo $NOPE; export N=no",
		"unset PATH; export N=%d",
		"export N=%d\nif then",
		"export N=%d; set -x; exec 2>/dev/null 1>&2",
		"export N=%d; exec >&- 2>&- <&-",
	};
	static const char *const shells[] = {"bash", "sh"};

	for (size_t s = 0; s < ARRAY_LEN(shells); s++) {
		const struct wkit_request request = {.shell = shells[s]};
		struct wkit *k;

		wkit_of(state);
		k = wkit_open_with(&request);
		for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
			cleanup_buf struct buf text = {0};
			const char *at = strstr(scripts[i], "%d");
			char number[16];
			struct wkit_command c;

			snprintf(number, sizeof(number), "%zu", i + 100);
			buf_add(&text, scripts[i], (size_t)(at - scripts[i]));
			buf_addf(&text, "%s%s", number, at + 2);
			c = wkit_script(k, text.data);
			if (c.result.env.n == 0 ||
			    strcmp(strv_env_get(&c.result.env, "N"), number) != 0)
				fail_msg("%s: %s: %s", shells[s], text.data, c.result.capture);
			wkit_done(&c);
			wkit_drain(k);
		}
		wkit_close((void **)&k);
	}
}

/* STA-5: after exec, a kill or a time-out the old state stands; variables that are not exported are
 * lost. */
static void sta_5_what_does_not_survive(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c;

	wkit_expect(k, "export KEPT=1; cd /tmp", "", 0);
	wkit_expect(k, "export KEPT=2; cd /; exec true", "", 0);
	wkit_expect(k, "export KEPT=3; cd /; kill -9 $$", "", 137);
	wkit_expect(k, "export KEPT=4; cd /; kill -TERM $$", "", 143);
	wkit_expect(k, "export KEPT=4; cd /; kill -INT $$", "", 130);
	c = wkit_command(k);
	c.ask.script = mem_strdup("export KEPT=5; cd /; trap '' TERM; sleep 60");
	c.ask.timeout_ms = 200;
	wkit_send(k, &c);
	wkit_wait(k, &c);
	assert_string_equal(c.result.capture, "none");
	wkit_done(&c);
	wkit_expect(k, "local=1; f() { :; }; alias x=y; trap 'echo bye' EXIT", "bye\n", 0);
	wkit_expect(k, "echo $KEPT $PWD ${local-none}; type f x 2>/dev/null; trap", "1 /tmp none\n",
		    0);
}

/* STA-4: dangerous variables never come back. */
static void sta_4_dangerous_variables_are_stripped(void **state)
{
	struct wkit *k = wkit_of(state);

	wkit_expect(
		k,
		"export LD_PRELOAD= BASH_ENV=/x EDITOR=vi CDPATH=/ SAFE=1; f() { :; }; export -f f",
		"", 0);
	wkit_expect(k, "env | grep -E '^(LD_|BASH_|EDITOR|CDPATH|SAFE)' | sort", "SAFE=1\n", 0);
}

/* STA-5: a capture counts only from our program, started by the command's first process, and in
 * bounds. */
static void sta_5_forged_captures_change_nothing(void **state)
{
	const struct wkit_request request = {.env_max = 4096};
	struct wkit *k;
	struct wkit_command c;

	wkit_of(state);
	k = wkit_open_with(&request);
	/* A grandchild, then the end without a capture of our own. */
	c = wkit_script(k, "(FORGED=1 /run/agentsh/bin/state; :); (( /bin/sh -c 'FORGED=2 "
			   "/run/agentsh/bin/state; true' )); exec true");
	wkit_done(&c);
	c = wkit_script(k, "sh -c 'FORGED=3 /run/agentsh/bin/state; true'; exec true");
	assert_string_equal(c.result.capture, "none");
	wkit_done(&c);
	/* Another program that speaks the protocol. */
	c = wkit_script(k, "command -v python3 >/dev/null && python3 -c '\n"
			   "import socket\n"
			   "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
			   "s.connect(\"/run/agentsh/state.sock\")\n"
			   "s.send(b\"EFORGED=4\\0\"); s.send(b\"D/tmp\"); s.send(b\"F\")\n"
			   "s.recv(1)\n'; kill -9 $$");
	assert_true(strcmp(c.result.capture, "refused: capture: not from our program") == 0 ||
		    system("command -v python3 >/dev/null") != 0);
	wkit_done(&c);
	c = wkit_script(k, "export BIG=$(head -c 5000 /dev/zero | tr '\\0' x); cd /tmp");
	assert_non_null(strstr(c.result.capture, "refused: environment of more than 4096 bytes"));
	assert_string_equal(c.result.cwd, "/workspace");
	wkit_done(&c);
	wkit_expect(k, "echo ${FORGED-none} ${#BIG} $PWD", "none 0 /workspace\n", 0);
	wkit_close((void **)&k);
}

/* STA-5: a directory that is gone at the end is not taken. */
static void sta_5_a_lost_directory_is_not_taken(void **state)
{
	struct wkit *k = wkit_of(state);

	wkit_expect(k, "mkdir gone; cd gone; rmdir ../gone; export SEEN=1", "", 0);
	wkit_expect(k, "echo $PWD $SEEN", "/workspace 1\n", 0);
}

/* STA-1, STA-2: builtins answer without a process and change the session. */
static void sta_1_builtins_need_no_process(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_run(k, "cd", "/tmp");

	wkit_drain(k);
	assert_int_equal(k->pid, 0);
	assert_int_equal(c.result.cpu_us, 0);
	assert_string_equal(c.result.cwd, "/tmp");
	wkit_done(&c);
	wkit_expect_argv(k, "/tmp\n", "", 0, "pwd");
	wkit_expect_argv(k, "/workspace\n", "", 0, "cd", "-");
	wkit_expect_argv(k, "", "cd: nowhere: No such file or directory\n", 1, "cd", "nowhere");
	wkit_expect(k, "echo $? $PWD $OLDPWD", "1 /workspace /tmp\n", 0);
	c = wkit_run(k, "export", "GREETING=hi you");
	assert_string_equal(c.result.env_changed.v[0], "GREETING");
	wkit_done(&c);
	wkit_expect(k, "echo $GREETING", "hi you\n", 0);
	wkit_expect_argv(k, "hi\n", "", 0, "env", "X=hi", "sh", "-c", "echo $X");
	wkit_expect_argv(k, "", "", 0, "alias", "say=echo 'a  b'");
	wkit_expect_argv(k, "a  b c\n", "", 0, "say", "c");
	wkit_expect_argv(k, "/tmp /workspace\n", "", 0, "pushd", "/tmp");
	wkit_expect_argv(k, "/workspace\n", "", 0, "popd");
	wkit_expect(k, "ln -sfn /usr/bin way; cd way", "", 0);
	wkit_expect_argv(k, "/workspace/way\n", "", 0, "pwd");
	wkit_expect_argv(k, "/usr/bin\n", "", 0, "pwd", "-P");
	wkit_expect_argv(k, "", "", 0, "cd", "-P", ".");
	wkit_expect_argv(k, "/usr/bin\n", "", 0, "pwd");
	wkit_expect(k, "rm /workspace/way", "", 0);
	wkit_drain(k);
	assert_non_null(strstr(k->events, "command_started cmd-1 -1;command_finished cmd-1 0;"));
}

/* SES-6: what a command leaves behind ends with it; the answer names it. */
static void ses_6_background_processes_end(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c =
		wkit_script(k, "sleep 6161 & (setsid sleep 6162 >/dev/null 2>&1 &); echo hi");
	cleanup_free char *out = wkit_text(&c, 0);

	assert_string_equal(out, "hi\n");
	assert_int_equal(c.result.exit_code, 0);
	assert_int_equal(c.result.background.n, 2);
	assert_non_null(strstr(c.result.background.v[0], "sleep 616"));
	assert_memory_equal(c.result.background.v[0], "ended ", 6);
	assert_false(wkit_alive("sleep 6161"));
	assert_false(wkit_alive("sleep 6162"));
	wkit_done(&c);
}

/* SES-6: kept ones live, their output goes on, and they end with the session. */
static void ses_6_background_processes_are_kept(void **state)
{
	const struct wkit_request request = {.keep = true};
	struct wkit_command c;
	struct wkit *k;
	int pid;

	wkit_of(state);
	k = wkit_open_with(&request);
	c = wkit_script(k, "mkfifo f; (cat f; echo late; exec sleep 6163) & echo first");
	assert_true(c.result.background.n >= 1);
	assert_int_equal(sscanf(c.result.background.v[0], "kept %d", &pid), 1);
	assert_true(pid > 1 && pid < 1000); /* as inside */
	assert_int_equal(c.result.stdout_bytes, 6);
	wkit_expect(k, "echo go > f; rm f", "", 0);
	for (int i = 0; lseek(c.out[0], 0, SEEK_END) < 14 && i < 2000; i++)
		poll(NULL, 0, 1);
	{
		cleanup_free char *out = wkit_text(&c, 0);

		assert_string_equal(out, "first\ngo\nlate\n");
	}
	assert_true(wkit_alive("sleep 6163"));
	wkit_close((void **)&k);
	assert_false(wkit_alive("sleep 6163"));
	wkit_done(&c);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, wkit_open, wkit_close)
	const struct CMUnitTest tests[] = {
		TEST(exe_1_a_command_runs),
		TEST(evt_1_events_show_the_command),
		TEST(exe_8_codes_are_a_shells),
		TEST(exe_4_a_request_has_its_own_things),
		TEST(exe_4_a_missing_directory_is_refused),
		TEST(exe_4_an_id_runs_once),
		TEST(sta_3_state_comes_back),
		cmocka_unit_test(sta_3_any_end_of_a_script),
		TEST(sta_5_what_does_not_survive),
		TEST(sta_4_dangerous_variables_are_stripped),
		cmocka_unit_test(sta_5_forged_captures_change_nothing),
		TEST(sta_5_a_lost_directory_is_not_taken),
		TEST(sta_1_builtins_need_no_process),
		TEST(ses_6_background_processes_end),
		cmocka_unit_test(ses_6_background_processes_are_kept),
	};

	return cmocka_run_group_tests_name("session", tests, wkit_prepare, wkit_clean);
}
