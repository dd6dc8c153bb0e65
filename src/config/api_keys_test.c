// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "base/mem.h"
#include "config/config.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* Any two digests. */
#define D1 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define D2 "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"

static int parse(const char *text, struct api_keys *out, struct buf *report, struct err *err)
{
	return api_keys_parse("k.yaml", text, strlen(text), out, report, err);
}

static void api_3_keys_are_read(void **state)
{
	struct api_keys k;

	assert_int_equal(parse("keys:\n"
			       "  - {id: a, agent_id: agent-1, role: agent, uid: 0, sha256: " D1
			       "}\n"
			       "  - id: b\n    role: admin\n    uid: 9\n    sha256: " D2 "\n"
			       "  - {id: c, role: approver, sha256: \"cc" D1 "\"}\n",
			       &k, NULL, NULL),
			 -E_BAD_REQUEST);
	assert_int_equal(
		parse("keys:\n"
		      "  - {id: a, agent_id: agent-1, role: agent, uid: 0, sha256: " D1 "}\n"
		      "  - id: b\n    role: admin\n    uid: 9\n    sha256: " D2 "\n"
		      "  - {id: c, role: approver, sha256: "
		      "\"0000000000000000000000000000000000000000000000000000000000000000\"}\n"
		      "  - {id: d, role: agent, uid: 4294967294, sha256: "
		      "1111111111111111111111111111111111111111111111111111111111111111}\n",
		      &k, NULL, NULL),
		0);
	assert_int_equal(k.n, 4);
	assert_string_equal(k.key[0].id, "a");
	assert_string_equal(k.key[0].agent_id, "agent-1");
	assert_int_equal(k.key[0].role, ROLE_AGENT);
	assert_int_equal(k.key[0].uid, 0);
	assert_int_equal(k.key[0].sha256[31], 0xaa);
	assert_string_equal(k.key[1].agent_id, "b");
	assert_int_equal(k.key[1].role, ROLE_ADMIN);
	assert_int_equal(k.key[1].uid, 9);
	assert_int_equal(k.key[1].sha256[0], 0xbb);
	assert_int_equal(k.key[2].role, ROLE_APPROVER);
	assert_int_equal(k.key[2].uid, UINT32_MAX);
	assert_int_equal(k.key[3].uid, UINT32_MAX - 1);
	api_keys_done(&k);
	assert_int_equal(k.n, 0);
	assert_int_equal(parse("keys: []\n", &k, NULL, NULL), 0);
	assert_int_equal(k.n, 0);
	assert_string_equal(role_name(ROLE_AGENT), "agent");
	assert_string_equal(role_name(ROLE_APPROVER), "approver");
	assert_string_equal(role_name(ROLE_ADMIN), "admin");
}

#define ONE(fields) "keys:\n- {" fields "}\n"

static void api_3_each_problem_is_told_with_its_place(void **state)
{
	static const struct {
		const char *text, *line;
	} row[] = {
		{"", "k.yaml:1:1: must be a list 'keys:'\n"},
		{"[]\n", "k.yaml:1:1: must be a list 'keys:'\n"},
		{"keys: 5\n", "k.yaml:1:7: keys must be a list of at most 1000\n"},
		{"keys: []\nkeyz: []\n", "k.yaml:2:1: unknown key 'keyz' (did you mean 'keys'?)\n"},
		{"keys: [5]\n", "k.yaml:1:8: must be {id, agent_id, role, uid, sha256}\n"},
		{ONE("role: admin, uid: 1, sha256: " D1), "k.yaml:2:3: id is missing\n"},
		{ONE("id: a b, role: admin, uid: 1, sha256: " D1), "k.yaml:2:8: id must match"},
		{ONE("id: [a], role: admin, uid: 1, sha256: " D1),
		 "k.yaml:2:8: id must be a word\n"},
		{ONE("id: a, agent_id: -b, role: admin, uid: 1, sha256: " D1),
		 "k.yaml:2:21: agent_id must match"},
		{ONE("id: a, uid: 1, sha256: " D1), "k.yaml:2:3: role is missing\n"},
		{ONE("id: a, role: root, uid: 1, sha256: " D1),
		 "k.yaml:2:17: role must be agent, approver or admin\n"},
		{ONE("id: a, role: agnt, uid: 1, sha256: " D1),
		 "k.yaml:2:17: role must be agent, approver or admin (did you mean 'agent'?)\n"},
		{ONE("id: a, role: agent, sha256: " D1), "k.yaml:2:3: uid is missing\n"},
		{ONE("id: a, role: admin, sha256: " D1), "k.yaml:2:3: uid is missing\n"},
		{ONE("id: a, role: admin, uid: x, sha256: " D1),
		 "uid must be a number from 0 to 4294967294\n"},
		{ONE("id: a, role: admin, uid: 4294967295, sha256: " D1), "uid must be a number"},
		{ONE("id: a, role: admin, uid: -1, sha256: " D1), "uid must be a number"},
		{ONE("id: a, role: admin, uid: 1x, sha256: " D1), "uid must be a number"},
		{ONE("id: a, role: admin, uid: 01, sha256: " D1), "uid must be a number"},
		{ONE("id: a, role: admin, uid: \"1\", sha256: " D1), "uid must be a number"},
		{ONE("id: a, role: admin, uid: , sha256: " D1), "uid must be a number"},
		{ONE("id: a, role: admin, uid: ;, sha256: " D1), "uid must be a number"},
		{ONE("id: a, role: admin, uid: 99999999999999999999, sha256: " D1),
		 "uid must be a number"},
		{ONE("id: a, role: admin, uid: 1"), "k.yaml:2:3: sha256 is missing\n"},
		{ONE("id: a, role: admin, uid: 1, sha256: abc"),
		 "k.yaml:2:40: sha256 must be 64 hexadecimal digits\n"},
		{ONE("id: a, role: admin, uid: 1, sha256: " D1 "a"),
		 "sha256 must be 64 hexadecimal digits\n"},
		{ONE("id: a, role: admin, uid: 1, secret: x, sha256: " D1),
		 "k.yaml:2:32: unknown key 'secret'\n"},
		{ONE("id: a, role: admin, uid: 1, sha256: " D1
		     "}\n- {id: a, role: approver, sha256: " D2),
		 "k.yaml:3:3: id 'a' stands here twice\n"},
		{ONE("id: a, role: admin, uid: 1, sha256: " D1
		     "}\n- {id: b, role: approver, sha256: " D1),
		 "k.yaml:3:3: sha256 stands here twice\n"},
		{"keys: {\n", "k.yaml:2:1: "},
	};

	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		cleanup_buf struct buf report = {0};
		struct api_keys k = {.n = 77};
		struct err err = {0};

		if (parse(row[i].text, &k, &report, &err) != -E_BAD_REQUEST)
			fail_msg("accepted: %s", row[i].text);
		if (strstr(report.data, row[i].line) == NULL)
			fail_msg("%s\nsays %s\nnot  %s", row[i].text, report.data, row[i].line);
		assert_int_equal(strncmp(err.message, report.data, strlen(err.message)), 0);
		assert_int_equal(k.n, 77);
		assert_int_equal(parse(row[i].text, &k, NULL, NULL), -E_BAD_REQUEST);
	}
}

