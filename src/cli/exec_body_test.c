// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "cli/cli.h"

static void assert_body(struct cli *cli, int first, const char *want)
{
	cleanup_buf struct buf out = {0};
	struct err err = {0};

	assert_int_equal(cli_exec_body(cli, first, &out, &err), 0);
	assert_string_equal(out.data, want);
	strv_done(&cli->v.env);
}

static void assert_no_body(struct cli *cli, int first, const char *part)
{
	cleanup_buf struct buf out = {0};
	struct err err = {0};

	assert_int_equal(cli_exec_body(cli, first, &out, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, part));
	strv_done(&cli->v.env);
}

static void cli_1_a_command_with_arguments(void **state)
{
	char *argv[] = {(char *)"s", (char *)"echo", (char *)"-n", (char *)"a \"b\""};
	struct cli cli = {.argc = 4, .argv = argv};

	assert_body(&cli, 1, "{\"command\":\"echo\",\"args\":[\"-n\",\"a \\\"b\\\"\"]}");
	cli.argc = 2;
	assert_body(&cli, 1, "{\"command\":\"echo\",\"args\":[]}");
	assert_body(&cli, 0, "{\"command\":\"s\",\"args\":[\"echo\"]}");
}

static void cli_1_a_script(void **state)
{
	char *argv[] = {(char *)"s"};
	struct cli cli = {.argc = 1, .argv = argv, .v = {.script = "cd /; pwd"}};

	assert_body(&cli, 1, "{\"script\":\"cd /; pwd\"}");
}

static void cli_1_a_whole_request(void **state)
{
	char *argv[] = {(char *)"s"};
	struct cli cli = {.argc = 1, .argv = argv, .v = {.json_text = "{ \"script\": \"x\" }"}};

	assert_body(&cli, 1, "{ \"script\": \"x\" }");
}

static void cli_1_every_option_has_its_field(void **state)
{
	char *argv[] = {(char *)"s", (char *)"true"};
	struct cli cli = {.argc = 2,
			  .argv = argv,
			  .v = {.timeout = "5s",
				.argv0 = "-sh",
				.working_dir = "/tmp",
				.command_id = "c-1",
				.no_queue = true,
				.detach = true}};

	strv_add(&cli.v.env, "A=1");
	strv_add(&cli.v.env, "B=x=y");
	strv_add(&cli.v.env, "C=");
	assert_body(&cli, 1,
		    "{\"command\":\"true\",\"args\":[],\"timeout\":\"5s\",\"argv0\":\"-sh\","
		    "\"working_dir\":\"/tmp\",\"command_id\":\"c-1\","
		    "\"env\":{\"A\":\"1\",\"B\":\"x=y\",\"C\":\"\"},"
		    "\"queue\":false,\"detach\":true}");
}

static void cli_1_exactly_one_source(void **state)
{
	char *argv[] = {(char *)"s", (char *)"true"};
	struct cli none = {.argc = 1, .argv = argv};
	struct cli both = {.argc = 2, .argv = argv, .v = {.script = "x"}};
	struct cli two = {.argc = 1, .argv = argv, .v = {.script = "x", .json_text = "{}"}};

	assert_no_body(&none, 1, "give one of");
	assert_no_body(&both, 1, "give one of");
	assert_no_body(&two, 1, "give one of");
	both.v.script = NULL;
	both.v.json_text = "{}";
	assert_no_body(&both, 1, "give one of");
}

