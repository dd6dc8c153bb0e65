// SPDX-License-Identifier: Apache-2.0
#include "policy/snapshot.h"
#include "policy/testkit/policy_testkit.h"

/* What the previous version made of
 *   default: {files: allow, network: deny, commands: allow}
 *   file_rules:
 *     - {name: b, paths: <every .env>, decision: deny, final: true}
 *   network_rules:
 *     - {name: c, domains: ['*.a.example'], ports: [80-90], decision: allow}
 *     - {name: d, cidrs: [10.0.0.0/8, 'fd00::/8'], decision: deny}
 *     - {name: h, ports: [22], decision: allow}
 *   command_rules:
 *     - {name: f, commands: [x], args_regex: ['^a+$'], decision: deny}
 *   environment: {allow: [A*, COLOUR, KEPT, LATER], deny: [AB]}
 *   resource_limits: {max_memory_mb: 512, command_timeout: 2m, pids_max: 99} */
static const char old[] =
	"61677368706f6c324005000000000000e3f9468e1906ea4b2f21db81ccdbaad6f6776c270a8064dd"
	"856758237931d6140000000001000000030000000e00000000000000010000000000000004000000"
	"000000000000000000000000040000000b0000000000000001000000010000000400000004000000"
	"01000000000000000000000004000000280000000000000002000000030000000800000008000000"
	"02000000010000000100000004000000190000000000000000000000040000000400000001000000"
	"01000000000000000001000000000000000100000000000000000000000000000000000000000000"
	"0002000000000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	"ffffffffffffffff6300000000000000ffffffffffffffffffffffffffffffffffffffffffffffff"
	"c0d4010000000000ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
	"ffffffffffffffffe001000000000000050000000000000098030000000000000900000000000000"
	"c0030000000000000200000000000000e8030000000000000200000000000000f003000000000000"
	"1000000000000000b0040000000000000600000000000000e0040000000000006000000000000000"
	"3b000000000000000000000006000000050000000101000001000000ff3f00000500000001000000"
	"06000000000000000600000000000000060000000000000006000000000000000000000000000000"
	"00000000000000004500000000000000000000000c00000005000000010000001200000000000000"
	"06000000010000000700000000000000070000000000000007000000010000000800000000000000"
	"000000000000000000000000000000004e0000000000000000000000080000000500000000000000"
	"40010000000000000800000001000000090000000000000009000000000000000900000000000000"
	"0900000000000000000000000000000000000000010000005c000000000000000000000009000000"
	"05000000010000008000000000000000090000000000000009000000000000000900000000000000"
	"09000000000000000900000000000000000000000200000001000000000000005e00000000000000"
	"000000000a0000000500000000000000000100000000000009000000000000000900000000000000"
	"09000000000000000900000000000000090000000000000002000000000000000100000001000000"
	"23000000260000002d00000032000000380000003d00000047000000490000005000000000000000"
	"04080a0000000000000000000000000000000608fd00000000000000000000000000000000000000"
	"50005a00160016000000000000000000000000000000000000000000000000000000000000000000"
	"000000004bfac7ff000000000100000000000000000000000000000031550c130100000001000000"
	"000000000000000000000000000000000000000000000000c072e39e050000000100000000000000"
	"0000000000000000b2e4163e04000000010000000000000000000000000000000000000000000000"
	"0000000065f4df210300000001000000000000000000000000000000000000000000000000000000"
	"0000000005000000000000000600000002000000ffffffff01000000ffffffff01000000ffffffff"
	"000000000800000000740077686174206974206973002f746d702f706f6c69636965732f742e7961"
	"6d6c00412a00434f4c4f5552004b455054004c415445520041420062002a2a2f2e656e7600660078"
	"005e612b240063002a2e612e6578616d706c650064006800";
#define OLD_LEN (sizeof(old) / 2)

static void read_old(struct buf *out)
{
	for (size_t i = 0; i < OLD_LEN; i++) {
		unsigned byte;

		assert_int_equal(sscanf(old + 2 * i, "%2x", &byte), 1);
		buf_addc(out, (char)byte);
	}
}

static void pol_6_a_session_keeps_its_snapshot_of_the_previous_version(void **state)
{
	struct policy_kit k = {0};

	read_old(&k.bytes);
	assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &k.p, NULL), 0);
	assert_int_equal(policy_open(k.bytes.data, k.bytes.len, &k.cached, NULL), 0);
	policy_add_cache(k.cached, 64);
	assert_string_equal(policy_version(k.p),
			    "sha256:"
			    "e3f9468e1906ea4b2f21db81ccdbaad6f6776c270a8064dd856758237931d614");
	assert_string_equal(policy_description(k.p), "what it is");
	assert_int_equal(policy_limits(k.p)->value[LIMIT_max_memory_mb], 512);
	assert_int_equal(policy_limits(k.p)->value[LIMIT_command_timeout], 120000);
	assert_int_equal(policy_limits(k.p)->value[LIMIT_pids_max], 99);
	assert_false(limits_has(policy_limits(k.p), LIMIT_max_disk_mb));
	assert_string_equal(policy_kit_file(&k, "read", "/w/.env").rule, "b");
	assert_string_equal(policy_kit_file(&k, "read", "/w/env").rule, "default");
	assert_string_equal(policy_kit_net(&k, "x.a.example", NULL, 80).rule, "c");
	assert_string_equal(policy_kit_net(&k, NULL, "10.1.2.3", 443).rule, "d");
	assert_string_equal(policy_kit_net(&k, NULL, "fd00::1", 443).rule, "d");
	assert_string_equal(policy_kit_net(&k, NULL, "192.0.2.1", 22).rule, "h");
	assert_string_equal(policy_kit_exec(&k, "/bin/x", NULL, "x aaa").rule, "f");
	policy_kit_close(&k);
}

static void pol_6_damage_in_it_is_noticed(void **state)
{
	cleanup_buf struct buf b = {0};
	struct policy *p = NULL;

	read_old(&b);
	for (size_t i = 0; i < b.len; i += 3) {
		b.data[i] ^= 1;
		assert_int_equal(policy_open(b.data, b.len, &p, NULL), -E_BAD_REQUEST);
		b.data[i] ^= 1;
	}
	assert_int_equal(policy_open(b.data, b.len - 8, &p, NULL), -E_BAD_REQUEST);
	assert_int_equal(policy_open(b.data, 64, &p, NULL), -E_BAD_REQUEST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_6_a_session_keeps_its_snapshot_of_the_previous_version),
		cmocka_unit_test(pol_6_damage_in_it_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
