// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static int give_set(const char *name, struct buf *text, struct buf *file, void *arg,
		    struct err *err)
{
	static const char *const sets[][2] = {
		{"good", "version: 1\nname: good\nkind: paths\nitems: ['**/.env', '/w/x']\n"},
		{"empty", "version: 1\nname: empty\nkind: domains\nitems: []\n"},
		{"bad",
		 "version: 2\nname: bed\nkind: paths\nitms: [a]\nitems: ['a/b', '@good', [x]]\n"},
		{"broken", "a: [\n"},
		{"list", "[a]\n"},
		{"twice", "version: 1\nname: twice\nname: x\nkind: paths\nitems: [x]\n"},
	};

	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		if (strcmp(sets[i][0], name) == 0) {
			buf_addf(file, "%s.yaml", name);
			buf_adds(text, sets[i][1]);
			return 0;
		}
	if (strcmp(name, "locked") == 0)
		return err_set(err, E_FORBIDDEN, name, "locked.yaml is locked");
	return err_set(err, E_NOT_FOUND, name, "no set '%s'", name);
}

static const struct policy_options options = {.set = give_set};

/* Compiles and gives the report; bytes only come from what has no error. */
static char *report_of(const char *text, const struct policy_options *o, int want)
{
	cleanup_buf struct buf report = {0}, bytes = {0};
	struct err err = {0};
	const int rc = policy_compile("p", text, strlen(text), o, &report, &bytes, &err);

	buf_reserve(&report, 1);
	if (rc != want)
		fail_msg("%d: %s\n%s", rc, text, report.data);
	assert_int_equal(bytes.len > 0, rc == 0);
	assert_int_equal(err.code, -rc);
	return buf_take(&report);
}

#define F(rule) HEAD "file_rules:\n  - {name: a, " rule "}\n"
#define N(rule) HEAD "network_rules:\n  - {name: a, " rule "}\n"
#define C(rule) HEAD "command_rules:\n  - {name: a, " rule "}\n"

