// SPDX-License-Identifier: Apache-2.0
/* A command's first program in a real session: where it is looked for, and what is executed. */
#include "command/testkit/warden_testkit.h"

#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#else
#define LOADER "/lib/ld-linux-aarch64.so.1"
#endif

/* Runs name with one argument and this PATH (NULL: the session's). */
static struct wkit_command run_by(struct wkit *k, const char *name, const char *path)
{
	struct wkit_command c = wkit_command(k);

	strv_add(&c.ask.argv, name);
	strv_add(&c.ask.argv, "one");
	if (path != NULL)
		strv_env_set(&c.ask.env, "PATH", path);
	wkit_send(k, &c);
	wkit_wait(k, &c);
	return c;
}

static void expect_by(struct wkit *k, const char *name, const char *path, const char *text)
{
	struct wkit_command c = run_by(k, name, path);
	cleanup_free char *out = wkit_text(&c, 0);

	assert_string_equal(out, text);
	assert_int_equal(c.result.exit_code, 0);
	wkit_done(&c);
}

static void expect_none(struct wkit *k, const char *name, const char *path, const char *code)
{
	struct wkit_command c = run_by(k, name, path);
	const bool missing = strcmp(code, "E_COMMAND_NOT_FOUND") == 0;

	assert_non_null(c.result.error_code);
	assert_string_equal(c.result.error_code, code);
	assert_int_equal(c.result.exit_code, missing ? 127 : 126);
	wkit_done(&c);
}

/* EXE-8: PATH is searched as by execvp: a file that may not be executed is passed over and
 * remembered, and a file of an unknown format is run by the shell. */
static void exe_8_path_is_searched_as_by_execvp(void **state)
{
	static const char missing[] = "E_COMMAND_NOT_FOUND", shut[] = "E_COMMAND_NOT_EXECUTABLE";
	struct wkit *k = wkit_of(state);

	wkit_expect(k,
		    "mkdir -p /tmp/a /tmp/b; echo 'plain' > /tmp/a/echo; "
		    "echo 'echo script $0 $1' > /tmp/b/odd; chmod 755 /tmp/b/odd; "
		    "chmod 644 /tmp/a/echo; cp /tmp/b/odd odd",
		    "", 0);
	expect_by(k, "echo", "/none:/etc/passwd:/tmp/a:/bin", "one\n");
	expect_by(k, "odd", "/tmp/a:/tmp/b", "script /tmp/b/odd one\n");
	expect_by(k, "odd", "/none:", "script odd one\n");
	expect_by(k, "./odd", "/none", "script ./odd one\n");
	expect_none(k, "echo", "/none:/tmp/a:/etc/passwd", shut);
	expect_none(k, "no-such-program", "/bin:/usr/bin", missing);
	expect_none(k, "echo", "/none", missing);
	expect_none(k, "./echo", "/bin", missing);
	expect_none(k, "/tmp", NULL, shut);
	wkit_expect(k, "rm odd", "", 0);
}

/* EXE-8: a directory that is not there comes before a program that is not. */
static void exe_8_the_directory_comes_first(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_command(k);

	strv_add(&c.ask.argv, "no-such-program");
	c.ask.cwd = mem_strdup("/none");
	wkit_send(k, &c);
	wkit_wait(k, &c);
	assert_string_equal(c.refused.code, "E_BAD_REQUEST");
	assert_string_equal(c.refused.subject, "working_dir");
	wkit_done(&c);
}

/* POL-4: what the session could change meanwhile runs as it was looked at, with the arguments that
 * the kernel would give it. */
static void pol_4_programs_of_the_workspace_run(void **state)
{
	struct wkit *k = wkit_of(state);

	wkit_expect(k,
		    "cp /bin/echo tool; ln -s tool link; printf '#!/bin/sh -e\\necho $0 $1 $-\\n' "
		    ">script; printf '#!/workspace/tool -x\\n' >odd; chmod 755 script odd",
		    "", 0);
	expect_by(k, "/workspace/tool", NULL, "one\n");
	expect_by(k, "./link", NULL, "one\n");
	expect_by(k, "tool", "/none:/workspace", "one\n");
	expect_by(k, "./script", NULL, "./script one e\n");
	expect_by(k, "script", "/workspace", "/workspace/script one e\n");
	expect_by(k, "./odd", NULL, "-x ./odd one\n");
	wkit_expect(k, "rm tool link script odd", "", 0);
}

/* POL-4: a loader opens its program itself, after the decision. */
static int open_denying(void **state)
{
	const struct wkit_request request = {
		.timeout_ms = 60000,
		.rules = "command_rules:\n  - {name: d, commands: [nothing], decision: deny}\n"};

	if (wkit_ready)
		*state = wkit_open_with(&request);
	return 0;
}

static void pol_4_a_loader_must_load_what_stays(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c;

	wkit_expect(k, "cp /bin/true tool", "", 0);
	wkit_drain(k);
	k->execs[0] = '\0';
	c = wkit_run(k, LOADER, "/workspace/tool");
	assert_string_equal(c.refused.code, "E_POLICY_DENIED");
	assert_non_null(strstr(c.refused.message, "replaced"));
	wkit_done(&c);
	wkit_expect_argv(k, "", "", 0, LOADER, "/bin/true");
	wkit_drain(k);
	assert_non_null(strstr(k->execs, " deny "));
	assert_non_null(strstr(k->execs, "exec-control;"));
	wkit_expect(k, "rm tool", "", 0);
}

/* Where no program is denied there is nothing to walk around. */
static void pol_4_a_loader_loads_anything_where_nothing_is_denied(void **state)
{
	struct wkit *k = wkit_of(state);

	wkit_expect(k, "cp /bin/true tool", "", 0);
	wkit_expect_argv(k, "", "", 0, LOADER, "/workspace/tool");
	wkit_expect(k, LOADER " ./tool && rm tool", "", 0);
}

/* EXE-8: a program that is replaced between two commands is looked at anew. */
static void pol_4_a_replaced_program_is_seen(void **state)
{
	struct wkit *k = wkit_of(state);

	wkit_expect(k, "cp /bin/echo tool", "", 0);
	expect_by(k, "./tool", NULL, "one\n");
	wkit_expect(k, "rm tool; cp /bin/true tool", "", 0);
	expect_by(k, "./tool", NULL, "");
	wkit_expect(k, "rm tool", "", 0);
	expect_none(k, "./tool", NULL, "E_COMMAND_NOT_FOUND");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(exe_8_path_is_searched_as_by_execvp, wkit_open,
						wkit_close),
		cmocka_unit_test_setup_teardown(exe_8_the_directory_comes_first, wkit_open,
						wkit_close),
		cmocka_unit_test_setup_teardown(pol_4_programs_of_the_workspace_run, wkit_open,
						wkit_close),
		cmocka_unit_test_setup_teardown(pol_4_a_loader_must_load_what_stays, open_denying,
						wkit_close),
		cmocka_unit_test_setup_teardown(
			pol_4_a_loader_loads_anything_where_nothing_is_denied, wkit_open,
			wkit_close),
		cmocka_unit_test_setup_teardown(pol_4_a_replaced_program_is_seen, wkit_open,
						wkit_close),
	};

	return cmocka_run_group_tests_name("first", tests, wkit_prepare, wkit_clean);
}
