// SPDX-License-Identifier: Apache-2.0
#include "session/session_env.h"
#include "session/testkit/session_testkit.h"

static struct strv list(char **v, size_t n)
{
	return (struct strv){v, n};
}
#define LIST(...) list((char *[]){__VA_ARGS__, NULL}, ARRAY_LEN(((char *[]){__VA_ARGS__})))
#define T(s) ((char *)(s))

static void sta_4_the_servers_own_environment_stays_outside(void **state)
{
	struct config config = {.env_allow = LIST(T("PATH"), T("SECRET"), T("TER*"))};
	struct strv env = {0};

	setenv("PATH", "/evil", 1);
	setenv("SECRET", "x", 1);
	session_env(&config, &(struct strv){0}, &env);
	assert_string_equal(strv_env_get(&env, "PATH"),
			    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	assert_null(strv_env_get(&env, "SECRET"));
	assert_string_equal(strv_env_get(&env, "TERM"), "dumb");
	assert_null(strv_env_get(&env, "LANG"));
	assert_int_equal(env.n, 2);
	strv_done(&env);
}

static void sta_4_an_allowed_name_is_not_a_beginning(void **state)
{
	struct config config = {.env_allow = LIST(T("LANGUAGE"), T("TER"), T(""))};
	struct strv env = {0};

	session_env(&config, &(struct strv){0}, &env);
	assert_int_equal(env.n, 0);
	config.env_allow = LIST(T("*"));
	session_env(&config, &(struct strv){0}, &env);
	assert_int_equal(env.n, 6);
	strv_done(&env);
}

static void sta_4_the_client_comes_last_and_nothing_dangerous_comes_in(void **state)
{
	struct config config = {.env_allow = LIST(T("LANG"), T("TZ")),
				.env_set = LIST(T("A=config"), T("B=config"), T("LD_AUDIT=x"))};
	struct strv asked = LIST(T("B=client"), T("TZ=CET"), T("BASH_ENV=x"), T("malformed"));
	struct strv env = {0};

	session_env(&config, &asked, &env);
	assert_string_equal(strv_env_get(&env, "A"), "config");
	assert_string_equal(strv_env_get(&env, "B"), "client");
	assert_string_equal(strv_env_get(&env, "TZ"), "CET");
	assert_string_equal(strv_env_get(&env, "LANG"), "C.UTF-8");
	assert_int_equal(env.n, 4);
	strv_done(&env);
}

static void sta_3_an_environment_survives_its_row(void **state)
{
	struct strv env = LIST(T("A=1=2"), T("EMPTY="), T("NEW=a\nb\"c")), back = {0};
	cleanup_buf struct buf b = {0};
	struct err err = {0};

	env_format(&env, &JW(&b));
	assert_string_equal(b.data, "{\"A\":\"1=2\",\"EMPTY\":\"\",\"NEW\":\"a\\nb\\\"c\"}");
	assert_int_equal(env_parse(b.data, &back, &err), 0);
	assert_int_equal(back.n, 3);
	assert_string_equal(strv_env_get(&back, "A"), "1=2");
	assert_string_equal(strv_env_get(&back, "EMPTY"), "");
	assert_string_equal(strv_env_get(&back, "NEW"), "a\nb\"c");
	strv_done(&back);
	assert_int_equal(env_parse("{\"A\":1}", &back, &err), -E_BAD_REQUEST);
	assert_int_equal(env_parse("[", &back, &err), -E_BAD_REQUEST);
	assert_int_equal(back.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_4_the_servers_own_environment_stays_outside),
		cmocka_unit_test(sta_4_an_allowed_name_is_not_a_beginning),
		cmocka_unit_test(sta_4_the_client_comes_last_and_nothing_dangerous_comes_in),
		cmocka_unit_test(sta_3_an_environment_survives_its_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
