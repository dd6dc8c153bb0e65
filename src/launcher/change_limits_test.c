// SPDX-License-Identifier: Apache-2.0
/* Requests for narrower limits. Real groups: without root and a usable cgroup only the refusals are
 * tested. */
#include "launcher/testkit/rig_testkit.h"

static bool no_cgroups(const struct rig *g)
{
	return !rig_root() || g->l.groups.host.n == 0;
}

/* A session with these pids; NULL answer parts are not looked at. */
static void make(struct rig *g, const char *id, uint64_t pids)
{
	struct launcher_create ask = rig_request(g, id);
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct link_msg m;

	ask.old_limits[OLD_pids_max] = pids;
	rig_ask(g, 17, &ask, proof);
	m = rig_expect(g, MSG_launcher_created);
	link_msg_done(&m);
	close(proof);
}

static struct launcher_limited ask_limits(struct rig *g, const struct launcher_limit *ask)
{
	struct launcher_limited got;
	struct link_msg m;

	assert_int_equal(link_send(&g->api, MSG_launcher_limit, 5, ask, NULL, 0, NULL), 0);
	m = rig_expect(g, MSG_launcher_limited);
	assert_int_equal(m.req, 5);
	assert_int_equal(link_unpack(&m, &got, NULL), 0);
	link_msg_done(&m);
	return got;
}

/* NULL: it is done. */
static void expect_code(struct rig *g, const struct launcher_limit *ask, const char *code,
			const char *subject)
{
	struct launcher_limited got = ask_limits(g, ask);

	if (code == NULL) {
		if (got.code != NULL)
			fail_msg("%s: %s", got.code, got.message);
		assert_true(got.walls.n > 0);
	} else {
		assert_non_null(got.code);
		assert_string_equal(got.code, code);
		assert_int_equal(got.walls.n, 0);
		if (subject != NULL)
			assert_string_equal(got.subject, subject);
	}
	msg_done(MSG_launcher_limited, &got);
}

static struct limits held_by(struct rig *g, const char *session)
{
	struct limits l;
	char id[GROUP_ID_MAX];

	group_id(&g->l, entry_find(&g->l, session)->meta.group, id);
	assert_int_equal(cgroup_limits_get(&g->l.groups.host, id, 0, &l, NULL), 0);
	return l;
}

static int64_t pids_of(struct rig *g, const char *session)
{
	return held_by(g, session).value[LIMIT_pids_max];
}

static int setup(void **state)
{
	const int r = rig_setup(state);
	struct rig *g = *state;

	groups_open(&g->l);
	rig_greeted(g);
	return r;
}

static void ses_5_a_limit_becomes_narrower_and_never_wider(void **state)
{
	char s1[] = "s1";
	struct rig *g = *state;
	struct launcher_limit ask = {.session_id = s1, .old_limits[OLD_pids_max] = 40};

	if (no_cgroups(g))
		skip();
	make(g, "s1", 50);
	expect_code(g, &ask, NULL, NULL);
	assert_int_equal(pids_of(g, "s1"), 40);
	ask.old_limits[OLD_pids_max] = 41;
	expect_code(g, &ask, "E_BAD_REQUEST", "resource_limits.pids_max");
	ask.old_limits[OLD_pids_max] = UINT64_MAX;
	expect_code(g, &ask, "E_BAD_REQUEST", "resource_limits.pids_max");
	assert_int_equal(pids_of(g, "s1"), 40);
	ask.old_limits[OLD_pids_max] = 40;
	expect_code(g, &ask, NULL, NULL);
	/* a new limit stays within the server's own */
	ask.old_limits[OLD_pids_max] = 0;
	g->l.settings.config.limits.value[LIMIT_max_memory_mb] = 100;
	ask.old_limits[OLD_max_memory_mb] = 101;
	expect_code(g, &ask, "E_BAD_REQUEST", "resource_limits.max_memory_mb");
	ask.old_limits[OLD_max_memory_mb] = 100;
	expect_code(g, &ask, NULL, NULL);
	/* no number of bytes by overflow */
	g->l.settings.config.limits.value[LIMIT_max_memory_mb] = 0;
	make(g, "s2", 50);
	s1[1] = '2';
	ask.old_limits[OLD_max_memory_mb] = UINT64_C(1) << 44;
	expect_code(g, &ask, "E_BAD_REQUEST", "resource_limits.max_memory_mb");
}

static void ses_5_nothing_changes_if_one_cannot_be_had(void **state)
{
	char s1[] = "s1";
	struct rig *g = *state;
	struct launcher_limit ask = {
		.session_id = s1, .old_limits[OLD_pids_max] = 20, .old_limits[OLD_max_disk_mb] = 1};

	if (no_cgroups(g))
		skip();
	make(g, "s1", 50);
	/* the fake init still has the host's root, which must not change */
	expect_code(g, &ask, "E_ENFORCEMENT", "disk_limit");
	assert_int_equal(pids_of(g, "s1"), 50);
}

