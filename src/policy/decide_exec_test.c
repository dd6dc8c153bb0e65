// SPDX-License-Identifier: Apache-2.0
#include "policy/policy_testkit.h"

static void check(struct kit *k, const char *path, const char *called, const char *line,
		  const char *rule)
{
	struct verdict v = kit_exec(k, path, called, line);

	if (strcmp(v.rule, rule) != 0)
		fail_msg("%s (%s) %s: %s, not %s", path, called, line, v.rule, rule);
}

static void pol_4_a_deny_matches_by_every_name(void **state)
{
	struct kit k;

	kit_open(&k,
		 HEAD
		 "command_rules:\n"
		 "  - {name: no-rm, commands: [rm, '/opt/**/tool', 'mkfs*'], decision: deny}\n",
		 NULL);
	check(&k, "/usr/bin/rm", NULL, "rm", "no-rm");
	check(&k, "/workspace/rm", NULL, "x", "no-rm");
	check(&k, "/usr/bin/rm", "/workspace/ls", "ls", "no-rm");
	check(&k, "/usr/bin/dash", "/workspace/rm", "sh", "no-rm");
	check(&k, "/usr/bin/dash", NULL, "/x/rm", "no-rm");
	check(&k, "/usr/bin/dash", NULL, "-rm", "no-rm");
	check(&k, "/usr/bin/busybox", NULL, "busybox rm -rf", "no-rm");
	check(&k, "/usr/bin/coreutils", NULL, "coreutils --coreutils-prog=rm", "no-rm");
	check(&k, "/usr/bin/env", NULL, "env rm", "default");
	check(&k, "/opt/a/b/tool", NULL, "x", "no-rm");
	check(&k, "/usr/bin/x", "/opt/tool", "x", "no-rm");
	check(&k, "/sbin/mkfs.ext4", NULL, "mkfs.ext4", "no-rm");
	check(&k, "/usr/bin/rmdir", NULL, "rmdir", "default");
	kit_close(&k);
}

static void pol_4_an_allow_is_not_talked_into_it_by_a_name(void **state)
{
	struct kit k;

	kit_open(&k,
		 HEAD "default: {commands: deny}\ncommand_rules:\n"
		      "  - {name: ok, commands: [ls, python3, npm, '/workspace/bin/*'],\n"
		      "     decision: allow}\n",
		 NULL);
	check(&k, "/usr/bin/ls", NULL, "ls", "ok");
	check(&k, "/bin/ls", NULL, "other-name", "ok");
	check(&k, "/workspace/ls", NULL, "ls", "default");
	check(&k, "/usr/bin/rm", "/workspace/ls", "ls", "default");
	check(&k, "/usr/bin/rm", NULL, "ls", "default");
	check(&k, "/usr/bin/sub/ls", NULL, "ls", "default");
	check(&k, "/usr/bin/python3.11", "/usr/bin/python3", "python3", "ok");
	check(&k, "/usr/bin/python3.11", "/workspace/python3", "python3", "default");
	check(&k, "/usr/bin/python3.11", "/usr/bin/../x/python3", "python3", "default");
	check(&k, "/workspace/bin/x", NULL, "x", "ok");
	check(&k, "/usr/bin/rm", "/workspace/bin/x", "x", "default");
	/* a multi-call program is what argv says */
	check(&k, "/usr/bin/busybox", "/usr/bin/ls", "ls", "ok");
	check(&k, "/usr/bin/busybox", "/usr/bin/ls", "rm", "default");
	check(&k, "/usr/bin/busybox", NULL, "busybox ls", "ok");
	check(&k, "/usr/bin/busybox", NULL, "busybox rm", "default");
	check(&k, "/workspace/busybox", NULL, "busybox ls", "default");
	kit_close(&k);
}

