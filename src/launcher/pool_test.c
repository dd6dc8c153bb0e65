// SPDX-License-Identifier: Apache-2.0
/* Real groups and forks: without root and a cgroup that can be had there is nothing to see. */
#include "base/clock.h"
#include "launcher/testkit/rig_testkit.h"
#include <linux/capability.h>
#include <sys/syscall.h>

static int setup(void **state)
{
	struct rig *g;

	rig_setup(state);
	g = *state;
	groups_open(&g->l);
	return 0;
}

static bool none(const struct rig *g)
{
	return !rig_root() || g->l.groups.host.n == 0;
}

static size_t groups(const struct rig *g)
{
	const size_t trees = g->l.groups.host.n;
	struct strv ids = {0};
	size_t n;

	cgroup_list(&g->l.groups.host, g->l.groups.prefix, &ids);
	n = ids.n;
	strv_done(&ids);
	return n % trees == 0 ? n / trees : SIZE_MAX; /* one is being made */
}

static struct pooled *take_any(struct rig *g)
{
	struct sandbox_plan plan;
	struct pooled *p;

	make_recipe(&g->l, &plan);
	p = pool_find(&g->l, &plan);
	if (p != NULL)
		pool_take(p);
	sandbox_plan_done(&plan);
	return p;
}

static bool is_ready(struct rig *g, void *arg)
{
	struct pooled **p = arg;

	*p = take_any(g);
	return *p != NULL;
}

static struct pooled *ready_one(struct rig *g)
{
	struct pooled *p = NULL;

	assert_true(rig_until(g, is_ready, &p));
	return p;
}

static bool has_groups(struct rig *g, void *arg)
{
	return groups(g) == *(const size_t *)arg;
}

static struct limits few_pids(int64_t pids)
{
	return (struct limits){.value[LIMIT_pids_max] = pids};
}

static void sbx_4_numbers_are_never_used_twice(void **state)
{
	struct rig *g = *state;
	const uint64_t first = group_next(&g->l);
	char id[GROUP_ID_MAX];

	assert_true(first > 0);
	for (uint64_t i = 0, last = first; i < 1000; i++) {
		const uint64_t next = group_next(&g->l);

		assert_true(next > last);
		last = next;
	}
	group_id(&g->l, 7, id);
	assert_true(id_valid(id));
	assert_int_equal(strncmp(id, g->l.groups.prefix, strlen(g->l.groups.prefix)), 0);
	assert_string_equal(id + strlen(g->l.groups.prefix), "7");
}

