// SPDX-License-Identifier: Apache-2.0
#include "policy/testkit/policy_testkit.h"

static const char text[] = HEAD "file_rules:\n"
				"  - {name: a, paths: ['/w/**'], decision: allow}\n";
static const char changed[] = HEAD "file_rules:\n"
				   "  - {name: b, paths: ['/w/**'], decision: deny}\n";

static struct verdict ask(const struct policy *p, const char *path)
{
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_read, path}};
	struct verdict v;

	policy_decide(p, &op, false, &v);
	return v;
}

static void pol_6_the_second_answer_is_cached(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	assert_false(ask(k.cached, "/w/a").cached);
	assert_true(ask(k.cached, "/w/a").cached);
	assert_string_equal(ask(k.cached, "/w/a").rule, "a");
	assert_false(ask(k.cached, "/w/b").cached);
	assert_true(ask(k.cached, "/w/b").cached);
	assert_false(ask(k.p, "/w/b").cached);
	policy_kit_close(&k);
}

static void pol_6_a_cache_ends_with_the_version(void **state)
{
	struct policy_kit old, new;

	policy_kit_open(&old, text, NULL);
	policy_kit_open(&new, changed, NULL);
	assert_string_equal(ask(old.cached, "/w/a").rule, "a");
	assert_false(ask(new.cached, "/w/a").cached);
	assert_string_equal(ask(new.cached, "/w/a").rule, "b");
	assert_true(ask(old.cached, "/w/a").cached);
	assert_string_equal(ask(old.cached, "/w/a").rule, "a");
	policy_kit_close(&old);
	policy_kit_close(&new);
}

/* A cache of one set: everything is thrown out by everything, and nothing is mixed up. */
static void pol_6_a_small_cache_mixes_nothing_up(void **state)
{
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	policy_add_cache(k.p, 1);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 50; i++) {
			char path[32];

			snprintf(path, sizeof(path), "/%s/%u", i % 2 ? "w" : "x", i);
			assert_string_equal(ask(k.p, path).rule, i % 2 ? "a" : "default");
			assert_true(ask(k.p, path).cached);
		}
	policy_kit_close(&k);
}

static void pol_6_what_does_not_fit_is_decided_anew(void **state)
{
	char path[400];
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	memset(path, 'a', sizeof(path));
	memcpy(path, "/w/", 3);
	path[222] = '\0'; /* class, operation, who made the directory and path fill the key */
	ask(k.cached, path);
	assert_true(ask(k.cached, path).cached);
	path[222] = 'a';
	path[223] = '\0';
	ask(k.cached, path);
	assert_false(ask(k.cached, path).cached);
	assert_string_equal(ask(k.cached, path).rule, "a");
	/* and does not stand in the way of what fits */
	path[10] = '\0';
	ask(k.cached, path);
	assert_true(ask(k.cached, path).cached);
	policy_kit_close(&k);
}

static void pol_6_every_part_of_an_operation_counts(void **state)
{
	static const char *const one[] = {"x", "a b"}, *const two[] = {"x", "a", "b"};
	const struct op ops[] = {
		{.class = OP_EXEC, .exec = {.path = "/bin/x"}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .called = "/bin/x"}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .script = "/bin/x"}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .chain = one, .nchain = 1}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .chain = one, .nchain = 2}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .own = 2}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .flags = 1}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .argv = one, .argc = 2}},
		{.class = OP_EXEC, .exec = {.path = "/bin/x", .argv = two, .argc = 3}},
		{.class = OP_NET, .net = {.host = "a"}},
		{.class = OP_NET, .net = {.host = "a", .port = 1}},
		{.class = OP_NET, .net = {.host = "a", .proto = OP_PROTO_UDP}},
		{.class = OP_NET, .net = {.host = NULL}},
		{.class = OP_NET, .net = {.host = ""}},
		{.class = OP_NET, .net = {.host = "a", .address = {4, {1}}}},
		{.class = OP_DNS, .dns = {"a", 1}},
		{.class = OP_FILE, .file = {OP_FILE_read, "/a"}},
		{.class = OP_FILE, .file = {OP_FILE_write, "/a"}},
	};
	struct policy_kit k;
	struct verdict v;

	policy_kit_open(&k, text, NULL);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		policy_decide(k.cached, &ops[i], false, &v);
		if (v.cached)
			fail_msg("%zu", i);
	}
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_6_the_second_answer_is_cached),
		cmocka_unit_test(pol_6_a_cache_ends_with_the_version),
		cmocka_unit_test(pol_6_a_small_cache_mixes_nothing_up),
		cmocka_unit_test(pol_6_what_does_not_fit_is_decided_anew),
		cmocka_unit_test(pol_6_every_part_of_an_operation_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
