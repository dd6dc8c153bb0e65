// SPDX-License-Identifier: Apache-2.0
/* Whole command lines that need no server: what is printed where, and the exit status. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include <stdio.h>
#include <sys/mman.h>

#define WORDS_MAX 16

struct seen {
	int status;
	struct buf out, err;
};

/* Descriptor fd goes to a file of its own; returns what it was before. */
static int divert(int fd, int *file)
{
	const int old = dup(fd);

	*file = memfd_create("output", MFD_CLOEXEC);
	assert_true(old >= 0 && *file >= 0);
	assert_true(dup2(*file, fd) >= 0);
	return old;
}

static void restore(int fd, int old, int file, struct buf *got)
{
	dup2(old, fd);
	close(old);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(fdio_load(file, 1 << 20, got, NULL), 0);
	buf_add(got, "", 0);
	close(file);
}

static void seen_done(struct seen *s)
{
	buf_done(&s->out);
	buf_done(&s->err);
	*s = (struct seen){0};
}

/* Runs "agentsh TEXT", cut at spaces. */
static void run(struct seen *s, const char *text)
{
	cleanup_free char *copy = mem_strdup(text);
	char *argv[WORDS_MAX] = {(char *)"agentsh"}, *save = NULL;
	int argc = 1, file[2], old[2];

	seen_done(s);
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	fflush(stdout);
	old[0] = divert(1, &file[0]);
	old[1] = divert(2, &file[1]);
	s->status = cli_main(argc, argv);
	restore(1, old[0], file[0], &s->out);
	restore(2, old[1], file[1], &s->err);
}

static void assert_refused(const char *text, const char *message)
{
	struct seen s = {0};

	run(&s, text);
	assert_int_equal(s.status, 125);
	assert_string_equal(s.out.data, "");
	assert_string_equal(s.err.data, message);
	seen_done(&s);
}

static void cli_1_version(void **state)
{
	static const char *const same[] = {"version", "--version", "-- version",
					   "--server x version", "version --server=x"};
	struct seen s = {0};

	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		run(&s, same[i]);
		assert_int_equal(s.status, 0);
		assert_string_equal(s.out.data, "agentsh " AGENTSH_VERSION "\n");
		assert_string_equal(s.err.data, "");
	}
	run(&s, "version --json");
	assert_string_equal(s.out.data, "{\"version\":\"" AGENTSH_VERSION "\"}\n");
	seen_done(&s);
}

static void cli_1_help_goes_to_stdout_and_usage_to_stderr(void **state)
{
	struct seen s = {0};

	run(&s, "--help");
	assert_int_equal(s.status, 0);
	assert_memory_equal(s.out.data, "usage: agentsh [", 16);
	run(&s, "");
	assert_int_equal(s.status, 125);
	assert_string_equal(s.out.data, "");
	assert_memory_equal(s.err.data, "usage: agentsh [", 16);
	run(&s, "help session list");
	assert_int_equal(s.status, 0);
	assert_memory_equal(s.out.data, "usage: agentsh session list\n", 28);
	run(&s, "session list --help");
	assert_int_equal(s.status, 0);
	assert_memory_equal(s.out.data, "usage: agentsh session list\n", 28);
	run(&s, "-h");
	assert_int_equal(s.status, 0);
	assert_memory_equal(s.out.data, "usage: agentsh [", 16);
	run(&s, "exec -h");
	assert_int_equal(s.status, 0);
	assert_non_null(strstr(s.out.data, "\nexamples:\n  agentsh exec demo -- make test\n"));
	for (int i = 0; i < 3; i++) {
		run(&s, i == 0 ? "help session" : i == 1 ? "session --help" : "session -h");
		assert_int_equal(s.status, 0);
		assert_memory_equal(s.out.data, "usage: agentsh session COMMAND\n", 31);
		assert_non_null(strstr(s.out.data, "\n  session destroy "));
		assert_null(strstr(s.out.data, "\n  policy "));
	}
	seen_done(&s);
}

