// SPDX-License-Identifier: Apache-2.0
#include "session/testkit/fake_warden_testkit.h"
#include "session/testkit/record_testkit.h"

/* One that is refused at once. */
static struct told patch(struct kit *k, const struct session_request *request)
{
	struct told t = {0};

	session_patch(kit_get(k, "s1"), &k->who, request, kit_told, &t);
	kit_turn(k);
	return t;
}

static void ses_1_environment_is_merged_by_the_warden(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	char *env[] = {kit_text("A=1"), kit_text("BASH_ENV=x"), NULL};
	char *after[] = {kit_text("A=1"), kit_text("LANG=C"), NULL};
	char *gone[] = {kit_text("OLD"), NULL};
	struct session_request request = {
		.environment = {env, 2}, .unset = {gone, 1}, .has_environment = true};
	struct told t = {0};
	struct warden_patch m;
	struct link_msg msg;
	cleanup_buf struct buf r = {0};

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	kit_recv(&f->link, MSG_warden_patch, &m, &msg);
	assert_int_equal(m.set.n, 1);
	assert_string_equal(m.set.v[0], "A=1");
	assert_int_equal(m.unset.n, 1);
	assert_string_equal(m.unset.v[0], "OLD");
	assert_null(m.cwd);
	assert_int_equal(m.command_timeout_ms, 300000);
	msg_done(MSG_warden_patch, &m);
	assert_int_equal(t.n, 0);
	k->clock.fixed_us += 5;
	fake_state(k, f, "/workspace", &(struct strv){after, 2});
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_OK);
	assert_events(k, "s1", "session_created session_state:ready session_updated");
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "environment", "{\"A\":\"1\",\"LANG\":\"C\"}");
	assert_at(&r, "last_activity", "2027-01-15T08:00:00.000005Z");
}

static void ses_1_the_directory_is_tried_first(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	char *env[] = {kit_text("A=1"), NULL};
	struct session_request request = {.environment = {env, 1},
					  .working_dir = kit_text("src/./x/.."),
					  .limits.value[LIMIT_session_timeout] = 1000};
	struct told t = {0};
	struct warden_patch m;
	struct link_msg msg;

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	kit_recv(&f->link, MSG_warden_patch, &m, &msg);
	assert_string_equal(m.cwd, "/workspace/src");
	assert_int_equal(m.set.n, 0);
	msg_done(MSG_warden_patch, &m);
	kit_recv_nothing(&f->link);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_session_timeout],
			 4 * 3600 * 1000);
	fake_state(k, f, "/workspace/src", &(struct strv){0});
	assert_int_equal(t.n, 0);
	kit_skip(&f->link, MSG_warden_patch);
	fake_state(k, f, "/workspace/src", &(struct strv){0});
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_OK);
	assert_string_equal(kit_get(k, "s1")->cwd, "/workspace/src");
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_session_timeout], 1000);
}

static void ses_1_a_directory_that_is_not_there_changes_nothing(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request request = {.working_dir = kit_text("/nowhere"),
					  .limits.value[LIMIT_session_timeout] = 1000};
	struct told t = {0};

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	kit_skip(&f->link, MSG_warden_patch);
	fake_state(k, f, "/workspace", &(struct strv){0});
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_BAD_REQUEST);
	assert_string_equal(t.err.details[0].field, "working_dir");
	kit_recv_nothing(&f->link);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_session_timeout],
			 4 * 3600 * 1000);
	assert_events(k, "s1", "session_created session_state:ready");
}

static void ses_1_names_of_the_same_directory_are_no_failure(void **state)
{
	static const char *const same[] = {"/workspace", ".", "/../workspace/./", "a/..",
					   "../workspace"};
	static const char *const root[] = {"/", "..", "../../.."};
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");

	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		struct session_request request = {.working_dir = kit_text(same[i])};
		struct told t = {0};

		session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, "/workspace", &(struct strv){0});
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, "/workspace", &(struct strv){0});
		assert_int_equal(t.err.code, E_OK);
	}
	for (size_t i = 0; i < ARRAY_LEN(root); i++) {
		struct session_request request = {.working_dir = kit_text(root[i])};
		struct told t = {0};

		session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, "/", &(struct strv){0});
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, "/", &(struct strv){0});
		assert_int_equal(t.err.code, E_OK);
	}
}