static const struct {
	const char *text, *message;
} wrong[] = {
	{HEAD "name: b\nnonsense: 1\n",
	 "error: key 'name' stands here twice\np:4:1: error: unknown key 'nonsense'"},
	{HEAD "default: {files: deny, files: deny}\nx: [\n",
	 "p:3:24: error: key 'files' stands here twice\np:5:1: error: "},
	{"", "p:1:1: error: 'version: 1' is needed"},
	{"", "p:1:1: error: 'name' is needed"},
	{"[a]", "p:1:1: error: a policy is a map of keys"},
	{"a: [", "p:2:1: error: did not find expected node content"},
	{"version: 2\nname: t\n", "p:1:10: error: only version 1 is known"},
	{"version: one\nname: t\n", "p:1:10: error: 'version' must be a number"},
	{"version: 1\nname: a b\n", "p:2:7: error: 'name' is made of letters"},
	{HEAD "file_rule: []\n",
	 "p:3:1: error: unknown key 'file_rule' (did you mean 'file_rules'?)"},
	{HEAD "file_rules: {}\n", "p:3:13: error: expected a list of rules"},
	{HEAD "file_rules: [x]\n", "p:3:14: error: a rule is a map of keys"},
	{HEAD "description: []\n", "p:3:14: error: 'description' must be a text"},
	{HEAD "default: deny\n", "p:3:10: error: 'default' is a map"},
	{HEAD "default: {file: deny}\n",
	 "p:3:11: error: unknown class 'file' (did you mean 'files'?)"},
	{HEAD "default: {files: alow}\n",
	 "p:3:18: error: unknown decision 'alow' (did you mean 'allow'?)"},
	{HEAD "default: {commands: redirect}\n", "p:3:21: error: unknown decision 'redirect'"},
	{F("paths: ['/a'], decision: alow"),
	 "p:4:40: error: unknown decision 'alow' (did you mean 'allow'?)"},
	{F("paths: ['/a']"), "p:4:5: error: a rule needs 'decision'"},
	{HEAD "file_rules: [{paths: ['/a'], decision: deny}]", "error: a rule needs 'name'"},
	{HEAD "file_rules: [{name: a/b, paths: ['/a'], decision: deny}]",
	 "p:3:21: error: 'name' is made of letters"},
	{HEAD "file_rules: [{name: default, paths: ['/a'], decision: deny}]",
	 "p:3:21: error: 'default' is reserved"},
	{F("decision: deny"), "p:4:5: error: a file rule needs 'paths'"},
	{N("decision: deny"),
	 "error: a network rule needs 'domains', 'cidrs', 'ports' or 'protocols'"},
	{C("decision: deny"), "error: a command rule needs 'commands', 'scripts' or 'kinds'"},
	{F("path: ['/a'], decision: deny"),
	 "p:4:15: error: unknown key of a file rule 'path' (did you mean 'paths'?)"},
	{F("paths: ['/a'], ports: [1], decision: deny"),
	 "error: unknown key of a file rule 'ports'"},
	{F("paths: /a, decision: deny"), "p:4:22: error: 'paths' must be a list: [/a]"},
	{F("paths: [], decision: deny"), "error: 'paths' is an empty list: nothing would match"},
	{F("paths: , decision: deny"), "error: 'paths' must be a list"},
	{F("paths: ['a'], decision: deny"),
	 "p:4:23: error: 'a': a path pattern begins with '/' or '**/' (did you mean '**/a'?)"},
	{F("paths: [.env], decision: deny"), "(did you mean '**/.env'?)"},
	{F("paths: [~/.ssh], decision: deny"), "(did you mean '${HOME}/.ssh'?)"},
	{F("paths: [./x], decision: deny"), "(did you mean '${WORKSPACE}/x'?)"},
	{F("paths: ['/a'], decision: block"), "error: unknown decision 'block'; choices: allow, "
					      "deny, approve, log, redirect, soft_delete\n"},
	{C("commands: [a], decision: alow"),
	 "error: unknown decision 'alow' (did you mean 'allow'?); choices: allow, deny, approve, "
	 "log, redirect\n"},
	{HEAD "resource_limits: {max_memory_mb: 2GB}\n",
	 "error: 'max_memory_mb' must be a number of MB, without the unit\n"},
	{HEAD "resource_limits: {max_cpu_percent: 0}\n",
	 "error: 'max_cpu_percent' is 1 to 409600 percent of one CPU\n"},
	{HEAD "resource_limits: {command_timeout: 0s}\n",
	 "error: 'command_timeout' is 1 to 315360000000 ms\n"},
	{HEAD "default:\n\tfiles: deny\n", "p:4:1: error: a tab stands here"},
	{HEAD "file_rules:\n  - name: a\n\t  paths: ['/a']\n", "error: a tab stands here"},
	{HEAD "description: \xc3\xa4\nfile_rules:\n  -\tname: a\n",
	 "p:5:4: error: a tab stands here"},
	{HEAD "description: [a\n", "p:4:1: error: did not find expected"},
	{F("paths: [[a]], decision: deny"), "error: 'item' must be a text"},
	{F("paths: ['${HOM}/a'], decision: deny"),
	 "error: unknown variable 'HOM' (did you mean 'HOME'?)"},
	{F("paths: ['${HOME'], decision: deny"), "p:4:23: error: '${HOME': '${' without '}'"},
	{F("paths: ['/a'], operations: [reed], decision: deny"),
	 "error: unknown operation 'reed' (did you mean 'read'?)"},
	{F("paths: ['/a'], decision: allow, final: true"), "error: only a deny can be final"},
	{F("paths: ['/a'], decision: deny, final: 'true'"), "'final' must be true or false"},
	{F("paths: ['/a'], decision: soft_delete"),
	 "error: 'soft_delete' is a way to delete: write 'operations: [delete]'"},
	{F("paths: ['/a'], decision: soft_delete, operations: [delete, rename]"),
	 "error: 'soft_delete' is a way to delete: write 'operations: [delete]'"},
	{F("paths: ['/a'], decision: soft_delete, operations: [delete], final: true"),
	 "error: only a deny can be final"},
	{F("paths: ['/workspace/a'], decision: redirect"), "error: a redirect needs 'redirect_to'"},
	{F("paths: ['/workspace/a'], decision: allow, redirect_to: /workspace/b"),
	 "error: 'redirect_to' needs 'decision: redirect'"},
	{F("paths: ['/workspace/a'], decision: redirect, redirect_to: b"),
	 "error: 'b': expected an absolute path below ${WORKSPACE}"},
	{F("paths: ['/workspace/a'], decision: redirect, redirect_to: /workspace/x/../b"),
	 "expected an absolute path below ${WORKSPACE}"},
	{F("paths: ['/workspace/a'], decision: redirect, redirect_to: /etc"),
	 "expected an absolute path below ${WORKSPACE}"},
	{F("paths: ['/workspace/a'], decision: redirect, redirect_to: '${WORKSPACE}'"),
	 "expected an absolute path below ${WORKSPACE}"},
	{F("paths: ['/a'], decision: redirect, redirect_to: /workspace/b"),
	 "error: '/a': a pattern of a redirect begins with a path below ${WORKSPACE}"},
	{F("paths: ['/workspace/*.c'], decision: redirect, redirect_to: /workspace/b"),
	 "error: '/workspace/*.c': a pattern of a redirect begins with"},
	{F("paths: ['/workspace/**'], decision: redirect, redirect_to: /workspace/b"),
	 "a pattern of a redirect begins with"},
	{F("paths: ['**/a'], decision: redirect, redirect_to: /workspace/b"),
	 "a pattern of a redirect begins with"},
	{F("paths: ['/workspace/a/**'], decision: redirect, redirect_to: /workspace/a/b"),
	 "error: '/workspace/a/b': this rule redirects what is there itself"},
	{F("paths: ['/workspace/a/*.c'], decision: redirect, redirect_to: /workspace/a"),
	 "error: '/workspace/a': this rule redirects what is there itself"},
	{F("paths: ['/workspace/a', '/workspace/b/x*'], decision: redirect, redirect_to: "
	   "/workspace/b/xy"),
	 "error: '/workspace/b/xy': this rule redirects what is there itself"},
	{F("paths: ['/workspace/a'], decision: redirect, redirect_to: /workspace/b, "
	   "operations: [read]"),
	 "error: 'redirect' is for all operations"},
	{F("paths: ['/workspace/a'], decision: redirect, redirect_to: /workspace/b, hide: true"),
	 "error: only a deny can hide"},
	{F("paths: ['/a'], decision: hide"), "error: 'hide' is a key: write 'decision: deny'"},
	{F("paths: ['/a'], decision: log, hide: true"), "error: only a deny can hide"},
	{F("paths: ['/a'], decision: deny, operations: [read], hide: true"),
	 "error: 'hide' is for all operations"},
	{F("paths: ['/a'], decision: allow, existing_only: true"),
	 "error: only a deny can be for what existed"},
	{F("paths: ['/a'], decision: deny, existing_only: maybe"),
	 "error: 'existing_only' must be true or false"},
	{N("ports: [1], decision: hide"), "error: 'hide' is not a decision for connections"},
	{N("ports: [1], decision: redirect"),
	 "error: 'redirect' is not a decision of this version"},
	{N("ports: [1], decision: soft_delete"),
	 "error: 'soft_delete' is not a decision for connections"},
	{C("commands: [a], decision: soft_delete"),
	 "error: 'soft_delete' is not a decision for commands"},
	{C("commands: [a], decision: hide"), "error: 'hide' is not a decision for commands"},
	{C("commands: [a], decision: redirect"), "error: a redirect needs 'redirect_to'"},
	{C("commands: [a], decision: redirect, redirect_to: a"),
	 "error: 'a': expected the absolute path of a program"},
	{C("commands: [a], decision: deny, redirect_to: /a"),
	 "error: 'redirect_to' needs 'decision: redirect'"},
	{C("commands: ['[a'], decision: deny"), "error: '[a': '[' without ']'"},
	{C("commands: [a/b], decision: deny"), "error: 'a/b': a path pattern begins with"},
	{C("commands: [a], args_pattern: [''], decision: deny"),
	 "error: '': an empty pattern matches nothing"},
	{C("commands: [a], args_regex: ['(a'], decision: deny"),
	 "error: '(a': missing closing parenthesis at character 3"},
	{C("commands: [a], flags: true, decision: deny"), "'flags: true' and 'args_whole' need"},
	{C("commands: [a], args_pattern: [b], flags: true, args_whole: true, decision: deny"),
	 "'flags: true' and 'args_whole' exclude each other"},
	{C("commands: [a], flags: [-r], decision: deny"),
	 "error: 'flags' is true or a list of groups"},
	{C("commands: [a], flags: [[]], decision: deny"),
	 "error: 'flags' is true or a list of groups"},
	{C("commands: [a], flags: [], decision: deny"), "error: 'flags' is an empty list"},
	{C("commands: [a], flags: [[-rf]], decision: deny"),
	 "error: '-rf': an option has one letter behind its dash"},
	{C("commands: [a], flags: [[r]], decision: deny"), "error: 'r': an option is a dash and"},
	{C("commands: [a], flags: [['--']], decision: deny"), "error: '--': an option is a dash"},
	{C("commands: [a], flags: [[--a=b]], decision: deny"),
	 "error: '--a=b': an option has no value here"},
	{C("commands: [a], flags: 1, decision: deny"), "error: 'flags' must be true or false"},
	{C("kinds: [memf], decision: deny"), "error: unknown kind 'memf' (did you mean 'memfd'?)"},
	{N("ports: [0], decision: deny"), "error: '0': neither a port"},
	{N("ports: [65536], decision: deny"), "error: '65536': neither a port"},
	{N("ports: [9-8], decision: deny"), "error: '9-8': neither a port"},
	{N("ports: [8-], decision: deny"), "error: '8-': neither a port"},
	{N("ports: [8x], decision: deny"), "error: '8x': neither a port"},
	{N("cidrs: [10.0.0.1/8], decision: deny"), "(did you mean '10.0.0.0/8'?)"},
	{N("cidrs: [x], decision: deny"), "error: 'x': not an address block"},
	{N("domains: ['a*'], decision: deny"), "error: 'a*': a star must be alone"},
	{N("domains: [10.0.0.1], decision: deny"),
	 "error: '10.0.0.1': this is an address, not a name"},
	{N("domains: ['10.0.0.1.'], decision: deny"),
	 "error: '10.0.0.1.': this is an address, not a name"},
	{N("protocols: [tpc], decision: deny"),
	 "error: unknown protocol 'tpc' (did you mean 'tcp'?)"},
	{HEAD "file_rules:\n  - {name: a, paths: ['/a'], decision: deny}\ncommand_rules:\n"
	      "  - {name: a, commands: [a], decision: deny}\n",
	 "p:6:5: error: line 4 already has a rule 'a'"},
	{HEAD
	 "file_rules: [{name: a, paths: ['/a'], decision: deny},\n"
	 " {name: b, paths: ['/b'], decision: deny}, {name: b, paths: ['/c'], decision: deny}]\n",
	 "p:4:44: error: line 4 already has a rule 'b'"},
	{HEAD "resource_limits: []\n", "'resource_limits' is a map"},
	{HEAD "resource_limits: {pid_max: 1}\n",
	 "p:3:19: error: unknown limit 'pid_max' (did you mean 'pids_max'?)"},
	{HEAD "resource_limits: {pids_max: 0}\n", "error: 'pids_max' is 1 to 4194304"},
	{HEAD "resource_limits: {pids_max: 4194305}\n", "error: 'pids_max' is 1 to 4194304"},
	{HEAD "resource_limits: {pids_max: -1}\n", "error: 'pids_max' must be a number"},
	{HEAD "resource_limits: {pids_max: 1x}\n", "error: 'pids_max' must be a number"},
	{HEAD "resource_limits: {idle_timeout: 5}\n", "error: 'idle_timeout': "},
	{HEAD "resource_limits: {max_memory_mb: 5, memory_max_mb: 5}\n",
	 "error: 'max_memory_mb' and 'memory_max_mb' are the same limit"},
	{HEAD "environment: [A]\n", "error: 'environment' is a map"},
	{HEAD "environment: {alow: [A]}\n", "unknown key 'alow' (did you mean 'allow'?)"},
	{HEAD "environment: {allow: ['A B']}\n", "error: not the name of a variable"},
	{F("paths: ['@none'], decision: deny"), "p:4:23: error: no set 'none'"},
	{F("paths: ['@a b'], decision: deny"), "error: '@a b' is not the name of a set"},
	{F("paths: ['@locked'], decision: deny"), "error: locked.yaml is locked"},
	{F("paths: ['@bad'], decision: deny"), "bad.yaml:1:10: error: 'version: 1' is needed"},
	{F("paths: ['@bad'], decision: deny"), "bad.yaml:2:7: error: 'name: bad' is needed"},
	{F("paths: ['@bad'], decision: deny"),
	 "bad.yaml:4:1: error: unknown key 'itms' (did you mean 'items'?)"},
	{F("paths: ['@bad'], decision: deny"), "bad.yaml:5:9: error: 'a/b': a path pattern"},
	{F("paths: ['@bad'], decision: deny"), "bad.yaml:5:16: error: a set cannot contain a set"},
	{F("paths: ['@bad'], decision: deny"), "bad.yaml:5:25: error: 'item' must be a text"},
	{F("paths: ['@broken', x], decision: deny"), "broken.yaml:2:1: error: did not find"},
	{F("paths: ['@broken', x], decision: deny"), "p:4:34: error: 'x': a path pattern begins"},
	{F("paths: ['@twice'], decision: deny"), "twice.yaml:3:1: error: key 'name' stands here"},
	{F("paths: ['@twice'], decision: deny"), "twice.yaml:5:9: error: 'x': a path pattern"},
	{F("paths: ['@list'], decision: deny"), "list.yaml:1:1: error: a set is a map of keys"},
	{N("domains: ['@good'], decision: deny"), "error: 'kind: domains' is needed"},
};