static void sbx_4_as_many_are_prepared_as_are_wanted_and_none_is_left(void **state)
{
	struct rig *g = *state;
	size_t two = 2;
	struct pooled *p, *q;

	if (none(g))
		skip();
	pool_start(&g->l);
	assert_true(rig_until(g, has_groups, &two));
	p = ready_one(g);
	assert_true(p->group > 0);
	TAILQ_FOREACH (q, &g->l.pool.list, next)
		assert_int_not_equal(q->group, p->group);
	/* the taken one has a successor */
	two = 3;
	assert_true(rig_until(g, has_groups, &two));
	/* a group goes when its init has gone, too */
	pool_discard(p);
	two = 2;
	assert_true(rig_until(g, has_groups, &two));
	pool_stop(&g->l);
	two = 0;
	assert_true(rig_until(g, has_groups, &two));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void sbx_4_none_is_prepared_where_the_configuration_says_so(void **state)
{
	struct rig *g = *state;

	if (none(g))
		skip();
	g->l.settings.config.pool_size = 0;
	pool_start(&g->l);
	for (int i = 0; i < 20; i++) {
		loop_settle(g->l.loop);
		poll(NULL, 0, 5);
	}
	assert_null(take_any(g));
	assert_int_equal(groups(g), 0);
}

/* One that dies is replaced, its group removed. */
static void sbx_4_a_dead_one_is_replaced(void **state)
{
	struct rig *g = *state;
	struct pooled *p;
	uint64_t group;
	size_t one = 1;

	if (none(g))
		skip();
	g->l.settings.config.pool_size = 1;
	pool_start(&g->l);
	p = ready_one(g);
	group = p->group;
	pool_discard(p);
	p = ready_one(g);
	assert_int_not_equal(p->group, group);
	pool_discard(p);
	assert_true(rig_until(g, has_groups, &one));
}

static bool is_waiting(struct rig *g, void *arg)
{
	const struct pooled *p;
	size_t n = 0;

	TAILQ_FOREACH (p, &g->l.pool.list, next)
		n += p->ready;
	return n == *(const size_t *)arg;
}

/* A session of another recipe gets none; what is its own does not matter. */
static void sbx_4_one_serves_its_own_recipe_only(void **state)
{
	struct rig *g = *state;
	struct sandbox_plan plan;
	size_t two = 2;
	struct pooled *p;

	if (!rig_root())
		skip();
	pool_start(&g->l);
	assert_true(rig_until(g, is_waiting, &two));
	make_recipe(&g->l, &plan);
	strv_add(&plan.unenforced, "landlock");
	assert_null(pool_find(&g->l, &plan));
	strv_done(&plan.unenforced);
	plan.session_id = mem_strdup("s1");
	plan.uid = plan.gid = RIG_UID;
	plan.scratch_mb = 3;
	p = pool_find(&g->l, &plan);
	assert_non_null(p);
	pool_take(p);
	pool_discard(p);
	plan.root_inside = 1;
	assert_null(pool_find(&g->l, &plan));
	sandbox_plan_done(&plan);
}

/* The uid and the map for the last owner are there before a session is asked for. */
static void sbx_6_each_has_a_uid_and_its_map(void **state)
{
	struct rig *g = *state;
	struct pooled *p, *q;
	struct idmap map = {RIG_UID, RIG_GID};
	cleanup_fd int userns = -1;
	size_t two = 2;

	if (!rig_root())
		skip();
	g->l.pool.owner_uid = RIG_UID;
	g->l.pool.owner_gid = RIG_GID;
	pool_start(&g->l);
	assert_true(rig_until(g, is_waiting, &two));
	p = take_any(g);
	q = take_any(g);
	assert_true(uid_range_has(&g->l.settings.config.session_uids, p->map.shown_uid));
	assert_int_not_equal(p->map.shown_uid, q->map.shown_uid);
	map.shown_uid = map.shown_gid = q->map.shown_uid;
	assert_int_equal(pooled_userns(p, &map), -1);
	userns = pooled_userns(q, &map);
	assert_true(userns >= 0);
	assert_int_equal(pooled_userns(q, &map), -1);
	pool_discard(p);
	pool_discard(q);
}

/* What the host shows has changed: those that show the old are replaced. */
static void sbx_4_a_stale_one_serves_nobody(void **state)
{
	struct rig *g = *state;
	cleanup_free char *listed = mem_printf("%s/listed", g->dir);
	cleanup_free char *moved = mem_printf("%s/moved", g->dir);
	struct strv *paths = &g->l.settings.config.read_only_paths;
	size_t two = 2;

	if (!rig_root())
		skip();
	assert_int_equal(mkdir(listed, 0755), 0);
	strv_add(paths, listed);
	pool_start(&g->l);
	assert_true(rig_until(g, is_waiting, &two));
	assert_int_equal(rename(listed, moved), 0); /* its inode number is not given again */
	assert_null(take_any(g));
	assert_int_equal(mkdir(listed, 0755), 0);
	pool_discard(ready_one(g));
}

static pid_t first_child(pid_t pid)
{
	cleanup_free char *path = mem_printf("/proc/%d/task/%d/children", (int)pid, (int)pid);
	cleanup_buf struct buf text = {0};

	assert_int_equal(fdio_load_path(path, 4096, &text, NULL), 0);
	return atoi(text.data);
}

/* The launcher does not wait for a sandbox after its init has ended. */
static void sbx_4_without_init_there_is_none(void **state)
{
	struct rig *g = *state;
	size_t one = 1, none_left = 0;
	pid_t init;

	if (!rig_root())
		skip();
	g->l.settings.config.pool_size = 1;
	pool_start(&g->l);
	assert_true(rig_until(g, is_waiting, &one));
	g->l.settings.config.pool_size = 0;
	init = first_child(first_child(getpid()));
	assert_true(init > 1);
	assert_int_equal(kill(init, SIGKILL), 0);
	assert_true(rig_until(g, is_waiting, &none_left));
}

static void set_sys_admin(bool on)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct caps[2];

	assert_int_equal(syscall(SYS_capget, &head, caps), 0);
	if (on)
		caps[0].effective |= 1U << CAP_SYS_ADMIN;
	else
		caps[0].effective &= ~(1U << CAP_SYS_ADMIN);
	assert_int_equal(syscall(SYS_capset, &head, caps), 0);
}

static bool is_failing(struct rig *g, void *arg)
{
	return g->l.pool.failing;
}