/* The warden answers with the path by which the session sees it. */
static void ses_1_a_directory_of_the_workspace_by_either_path(void **state)
{
	static const struct {
		const char *asked, *answered;
		enum err_code code;
	} rows[] = {
		{"/srv/real/src", "/workspace/src", E_OK},
		{"/srv/real/src", "/workspace/src", E_OK}, /* it was there before */
		{"/workspace/src", "/workspace/src", E_OK},
		{"/srv/real/gone", "/workspace/src", E_BAD_REQUEST},
		{"/srv/reals", "/workspace/src", E_BAD_REQUEST},
		{"/srv/real", "/workspace", E_OK},
	};
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct session_request request = {.working_dir = kit_text(rows[i].asked)};
		struct told t = {0};

		session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, rows[i].answered, &(struct strv){0});
		if (rows[i].code == E_OK) {
			kit_skip(&f->link, MSG_warden_patch);
			fake_state(k, f, rows[i].answered, &(struct strv){0});
		}
		assert_int_equal(t.n, 1);
		assert_int_equal(t.err.code, rows[i].code);
		assert_string_equal(kit_get(k, "s1")->cwd, rows[i].answered);
	}
}

static void ses_5_limits_only_become_narrower(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request wider = {.limits.value[LIMIT_session_timeout] = 4 * 3600 * 1000 + 1,
					.limits.value[LIMIT_idle_timeout] = 30 * 60 * 1000,
					.limits.value[LIMIT_command_timeout] = 300001,
					.limits.value[LIMIT_max_memory_mb] = 11};
	struct session_request narrower = {.limits.value[LIMIT_session_timeout] = 4 * 3600 * 1000,
					   .limits.value[LIMIT_command_timeout] = 299999,
					   .limits.value[LIMIT_max_memory_mb] = 10,
					   .limits.value[LIMIT_pids_max] = 5,
					   .limits.value[LIMIT_max_commands] = 9};
	struct warden_patch m;
	struct link_msg msg;
	struct told t;
	cleanup_buf struct buf r = {0};

	kit_get(k, "s1")->config.limits.value[LIMIT_max_memory_mb] = 10;
	for (int i = 0; i < 2; i++) {
		cleanup_buf struct buf shown = {0};

		t = (struct told){0};
		session_patch(kit_get(k, "s1"), &k->who, &wider, kit_told, &t);
		kit_recv_nothing(&k->launcher);
		kit_recv(&f->link, MSG_warden_patch, &m, &msg);
		assert_int_equal(m.command_timeout_ms, 300000);
		msg_done(MSG_warden_patch, &m);
		fake_state(k, f, "/workspace", &(struct strv){0});
		assert_int_equal(t.n, 1);
		assert_int_equal(t.err.code, E_OK);
		session_format(kit_get(k, "s1"), &JW(&shown));
		assert_at(&shown, "config.timeout", "4h");
		assert_at(&shown, "config.idle_timeout", "30m");
		assert_at(&shown, "config.resource_limits.max_memory_mb", "10");
		assert_at(&shown, "capped",
			  "[\"timeout\",\"resource_limits.max_memory_mb\","
			  "\"resource_limits.command_timeout\"]");
	}
	t = (struct told){0};
	session_patch(kit_get(k, "s1"), &k->who, &narrower, kit_told, &t);
	kit_skip(&k->launcher, MSG_launcher_limit);
	kit_tell(k, MSG_launcher_limited, &(struct launcher_limited){.session_id = kit_text("s1")},
		 NULL, 0);
	kit_recv(&f->link, MSG_warden_patch, &m, &msg);
	assert_int_equal(m.command_timeout_ms, 299999);
	msg_done(MSG_warden_patch, &m);
	fake_state(k, f, "/workspace", &(struct strv){0});
	assert_int_equal(t.n, 1);
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "config.resource_limits.command_timeout", "299999ms");
	assert_at(&r, "config.resource_limits.pids_max", "5");
	assert_at(&r, "config.limits.max_commands", "9");
	assert_at(&r, "config.timeout", "4h");
}

