// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static void check(struct policy_kit *k, const char *path, const char *called, const char *line,
		  const char *rule)
{
	struct verdict v = policy_kit_exec(k, path, called, line);

	if (strcmp(v.rule, rule) != 0)
		fail_msg("%s (%s) %s: %s, not %s", path, called, line, v.rule, rule);
}

static void pol_4_a_deny_matches_by_every_name(void **state)
{
	struct policy_kit k;

	policy_kit_open(
		&k,
		HEAD "command_rules:\n"
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
	policy_kit_close(&k);
}

/* /bin is a link to /usr/bin, and the file that runs is in the latter. */
static void pol_4_a_path_through_a_link_of_the_system(void **state)
{
	struct policy_kit k;

	policy_kit_open(
		&k,
		HEAD
		"command_rules:\n"
		"  - {name: no, commands: ['/bin/id', '/sbin/*', '/binx/y'], decision: deny}\n",
		NULL);
	check(&k, "/usr/bin/id", NULL, "id", "no");
	check(&k, "/usr/bin/id", "/bin/id", "id", "no");
	check(&k, "/bin/id", NULL, "id", "no");
	check(&k, "/usr/sbin/x", NULL, "x", "no");
	check(&k, "/usr/bin/x", NULL, "x", "default");
	check(&k, "/usr/binx/y", NULL, "y", "default");
	check(&k, "/usr/local/bin/id", NULL, "id", "default");
	policy_kit_close(&k);
}

static void pol_4_an_allow_is_not_talked_into_it_by_a_name(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
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
	policy_kit_close(&k);
}

/* busybox takes itself as an applet, by any name that begins so, and the last part of a path. */
static void pol_4_the_applet_of_a_multi_call_program(void **state)
{
	static const char bb[] = "/usr/bin/busybox";
	struct policy_kit k;

	policy_kit_open(&k,
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
	policy_kit_close(&k);
}

static struct verdict scripted(struct policy_kit *k, const char *path, const char *script,
			       unsigned flags)
{
	static const char *const argv[] = {"x", "y"};
	const struct op op = {
		.class = OP_EXEC,
		.exec = {.path = path, .script = script, .argv = argv, .argc = 2, .flags = flags}};

	return policy_kit_decide(k, &op);
}

static void pol_4_scripts_and_their_interpreters(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
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
	policy_kit_close(&k);
}

/* A script whose interpreter is a script whose interpreter is … */
static void pol_4_interpreters_between_script_and_program(void **state)
{
	const char *const chain[] = {"/workspace/a", "/usr/bin/npm", "/opt/b/c"};
	struct op op = {.class = OP_EXEC,
			.exec = {.path = "/usr/bin/env",
				 .called = "/workspace/a",
				 .script = "/workspace/a",
				 .chain = chain,
				 .nchain = 3}};
	static const char *const denies[] = {"commands: [npm]", "commands: ['/opt/b/*']",
					     "scripts: ['/usr/bin/*']", "scripts: ['/opt/**']",
					     "commands: [c]"};
	struct policy_kit k;

	for (size_t i = 0; i < ARRAY_LEN(denies); i++) {
		cleanup_free char *text = mem_printf(
			HEAD "command_rules:\n  - {name: no, %s, decision: deny}\n", denies[i]);

		policy_kit_open(&k, text, NULL);
		op.exec.nchain = 3;
		assert_string_equal(policy_kit_decide(&k, &op).rule, "no");
		op.exec.nchain = 1;
		assert_string_equal(policy_kit_decide(&k, &op).rule, "default");
		policy_kit_close(&k);
		free(text);
		text = mem_printf(HEAD "default: {commands: deny}\n"
				       "command_rules:\n  - {name: yes, %s, decision: allow}\n",
				  denies[i]);
		policy_kit_open(&k, text, NULL);
		op.exec.nchain = 3;
		assert_string_equal(policy_kit_decide(&k, &op).rule, "default");
		policy_kit_close(&k);
	}
}

static void pol_4_a_script_that_can_be_swapped_allows_nothing(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD "default: {commands: deny}\ncommand_rules:\n"
			     "  - {name: no, scripts: ['/srv/evil'], decision: deny}\n"
			     "  - {name: path, commands: ['/opt/tools/*'], decision: allow}\n"
			     "  - {name: name, commands: [pip], decision: allow}\n"
			     "  - {name: script, scripts: ['/srv/*'], decision: allow}\n",
			NULL);
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/opt/tools/x", 0).rule, "path");
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/usr/bin/pip", 0).rule, "name");
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/srv/y", 0).rule, "script");
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/opt/tools/x", OP_EXEC_LOOSE).rule,
			    "default");
	assert_non_null(strstr(scripted(&k, "/usr/bin/dash", "/opt/tools/x", OP_EXEC_LOOSE).why,
			       "absolute path"));
	assert_null(strstr(scripted(&k, "/usr/bin/dash", "/x", 0).why, "absolute path"));
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/usr/bin/pip", OP_EXEC_LOOSE).rule,
			    "default");
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/srv/y", OP_EXEC_LOOSE).rule, "default");
	assert_string_equal(scripted(&k, "/opt/tools/z", "/srv/y", OP_EXEC_LOOSE).rule, "path");
	assert_string_equal(scripted(&k, "/usr/bin/dash", "/srv/evil", OP_EXEC_LOOSE).rule, "no");
	policy_kit_close(&k);
}

