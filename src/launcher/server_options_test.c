// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "launcher/launcher.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define ARGS_MAX 10

static int parse(const char *const args[], struct launcher_options *o, struct err *err)
{
	char *argv[ARGS_MAX + 2] = {(char *)(uintptr_t) "agentsh-server"};
	int argc = 1;

	for (; args[argc - 1] != NULL; argc++)
		argv[argc] = (char *)(uintptr_t)args[argc - 1];
	return launcher_options_parse(argc, argv, o, err);
}

static void cfg_1_no_flag_asks_for_nothing(void **state)
{
	struct launcher_options o;
	struct err err = {0};

	unsetenv("AGENTSH_CONFIG");
	assert_int_equal(parse((const char *const[]){NULL}, &o, &err), 0);
	assert_null(o.config_path);
	assert_int_equal(o.overrides.n, 0);
	assert_false(o.auto_start || o.help || o.version);
	assert_int_equal(o.ready_fd, -1);
	launcher_options_done(&o);
}

static void cfg_1_flags_take_a_value_behind_them_or_behind_an_equals_sign(void **state)
{
	const int fd = dup(STDERR_FILENO);
	cleanup_free char *number = mem_printf("%d", fd);
	struct launcher_options o;
	struct err err = {0};

	assert_int_equal(parse((const char *const[]){"--config", "a.yaml", "--set=x.y=1", "--set",
						     "z==", "--auto", "--ready-fd", number,
						     "--log-level=debug", NULL},
			       &o, &err),
			 0);
	assert_string_equal(o.config_path, "a.yaml");
	assert_int_equal(o.overrides.n, 3);
	assert_string_equal(o.overrides.v[0], "x.y=1");
	assert_string_equal(o.overrides.v[1], "z==");
	assert_string_equal(o.overrides.v[2], "logging.level=debug");
	assert_true(o.auto_start);
	assert_int_equal(o.ready_fd, fd);
	close(fd);
	launcher_options_done(&o);
	assert_int_equal(o.ready_fd, -1);
}

static void cfg_1_the_flag_wins_over_the_variable_and_an_empty_variable_is_none(void **state)
{
	struct launcher_options o;
	struct err err = {0};

	setenv("AGENTSH_CONFIG", "/env.yaml", 1);
	assert_int_equal(parse((const char *const[]){NULL}, &o, &err), 0);
	assert_string_equal(o.config_path, "/env.yaml");
	launcher_options_done(&o);
	assert_int_equal(
		parse((const char *const[]){"--config=/flag.yaml", "--config=/last.yaml", NULL}, &o,
		      &err),
		0);
	assert_string_equal(o.config_path, "/last.yaml");
	launcher_options_done(&o);
	setenv("AGENTSH_CONFIG", "", 1);
	assert_int_equal(parse((const char *const[]){NULL}, &o, &err), 0);
	assert_null(o.config_path);
	launcher_options_done(&o);
	unsetenv("AGENTSH_CONFIG");
}

static void cfg_1_help_and_version_are_flags(void **state)
{
	struct launcher_options o;
	struct err err = {0};

	assert_int_equal(parse((const char *const[]){"--help", NULL}, &o, &err), 0);
	assert_true(o.help && !o.version);
	launcher_options_done(&o);
	assert_int_equal(parse((const char *const[]){"--version", NULL}, &o, &err), 0);
	assert_true(o.version && !o.help);
	launcher_options_done(&o);
}

static void cfg_1_every_wrong_argument_is_named(void **state)
{
	static const struct {
		const char *args[3], *subject;
	} rows[] = {
		{{"--confi", "x"}, "--confi"},
		{{"--configs=x"}, "--configs=x"},
		{{"serve"}, "serve"},
		{{""}, ""},
		{{"--config"}, "--config"},
		{{"--config="}, "--config"},
		{{"--auto=yes"}, "--auto"},
		{{"--help=1"}, "--help"},
		{{"--set"}, "--set"},
		{{"--ready-fd", "x"}, "--ready-fd"},
		{{"--ready-fd", ""}, "--ready-fd"},
		{{"--ready-fd", "1x"}, "--ready-fd"},
		{{"--ready-fd", "-1"}, "--ready-fd"},
		{{"--ready-fd", "987654"}, "--ready-fd"},
		{{"--ready-fd", "4294967297"}, "--ready-fd"},
		{{"--ready-fd", "99999999999999999999"}, "--ready-fd"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct launcher_options o = {.ready_fd = 77};
		struct err err = {0};

		assert_int_equal(parse(rows[i].args, &o, &err), -E_BAD_REQUEST);
		assert_string_equal(err.subject, rows[i].subject);
		assert_int_equal(o.ready_fd, 77);
	}
}

static void cfg_1_the_first_descriptor_above_stdio_may_be_told(void **state)
{
	struct launcher_options o;
	struct err err = {0};

	assert_int_equal(dup2(STDERR_FILENO, STDERR_FILENO + 1), STDERR_FILENO + 1);
	assert_int_equal(parse((const char *const[]){"--ready-fd=3", NULL}, &o, &err), 0);
	assert_int_equal(o.ready_fd, STDERR_FILENO + 1);
	launcher_options_done(&o);
	assert_int_equal(parse((const char *const[]){"--ready-fd=2", NULL}, &o, &err),
			 -E_BAD_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cfg_1_no_flag_asks_for_nothing),
		cmocka_unit_test(cfg_1_flags_take_a_value_behind_them_or_behind_an_equals_sign),
		cmocka_unit_test(
			cfg_1_the_flag_wins_over_the_variable_and_an_empty_variable_is_none),
		cmocka_unit_test(cfg_1_help_and_version_are_flags),
		cmocka_unit_test(cfg_1_every_wrong_argument_is_named),
		cmocka_unit_test(cfg_1_the_first_descriptor_above_stdio_may_be_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