/* Where none can be prepared, the next is not tried before a second is over. */
static void sbx_4_what_cannot_be_prepared_is_tried_slowly(void **state)
{
	struct rig *g = *state;
	const int64_t before = clock_mono_us(&clock_system);

	if (!rig_root())
		skip();
	set_sys_admin(false);
	pool_start(&g->l);
	assert_true(rig_until(g, is_failing, NULL));
	set_sys_admin(true);
	assert_true(watch_due_us(g->l.pool.refill) - before >= 900000);
}

/* What an earlier launcher left goes; what a session has stays. */
static void sbx_4_what_nobody_has_is_swept(void **state)
{
	struct rig *g = *state;
	char id[GROUP_ID_MAX];
	const struct cgroup_ask ask = {.id = id, .limits = few_pids(10)};
	struct wall_report walls;
	struct session_entry *w;

	if (none(g))
		skip();
	wall_report_init(&walls);
	for (uint64_t n = 1; n <= 2; n++) {
		group_id(&g->l, n, id);
		assert_int_equal(cgroup_create(&g->l.groups.host, &ask, &walls, NULL), 0);
	}
	w = entry_new(&g->l, "s1");
	w->meta.group = 2;
	assert_int_equal(groups(g), 2);
	groups_sweep(&g->l);
	assert_int_equal(groups(g), 1);
	entry_remove(w);
	assert_int_equal(groups(g), 0);
}

/* A group with a process in it goes as soon as that has gone. */
static void sbx_4_a_group_waits_for_its_processes(void **state)
{
	struct rig *g = *state;
	char id[GROUP_ID_MAX];
	const struct cgroup_ask ask = {.id = id, .limits = few_pids(10)};
	struct wall_report walls;
	size_t zero = 0;
	pid_t pid;

	if (none(g))
		skip();
	group_id(&g->l, 3, id);
	wall_report_init(&walls);
	assert_int_equal(cgroup_create(&g->l.groups.host, &ask, &walls, NULL), 0);
	pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	assert_int_equal(cgroup_join(&g->l.groups.host, id, pid, NULL), 0);
	group_drop(&g->l, 3);
	group_drop(&g->l, 3);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(rig_until(g, has_groups, &zero));
}

/* ---- sessions ---- */

static struct link_msg make_limited(struct rig *g, const char *id, uint64_t pids)
{
	struct launcher_create ask = rig_request(g, id);
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct link_msg m;

	ask.old_limits[OLD_pids_max] = pids;
	ask.required = UINT64_C(1) << WALL_pids_limit;
	rig_ask(g, 18, &ask, proof);
	m = rig_expect(g, MSG_launcher_created);
	close(proof);
	return m;
}

static bool limited_to(const struct rig *g, uint64_t group, const char *max)
{
	char id[GROUP_ID_MAX];
	cleanup_buf struct buf text = {0};

	group_id(&g->l, group, id);
	for (size_t i = 0; i < g->l.groups.host.n; i++) {
		cleanup_free char *path = mem_printf("/proc/self/fd/%d/session-%s/pids.max",
						     g->l.groups.host.tree[i].dir, id);

		if (fdio_load_path(path, 100, &text, NULL) == 0)
			return strcmp(text.data, max) == 0;
	}
	return false;
}

static void end_session(struct rig *g, struct session_entry *w)
{
	size_t zero = 0;

	g->l.settings.config.pool_size = 0;
	pool_start(&g->l);
	entry_remove(w);
	assert_true(rig_until(g, rig_no_entries, NULL));
	assert_true(rig_until(g, has_groups, &zero));
}

static void sbx_4_a_session_gets_a_group_that_goes_with_it(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	struct meta saved;
	struct session_entry *w;

	if (none(g))
		skip();
	rig_greeted(g);
	m = make_limited(g, "s1", 33);
	link_msg_done(&m);
	w = entry_find(&g->l, "s1");
	assert_true(w->meta.group > 0);
	assert_true(limited_to(g, w->meta.group, "33\n"));
	assert_int_equal(meta_load(g->l.place.sessions_fd, "s1", &saved, NULL), 0);
	assert_int_equal(saved.group, w->meta.group);
	end_session(g, w);
}

static void sbx_4_a_prepared_one_becomes_the_session(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	struct session_entry *w;
	size_t one = 1;
	uint64_t group;

	if (none(g))
		skip();
	rig_greeted(g);
	g->l.settings.config.pool_size = 1;
	pool_start(&g->l);
	assert_true(rig_until(g, is_waiting, &one));
	group = TAILQ_FIRST(&g->l.pool.list)->group;
	m = make_limited(g, "s1", 34);
	/* it holds nothing but what a warden has, and it outlives us */
	assert_non_null(strstr(rig_hear(m.fd[0]), "id=s1 "));
	link_msg_done(&m);
	w = entry_find(&g->l, "s1");
	assert_int_equal(w->meta.group, group);
	assert_true(limited_to(g, group, "34\n"));
	end_session(g, w);
}

