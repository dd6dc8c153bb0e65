// SPDX-License-Identifier: Apache-2.0
/* The file-system lists: their values, their other names, and lists that exclude each other. */
#include "config/testkit/config_testkit.h"

static void fil_6_without_lists_the_system_is_seen(void **state)
{
	const struct config *c = *state;

	assert_int_equal(c->monitored_paths.n, 1);
	assert_string_equal(c->monitored_paths.v[0], "/workspace");
	assert_int_equal(c->read_only_paths.n, 9);
	assert_string_equal(c->read_only_paths.v[0], "/usr");
	assert_int_equal(c->passthrough_paths.n, 0);
	assert_int_equal(c->blocked_paths.n, 0);
	assert_false(c->root_inside);
	assert_int_equal(config_check(c, NULL), 0);
}

static void fil_6_only_plain_paths_apart_from_the_machine(void **state)
{
	static const struct {
		const char *path;
		bool shown, blocked;
	} rows[] = {
		{"/srv", true, true},
		{"/srv/a.b/..c/...", true, true},
		{"/procs", true, true},
		{"/devel", true, true},
		{"/run/agentshell", true, true},
		{"/run/other", true, true},
		{"/proc", false, true},
		{"/proc/sys", false, true},
		{"/sys", false, true},
		{"/dev", false, true},
		{"/dev/shm", false, true},
		{"/run/agentsh", false, false},
		{"/run/agentsh/bin", false, false},
		{"/run", false, false},
		{"/", false, false},
		{"//", false, false},
		{"/srv/", false, false},
		{"/srv//a", false, false},
		{"/srv/.", false, false},
		{"/srv/..", false, false},
		{"/./srv", false, false},
		{"/../srv", false, false},
		{"srv", false, false},
	};
	static const char *const keys[] = {
		"filesystem.monitored_paths", "filesystem.read_only_passthrough_paths",
		"filesystem.passthrough_paths", "filesystem.blocked_paths"};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
			cleanup_free char *text = mem_printf("%s=%s", keys[k], rows[i].path);
			/* the session's own */
			const bool own = k == 2 && (strcmp(rows[i].path, "/proc") == 0 ||
						    strcmp(rows[i].path, "/sys") == 0 ||
						    strcmp(rows[i].path, "/dev") == 0);
			const bool good = k == 3 ? rows[i].blocked : rows[i].shown || own;

			if (config_override(text, *state, NULL) != (good ? 0 : -E_BAD_REQUEST))
				fail_msg("%s", text);
		}
}

/* As the specification prints it. */
static void fil_6_machine_directories_that_are_passed_are_the_sessions_own(void **state)
{
	static const char file[] =
		"monitoring: {full_monitor: [/workspace], read_only_passthrough: "
		"[/usr, /lib, /opt], passthrough: [/dev, /srv, /proc, /sys]}";
	struct config *c = *state;

	assert_int_equal(config_parse("c", file, sizeof(file) - 1, c, NULL, NULL), 0);
	assert_int_equal(config_check(c, NULL), 0);
	assert_int_equal(c->passthrough_paths.n, 1);
	assert_string_equal(c->passthrough_paths.v[0], "/srv");
}

static void fil_6_a_default_gives_way_to_a_list_that_was_given(void **state)
{
	static const char file[] = "filesystem: {passthrough_paths: [/opt, /srv]}";
	static const char both[] = "filesystem: {passthrough_paths: [/opt], "
				   "read_only_passthrough_paths: [/usr, /opt]}";
	struct config *c = *state;

	assert_int_equal(kit_parse(c, file, NULL, NULL), 0);
	assert_int_equal(config_check(c, NULL), 0);
	assert_int_equal(c->read_only_paths.n, 8);
	assert_false(strv_has(&c->read_only_paths, "/opt"));
	assert_true(strv_has(&c->read_only_paths, "/usr"));
	/* an override says otherwise, and the default is whole again */
	assert_int_equal(config_override("filesystem.passthrough_paths=/srv", c, NULL), 0);
	assert_true(strv_has(&c->read_only_paths, "/opt"));
	assert_int_equal(config_override("filesystem.monitored_paths=/workspace,/usr", c, NULL), 0);
	assert_int_equal(config_check(c, NULL), 0);
	assert_false(strv_has(&c->read_only_paths, "/usr"));
	assert_int_equal(
		config_override("filesystem.read_only_passthrough_paths=/workspace", c, NULL), 0);
	assert_true(strv_has(&c->monitored_paths, "/workspace"));
	/* two lists that were given do not */
	assert_int_equal(kit_parse(c, both, NULL, NULL), 0);
	assert_int_equal(config_check(c, NULL), -E_BAD_REQUEST);
}

