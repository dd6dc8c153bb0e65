// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "fs/fuse_request.h"
#include <errno.h>
#include <limits.h>

#define NODE 7
#define UNIQUE 42

/* A request under construction, on the heap with its exact size, so that ASan sees a read past it.
 */
static struct {
	_Alignas(8) uint8_t byte[16384];
	size_t len;
} raw;

static void begin(uint32_t opcode)
{
	struct fuse_in_header h = {.opcode = opcode,
				   .unique = UNIQUE,
				   .nodeid = NODE,
				   .uid = 1000,
				   .gid = 100,
				   .pid = 4711};

	memset(raw.byte, 0, sizeof(raw.byte));
	memcpy(raw.byte, &h, sizeof(h));
	raw.len = sizeof(h);
}

static void add(const void *p, size_t n)
{
	memcpy(raw.byte + raw.len, p, n);
	raw.len += n;
}

static void add_zeroes(size_t n)
{
	raw.len += n;
}

static void add_name(char c, size_t n)
{
	memset(raw.byte + raw.len, c, n);
	raw.len += n + 1;
}

static void add_text(const char *s)
{
	add(s, strlen(s) + 1);
}

static struct fs_request q;
static uint8_t *held;

static int parse_as(size_t len, size_t says, uint64_t features)
{
	((struct fuse_in_header *)(void *)raw.byte)->len = (uint32_t)says;
	free(held);
	held = len > 0 ? mem_dup(raw.byte, len) : mem_alloc(1);
	return fs_request_parse(held, len, features, &q);
}

static int parse(void)
{
	return parse_as(raw.len, raw.len, FUSE_SETXATTR_EXT);
}

static int done(void **state)
{
	free(held);
	held = NULL;
	return 0;
}

struct shape {
	uint32_t opcode;
	const char *name;
	size_t fixed;
	const char *names[2];
	size_t size_at; /* of a 32-bit count in the fixed part, with data; else 0 */
	size_t unit;
};

/* Sizes as the kernel has them, in numbers: the code's table uses sizeof. */
static const struct shape shapes[] = {
	{FUSE_LOOKUP, "LOOKUP", 0, {"a"}},
	{FUSE_FORGET, "FORGET", 8},
	{FUSE_GETATTR, "GETATTR", 16},
	{FUSE_SETATTR, "SETATTR", 88},
	{FUSE_READLINK, "READLINK", 0},
	{FUSE_SYMLINK, "SYMLINK", 0, {"a", "../b/c"}},
	{FUSE_MKNOD, "MKNOD", 16, {"a"}},
	{FUSE_MKDIR, "MKDIR", 8, {"a"}},
	{FUSE_UNLINK, "UNLINK", 0, {"..."}},
	{FUSE_RMDIR, "RMDIR", 0, {"a"}},
	{FUSE_RENAME, "RENAME", 8, {"a", "b"}},
	{FUSE_LINK, "LINK", 8, {"a"}},
	{FUSE_OPEN, "OPEN", 8},
	{FUSE_READ, "READ", 40},
	{FUSE_WRITE, "WRITE", 40, {NULL}, 16, 1},
	{FUSE_STATFS, "STATFS", 0},
	{FUSE_RELEASE, "RELEASE", 24},
	{FUSE_FSYNC, "FSYNC", 16},
	{FUSE_SETXATTR, "SETXATTR", 16, {"user.a/b"}, 0, 1},
	{FUSE_GETXATTR, "GETXATTR", 8, {"user.a"}},
	{FUSE_LISTXATTR, "LISTXATTR", 8},
	{FUSE_REMOVEXATTR, "REMOVEXATTR", 0, {"user.a"}},
	{FUSE_FLUSH, "FLUSH", 24},
	{FUSE_INIT, "INIT", 64},
	{FUSE_OPENDIR, "OPENDIR", 8},
	{FUSE_READDIR, "READDIR", 40},
	{FUSE_RELEASEDIR, "RELEASEDIR", 24},
	{FUSE_FSYNCDIR, "FSYNCDIR", 16},
	{FUSE_GETLK, "GETLK", 48},
	{FUSE_SETLK, "SETLK", 48},
	{FUSE_SETLKW, "SETLKW", 48},
	{FUSE_ACCESS, "ACCESS", 8},
	{FUSE_CREATE, "CREATE", 16, {"a"}},
	{FUSE_INTERRUPT, "INTERRUPT", 8},
	{FUSE_BMAP, "BMAP", 16},
	{FUSE_DESTROY, "DESTROY", 0},
	{FUSE_IOCTL, "IOCTL", 32, {NULL}, 24, 1},
	{FUSE_POLL, "POLL", 24},
	{FUSE_NOTIFY_REPLY, "NOTIFY_REPLY", 40, {NULL}, 16, 1},
	{FUSE_BATCH_FORGET, "BATCH_FORGET", 8, {NULL}, 0, 16},
	{FUSE_FALLOCATE, "FALLOCATE", 32},
	{FUSE_READDIRPLUS, "READDIRPLUS", 40},
	{FUSE_RENAME2, "RENAME2", 16, {"a", "b"}},
	{FUSE_LSEEK, "LSEEK", 24},
	{FUSE_COPY_FILE_RANGE, "COPY_FILE_RANGE", 56},
	{FUSE_SYNCFS, "SYNCFS", 8},
	{52, "STATX", 24},
	{53, "COPY_FILE_RANGE_64", 56},
};

