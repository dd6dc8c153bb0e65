// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <stdio.h>

static void exe_1_others_do_not_find_it(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct caller other = k->who, admin = k->who;
	struct seen_by o = {0};
	struct command *c = NULL;
	struct err err = {0};

	kit_session(k, "s2");
	snprintf(other.agent_id, sizeof(other.agent_id), "agent-2");
	snprintf(admin.agent_id, sizeof(admin.agent_id), "root");
	admin.role = ROLE_ADMIN;
	request.command_id = kit_text("mine");
	kit_submit(k, "s1", &request, &o);
	for (int i = 0; i < 2; i++) { /* alive, then from its row */
		assert_int_equal(command_get(k->ss, &other, NULL, "mine", &c, &err), -E_NOT_FOUND);
		assert_int_equal(command_get(k->ss, &other, kit_get(k, "s1"), "mine", &c, &err),
				 -E_NOT_FOUND);
		assert_int_equal(command_get(k->ss, &k->who, kit_get(k, "s2"), "mine", &c, &err),
				 -E_NOT_FOUND);
		assert_string_equal(err.subject, "mine");
		assert_int_equal(command_get(k->ss, &k->who, NULL, "../mine", &c, &err),
				 -E_NOT_FOUND);
		assert_int_equal(command_get(k->ss, &k->who, NULL, "unknown", &c, &err),
				 -E_NOT_FOUND);
		assert_string_equal(err.message, "no command 'unknown'");
		assert_int_equal(command_get(k->ss, &admin, NULL, "mine", &c, &err), 0);
		assert_int_equal(command_get(k->ss, &admin, kit_get(k, "s1"), "mine", &c, &err), 0);
		assert_int_equal(command_get(k->ss, &k->who, NULL, "mine", &c, &err), 0);
		assert_string_equal(command_id(c), "mine");
		if (i == 0)
			fake_run(k, f, 0, "");
	}
	kit_seen_done(&o);
}

static void exe_1_commands_are_listed_in_pages(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct exec_request request = kit_request("true");
	struct seen_by o[3] = {0};
	static const char *const ids[] = {"c", "b", "a"};
	cleanup_buf struct buf one = {0}, two = {0};
	cleanup_free char *next = NULL;
	struct err err = {0};

	for (int i = 0; i < 3; i++) {
		request.command_id = kit_text(ids[i]);
		kit_submit(k, "s1", &request, &o[i]);
	}
	fake_take_exec(f);
	fake_finish(k, f, 0, "");
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(command_list(kit_get(k, "s1"), NULL, 2, &JW(&one), &err), 0);
	assert_at(&one, "commands.0.command_id", "c");
	assert_at(&one, "commands.0.state", "finished");
	assert_at(&one, "commands.1.command_id", "b");
	assert_at(&one, "commands.1.state", "running");
	next = kit_at(&one, "next");
	assert_int_equal(command_list(kit_get(k, "s1"), next, 2, &JW(&two), &err), 0);
	assert_at(&two, "commands.0.command_id", "a");
	assert_at(&two, "commands.0.state", "queued");
	assert_at(&two, "next", "");
	assert_int_equal(command_list(kit_get(k, "s1"), "-1", 2, &JW(&two), &err), -E_BAD_REQUEST);
	kit_seen_done(&o[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(exe_1_others_do_not_find_it),
		TEST(exe_1_commands_are_listed_in_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
