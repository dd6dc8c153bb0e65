// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "fs/negotiate.h"

static struct fs_init_out out;
static struct fs_features features;
static struct err err;

static int negotiate(uint32_t minor, uint64_t offered, struct fs_wanted w)
{
	struct fuse_init_in in = {.major = 7,
				  .minor = minor,
				  .max_readahead = 1 << 20,
				  .flags = (uint32_t)offered,
				  .flags2 = (uint32_t)(offered >> 32)};

	memset(&out, 0xff, sizeof(out));
	memset(&features, 0xff, sizeof(features));
	return fs_negotiate(&in, &w, &out, &features, &err);
}

/* A kernel of a version offers the flags of that version. */
static uint64_t offered_by(uint32_t minor)
{
	size_t n;
	const struct fs_flag_row *rows = fs_flag_rows(&n);
	uint64_t flags = 0;

	for (size_t i = 0; i < n; i++)
		if (rows[i].minor <= minor)
			flags |= rows[i].flag;
	return flags;
}

static uint64_t wanted_by_itself(uint32_t minor)
{
	size_t n;
	const struct fs_flag_row *rows = fs_flag_rows(&n);
	uint64_t flags = 0;

	for (size_t i = 0; i < n; i++)
		if (rows[i].minor <= minor && rows[i].want == FS_WANT_ALWAYS)
			flags |= rows[i].flag;
	return flags;
}

static void fil_7_a_new_kernel_gives_all_that_is_wanted(void **state)
{
	assert_int_equal(negotiate(45, UINT64_MAX, (struct fs_wanted){0}), 0);
	assert_int_equal(features.minor, 45);
	assert_int_equal(features.flags, wanted_by_itself(45));
	assert_int_equal(out.major, 7);
	assert_int_equal(out.minor, 45);
	assert_int_equal(out.flags, (uint32_t)features.flags);
	assert_int_equal(out.flags2, features.flags >> 32);
	assert_int_equal(out.max_write, 131072);
	assert_int_equal(out.max_pages * sysconf(_SC_PAGESIZE), 131072);
	assert_int_equal(out.max_readahead, 1 << 20);
	assert_int_equal(out.time_gran, 1);
	assert_int_equal(out.max_stack_depth, 0);
	assert_int_equal(out.request_timeout, 0);
	assert_true(out.congestion_threshold > 0 && out.congestion_threshold < out.max_background);
	/* What sessions depend on. */
	assert_int_equal(features.flags & (FUSE_EXPORT_SUPPORT | FUSE_NO_OPEN_SUPPORT |
					   FUSE_NO_OPENDIR_SUPPORT | FUSE_WRITEBACK_CACHE),
			 0);
	assert_int_equal(out.flags & (FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS | FUSE_ATOMIC_O_TRUNC |
				      FUSE_HANDLE_KILLPRIV_V2 | FUSE_MAX_PAGES),
			 FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS | FUSE_ATOMIC_O_TRUNC |
				 FUSE_HANDLE_KILLPRIV_V2 | FUSE_MAX_PAGES);
}

static void fil_7_a_kernel_of_the_future_is_answered_with_our_version(void **state)
{
	assert_int_equal(negotiate(46, UINT64_MAX, (struct fs_wanted){0}), 0);
	assert_int_equal(out.minor, 45);
	assert_int_equal(features.flags, wanted_by_itself(45));
}

static void fil_7_an_old_kernel_gives_what_it_has(void **state)
{
	for (uint32_t minor = FUSE_OLDEST_MINOR; minor <= FUSE_NEWEST_MINOR; minor++) {
		assert_int_equal(negotiate(minor, offered_by(minor), (struct fs_wanted){0}), 0);
		assert_int_equal(out.minor, minor);
		assert_int_equal(features.flags, wanted_by_itself(minor));
		/* A bit that meant nothing yet in this version is not believed. */
		assert_int_equal(negotiate(minor, UINT64_MAX, (struct fs_wanted){0}), 0);
		assert_int_equal(features.flags, wanted_by_itself(minor));
	}
	assert_int_equal(negotiate(31, offered_by(31), (struct fs_wanted){0}), 0);
	assert_int_equal(out.flags2, 0);
	assert_int_equal(out.flags & (FUSE_INIT_EXT | FUSE_SETXATTR_EXT), 0);
}

static void fil_7_a_kernel_without_any_flag_works(void **state)
{
	assert_int_equal(negotiate(45, 0, (struct fs_wanted){.also = UINT64_MAX}), 0);
	assert_int_equal(features.flags, 0);
	assert_int_equal(out.flags, 0);
	assert_int_equal(out.flags2, 0);
	assert_int_equal(out.max_pages, 0);
	assert_int_equal(out.max_write, sysconf(_SC_PAGESIZE));
	assert_int_equal(features.max_write, out.max_write);
}

static void fil_7_each_flag_may_be_missing(void **state)
{
	size_t n;
	const struct fs_flag_row *rows = fs_flag_rows(&n);

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(negotiate(45, ~rows[i].flag, (struct fs_wanted){0}), 0);
		assert_int_equal(features.flags & rows[i].flag, 0);
		assert_true(strlen(rows[i].without) > 0);
		assert_int_equal(__builtin_popcountll(rows[i].flag), 1);
	}
	/* The upper half is not read without INIT_EXT. */
	assert_int_equal(
		negotiate(45, ~(uint64_t)FUSE_INIT_EXT, (struct fs_wanted){.also = UINT64_MAX}), 0);
	assert_int_equal(features.flags >> 32, 0);
	assert_int_equal(negotiate(45, ~(uint64_t)FUSE_DO_READDIRPLUS, (struct fs_wanted){0}), 0);
	assert_int_equal(features.flags & FUSE_READDIRPLUS_AUTO, 0);
}