#define COUNT 3 /* units of data */

static void build(const struct shape *s)
{
	uint32_t count = COUNT;

	begin(s->opcode);
	for (size_t i = 0; i < s->fixed; i++)
		raw.byte[raw.len + i] = (uint8_t)(i + 1);
	if (s->unit != 0)
		memcpy(raw.byte + raw.len + s->size_at, &count, sizeof(count));
	raw.len += s->fixed;
	for (size_t i = 0; i < 2 && s->names[i] != NULL; i++)
		add_text(s->names[i]);
	add_zeroes(COUNT * s->unit);
}

static void fil_7_a_request_of_every_opcode_is_taken_apart(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		const struct shape *s = &shapes[i];

		build(s);
		assert_int_equal(parse(), 0);
		assert_int_equal(q.opcode, s->opcode);
		assert_string_equal(fs_opcode_name(s->opcode), s->name);
		assert_int_equal(q.unique, UNIQUE);
		assert_int_equal(q.node, NODE);
		assert_int_equal(q.uid, 1000);
		assert_int_equal(q.gid, 100);
		assert_int_equal(q.pid, 4711);
		assert_int_equal(q.supplementary, (gid_t)-1);
		if (s->fixed == 0)
			assert_null(q.arg);
		else
			assert_memory_equal(q.arg, raw.byte + 40, s->fixed);
		for (size_t n = 0; n < 2; n++)
			if (s->names[n] != NULL)
				assert_string_equal(q.name[n], s->names[n]);
			else
				assert_null(q.name[n]);
		assert_int_equal(q.data_len, COUNT * s->unit);
		assert_ptr_equal(q.data, s->unit != 0 ? held + raw.len - q.data_len : NULL);
	}
}

/* Whatever is cut off or added, whether or not the header's length follows. */
static void fil_7_a_request_of_another_length_is_an_error(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		const struct shape *s = &shapes[i];

		build(s);
		for (size_t len = 0; len < raw.len; len++) {
			bool short_init = s->opcode == FUSE_INIT && len == 40 + 16;

			assert_int_equal(parse_as(len, len, FUSE_SETXATTR_EXT),
					 short_init ? 0 : -EINVAL);
			assert_int_equal(q.unique, len < 40 ? 0 : UNIQUE);
			assert_int_equal(parse_as(len, raw.len, FUSE_SETXATTR_EXT), -EINVAL);
		}
		assert_int_equal(parse_as(raw.len, raw.len + 1, FUSE_SETXATTR_EXT), -EINVAL);
		add_zeroes(1);
		assert_int_equal(parse(), -EINVAL);
	}
}

static void fil_7_an_opcode_without_a_row_is_enosys(void **state)
{
	static const uint32_t unknown[] = {
		0, 7, 19, FUSE_SETUPMAPPING, FUSE_REMOVEMAPPING, 54, 4096, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
		begin(unknown[i]);
		add_zeroes(8);
		assert_int_equal(parse(), -ENOSYS);
		assert_int_equal(q.unique, UNIQUE);
		assert_string_equal(fs_opcode_name(unknown[i]), "?");
		assert_true(fs_opcode_answered(unknown[i]));
	}
}

