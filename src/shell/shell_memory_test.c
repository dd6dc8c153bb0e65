// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "shell/shell_memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct strv list(const char *const *v)
{
	struct strv s = {0};

	for (; *v != NULL; v++)
		strv_add(&s, *v);
	return s;
}
#define LIST(...) list((const char *const[]){__VA_ARGS__, NULL})

static void expect(struct strv *got, const char *const *want)
{
	size_t i = 0;

	for (; want[i] != NULL; i++) {
		assert_true(i < got->n);
		assert_string_equal(got->v[i], want[i]);
	}
	assert_int_equal(got->n, i);
	strv_done(got);
}
#define EXPECT(got, ...) expect(got, (const char *const[]){__VA_ARGS__, NULL})

static struct shell_memory make(struct strv env)
{
	struct shell_memory m;

	shell_memory_init(&m, &env, "/workspace", 1000);
	strv_done(&env);
	return m;
}

/* STA-4: what is dangerous or ours does not come in. */
static void sta_4_a_session_begins_clean(void **state)
{
	struct shell_memory m = make(LIST("A=1", "LD_PRELOAD=x", "PWD=/x", "_=y", "SHLVL=3", "B="));

	EXPECT(&m.env, "A=1", "B=");
	assert_string_equal(m.cwd, "/workspace");
	assert_null(m.oldpwd);
	shell_memory_done(&m);
}

/* SHM-3: a variable shows every process that it is in a session; PWD and HOME are set. */
static void shm_3_the_environment_of_a_command(void **state)
{
	struct shell_memory m = make(LIST("A=1", "B=2"));
	struct strv request = LIST("B=3", "BASH_ENV=/x", "AGENTSH_IN_SESSION=0", "C=4", "PWD=/no");
	const struct env_ask plain = {"s-1", "/here", NULL}, own = {"s-1", "/here", &request};
	struct strv out = {0};

	env_build(&m, &plain, &out);
	EXPECT(&out, "A=1", "B=2", "HOME=/home/agent", "AGENTSH_IN_SESSION=1",
	       "AGENTSH_SESSION_ID=s-1", "PWD=/here");
	env_chdir(&m, "/new");
	assert_int_equal(env_set(&m, "HOME", "/root", NULL), 0);
	env_build(&m, &own, &out);
	EXPECT(&out, "A=1", "B=3", "HOME=/root", "C=4", "AGENTSH_IN_SESSION=1",
	       "AGENTSH_SESSION_ID=s-1", "PWD=/here", "OLDPWD=/workspace");
	strv_done(&request);
	shell_memory_done(&m);
}

/* STA-3: only what the shell changed is taken; what was only this command's stays out. */
static void sta_3_the_difference_is_taken(void **state)
{
	struct shell_memory m = make(LIST("A=1", "B=2", "C=3"));
	struct strv request = LIST("B=own", "X=own", "Y=own");
	const struct env_ask ask = {"s-1", "/workspace", &request};
	struct strv given = {0}, before = {0}, names = {0};
	struct strv captured = LIST("A=1", "B=own", "N=new", "Y=other", "HOME=/home/agent", "_=x",
				    "SHLVL=1", "PWD=/p", "OLDPWD=/o", "LD_AUDIT=x", "__agentsh_h=x",
				    "AGENTSH_IN_SESSION=9", "AGENTSH_SESSION_ID=s-1");

	env_build(&m, &ask, &given);
	strv_copy(&before, &m.env);
	assert_int_equal(env_apply(&m, &given, &captured, NULL), 0);
	env_changes(&before, &m.env, &names);
	/* C and X were unset; X was never the session's. */
	EXPECT(&names, "N", "Y", "C");
	EXPECT(&m.env, "A=1", "B=2", "N=new", "Y=other");
	assert_string_equal(m.oldpwd, "/o");
	strv_done(&given);
	strv_done(&before);
	strv_done(&request);
	strv_done(&captured);
	shell_memory_done(&m);
}

