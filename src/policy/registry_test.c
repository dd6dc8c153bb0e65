// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static void pol_1_hosts_are_read_from_settings(void **state)
{
	static const char text[] =
		"deb [signed-by=/usr/share/k.gpg] http://Deb.one.example/debian stable main\n"
		"# deb http://comment.example/ x\n"
		"   ; https://comment2.example\n"
		"URIs: https://user:secret@two.example:8443/a https://deb.one.example/b\n"
		"GOPROXY=https://three.example,direct|https://four.example\n"
		"registry = \"sparse+https://five.example/\"\n"
		"cdrom://[Debian]/ file:///etc/x http://localhost/ http://10.0.0.1/ http://\n"
		"url = https://seven.example\r\n"
		"<url>https://eight.example</url> deb http://nine/debian x # http://old.example\n"
		"a#b=https://ten.example; https://${HOST}/\n"
		"index-url = https://six.example";
	static const char *const want[] = {
		"deb.one.example", "two.example",   "three.example", "four.example", "five.example",
		"seven.example",   "eight.example", "nine",	     "ten.example",  "six.example"};
	struct strv hosts = {0};

	policy_registry_hosts(text, strlen(text), &hosts);
	assert_int_equal(hosts.n, ARRAY_LEN(want));
	for (size_t i = 0; i < hosts.n; i++)
		assert_string_equal(hosts.v[i], want[i]);
	policy_registry_hosts(text, 0, &hosts);
	assert_int_equal(hosts.n, ARRAY_LEN(want));
	strv_done(&hosts);
}

static int give_set(const char *name, struct buf *text, struct buf *file, void *arg,
		    struct err *err)
{
	policy_set_format(name, "domains", "it: \"is\"", arg, text);
	return 0;
}

static void pol_1_a_made_set_can_be_used(void **state)
{
	static const char text[] = HEAD "network_rules:\n"
					"  - {name: r, domains: ['@made'], decision: allow}\n";
	struct strv items = {0};
	const struct policy_options o = {.set = give_set, .set_arg = &items};
	struct policy_kit k;

	policy_kit_open(&k, text, &o);
	assert_string_equal(policy_kit_dns(&k, "a.example").rule, "default");
	policy_kit_close(&k);
	strv_add(&items, "a.example");
	strv_add(&items, "b.example");
	policy_kit_open(&k, text, &o);
	assert_string_equal(policy_kit_dns(&k, "b.example").rule, "r");
	policy_kit_close(&k);
	strv_done(&items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_1_hosts_are_read_from_settings),
		cmocka_unit_test(pol_1_a_made_set_can_be_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