/* 0 of a count stands for no limit: it is wider than any limit, and changes nothing without one. */
static void ses_5_no_limit_is_the_widest(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request request = {.limits.value[LIMIT_max_commands] = 9},
			       none = {.limits.given[LIMIT_max_commands] = true};
	const struct limits now = {.value[LIMIT_max_commands] = 9}, unlimited = {0};
	struct limits asked;
	cleanup_buf struct buf r = {0};
	struct strv capped = {0};

	for (int i = 0; i < 3; i++) {
		struct told t = {0};

		session_patch(kit_get(k, "s1"), &k->who, i == 1 ? &request : &none, kit_told, &t);
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, "/workspace", &(struct strv){0});
		assert_int_equal(t.n, 1);
		assert_int_equal(t.err.code, E_OK);
		assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_max_commands],
				 i == 0 ? 0 : 9);
		assert_int_equal(kit_get(k, "s1")->capped.n, i == 2);
	}
	session_format(kit_get(k, "s1"), &JW(&r));
	assert_at(&r, "capped", "[\"limits.max_commands\"]");
	/* and the same when a session is made */
	asked = none.limits;
	limits_choose(&asked, &unlimited, &unlimited, 0, &capped);
	asked = unlimited;
	limits_choose(&asked, &now, &unlimited, 0, &capped);
	assert_int_equal(capped.n, 0);
	asked = none.limits;
	limits_choose(&asked, &now, &unlimited, 0, &capped);
	assert_int_equal(capped.n, 1);
	assert_string_equal(capped.v[0], "limits.max_commands");
	strv_done(&capped);
}

/* What holds a session is the launcher's to change, and nothing is recorded before it has. */
static void ses_5_a_patch_asks_the_launcher(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request request = {.limits.value[LIMIT_pids_max] = 5,
					  .limits.value[LIMIT_max_memory_mb] = 7,
					  .limits.value[LIMIT_max_disk_mb] = 3};
	char *walls[] = {kit_text("pids_limit\tup\t5 processes"), NULL};
	struct launcher_limit ask;
	struct launcher_limited answer = {.session_id = kit_text("s1"), .walls = {walls, 1}};
	struct told t = {0};
	struct warden_patch m;
	struct link_msg msg;

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	kit_recv(&k->launcher, MSG_launcher_limit, &ask, &msg);
	assert_string_equal(ask.session_id, "s1");
	assert_int_equal(ask.old_limits[OLD_pids_max], 5);
	assert_int_equal(ask.old_limits[OLD_max_memory_mb], 7);
	assert_int_equal(ask.old_limits[OLD_max_disk_mb], 3);
	assert_int_equal(ask.old_limits[OLD_max_cpu_percent] + ask.old_limits[OLD_io_read_bps_max] +
				 ask.old_limits[OLD_io_write_bps_max],
			 0);
	msg_done(MSG_launcher_limit, &ask);
	kit_recv_nothing(&f->link);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_pids_max], 0);
	kit_tell(k, MSG_launcher_limited, &answer, NULL, 0);
	kit_recv(&f->link, MSG_warden_patch, &m, &msg);
	assert_int_equal(m.walls.n, 1);
	assert_string_equal(m.walls.v[0], walls[0]);
	msg_done(MSG_warden_patch, &m);
	assert_int_equal(t.n, 0);
	fake_state(k, f, "/workspace", &(struct strv){0});
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_OK);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_pids_max], 5);
	assert_int_equal(kit_get(k, "s1")->walls.wall[WALL_pids_limit].state, WALL_UP);
	assert_string_equal(kit_get(k, "s1")->walls.wall[WALL_pids_limit].detail, "5 processes");
	/* an answer without a patch that waits for it is ignored */
	kit_tell(k, MSG_launcher_limited, &answer, NULL, 0);
	kit_recv_nothing(&f->link);
}

static void ses_5_a_refused_limit_changes_nothing(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request request = {.limits.value[LIMIT_pids_max] = 5,
					  .limits.value[LIMIT_session_timeout] = 1000,
					  .working_dir = kit_text("/workspace/src")};
	struct launcher_limited answer = {.session_id = kit_text("s1"),
					  .code = kit_text("E_CONFLICT"),
					  .subject = kit_text("memory_limit"),
					  .message = kit_text("in use")};
	struct told t = {0};
	struct warden_patch m;
	struct link_msg msg;

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	kit_skip(&f->link, MSG_warden_patch);
	kit_recv_nothing(&k->launcher);
	fake_state(k, f, "/workspace/src", &(struct strv){0});
	kit_skip(&k->launcher, MSG_launcher_limit);
	kit_tell(k, MSG_launcher_limited, &answer, NULL, 0);
	/* the directory is set back before the client gets the refusal */
	kit_recv(&f->link, MSG_warden_patch, &m, &msg);
	assert_string_equal(m.cwd, "/workspace");
	msg_done(MSG_warden_patch, &m);
	assert_int_equal(t.n, 0);
	fake_state(k, f, "/workspace", &(struct strv){0});
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_CONFLICT);
	assert_string_equal(t.err.subject, "memory_limit");
	assert_string_equal(t.err.message, "in use");
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_session_timeout],
			 4 * 3600 * 1000);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_pids_max], 0);
	assert_events(k, "s1", "session_created session_state:ready");
}

