// SPDX-License-Identifier: Apache-2.0
/* Warnings about rules that cannot take effect: none that is false, none missing that is plain. */
#include "policy/testkit/policy_testkit.h"

#define F(rule) HEAD "file_rules:\n" rule
#define N(rule) HEAD "network_rules:\n" rule
#define C(rule) HEAD "command_rules:\n" rule
#define R(name, rest) "  - {name: " name ", " rest "}\n"
#define POLICIES 250
#define RULES 4

static char *report_of(const char *text)
{
	cleanup_buf struct buf report = {0}, bytes = {0};
	const struct policy_options o = {0};
	struct err err = {0};

	if (policy_compile("p", text, strlen(text), &o, &report, &bytes, &err) < 0)
		fail_msg("%s\n%s", text, err.message);
	buf_reserve(&report, 1);
	return buf_take(&report);
}

static const struct {
	const char *text, *message; /* NULL: no warning */
} rows[] = {
	/* a condition that every operation meets is not a condition: a deny of the rest is fine */
	{N(R("a", "ports: [443], decision: allow") R("b", "domains: ['*'], decision: deny")), NULL},
	{N(R("a", "cidrs: [10.0.0.0/8], decision: allow")
		   R("b", "protocols: [tcp, udp, icmp], decision: deny")),
	 NULL},
	{N(R("a", "domains: ['*'], decision: deny") R("b", "ports: [1], decision: allow")),
	 "rule 'b' is never reached: 'a' (line 4) matches all of it first"},
	{C(R("a", "commands: ['*'], decision: deny") R("b", "kinds: [memfd], decision: allow")),
	 "rule 'b' is never reached"},
	{C(R("a", "commands: ['/**'], decision: deny") R("b", "commands: [x], decision: allow")),
	 "rule 'b' is never reached"},
	/* a rule for what existed leaves the rest to the next one */
	{F(R("a", "paths: ['/w/**'], decision: deny, existing_only: true")
		   R("b", "paths: ['/w/x'], decision: allow")),
	 NULL},
	{F(R("a", "paths: ['/w/**'], decision: deny, existing_only: true")
		   R("b", "paths: ['/w/x'], decision: deny, existing_only: true")),
	 "rule 'b' is never reached"},
	{F(R("a", "paths: ['/w/**'], decision: deny")
		   R("b", "paths: ['/w/x'], decision: deny, existing_only: true")),
	 "rule 'b' is never reached"},
	/* several together */
	{F(R("a", "paths: ['/w/**'], operations: [read], decision: allow")
		   R("b", "paths: ['/w/**'], operations: [write], decision: allow")
			   R("c", "paths: ['/w/x'], operations: [read, write], decision: approve")),
	 "p:6:5: warning: rule 'c' is never reached: the rules up to 'b' (line 5) match all of it"},
	{F(R("a", "paths: ['/w/**'], operations: [read], decision: deny")
		   R("b", "paths: ['/w/**'], operations: [write], decision: deny")
			   R("c", "paths: ['/w/x'], operations: [read, stat], decision: allow")),
	 NULL},
	{N(R("a", "domains: [a.example], decision: deny")
		   R("b", "domains: [b.example], decision: deny")
			   R("c", "domains: [a.example, b.example], decision: allow")),
	 "rule 'c' is never reached: the rules up to 'b' (line 5)"},
	{N(R("a", "ports: [1-9, 10-20], decision: deny") R("b", "ports: [5-20], decision: allow")),
	 "rule 'b' is for lookups only: its connections are all matched first, the last by 'a' "
	 "(line 4)"},
	{N(R("a", "ports: [1-9, 10-20], decision: log") R("b", "ports: [5-20], decision: allow")),
	 "rule 'b' is never reached"},
	{N(R("a", "ports: [80], decision: allow") R("b", "ports: [443], decision: allow")
		   R("c", "ports: [80, 443], decision: approve")),
	 "rule 'c' is never reached: the rules up to 'b' (line 5)"},
	{N(R("a", "ports: [80], decision: allow") R("b", "ports: [443], decision: allow")
		   R("c", "ports: [80, 444], decision: approve")),
	 NULL},
	{N(R("a", "ports: [1-9, 11-20], decision: deny") R("b", "ports: [5-20], decision: allow")),
	 NULL},
	{N(R("a", "ports: [1-9], decision: deny") R("b", "ports: [5-10], decision: allow")), NULL},
	{N(R("a", "ports: [1-65535], decision: deny") R("b", "protocols: [udp], decision: allow")),
	 "rule 'b' is for lookups only"},
	/* a ping has no port */
	{N(R("a", "ports: [1-65535], decision: deny") R("b", "protocols: [icmp], decision: allow")),
	 NULL},
	{N(R("a", "protocols: [icmp], decision: allow") R("b", "ports: [1], decision: deny")),
	 NULL},
	/* classes and stars in the middle */
	{F(R("a", "paths: ['/[ab]'], decision: allow") R("b", "paths: ['/[cd]'], decision: deny")),
	 NULL},
	{F(R("a", "paths: ['/[a-c]'], decision: allow") R("b", "paths: ['/[cd]'], decision: deny")),
	 "deny 'b' comes too late for what 'a'"},
	{F(R("a", "paths: ['/[a-z]'], decision: allow")
		   R("b", "paths: ['/[b-c]'], decision: deny")),
	 "deny 'b' never takes effect"},
	{F(R("a", "paths: ['/a*b*c'], decision: allow") R("b", "paths: ['/axc'], decision: deny")),
	 NULL},
	{F(R("a", "paths: ['/**/*'], decision: deny") R("b", "paths: ['/w/**'], decision: allow")),
	 "rule 'b' is never reached"},
	{F(R("a", "paths: ['/*/**'], decision: deny") R("b", "paths: ['**/w'], decision: allow")),
	 "rule 'b' is never reached"},
	/* an allow is not for what has a kind; a name that allows is not for every place */
	{C(R("a", "commands: [x], decision: allow")
		   R("b", "commands: [x], kinds: [memfd], decision: deny")),
	 NULL},
	{C(R("a", "commands: [x], kinds: [memfd], decision: allow")
		   R("b", "commands: [x], kinds: [memfd, loader], decision: deny")),
	 NULL},
	{C(R("a", "kinds: [memfd], decision: allow")
		   R("b", "commands: [x], kinds: [memfd, loader], decision: deny")),
	 "deny 'b' comes too late"},
	{C(R("a", "commands: [x], decision: allow") R("b", "commands: [x], decision: deny")),
	 "p:5:5: warning: deny 'b' comes too late: 'a' (line 4) allows it first; put it before "
	 "that, or make it final\n"},
	{C(R("a", "commands: [x], decision: allow") R("b", "commands: [x], decision: approve")),
	 "approve 'b' comes too late: 'a' (line 4) allows it first; put it before that\n"},
	{C(R("a", "commands: [x], decision: allow")
		   R("b", "commands: ['/usr/**'], decision: deny")),
	 "deny 'b' comes too late"},
	{C(R("a", "commands: ['*'], decision: allow")
		   R("b", "commands: ['/usr/bin/**'], decision: deny")),
	 "deny 'b' comes too late for what 'a'"},
	{C(R("a", "scripts: ['/w/**'], decision: allow")
		   R("b", "scripts: ['/w/bad/*'], decision: deny")),
	 "deny 'b' comes too late"},
	/* arguments: every pattern is tried on every argument, and one of both keys is enough */
	{C(R("a", "commands: [hg], args_pattern: ['push*'], decision: allow")
		   R("b", "commands: [hg], args_pattern: ['push -f*'], decision: deny")),
	 "deny 'b' comes too late: 'a'"},
	{C(R("a", "commands: [hg], args_pattern: [status], decision: allow")
		   R("b", "commands: [hg], args_pattern: [push], decision: deny")),
	 "deny 'b' comes too late for what 'a'"},
	{C(R("a", "commands: [hg], args_pattern: [status], args_whole: true, decision: allow")
		   R("b", "commands: [hg], args_pattern: [push], decision: deny")),
	 NULL},
	{C(R("a", "commands: [hg], args_pattern: ['status *'], args_whole: true, decision: allow")
		   R("b", "commands: [hg], args_pattern: [push], decision: deny")),
	 "deny 'b' comes too late for what 'a'"},
	{C(R("a", "commands: [hg], args_pattern: [a], decision: deny")
		   R("b", "commands: [hg], args_pattern: [a], args_regex: [b], decision: allow")),
	 NULL},
	{C(R("a", "commands: [hg], args_pattern: [a], args_regex: [b], decision: deny")
		   R("b", "commands: [hg], args_pattern: [a], decision: allow")),
	 "rule 'b' is never reached"},
	{C(R("a", "commands: [rm], args_pattern: ['-rf'], decision: deny")
		   R("b", "commands: [rm], args_pattern: ['-rf'], flags: true, decision: allow")),
	 NULL},
	{C(R("a", "commands: [rm], args_pattern: ['-*'], decision: deny")
		   R("b", "commands: [rm], args_pattern: ['-r*'], flags: true, decision: allow")),
	 "rule 'b' is never reached"},
	{C(R("a", "commands: [rm], args_pattern: ['*'], decision: deny")
		   R("b", "commands: [rm], args_pattern: ['-r'], flags: true, decision: allow")),
	 "rule 'b' is never reached"},
	{C(R("a", "commands: [rm], args_pattern: ['-*'], decision: deny")
		   R("b", "commands: [rm], args_pattern: ['r*'], flags: true, decision: deny")),
	 "'flags: true' has no effect"},
	/* as text it is also behind "--", where options have ended */
	{C(R("a", "commands: [rm], args_pattern: ['-rf'], flags: true, decision: deny")
		   R("b", "commands: [rm], args_pattern: ['-rf'], decision: allow")),
	 NULL},
	{C(R("a", "commands: [rm], args_pattern: ['-r*'], flags: true, decision: deny")
		   R("b", "commands: [rm], args_pattern: ['-fr'], flags: true, decision: allow")),
	 "rule 'b' is never reached"},
	{C(R("a", "commands: [rm], args_pattern: ['-rf*'], flags: true, decision: deny")
		   R("b", "commands: [rm], args_pattern: ['-r *'], flags: true, decision: allow")),
	 NULL},
	{C(R("a", "commands: [rm], flags: [['-r', '-R']], decision: deny")
		   R("b", "commands: [rm], flags: [['-f'], ['-R']], decision: allow")),
	 "rule 'b' is never reached"},
	{C(R("a", "commands: [rm], flags: [['-r']], decision: deny")
		   R("b", "commands: [rm], flags: [['-r', '-R']], decision: allow")),
	 NULL},
	{C(R("a", "commands: [rm], flags: [['-r'], ['-f']], decision: deny")
		   R("b", "commands: [rm], flags: [['-r']], decision: allow")),
	 NULL},
	{C(R("a", "commands: [rm], flags: [['-r']], args_pattern: [x], decision: deny")
		   R("b", "commands: [rm], flags: [['-r']], decision: allow")),
	 NULL},
	{C(R("a", "commands: [rm], args_pattern: ['-r'], flags: true, decision: deny")
		   R("b", "commands: [rm], flags: [['-r', '--rec']], args_pattern: ['-r'],"
			  " decision: allow")),
	 NULL},
	/* variables that load code, where commands are allowed by default */
	{C(R("a", "commands: [git], args_pattern: [push], decision: deny")),
	 "variables that load code (GIT_SSH*, GIT_EXEC_PATH, GIT_EXTERNAL_DIFF, GIT_CONFIG_*, "
	 "GIT_ASKPASS) get around the arguments of rule 'a'"},
	{C(R("a", "commands: ['/usr/bin/python3.11'], flags: [[-c]], decision: approve")),
	 "(PYTHONPATH, "},
	{C(R("a", "commands: [less], args_regex: [x], decision: deny")), "(LESSOPEN)"},
	{C(R("a", "commands: [git], args_pattern: [push], decision: log")), NULL},
	{C(R("a", "commands: [git], decision: deny")), NULL},
	{C(R("a", "commands: [rm], args_pattern: [x], decision: deny")), NULL},
	{C(R("a", "commands: [less], args_pattern: [x], decision: deny")) "environment: {deny: "
									  "[LESS*]}\n",
	 NULL},
	{C(R("a", "commands: [less], args_pattern: [x], decision: deny")) "environment: {allow: "
									  "[LANG]}\n",
	 NULL},
	{C(R("a",
	     "commands: [less], args_pattern: [x], decision: deny")) "default: {commands: deny}\n",
	 NULL},
	{C(R("a", "commands: [rm], decision: allow")
		   R("b", "commands: [rm], flags: [['-r']], decision: deny")),
	 "deny 'b' comes too late: 'a'"},
	/* the workspace has two names */
	{C(R("a", "commands: [rm], args_pattern: ['-x', '/workspace/*'], decision: deny")),
	 "p:4:5: warning: a pattern of rule 'a' for arguments begins with /workspace"},
	{C(R("a", "commands: [rm], args_regex: ['^/workspace/'], decision: deny")),
	 "rule 'a' for arguments begins with /workspace"},
	{C(R("a", "commands: [rm], args_pattern: ['*/workspace/*'], args_regex: ['x'], decision: "
		  "deny")),
	 NULL},
};

