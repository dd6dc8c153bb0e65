// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#define KEY_LINE                                                             \
	"keys:\n  - {id: k1, agent_id: a1, role: agent, uid: 1000, sha256: " \
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}\n"

struct here {
	char dir[64];
	char *config, *keys;
};

static int setup(void **state)
{
	struct here *h = mem_new(struct here);

	snprintf(h->dir, sizeof(h->dir), "/tmp/agentsh-settings-XXXXXX");
	if (mkdtemp(h->dir) == NULL)
		return -1;
	h->config = mem_printf("%s/config.yaml", h->dir);
	h->keys = mem_printf("%s/keys.yaml", h->dir);
	setenv("HOME", h->dir, 1);
	unsetenv("AGENTSH_LOG_LEVEL");
	unsetenv("AGENTSH_HTTP_ADDR");
	unsetenv("AGENTSH_DATA_DIR");
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct here *h = *state;
	int r;

	unlink(h->config);
	unlink(h->keys);
	r = rmdir(h->dir);
	free(h->config);
	free(h->keys);
	free(h);
	return r;
}

static void save(const char *path, const char *text)
{
	const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static enum config_mode mode(void)
{
	return geteuid() == 0 ? CONFIG_SYSTEM : CONFIG_USER;
}

static struct settings_source source(const char *path, bool must_exist)
{
	return (struct settings_source){
		.mode = mode(), .path = mem_strdup(path), .must_exist = must_exist};
}

static void cfg_1_flags_win_over_the_environment_and_that_over_the_file(void **state)
{
	const struct here *h = *state;
	struct launcher_options o = {.config_path = h->config, .ready_fd = -1};
	struct settings_source src = {0};
	struct settings s = {0};
	struct err err = {0};

	save(h->config,
	     "logging:\n  level: error\nsessions:\n  base_dir: /file\n  max_sessions: 7\n");
	setenv("AGENTSH_LOG_LEVEL", "warn", 1);
	setenv("AGENTSH_DATA_DIR", "/env", 1);
	strv_add(&o.overrides, "sessions.base_dir=/flag");
	assert_int_equal(settings_source_init(&o, mode(), &src, &err), 0);
	assert_int_equal(src.overrides.n, 3);
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), 0);
	assert_string_equal(s.config.base_dir, "/flag");
	assert_string_equal(s.config.log_level, "warn");
	assert_int_equal(s.config.max_sessions, 7);
	assert_true(s.has_config);
	assert_false(s.has_keys);
	settings_done(&s);
	settings_source_done(&src);
	strv_done(&o.overrides);
	unsetenv("AGENTSH_LOG_LEVEL");
	unsetenv("AGENTSH_DATA_DIR");
}

static void cfg_1_a_list_of_policies_that_do_not_exist(void **state)
{
	const struct here *h = *state;
	struct settings_source src = source(h->config, true);
	struct settings s = {0};
	struct err err = {0};

	save(h->config, "policies:\n  selectable: [observe]\n");
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), 0);
	settings_done(&s);
	save(h->config, "policies:\n  selectable: [observe, none-such]\n");
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "config.yaml:2:15: policies.selectable: no policy "
					    "'none-such'"));
	settings_source_done(&src);
}

static void cfg_1_a_relative_name_means_the_directory_of_the_start(void **state)
{
	const struct here *h = *state;
	struct launcher_options o = {.config_path = (char *)(uintptr_t) "config.yaml",
				     .ready_fd = -1};
	struct settings_source src = {0};
	char old[512];

	assert_non_null(getcwd(old, sizeof(old)));
	assert_int_equal(chdir(h->dir), 0);
	assert_int_equal(settings_source_init(&o, CONFIG_SYSTEM, &src, NULL), 0);
	assert_int_equal(chdir(old), 0);
	assert_string_equal(src.path, h->config);
	assert_true(src.must_exist);
	settings_source_done(&src);
}

static void cfg_1_the_default_file_is_the_modes_own(void **state)
{
	struct launcher_options o = {.ready_fd = -1};
	struct settings_source src = {0};

	assert_int_equal(settings_source_init(&o, CONFIG_SYSTEM, &src, NULL), 0);
	assert_string_equal(src.path, "/etc/agentsh/config.yaml");
	assert_false(src.must_exist);
	settings_source_done(&src);
	setenv("HOME", "/home/someone", 1);
	assert_int_equal(settings_source_init(&o, CONFIG_USER, &src, NULL), 0);
	assert_string_equal(src.path, "/home/someone/.config/agentsh/config.yaml");
	settings_source_done(&src);
}

static void cfg_1_only_a_file_that_was_named_must_exist(void **state)
{
	const struct here *h = *state;
	struct settings_source src = source(h->config, false);
	struct settings s = {0};
	struct err err = {0};

	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), 0);
	assert_false(s.has_config);
	settings_done(&s);
	src.must_exist = true;
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_NOT_FOUND);
	assert_string_equal(err.subject, h->config);
	settings_source_done(&src);
}