/* Two at once: the narrower one stays, whichever is answered last. */
static void ses_5_two_patches_keep_the_narrower(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request first = {.limits.value[LIMIT_session_timeout] = 1000,
					.limits.value[LIMIT_pids_max] = 9};
	struct session_request second = {.limits.value[LIMIT_session_timeout] = 2000,
					 .limits.value[LIMIT_pids_max] = 8};
	struct launcher_limited answer = {.session_id = kit_text("s1")};
	struct told a = {0}, b = {0};

	session_patch(kit_get(k, "s1"), &k->who, &first, kit_told, &a);
	session_patch(kit_get(k, "s1"), &k->who, &second, kit_told, &b);
	for (int i = 0; i < 2; i++) {
		kit_skip(&k->launcher, MSG_launcher_limit);
		kit_tell(k, MSG_launcher_limited, &answer, NULL, 0);
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, "/workspace", &(struct strv){0});
	}
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 1);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_session_timeout], 1000);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_pids_max], 8);
}

/* One that is wider than the one before it is capped, though both were asked for at once. */
static void ses_5_a_wider_patch_behind_a_narrower_is_capped(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request first = {.limits.value[LIMIT_pids_max] = 8},
			       second = {.limits.value[LIMIT_pids_max] = 9};
	struct launcher_limited answer = {.session_id = kit_text("s1")};
	struct told a = {0}, b = {0};

	session_patch(kit_get(k, "s1"), &k->who, &first, kit_told, &a);
	session_patch(kit_get(k, "s1"), &k->who, &second, kit_told, &b);
	kit_skip(&k->launcher, MSG_launcher_limit);
	kit_recv_nothing(&k->launcher);
	kit_recv_nothing(&f->link);
	kit_tell(k, MSG_launcher_limited, &answer, NULL, 0);
	kit_recv_nothing(&k->launcher);
	for (int i = 0; i < 2; i++) {
		kit_skip(&f->link, MSG_warden_patch);
		fake_state(k, f, "/workspace", &(struct strv){0});
	}
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 1);
	assert_int_equal(b.err.code, E_OK);
	assert_int_equal(kit_get(k, "s1")->config.limits.value[LIMIT_pids_max], 8);
	assert_int_equal(kit_get(k, "s1")->capped.n, 1);
	assert_string_equal(kit_get(k, "s1")->capped.v[0], "resource_limits.pids_max");
}

static void ses_2_a_patch_ends_with_its_session(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request request = {.limits.value[LIMIT_pids_max] = 5};
	struct told t = {0};

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &t);
	kit_skip(&k->launcher, MSG_launcher_limit);
	link_done(&f->link);
	kit_tell(
		k, MSG_launcher_gone,
		&(struct launcher_gone){.session_id = kit_text("s1"), .reason = kit_text("killed")},
		NULL, 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_SESSION_STOPPED);
}

static void ses_2_an_ended_session_is_not_changed(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct session_request request = {.limits.value[LIMIT_session_timeout] = 1};
	struct told first = {0}, t;

	session_patch(kit_get(k, "s1"), &k->who, &request, kit_told, &first);
	kit_skip(&f->link, MSG_warden_patch);
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &(struct told){0});
	t = patch(k, &request);
	assert_int_equal(t.err.code, E_SESSION_STOPPED);
	kit_skip(&f->link, MSG_warden_end);
	assert_int_equal(first.n, 0);
	link_done(&f->link);
	kit_turn(k);
	assert_int_equal(first.n, 1);
	assert_int_equal(first.err.code, E_SESSION_STOPPED);
	t = patch(k, &request);
	assert_int_equal(t.err.code, E_SESSION_STOPPED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_1_environment_is_merged_by_the_warden),
		TEST(ses_1_the_directory_is_tried_first),
		TEST(ses_1_a_directory_that_is_not_there_changes_nothing),
		TEST(ses_1_names_of_the_same_directory_are_no_failure),
		TEST(ses_1_a_directory_of_the_workspace_by_either_path),
		TEST(ses_5_limits_only_become_narrower),
		TEST(ses_5_no_limit_is_the_widest),
		TEST(ses_5_a_patch_asks_the_launcher),
		TEST(ses_5_a_refused_limit_changes_nothing),
		TEST(ses_5_two_patches_keep_the_narrower),
		TEST(ses_5_a_wider_patch_behind_a_narrower_is_capped),
		TEST(ses_2_a_patch_ends_with_its_session),
		TEST(ses_2_an_ended_session_is_not_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
