// SPDX-License-Identifier: Apache-2.0
/* All problems of a file are reported at once, each with its place. */
#include "config/testkit/config_testkit.h"

/* The whole resolved configuration, for comparing before and after. */
static char *shown(const struct config *c)
{
	struct buf out = {0};

	config_show(c, false, &out);
	return buf_take(&out);
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
	{"metrics: {enabled: true}\nmetrics: {enabled: false, x: 1}\nlogging: {y: 1}\n",
	 "c.yaml:2:1: key 'metrics' stands here twice\nc.yaml:3:11: unknown key 'logging.y'\n"},
	{"metrics: {enabled: true, enabled: true}\nlogging: [\n",
	 "c.yaml:1:26: key 'enabled' stands here twice\nc.yaml:3:1: "},
	{"policies:\n  selectable: [a, b/c]\n",
	 "c.yaml:2:19: policies.selectable: must be a name of letters"},
	{"policies:\n  selectable: [\"*\"]\n", "policies.selectable: must be a name of letters"},
	{"policies:\n  selectable: [[]]\n", "policies.selectable: must be a name"},
	{"policies:\n  selectable: a\n", "policies.selectable: must be a list"},
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
	{"server: {max_connections: }\n", "has no value, must be a whole number"},
	{"server: {max_connections: [5]}\n", "must be a whole number"},
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

		if (kit_parse(c, bad_files[i].text, &report, &err) != -E_BAD_REQUEST)
			fail_msg("accepted: %s", bad_files[i].text);
		if (strstr(report.data, bad_files[i].line) == NULL)
			fail_msg("%s\nsays %s\nnot  %s", bad_files[i].text, report.data,
				 bad_files[i].line);
		assert_int_equal(strncmp(err.message, report.data, strlen(err.message)), 0);
		assert_int_equal(kit_parse(c, bad_files[i].text, NULL, NULL), -E_BAD_REQUEST);
		after = shown(c);
		assert_string_equal(before, after);
	}
}

static void cfg_1_all_problems_in_one_pass(void **state)
{
	cleanup_buf struct buf report = {0}, many = {0};
	struct err err = {0};
	size_t lines = 0;

	assert_int_equal(kit_parse(*state,
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
		assert_int_equal(kit_parse(*state, many.data, &report, NULL), -E_BAD_REQUEST);
		lines = 0;
		for (size_t i = 0; i < report.len; i++)
			lines += report.data[i] == '\n';
		assert_int_equal(lines, n);
		assert_int_equal(strstr(report.data, "c.yaml: and 1 more\n") != NULL, n == 101);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(cfg_1_each_problem_is_told_with_its_place),
		KIT_TEST(cfg_1_all_problems_in_one_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
