// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"
#include "launcher/workspace_check.h"

static int check(struct rig *g, const char *workspace)
{
	struct sandbox_plan plan = {0};
	struct err err = {0};
	const int r = workspace_check(&g->l, workspace, &plan, &err);

	if (r < 0)
		assert_string_equal(err.subject, workspace);
	sandbox_plan_done(&plan);
	return r;
}

static void set(struct rig *g, const char *assignment)
{
	assert_int_equal(config_override(assignment, &g->l.settings.config, NULL), 0);
}

static void sbx_6_the_systems_directories_are_no_workspaces(void **state)
{
	static const struct {
		const char *path;
		int r;
	} rows[] = {
		{"/etc", -E_FORBIDDEN},
		{"/etc/cron.d", -E_FORBIDDEN},
		{"/boot", -E_FORBIDDEN},
		{"/boot/x", -E_FORBIDDEN},
		{"/", -E_FORBIDDEN},
		{"/usr", -E_FORBIDDEN},
		{"/opt", -E_FORBIDDEN},
		{"/var", -E_FORBIDDEN},
		{"/run", -E_FORBIDDEN},
		{"/srv/lists/ro", -E_FORBIDDEN},
		{"/srv/lists", -E_FORBIDDEN},
		{"/srv", -E_FORBIDDEN},
		{"/srv/pass", -E_FORBIDDEN},
		{"/etcetera", 0},
		{"/bootx", 0},
		{"/usr/src/x", 0},
		{"/opt/x", 0},
		{"/var/lib/x", 0},
		{"/run/x", 0},
		{"/srv/lists/ro/x", 0},
		{"/srv/pass/x", 0},
		{"/srv/list", 0},
		{"/srv/watched", 0},
		{"/home/u/x", 0},
		{"/workspace", 0},
	};
	struct rig *g = *state;

	set(g, "filesystem.read_only_passthrough_paths=/usr,/opt,/workspace,/srv/lists/ro");
	set(g, "filesystem.passthrough_paths=/srv/pass");
	set(g, "filesystem.monitored_paths=/workspace,/srv/watched");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (check(g, rows[i].path) != rows[i].r)
			fail_msg("%s", rows[i].path);
}

/* /bin is often a link. */
static void sbx_6_a_shown_path_is_where_it_leads(void **state)
{
	struct rig *g = *state;
	cleanup_free char *real = mem_printf("%s/real", g->dir);
	cleanup_free char *link = mem_printf("%s/link", g->dir);
	cleanup_free char *list = mem_printf("filesystem.read_only_passthrough_paths=%s", link);
	cleanup_free char *below = mem_printf("%s/x", real);

	assert_int_equal(mkdir(real, 0755), 0);
	assert_int_equal(symlink(real, link), 0);
	assert_int_equal(check(g, real), 0);
	set(g, list);
	assert_int_equal(check(g, real), -E_FORBIDDEN);
	assert_int_equal(check(g, below), 0);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(rmdir(real), 0);
}

static void sbx_6_a_workspace_that_the_configuration_means(void **state)
{
	struct rig *g = *state;

	set(g, "sandbox.workspaces=/etc/nixos,/opt");
	assert_int_equal(check(g, "/etc/nixos"), 0);
	assert_int_equal(check(g, "/etc/nixos/x"), 0);
	assert_int_equal(check(g, "/opt"), 0);
	assert_int_equal(check(g, "/etc"), -E_FORBIDDEN);
	assert_int_equal(check(g, "/etc/other"), -E_FORBIDDEN);
	assert_int_equal(check(g, "/etc/nix"), -E_FORBIDDEN);
	/* who lists all does not mean these */
	set(g, "sandbox.workspaces=/");
	assert_int_equal(check(g, "/etc"), -E_FORBIDDEN);
	assert_int_equal(check(g, "/usr"), -E_FORBIDDEN);
}

static void sbx_6_the_servers_own_are_never_meant(void **state)
{
	struct rig *g = *state;
	cleanup_free char *list = mem_printf("sandbox.workspaces=%s", g->l.place.runtime);
	struct sandbox_plan plan = {0};
	struct err err = {0};

	set(g, list);
	assert_int_equal(workspace_check(&g->l, g->l.place.runtime, &plan, &err), -E_FORBIDDEN);
	assert_non_null(strstr(err.message, "--workspace DIR"));
	assert_non_null(strstr(err.message, "sessions.base_dir"));
}

static void sbx_6_what_the_server_runs_is_guarded(void **state)
{
	struct rig *g = *state;
	struct sandbox_plan plan = {0};
	cleanup_free char *bin = mem_printf("%s/work/bin", g->dir);
	cleanup_free char *below = mem_printf("%s/work/bin/x", g->dir);
	cleanup_free char *path = mem_printf("%s:relative:/nothing:%s:/", bin, bin);
	cleanup_free char *old = mem_strdup(getenv("PATH"));
	struct err err = {0};

	assert_int_equal(mkdir(bin, 0755), 0);
	setenv("PATH", path, 1);
	workspace_guard(&g->l.guarded);
	setenv("PATH", old, 1);
	assert_true(strv_has(&g->l.guarded, bin));
	assert_true(strv_has(&g->l.guarded, proc_self_dir()));
	assert_false(strv_has(&g->l.guarded, "/"));
	assert_int_equal(check(g, bin), -E_FORBIDDEN);
	assert_int_equal(check(g, below), -E_FORBIDDEN);
	assert_int_equal(workspace_check(&g->l, g->workspace, &plan, &err), 0);
	assert_int_equal(plan.shut_inside.n, 1);
	assert_string_equal(plan.shut_inside.v[0], "/workspace/bin");
	sandbox_plan_done(&plan);
}

static void fil_6_blocked_host_paths_hold_in_the_workspace(void **state)
{
	struct rig *g = *state;
	cleanup_free char *secret = mem_printf("%s/secret", g->workspace);
	cleanup_free char *below = mem_printf("%s/secret/project", g->workspace);
	cleanup_free char *list = mem_printf("filesystem.blocked_paths=%s,/workspace/x", secret);
	struct sandbox_plan plan = {0};
	struct err err = {0};

	assert_int_equal(mkdir(secret, 0755), 0);
	set(g, list);
	assert_int_equal(workspace_check(&g->l, g->workspace, &plan, &err), 0);
	assert_int_equal(plan.blocked_inside.n, 1);
	assert_string_equal(plan.blocked_inside.v[0], "/workspace/secret");
	assert_int_equal(check(g, secret), -E_FORBIDDEN);
	assert_int_equal(check(g, below), -E_FORBIDDEN);
	sandbox_plan_done(&plan);
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(sbx_6_the_systems_directories_are_no_workspaces),
		T(sbx_6_a_shown_path_is_where_it_leads),
		T(sbx_6_a_workspace_that_the_configuration_means),
		T(sbx_6_the_servers_own_are_never_meant),
		T(sbx_6_what_the_server_runs_is_guarded),
		T(fil_6_blocked_host_paths_hold_in_the_workspace),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
