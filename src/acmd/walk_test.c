// SPDX-License-Identifier: Apache-2.0
#include "acmd/walk.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/agentsh-walk-XXXXXX";

static int make_dir(void **state)
{
	assert_non_null(mkdtemp(top));
	return chdir(top);
}

static int remove_dir(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", top);

	return system(command);
}

static void begin(struct tree_walk *w)
{
	assert_int_equal(walk_open(w, open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), 0);
}

/* However few names are kept at a time: each is visited once. */
static void exe_7_a_large_directory_is_read_in_parts(void **state)
{
	enum { FILES = 500 };

	assert_int_equal(mkdir("sub", 0755), 0);
	for (int i = 0; i < FILES; i++) {
		cleanup_free char *name = mem_printf("%s%d", i % 2 ? "sub/" : "", i);

		close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	}
	for (size_t max = 1; max < 100000; max *= 10) {
		struct tree_walk w = {.depth_max = 9, .names_max = max};
		bool seen[FILES] = {false};
		int files = 0, leaves = 0;
		struct walk_entry e;
		enum walk_step step;

		begin(&w);
		while ((step = walk_next(&w, &e)) != WALK_END) {
			int i;

			leaves += step == WALK_LEAVE;
			if (step != WALK_ENTRY || e.depth > 2 || S_ISDIR(e.type))
				continue;
			i = atoi(e.name);
			assert_int_equal(e.depth, 1 + i % 2);
			assert_int_equal(strncmp(e.path, "sub/", 4) == 0, i % 2);
			assert_false(seen[i]);
			seen[i] = true;
			files++;
		}
		walk_close(&w);
		assert_int_equal(files, FILES);
		assert_int_equal(leaves, 1);
	}
	assert_int_equal(system("rm -r *"), 0);
}

/* The tree changes under the walk: what is gone fails, the rest is visited. */
static void exe_7_directories_vanish_and_change(void **state)
{
	struct tree_walk w = {.depth_max = 9};
	struct buf seen = {0};
	struct walk_entry e;
	enum walk_step step;

	assert_int_equal(system("mkdir -p a b c/in d; touch b/x c/in/y d/z"), 0);
	begin(&w);
	while ((step = walk_next(&w, &e)) != WALK_END) {
		buf_addf(&seen, "%s%s%s ",
			 step == WALK_FAILED  ? "!"
			 : step == WALK_LEAVE ? "<"
					      : "",
			 e.path, step == WALK_FAILED ? strerrorname_np(e.errnum) : "");
		if (step == WALK_ENTRY && strcmp(e.path, "b") == 0)
			assert_int_equal(system("rm -r b"), 0);
		if (step == WALK_ENTRY && strcmp(e.path, "c/in") == 0)
			assert_int_equal(system("rm -r c"), 0);
		if (step == WALK_ENTRY && strcmp(e.path, "d") == 0)
			assert_int_equal(system("mv d e; ln -s / d"), 0);
	}
	walk_close(&w);
	assert_string_equal(seen.data,
			    "a <a b !bENOENT <b c c/in !c/inENOENT <c/in <c d !dENOTDIR <d ");
	buf_done(&seen);
	assert_int_equal(system("rm -r *"), 0);
}

/* Deeper than a path may be long, in both directions. */
static void exe_7_a_walk_goes_deep(void **state)
{
	enum { LEVELS = 600 };
	struct tree_walk w = {.depth_max = UINT64_MAX};
	struct walk_entry e;
	size_t deepest = 0, leaves = 0;
	enum walk_step step;
	int at = open(".", O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < LEVELS; i++) {
		const char *name = "ten-letter";
		int next;

		assert_int_equal(mkdirat(at, name, 0755), 0);
		next = openat(at, name, O_RDONLY | O_CLOEXEC);
		close(at);
		at = next;
	}
	close(at);
	begin(&w);
	while ((step = walk_next(&w, &e)) != WALK_END) {
		deepest = e.depth > deepest ? e.depth : deepest;
		leaves += step == WALK_LEAVE;
		assert_int_not_equal(step, WALK_FAILED);
	}
	walk_close(&w);
	assert_int_equal(deepest, LEVELS);
	assert_int_equal(leaves, LEVELS);
	assert_int_equal(system("rm -r *"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_7_a_large_directory_is_read_in_parts),
		cmocka_unit_test(exe_7_directories_vanish_and_change),
		cmocka_unit_test(exe_7_a_walk_goes_deep),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
