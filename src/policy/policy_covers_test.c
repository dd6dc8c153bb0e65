// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static const char text[] = HEAD
	"network_rules:\n"
	"  - {name: lan, cidrs: [10.0.0.0/8], decision: allow}\n"
	"  - {name: no, domains: [bad.good.example], decision: deny, final: true}\n"
	"  - {name: good, domains: [good.example, '*.good.example'], ports: [443, 8000-8010],\n"
	"     decision: allow}\n"
	"  - {name: mail, ports: [25], decision: deny}\n"
	"  - {name: ask, domains: ['*.ask.example'], ports: [9], decision: approve}\n"
	"resource_limits: {pids_max: 100, session_timeout: 1h, command_timeout: 1m}\n"
	"environment: {allow: [LANG, 'LC_*', 'MY*'], deny: [MYSECRET]}\n";

static const struct limits none;

static int narrow(struct policy_kit *k, const char *domain, const char *port, const char *env,
		  struct err *err)
{
	struct session_request w = {0};
	int rc;

	*err = (struct err){0};
	if (domain != NULL)
		strv_add(&w.allowed_domains, domain);
	if (port != NULL)
		strv_add(&w.allowed_ports, port);
	if (env != NULL)
		strv_add(&w.environment, env);
	rc = policy_covers(k->p, &w, err);
	session_request_done(&w);
	return rc;
}

static void ses_3_numbers_and_durations_are_capped(void **state)
{
	struct session_request w = {.limits.value[LIMIT_pids_max] = 101,
				    .limits.value[LIMIT_session_timeout] = 3600000,
				    .limits.value[LIMIT_command_timeout] = 0,
				    .limits.value[LIMIT_max_memory_mb] = 5};
	struct strv capped = {0};
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	limits_choose(&w.limits, &none, policy_limits(k.p), 0, &capped);
	assert_int_equal(w.limits.value[LIMIT_pids_max], 100);
	assert_int_equal(w.limits.value[LIMIT_session_timeout], 3600000);
	assert_int_equal(w.limits.value[LIMIT_command_timeout], 60000);
	assert_int_equal(w.limits.value[LIMIT_max_memory_mb], 5);
	assert_int_equal(w.limits.value[LIMIT_idle_timeout], 0);
	assert_int_equal(capped.n, 1);
	assert_string_equal(capped.v[0], "resource_limits.pids_max");
	w.limits.value[LIMIT_session_timeout] = 3600001;
	w.limits.value[LIMIT_pids_max] = 99;
	limits_choose(&w.limits, &none, policy_limits(k.p), 0, &capped);
	assert_int_equal(w.limits.value[LIMIT_pids_max], 99);
	assert_int_equal(w.limits.value[LIMIT_session_timeout], 3600000);
	assert_string_equal(capped.v[1], "timeout");
	assert_int_equal(capped.n, 2);
	strv_done(&capped);
	policy_kit_close(&k);
}

