// SPDX-License-Identifier: Apache-2.0
/* Files, overrides, ranges, and settings that must fit each other. */
#include "config/table.h"
#include "config/testkit/config_testkit.h"

static void cfg_1_a_file_is_applied_over_the_defaults(void **state)
{
	static const char text[] = "# comment\n"
				   "server:\n"
				   "  http_addr: \"127.0.0.1:8080\"\n"
				   "  api_uid: 5000\n"
				   "  auth:\n"
				   "    type: none\n"
				   "    none_as: 1000\n"
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
				   "policies: {selectable: [default, ci-2]}\n"
				   "metrics: {enabled: false}\n";
	struct config *c = *state;
	struct err err = {0};

	if (kit_parse(c, text, NULL, &err) < 0)
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
	assert_int_equal(c->limits.value[LIMIT_max_memory_mb], 64);
	assert_int_equal(c->limits.value[LIMIT_max_cpu_percent], 50);
	assert_int_equal(c->limits.value[LIMIT_command_timeout], 90000);
	assert_string_equal(c->jsonl_path, "none");
	assert_int_equal(c->policy_selectable.n, 2);
	assert_string_equal(c->policy_selectable.v[1], "ci-2");
	assert_false(c->metrics_enabled);
	assert_int_equal(c->max_sessions, 1000);
	assert_int_equal(c->none_as, 1000);
	assert_int_equal(config_check(c, NULL), 0);
	assert_int_equal(kit_parse(c, "", NULL, NULL), 0);
}

/* Every section of the table, and each that has only other names, answers an unknown key. */
static void cfg_1_an_unknown_key_of_every_section_is_named(void **state)
{
	static const char *const sections[] = {
		"server",	"server.auth", "logging",
		"sessions",	"sandbox",     "sandbox.resource_limits",
		"sandbox.fuse", "filesystem",  "policies",
		"approvals",	"events",      "events.jsonl",
		"output",	"commands",    "metrics",
		"monitoring"};

	for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
		const char *dot = strchr(sections[i], '.');
		const int n = dot != NULL ? (int)(dot - sections[i]) : 0;
		cleanup_free char *text = mem_printf(
			"%.*s%s%s: {qwertyuiop: 1}%s", n, sections[i], dot != NULL ? ": {" : "",
			dot != NULL ? dot + 1 : sections[i], dot != NULL ? "}" : "");
		cleanup_free char *want = mem_printf("unknown key '%s.qwertyuiop'", sections[i]);
		struct err err = {0};

		assert_int_equal(kit_parse(*state, text, NULL, &err), -E_BAD_REQUEST);
		if (strstr(err.message, want) == NULL)
			fail_msg("%s: %s", text, err.message);
	}
}

/* A section that is not there yet may say that it is off. */
static void cfg_1_what_has_not_come_yet_is_said_so_unless_it_is_off(void **state)
{
	static const struct {
		const char *text, *message; /* NULL: fine */
	} row[] = {
		{"server: {tls: {enabled: false}}", NULL},
		{"server: {tls: {enabled: false, cert_file: /x}}", NULL},
		{"logging: {audit: {enabled: false}}", NULL},
		{"server: {tls: {enabled: true}}", "'server.tls' is not available"},
		{"server: {tls: {enabled: \"false\"}}", "'server.tls' is not available"},
		{"server: {tls: {enabled: [false]}}", "'server.tls' is not available"},
		{"server: {tls: false}", "'server.tls' is not available"},
		{"approvals: {notification: {type: webhook}}",
		 "'approvals.notification' is not available"},
		{"approvals: {notifications: 1}", "unknown key 'approvals.notifications'"},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct err err = {0};
		const int r = kit_parse(*state, row[i].text, NULL, &err);

		if (r != (row[i].message != NULL ? -E_BAD_REQUEST : 0) ||
		    (r < 0 && strstr(err.message, row[i].message) == NULL))
			fail_msg("%s: %s", row[i].text, err.message);
	}
}