/* With n arguments of size bytes, NUL included, behind argv[0]. */
static enum decision with_arguments(struct policy_kit *k, const char *path, size_t n, size_t size,
				    unsigned flags)
{
	cleanup_free char *text = mem_alloc(size);
	cleanup_free const char **argv = mem_resize(NULL, n + 1, sizeof(*argv));
	const struct op op = {.class = OP_EXEC,
			      .exec = {.path = path, .argv = argv, .argc = n + 1, .flags = flags}};
	struct verdict v;

	memset(text, 'x', size - 1);
	for (size_t i = 0; i <= n; i++)
		argv[i] = text;
	v = policy_kit_decide(k, &op);
	if (v.effective == DECISION_deny)
		assert_non_null(strstr(v.why, "over its limit"));
	return v.effective;
}

static void pol_4_arguments_that_were_not_all_seen(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD
			"command_rules:\n"
			"  - {name: no, commands: [a], args_pattern: [bad], decision: deny}\n"
			"  - {name: re, commands: [b], args_regex: ['^bad$'], decision: log}\n",
			NULL);
	assert_int_equal(with_arguments(&k, "/bin/a", 16383, 2, 0), DECISION_allow);
	assert_int_equal(with_arguments(&k, "/bin/a", 16384, 2, 0), DECISION_deny);
	assert_int_equal(with_arguments(&k, "/bin/a", 2, 96 * 1024, 0), DECISION_allow);
	assert_int_equal(with_arguments(&k, "/bin/a", 2, 96 * 1024 + 1, 0), DECISION_deny);
	assert_int_equal(with_arguments(&k, "/bin/a", 2, 2, OP_EXEC_CUT), DECISION_deny);
	assert_int_equal(with_arguments(&k, "/bin/b", 2, 2, OP_EXEC_CUT), DECISION_deny);
	assert_int_equal(with_arguments(&k, "/bin/c", 20000, 2, OP_EXEC_CUT), DECISION_allow);
	policy_kit_close(&k);
}

static const char *line_of_script(struct policy_kit *k, size_t own, const char *line)
{
	cleanup_free char *copy = mem_strdup(line);
	const char *argv[8] = {0};
	struct op op = {.class = OP_EXEC,
			.exec = {.path = "/usr/bin/env",
				 .called = "/usr/bin/npm",
				 .script = "/usr/lib/npm.js",
				 .argv = argv,
				 .own = own}};

	for (char *p = strtok(copy, " "); p != NULL; p = strtok(NULL, " "))
		argv[op.exec.argc++] = p;
	return policy_kit_decide(k, &op).rule;
}

/* npm is a script: what `#!` puts before its arguments is not its line. */
static void pol_1_the_whole_line_of_a_script(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD "command_rules:\n"
			     "  - {name: pub, commands: [npm], args_pattern: ['publish*'],\n"
			     "     args_whole: true, decision: deny}\n"
			     "  - {name: env, commands: [env], args_pattern: ['node * eval'],\n"
			     "     args_whole: true, decision: deny}\n"
			     "  - {name: re, commands: [npm], args_regex: ['^ci$', '^$'],\n"
			     "     args_whole: true, decision: log}\n"
			     "  - {name: envlog, commands: [env], args_pattern: [test],\n"
			     "     args_whole: true, decision: log}\n",
			NULL);
	assert_string_equal(line_of_script(&k, 3, "env node npm publish x"), "pub");
	assert_string_equal(line_of_script(&k, 3, "env node npm run publish"), "default");
	assert_string_equal(line_of_script(&k, 3, "env node npm eval"), "env");
	assert_string_equal(line_of_script(&k, 3, "env node npm ci"), "re");
	assert_string_equal(line_of_script(&k, 3, "env node npm"), "re");
	assert_string_equal(line_of_script(&k, 3, "env node npm test"), "default");
	assert_string_equal(line_of_script(&k, 0, "env test"), "envlog");
	policy_kit_close(&k);
}

