// SPDX-License-Identifier: Apache-2.0
/* What holds without a file, and the directories of a user. */
#include "config/testkit/config_testkit.h"
#include <stdio.h>
#include <sys/stat.h>

static void cfg_1_defaults_of_the_system(void **state)
{
	const struct config *c = *state;

	assert_string_equal(c->unix_socket, "/run/agentsh/agentsh.sock");
	assert_string_equal(c->http_addr, "");
	assert_int_equal(c->api_uid, 64998);
	assert_string_equal(c->auth_type, "api_key");
	assert_string_equal(c->api_keys_file, "");
	assert_int_equal(c->max_request_bytes, 16 * 1024 * 1024);
	assert_int_equal(c->auto_idle_ms, 60 * 1000);
	assert_string_equal(c->log_level, "info");
	assert_string_equal(c->base_dir, "/var/lib/agentsh");
	assert_string_equal(c->policy_dir, "/etc/agentsh/policies");
	assert_int_equal(c->max_sessions, 1000);
	assert_int_equal(c->limits.value[LIMIT_session_timeout], 4 * 3600 * 1000);
	assert_int_equal(c->limits.value[LIMIT_idle_timeout], 30 * 60 * 1000);
	assert_int_equal(c->cleanup_interval_ms, 60 * 1000);
	assert_int_equal(c->orphan_timeout_ms, 10 * 60 * 1000);
	assert_int_equal(c->max_queue, 64);
	assert_true(uid_range_exists(&c->session_uids));
	assert_string_equal(c->run_as, "caller");
	assert_int_equal(c->workspaces.n, 0);
	assert_int_equal(c->env_allow.n, 6);
	assert_string_equal(c->env_allow.v[5], "TZ");
	assert_int_equal(c->limits.value[LIMIT_max_memory_mb], 0);
	assert_int_equal(c->limits.value[LIMIT_command_timeout], 5 * 60 * 1000);
	assert_string_equal(c->policy_default, "default");
	assert_true(config_fuse(c));
	assert_int_equal(c->policy_selectable.n, 0);
	assert_string_equal(c->full_ring, "wait");
	assert_int_equal(c->ring_bytes, 1024 * 1024);
	assert_int_equal(c->output_command_quota, 256 * 1024 * 1024);
	assert_int_equal(c->output_quota, INT64_C(4) * 1024 * 1024 * 1024);
	assert_int_equal(c->output_max_age_ms, INT64_C(168) * 3600 * 1000);
	assert_int_equal(c->idempotency_age_ms, 24 * 3600 * 1000);
	assert_true(c->metrics_enabled);
	assert_string_equal(c->metrics_path, "/metrics");
	assert_int_equal(config_check(c, NULL), 0);
}

static void cfg_1_defaults_of_a_user(void **state)
{
	char dir[] = "/tmp/agentsh-config-XXXXXX";
	cleanup_free char *fallback = NULL, *socket = NULL;
	struct config c;
	struct err err = {0};
	struct stat st;

	assert_non_null(mkdtemp(dir));
	fallback = mem_printf("%s/agentsh-%u", dir, (unsigned)geteuid());
	setenv("HOME", "/home/x", 1);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	setenv("TMPDIR", dir, 1);
	assert_int_equal(config_defaults(CONFIG_USER, &c, &err), 0);
	socket = mem_printf("%s/agentsh/agentsh.sock", dir);
	assert_string_equal(c.unix_socket, socket);
	assert_string_equal(c.base_dir, "/home/x/.local/state/agentsh");
	assert_string_equal(c.policy_dir, "/home/x/.config/agentsh/policies");
	config_done(&c);

	/* without a runtime directory of ours: one in the temporary directory, made private */
	setenv("XDG_RUNTIME_DIR", "/nowhere/at/all", 1);
	for (int again = 0; again < 2; again++) {
		cleanup_free char *runtime = NULL;

		assert_int_equal(config_defaults(CONFIG_USER, &c, &err), 0);
		runtime = config_runtime_dir(&c);
		assert_string_equal(runtime, fallback);
		config_done(&c);
		assert_int_equal(stat(fallback, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0700);
	}
	/* which must stay closed to others, and be a directory */
	assert_int_equal(chmod(fallback, 0710), 0);
	assert_int_equal(config_defaults(CONFIG_USER, &c, &err), -E_FORBIDDEN);
	assert_string_equal(err.subject, fallback);
	assert_int_equal(rmdir(fallback), 0);
	assert_int_equal(symlink(dir, fallback), 0);
	assert_int_equal(config_defaults(CONFIG_USER, &c, &err), -E_FORBIDDEN);
	assert_int_equal(unlink(fallback), 0);
	setenv("TMPDIR", "/nowhere/at/all", 1);
	assert_int_equal(config_defaults(CONFIG_USER, &c, &err), -E_UNAVAILABLE);
	setenv("XDG_RUNTIME_DIR", dir, 1);
	setenv("HOME", "x", 1);
	assert_int_equal(config_defaults(CONFIG_USER, &c, &err), -E_BAD_REQUEST);
	unsetenv("HOME");
	assert_int_equal(config_defaults(CONFIG_USER, &c, &err), -E_BAD_REQUEST);
	assert_int_equal(rmdir(dir), 0);
}

/* A runtime directory that is not ours is not used, and one whose path is too long for a socket is
 * an error. */
static void cfg_1_a_user_s_runtime_directory_is_checked(void **state)
{
	char dir[] = "/tmp/agentsh-config-XXXXXX";
	cleanup_free char *deep = NULL, *fallback = NULL;
	struct config c;
	struct err err = {0};

	assert_non_null(mkdtemp(dir));
	setenv("HOME", "/home/x", 1);
	setenv("TMPDIR", dir, 1);
	if (geteuid() == 0) {
		cleanup_free char *runtime = NULL;

		deep = mem_printf("%s/other", dir);
		assert_int_equal(mkdir(deep, 0700), 0);
		assert_int_equal(chown(deep, 1234, 1234), 0);
		setenv("XDG_RUNTIME_DIR", deep, 1);
		assert_int_equal(config_defaults(CONFIG_USER, &c, &err), 0);
		runtime = config_runtime_dir(&c);
		fallback = mem_printf("%s/agentsh-0", dir);
		assert_string_equal(runtime, fallback);
		config_done(&c);
		assert_int_equal(rmdir(fallback), 0);
		assert_int_equal(rmdir(deep), 0);
		free(take(deep));
	}
	deep = mem_printf("%s/%070d", dir, 0);
	assert_int_equal(mkdir(deep, 0700), 0);
	setenv("XDG_RUNTIME_DIR", deep, 1);
	assert_int_equal(config_defaults(CONFIG_USER, &c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.subject, "server.unix_socket");
	assert_int_equal(rmdir(deep), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void cfg_1_the_runtime_directory_is_the_socket_s(void **state)
{
	static const char *const row[][2] = {{"server.unix_socket=/s", "/"},
					     {"server.unix_socket=/a/b/s", "/a/b"},
					     {"server.unix_socket=/a/s", "/a"}};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		cleanup_free char *dir = NULL;

		assert_int_equal(config_override(row[i][0], *state, NULL), 0);
		dir = config_runtime_dir(*state);
		assert_string_equal(dir, row[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(cfg_1_defaults_of_the_system),
		cmocka_unit_test(cfg_1_defaults_of_a_user),
		cmocka_unit_test(cfg_1_a_user_s_runtime_directory_is_checked),
		KIT_TEST(cfg_1_the_runtime_directory_is_the_socket_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