static void pol_5_warnings_are_true(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *report = report_of(rows[i].text);

		if (rows[i].message == NULL ? report[0] != '\0'
					    : strstr(report, rows[i].message) == NULL)
			fail_msg("%s\nhas not: %s\nbut: %s", rows[i].text, rows[i].message, report);
	}
}

/* --- random policies: no rule that is called unreachable decides anything --- */

static uint32_t seed = 11;

static unsigned dice(unsigned n)
{
	seed = seed * 1664525U + 1013904223U;
	return (seed >> 8) % n;
}

#define PICK(list) (list)[dice(ARRAY_LEN(list))]

static void add_file_rule(struct buf *b)
{
	static const char *const parts[] = {"a", "b", "*", "**", "?", "[ab]", "[!a]", "a*", "*b"};
	static const char *const operations[] = {"", ", operations: [read]",
						 ", operations: [read, write]"};

	buf_addf(b, "paths: ['/%s/%s'", PICK(parts), PICK(parts));
	if (dice(2) == 0)
		buf_addf(b, ", '**/%s'", PICK(parts));
	buf_addf(b, "]%s", PICK(operations));
}

static void add_net_rule(struct buf *b)
{
	static const char *const domains[] = {"domains: ['*']",
					      "domains: [a.test]",
					      "domains: ['*.test', b.test]",
					      "domains: ['*.a.test', a.test]",
					      "cidrs: [10.0.0.0/8]",
					      "cidrs: [0.0.0.0/0, '::/0']"};
	static const char *const rest[] = {"",
					   ", ports: [1-9]",
					   ", ports: [5, 6-20]",
					   ", ports: [1-65535]",
					   ", protocols: [udp]",
					   ", protocols: [tcp, icmp]"};

	buf_addf(b, "%s%s", PICK(domains), PICK(rest));
}