static void ses_3_domains_beyond_the_policy_are_refused(void **state)
{
	static const struct {
		const char *domain;
		bool within;
	} rows[] = {
		{"good.example", true},
		{"*.good.example", false},
		{"x.good.example", true},
		{"*.x.good.example", true},
		{"bad.good.example", false},
		{"other.example", false},
		{"*", false},
		{"GOOD.example.", true},
		{"a.ask.example", false},
		{"*.example", false},
	};
	const struct policy_options shadow = {.shadow = true};
	struct policy_kit k;
	struct err err;

	policy_kit_open(&k, text, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (narrow(&k, rows[i].domain, NULL, NULL, &err) !=
		    (rows[i].within ? 0 : -E_POLICY_DENIED))
			fail_msg("%s", rows[i].domain);
	assert_string_equal(err.details[0].field, "network.allowed_domains");
	assert_int_equal(narrow(&k, "a b", NULL, NULL, &err), -E_BAD_REQUEST);
	policy_kit_close(&k);
	policy_kit_open(&k, text, &shadow);
	assert_int_equal(narrow(&k, "a.ask.example", NULL, NULL, &err), 0);
	policy_kit_close(&k);
}

static void ses_3_ports_beyond_the_policy_are_refused(void **state)
{
	static const char all[] =
		HEAD "default: {network: allow}\n"
		     "network_rules:\n  - {name: a, ports: [25], decision: deny}\n";
	struct policy_kit k;
	struct err err;

	/* the block 10.0.0.0/8 is allowed with every port */
	policy_kit_open(&k, text, NULL);
	assert_int_equal(narrow(&k, NULL, "1", NULL, &err), 0);
	policy_kit_close(&k);
	policy_kit_open(&k,
			HEAD "network_rules:\n"
			     "  - {name: a, ports: [443, 8000-8010], decision: allow}\n"
			     "resource_limits: {pids_max: 100}\n",
			NULL);
	assert_int_equal(narrow(&k, NULL, "443", NULL, &err), 0);
	assert_int_equal(narrow(&k, NULL, "8000", NULL, &err), 0);
	assert_int_equal(narrow(&k, NULL, "8010", NULL, &err), 0);
	assert_int_equal(narrow(&k, NULL, "8011", NULL, &err), -E_POLICY_DENIED);
	assert_int_equal(narrow(&k, NULL, "7999", NULL, &err), -E_POLICY_DENIED);
	assert_string_equal(err.subject, "7999");
	policy_kit_close(&k);
	policy_kit_open(&k, all, NULL);
	for (unsigned i = 0; i < LIMITS; i++)
		assert_false(limits_has(policy_limits(k.p), i));
	policy_kit_close(&k);
}

static void ses_3_variables_beyond_the_policy_are_refused(void **state)
{
	struct policy_kit k;
	struct err err;

	policy_kit_open(&k, text, NULL);
	assert_int_equal(narrow(&k, NULL, NULL, "LANG=C", &err), 0);
	assert_int_equal(narrow(&k, NULL, NULL, "LC_ALL=C", &err), 0);
	assert_int_equal(narrow(&k, NULL, NULL, "LC_=C", &err), 0);
	assert_int_equal(narrow(&k, NULL, NULL, "MYX=", &err), 0);
	assert_int_equal(narrow(&k, NULL, NULL, "MYSECRET=1", &err), -E_POLICY_DENIED);
	assert_string_equal(err.subject, "MYSECRET");
	assert_int_equal(narrow(&k, NULL, NULL, "LANGUAGE=1", &err), -E_POLICY_DENIED);
	assert_int_equal(narrow(&k, NULL, NULL, "LAN=1", &err), -E_POLICY_DENIED);
	policy_kit_close(&k);
	policy_kit_open(&k,
			HEAD "environment: {deny: ['AWS_*']}\nresource_limits: {pids_max: 100}\n",
			NULL);
	assert_int_equal(narrow(&k, NULL, NULL, "ANY=1", &err), 0);
	assert_int_equal(narrow(&k, NULL, NULL, "AWS_KEY=1", &err), -E_POLICY_DENIED);
	policy_kit_close(&k);
}

static void sta_4_variables_that_load_code(void **state)
{
	static const struct {
		const char *text;
		bool path, git; /* PYTHONPATH and GIT_SSH are dropped */
	} rows[] = {
		{HEAD, false, false},
		{HEAD "default: {commands: log}\n", false, false},
		{HEAD "default: {commands: deny}\n", true, true},
		{HEAD "default: {commands: approve}\n", true, true},
		{HEAD "default: {commands: deny}\nenvironment: {allow: [LANG]}\n", true, true},
		{HEAD "default: {commands: deny}\nenvironment: {allow: [PYTHONPATH]}\n", false,
		 true},
		{HEAD "default: {commands: deny}\nenvironment: {allow: ['GIT_*']}\n", true, false},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct policy_kit k;

		policy_kit_open(&k, rows[i].text, NULL);
		if (policy_drops_env(k.p, "PYTHONPATH=x", 10) != rows[i].path ||
		    policy_drops_env(k.p, "GIT_SSH", 7) != rows[i].git)
			fail_msg("%s", rows[i].text);
		assert_false(policy_drops_env(k.p, "LANG", 4));
		policy_kit_close(&k);
	}
}

/* POL-7: a session without a network reaches its own loopback all the same. */
static void pol_7_rules_that_can_refuse_loopback(void **state)
{
	static const struct {
		const char *text;
		bool restricts;
	} rows[] = {
		{HEAD "default: {network: allow}\n", false},
		{HEAD "default: {network: deny}\n", true},
		{HEAD "network_rules: [{name: n, ports: [1], decision: deny}]\n"
		      "default: {network: allow}\n",
		 true},
		{HEAD
		 "network_rules: [{name: n, cidrs: [10.0.0.0/8, 'fd00::/8'], decision: deny}]\n"
		 "default: {network: allow}\n",
		 false},
		{HEAD "network_rules: [{name: n, cidrs: [127.0.0.2], decision: deny}]\n"
		      "default: {network: allow}\n",
		 true},
		{HEAD "network_rules: [{name: n, cidrs: ['::/0'], decision: approve}]\n"
		      "default: {network: allow}\n",
		 true},
		{HEAD "network_rules: [{name: n, domains: [x.example], decision: deny}]\n"
		      "default: {network: allow}\n",
		 false},
		{HEAD "network_rules: [{name: n, domains: ['*'], decision: deny}]\n"
		      "default: {network: allow}\n",
		 true},
		{HEAD "network_rules: [{name: a, cidrs: [127.0.0.0/8, '::1'], decision: allow},\n"
		      "                {name: n, ports: [1], decision: deny}]\n",
		 false},
		{HEAD "network_rules: [{name: n, ports: [1], decision: deny, final: true},\n"
		      "                {name: a, cidrs: [127.0.0.0/8, '::1'], decision: allow}]\n",
		 true},
		{HEAD "network_rules: [{name: a, cidrs: [127.0.0.0/8], decision: allow}]\n", true},
		{HEAD "network_rules: [{name: a, cidrs: [127.0.0.0/9, '::1'], decision: allow}]\n",
		 true},
		{HEAD "network_rules: [{name: a, cidrs: ['0.0.0.0/0', '::/0'], ports: [80],\n"
		      "                 decision: allow}]\n",
		 true},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct policy_kit k;

		policy_kit_open(&k, rows[i].text, NULL);
		if (policy_restricts_loopback(k.p) != rows[i].restricts)
			fail_msg("%s", rows[i].text);
		policy_kit_close(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_3_numbers_and_durations_are_capped),
		cmocka_unit_test(ses_3_domains_beyond_the_policy_are_refused),
		cmocka_unit_test(ses_3_ports_beyond_the_policy_are_refused),
		cmocka_unit_test(ses_3_variables_beyond_the_policy_are_refused),
		cmocka_unit_test(sta_4_variables_that_load_code),
		cmocka_unit_test(pol_7_rules_that_can_refuse_loopback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