/* As on a host that has only v2; false where v2 is missing. */
static bool only_v2(struct rig *g)
{
	struct cgroup_host *host = &g->l.groups.host;

	if (none(g) || !host->tree[0].v2)
		return false;
	while (host->n > 1)
		close(host->tree[--host->n].dir);
	return true;
}

/* A process is in the session's group in every tree. */
static void expect_in_group(const struct rig *g, uint64_t pid, uint64_t group)
{
	cleanup_free char *path = mem_printf("/proc/%llu/cgroup", (unsigned long long)pid);
	cleanup_free char *line = NULL;
	cleanup_buf struct buf text = {0};
	char id[GROUP_ID_MAX];
	size_t n = 0;

	group_id(&g->l, group, id);
	line = mem_printf("/session-%s\n", id);
	assert_int_equal(fdio_load_path(path, 8192, &text, NULL), 0);
	for (const char *s = text.data; (s = strstr(s, line)) != NULL; s++)
		n++;
	assert_int_equal(n, g->l.groups.host.n);
}

/* Limits may come later. */
static void expect_a_group(struct rig *g)
{
	struct link_msg m;
	struct session_entry *w;

	rig_greeted(g);
	m = rig_make(g, "s1");
	link_msg_done(&m);
	w = entry_find(&g->l, "s1");
	assert_true(w->meta.group > 0);
	assert_int_equal(groups(g), 1);
	expect_in_group(g, w->meta.process[0].pid, w->meta.group);
	expect_in_group(g, meta_inside(&w->meta)->pid, w->meta.group);
	end_session(g, w);
}

static void sbx_4_a_session_without_limits_has_a_group_too(void **state)
{
	if (none(*state))
		skip();
	expect_a_group(*state);
}

static void sbx_4_a_session_is_born_in_a_v2_group(void **state)
{
	if (!only_v2(*state))
		skip();
	expect_a_group(*state);
}

/* What the client asked for is refused by name; the server's own request is not. */
static void sbx_4_a_limit_that_cannot_be_had_is_named(void **state)
{
	struct rig *g = *state;
	struct launcher_create ask = rig_request(g, "s1");
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct launcher_refused refused;
	struct link_msg m;

	cgroup_host_close(&g->l.groups.host);
	snprintf(g->l.groups.host.why[CGROUP_PIDS], CGROUP_WHY, "no such thing");
	rig_greeted(g);
	ask.old_limits[OLD_pids_max] = 5;
	ask.required = UINT64_C(1) << WALL_pids_limit;
	rig_ask(g, 19, &ask, proof);
	m = rig_expect(g, MSG_launcher_refused);
	assert_int_equal(link_unpack(&m, &refused, NULL), 0);
	assert_string_equal(refused.code, "E_ENFORCEMENT");
	assert_string_equal(refused.subject, "pids_limit");
	assert_non_null(strstr(refused.message, "no such thing"));
	msg_done(MSG_launcher_refused, &refused);
	link_msg_done(&m);
	assert_null(entry_find(&g->l, "s1"));
	ask.required = 0;
	rig_ask(g, 20, &ask, proof);
	rig_skip(g, MSG_launcher_created);
	close(proof);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(sbx_4_numbers_are_never_used_twice),
		TEST(sbx_4_as_many_are_prepared_as_are_wanted_and_none_is_left),
		TEST(sbx_4_none_is_prepared_where_the_configuration_says_so),
		TEST(sbx_4_a_dead_one_is_replaced),
		TEST(sbx_4_one_serves_its_own_recipe_only),
		TEST(sbx_6_each_has_a_uid_and_its_map),
		TEST(sbx_4_a_stale_one_serves_nobody),
		TEST(sbx_4_without_init_there_is_none),
		TEST(sbx_4_what_cannot_be_prepared_is_tried_slowly),
		TEST(sbx_4_what_nobody_has_is_swept),
		TEST(sbx_4_a_group_waits_for_its_processes),
		TEST(sbx_4_a_session_gets_a_group_that_goes_with_it),
		TEST(sbx_4_a_prepared_one_becomes_the_session),
		TEST(sbx_4_a_session_without_limits_has_a_group_too),
		TEST(sbx_4_a_session_is_born_in_a_v2_group),
		TEST(sbx_4_a_limit_that_cannot_be_had_is_named),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
