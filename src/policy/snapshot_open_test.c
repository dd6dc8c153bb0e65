// SPDX-License-Identifier: Apache-2.0
#include "policy/snapshot.h"
#include "policy/testkit/policy_testkit.h"

static const char text[] =
	HEAD "description: what it is\n"
	     "file_rules:\n"
	     "  - {name: a, paths: ['/w/**', '**/*.c'], decision: allow, message: hi}\n"
	     "  - {name: b, paths: ['**/.env'], decision: deny, final: true}\n"
	     "network_rules:\n"
	     "  - {name: c, domains: ['*.a.example'], ports: [80-90], decision: allow}\n"
	     "  - {name: d, cidrs: [10.0.0.0/8, 'fd00::/8'], decision: deny}\n"
	     "command_rules:\n"
	     "  - {name: e, commands: [rm, '/w/*'], args_pattern: ['-rf*'], decision: deny}\n"
	     "  - {name: f, commands: [x], args_regex: ['^a+$'], decision: log}\n"
	     "  - {name: g, commands: [y], decision: redirect, redirect_to: /bin/true}\n"
	     "environment: {allow: [A], deny: [B]}\n";

static void sign(struct buf *b)
{
	struct snapshot_head *h = (struct snapshot_head *)(void *)b->data;
	const size_t from = offsetof(struct snapshot_head, shadow);

	hash_sha256(h->digest, b->data + from, b->len - from, NULL, 0);
}

static void pol_6_the_version_is_that_of_the_bytes(void **state)
{
	struct policy_kit k, same, other;

	policy_kit_open(&k, text, NULL);
	policy_kit_open(&same, text, NULL);
	policy_kit_open(&other, text, &(struct policy_options){.shadow = true});
	assert_string_equal(policy_name(k.p), "t");
	assert_string_equal(policy_description(k.p), "what it is");
	assert_int_equal(strlen(policy_version(k.p)), 7 + 64);
	assert_memory_equal(policy_version(k.p), "sha256:", 7);
	assert_string_equal(policy_version(k.p), policy_version(same.p));
	assert_string_not_equal(policy_version(k.p), policy_version(other.p));
	assert_int_equal(policy_rules(k.p, OP_FILE), 2);
	assert_int_equal(policy_rules(k.p, OP_EXEC), 3);
	assert_int_equal(policy_rules(k.p, OP_DNS), 2);
	policy_kit_close(&k);
	policy_kit_close(&same);
	policy_kit_close(&other);
}

static void pol_6_the_bytes_can_lie_anywhere(void **state)
{
	struct policy_kit k;
	struct policy *p = NULL;
	struct verdict v;
	const struct op op = {.class = OP_FILE, .file = {OP_FILE_read, "/w/a"}};
	char *copy;

	policy_kit_open(&k, text, NULL);
	copy = mem_dup(k.bytes.data, k.bytes.len);
	assert_int_equal(policy_open(copy, k.bytes.len, &p, NULL), 0);
	memset(k.bytes.data, 0xff, k.bytes.len);
	policy_decide(p, &op, false, &v);
	assert_string_equal(v.rule, "a");
	policy_close(p);
	free(copy);
	policy_kit_close(&k);
}

/* Every bit of the digest counts: one flipped byte anywhere is noticed. */
static void pol_6_damage_is_noticed(void **state)
{
	struct policy_kit k;
	struct policy *p = NULL;
	struct err err = {0};

	policy_kit_open(&k, text, NULL);
	for (size_t i = 0; i < k.bytes.len; i += 3) {
		k.bytes.data[i] ^= 1;
		assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &p, &err), -E_BAD_REQUEST);
		k.bytes.data[i] ^= 1;
	}
	assert_int_equal(policy_open(k.bytes.data, k.bytes.len - 8, &p, &err), -E_BAD_REQUEST);
	assert_int_equal(policy_open(k.bytes.data, 8, &p, &err), -E_BAD_REQUEST);
	assert_int_equal(policy_open(k.bytes.data, 0, &p, &err), -E_BAD_REQUEST);
	assert_null(p);
	policy_kit_close(&k);
}

/* With a digest that fits, every offset is still looked at. */
static void pol_6_every_offset_is_checked(void **state)
{
	static const size_t at[] = {
		offsetof(struct snapshot_head, name),
		offsetof(struct snapshot_head, description),
		offsetof(struct snapshot_head, file),
		offsetof(struct snapshot_head, env_allow.at),
		offsetof(struct snapshot_head, env_allow.n),
		offsetof(struct snapshot_head, env_deny.n),
		offsetof(struct snapshot_head, class[0].rules.at),
		offsetof(struct snapshot_head, class[1].rules.n),
		offsetof(struct snapshot_head, class[2].slots.at),
		offsetof(struct snapshot_head, class[0].slots.n),
		offsetof(struct snapshot_head, limits.given),
		offsetof(struct snapshot_head, class[2].slots.n),
		offsetof(struct snapshot_head, class[1].fallback),
		offsetof(struct snapshot_head, part[0].at),
		offsetof(struct snapshot_head, part[1].n),
		offsetof(struct snapshot_head, part[6].n),
	};
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	for (size_t i = 0; i < ARRAY_LEN(at); i++) {
		struct policy *p = NULL;
		struct err err = {0};
		uint32_t *value = (uint32_t *)(void *)(k.bytes.data + at[i]), before = *value;

		*value = 0xffffff0;
		sign(&k.bytes);
		if (policy_open(k.bytes.data, k.bytes.len, &p, &err) == 0)
			fail_msg("%zu", at[i]);
		*value = before;
	}
	policy_kit_close(&k);
}

