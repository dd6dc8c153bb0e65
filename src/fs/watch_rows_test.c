// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "fs/watch.h"
#include <fcntl.h>
#include <unistd.h>

static unsigned ops_of(uint32_t opcode, const void *arg, struct watch_need *n)
{
	const struct fs_request q = {.opcode = opcode, .arg = arg};

	return watch_need(&q, n) ? n->ops : UINT32_MAX;
}

#define OP WATCH_OP

static void fil_3_an_open_needs_what_its_flags_say(void **state)
{
	static const struct {
		uint32_t flags;
		unsigned ops;
	} rows[] = {
		{O_RDONLY, OP(open) | OP(read)},
		{O_WRONLY | O_APPEND, OP(open) | OP(write)},
		{O_RDWR, OP(open) | OP(read) | OP(write)},
		{O_RDONLY | O_TRUNC, OP(open) | OP(read) | OP(truncate)},
		{0x20, OP(open) | OP(execute)},
		/* the mode 3 is for both */
		{O_ACCMODE, OP(open) | OP(read) | OP(write)},
	};
	struct watch_need n;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct fuse_open_in in = {.flags = rows[i].flags};

		assert_int_equal(ops_of(FUSE_OPEN, &in, &n), rows[i].ops);
		assert_true(n.opens);
		assert_int_equal(n.flags, rows[i].flags);
	}
}

static void fil_3_an_attribute_change_needs_each_of_its_operations(void **state)
{
	const struct fuse_setattr_in nothing = {0}, times = {.valid = FATTR_MTIME_NOW},
				     all = {.valid = FATTR_SIZE | FATTR_MODE | FATTR_GID};
	struct watch_need n;

	assert_int_equal(ops_of(FUSE_SETATTR, &all, &n), OP(truncate) | OP(chmod) | OP(chown));
	assert_int_equal(n.type, EVENT_file_truncate);
	assert_int_equal(ops_of(FUSE_SETATTR, &times, &n), OP(write));
	assert_int_equal(ops_of(FUSE_SETATTR, &nothing, &n), OP(chown));
}

static void fil_3_what_has_been_decided_by_the_open_is_not_decided_again(void **state)
{
	static const uint32_t silent[] = {FUSE_READ,	FUSE_WRITE,  FUSE_FLUSH,  FUSE_RELEASE,
					  FUSE_READDIR, FUSE_FORGET, FUSE_STATFS, FUSE_LSEEK};
	const struct fuse_getattr_in by_handle = {.getattr_flags = FUSE_GETATTR_FH}, by_node = {0};
	struct watch_need n;

	for (size_t i = 0; i < ARRAY_LEN(silent); i++)
		assert_int_equal(ops_of(silent[i], NULL, &n), UINT32_MAX);
	assert_int_equal(ops_of(FUSE_GETATTR, &by_handle, &n), UINT32_MAX);
	assert_int_equal(ops_of(FUSE_GETATTR, &by_node, &n), OP(stat));
	assert_int_equal(ops_of(4242, NULL, &n), UINT32_MAX);
}

static void fil_3_a_new_name_needs_create(void **state)
{
	const struct fuse_create_in in = {.flags = O_WRONLY | O_CREAT | O_TRUNC};
	struct watch_need n;

	assert_int_equal(ops_of(FUSE_CREATE, &in, &n), OP(create) | OP(open) | OP(write));
	assert_true(n.makes);
	assert_int_equal(ops_of(FUSE_SYMLINK, NULL, &n), OP(create) | OP(symlink));
	assert_int_equal(ops_of(FUSE_RENAME, NULL, &n), OP(rename));
	assert_int_equal(n.to_ops, OP(rename) | OP(create));
	assert_int_equal(ops_of(FUSE_LINK, NULL, &n), OP(link));
	assert_int_equal(n.to_ops, OP(link) | OP(create));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_3_an_open_needs_what_its_flags_say),
		cmocka_unit_test(fil_3_an_attribute_change_needs_each_of_its_operations),
		cmocka_unit_test(fil_3_what_has_been_decided_by_the_open_is_not_decided_again),
		cmocka_unit_test(fil_3_a_new_name_needs_create),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