/* busybox takes itself as an applet, by any name that begins so, and the last part of a path. */
static void pol_4_the_applet_of_a_multi_call_program(void **state)
{
	static const char bb[] = "/usr/bin/busybox";
	struct kit k;

	kit_open(&k,
		 HEAD "default: {commands: approve}\ncommand_rules:\n"
		      "  - {name: no-rm, commands: [rm], decision: deny}\n"
		      "  - {name: ok, commands: [ls, busybox, my*], decision: allow}\n",
		 NULL);
	check(&k, bb, NULL, "busybox busybox rm x", "no-rm");
	check(&k, bb, NULL, "busybox busybox /x/busybox rm", "no-rm");
	check(&k, bb, NULL, "busybox busybox.static rm", "no-rm");
	check(&k, bb, NULL, "busybox /bin/rm x", "no-rm");
	check(&k, bb, NULL, "busyboxes rm", "no-rm");
	check(&k, bb, NULL, "-/x/busybox rm", "no-rm");
	check(&k, "/usr/bin/busybox.static", NULL, "busybox rm", "no-rm");
	check(&k, "/workspace/busybox", NULL, "busybox rm", "no-rm");
	check(&k, bb, NULL, "busybox ls rm", "ok");
	check(&k, bb, NULL, "busybox busybox ls rm", "ok");
	check(&k, bb, NULL, "busybox /bin/ls", "ok");
	check(&k, bb, NULL, "busybox busybox mv", "default");
	check(&k, bb, NULL, "busybox busybox", "default");
	check(&k, bb, NULL, "busybox", "default");
	check(&k, "/usr/bin/mv", NULL, "busybox ls", "default");
	check(&k, "/usr/bin/coreutils", NULL, "my --coreutils-prog=rm", "no-rm");
	check(&k, "/usr/bin/coreutils", NULL, "my --coreutils-prog=mv", "default");
	check(&k, "/usr/bin/coreutils", NULL, "mv --coreutils-prog=ls", "default");
	check(&k, "/usr/bin/coreutils", NULL, "coreutils --coreutils-prog-shebang=rm x", "no-rm");
	check(&k, "/usr/bin/coreutils", NULL, "coreutils --coreutils-prog=ls", "ok");
	kit_close(&k);
}

static struct verdict scripted(struct kit *k, const char *path, const char *script, unsigned flags)
{
	static const char *const argv[] = {"x", "y"};
	const struct op op = {
		.class = OP_EXEC,
		.exec = {.path = path, .script = script, .argv = argv, .argc = 2, .flags = flags}};

	return kit_decide(k, &op);
}

static void pol_4_scripts_and_their_interpreters(void **state)
{
	struct kit k;

	kit_open(&k,
		 HEAD "default: {commands: deny}\ncommand_rules:\n"
		      "  - {name: no-evil, commands: [evil], decision: deny}\n"
		      "  - {name: py-ws, commands: [python3*], scripts: ['/workspace/**'],\n"
		      "     decision: log}\n"
		      "  - {name: any, scripts: ['/srv/**'], decision: allow}\n"
		      "  - {name: ok, commands: [pip, dash], decision: allow}\n",
		 NULL);
	assert_string_equal(scripted(&k, "/usr/bin/python3.11", "/workspace/a", 0).rule, "py-ws");
	assert_string_equal(scripted(&k, "/usr/bin/python3.11", "/tmp/a", 0).rule, "default");
	assert_string_equal(scripted(&k, "/usr/bin/python3.11", NULL, 0).rule, "default");
	assert_string_equal(scripted(&k, "/usr/bin/python3.11", "/usr/bin/pip", 0).rule, "ok");
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/workspace/evil", 0).rule, "no-evil");
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/workspace/fine", 0).rule, "ok");
	assert_string_equal(scripted(&k, "/opt/x", "/srv/y", 0).rule, "any");
	kit_close(&k);
}

static void exe_2_files_that_are_not_plain(void **state)
{
	struct kit k;
	const char *memfd = "/memfd:ls (deleted)";

	kit_open(&k,
		 HEAD "default: {commands: approve}\ncommand_rules:\n"
		      "  - {name: no-mem, kinds: [memfd, deleted], decision: deny, final: true}\n"
		      "  - {name: ok, commands: [ls, '/**'], decision: allow}\n"
		      "  - {name: ld, kinds: [loader], commands: ['/lib/*'], decision: allow}\n",
		 NULL);
	assert_string_equal(scripted(&k, memfd, NULL, OP_EXEC_MEMFD).rule, "no-mem");
	assert_string_equal(scripted(&k, "/usr/bin/ls", NULL, OP_EXEC_DELETED).rule, "no-mem");
	assert_string_equal(scripted(&k, "/usr/bin/ls", NULL, 0).rule, "ok");
	assert_string_equal(scripted(&k, "/lib/ld.so", "/usr/bin/ls", OP_EXEC_LOADER).rule, "ld");
	assert_string_equal(scripted(&k, "/lib64/x/ld.so", "/usr/bin/ls", OP_EXEC_LOADER).rule,
			    "default");
	kit_close(&k);
}