/* Made by a server that gave it no group; or another has removed the group. */
static void ses_5_a_session_without_a_group_gets_no_limits(void **state)
{
	char s1[] = "s1";
	struct rig *g = *state;
	const struct launcher_limit ask = {.session_id = s1, .old_limits[OLD_pids_max] = 20};

	if (no_cgroups(g))
		skip();
	make(g, "s1", 0);
	group_drop(&g->l, entry_find(&g->l, "s1")->meta.group);
	entry_find(&g->l, "s1")->meta.group = 0;
	expect_code(g, &ask, "E_ENFORCEMENT", "pids_limit");
}

static void ses_5_limits_of_the_policy_become_narrower(void **state)
{
	char s1[] = "s1";
	struct rig *g = *state;
	const struct launcher_limit ask = {.session_id = s1, .old_limits[OLD_pids_max] = 20};

	if (no_cgroups(g))
		skip();
	make(g, "s1", 0);
	assert_int_equal(pids_of(g, "s1"), 4096);
	expect_code(g, &ask, NULL, NULL);
	assert_int_equal(pids_of(g, "s1"), 20);
}

/* What has no field of its own in the message comes as text. */
static void ses_5_swap_and_period_become_narrower(void **state)
{
	char s1[] = "s1", swap[] = "memory_swap_max_mb=5", none[] = "memory_swap_max_mb=0",
	     period[] = "cpu_period_us=20000", *more[] = {swap, period, NULL};
	struct rig *g = *state;
	struct launcher_limit ask = {.session_id = s1,
				     .old_limits[OLD_max_memory_mb] = 100,
				     .old_limits[OLD_max_cpu_percent] = 50,
				     .limits = {more, 2}};

	if (no_cgroups(g))
		skip();
	g->l.settings.config.limits.value[LIMIT_memory_swap_max_mb] = 7;
	make(g, "s1", 50);
	expect_code(g, &ask, NULL, NULL);
	assert_int_equal(held_by(g, "s1").value[LIMIT_memory_swap_max_mb], 5);
	assert_int_equal(held_by(g, "s1").value[LIMIT_cpu_period_us], 20000);
	assert_int_equal(held_by(g, "s1").value[LIMIT_max_cpu_percent], 50);
	assert_int_equal(pids_of(g, "s1"), 50);
	/* alone, and wider: refused */
	ask = (struct launcher_limit){.session_id = s1, .limits = {more, 1}};
	more[0] = none;
	expect_code(g, &ask, NULL, NULL);
	assert_int_equal(held_by(g, "s1").value[LIMIT_max_memory_mb], 100);
	assert_int_equal(held_by(g, "s1").value[LIMIT_memory_swap_max_mb], 0);
	more[0] = swap;
	expect_code(g, &ask, "E_BAD_REQUEST", "resource_limits.memory_swap_max_mb");
}

static void net_8_bandwidth_is_refused(void **state)
{
	char s1[] = "s1", bandwidth[] = "net_bandwidth_mbps=5", *more[] = {bandwidth, NULL};
	struct rig *g = *state;
	const struct launcher_limit ask = {.session_id = s1, .limits = {more, 1}};

	make(g, "s1", 0);
	expect_code(g, &ask, "E_ENFORCEMENT", "network_limit");
}

/* Where there are no groups at all. */
static void ses_5_without_cgroups_there_is_no_group(void **state)
{
	char s1[] = "s1";
	struct rig *g = *state;
	struct launcher_limit ask = {.session_id = s1, .old_limits[OLD_pids_max] = 20};
	struct launcher_limited got;

	cgroup_host_close(&g->l.groups.host);
	make(g, "s1", 0);
	expect_code(g, &ask, "E_ENFORCEMENT", "pids_limit");
	ask = (struct launcher_limit){.session_id = s1, .old_limits[OLD_max_cpu_percent] = 20};
	expect_code(g, &ask, "E_ENFORCEMENT", "cpu_limit");
	/* unless it was given as a share, or the configuration lets it be missing */
	ask.optional = UINT64_C(1) << WALL_cpu_limit;
	got = ask_limits(g, &ask);
	assert_null(got.code);
	msg_done(MSG_launcher_limited, &got);
	ask.optional = 0;
	strv_add(&g->l.settings.config.allow_unenforced, "cpu_limit");
	got = ask_limits(g, &ask);
	assert_null(got.code);
	assert_int_equal(got.walls.n, 1);
	assert_non_null(strstr(got.walls.v[0], "cpu_limit\tunavailable\t"));
	msg_done(MSG_launcher_limited, &got);
}

static void ses_5_limits_of_a_session_that_does_not_exist(void **state)
{
	static const char *const ids[] = {"nobody", "", "../x"};
	struct rig *g = *state;

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		char id[8];
		const struct launcher_limit ask = {.session_id = id,
						   .old_limits[OLD_pids_max] = 20};

		snprintf(id, sizeof(id), "%s", ids[i]);
		expect_code(g, &ask, "E_SESSION_STOPPED", NULL);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_5_a_limit_becomes_narrower_and_never_wider),
		TEST(ses_5_nothing_changes_if_one_cannot_be_had),
		TEST(ses_5_a_session_without_a_group_gets_no_limits),
		TEST(ses_5_limits_of_the_policy_become_narrower),
		TEST(ses_5_swap_and_period_become_narrower),
		TEST(net_8_bandwidth_is_refused),
		TEST(ses_5_without_cgroups_there_is_no_group),
		TEST(ses_5_limits_of_a_session_that_does_not_exist),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