static void cfg_1_a_section_of_other_names_suggests_them(void **state)
{
	struct err err = {0};

	assert_int_equal(kit_parse(*state, "monitoring: {passthrouhg: [/srv]}", NULL, &err),
			 -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "did you mean 'passthrough'"));
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
	assert_int_equal(c->limits.value[LIMIT_max_memory_mb], 7);
	assert_int_equal(config_override("sandbox.resource_limits.max_memory_mb=8", c, &err), 0);
	assert_int_equal(c->limits.value[LIMIT_max_memory_mb], 8);
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
	assert_int_equal(kit_parse(*state, "sandbox: {env: {A: \"a\\nb\"}}\n", NULL, NULL),
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
#define NONE "server.http_addr=127.0.0.1:80", "server.auth.type=none"
	static const struct {
		const char *set[4];
		const char *subject; /* NULL: fine */
	} row[] = {
		{{"server.http_addr=127.0.0.1:80"}, "server.auth.api_keys_file"},
		{{"server.http_addr=127.0.0.1:80", "server.auth.type=none"}, "server.auth.none_as"},
		{{NONE, "server.auth.none_as=0"}, "server.auth.none_as"},
		{{NONE, "server.auth.none_as=64998"}, "server.auth.none_as"},
		{{NONE, "server.auth.none_as=1000"}, NULL},
		{{"server.http_addr=127.255.0.9:80", "server.auth.api_keys_file=/k"}, NULL},
		{{"server.http_addr=[::1]:80", "server.auth.api_keys_file=/k"}, NULL},
		{{"server.http_addr=0.0.0.0:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=126.255.255.255:80", "server.auth.type=none"},
		 "server.http_addr"},
		{{"server.http_addr=128.0.0.1:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=[::]:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=[::2]:80", "server.auth.type=none"}, "server.http_addr"},
		{{"server.http_addr=[::ffff:127.0.0.1]:80", "server.auth.type=none"},
		 "server.http_addr"},
		{{"server.auth.type=none"}, NULL},
		{{"server.api_uid=7", "sandbox.session_uid=7"}, "sandbox.session_uids"},
		{{"server.api_uid=7", "sandbox.session_uid=8"}, NULL},
		{{"server.api_uid=7", "sandbox.session_uids=7-8"}, NULL},
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
		{{"monitoring.mode=hybrid"}, "monitoring.hybrid.fuse_enforce"},
		{{"monitoring.mode=hybrid", "monitoring.hybrid.fuse_enforce=/workspace/x"}, NULL},
		{{"monitoring.mode=hybrid", "monitoring.hybrid.fuse_enforce=/srv/x"},
		 "monitoring.hybrid.fuse_enforce"},
		{{"monitoring.mode=hybrid", "monitoring.hybrid.fuse_enforce=/srv/x",
		  "filesystem.monitored_paths=/srv/x"},
		 NULL},
		{{"monitoring.mode=hybrid", "monitoring.hybrid.fuse_enforce=/workspace/x",
		  "sandbox.bpf=off"},
		 "monitoring.mode"},
	};

#undef NONE
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

/* What a file gave is named by its place; what something else gave instead is not. */
static void cfg_1_what_does_not_fit_is_named_by_its_place(void **state)
{
	static const char text[] = "server:\n  auth: {type: none}\n  http_addr: 0.0.0.0:80\n";
	struct config *c = *state;
	struct err err = {0};

	assert_int_equal(config_parse("f", text, strlen(text), c, NULL, &err), 0);
	assert_int_equal(config_check(c, &err), -E_BAD_REQUEST);
	assert_string_equal(err.subject, "server.http_addr");
	assert_memory_equal(err.message, "f:3:14: server.http_addr: only", 30);
	assert_int_equal(config_override("server.http_addr=0.0.0.0:81", c, NULL), 0);
	assert_int_equal(config_check(c, &err), -E_BAD_REQUEST);
	assert_memory_equal(err.message, "server.http_addr: only", 22);
	assert_int_equal(config_override("server.http_addr=", c, NULL), 0);
	assert_int_equal(config_check(c, &err), 0);
}

/* The key that a message names first may be the default that something given does not fit. */
static void cfg_1_a_default_that_does_not_fit_is_named_by_what_was_given(void **state)
{
	static const struct {
		const char *text, *message;
	} row[] = {
		{"\noutput: {quota: 4096}", "f:2:17: output.command_quota: must not"},
		{"server: {http_addr: 127.0.0.1:80}",
		 "f:1:21: server.auth.api_keys_file: is needed"},
		{"server:\n  auth: {type: none}\n  http_addr: 127.0.0.1:80",
		 "f:2:16: server.auth.none_as: must name"},
		{"server: {api_uid: 64999}\nsandbox: {session_uid: 64999}",
		 "f:2:24: sandbox.session_uids: must not"},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct config c;
		struct err err = {0};

		assert_int_equal(config_defaults(CONFIG_SYSTEM, &c, NULL), 0);
		assert_int_equal(
			config_parse("f", row[i].text, strlen(row[i].text), &c, NULL, NULL), 0);
		assert_int_equal(config_check(&c, &err), -E_BAD_REQUEST);
		if (strncmp(err.message, row[i].message, strlen(row[i].message)) != 0)
			fail_msg("%s: %s", row[i].text, err.message);
		config_done(&c);
	}
}

static void cfg_1_long_lists_of_choices_are_cut_at_a_word(void **state)
{
	static const char text[] = "sandbox:\n  allow_unenforced: [nope]\n";
	struct config *c = *state;
	struct err err = {0};

	assert_int_equal(config_parse("f", text, strlen(text), c, NULL, &err), -E_BAD_REQUEST);
	assert_non_null(strstr(err.message, "cgroup_namespace, …, is 'nope'"));
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(cfg_1_a_file_is_applied_over_the_defaults),
		KIT_TEST(cfg_1_an_unknown_key_of_every_section_is_named),
		KIT_TEST(cfg_1_what_has_not_come_yet_is_said_so_unless_it_is_off),
		KIT_TEST(cfg_1_a_section_of_other_names_suggests_them),
		KIT_TEST(cfg_1_ranges_include_their_ends),
		KIT_TEST(cfg_1_paths_are_bounded),
		KIT_TEST(cfg_1_lists_are_bounded),
		KIT_TEST(cfg_1_overrides),
		KIT_TEST(cfg_1_values_are_printable),
		cmocka_unit_test(cfg_1_addresses),
		cmocka_unit_test(cfg_1_settings_must_fit_each_other),
		KIT_TEST(cfg_1_what_does_not_fit_is_named_by_its_place),
		KIT_TEST(cfg_1_a_default_that_does_not_fit_is_named_by_what_was_given),
		KIT_TEST(cfg_1_long_lists_of_choices_are_cut_at_a_word),
		cmocka_unit_test(cfg_1_environment_variables),
		KIT_TEST(cfg_1_what_needs_a_restart_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