static void pol_1_argument_patterns(void **state)
{
	struct kit k;

	kit_open(&k,
		 HEAD
		 "command_rules:\n"
		 "  - {name: inst, commands: [npm], args_pattern: ['install*', 'add *'],\n"
		 "     decision: deny}\n"
		 "  - {name: whole, commands: [git], args_pattern: ['status*'],\n"
		 "     args_whole: true, decision: log}\n"
		 "  - {name: flags, commands: [rm], args_pattern: ['-rf', '--recursive'],\n"
		 "     flags: true, decision: deny}\n"
		 "  - {name: noflags, commands: [rn], args_pattern: ['-rf'], decision: deny}\n",
		 NULL);
	check(&k, "/usr/bin/npm", NULL, "npm install", "inst");
	check(&k, "/usr/bin/npm", NULL, "npm --quiet install x", "inst");
	check(&k, "/usr/bin/npm", NULL, "npm -x add y", "inst");
	check(&k, "/usr/bin/npm", NULL, "npm add", "default");
	check(&k, "/usr/bin/npm", NULL, "npm run x", "default");
	check(&k, "/usr/bin/npm", NULL, "npm", "default");
	check(&k, "/usr/bin/npm", NULL, "", "default");
	check(&k, "/usr/bin/git", NULL, "git status -s", "whole");
	check(&k, "/usr/bin/git", NULL, "git push status", "default");
	check(&k, "/usr/bin/rm", NULL, "rm -rf x", "flags");
	check(&k, "/usr/bin/rm", NULL, "rm -fr x", "flags");
	check(&k, "/usr/bin/rm", NULL, "rm -r x -f", "flags");
	check(&k, "/usr/bin/rm", NULL, "rm -vrxf x", "flags");
	check(&k, "/usr/bin/rm", NULL, "rm --recursive x", "flags");
	check(&k, "/usr/bin/rm", NULL, "rm -r x", "default");
	check(&k, "/usr/bin/rm", NULL, "rm -r -- -f", "default");
	check(&k, "/usr/bin/rm", NULL, "rm -r --f", "default");
	check(&k, "/usr/bin/rm", NULL, "rm - rf", "default");
	check(&k, "/usr/bin/rn", NULL, "rn -r -f", "default");
	check(&k, "/usr/bin/rn", NULL, "rn -rf", "noflags");
	kit_close(&k);
}

static void pol_1_regular_expressions_and_their_limit(void **state)
{
	struct kit k;
	struct verdict v;

	kit_open(&k,
		 HEAD "command_rules:\n"
		      "  - {name: re, commands: [curl], args_regex: ['^https?://', '^-d \\w+$'],\n"
		      "     decision: deny, message: no}\n"
		      "  - {name: slow, commands: [x], args_regex: ['^(a+)+$'], decision: allow}\n"
		      "  - {name: or, commands: [y], args_regex: [b], args_pattern: [a],\n"
		      "     decision: deny}\n",
		 NULL);
	check(&k, "/usr/bin/curl", NULL, "curl -s http://x", "re");
	check(&k, "/usr/bin/curl", NULL, "curl -d abc", "re");
	check(&k, "/usr/bin/curl", NULL, "curl ftp://x", "default");
	check(&k, "/usr/bin/x", NULL, "x aaaa", "slow");
	assert_int_equal(kit_exec(&k, "/usr/bin/x", NULL, "x aaaa").effective, DECISION_allow);
	v = kit_exec(&k, "/usr/bin/x", NULL, "x aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab");
	assert_int_equal(v.effective, DECISION_deny);
	assert_string_equal(v.rule, "slow");
	assert_string_equal(v.why, "a pattern of this rule is over its limit");
	check(&k, "/usr/bin/y", NULL, "y a", "or");
	check(&k, "/usr/bin/y", NULL, "y xbx", "or");
	check(&k, "/usr/bin/y", NULL, "y c", "default");
	kit_close(&k);
}

static void exe_2_a_redirect_names_its_program(void **state)
{
	struct kit k;
	struct verdict v;

	kit_open(&k,
		 HEAD "command_rules:\n"
		      "  - {name: safe, commands: [rm], decision: redirect,\n"
		      "     redirect_to: '${HOME}/bin/rm*'}\n",
		 NULL);
	v = kit_exec(&k, "/usr/bin/rm", NULL, "rm x");
	assert_int_equal(v.decision, DECISION_redirect);
	assert_int_equal(v.effective, DECISION_redirect);
	assert_string_equal(v.target, "/home/agent/bin/rm*");
	v = kit_exec(&k, "/usr/bin/ls", NULL, "ls");
	assert_null(v.target);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_deny_matches_by_every_name),
		cmocka_unit_test(pol_4_an_allow_is_not_talked_into_it_by_a_name),
		cmocka_unit_test(pol_4_the_applet_of_a_multi_call_program),
		cmocka_unit_test(pol_4_scripts_and_their_interpreters),
		cmocka_unit_test(exe_2_files_that_are_not_plain),
		cmocka_unit_test(pol_1_argument_patterns),
		cmocka_unit_test(pol_1_regular_expressions_and_their_limit),
		cmocka_unit_test(exe_2_a_redirect_names_its_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