static void exe_2_files_that_are_not_plain(void **state)
{
	struct policy_kit k;
	const char *memfd = "/memfd:ls (deleted)";

	policy_kit_open(&k,
			HEAD
			"default: {commands: approve}\ncommand_rules:\n"
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
	policy_kit_close(&k);
}

static void pol_1_argument_patterns(void **state)
{
	struct policy_kit k;

	policy_kit_open(
		&k,
		HEAD "command_rules:\n"
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
	policy_kit_close(&k);
}

static void pol_1_regular_expressions_and_their_limit(void **state)
{
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(
		&k,
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
	assert_int_equal(policy_kit_exec(&k, "/usr/bin/x", NULL, "x aaaa").effective,
			 DECISION_allow);
	v = policy_kit_exec(&k, "/usr/bin/x", NULL, "x aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab");
	assert_int_equal(v.effective, DECISION_deny);
	assert_string_equal(v.rule, "slow");
	assert_non_null(strstr(v.why, "over its limit"));
	check(&k, "/usr/bin/y", NULL, "y a", "or");
	check(&k, "/usr/bin/y", NULL, "y xbx", "or");
	check(&k, "/usr/bin/y", NULL, "y c", "default");
	policy_kit_close(&k);
}

/* STA-6: before every rule, also one that allows. */
static void sta_6_what_raises_privilege_is_refused(void **state)
{
	static const char *const refused[][3] = {
		{"/usr/bin/sudo", NULL, "sudo id"},
		{"/bin/su", NULL, "su"},
		{"/workspace/doas", NULL, "doas id"},
		{"/opt/x/pkexec", NULL, "pkexec id"},
		{"/usr/bin/perl", "/workspace/sudo", "perl /workspace/sudo"},
		{"/bin/busybox", NULL, "busybox su"},
		{"/bin/busybox", NULL, "su -c id"},
	};
	struct op set_id = {.class = OP_EXEC, .exec = {.path = "/usr/bin/mount"}};
	struct verdict v;
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD "default: {commands: allow}\n"
			     "command_rules:\n"
			     "  - {name: all, commands: ['**'], decision: allow}\n",
			NULL);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		v = policy_kit_exec(&k, refused[i][0], refused[i][1], refused[i][2]);
		assert_string_equal(v.rule, POLICY_NO_PRIVILEGE);
		assert_int_equal(v.effective, DECISION_deny);
		assert_true(v.final);
		assert_non_null(strstr(v.message, "cannot raise privilege"));
	}
	policy_decide(k.p, &set_id, false, &v);
	assert_true(verdict_allows(&v));
	set_id.exec.flags = OP_EXEC_SETID;
	policy_decide(k.p, &set_id, false, &v);
	assert_string_equal(v.rule, POLICY_NO_PRIVILEGE);
	/* names that only resemble one, and argv[0] */
	v = policy_kit_exec(&k, "/usr/bin/sum", NULL, "sum");
	assert_true(verdict_allows(&v));
	v = policy_kit_exec(&k, "/usr/bin/bash", NULL, "-su -c id");
	assert_true(verdict_allows(&v));
	policy_kit_close(&k);
}

static void exe_2_a_redirect_names_its_program(void **state)
{
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(&k,
			HEAD "command_rules:\n"
			     "  - {name: safe, commands: [rm], decision: redirect,\n"
			     "     redirect_to: '${HOME}/bin/rm*'}\n",
			NULL);
	v = policy_kit_exec(&k, "/usr/bin/rm", NULL, "rm x");
	assert_int_equal(v.decision, DECISION_redirect);
	assert_int_equal(v.effective, DECISION_allow);
	assert_string_equal(v.target, "/home/agent/bin/rm*");
	v = policy_kit_exec(&k, "/usr/bin/ls", NULL, "ls");
	assert_null(v.target);
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_4_a_deny_matches_by_every_name),
		cmocka_unit_test(pol_4_a_path_through_a_link_of_the_system),
		cmocka_unit_test(pol_4_an_allow_is_not_talked_into_it_by_a_name),
		cmocka_unit_test(pol_4_the_applet_of_a_multi_call_program),
		cmocka_unit_test(pol_4_scripts_and_their_interpreters),
		cmocka_unit_test(pol_4_interpreters_between_script_and_program),
		cmocka_unit_test(pol_4_a_script_that_can_be_swapped_allows_nothing),
		cmocka_unit_test(pol_4_arguments_that_were_not_all_seen),
		cmocka_unit_test(pol_1_the_whole_line_of_a_script),
		cmocka_unit_test(exe_2_files_that_are_not_plain),
		cmocka_unit_test(pol_1_argument_patterns),
		cmocka_unit_test(pol_1_regular_expressions_and_their_limit),
		cmocka_unit_test(sta_6_what_raises_privilege_is_refused),
		cmocka_unit_test(exe_2_a_redirect_names_its_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