static void fil_7_only_four_opcodes_have_no_answer(void **state)
{
	size_t none = 0;

	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		none += !fs_opcode_answered(shapes[i].opcode);
	assert_int_equal(none, 4);
	assert_false(fs_opcode_answered(FUSE_FORGET));
	assert_false(fs_opcode_answered(FUSE_BATCH_FORGET));
	assert_false(fs_opcode_answered(FUSE_INTERRUPT));
	assert_false(fs_opcode_answered(FUSE_NOTIFY_REPLY));
}

static int parse_named(uint32_t opcode, size_t fixed, const char *first, const char *second)
{
	begin(opcode);
	add_zeroes(fixed);
	add_text(first);
	if (second != NULL)
		add_text(second);
	return parse();
}

static void fil_7_a_name_is_one_component(void **state)
{
	static const char *const bad[] = {"", ".", "..", "/", "a/b", "a/", "/a"};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(parse_named(FUSE_LOOKUP, 0, bad[i], NULL), -EINVAL);
		assert_int_equal(parse_named(FUSE_CREATE, 16, bad[i], NULL), -EINVAL);
		assert_int_equal(parse_named(FUSE_RENAME2, 16, "a", bad[i]), -EINVAL);
		assert_int_equal(parse_named(FUSE_SYMLINK, 0, bad[i], "x"), -EINVAL);
	}
	assert_int_equal(parse_named(FUSE_LOOKUP, 0, "\xff\x01\n", NULL), 0);
	assert_int_equal(parse_named(FUSE_LOOKUP, 0, "..a", NULL), 0);
	/* A link's target is any text, but not an empty one. */
	assert_int_equal(parse_named(FUSE_SYMLINK, 0, "a", "/.."), 0);
	assert_string_equal(q.name[1], "/..");
	assert_int_equal(parse_named(FUSE_SYMLINK, 0, "a", ""), -EINVAL);
}

static int parse_length(uint32_t opcode, size_t fixed, const char *first, size_t n)
{
	begin(opcode);
	add_zeroes(fixed);
	if (first != NULL)
		add_text(first);
	add_name('x', n);
	return parse();
}

static void fil_7_an_oversized_name_is_enametoolong(void **state)
{
	assert_int_equal(parse_length(FUSE_LOOKUP, 0, NULL, 255), 0);
	assert_int_equal(parse_length(FUSE_LOOKUP, 0, NULL, 256), -ENAMETOOLONG);
	assert_int_equal(parse_length(FUSE_LOOKUP, 0, NULL, 1024), -ENAMETOOLONG);
	assert_int_equal(parse_length(FUSE_RENAME, 8, "a", 255), 0);
	assert_int_equal(parse_length(FUSE_RENAME, 8, "a", 256), -ENAMETOOLONG);
	assert_int_equal(parse_length(FUSE_GETXATTR, 8, NULL, 255), 0);
	assert_int_equal(parse_length(FUSE_GETXATTR, 8, NULL, 256), -ENAMETOOLONG);
	assert_int_equal(parse_length(FUSE_SYMLINK, 0, "a", PATH_MAX - 1), 0);
	assert_int_equal(parse_length(FUSE_SYMLINK, 0, "a", PATH_MAX), -ENAMETOOLONG);
}

/* The kernel has no name for a temporary file and sends "/". */
static void fil_7_a_temporary_file_has_no_name(void **state)
{
	assert_int_equal(parse_named(FUSE_TMPFILE, 16, "/", NULL), 0);
	assert_null(q.name[0]);
}

static void fil_7_data_are_as_long_as_the_request_says(void **state)
{
	uint32_t count;

	build(&(struct shape){FUSE_WRITE, "WRITE", 40, {NULL}, 16, 1});
	for (count = 0; count < 2 * COUNT; count++) {
		memcpy(raw.byte + 40 + 16, &count, sizeof(count));
		assert_int_equal(parse(), count == COUNT ? 0 : -EINVAL);
	}
	count = UINT32_MAX;
	memcpy(raw.byte + 40 + 16, &count, sizeof(count));
	assert_int_equal(parse(), -EINVAL);
	/* A count whose bytes would overflow 32 bits to the right length. */
	begin(FUSE_BATCH_FORGET);
	count = 0x10000001;
	add(&count, sizeof(count));
	add_zeroes(4 + 16);
	assert_int_equal(parse(), -EINVAL);
}

