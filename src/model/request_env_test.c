// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/request.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void sta_4_the_list_of_dangerous_names(void **state)
{
	static const char *const bad[] = {
		"BASH_ENV", "ENV",	  "PROMPT_COMMAND", "EDITOR",	  "VISUAL",
		"PAGER",    "GIT_PAGER",  "MANPAGER",	    "LD_PRELOAD", "LD_LIBRARY_PATH",
		"LD_AUDIT", "LD_",	  "LD_DEBUG",	    "SHELLOPTS",  "BASHOPTS",
		"CDPATH",   "BASH_FUNC_", "BASH_FUNC_x%%",  "PS4",	  "BASH_XTRACEFD"};
	static const char *const good[] = {
		"",	 "E",	"EN",  "ENVI", "MYENV",	    "LD",	 "LD-X", "ld_preload",
		"xLD_A", "PS1", "IFS", "PATH", "BASH_FUNC", "BASH_ENV2", "HOME", "EDITORS"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(request_env_dangerous(bad[i], strlen(bad[i])));
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_false(request_env_dangerous(good[i], strlen(good[i])));
	assert_true(request_env_dangerous("ENV=x", 3));
	assert_false(request_env_dangerous("ENV=x", 2));
}

static void sta_4_the_list_of_names_that_load_code(void **state)
{
	static const char *const loads[] = {
		"GCONV_PATH",	     "LOCPATH",		 "OPENSSL_CONF",      "OPENSSL_MODULES",
		"OPENSSL_ENGINES",   "PYTHONPATH",	 "PYTHONHOME",	      "PYTHONSTARTUP",
		"PYTHONINSPECT",     "PYTHONUSERBASE",	 "PERL5LIB",	      "PERL5OPT",
		"PERL5DB",	     "PERLLIB",		 "NODE_OPTIONS",      "NODE_PATH",
		"RUBYOPT",	     "RUBYLIB",		 "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS",
		"_JAVA_OPTIONS",     "GIT_SSH",		 "GIT_SSH_COMMAND",   "GIT_EXEC_PATH",
		"GIT_EXTERNAL_DIFF", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0",  "GIT_CONFIG_GLOBAL",
		"GIT_ASKPASS",	     "LESSOPEN",	 "GLIBC_TUNABLES"};
	static const char *const plain[] = {"",	    "PATH",	      "PYTHON",	 "PYTHONUNBUFFERED",
					    "PERL", "NODE_ENV",	      "GIT_DIR", "GIT_CONFIG",
					    "LESS", "GIT_AUTHOR_NAME"};

	for (size_t i = 0; i < ARRAY_LEN(loads); i++)
		assert_true(request_env_loads_code(loads[i], strlen(loads[i])));
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		assert_false(request_env_loads_code(plain[i], strlen(plain[i])));
}

static void sta_4_names_of_variables(void **state)
{
	static const char *const good[] = {"A", "z", "_", "Z9", "a_0", "AZaz_09"};
	static const char *const bad[] = {"",	"0",  "9A", "A-", "A.", "A B",	   "A[",
					  "A@", "A`", "A{", "A/", "A:", "\xc3\xa4"};

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(request_env_name(good[i], strlen(good[i])));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(request_env_name(bad[i], strlen(bad[i])));
}

static void sta_4_strip_keeps_order_and_counts(void **state)
{
	static const char *const in[] = {"ENV=1", "A=1", "nonsense", "9=x",
					 "=x",	  "B=",	 "LD_X=",    "C=a=b"};
	struct strv env = {0};

	assert_int_equal(request_env_strip(&env), 0);
	for (size_t i = 0; i < ARRAY_LEN(in); i++)
		strv_add(&env, in[i]);
	assert_int_equal(request_env_strip(&env), 5);
	assert_int_equal(env.n, 3);
	assert_string_equal(env.v[0], "A=1");
	assert_string_equal(env.v[1], "B=");
	assert_string_equal(env.v[2], "C=a=b");
	assert_null(env.v[3]);
	assert_int_equal(request_env_strip(&env), 0);
	strv_done(&env);
	strv_add(&env, "ENV=x");
	assert_int_equal(request_env_strip(&env), 1);
	assert_int_equal(env.n, 0);
	assert_null(env.v[0]);
	strv_done(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_4_the_list_of_dangerous_names),
		cmocka_unit_test(sta_4_the_list_of_names_that_load_code),
		cmocka_unit_test(sta_4_names_of_variables),
		cmocka_unit_test(sta_4_strip_keeps_order_and_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