/* Changes one field of each rule, signs and expects a refusal. */
static void pol_6_every_rule_is_checked(void **state)
{
	static const struct {
		unsigned class;
		size_t at;
		uint32_t value;
		size_t size;
	} rows[] = {
		{OP_FILE, offsetof(struct snapshot_rule, name), UINT32_MAX, 4},
		{OP_FILE, offsetof(struct snapshot_rule, name), 2, 4},
		{OP_FILE, offsetof(struct snapshot_rule, message), UINT32_MAX, 4},
		{OP_FILE, offsetof(struct snapshot_rule, redirect_to), 1, 4},
		{OP_FILE, offsetof(struct snapshot_rule, decision), DECISIONS, 1},
		{OP_FILE, offsetof(struct snapshot_rule, decision), DECISION_redirect, 1},
		{OP_FILE, offsetof(struct snapshot_rule, decision), DECISION_soft_delete, 1},
		{OP_FILE, offsetof(struct snapshot_rule, decision), DECISION_allow, 1},
		{OP_FILE, offsetof(struct snapshot_rule, final), 2, 1},
		{OP_FILE, offsetof(struct snapshot_rule, flags), 2, 1},
		{OP_FILE, offsetof(struct snapshot_rule, args_whole), 2, 1},
		{OP_FILE, offsetof(struct snapshot_rule, conditions), COND_ALL + 1, 4},
		{OP_FILE, offsetof(struct snapshot_rule, subject.at), UINT32_MAX, 4},
		{OP_FILE, offsetof(struct snapshot_rule, subject.n), 1000, 4},
		{OP_FILE, offsetof(struct snapshot_rule, subject.n), 0, 4},
		{OP_FILE, offsetof(struct snapshot_rule, cidrs.n), 1000, 4},
		{OP_FILE, offsetof(struct snapshot_rule, ports.at), 1000, 4},
		{OP_NET, offsetof(struct snapshot_rule, scripts.n), 1000, 4},
		{OP_EXEC, offsetof(struct snapshot_rule, args.n), 1000, 4},
		{OP_EXEC, offsetof(struct snapshot_rule, regex.n), 1000, 4},
	};
	struct policy_kit k;

	policy_kit_open(&k, text, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* the first file rule is the final deny */
		char *rule = (char *)(uintptr_t)snapshot_rule(k.p, rows[i].class, 0), kept[4];
		struct policy *p = NULL;
		struct err err = {0};

		memcpy(kept, rule + rows[i].at, rows[i].size);
		memcpy(rule + rows[i].at, &rows[i].value, rows[i].size);
		sign(&k.bytes);
		if (policy_open(k.bytes.data, k.bytes.len, &p, &err) == 0)
			fail_msg("%zu", i);
		memcpy(rule + rows[i].at, kept, rows[i].size);
	}
	policy_kit_close(&k);
}

static void pol_6_patterns_and_postings_are_checked(void **state)
{
	struct policy_kit k;
	struct policy *p = NULL;
	struct err err = {0};
	char *path;
	struct snapshot_posting *posting;

	policy_kit_open(&k, text, NULL);
	path = (char *)(uintptr_t)snapshot_pattern(k.p, snapshot_rule(k.p, OP_FILE, 1)->subject.at);
	path[0] = 'x';
	sign(&k.bytes);
	assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &p, &err), -E_BAD_REQUEST);
	path[0] = '/';
	path = (char *)(uintptr_t)snapshot_pattern(k.p, snapshot_rule(k.p, OP_EXEC, 1)->regex.at);
	path[0] = '(';
	sign(&k.bytes);
	assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &p, &err), -E_BAD_REQUEST);
	path[0] = '^';
	path = (char *)(uintptr_t)snapshot_pattern(k.p, snapshot_rule(k.p, OP_NET, 0)->subject.at);
	path[2] = 'A';
	sign(&k.bytes);
	assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &p, &err), -E_BAD_REQUEST);
	path[2] = 'a';
	for (uint64_t i = 0; i < k.p->head->part[PART_POSTINGS].n; i++) {
		posting = (struct snapshot_posting *)(uintptr_t)&k.p->postings[i];
		posting->rule += 100;
		sign(&k.bytes);
		assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &p, &err), -E_BAD_REQUEST);
		posting->rule -= 100;
		posting->pattern += 1000;
		sign(&k.bytes);
		if (posting->pattern != 999) /* a rule as a whole has no pattern */
			assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &p, &err),
					 -E_BAD_REQUEST);
		posting->pattern -= 1000;
	}
	sign(&k.bytes);
	assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &p, &err), 0);
	policy_close(p);
	policy_kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_6_the_version_is_that_of_the_bytes),
		cmocka_unit_test(pol_6_the_bytes_can_lie_anywhere),
		cmocka_unit_test(pol_6_damage_is_noticed),
		cmocka_unit_test(pol_6_every_offset_is_checked),
		cmocka_unit_test(pol_6_every_rule_is_checked),
		cmocka_unit_test(pol_6_patterns_and_postings_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