static void cli_1_mistakes_before_the_command(void **state)
{
	assert_refused("--nope x", "agentsh: E_BAD_REQUEST: no option --nope (agentsh --help)\n");
	assert_refused("--server", "agentsh: E_BAD_REQUEST: --server needs a value: ADDR\n");
	assert_refused("- help", "agentsh: E_BAD_REQUEST: no command '-' (agentsh help)\n");
	assert_refused("nonsense",
		       "agentsh: E_BAD_REQUEST: no command 'nonsense' (agentsh help)\n");
	assert_refused("versionx", "agentsh: E_BAD_REQUEST: no command 'versionx' (did you mean "
				   "'version'? agentsh help)\n");
	assert_refused("sesion list", "agentsh: E_BAD_REQUEST: no command 'sesion' (did you mean "
				      "'session'? agentsh help)\n");
	assert_refused(
		"session",
		"agentsh: E_BAD_REQUEST: session: give one of create, list, info, destroy\n");
	assert_refused("config nonsense",
		       "agentsh: E_BAD_REQUEST: config: give one of show, validate, keys\n");
	assert_refused("sessionx", "agentsh: E_BAD_REQUEST: no command 'sessionx' (did you mean "
				   "'session'? agentsh help)\n");
	assert_refused("help nonsense",
		       "agentsh: E_BAD_REQUEST: no command 'nonsense' (agentsh help)\n");
	assert_refused("help polcy", "agentsh: E_BAD_REQUEST: no command 'polcy' (did you mean "
				     "'policy'? agentsh help)\n");
	assert_refused(
		"help session nonsense",
		"agentsh: E_BAD_REQUEST: session: give one of create, list, info, destroy\n");
	assert_refused("--servr x", "agentsh: E_BAD_REQUEST: no option --servr (did you mean "
				    "--server? agentsh --help)\n");
	assert_refused("session create --worspace=x",
		       "agentsh: E_BAD_REQUEST: no option --worspace (did you mean --workspace? "
		       "agentsh session create --help)\n");
	assert_refused("version --api-keys x",
		       "agentsh: E_BAD_REQUEST: no option --api-keys (did you mean --api-key? "
		       "agentsh version --help)\n");
}

static void cli_1_surplus_words_are_refused(void **state)
{
	assert_refused("version x", "agentsh: E_BAD_REQUEST: version: unexpected 'x'\n");
	assert_refused("session list a b",
		       "agentsh: E_BAD_REQUEST: session list: unexpected 'a'\n");
	assert_refused("session create a",
		       "agentsh: E_BAD_REQUEST: session create: unexpected 'a'\n");
	assert_refused("session info",
		       "agentsh: E_BAD_REQUEST: usage: agentsh session info SESSION\n");
	assert_refused("session destroy a b",
		       "agentsh: E_BAD_REQUEST: session destroy: unexpected 'b'\n");
	assert_refused("output", "agentsh: E_BAD_REQUEST: usage: agentsh output COMMAND\n");
	assert_refused("kill a b c", "agentsh: E_BAD_REQUEST: kill: unexpected 'c'\n");
	assert_refused("kill", "agentsh: E_BAD_REQUEST: usage: agentsh kill [SESSION] COMMAND\n");
	assert_refused("events", "agentsh: E_BAD_REQUEST: usage: agentsh events SESSION\n");
	assert_refused("config validate a b",
		       "agentsh: E_BAD_REQUEST: config validate: unexpected 'b'\n");
	assert_refused("config validate a --config b",
		       "agentsh: E_BAD_REQUEST: one file at a time\n");
}