static void fil_7_a_caller_adds_and_forbids_flags(void **state)
{
	struct fs_wanted w = {.also = FUSE_WRITEBACK_CACHE | FUSE_CREATE_SUPP_GROUP |
				      FUSE_NO_OPEN_SUPPORT,
			      .never = FUSE_ASYNC_READ};

	assert_int_equal(negotiate(45, UINT64_MAX, w), 0);
	assert_int_equal(features.flags,
			 (wanted_by_itself(45) | FUSE_WRITEBACK_CACHE | FUSE_CREATE_SUPP_GROUP) &
				 ~(uint64_t)(FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC));
	/* also where both are said */
	w.never = FUSE_WRITEBACK_CACHE;
	assert_int_equal(negotiate(45, UINT64_MAX, w), 0);
	assert_int_equal(features.flags & FUSE_WRITEBACK_CACHE, 0);
}

static void fil_7_flags_that_exclude_each_other_are_not_both_agreed(void **state)
{
	assert_int_equal(
		negotiate(45, UINT64_MAX, (struct fs_wanted){.also = FUSE_EXPLICIT_INVAL_DATA}), 0);
	assert_int_equal(features.flags & (FUSE_AUTO_INVAL_DATA | FUSE_EXPLICIT_INVAL_DATA),
			 FUSE_EXPLICIT_INVAL_DATA);
	assert_int_equal(
		negotiate(45, UINT64_MAX,
			  (struct fs_wanted){.also = FUSE_WRITEBACK_CACHE | FUSE_PASSTHROUGH}),
		0);
	assert_int_equal(features.flags & (FUSE_WRITEBACK_CACHE | FUSE_PASSTHROUGH),
			 FUSE_WRITEBACK_CACHE);
	assert_int_equal(out.max_stack_depth, 0);
}

static void fil_7_readahead_background_and_depth_are_the_callers(void **state)
{
	assert_int_equal(negotiate(45, UINT64_MAX,
				   (struct fs_wanted){.also = FUSE_PASSTHROUGH,
						      .max_readahead = 65536,
						      .max_background = 4,
						      .max_stack_depth = 2}),
			 0);
	assert_int_equal(out.max_readahead, 65536);
	assert_int_equal(features.max_readahead, 65536);
	assert_int_equal(out.max_background, 4);
	assert_int_equal(out.congestion_threshold, 3);
	assert_int_equal(out.max_stack_depth, 2);
	/* never more than the kernel offers */
	assert_int_equal(negotiate(45, UINT64_MAX,
				   (struct fs_wanted){.also = FUSE_PASSTHROUGH,
						      .max_readahead = UINT32_MAX}),
			 0);
	assert_int_equal(out.max_readahead, 1 << 20);
	assert_int_equal(out.max_stack_depth, 1);
}

static void fil_7_a_kernel_that_is_too_old_is_refused(void **state)
{
	struct fuse_init_in in = {.major = 6, .minor = 99};
	struct fs_wanted w = {0};

	assert_int_equal(negotiate(FUSE_OLDEST_MINOR - 1, UINT64_MAX, w), -E_ENFORCEMENT);
	assert_string_equal(err.message,
			    "this kernel speaks FUSE 7.30; agentsh needs 7.31 (Linux 5.6)");
	assert_int_equal(features.minor, UINT32_MAX); /* untouched */
	assert_int_equal(fs_negotiate(&in, &w, &out, &features, &err), -E_ENFORCEMENT);
}

static void fil_7_a_newer_major_version_is_asked_to_speak_ours(void **state)
{
	struct fuse_init_in in = {.major = 8, .minor = 0, .flags = UINT32_MAX};
	struct fs_wanted w = {0};

	assert_int_equal(fs_negotiate(&in, &w, &out, &features, &err), 0);
	assert_int_equal(features.minor, 0);
	assert_int_equal(features.flags, 0);
	assert_int_equal(out.major, 7);
	assert_int_equal(out.flags, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_7_a_new_kernel_gives_all_that_is_wanted),
		cmocka_unit_test(fil_7_a_kernel_of_the_future_is_answered_with_our_version),
		cmocka_unit_test(fil_7_an_old_kernel_gives_what_it_has),
		cmocka_unit_test(fil_7_a_kernel_without_any_flag_works),
		cmocka_unit_test(fil_7_each_flag_may_be_missing),
		cmocka_unit_test(fil_7_a_caller_adds_and_forbids_flags),
		cmocka_unit_test(fil_7_flags_that_exclude_each_other_are_not_both_agreed),
		cmocka_unit_test(fil_7_readahead_background_and_depth_are_the_callers),
		cmocka_unit_test(fil_7_a_kernel_that_is_too_old_is_refused),
		cmocka_unit_test(fil_7_a_newer_major_version_is_asked_to_speak_ours),
	};

	return cmocka_run_group_tests_name("negotiate", tests, NULL, NULL);
}