static void api_3_all_problems_in_one_pass(void **state)
{
	cleanup_buf struct buf report = {0};
	struct api_keys k;

	assert_int_equal(parse("keys:\n- {id: -, role: x}\n- 5\n", &k, &report, NULL),
			 -E_BAD_REQUEST);
	assert_string_equal(report.data,
			    "k.yaml:2:8: id must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}\n"
			    "k.yaml:2:17: role must be agent, approver or admin\n"
			    "k.yaml:2:3: sha256 is missing\n"
			    "k.yaml:3:3: must be {id, agent_id, role, uid, sha256}\n");
}

static void api_3_keys_are_bounded(void **state)
{
	for (int n = 1000; n <= 1001; n++) {
		cleanup_buf struct buf text = {0};
		struct api_keys k = {0};

		buf_adds(&text, "keys:\n");
		for (int i = 0; i < n; i++)
			buf_addf(&text, "- {id: k%d, role: approver, sha256: %064d}\n", i, i);
		assert_int_equal(parse(text.data, &k, NULL, NULL), n == 1000 ? 0 : -E_BAD_REQUEST);
		api_keys_done(&k);
	}
}

static void api_3_a_key_is_found_by_its_secret(void **state)
{
	static const char *const secrets[] = {"first", "second", "third"};
	cleanup_buf struct buf text = {0};
	char secret[130], hex[HASH_HEX];
	uint8_t digest[HASH_LEN];
	struct api_keys k;

	memset(secret, 's', sizeof(secret));
	buf_adds(&text, "keys:\n");
	for (size_t i = 0; i < 5; i++) {
		const char *s = i < 3 ? secrets[i] : secret;
		const size_t len = i < 3 ? strlen(s) : i == 3 ? 128 : 129;

		hash_sha256(digest, s, len, NULL, 0);
		hash_hex(hex, digest);
		buf_addf(&text, "- {id: k%zu, role: approver, sha256: %s}\n", i, hex);
	}
	hash_sha256(digest, "", 0, NULL, 0);
	hash_hex(hex, digest);
	buf_addf(&text, "- {id: none, role: approver, sha256: %s}\n", hex);
	assert_int_equal(parse(text.data, &k, NULL, NULL), 0);
	for (size_t i = 0; i < 3; i++)
		assert_ptr_equal(api_keys_find(&k, secrets[i], strlen(secrets[i])), &k.key[i]);
	assert_null(api_keys_find(&k, "firs", 4));
	assert_null(api_keys_find(&k, "nobody", 6));
	/* at most 128 bytes, at least one */
	assert_ptr_equal(api_keys_find(&k, secret, 128), &k.key[3]);
	assert_null(api_keys_find(&k, secret, 129));
	assert_null(api_keys_find(&k, "", 0));
	api_keys_done(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_3_keys_are_read),
		cmocka_unit_test(api_3_each_problem_is_told_with_its_place),
		cmocka_unit_test(api_3_all_problems_in_one_pass),
		cmocka_unit_test(api_3_keys_are_bounded),
		cmocka_unit_test(api_3_a_key_is_found_by_its_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