static void pol_5_every_mistake_is_named_with_its_place(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		cleanup_free char *report = report_of(wrong[i].text, &options, -E_BAD_REQUEST);

		if (strstr(report, wrong[i].message) == NULL)
			fail_msg("%s\nhas not: %s\nbut:\n%s", wrong[i].text, wrong[i].message,
				 report);
	}
}

static void pol_5_all_mistakes_come_in_one_pass(void **state)
{
	cleanup_free char *report =
		report_of(HEAD "x: 1\ny: 2\nfile_rules: [{name: a, paths: [a], decision: b}]\n",
			  &options, -E_BAD_REQUEST);
	unsigned lines = 0;

	for (const char *p = report; *p != '\0'; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 4);
}

static const struct {
	const char *text, *message; /* NULL: none */
} warned[] = {
	{F("paths: ['/a'], decision: deny, message: '{path} {args} {pth}'"),
	 "p:4:55: warning: only {path} and {args} are filled in, not '{pth}'"},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/**'], decision: allow}\n"
	      "  - {name: b, paths: ['**/.env'], decision: deny}\n",
	 "p:5:5: warning: deny 'b' comes too late for what 'a' (line 4) allows first"},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/**'], decision: allow}\n"
	      "  - {name: b, paths: ['/w/x'], decision: deny}\n",
	 "warning: deny 'b' never takes effect: 'a' (line 4) allows all of it first"},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/**'], decision: allow}\n"
	      "  - {name: b, paths: ['**/.env'], decision: deny, final: true}\n",
	 NULL},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/**'], decision: allow}\n"
	      "  - {name: b, paths: ['**'], decision: deny}\n",
	 NULL},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/**'], operations: [read], decision: allow}\n"
	      "  - {name: b, paths: ['**/.env'], operations: [write], decision: deny}\n",
	 NULL},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/**'], decision: deny}\n"
	      "  - {name: b, paths: ['/w/a', '/w/b'], operations: [read], decision: log}\n",
	 "warning: rule 'b' is never reached: 'a' (line 4) matches all of it first"},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/**'], operations: [read], decision: deny}\n"
	      "  - {name: b, paths: ['/w/a'], operations: [read, write], decision: log}\n",
	 NULL},
	{HEAD "file_rules:\n  - {name: a, paths: ['/w/a'], decision: deny}\n"
	      "  - {name: b, paths: ['/w/b', '/w/a'], decision: log}\n",
	 NULL},
	{HEAD "network_rules:\n  - {name: a, ports: [1-9], decision: allow}\n"
	      "  - {name: b, domains: [x.example], ports: [5], decision: log}\n",
	 "rule 'b' is never reached"},
	{HEAD "network_rules:\n  - {name: a, ports: [1-9], decision: allow}\n"
	      "  - {name: b, domains: [x.example], ports: [9-10], decision: log}\n",
	 NULL},
	{HEAD "network_rules:\n  - {name: a, ports: [1-9], decision: allow}\n"
	      "  - {name: b, domains: [x.example], ports: [9-10], decision: deny}\n",
	 "deny 'b' comes too late"},
	{HEAD "network_rules:\n  - {name: a, ports: [1-9], decision: allow}\n"
	      "  - {name: b, domains: [x.example], ports: [10], decision: deny}\n",
	 NULL},
	{HEAD "network_rules:\n  - {name: a, domains: ['*.x.example'], decision: allow}\n"
	      "  - {name: b, domains: [b.x.example], decision: deny}\n",
	 "deny 'b' never takes effect"},
	{HEAD "network_rules:\n  - {name: a, cidrs: [10.0.0.0/8], decision: allow}\n"
	      "  - {name: b, cidrs: [10.1.0.0/16], decision: deny}\n",
	 "deny 'b' never takes effect"},
	{HEAD "network_rules:\n  - {name: a, cidrs: [10.1.0.0/16], decision: allow}\n"
	      "  - {name: b, cidrs: [10.0.0.0/8], decision: deny}\n",
	 NULL},
	{HEAD
	 "network_rules:\n  - {name: a, cidrs: [10.0.0.0/8], protocols: [udp], decision: deny}\n"
	 "  - {name: b, cidrs: [10.1.0.0/16], protocols: [tcp], decision: allow}\n",
	 NULL},
	{HEAD "command_rules:\n  - {name: a, commands: ['r*'], decision: allow}\n"
	      "  - {name: b, commands: [rm], args_pattern: [x], decision: deny}\n",
	 "deny 'b' comes too late: 'a' (line 4) allows it first"},
	{HEAD "command_rules:\n  - {name: a, commands: [rm], args_pattern: [x], decision: deny}\n"
	      "  - {name: b, commands: [/bin/rm], args_pattern: [x], decision: allow}\n",
	 "rule 'b' is never reached"},
	{HEAD "command_rules:\n  - {name: a, commands: [rm, ls], decision: allow}\n"
	      "  - {name: b, commands: [rm, cp], decision: deny}\n",
	 "deny 'b' comes too late"},
	/* a name allows only what is in the system's directories */
	{HEAD "command_rules:\n  - {name: a, commands: [git], decision: allow}\n"
	      "  - {name: b, commands: [/opt/x/git], decision: deny}\n",
	 NULL},
	{HEAD "command_rules:\n  - {name: a, commands: [git], decision: allow}\n"
	      "  - {name: b, commands: [/usr/bin/git], decision: deny}\n",
	 "deny 'b' comes too late: 'a' (line 4) allows it first"},
	{HEAD "command_rules:\n  - {name: a, commands: [git], decision: allow}\n"
	      "  - {name: b, commands: ['/**/git'], decision: deny}\n",
	 "deny 'b' comes too late"},
	{HEAD "command_rules:\n  - {name: a, commands: [git], decision: deny}\n"
	      "  - {name: b, commands: [/opt/x/git], decision: allow}\n",
	 "rule 'b' is never reached"},
	{F("paths: ['@none', '/a'], decision: allow"),
	 "p:4:23: notice: the set 'none' does not exist"},
	{F("paths: ['@good'], decision: deny"), NULL},
	{N("domains: ['@empty'], decision: allow"), NULL},
};

