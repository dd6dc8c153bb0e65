// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "base/proc.h"
#include "spawn/capture.h"
#include <stdio.h>
#include <sys/wait.h>

#define MAX 1024
/* A string literal with its NULs as one datagram. */
#define FEED(c, text) capture_feed(c, text, sizeof(text) - 1, MAX, &err)

static struct err err;

static void sta_3_a_whole_capture_comes_back(void **state)
{
	struct capture c = {0};
	struct strv env = {0};
	char *cwd = NULL;

	assert_int_equal(FEED(&c, "EA=1\0B=two"), 0);
	assert_int_equal(FEED(&c, "E three\0C=\0BASH_FUNC_f%%=() { :; }\0"), 0);
	assert_int_equal(FEED(&c, "D/work"), 0);
	assert_int_equal(FEED(&c, "Dspace"), 0);
	assert_int_equal(FEED(&c, "F"), 0);
	assert_true(c.ended);
	assert_int_equal(capture_finish(&c, &env, &cwd, &err), 0);
	assert_int_equal(env.n, 4);
	assert_string_equal(env.v[0], "A=1");
	assert_string_equal(env.v[1], "B=two three");
	assert_string_equal(env.v[2], "C=");
	assert_string_equal(env.v[3], "BASH_FUNC_f%%=() { :; }");
	assert_null(env.v[4]);
	assert_string_equal(cwd, "/workspace");
	free(cwd);
	strv_done(&env);
	capture_done(&c);
	assert_false(c.ended);
	assert_null(c.env.data);
}

static void sta_3_an_empty_environment_is_one(void **state)
{
	struct capture c = {0};
	struct strv env = {0};
	char *cwd = NULL;

	assert_int_equal(FEED(&c, "D/"), 0);
	assert_int_equal(FEED(&c, "F"), 0);
	assert_int_equal(capture_finish(&c, &env, &cwd, &err), 0);
	assert_int_equal(env.n, 0);
	assert_string_equal(cwd, "/");
	free(cwd);
	capture_done(&c);
}

/* Datagrams, ended by one without bytes; feeding or finishing them must fail with this code. */
struct datagram {
	const char *bytes;
	size_t len;
};
#define D(text)                        \
	{                              \
		text, sizeof(text) - 1 \
	}

static void expect_refused(const struct datagram *d, enum err_code code)
{
	struct capture c = {0};
	struct strv env = {0};
	char *cwd = NULL;
	int r = 0;

	for (; r == 0 && d->bytes != NULL; d++)
		r = capture_feed(&c, d->bytes, d->len, MAX, &err);
	if (r == 0)
		r = capture_finish(&c, &env, &cwd, &err);
	assert_int_equal(r, -(int)code);
	assert_int_equal(err.code, code);
	assert_int_equal(env.n, 0);
	assert_null(cwd);
	capture_done(&c);
}