static void add_exec_rule(struct buf *b)
{
	static const char *const commands[] = {"x",	    "'*'",     "'/usr/bin/*'",
					       "'/usr/**'", "'/w/**'", "/w/x",
					       "'[xy]'",    "'**'",    "/usr/bin/x"};
	static const char *const rest[] = {"",
					   ", kinds: [memfd]",
					   ", args_pattern: [a]",
					   ", args_pattern: ['*']",
					   ", args_pattern: [a, '-b'], flags: true",
					   ", args_pattern: ['-bc*'], flags: true",
					   ", flags: [['-b', '--bb']]",
					   ", flags: [['-b', '--bb'], ['-c']]",
					   ", flags: [['-b', '--bb']], args_pattern: ['-b']",
					   ", args_pattern: [a], args_regex: [b]",
					   ", args_pattern: ['a*'], args_whole: true"};

	buf_addf(b, "commands: [%s, %s]%s", PICK(commands), PICK(commands), PICK(rest));
}

static void reach_files(struct policy_kit *k, struct strv *reached)
{
	static const char *const names[] = {"a", "b", "c", "ab", "bb"};
	static const char *const operations[] = {"read", "write", "stat"};

	for (size_t i = 0; i < ARRAY_LEN(names) * ARRAY_LEN(names) * ARRAY_LEN(operations); i++) {
		const char *first = names[i % 5], *second = names[i / 5 % 5];
		const char *op = operations[i / 25];
		cleanup_free char *one = mem_printf("/%s", first);
		cleanup_free char *two = mem_printf("/%s/%s", first, second);
		cleanup_free char *three = mem_printf("/a/%s/%s", first, second);

		strv_add_new(reached, policy_kit_file(k, op, one).rule);
		strv_add_new(reached, policy_kit_file(k, op, two).rule);
		strv_add_new(reached, policy_kit_file(k, op, three).rule);
		strv_add_new(reached, policy_kit_file(k, op, "/").rule);
	}
}

