// SPDX-License-Identifier: Apache-2.0
#include "command/testkit/warden_testkit.h"

/* What is proposed for a program that is not there, with this PATH (NULL: the session's). */
static void expect(struct wkit *k, const char *name, const char *path, const char *want)
{
	struct wkit_command c = wkit_command(k);
	cleanup_buf struct buf got = {0};

	strv_add(&c.ask.argv, name);
	if (path != NULL)
		strv_env_set(&c.ask.env, "PATH", path);
	wkit_send(k, &c);
	wkit_wait(k, &c);
	buf_adds(&got, "");
	for (size_t i = 0; i < c.result.similar.n; i++)
		buf_addf(&got, "%s ", c.result.similar.v[i]);
	assert_string_equal(got.data, want);
	wkit_done(&c);
}

/* EXE-2: of each directory in which it was looked for the nearest that can be executed. */
static void exe_2_programs_of_a_similar_name(void **state)
{
	struct wkit *k = wkit_of(state);

	wkit_expect(
		k,
		"mkdir -p /tmp/a /tmp/b sub; cd /tmp; cp /bin/true a/builder; cp a/builder "
		"b/biulder; "
		"echo x > a/lettersx; ln -s /tmp/a /tmp/c; cp a/builder /workspace/sub/builder; "
		"cp a/builder builder",
		"", 0);
	expect(k, "bulider", "/tmp/a:/tmp/none:/tmp/b", "/tmp/a/builder /tmp/b/biulder ");
	expect(k, "bulider", "/tmp/a:/tmp/c:/tmp/a", "/tmp/a/builder ");
	expect(k, "lettersy", "/tmp/a", "");
	expect(k, "somethingelse", "/tmp/a", "");
	expect(k, "bulider", "", "");
	expect(k, "/tmp/b/builderr", NULL, "/tmp/b/biulder ");
	expect(k, "./bulider", NULL, "/tmp/builder ");
	expect(k, "/workspace/sub/bulider", NULL, "/workspace/sub/builder ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(exe_2_programs_of_a_similar_name, wkit_open,
						wkit_close),
	};

	return cmocka_run_group_tests_name("similar", tests, wkit_prepare, wkit_clean);
}
