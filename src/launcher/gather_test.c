// SPDX-License-Identifier: Apache-2.0
/* Sessions that were made without a group and get one. Real groups: without root and a cgroup that
 * can be had there is nothing to see. */
#include "launcher/rig_test.h"

static char s1[] = "s1";

static struct ward *ward(struct rig *g)
{
	return ward_find(&g->l, s1);
}

/* A launcher with a session that has no group, or NULL. */
static struct rig *rig_of(void **state)
{
	struct rig *g = *state;
	struct link_msg m;

	if (!rig_root() || g->l.groups.host.n == 0 || g->l.groups.bear)
		skip();
	m = rig_make(g, s1);
	link_msg_done(&m);
	assert_int_equal(ward(g)->meta.group, 0);
	return g;
}

static void ask_for(struct rig *g, uint32_t req, const struct launcher_limit *ask)
{
	assert_int_equal(link_send(&g->api, MSG_launcher_limit, req, ask, NULL, 0, NULL), 0);
}

/* The next answer, with its descriptors; code NULL: it is done. */
static struct launcher_limited answer(struct rig *g, uint32_t req, const char *code, size_t *nfds)
{
	struct launcher_limited got;
	struct link_msg m = rig_expect(g, MSG_launcher_limited);

	assert_int_equal(m.req, req);
	assert_int_equal(link_unpack(&m, &got, NULL), 0);
	if (code != NULL) {
		assert_non_null(got.code);
		assert_string_equal(got.code, code);
	} else if (got.code != NULL) {
		fail_msg("%s: %s", got.code, got.message);
	}
	if (nfds != NULL)
		*nfds = m.nfds;
	link_msg_done(&m);
	return got;
}

static void expect(struct rig *g, uint32_t req, const char *code)
{
	struct launcher_limited got = answer(g, req, code, NULL);

	msg_done(MSG_launcher_limited, &got);
}

static bool is_gathering(struct rig *g, void *arg)
{
	return ward(g)->gathering != NULL;
}

static bool has_gathered(struct rig *g, void *arg)
{
	return ward(g)->gathering == NULL;
}

/* Whether a process is in the session's group in every tree. */
static bool is_inside(struct rig *g, uint64_t pid)
{
	const size_t trees = g->l.groups.host.n;
	cleanup_free char *path = mem_printf("/proc/%d/cgroup", (int)pid);
	cleanup_buf struct buf text = {0};
	char id[GROUP_ID_MAX + 16];
	size_t n = 0;

	snprintf(id, sizeof(id), "/session-");
	group_id(&g->l, ward(g)->meta.group, id + strlen(id));
	assert_int_equal(fdio_load_path(path, 8192, &text, NULL), 0);
	for (const char *s = text.data; (s = strstr(s, id)) != NULL; s++)
		n++;
	return n == trees;
}

static void ses_5_a_session_without_a_group_is_moved_into_one(void **state)
{
	struct rig *g = rig_of(state);
	struct launcher_limit ask = {.session_id = s1, .pids_max = 20, .max_memory_mb = 100};
	struct cgroup_limits held = {0};
	struct launcher_limited got;
	char id[GROUP_ID_MAX];
	struct meta saved;
	size_t n;

	ask_for(g, 5, &ask);
	got = answer(g, 5, NULL, &n);
	assert_true(is_inside(g, ward(g)->meta.warden_pid));
	assert_true(is_inside(g, ward(g)->meta.init_pid));
	group_id(&g->l, ward(g)->meta.group, id);
	assert_int_equal(cgroup_limits_get(&g->l.groups.host, id, &held, NULL), 0);
	assert_int_equal(held.pids, 20);
	assert_int_equal(held.memory_bytes, 100 << 20);
	/* the warden is to have the counters, and nobody promises what is not so */
	assert_int_equal(got.counters.n, n);
	assert_true(n > 2);
	for (size_t i = 0; i < got.walls.n; i++)
		if (strncmp(got.walls.v[i], "memory_limit", 12) == 0)
			assert_non_null(strstr(got.walls.v[i], "partial\t100 MB"));
	msg_done(MSG_launcher_limited, &got);
	assert_int_equal(meta_load(g->l.place.sessions_fd, s1, &saved, NULL), 0);
	assert_int_equal(saved.late, LATE_WHOLE);
	assert_int_equal(saved.group, ward(g)->meta.group);
	/* from now on it is one like others */
	ask = (struct launcher_limit){.session_id = s1, .pids_max = 19};
	ask_for(g, 6, &ask);
	got = answer(g, 6, NULL, &n);
	assert_int_equal(ward(g)->meta.group, saved.group);
	assert_int_equal(got.counters.n, n);
	assert_true(n > 2);
	msg_done(MSG_launcher_limited, &got);
	ask.pids_max = 20;
	ask_for(g, 7, &ask);
	expect(g, 7, "E_BAD_REQUEST");
}