static void sta_5_what_is_forged_or_cut_is_refused(void **state)
{
	static const struct datagram rows[][6] = {
		{D("EA=1\0"), D("D/"), {0}},		      /* no end */
		{{0}},					      /* nothing at all */
		{D("EA=1\0"), D("F"), {0}},		      /* no directory */
		{D("EA=1\0"), D("Dworkspace"), D("F"), {0}},  /* relative */
		{D("EA=1\0"), D("D/a\0b"), D("F"), {0}},      /* NUL in the directory */
		{D("EA=1\0B=2"), D("D/"), D("F"), {0}},	      /* cut */
		{D("EA=1\0B\0"), D("D/"), D("F"), {0}},	      /* no value */
		{D("E=1\0"), D("D/"), D("F"), {0}},	      /* no name */
		{D("EA=1\0\0"), D("D/"), D("F"), {0}},	      /* an empty string */
		{D("EA=1\0A=1\0"), D("D/"), D("F"), {0}},     /* twice, the same */
		{D("EA=1\0B=\0A=2\0"), D("D/"), D("F"), {0}}, /* twice, not side by side */
		{D("D/"), D("EA=1\0"), D("F"), {0}},	      /* wrong order */
		{D("D/"), D("F"), D("F"), {0}},		      /* two ends */
		{D("D/"), D("F"), D("EA=1\0"), {0}},	      /* more after the end */
		{D("D/"), D("Fx"), {0}},		      /* an end with contents */
		{D("X"), {0}},				      /* unknown kind */
		{D("A"), {0}},				      /* the answer's kind */
		{{"", 0}, {0}},				      /* an empty datagram */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_refused(rows[i], E_BAD_REQUEST);
}

static void sta_5_names_that_begin_alike_are_different(void **state)
{
	struct capture c = {0};
	struct strv env = {0};
	char *cwd = NULL;

	assert_int_equal(FEED(&c, "EAB=1\0A=1\0ABC=1\0A.=1\0AB2=1\0"), 0);
	assert_int_equal(FEED(&c, "D/"), 0);
	assert_int_equal(FEED(&c, "F"), 0);
	assert_int_equal(capture_finish(&c, &env, &cwd, &err), 0);
	assert_int_equal(env.n, 5);
	free(cwd);
	strv_done(&env);
	capture_done(&c);
}

/* STA-5: the sum of both parts counts, and max itself still fits. */
static void sta_5_size_is_bounded(void **state)
{
	char datagram[MAX + 2];
	struct capture c = {0};

	memset(datagram, 'x', sizeof(datagram));
	datagram[0] = CAPTURE_ENV;
	assert_int_equal(capture_feed(&c, datagram, MAX + 2, MAX, &err), -E_TOO_LARGE);
	assert_int_equal(capture_feed(&c, datagram, MAX + 1, MAX, &err), 0);
	assert_int_equal(c.env.len, MAX);
	assert_int_equal(FEED(&c, "D/"), -E_TOO_LARGE);
	assert_int_equal(FEED(&c, "F"), 0);
	capture_done(&c);

	assert_int_equal(capture_feed(&c, datagram, MAX, MAX, &err), 0);
	assert_int_equal(FEED(&c, "D/"), 0);
	assert_int_equal(FEED(&c, "Dx"), -E_TOO_LARGE);
	assert_int_equal(c.cwd.len, 1);
	capture_done(&c);
}

static void sta_5_many_variables_are_checked_in_time(void **state)
{
	cleanup_buf struct buf text = {0};
	struct capture c = {0};
	struct strv env = {0};
	char *cwd = NULL;

	buf_addc(&text, CAPTURE_ENV);
	for (int i = 0; i < 60000; i++) {
		buf_addf(&text, "%x=", (unsigned)i);
		buf_addc(&text, '\0');
	}
	assert_int_equal(capture_feed(&c, text.data, text.len, SIZE_MAX, &err), 0);
	assert_int_equal(FEED(&c, "D/"), -E_TOO_LARGE);
	assert_int_equal(capture_feed(&c, "D/", 2, SIZE_MAX, &err), 0);
	assert_int_equal(capture_feed(&c, "F", 1, SIZE_MAX, &err), 0);
	assert_int_equal(capture_finish(&c, &env, &cwd, &err), 0);
	assert_int_equal(env.n, 60000);
	free(cwd);
	strv_done(&env);
	capture_done(&c);
}

/* STA-6, STA-5: outside a session there is no warden. As a child of the shell the program fails; in
 * the shell's place it ends with the shell's status all the same. */
static void sta_6_nobody_listens_outside_a_session(void **state)
{
	static const struct {
		const char *args;
		int status;
	} rows[] = {{"", 1}, {" 0", 0}, {" 7", 7}, {" 255", 255}};
	const char *build = getenv("AGENTSH_BUILD_DIR");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *command =
			mem_printf("exec env -i '%s/agentsh-state'%s",
				   build != NULL ? build : proc_self_dir(), rows[i].args);
		int status;

		if (access(CAPTURE_SOCKET, F_OK) == 0) {
			print_message("# skipped: the test itself runs in a session\n");
			skip();
		}
		status = system(command);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), rows[i].status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sta_3_a_whole_capture_comes_back),
		cmocka_unit_test(sta_3_an_empty_environment_is_one),
		cmocka_unit_test(sta_5_what_is_forged_or_cut_is_refused),
		cmocka_unit_test(sta_5_names_that_begin_alike_are_different),
		cmocka_unit_test(sta_5_size_is_bounded),
		cmocka_unit_test(sta_5_many_variables_are_checked_in_time),
		cmocka_unit_test(sta_6_nobody_listens_outside_a_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
