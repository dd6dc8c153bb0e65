// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static const char text[] = HEAD
	"network_rules:\n"
	"  - {name: meta, cidrs: ['169.254.0.0/16', 'fe80::/10'], decision: deny, final: true}\n"
	"  - {name: nomail, domains: ['*.good.example'], ports: [25], decision: deny}\n"
	"  - {name: good, domains: [good.example, '*.good.example'], decision: allow}\n"
	"  - {name: bad, domains: [bad.example], decision: deny}\n"
	"  - {name: lan, cidrs: [10.0.0.0/8, 'fd00::/8'], ports: [8000-8010, 22],\n"
	"     decision: allow}\n"
	"  - {name: both, domains: [in.example], cidrs: [192.168.0.0/16], decision: allow}\n"
	"  - {name: ntp, ports: [123], protocols: [udp], decision: allow}\n"
	"  - {name: ask, ports: [443], decision: approve}\n";

static void check(struct policy_kit *k, const char *host, const char *address, uint16_t port,
		  const char *rule)
{
	struct verdict v = policy_kit_net(k, host, address, port);

	if (strcmp(v.rule, rule) != 0)
		fail_msg("%s %s %u: %s, not %s", host, address, port, v.rule, rule);
}

static void pol_3_domains_ports_and_blocks_together(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	check(&k, "good.example", NULL, 80, "good");
	check(&k, "WWW.Good.Example.", "1.2.3.4", 80, "good");
	check(&k, "www.good.example", "1.2.3.4", 25, "nomail");
	check(&k, "good.example", NULL, 25, "good");
	check(&k, "xgood.example", NULL, 80, "default");
	check(&k, "bad.example", NULL, 443, "bad");
	check(&k, "other.example", NULL, 443, "ask");
	check(&k, NULL, "10.1.1.1", 8000, "lan");
	check(&k, NULL, "10.1.1.1", 8010, "lan");
	check(&k, NULL, "10.1.1.1", 8011, "default");
	check(&k, NULL, "10.1.1.1", 7999, "default");
	check(&k, NULL, "10.1.1.1", 22, "lan");
	check(&k, NULL, "11.1.1.1", 22, "default");
	check(&k, NULL, "fd12::1", 22, "lan");
	check(&k, "in.example", "192.168.1.1", 1, "both");
	check(&k, "in.example", "1.1.1.1", 1, "default");
	check(&k, "in.example", NULL, 1, "default");
	check(&k, NULL, "192.168.1.1", 1, "default");
	policy_kit_close(&k);
}

static void pol_1_a_final_block_stands_before_a_domain(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	check(&k, "good.example", "169.254.169.254", 80, "meta");
	check(&k, "good.example", "::ffff:169.254.169.254", 80, "meta");
	check(&k, "good.example", "fe80::1", 80, "meta");
	check(&k, "169.254.169.254", NULL, 80, "meta");
	check(&k, "169.254.169.254", "1.1.1.1", 80, "default");
	policy_kit_close(&k);
}

static void pol_1_protocols(void **state)
{
	struct policy_kit k;
	struct op op = {.class = OP_NET, .net = {.port = 123, .proto = OP_PROTO_UDP}};

	policy_kit_open(&k, text, NULL);
	assert_string_equal(policy_kit_decide(&k, &op).rule, "ntp");
	op.net.proto = OP_PROTO_TCP;
	assert_string_equal(policy_kit_decide(&k, &op).rule, "default");
	policy_kit_close(&k);
}

static void pol_1_names_that_cannot_be_reached_are_not_looked_up(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	assert_string_equal(policy_kit_dns(&k, "good.example").rule, "good");
	assert_string_equal(policy_kit_dns(&k, "a.good.example").rule, "good");
	assert_string_equal(policy_kit_dns(&k, "bad.example.").rule, "bad");
	assert_string_equal(policy_kit_dns(&k, "in.example").rule, "both");
	/* a port alone is allowed for every name: udp 123 */
	assert_string_equal(policy_kit_dns(&k, "other.example").rule, "ntp");
	policy_kit_close(&k);
	policy_kit_open(&k,
			HEAD "network_rules:\n"
			     "  - {name: lan, cidrs: [10.0.0.0/8], decision: allow}\n"
			     "  - {name: mail, ports: [25], decision: deny}\n"
			     "  - {name: ask, ports: [443], decision: approve}\n",
			NULL);
	assert_string_equal(policy_kit_dns(&k, "other.example").rule, "ask");
	assert_int_equal(policy_kit_dns(&k, "other.example").effective, DECISION_approve);
	policy_kit_close(&k);
	policy_kit_open(&k,
			HEAD
			"network_rules:\n"
			"  - {name: ask, cidrs: [10.0.0.0/8], ports: [443], decision: approve}\n"
			"  - {name: all, domains: ['*'], decision: deny}\n",
			NULL);
	assert_string_equal(policy_kit_dns(&k, "other.example").rule, "all");
	assert_string_equal(policy_kit_net(&k, NULL, "1.1.1.1", 1).rule, "all");
	policy_kit_close(&k);
}

static void pol_3_what_is_no_name_is_denied(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, HEAD "default: {network: allow}\n", NULL);
	assert_int_equal(policy_kit_dns(&k, "a.example").effective, DECISION_allow);
	assert_int_equal(policy_kit_dns(&k, "a b").effective, DECISION_deny);
	assert_string_equal(policy_kit_net(&k, "a..b", NULL, 1).why, "not a host name");
	assert_int_equal(policy_kit_net(&k, "", NULL, 1).effective, DECISION_allow);
	policy_kit_close(&k);
}

static void pol_3_an_address_as_a_host_is_an_address(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k,
			HEAD "network_rules:\n"
			     "  - {name: ten, cidrs: [10.0.0.0/8], decision: deny}\n"
			     "  - {name: six, cidrs: ['fd00::/8'], decision: deny}\n"
			     "  - {name: all, domains: ['*'], decision: allow}\n",
			NULL);
	assert_string_equal(policy_kit_net(&k, "10.0.0.1", NULL, 1).rule, "ten");
	assert_string_equal(policy_kit_net(&k, "10.0.0.1.", NULL, 1).rule, "ten");
	assert_string_equal(policy_kit_net(&k, "::ffff:10.0.0.1", NULL, 1).rule, "ten");
	assert_string_equal(policy_kit_net(&k, "FD00::1", NULL, 1).rule, "six");
	assert_string_equal(policy_kit_net(&k, "10.0.0.1.example", NULL, 1).rule, "all");
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_3_domains_ports_and_blocks_together),
		cmocka_unit_test(pol_1_a_final_block_stands_before_a_domain),
		cmocka_unit_test(pol_1_protocols),
		cmocka_unit_test(pol_1_names_that_cannot_be_reached_are_not_looked_up),
		cmocka_unit_test(pol_3_what_is_no_name_is_denied),
		cmocka_unit_test(pol_3_an_address_as_a_host_is_an_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