static void pol_5_rules_without_effect_are_warned_of(void **state)
{
	const struct policy_options strict = {.set = give_set, .strict = true};

	for (size_t i = 0; i < ARRAY_LEN(warned); i++) {
		cleanup_free char *report = report_of(warned[i].text, &options, 0), *again = NULL;
		const bool about_file =
			warned[i].message != NULL && strstr(warned[i].message, "notice:") == NULL;

		if (warned[i].message == NULL ? report[0] != '\0'
					      : strstr(report, warned[i].message) == NULL)
			fail_msg("%s\nhas not: %s\nbut: %s", warned[i].text, warned[i].message,
				 report);
		again = report_of(warned[i].text, &strict, about_file ? -E_BAD_REQUEST : 0);
		assert_int_equal(strstr(again, "error: ") != NULL, about_file);
	}
}

static void pol_1_a_missing_set_allows_nothing(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, N("domains: ['@none'], decision: allow"), &options);
	assert_string_equal(policy_kit_dns(&k, "x.example").rule, "default");
	assert_string_equal(policy_kit_net(&k, NULL, "1.1.1.1", 1).rule, "default");
	policy_kit_close(&k);
	policy_kit_open(&k, F("paths: ['@good'], decision: deny"), &options);
	assert_string_equal(policy_kit_file(&k, "read", "/w/.env").rule, "a");
	assert_string_equal(policy_kit_file(&k, "read", "/w/x").rule, "a");
	assert_string_equal(policy_kit_file(&k, "read", "/w/y").rule, "default");
	policy_kit_close(&k);
}

