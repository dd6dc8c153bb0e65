// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "config/config.h"
#include "config/table.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

static int defaults(void **state)
{
	struct config *c = mem_new(struct config);

	*state = c;
	return config_defaults(CONFIG_SYSTEM, c, NULL);
}

static int done(void **state)
{
	config_done(*state);
	free(*state);
	return 0;
}

static int parse(struct config *c, const char *text, struct buf *report, struct err *err)
{
	return config_parse("c.yaml", text, strlen(text), c, report, err);
}

/* The whole resolved configuration, for comparing before and after. */
static char *shown(const struct config *c)
{
	struct buf out = {0};

	config_show(c, false, &out);
	return buf_take(&out);
}

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
	assert_int_equal(c->default_timeout_ms, 4 * 3600 * 1000);
	assert_int_equal(c->default_idle_timeout_ms, 30 * 60 * 1000);
	assert_int_equal(c->cleanup_interval_ms, 60 * 1000);
	assert_int_equal(c->orphan_timeout_ms, 10 * 60 * 1000);
	assert_int_equal(c->max_queue, 64);
	assert_int_equal(c->session_uid, 64999);
	assert_string_equal(c->run_as, "caller");
	assert_int_equal(c->workspaces.n, 0);
	assert_int_equal(c->env_allow.n, 6);
	assert_string_equal(c->env_allow.v[5], "LC_*");
	assert_int_equal(c->max_memory_mb, 0);
	assert_int_equal(c->command_timeout_ms, 5 * 60 * 1000);
	assert_string_equal(c->policy_default, "observe");
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