/* Without FUSE_SETXATTR_EXT the kernel leaves out the last 8 bytes; the handler sees zeroes. */
static void fil_7_a_short_setxattr_is_widened(void **state)
{
	const struct fuse_setxattr_in *in;
	uint32_t fixed[2] = {5, 2};

	begin(FUSE_SETXATTR);
	add(fixed, sizeof(fixed));
	add_text("user.a");
	add("value", 5);
	assert_int_equal(parse_as(raw.len, raw.len, 0), 0);
	in = q.arg;
	assert_int_equal(in->size, 5);
	assert_int_equal(in->flags, 2);
	assert_int_equal(in->setxattr_flags, 0);
	assert_string_equal(q.name[0], "user.a");
	assert_int_equal(q.data_len, 5);
	assert_memory_equal(q.data, "value", 5);
}

static void fil_7_a_short_init_is_widened(void **state)
{
	const struct fuse_init_in *in;
	uint32_t fixed[4] = {7, 31, 131072, 0x1234};

	begin(FUSE_INIT);
	add(fixed, sizeof(fixed));
	assert_int_equal(parse(), 0);
	in = q.arg;
	assert_int_equal((uintptr_t)in % 8, 0);
	assert_int_equal(in->minor, 31);
	assert_int_equal(in->flags, 0x1234);
	assert_int_equal(in->flags2, 0);
}

static int parse_extended(const uint32_t *words, size_t n, uint16_t units)
{
	begin(FUSE_MKDIR);
	add_zeroes(8);
	add_text("ab"); /* what follows is not aligned */
	add(words, n * sizeof(*words));
	((struct fuse_in_header *)(void *)raw.byte)->total_extlen = units;
	return parse();
}

static void fil_7_a_supplementary_group_is_found_among_extensions(void **state)
{
	assert_int_equal(parse_extended((uint32_t[]){16, 32, 1, 50}, 4, 2), 0);
	assert_int_equal(q.supplementary, 50);
	assert_string_equal(q.name[0], "ab");
	/* behind one that is not known */
	assert_int_equal(parse_extended((uint32_t[]){8, 99, 16, 32, 1, 51}, 6, 3), 0);
	assert_int_equal(q.supplementary, 51);
	assert_int_equal(parse_extended((uint32_t[]){8, 99}, 2, 1), 0);
	assert_int_equal(q.supplementary, (gid_t)-1);
}

static void fil_7_broken_extensions_are_an_error(void **state)
{
	/* more than there is, no header, a size of 0, past the end, not padded, no group, two */
	assert_int_equal(parse_extended((uint32_t[]){16, 32, 1, 50}, 4, 200), -EINVAL);
	assert_int_equal(parse_extended((uint32_t[]){16, 32, 1, 50}, 4, 1), -EINVAL);
	assert_int_equal(parse_extended((uint32_t[]){0, 32, 1, 50}, 4, 2), -EINVAL);
	assert_int_equal(parse_extended((uint32_t[]){24, 32, 1, 50}, 4, 2), -EINVAL);
	assert_int_equal(parse_extended((uint32_t[]){12, 99, 0, 0}, 4, 2), -EINVAL);
	assert_int_equal(parse_extended((uint32_t[]){8, 32}, 2, 1), -EINVAL);
	assert_int_equal(parse_extended((uint32_t[]){16, 32, 2, 50}, 4, 2), -EINVAL);
	assert_int_equal(parse_extended((uint32_t[]){UINT32_MAX - 7, 32, 1, 50}, 4, 2), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_7_a_request_of_every_opcode_is_taken_apart),
		cmocka_unit_test(fil_7_a_request_of_another_length_is_an_error),
		cmocka_unit_test(fil_7_an_opcode_without_a_row_is_enosys),
		cmocka_unit_test(fil_7_only_four_opcodes_have_no_answer),
		cmocka_unit_test(fil_7_a_name_is_one_component),
		cmocka_unit_test(fil_7_an_oversized_name_is_enametoolong),
		cmocka_unit_test(fil_7_a_temporary_file_has_no_name),
		cmocka_unit_test(fil_7_data_are_as_long_as_the_request_says),
		cmocka_unit_test(fil_7_a_short_setxattr_is_widened),
		cmocka_unit_test(fil_7_a_short_init_is_widened),
		cmocka_unit_test(fil_7_a_supplementary_group_is_found_among_extensions),
		cmocka_unit_test(fil_7_broken_extensions_are_an_error),
	};

	return cmocka_run_group_tests_name("fuse_request", tests, NULL, done);
}