static void fil_6_lists_have_other_names(void **state)
{
	static const char file[] =
		"monitoring:\n  full_monitor: [/a]\n  read_only_passthrough: [/b]\n"
		"  passthrough: [/c]\n";
	static const char both[] = "monitoring:\n  passthrough: [/c]\nfilesystem:\n"
				   "  passthrough_paths: [/d]\n";
	struct config *c = *state;
	struct err err = {0};

	assert_int_equal(config_parse("c", file, sizeof(file) - 1, c, NULL, NULL), 0);
	assert_string_equal(c->monitored_paths.v[0], "/a");
	assert_string_equal(c->read_only_paths.v[0], "/b");
	assert_string_equal(c->passthrough_paths.v[0], "/c");
	assert_int_equal(config_parse("c", both, sizeof(both) - 1, c, NULL, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "is another name of a key that was given"));
	assert_string_equal(c->passthrough_paths.v[0], "/c");
}

static void fil_6_a_path_is_in_one_list_only(void **state)
{
	static const struct {
		const char *monitored, *shut, *open;
		const char *wrong; /* the key, or NULL */
	} rows[] = {
		{"/a", "/b", "/c", NULL},
		{"/a,/b", "/a/b", "/ab", NULL},
		{"/workspace", "/usr,/workspace", "/workspace", NULL},
		{"/a", "/x,/a", "/c", "filesystem.read_only_passthrough_paths"},
		{"/a", "/c", "/b,/c", "filesystem.read_only_passthrough_paths"},
		{"/a", "/b", "/c,/a", "filesystem.passthrough_paths"},
	};
	struct config *c = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *a =
			mem_printf("filesystem.monitored_paths=%s", rows[i].monitored);
		cleanup_free char *b =
			mem_printf("filesystem.read_only_passthrough_paths=%s", rows[i].shut);
		cleanup_free char *o = mem_printf("filesystem.passthrough_paths=%s", rows[i].open);
		struct err err = {0};

		assert_int_equal(config_override(a, c, NULL), 0);
		assert_int_equal(config_override(b, c, NULL), 0);
		assert_int_equal(config_override(o, c, NULL), 0);
		if (rows[i].wrong == NULL) {
			assert_int_equal(config_check(c, &err), 0);
			continue;
		}
		assert_int_equal(config_check(c, &err), -E_BAD_REQUEST);
		assert_string_equal(err.subject, rows[i].wrong);
	}
}

/* Bounded in all, since they are handed on with every session. */
static void fil_6_lists_are_bounded(void **state)
{
	cleanup_buf struct buf list = {0};
	cleanup_free char *more = NULL;

	buf_adds(&list, "filesystem.blocked_paths=");
	for (int i = 0; i < 16; i++) /* 2048 bytes each, with an end */
		buf_addf(&list, "%s/%0*d", i > 0 ? "," : "", 2046, 0);
	assert_int_equal(config_override(list.data, *state, NULL), 0);
	more = mem_printf("%s0", list.data);
	assert_int_equal(config_override(more, *state, NULL), -E_BAD_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(fil_6_without_lists_the_system_is_seen),
		KIT_TEST(fil_6_only_plain_paths_apart_from_the_machine),
		KIT_TEST(fil_6_a_default_gives_way_to_a_list_that_was_given),
		KIT_TEST(fil_6_machine_directories_that_are_passed_are_the_sessions_own),
		KIT_TEST(fil_6_lists_have_other_names),
		KIT_TEST(fil_6_a_path_is_in_one_list_only),
		KIT_TEST(fil_6_lists_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
