// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "model/op.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void pol_3_every_file_operation_has_a_name(void **state)
{
	static const char *const names[] = {"read",    "write", "open",	    "create", "delete",
					    "rename",  "stat",	"list",	    "chmod",  "chown",
					    "symlink", "link",	"truncate", "execute"};
	enum op_file op;

	assert_int_equal(ARRAY_LEN(names), OP_FILES);
	for (unsigned i = 0; i < OP_FILES; i++) {
		assert_true(op_file_parse(names[i], &op));
		assert_int_equal(op, i);
		assert_string_equal(op_file_name(op), names[i]);
	}
	assert_false(op_file_parse("reads", &op));
	assert_false(op_file_parse("*", &op));
}

static void pol_3_addresses_of_both_families(void **state)
{
	cleanup_buf struct buf out = {0};
	struct op_address a = {0};

	op_address_format(&a, &out);
	assert_int_equal(out.len, 0);
	assert_true(op_address_parse("10.1.2.3", &a));
	assert_int_equal(a.family, 4);
	assert_int_equal(a.byte[3], 3);
	op_address_format(&a, &out);
	assert_true(op_address_parse("fd00::1", &a));
	assert_int_equal(a.family, 6);
	op_address_format(&a, &out);
	assert_string_equal(out.data, "10.1.2.3fd00::1");
	assert_false(op_address_parse("10.1.2", &a));
	assert_int_equal(a.family, 6);
}

static void check(const struct op *op, const char *kind, const char *target)
{
	cleanup_buf struct buf out = {0};

	op_format_kind(op, &out);
	assert_string_equal(out.data, kind);
	buf_clear(&out);
	op_format_target(op, &out);
	assert_string_equal(out.data, target);
}

static void exe_2_an_operation_is_told_in_words(void **state)
{
	struct op op = {.class = OP_FILE, .file = {OP_FILE_truncate, "/w/a"}};

	check(&op, "file_truncate", "/w/a");
	op = (struct op){.class = OP_EXEC, .exec = {.path = "/usr/bin/dash"}};
	check(&op, "exec", "/usr/bin/dash");
	op.exec.script = "/w/run";
	check(&op, "exec", "/w/run");
	op = (struct op){.class = OP_NET, .net = {.host = "a.example", .port = 443}};
	check(&op, "net_connect", "a.example:443");
	op.net.host = NULL;
	op_address_parse("::1", &op.net.address);
	check(&op, "net_connect", "[::1]:443");
	op_address_parse("127.0.0.1", &op.net.address);
	op.net.port = 0;
	check(&op, "net_connect", "127.0.0.1");
	op = (struct op){.class = OP_DNS, .dns = {"a.example", 28}};
	check(&op, "dns_query", "a.example");
}

static void pol_1_arguments_are_joined_and_cut(void **state)
{
	static char longest[2 * OP_ARGS_SHOWN];
	const char *argv[] = {"git", "add", "a b", longest, "end"};
	struct op op = {.class = OP_EXEC, .exec = {.path = "/bin/git", .argv = argv, .argc = 3}};
	cleanup_buf struct buf out = {0};

	op_format_args(&op, &out);
	assert_string_equal(out.data, "add a b");
	buf_clear(&out);
	memset(longest, 'x', sizeof(longest) - 1);
	op.exec.argc = 5;
	op_format_args(&op, &out);
	assert_int_equal(out.len, OP_ARGS_SHOWN);
	buf_clear(&out);
	longest[OP_ARGS_SHOWN - 9] = '\0';
	op_format_args(&op, &out);
	assert_int_equal(out.len, OP_ARGS_SHOWN);
	assert_int_equal(out.data[out.len - 1], ' ');
	buf_clear(&out);
	op.class = OP_DNS;
	op_format_args(&op, &out);
	assert_int_equal(out.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pol_3_every_file_operation_has_a_name),
		cmocka_unit_test(pol_3_addresses_of_both_families),
		cmocka_unit_test(exe_2_an_operation_is_told_in_words),
		cmocka_unit_test(pol_1_arguments_are_joined_and_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
