// SPDX-License-Identifier: Apache-2.0
/* Real groups: without root and a cgroup that can be had there is nothing to see. */
#include "launcher/testkit/rig_testkit.h"
#include <inttypes.h>

/* No number of the clock begins like these. */
#define LEFT "0badcafe-01"
#define USED "0badcafe-02"
#define PLAIN "plain" /* no number */

static int setup(void **state)
{
	const int r = rig_setup(state);
	struct rig *g = *state;

	groups_open(&g->l);
	return r;
}

static bool no_cgroups(const struct rig *g)
{
	return !rig_root() || g->l.groups.host.n == 0;
}

static void make_group(struct rig *g, const char *id)
{
	const struct cgroup_ask ask = {.id = id};
	struct wall_report walls;

	wall_report_init(&walls);
	assert_int_equal(cgroup_create(&g->l.groups.host, &ask, &walls, NULL), 0);
}

static bool exists(struct rig *g, const char *id)
{
	struct strv ids = {0};
	size_t n;

	cgroup_list(&g->l.groups.host, id, &ids);
	n = ids.n;
	strv_done(&ids);
	return n > 0;
}

static pid_t start_sleeper(struct rig *g, const char *id)
{
	const pid_t pid = fork();

	if (pid == 0) {
		alarm(60);
		for (;;)
			pause();
	}
	assert_int_equal(cgroup_join(&g->l.groups.host, id, pid, NULL), 0);
	return pid;
}

/* Other servers' groups: an empty one goes unless it is young; one with a process stays. */
static void ses_8_what_other_servers_left_is_removed(void **state)
{
	struct rig *g = *state;
	cleanup_free char *young = mem_printf("0badcafe-%" PRIu64, group_next(&g->l));
	struct session_entry *w;
	char own[GROUP_ID_MAX];
	pid_t pid;

	if (no_cgroups(g))
		skip();
	w = entry_new(&g->l, "s");
	w->meta.group = 7;
	group_id(&g->l, 7, own);
	make_group(g, LEFT);
	make_group(g, PLAIN);
	make_group(g, USED);
	make_group(g, young);
	make_group(g, own);
	assert_true(cgroup_empty(&g->l.groups.host, LEFT));
	assert_false(cgroup_empty(&g->l.groups.host, "0badcafe-3"));
	pid = start_sleeper(g, USED);
	assert_false(cgroup_empty(&g->l.groups.host, USED));
	groups_sweep(&g->l);
	assert_false(exists(g, LEFT));
	assert_false(exists(g, PLAIN));
	assert_true(exists(g, USED));
	assert_true(exists(g, young));
	assert_true(exists(g, own));
	w->meta.group = 0; /* now no session has it */
	groups_sweep(&g->l);
	assert_false(exists(g, own));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(cgroup_remove(&g->l.groups.host, USED, 5000, NULL), 0);
	assert_int_equal(cgroup_remove(&g->l.groups.host, young, 5000, NULL), 0);
}

/* Another program may remove the group of all sessions while it is empty. */
static void ses_8_the_group_of_all_sessions_is_made_again(void **state)
{
	struct rig *g = *state;
	cleanup_free char *parent = mem_printf("agentsh-test-%d", (int)getpid());
	char id[GROUP_ID_MAX];
	uint64_t number;
	size_t n;

	if (no_cgroups(g))
		skip();
	n = g->l.groups.host.n;
	cgroup_host_close(&g->l.groups.host);
	free(g->l.settings.config.cgroup_parent);
	g->l.settings.config.cgroup_parent = mem_strdup(parent);
	cgroup_host_open(&g->l.groups.host, parent);
	assert_int_equal(g->l.groups.host.n, n);
	assert_true(cgroup_host_alive(&g->l.groups.host));
	for (size_t i = 0; i < n; i++) {
		cleanup_free char *link =
			mem_printf("/proc/self/fd/%d", g->l.groups.host.tree[i].dir);
		char path[PATH_MAX] = "";

		assert_true(readlink(link, path, sizeof(path) - 1) > 0);
		assert_int_equal(rmdir(path), 0);
		assert_false(cgroup_host_alive(&g->l.groups.host));
	}
	number = group_next(&g->l);
	assert_true(cgroup_host_alive(&g->l.groups.host));
	assert_int_equal(g->l.groups.host.n, n);
	group_id(&g->l, number, id);
	assert_false(cgroup_empty(&g->l.groups.host, id));
	group_make(&g->l, number);
	assert_true(cgroup_empty(&g->l.groups.host, id));
	assert_int_equal(cgroup_remove(&g->l.groups.host, id, 5000, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		cleanup_free char *link =
			mem_printf("/proc/self/fd/%d", g->l.groups.host.tree[i].dir);
		char path[PATH_MAX] = "";

		assert_true(readlink(link, path, sizeof(path) - 1) > 0);
		assert_int_equal(rmdir(path), 0);
		*strrchr(path, '/') = '\0';
		assert_int_equal(rmdir(path), 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_8_what_other_servers_left_is_removed),
		TEST(ses_8_the_group_of_all_sessions_is_made_again),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