static void pol_1_variables_are_taken_literally(void **state)
{
	const struct policy_options o = {.workspace = "/w*[x", .home = "/h"};
	struct policy_kit k;

	policy_kit_open(&k, F("paths: ['${WORKSPACE}/a', '${HOME}/*'], decision: log"), &o);
	assert_string_equal(policy_kit_file(&k, "read", "/w*[x/a").rule, "a");
	assert_string_equal(policy_kit_file(&k, "read", "/wy[x/a").rule, "default");
	assert_string_equal(policy_kit_file(&k, "read", "/h/b").rule, "a");
	policy_kit_close(&k);
}

static void ses_5_limits_of_a_policy(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD "resource_limits: {memory_max_mb: 7, idle_timeout: 5m,\n"
			     "  memory_swap_max_mb: 0, pids_max: 4194304}\n",
			NULL);
	assert_int_equal(policy_limits(k.p)->value[LIMIT_max_memory_mb], 7);
	assert_int_equal(policy_limits(k.p)->value[LIMIT_idle_timeout], 300000);
	assert_int_equal(policy_limits(k.p)->value[LIMIT_memory_swap_max_mb], 0);
	assert_true(limits_has(policy_limits(k.p), LIMIT_memory_swap_max_mb));
	assert_int_equal(policy_limits(k.p)->value[LIMIT_pids_max], 4194304);
	assert_false(limits_has(policy_limits(k.p), LIMIT_max_disk_mb));
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_5_every_mistake_is_named_with_its_place),
		cmocka_unit_test(pol_5_all_mistakes_come_in_one_pass),
		cmocka_unit_test(pol_5_rules_without_effect_are_warned_of),
		cmocka_unit_test(pol_1_a_missing_set_allows_nothing),
		cmocka_unit_test(pol_1_variables_are_taken_literally),
		cmocka_unit_test(ses_5_limits_of_a_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