static void cli_1_exec_refuses_what_does_not_fit(void **state)
{
	assert_refused("exec", "agentsh: E_BAD_REQUEST: usage: agentsh exec SESSION [OPTIONS] -- "
			       "CMD [ARG...]\n");
	assert_refused("exec s --output xml -- true",
		       "agentsh: E_BAD_REQUEST: --output is json, shell or text, not 'xml'\n");
	assert_refused("exec s --stream --output shell -- true",
		       "agentsh: E_BAD_REQUEST: give either --stream or --output\n");
	assert_refused("run --output xml -- true",
		       "agentsh: E_BAD_REQUEST: --output is json, shell or text, not 'xml'\n");
	assert_refused("output c --offset x",
		       "agentsh: E_BAD_REQUEST: --offset: not a number: 'x'\n");
	assert_refused("output c --offset=",
		       "agentsh: E_BAD_REQUEST: --offset: not a number: ''\n");
	assert_refused("output c --limit 1234567890123456789",
		       "agentsh: E_BAD_REQUEST: --limit: not a number: '1234567890123456789'\n");
	assert_refused("session create --env LONELY",
		       "agentsh: E_BAD_REQUEST: --env needs NAME=VALUE\n");
}

static void cfg_1_keys_as_json_and_as_text(void **state)
{
	struct seen s = {0};
	json_t *doc = NULL;

	run(&s, "config keys --json");
	assert_int_equal(s.status, 0);
	assert_int_equal(json_parse(s.out.data, s.out.len, &doc, NULL), 0);
	assert_true(json_array_size(json_object_get(doc, "keys")) > 10);
	json_decref(doc);
	run(&s, "config keys");
	assert_non_null(strstr(s.out.data, "| `server.unix_socket` |"));
	seen_done(&s);
}

static void cfg_1_validate_a_file(void **state)
{
	char path[] = "/tmp/agentsh-cli-XXXXXX";
	const int fd = mkstemp(path);
	cleanup_free char *line = mem_printf("config validate %s --json", path);
	struct seen s = {0};

	assert_true(fd >= 0);
	assert_int_equal(fdio_write_all(fd, "logging: {level: warn}\n", 23), 0);
	run(&s, line);
	assert_int_equal(s.status, 0);
	assert_string_equal(s.out.data, "{\"valid\":true}\n");
	*strstr(line, " --json") = '\0';
	run(&s, line);
	assert_string_equal(s.out.data, "The configuration is valid.\n");
	assert_int_equal(fdio_write_all(fd, "nonsense: 1\n", 12), 0);
	run(&s, line);
	assert_int_equal(s.status, 125);
	assert_string_equal(s.out.data, "");
	assert_non_null(strstr(s.err.data, "nonsense"));
	close(fd);
	unlink(path);
	seen_done(&s);
}

static void cfg_1_show_with_overrides(void **state)
{
	struct seen s = {0};

	setenv("AGENTSH_CONFIG", "/dev/null", 1);
	run(&s, "config show --json --set logging.level=error --set sessions.max_queue=3");
	assert_int_equal(s.status, 0);
	assert_non_null(strstr(s.out.data, "\"level\":\"error\""));
	assert_non_null(strstr(s.out.data, "\"max_queue\":3"));
	run(&s, "config show --set nonsense=1");
	assert_int_equal(s.status, 125);
	run(&s, "config show --config /nonexistent/x");
	assert_int_equal(s.status, 125);
	unsetenv("AGENTSH_CONFIG");
	seen_done(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_version),
		cmocka_unit_test(cli_1_help_goes_to_stdout_and_usage_to_stderr),
		cmocka_unit_test(cli_1_mistakes_before_the_command),
		cmocka_unit_test(cli_1_surplus_words_are_refused),
		cmocka_unit_test(cli_1_exec_refuses_what_does_not_fit),
		cmocka_unit_test(cfg_1_keys_as_json_and_as_text),
		cmocka_unit_test(cfg_1_validate_a_file),
		cmocka_unit_test(cfg_1_show_with_overrides),
	};

	unsetenv("AGENTSH_SERVER");
	setenv("AGENTSH_NO_AUTO", "1", 1); /* no line here may start a server */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