/* STA-3: OLDPWD is the shell's only if the shell moved. */
static void sta_3_oldpwd_of_the_shell(void **state)
{
	static const struct {
		const char *given, *captured, *after;
	} rows[] = {{"OLDPWD=/g", "OLDPWD=/g", "/kept"},
		    {"OLDPWD=/g", "OLDPWD=/c", "/c"},
		    {"Z=", "OLDPWD=/c", "/c"},
		    {"Z=", "OLDPWD=relative", "/kept"},
		    {"OLDPWD=/g", "Z=", "/kept"}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct shell_memory m = make(LIST("Z="));
		struct strv given = LIST(rows[i].given), captured = LIST(rows[i].captured);

		m.oldpwd = mem_strdup("/kept");
		assert_int_equal(env_apply(&m, &given, &captured, NULL), 0);
		assert_string_equal(m.oldpwd, rows[i].after);
		strv_done(&given);
		strv_done(&captured);
		shell_memory_done(&m);
	}
}

/* STA-5: a capture over the limits changes nothing. */
static void sta_5_limits_are_exact(void **state)
{
	struct shell_memory m = make(LIST("A=1"));
	struct strv given = LIST("A=1"), captured = {0};
	struct err err = {0};

	m.env_max = 8;
	captured = LIST("A=1", "BB=");
	assert_int_equal(env_apply(&m, &given, &captured, &err), 0);
	strv_done(&captured);
	captured = LIST("A=1", "BB=", "C=");
	strv_done(&given);
	given = LIST("A=1", "BB=");
	assert_int_equal(env_apply(&m, &given, &captured, &err), -E_TOO_LARGE);
	strv_done(&captured);
	assert_int_equal(m.env.n, 2);
	assert_int_equal(env_set(&m, "A", "", &err), 0);  /* 7 bytes */
	assert_int_equal(env_set(&m, "A", "2", &err), 0); /* 8 */
	assert_int_equal(env_set(&m, "A", "23", &err), -E_TOO_LARGE);
	assert_int_equal(env_set(&m, "LD_PRELOAD", "long enough", &err), 0);
	assert_int_equal(env_set(&m, "PWD", "long enough", &err), 0);
	EXPECT(&m.env, "A=2", "BB=");
	m.env_max = 1 << 20;
	for (int i = 0; i < ENV_VARS_MAX; i++) {
		char name[32];

		snprintf(name, sizeof(name), "V%d", i);
		assert_int_equal(env_set(&m, name, "", &err), 0);
	}
	assert_int_equal(env_set(&m, "ONE_MORE", "", &err), -E_TOO_LARGE);
	assert_int_equal(env_set(&m, "V0", "x", &err), 0);
	strv_copy(&captured, &m.env);
	assert_int_equal(env_apply(&m, &given, &captured, &err), 0);
	strv_add(&captured, "ONE_MORE=");
	assert_int_equal(env_apply(&m, &given, &captured, &err), -E_TOO_LARGE);
	strv_done(&captured);
	strv_done(&given);
	shell_memory_done(&m);
}

static void sta_1_names(void **state)
{
	assert_true(env_name_valid("a", 1));
	assert_true(env_name_valid("_A9", 3));
	assert_false(env_name_valid("9a", 2));
	assert_false(env_name_valid("", 0));
	assert_false(env_name_valid("a-b", 3));
	assert_true(env_name_valid("a-b", 1));
}

static void sta_1_the_history_is_bounded(void **state)
{
	struct shell_memory m = make(LIST("A=1"));
	char line[HISTORY_LINE_MAX + 10];

	for (int i = 1; i <= HISTORY_MAX; i++) {
		snprintf(line, sizeof(line), "line %d", i);
		shell_memory_remember(&m, line);
	}
	assert_int_equal(m.history_base, 1);
	assert_string_equal(m.history.v[0], "line 1");
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	shell_memory_remember(&m, line);
	assert_int_equal(m.history.n, HISTORY_MAX);
	assert_int_equal(m.history_base, 2);
	assert_string_equal(m.history.v[0], "line 2");
	assert_int_equal(strlen(m.history.v[HISTORY_MAX - 1]), HISTORY_LINE_MAX);
	shell_memory_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_4_a_session_begins_clean),
		cmocka_unit_test(shm_3_the_environment_of_a_command),
		cmocka_unit_test(sta_3_the_difference_is_taken),
		cmocka_unit_test(sta_3_oldpwd_of_the_shell),
		cmocka_unit_test(sta_5_limits_are_exact),
		cmocka_unit_test(sta_1_names),
		cmocka_unit_test(sta_1_the_history_is_bounded),
	};

	return cmocka_run_group_tests_name("env", tests, NULL, NULL);
}