static void reach_net(struct policy_kit *k, struct strv *reached)
{
	static const char *const hosts[] = {"a.test", "b.test", "x.a.test", "test", "c.b.test"};
	static const uint16_t ports[] = {1, 5, 9, 10, 20, 21, 65535};
	struct verdict v;

	for (size_t i = 0; i < ARRAY_LEN(hosts) * ARRAY_LEN(ports) * 3 * 2; i++) {
		struct op op = {.class = OP_NET, .net = {.host = hosts[i % 5]}};

		op.net.proto = (enum op_proto)(i / 5 % 3);
		op.net.port = op.net.proto == OP_PROTO_ICMP ? 0 : ports[i / 15 % 7];
		op.net.address = (struct op_address){4, {i % 2 != 0 ? 10 : 8}};
		policy_decide(k->p, &op, false, &v);
		strv_add_new(reached, v.rule);
		strv_add_new(reached, policy_kit_dns(k, hosts[i % 5]).rule);
	}
}

static void reach_exec(struct policy_kit *k, struct strv *reached)
{
	static const char *const paths[] = {"/usr/bin/x", "/usr/bin/y", "/w/x", "/w/z",
					    "/usr/lib/x", "/usr/bin/q", "/x"};
	static const char *const lines[][3] = {{"x"},
					       {"q", "a"},
					       {"q", "b"},
					       {"q", "-b"},
					       {"q", "-ab"},
					       {"q", "ab", "a"},
					       {"q", ""},
					       {"q", "-b", "-c"},
					       {"q", "-bc"},
					       {"q", "--bb"},
					       {"q", "--b", "-c"},
					       {"q", "--", "-b"},
					       {"q", "--bb", "-c"}};
	struct verdict v;

	for (size_t i = 0; i < ARRAY_LEN(paths) * ARRAY_LEN(lines) * 2; i++) {
		struct op op = {.class = OP_EXEC, .exec = {.path = paths[i % 7]}};
		const char *const *argv = lines[i / 7 % ARRAY_LEN(lines)];

		op.exec.argv = argv;
		op.exec.argc = argv[1] == NULL ? 1 : argv[2] == NULL ? 2 : 3;
		op.exec.flags = i < 7 * ARRAY_LEN(lines) ? 0 : OP_EXEC_MEMFD;
		policy_decide(k->p, &op, false, &v);
		strv_add_new(reached, v.rule);
	}
}