static void cfg_1_a_file_is_applied_over_the_defaults(void **state)
{
	static const char text[] = "# comment\n"
				   "server:\n"
				   "  http_addr: \"127.0.0.1:8080\"\n"
				   "  api_uid: 5000\n"
				   "  auth:\n"
				   "    type: none\n"
				   "logging: {level: debug, format: json}\n"
				   "sessions:\n"
				   "sandbox:\n"
				   "  workspaces: [/srv/a, \"/srv/b\"]\n"
				   "  allow_unenforced:\n"
				   "    - seccomp\n"
				   "    - uid\n"
				   "  env: {LANG: C.UTF-8, N: 5, E: \"\"}\n"
				   "  env_allow: []\n"
				   "  resource_limits:\n"
				   "    memory_max_mb: 64\n"
				   "    cpu_quota_percent: 50\n"
				   "    command_timeout: 90s\n"
				   "events:\n"
				   "  jsonl:\n"
				   "    path: none\n"
				   "metrics: {enabled: false}\n";
	struct config *c = *state;
	struct err err = {0};

	if (parse(c, text, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(c->http_addr, "127.0.0.1:8080");
	assert_int_equal(c->api_uid, 5000);
	assert_string_equal(c->auth_type, "none");
	assert_string_equal(c->log_level, "debug");
	assert_string_equal(c->log_format, "json");
	assert_int_equal(c->workspaces.n, 2);
	assert_string_equal(c->workspaces.v[1], "/srv/b");
	assert_int_equal(c->allow_unenforced.n, 2);
	assert_string_equal(c->allow_unenforced.v[0], "seccomp");
	assert_int_equal(c->env_set.n, 3);
	assert_string_equal(c->env_set.v[0], "LANG=C.UTF-8");
	assert_string_equal(c->env_set.v[1], "N=5");
	assert_string_equal(c->env_set.v[2], "E=");
	assert_int_equal(c->env_allow.n, 0);
	assert_int_equal(c->max_memory_mb, 64);
	assert_int_equal(c->max_cpu_percent, 50);
	assert_int_equal(c->command_timeout_ms, 90000);
	assert_string_equal(c->jsonl_path, "none");
	assert_false(c->metrics_enabled);
	assert_int_equal(c->max_sessions, 1000);
	assert_int_equal(config_check(c, NULL), 0);
	assert_int_equal(parse(c, "", NULL, NULL), 0);
}

struct bad {
	const char *text, *line;
};

static const struct bad bad_files[] = {
	{"sever:\n  x: 1\n", "c.yaml:1:1: unknown key 'sever' (did you mean 'server'?)"},
	{"server:\n  htp_addr: x\n",
	 "c.yaml:2:3: unknown key 'server.htp_addr' (did you mean 'http_addr'?)"},
	{"a: 1\n\"\": 1\n", "c.yaml:2:1: unknown key ''"},
	{"zzzzzz: 1\n", "c.yaml:1:1: unknown key 'zzzzzz'"},
	{"server:\n  \"\": 1\n", "c.yaml:2:3: unknown key 'server.'"},
	{"max_sessions: 5\n",
	 "c.yaml:1:1: unknown key 'max_sessions' (did you mean 'sessions.max_sessions'?)"},
	{"server.http_addr: x\n", "c.yaml:1:1: 'server.http_addr' must be written as keys below"},
	{"server:\n  auth.type: none\n",
	 "c.yaml:2:3: 'server.auth.type' must be written as keys below"},
	{"server:\n  auth.typ: none\n", "c.yaml:2:3: unknown key 'server.auth.typ'"},
	{"- a\n", "c.yaml:1:1: must be sections of keys"},
	{"text\n", "c.yaml:1:1: must be sections of keys"},
	{"server: 5\n", "c.yaml:1:9: server: must be a section of keys"},
	{"server: [a]\n", "c.yaml:1:9: server: must be a section of keys"},
	{"server: \"\"\n", "c.yaml:1:9: server: must be a section of keys"},
	{"server:\n  tls: {enabled: true}\n",
	 "c.yaml:2:3: 'server.tls' is not available in this version"},
	{"server:\n  grpc_addr: x\n",
	 "c.yaml:2:3: 'server.grpc_addr' is not available in this version"},
	{"logging:\n  audit: {x: 1}\n",
	 "c.yaml:2:3: 'logging.audit' is not available in this version"},
	{"sandbox:\n  fuse: {}\n", "c.yaml:2:3: 'sandbox.fuse' is not available in this version"},
	{"sandbox:\n  network:\n",
	 "c.yaml:2:3: 'sandbox.network' is not available in this version"},
	{"policies:\n  dir: x\n", "c.yaml:2:8: policies.dir: must be an absolute path, is 'x'"},
	{"approvals: {timeout: 5m}\n",
	 "c.yaml:1:13: 'approvals.timeout' is not available in this version"},
	{"server: {auth: {type: jwt}}\n",
	 "c.yaml:1:23: server.auth.type: 'jwt' is not available in this version"},
	{"server: {auth: {type: mtls}}\n",
	 "c.yaml:1:23: server.auth.type: 'mtls' is not available in this version"},
	{"server: {auth: {type: oauth}}\n",
	 "server.auth.type: must be api_key or none, is 'oauth'"},
	{"server:\n  unix_socket: rel\n",
	 "c.yaml:2:16: server.unix_socket: must be an absolute path, is 'rel'"},
	{"server:\n  unix_socket: \"\"\n",
	 "c.yaml:2:16: server.unix_socket: must be an absolute path, is ''"},
	{"server:\n  unix_socket:\n",
	 "c.yaml:2:15: server.unix_socket: has no value, must be an absolute path"},
	{"server:\n  unix_socket: ~\n", "c.yaml:2:16: server.unix_socket: has no value"},
	{"server:\n  unix_socket: null\n", "c.yaml:2:16: server.unix_socket: has no value"},
	{"server:\n  unix_socket: [/a]\n",
	 "c.yaml:2:16: server.unix_socket: must be an absolute path"},
	{"events: {jsonl: {path: non}}\n", "events.jsonl.path: must be an absolute path, is 'non'"},
	{"server: {http_addr: localhost:80}\n",
	 "server.http_addr: must be an IP address and a port"},
	{"server: {http_addr: {}}\n", "server.http_addr: must be an IP address and a port"},
	{"logging:\n  level: inf\n",
	 "c.yaml:2:10: logging.level: unknown value 'inf' (did you mean 'info'?)"},
	{"logging:\n  level: loud\n",
	 "c.yaml:2:10: logging.level: must be debug, info, warn or error, is 'loud'"},
	{"logging:\n  level: []\n", "c.yaml:2:10: logging.level: must be a word"},
	{"policies:\n  default: my/policy\n",
	 "c.yaml:2:12: policies.default: must be a name of letters, digits, '.', '_' and '-', is "
	 "'my/policy'"},
	{"policies:\n  default: .x\n", "policies.default: must be a name"},
	{"policies:\n  default: ''\n", "policies.default: must be a name"},
	{"policies:\n  default: []\n", "policies.default: must be a name"},
	{"server: {api_uid: 0}\n",
	 "server.api_uid: must be a whole number from 1 to 4294967294, is '0'"},
	{"server: {api_uid: 4294967295}\n", "from 1 to 4294967294, is '4294967295'"},
	{"server: {max_connections: 0}\n",
	 "server.max_connections: must be a whole number from 1 to 65536"},
	{"server: {max_connections: 65537}\n", "is '65537'"},
	{"server: {max_connections: -1}\n", "is '-1'"},
	{"server: {max_connections: 1.5}\n", "is '1.5'"},
	{"server: {max_connections: 010}\n", "is '010'"},
	{"server: {max_connections: 1e3}\n", "is '1e3'"},
	{"server: {max_connections: \"5\"}\n", "is 'quoted'"},
	{"server: {max_connections: }\n", "is ''"},
	{"server: {max_connections: [5]}\n", "is 'no number'"},
	{"server: {max_connections: 99999999999999999999}\n", "is '99999999999999999999'"},
	{"server: {max_connections: 9223372036854775808}\n", "is '9223372036854775808'"},
	{"metrics: {enabled: yes}\n", "metrics.enabled: must be true or false, is 'yes'"},
	{"metrics: {enabled: \"true\"}\n", "metrics.enabled: must be true or false"},
	{"metrics: {enabled: }\n", "metrics.enabled: has no value"},
	{"sessions: {default_timeout: 5}\n",
	 "sessions.default_timeout: must be a duration such as 90s or 5m, is '5'"},
	{"sessions: {default_timeout: 0s}\n",
	 "sessions.default_timeout: must be from 1ms to 87600h, is '0s'"},
	{"sessions: {default_timeout: 87601h}\n", "must be from 1ms to 87600h, is '87601h'"},
	{"sessions: {default_timeout: {}}\n", "sessions.default_timeout: must be a duration"},
	{"sandbox: {workspaces: /srv}\n", "c.yaml:1:23: sandbox.workspaces: must be a list"},
	{"sandbox:\n  workspaces:\n    - /srv\n    - srv\n",
	 "c.yaml:4:7: sandbox.workspaces: must be an absolute path, is 'srv'"},
	{"sandbox: {workspaces: [[/srv]]}\n", "sandbox.workspaces: must be an absolute path"},
	{"sandbox: {workspaces: [\"\"]}\n", "sandbox.workspaces: must be an absolute path"},
	{"sandbox: {allow_unenforced: [secomp]}\n",
	 "sandbox.allow_unenforced: unknown value 'secomp' (did you mean 'seccomp'?)"},
	{"sandbox: {allow_unenforced: [{}]}\n", "sandbox.allow_unenforced: must be a word"},
	{"sandbox: {env_allow: [\"\"]}\n", "sandbox.env_allow: not the name of a variable: ''"},
	{"sandbox: {env_allow: [A-B]}\n", "sandbox.env_allow: not the name of a variable: 'A-B'"},
	{"sandbox: {env_allow: [\"*\"]}\n", "sandbox.env_allow: not the name of a variable: '*'"},
	{"sandbox: {env_allow: [\"A**\"]}\n",
	 "sandbox.env_allow: not the name of a variable: 'A**'"},
	{"sandbox: {env_allow: [LD_PRELOAD]}\n",
	 "sandbox.env_allow: 'LD_PRELOAD' never comes into a session"},
	{"sandbox: {env_allow: [[]]}\n", "sandbox.env_allow: must be the name of a variable"},
	{"sandbox: {env: [A]}\n", "sandbox.env: must be names with values"},
	{"sandbox: {env: {1A: x}}\n", "sandbox.env: not the name of a variable: '1A'"},
	{"sandbox: {env: {BASH_ENV: x}}\n", "sandbox.env: 'BASH_ENV' never comes into a session"},
	{"sandbox: {env: {A: }}\n", "sandbox.env: has no value, must be text"},
	{"sandbox: {env: {A: {}}}\n", "sandbox.env: must be text"},
	{"sandbox:\n  resource_limits:\n    max_memory_mb: 1\n    memory_max_mb: 1\n",
	 "c.yaml:4:5: 'sandbox.resource_limits.memory_max_mb' is another name of a key that was "
	 "given"},
	{"sandbox:\n  resource_limits:\n    cpu_quota_percent: 1\n    max_cpu_percent: 1\n",
	 "c.yaml:4:5: 'sandbox.resource_limits.max_cpu_percent' is another name of a key that was "
	 "given"},
	{"server: {\n", "c.yaml:2:1: "},
	{"server: {}\nserver: {}\n", "c.yaml:2:1: "},
};

static void cfg_1_each_problem_is_told_with_its_place(void **state)
{
	struct config *c = *state;
	cleanup_free char *before = shown(c);

	for (size_t i = 0; i < ARRAY_LEN(bad_files); i++) {
		cleanup_buf struct buf report = {0};
		cleanup_free char *after = NULL;
		struct err err = {0};

		if (parse(c, bad_files[i].text, &report, &err) != -E_BAD_REQUEST)
			fail_msg("accepted: %s", bad_files[i].text);
		if (strstr(report.data, bad_files[i].line) == NULL)
			fail_msg("%s\nsays %s\nnot  %s", bad_files[i].text, report.data,
				 bad_files[i].line);
		assert_int_equal(strncmp(err.message, report.data, strlen(err.message)), 0);
		assert_int_equal(parse(c, bad_files[i].text, NULL, NULL), -E_BAD_REQUEST);
		after = shown(c);
		assert_string_equal(before, after);
	}
}

static void cfg_1_all_problems_in_one_pass(void **state)
{
	cleanup_buf struct buf report = {0}, many = {0};
	struct err err = {0};
	size_t lines = 0;

	assert_int_equal(parse(*state,
			       "server:\n  max_connections: 0\n  x: 1\nlogging:\n  level: "
			       "no\nmetrics:\n  path: /m\n",
			       &report, &err),
			 -E_BAD_REQUEST);
	assert_string_equal(
		report.data,
		"c.yaml:2:20: server.max_connections: must be a whole number from 1 to 65536, is "
		"'0'\n"
		"c.yaml:3:3: unknown key 'server.x'\n"
		"c.yaml:5:10: logging.level: must be debug, info, warn or error, is 'no'\n");
	assert_string_equal(err.subject, "c.yaml");

	/* a hundred lines and a count */
	for (int n = 100; n <= 101; n++) {
		buf_clear(&report);
		buf_clear(&many);
		for (int i = 0; i < n; i++)
			buf_addf(&many, "zzzzzz%d: 1\n", i);
		assert_int_equal(parse(*state, many.data, &report, NULL), -E_BAD_REQUEST);
		lines = 0;
		for (size_t i = 0; i < report.len; i++)
			lines += report.data[i] == '\n';
		assert_int_equal(lines, n);
		assert_int_equal(strstr(report.data, "c.yaml: and 1 more\n") != NULL, n == 101);
	}
}

/* Both ends of every range are allowed, and nothing beyond them. */
static void cfg_1_ranges_include_their_ends(void **state)
{
	for (size_t i = 0; i < config_row_count; i++) {
		const struct config_row *row = &config_rows[i];
		const int64_t value[] = {row->min - 1, row->min, row->max, row->max + 1};

		if (row->type != CONFIG_INT && row->type != CONFIG_UID &&
		    row->type != CONFIG_DURATION)
			continue;
		for (int k = 0; k < 4; k++) {
			const bool good = k == 1 || k == 2;
			cleanup_free char *text =
				mem_printf("%s=%lld%s", row->key, (long long)value[k],
					   row->type == CONFIG_DURATION ? "ms" : "");

			if (config_override(text, *state, NULL) != (good ? 0 : -E_BAD_REQUEST))
				fail_msg("%s", text);
		}
	}
}

static void cfg_1_paths_are_bounded(void **state)
{
	static const struct {
		const char *key;
		int most;
	} row[] = {{"server.unix_socket", 107},
		   {"sessions.base_dir", 4095},
		   {"metrics.path", 256},
		   {"sandbox.workspaces", 4095}};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		cleanup_free char *good = mem_printf("%s=/%0*d", row[i].key, row[i].most - 1, 0);
		cleanup_free char *bad = mem_printf("%s=/%0*d", row[i].key, row[i].most, 0);

		assert_int_equal(config_override(good, *state, NULL), 0);
		assert_int_equal(config_override(bad, *state, NULL), -E_BAD_REQUEST);
	}
}

static void cfg_1_lists_are_bounded(void **state)
{
	cleanup_buf struct buf list = {0};
	cleanup_free char *value = mem_alloc(65536);
	cleanup_free char *good = NULL, *bad = NULL;

	buf_adds(&list, "sandbox.workspaces=/0");
	for (int i = 1; i < 1024; i++)
		buf_addf(&list, ",/%d", i);
	assert_int_equal(config_override(list.data, *state, NULL), 0);
	assert_int_equal(((struct config *)*state)->workspaces.n, 1024);
	buf_adds(&list, ",/x");
	assert_int_equal(config_override(list.data, *state, NULL), -E_BAD_REQUEST);
	memset(value, 'a', 65534);
	good = mem_printf("sandbox.env=A=%s", value);
	assert_int_equal(config_override(good, *state, NULL), 0);
	bad = mem_printf("sandbox.env=A=%sa", value);
	assert_int_equal(config_override(bad, *state, NULL), -E_BAD_REQUEST);
}

static void cfg_1_overrides(void **state)
{
	struct config *c = *state;
	struct err err = {0};

	assert_int_equal(config_override("logging.level=warn", c, &err), 0);
	assert_string_equal(c->log_level, "warn");
	assert_int_equal(config_override("sandbox.resource_limits.memory_max_mb=7", c, &err), 0);
	assert_int_equal(c->max_memory_mb, 7);
	assert_int_equal(config_override("sandbox.resource_limits.max_memory_mb=8", c, &err), 0);
	assert_int_equal(c->max_memory_mb, 8);
	assert_int_equal(config_override("sandbox.workspaces=/a,/b", c, &err), 0);
	assert_int_equal(c->workspaces.n, 2);
	assert_string_equal(c->workspaces.v[1], "/b");
	assert_int_equal(config_override("sandbox.workspaces=", c, &err), 0);
	assert_int_equal(c->workspaces.n, 0);
	assert_int_equal(config_override("sandbox.env=A=1,B==,C=", c, &err), 0);
	assert_int_equal(c->env_set.n, 3);
	assert_string_equal(c->env_set.v[1], "B==");
	assert_string_equal(c->env_set.v[2], "C=");
	assert_int_equal(config_override("server.http_addr=[::1]:80", c, &err), 0);
	assert_int_equal(config_override("server.http_addr=", c, &err), 0);
	assert_string_equal(c->http_addr, "");
	assert_int_equal(config_override("metrics.enabled=false", c, &err), 0);
	assert_false(c->metrics_enabled);

	assert_int_equal(config_override("logging.level", c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "'logging.level' is not KEY=VALUE");
	assert_int_equal(config_override("loggng.level=info", c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message,
			    "unknown key 'loggng.level' (did you mean 'logging.level'?)");
	assert_int_equal(config_override("nothing.like.it=1", c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "unknown key 'nothing.like.it'");
	assert_int_equal(config_override("server.tls.enabled=true", c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "'server.tls.enabled' is not available in this version");
	assert_int_equal(config_override("server.tlsx=true", c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "unknown key 'server.tlsx'");
	assert_int_equal(config_override("logging.level=", c, &err), -E_BAD_REQUEST);
	assert_int_equal(config_override("server.max_connections=", c, &err), -E_BAD_REQUEST);
	assert_int_equal(config_override("sandbox.env=B=1,A", c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "sandbox.env: has no value, must be text");
	assert_int_equal(config_override("sandbox.env=1=2", c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.message, "sandbox.env: not the name of a variable: '1'");
	assert_string_equal(c->log_level, "warn");
}

static void cfg_1_values_are_printable(void **state)
{
	static const char *const good[] = {
		" ", "~", "\xc2\xa0", "\xc3\xa4", "\xe2\x80\xa7", "\xf0\x9f\x98\x80"};
	static const char *const bad[] = {
		"\x01",		"\t",		"\n",		"\x1f",	       "\x7f",
		"\xc2\x80",	"\xc2\x85",	"\xc2\x9f",	"\xff",	       "\xc3",
		"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbf\xbe", "\xef\xbf\xbf"};

	for (size_t i = 0; i < ARRAY_LEN(good) + ARRAY_LEN(bad); i++) {
		const bool fine = i < ARRAY_LEN(good);
		const char *part = fine ? good[i] : bad[i - ARRAY_LEN(good)];
		cleanup_free char *text = mem_printf("logging.output=/a%sb", part);

		assert_int_equal(config_override(text, *state, NULL), fine ? 0 : -E_BAD_REQUEST);
	}
	assert_int_equal(parse(*state, "sandbox: {env: {A: \"a\\nb\"}}\n", NULL, NULL),
			 -E_BAD_REQUEST);
}

static void cfg_1_addresses(void **state)
{
	static const struct {
		const char *text, *host;
		unsigned port;
	} good[] = {{"127.0.0.1:8080", "127.0.0.1", 8080},
		    {"[::1]:1", "::1", 1},
		    {"127.0.0.1:0", "127.0.0.1", 0},
		    {"0.0.0.0:65535", "0.0.0.0", 65535},
		    {"[1111:2222:3333:4444:5555:6666:127.127.127.127]:9",
		     "1111:2222:3333:4444:5555:6666:127.127.127.127", 9}};
	static const char *const bad[] = {"127.0.0.1",
					  "127.0.0.1:",
					  "127.0.0.1:65536",
					  "127.0.0.1:08",
					  "127.0.0.1:1x",
					  "127.0.0.1:-1",
					  "127.0.0.1: 1",
					  ":80",
					  "::1:80",
					  "[::1]",
					  "[::1]80",
					  "[::1:80",
					  "[]:80",
					  "[127.0.0.1]:80",
					  "127.1:80",
					  "localhost:80",
					  "a:b",
					  "127.0.0.1:99999999999999999999",
					  "127.0.0.1:/",
					  "127.0.0.1::",
					  "[1111:2222:3333:4444:5555:6666:127.127.127.1271]:9"};
	char host[46];
	unsigned port;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		assert_int_equal(config_address_split(good[i].text, host, sizeof(host), &port), 0);
		assert_string_equal(host, good[i].host);
		assert_int_equal(port, good[i].port);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (config_address_split(bad[i], host, sizeof(host), &port) != -1)
			fail_msg("%s", bad[i]);
	assert_int_equal(config_address_split("127.0.0.1:80", host, 10, &port), 0);
	assert_int_equal(config_address_split("127.0.0.1:80", host, 9, &port), -1);
}

static void cfg_1_settings_must_fit_each_other(void **state)
{
	static const struct {
		const char *set[3];
		const char *subject; /* NULL: fine */
	} row[] = {
		{{"server.http_addr=127.0.0.1:80"}, "server.auth.api_keys_file"},
		{{"server.http_addr=127.0.0.1:80", "server.auth.type=none"}, NULL},
		{{"server.http_addr=127.255.0.9:80", "server.auth.api_keys_file=/k"}, NULL},
		{{"server.http_addr=[::1]:80", "server.auth.type=none"}, NULL},
		{{"server.http_addr=0.0.0.0:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=126.255.255.255:80", "server.auth.type=none"},
		 "server.http_addr"},
		{{"server.http_addr=128.0.0.1:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=[::]:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=[::2]:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=[::ffff:127.0.0.1]:80", "server.auth.type=none"},
		 "server.http_addr"},
		{{"server.auth.type=none"}, NULL},
		{{"server.api_uid=7", "sandbox.session_uid=7"}, "sandbox.session_uid"},
		{{"server.api_uid=7", "sandbox.session_uid=8"}, NULL},
		{{"output.quota=8192", "output.command_quota=8192"}, NULL},
		{{"output.quota=8192", "output.command_quota=8193"}, "output.command_quota"},
		{{"events.ring_bytes=266240"}, NULL},
		{{"events.ring_bytes=266241"}, "events.ring_bytes"},
		{{"metrics.path=/m/x"}, NULL},
		{{"metrics.path=/apis"}, NULL},
		{{"metrics.path=/health"}, "metrics.path"},
		{{"metrics.path=/api"}, "metrics.path"},
		{{"metrics.path=/api/v1/x"}, "metrics.path"},
		{{"metrics.path=/"}, "metrics.path"},
		{{"metrics.path=/m?x"}, "metrics.path"},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct config c;
		struct err err = {0};
		int r;

		assert_int_equal(config_defaults(CONFIG_SYSTEM, &c, NULL), 0);
		for (size_t k = 0; row[i].set[k] != NULL; k++)
			assert_int_equal(config_override(row[i].set[k], &c, NULL), 0);
		r = config_check(&c, &err);
		if (r != (row[i].subject != NULL ? -E_BAD_REQUEST : 0))
			fail_msg("%s %s", row[i].set[0], err.message);
		assert_string_equal(err.subject, row[i].subject != NULL ? row[i].subject : "");
		config_done(&c);
	}
}

static void cfg_1_environment_variables(void **state)
{
	struct strv found = {0};
	struct err err = {0};

	setenv("AGENTSH_LOG_LEVEL", "debug", 1);
	setenv("AGENTSH_HTTP_ADDR", "", 1);
	setenv("AGENTSH_DATA_DIR", "/data", 1);
	unsetenv("AGENTSH_GRPC_ADDR");
	assert_int_equal(config_env(&found, &err), 0);
	assert_int_equal(found.n, 2);
	assert_string_equal(found.v[0], "logging.level=debug");
	assert_string_equal(found.v[1], "sessions.base_dir=/data");
	setenv("AGENTSH_HTTP_ADDR", "127.0.0.1:1", 1);
	assert_int_equal(config_env(&found, &err), 0);
	assert_int_equal(found.n, 5);
	assert_string_equal(found.v[3], "server.http_addr=127.0.0.1:1");
	setenv("AGENTSH_GRPC_ADDR", "127.0.0.1:2", 1);
	assert_int_equal(config_env(&found, &err), -E_BAD_REQUEST);
	assert_string_equal(err.subject, "AGENTSH_GRPC_ADDR");
	assert_int_equal(found.n, 5);
	strv_done(&found);
	unsetenv("AGENTSH_LOG_LEVEL");
	unsetenv("AGENTSH_HTTP_ADDR");
	unsetenv("AGENTSH_DATA_DIR");
	unsetenv("AGENTSH_GRPC_ADDR");
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

static void cfg_1_what_needs_a_restart_is_kept(void **state)
{
	struct config *was = *state, is = {0};
	struct strv kept = {0};

	assert_int_equal(config_defaults(CONFIG_SYSTEM, &is, NULL), 0);
	config_keep(was, &is, &kept);
	assert_int_equal(kept.n, 0);
	assert_int_equal(config_override("server.api_uid=61111", &is, NULL), 0);
	assert_int_equal(config_override("server.http_addr=127.0.0.1:1", &is, NULL), 0);
	assert_int_equal(config_override("sessions.base_dir=/new", &is, NULL), 0);
	assert_int_equal(config_override("sessions.max_sessions=3", &is, NULL), 0);
	config_keep(was, &is, &kept);
	assert_int_equal(kept.n, 3);
	assert_string_equal(kept.v[0], "server.http_addr=");
	assert_string_equal(kept.v[1], "server.api_uid=64998");
	assert_string_equal(kept.v[2], "sessions.base_dir=/var/lib/agentsh");
	assert_string_equal(is.base_dir, "/var/lib/agentsh");
	assert_string_equal(is.http_addr, "");
	assert_int_equal(is.api_uid, 64998);
	assert_int_equal(is.max_sessions, 3);
	for (size_t i = 0; i < kept.n; i++)
		assert_int_equal(config_override(kept.v[i], &is, NULL), 0);
	strv_done(&kept);
	config_done(&is);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, defaults, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cfg_1_defaults_of_the_system),
		cmocka_unit_test(cfg_1_defaults_of_a_user),
		cmocka_unit_test(cfg_1_a_user_s_runtime_directory_is_checked),
		TEST(cfg_1_a_file_is_applied_over_the_defaults),
		TEST(cfg_1_each_problem_is_told_with_its_place),
		TEST(cfg_1_all_problems_in_one_pass),
		TEST(cfg_1_ranges_include_their_ends),
		TEST(cfg_1_paths_are_bounded),
		TEST(cfg_1_lists_are_bounded),
		TEST(cfg_1_overrides),
		TEST(cfg_1_values_are_printable),
		cmocka_unit_test(cfg_1_addresses),
		cmocka_unit_test(cfg_1_settings_must_fit_each_other),
		cmocka_unit_test(cfg_1_environment_variables),
		TEST(cfg_1_the_runtime_directory_is_the_socket_s),
		TEST(cfg_1_what_needs_a_restart_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
