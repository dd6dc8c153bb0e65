// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/wall.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void exe_1_every_wall_starts_absent_and_unasked(void **state)
{
	struct wall_report r;
	struct strv packed = {0};

	wall_report_init(&r);
	for (unsigned w = 0; w < WALLS; w++) {
		assert_int_equal(r.wall[w].state, WALL_ABSENT);
		assert_string_equal(r.wall[w].detail, "not asked for");
	}
	wall_pack(&r, &packed);
	assert_int_equal(packed.n, 0);
}

static void exe_1_names_are_those_of_the_interface(void **state)
{
	assert_string_equal(wall_name(WALL_user_namespace), "user_namespace");
	assert_string_equal(wall_name(WALL_env_filter), "env_filter");
	assert_string_equal(wall_name(WALL_process_separation), "process_separation");
	assert_string_equal(wall_state_name(WALL_ABSENT), "absent");
	assert_string_equal(wall_state_name(WALL_UP), "up");
	assert_string_equal(wall_state_name(WALL_PARTIAL), "partial");
	assert_string_equal(wall_state_name(WALL_UNAVAILABLE), "unavailable");
}

static void exe_1_what_was_set_survives_packing(void **state)
{
	struct wall_report r, back;
	struct strv packed = {0};
	struct err err = {0};

	wall_report_init(&r);
	wall_set(&r, WALL_user_namespace, WALL_UP, "mapped");
	wall_set(&r, WALL_seccomp, WALL_UP, "%d rules", 61);
	wall_set(&r, WALL_landlock, WALL_ABSENT, "the kernel has none");
	wall_set(&r, WALL_memory_limit, WALL_UNAVAILABLE, "a\tb");
	wall_pack(&r, &packed);
	assert_int_equal(packed.n, 4);
	assert_string_equal(packed.v[0], "user_namespace\tup\tmapped");
	assert_string_equal(packed.v[1], "seccomp\tup\t61 rules");
	assert_string_equal(packed.v[2], "landlock\tabsent\tthe kernel has none");
	assert_string_equal(packed.v[3], "memory_limit\tunavailable\ta b");

	wall_report_init(&back);
	wall_set(&back, WALL_pids_limit, WALL_PARTIAL, "kept");
	assert_int_equal(wall_unpack(&back, &packed, &err), 0);
	assert_int_equal(back.wall[WALL_seccomp].state, WALL_UP);
	assert_string_equal(back.wall[WALL_seccomp].detail, "61 rules");
	assert_string_equal(back.wall[WALL_landlock].detail, "the kernel has none");
	assert_int_equal(back.wall[WALL_memory_limit].state, WALL_UNAVAILABLE);
	assert_string_equal(back.wall[WALL_pids_limit].detail, "kept");
	strv_done(&packed);
}

static void exe_1_a_default_packed_again_is_still_absent(void **state)
{
	struct wall_report r;
	struct strv packed = {0};

	wall_report_init(&r);
	wall_set(&r, WALL_cpu_limit, WALL_UP, "not asked for");
	wall_pack(&r, &packed);
	assert_int_equal(packed.n, 1);
	strv_done(&packed);
}

static void exe_1_bad_entries_change_nothing(void **state)
{
	static const char *const bad[][2] = {
		{"seccomp", "wall entry without state or detail"},
		{"seccomp\tup", "wall entry without state or detail"},
		{"moat\tup\tdeep", "unknown wall 'moat'"},
		{"seccom\tup\t", "unknown wall 'seccom'"},
		{"seccompp\tup\t", "unknown wall 'seccompp'"},
		{"seccomp\tdown\tx", "unknown wall state 'down'"},
		{"seccomp\tu\tx", "unknown wall state 'u'"},
		{"", "wall entry without state or detail"},
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct wall_report r;
		struct strv in = {0};
		struct err err = {0};

		wall_report_init(&r);
		strv_add(&in, "landlock\tup\tABI 7");
		strv_add(&in, bad[i][0]);
		assert_int_equal(wall_unpack(&r, &in, &err), -E_BAD_REQUEST);
		assert_string_equal(err.message, bad[i][1]);
		assert_int_equal(r.wall[WALL_landlock].state, WALL_ABSENT);
		strv_done(&in);
	}
}

static void exe_1_a_detail_is_one_line_and_cut_between_characters(void **state)
{
	struct wall_report r;
	char text[300];
	const size_t most = sizeof(r.wall[0].detail) - 1;

	wall_report_init(&r);
	wall_set(&r, WALL_seccomp, WALL_UP,
		 "a\nb\x7f"
		 "c d~");
	assert_string_equal(r.wall[WALL_seccomp].detail, "a b c d~");

	memset(text, 'x', sizeof(text));
	text[most] = '\0';
	wall_set(&r, WALL_seccomp, WALL_UP, "%s", text);
	assert_string_equal(r.wall[WALL_seccomp].detail, text);

	strcpy(text + most - 1, "ä");
	wall_set(&r, WALL_seccomp, WALL_UP, "%s", text);
	assert_int_equal(strlen(r.wall[WALL_seccomp].detail), most - 1);
	strcpy(text + most - 2, "ä");
	wall_set(&r, WALL_seccomp, WALL_UP, "%s", text);
	assert_int_equal(strlen(r.wall[WALL_seccomp].detail), most);
}

static void exe_1_enforcement_is_an_array_with_every_wall(void **state)
{
	struct wall_report r;
	struct buf out = {0};
	struct jw w = JW(&out);
	json_t *doc = NULL;
	struct err err = {0};

	wall_report_init(&r);
	wall_set(&r, WALL_seccomp, WALL_PARTIAL, "61 \"rules\"");
	wall_format(&r, &w);
	assert_int_equal(json_parse(out.data, out.len, &doc, &err), 0);
	assert_int_equal(json_array_size(doc), WALLS);
	assert_string_equal(json_string_value(json_object_get(json_array_get(doc, 0), "wall")),
			    "user_namespace");
	assert_non_null(strstr(
		out.data,
		"{\"wall\":\"seccomp\",\"state\":\"partial\",\"detail\":\"61 \\\"rules\\\"\"}"));
	json_decref(doc);
	buf_done(&out);
}

/* SBX-5: one word stands for all namespaces, and for nothing else. */
static void sbx_5_a_word_for_all_namespaces(void **state)
{
	struct strv list = {0};

	assert_false(wall_listed(&list, WALL_user_namespace));
	strv_add(&list, "landlock");
	strv_add(&list, "pid_namespace");
	assert_true(wall_listed(&list, WALL_landlock));
	assert_true(wall_listed(&list, WALL_pid_namespace));
	assert_false(wall_listed(&list, WALL_mount_namespace));
	strv_add(&list, WALL_NAMESPACES);
	for (unsigned w = 0; w < WALLS; w++)
		assert_int_equal(wall_listed(&list, (enum wall)w),
				 w <= WALL_cgroup_namespace || w == WALL_landlock);
	strv_done(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_a_word_for_all_namespaces),
		cmocka_unit_test(exe_1_every_wall_starts_absent_and_unasked),
		cmocka_unit_test(exe_1_names_are_those_of_the_interface),
		cmocka_unit_test(exe_1_what_was_set_survives_packing),
		cmocka_unit_test(exe_1_a_default_packed_again_is_still_absent),
		cmocka_unit_test(exe_1_bad_entries_change_nothing),
		cmocka_unit_test(exe_1_a_detail_is_one_line_and_cut_between_characters),
		cmocka_unit_test(exe_1_enforcement_is_an_array_with_every_wall),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