static void cfg_1_root_obeys_only_roots_files(void **state)
{
	static const mode_t bad[] = {0664, 0646, 0666};
	const struct here *h = *state;
	struct settings_source src;
	struct settings s = {0};
	struct err err = {0};

	if (geteuid() != 0)
		skip();
	src = source(h->config, true);
	save(h->config, "logging:\n  level: error\n");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(chmod(h->config, bad[i]), 0);
		assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_FORBIDDEN);
		assert_non_null(strstr(err.message, "chmod go-w"));
	}
	assert_int_equal(chmod(h->config, 0755), 0);
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), 0);
	settings_done(&s);
	assert_int_equal(chown(h->config, 1000, 0), 0);
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_FORBIDDEN);
	assert_non_null(strstr(err.message, "chown root"));
	settings_source_done(&src);
}

static void cfg_1_what_is_no_file_is_refused(void **state)
{
	const struct here *h = *state;
	struct settings_source src = source(h->dir, true);
	struct settings s = {0};
	struct err err = {0};

	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_BAD_REQUEST);
	assert_int_equal(mkfifo(h->config, 0600), 0);
	free(src.path);
	src.path = mem_strdup(h->config);
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_BAD_REQUEST);
	settings_source_done(&src);
}

static void cfg_1_every_problem_of_a_file_is_reported(void **state)
{
	const struct here *h = *state;
	struct settings_source src = source(h->config, true);
	cleanup_buf struct buf report = {0};
	struct settings s = {0};
	struct err err = {0};

	save(h->config, "logging:\n  levle: error\nsessions:\n  max_sessions: many\n");
	assert_int_equal(settings_load(&src, NULL, &s, &report, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(report.data, "config.yaml:2:3"));
	assert_non_null(strstr(report.data, "config.yaml:4:"));
	assert_null(s.config.unix_socket);
	settings_source_done(&src);
}

static void api_3_the_keys_are_read_with_the_same_care(void **state)
{
	const struct here *h = *state;
	struct settings_source src = source(h->config, false);
	cleanup_free char *set = mem_printf("server.auth.api_keys_file=%s", h->keys);
	struct settings s = {0};
	struct err err = {0};

	strv_add(&src.overrides, set);
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_NOT_FOUND);
	save(h->keys, "keys: [{id: k1}]\n");
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_BAD_REQUEST);
	save(h->keys, KEY_LINE);
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), 0);
	assert_true(s.has_keys);
	assert_int_equal(s.keys.n, 1);
	settings_done(&s);
	if (geteuid() == 0) {
		assert_int_equal(chmod(h->keys, 0666), 0);
		assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_FORBIDDEN);
	}
	settings_source_done(&src);
}

static void cfg_1_a_wrong_flag_is_named(void **state)
{
	static const struct {
		const char *override, *subject;
	} rows[] = {{"x", "x"}, {"=x", ""}, {"logging.level=loud", "logging.level"}};
	const struct here *h = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct settings_source src = source(h->config, false);
		struct settings s = {0};
		struct err err = {0};

		strv_add(&src.overrides, rows[i].override);
		assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_BAD_REQUEST);
		assert_string_equal(err.subject, rows[i].subject);
		settings_source_done(&src);
	}
}

static void obs_2_the_log_goes_to_stderr_or_to_its_file(void **state)
{
	const struct here *h = *state;
	struct settings_source src = source(h->keys, false);
	cleanup_free char *set = mem_printf("logging.output=%s", h->config);
	struct settings s = {0};
	struct err err = {0};
	struct stat st;

	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), 0);
	assert_int_equal(s.log_fd, STDERR_FILENO);
	settings_done(&s);
	strv_add(&src.overrides, set);
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), 0);
	assert_true(s.log_fd > STDERR_FILENO);
	assert_true((fcntl(s.log_fd, F_GETFL) & O_APPEND) != 0);
	assert_int_equal(fcntl(s.log_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(s.log_fd, &st), 0);
	assert_int_equal(st.st_mode & 07, 0);
	settings_done(&s);
	strv_add(&src.overrides, "logging.output=/nowhere/at/all/log");
	assert_int_equal(settings_load(&src, NULL, &s, NULL, &err), -E_UNAVAILABLE);
	settings_source_done(&src);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(cfg_1_flags_win_over_the_environment_and_that_over_the_file),
		T(cfg_1_a_list_of_policies_that_do_not_exist),
		T(cfg_1_a_relative_name_means_the_directory_of_the_start),
		T(cfg_1_the_default_file_is_the_modes_own),
		T(cfg_1_only_a_file_that_was_named_must_exist),
		T(cfg_1_root_obeys_only_roots_files),
		T(cfg_1_what_is_no_file_is_refused),
		T(cfg_1_every_problem_of_a_file_is_reported),
		T(api_3_the_keys_are_read_with_the_same_care),
		T(cfg_1_a_wrong_flag_is_named),
		T(obs_2_the_log_goes_to_stderr_or_to_its_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