static void ses_5_scratch_space_alone_needs_no_group(void **state)
{
	struct rig *g = rig_of(state);
	const struct launcher_limit ask = {.session_id = s1, .max_disk_mb = 1};

	ask_for(g, 5, &ask);
	/* the fake init still has the host's root: nobody may touch that */
	expect(g, 5, "E_ENFORCEMENT");
	assert_int_equal(ward(g)->meta.group, 0);
}

static void ses_5_who_asks_meanwhile_is_answered_in_order(void **state)
{
	struct rig *g = rig_of(state);
	struct launcher_limit ask = {.session_id = s1, .pids_max = 30};

	ask_for(g, 5, &ask);
	ask.pids_max = 20;
	ask_for(g, 6, &ask);
	ask = (struct launcher_limit){.session_id = s1, .max_disk_mb = 1};
	ask_for(g, 7, &ask);
	expect(g, 5, NULL);
	expect(g, 6, NULL);
	expect(g, 7, "E_ENFORCEMENT");
}

/* A directory in the place of every tree: groups can be made there, and nobody can be moved. */
static void put_false_trees(struct rig *g, int before[])
{
	const int fd = open(g->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int file = openat(fd, "cgroup.procs", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	for (size_t i = 0; i < g->l.groups.host.n; i++) {
		before[i] = g->l.groups.host.tree[i].dir;
		g->l.groups.host.tree[i].dir = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	}
	close(file);
	close(fd);
}

static void put_back_trees(struct rig *g, const int before[])
{
	for (size_t i = 0; i < g->l.groups.host.n; i++) {
		close(g->l.groups.host.tree[i].dir);
		g->l.groups.host.tree[i].dir = before[i];
	}
}

static void ses_5_what_could_not_be_moved_is_tried_again(void **state)
{
	struct rig *g = rig_of(state);
	const struct launcher_limit ask = {.session_id = s1, .pids_max = 20};
	int before[CGROUP_TREES];
	struct launcher_limited got;
	struct meta saved;

	put_false_trees(g, before);
	ask_for(g, 5, &ask);
	got = answer(g, 5, "E_ENFORCEMENT", NULL);
	assert_string_equal(got.subject, "pids_limit");
	assert_non_null(strstr(got.message, "could not be moved"));
	assert_int_equal(got.walls.n + got.counters.n, 0);
	msg_done(MSG_launcher_limited, &got);
	/* its number is known to the next launcher: nobody ends what may be in it */
	assert_int_equal(meta_load(g->l.place.sessions_fd, s1, &saved, NULL), 0);
	assert_int_equal(saved.late, LATE_PARTLY);
	assert_int_equal(saved.group, ward(g)->meta.group);
	put_back_trees(g, before);
	ask_for(g, 6, &ask);
	expect(g, 6, NULL);
	assert_int_equal(ward(g)->meta.late, LATE_WHOLE);
	assert_true(is_inside(g, ward(g)->meta.init_pid));
}

static void ses_2_a_session_that_ends_meanwhile_is_told(void **state)
{
	struct rig *g = rig_of(state);
	const struct launcher_limit ask = {.session_id = s1, .pids_max = 20};

	ask_for(g, 5, &ask);
	assert_true(rig_until(g, is_gathering, NULL));
	ward(g)->killed = true;
	gather_stop(ward(g));
	assert_null(ward(g)->gathering);
	expect(g, 5, "E_SESSION_STOPPED");
}

static void ses_8_another_api_child_is_not_answered_for_the_first(void **state)
{
	struct rig *g = rig_of(state);
	struct launcher_limit ask = {.session_id = s1, .pids_max = 30};

	ask_for(g, 5, &ask);
	assert_true(rig_until(g, is_gathering, NULL));
	gather_forget(ward(g));
	ask.pids_max = 20;
	ask_for(g, 6, &ask);
	expect(g, 6, NULL);
	assert_true(rig_until(g, has_gathered, NULL));
	assert_int_equal(ward(g)->meta.late, LATE_WHOLE);
}

static int setup(void **state)
{
	const int r = rig_setup(state);
	struct rig *g = *state;

	groups_open(&g->l);
	rig_greeted(g);
	return r;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_5_a_session_without_a_group_is_moved_into_one),
		TEST(ses_5_scratch_space_alone_needs_no_group),
		TEST(ses_5_who_asks_meanwhile_is_answered_in_order),
		TEST(ses_5_what_could_not_be_moved_is_tried_again),
		TEST(ses_2_a_session_that_ends_meanwhile_is_told),
		TEST(ses_8_another_api_child_is_not_answered_for_the_first),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