static bool is_called_unreachable(const char *report, const char *rule)
{
	cleanup_free char *never = mem_printf("rule '%s' is never", rule);
	cleanup_free char *effect = mem_printf("deny '%s' never", rule);

	return strstr(report, never) != NULL || strstr(report, effect) != NULL;
}

static void pol_5_what_is_called_unreachable_never_decides(void **state)
{
	static const struct {
		const char *section;
		void (*add)(struct buf *b);
		void (*reach)(struct policy_kit *k, struct strv *reached);
	} classes[] = {{"file_rules", add_file_rule, reach_files},
		       {"network_rules", add_net_rule, reach_net},
		       {"command_rules", add_exec_rule, reach_exec}};
	static const char *const decisions[] = {"allow", "deny", "approve", "log",
						"deny, final: true"};
	unsigned called[3] = {0};

	for (unsigned n = 0; n < 3 * POLICIES; n++) {
		cleanup_buf struct buf text = {0};
		cleanup_free char *report = NULL;
		struct strv reached = {0};
		struct policy_kit k;

		buf_addf(&text, HEAD "%s:\n", classes[n % 3].section);
		for (unsigned i = 0; i < RULES; i++) {
			buf_addf(&text, "  - {name: r%u, ", i);
			classes[n % 3].add(&text);
			buf_addf(&text, ", decision: %s}\n", PICK(decisions));
		}
		report = report_of(text.data);
		policy_kit_open(&k, text.data, NULL);
		classes[n % 3].reach(&k, &reached);
		for (size_t i = 0; i < reached.n; i++)
			if (is_called_unreachable(report, reached.v[i]))
				fail_msg("%s\n%s\nbut %s decides", text.data, report, reached.v[i]);
		called[n % 3] += strstr(report, "never") != NULL;
		strv_done(&reached);
		policy_kit_close(&k);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_true(called[i] > POLICIES / 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_5_warnings_are_true),
		cmocka_unit_test(pol_5_what_is_called_unreachable_never_decides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