/* An option that stood beside a whole request would be lost. */
static void cli_1_a_whole_request_takes_no_other_option(void **state)
{
	char *argv[] = {(char *)"s"};
	const struct cli_values rows[] = {
		{.timeout = "1s"},   {.argv0 = "x"},	 {.working_dir = "/"},
		{.command_id = "c"}, {.no_queue = true}, {.detach = true},
	};
	struct cli cli = {.argc = 1, .argv = argv, .v = {.json_text = "{}"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cli.v = rows[i];
		cli.v.json_text = "{}";
		assert_no_body(&cli, 1, "whole request");
	}
	cli.v = (struct cli_values){.json_text = "{}"};
	strv_add(&cli.v.env, "A=1");
	assert_no_body(&cli, 1, "whole request");
}

static void cli_1_env_needs_a_value(void **state)
{
	char *argv[] = {(char *)"s", (char *)"true"};
	struct cli cli = {.argc = 2, .argv = argv};

	strv_add(&cli.v.env, "A=1");
	strv_add(&cli.v.env, "LONELY");
	assert_no_body(&cli, 1, "NAME=VALUE");
}

static void cli_1_env_object(void **state)
{
	cleanup_buf struct buf out = {0};
	struct jw w = JW(&out);
	struct strv env = {0};
	struct err err = {0};

	strv_add(&env, "A=1");
	jw_obj(&w);
	assert_int_equal(cli_env(&w, "environment", &env, &err), 0);
	jw_obj_end(&w);
	assert_string_equal(out.data, "{\"environment\":{\"A\":\"1\"}}");
	strv_add(&env, "B");
	assert_int_equal(cli_env(&w, "environment", &env, &err), -E_BAD_REQUEST);
	assert_string_equal(err.subject, "B");
	strv_done(&env);
}

/* Bytes that are not UTF-8 are refused: the server would get something else. */
static void cli_1_only_text_is_sent(void **state)
{
	char *argv[] = {(char *)"s", (char *)"ls", (char *)"a\xff", NULL};
	const struct cli rows[] = {
		{.argc = 3, .argv = argv},
		{.argc = 1, .argv = argv, .v = {.script = "echo \xc3"}},
		{.argc = 2, .argv = argv, .v = {.working_dir = "/\xfe"}},
		{.argc = 2, .argv = argv, .v = {.argv0 = "\x80"}},
	};
	static const char *const subjects[] = {"an argument", "script", "working_dir", "argv0"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf out = {0};
		struct cli cli = rows[i];
		struct err err = {0};

		assert_int_equal(cli_exec_body(&cli, 1, &out, &err), -E_BAD_REQUEST);
		assert_string_equal(err.subject, subjects[i]);
		assert_int_equal(out.len, 0);
	}
	assert_int_equal(cli_text("x", NULL, NULL), 0);
	assert_int_equal(cli_text("x", "\xc3\xa9", NULL), 0);
}

static int exit_code(const char *json, struct err *err)
{
	json_t *doc = NULL;
	int r;

	assert_int_equal(json_parse(json, strlen(json), &doc, err), 0);
	r = cli_exit_code(doc, err);
	json_decref(doc);
	return r;
}

static void assert_exit(const char *json, int want)
{
	struct err err = {0};

	assert_int_equal(exit_code(json, &err), want);
	assert_int_equal(err.code, want < 0 ? -want : E_OK);
}

static void exe_8_the_exit_code_of_an_answer(void **state)
{
	assert_exit("{\"result\":{\"exit_code\":0}}", 0);
	assert_exit("{\"result\":{\"exit_code\":3}}", 3);
	assert_exit("{\"result\":{\"exit_code\":255}}", 255);
	assert_exit("{\"result\":{\"exit_code\":124,\"error\":{\"code\":\"E_COMMAND_TIMEOUT\"}}}",
		    124);
}

static void exe_8_a_lost_command_is_a_failure(void **state)
{
	assert_exit("{\"result\":{\"exit_code\":null}}", CLI_FAILED);
	assert_exit("{\"result\":{}}", CLI_FAILED);
	assert_exit("{\"result\":{\"exit_code\":256}}", CLI_FAILED);
	assert_exit("{\"result\":{\"exit_code\":-1}}", CLI_FAILED);
}

static void exe_8_a_detached_command_has_no_exit_code_yet(void **state)
{
	assert_exit("{\"command_id\":\"c\",\"state\":\"queued\",\"exit_code\":null}", 0);
	assert_exit("{\"command_id\":\"c\",\"state\":\"queued\",\"error\":null}", 0);
	assert_exit("{\"command_id\":\"c\",\"error\":{\"code\":\"E_COMMAND_KILLED\"}}", 0);
}

static void exe_8_an_error_body_is_an_error(void **state)
{
	static const char body[] = "{\"error\":{\"code\":\"E_SESSION_BUSY\",\"message\":\"no\"}}";
	static const char bare[] = "{\"error\":{}}";
	struct err err = {0};

	assert_int_equal(exit_code(body, &err), -E_SESSION_BUSY);
	assert_string_equal(err.message, "no");
	assert_int_equal(exit_code(bare, &err), -E_INTERNAL);
	assert_true(err.message[0] != '\0');
	assert_exit("{\"error\":{\"code\":\"E_NEW_ONE\",\"message\":\"x\"}}", -E_INTERNAL);
}

static void exe_8_errors_have_exit_statuses(void **state)
{
	assert_int_equal(err_row(E_SESSION_NOT_FOUND)->exit, 125);
	assert_int_equal(err_row(E_POLICY_DENIED)->exit, 126);
	assert_int_equal(err_row(E_COMMAND_TIMEOUT)->exit, 124);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_a_command_with_arguments),
		cmocka_unit_test(cli_1_a_script),
		cmocka_unit_test(cli_1_a_whole_request),
		cmocka_unit_test(cli_1_every_option_has_its_field),
		cmocka_unit_test(cli_1_exactly_one_source),
		cmocka_unit_test(cli_1_a_whole_request_takes_no_other_option),
		cmocka_unit_test(cli_1_env_needs_a_value),
		cmocka_unit_test(cli_1_env_object),
		cmocka_unit_test(cli_1_only_text_is_sent),
		cmocka_unit_test(exe_8_the_exit_code_of_an_answer),
		cmocka_unit_test(exe_8_a_lost_command_is_a_failure),
		cmocka_unit_test(exe_8_a_detached_command_has_no_exit_code_yet),
		cmocka_unit_test(exe_8_an_error_body_is_an_error),
		cmocka_unit_test(exe_8_errors_have_exit_statuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
