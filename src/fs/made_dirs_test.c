// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "fs/made_dirs.h"

struct made_fixture {
	struct node_table *nodes;
	struct made_dirs *made;
};

static void made_fixture_open(struct made_fixture *f)
{
	const struct node_key root = {.ino = 2, .dev = 8, .birth = 1, .directory = true};

	f->nodes = node_table_new(&root);
	f->made = made_dirs_new();
}

static void made_fixture_close(struct made_fixture *f)
{
	free(f->made);
	node_table_free(f->nodes);
}

/* The node of a directory with this inode and birth time, by a name of its own. */
static struct node *dir(struct made_fixture *f, uint64_t ino, uint32_t birth)
{
	const struct node_key key = {.ino = ino, .dev = 8, .birth = birth, .directory = true};
	cleanup_free char *name = mem_printf("%llu.%u", (unsigned long long)ino, birth);

	return node_look_up(f->nodes, node_get(f->nodes, NODE_ROOT), name, &key);
}

static void fil_3_a_directory_that_was_made_is_known_until_it_is_removed(void **state)
{
	struct made_fixture f;
	struct node_key key;
	struct node *a, *b;

	made_fixture_open(&f);
	a = dir(&f, 10, 7);
	b = dir(&f, 11, 7);
	assert_false(made_dirs_have(NULL, f.nodes, a));
	assert_false(made_dirs_have(f.made, f.nodes, a));
	made_dirs_add(f.made, f.nodes, a);
	made_dirs_add(f.made, f.nodes, a);
	assert_true(made_dirs_have(f.made, f.nodes, a));
	assert_false(made_dirs_have(f.made, f.nodes, b));
	node_key(f.nodes, b, &key);
	made_dirs_remove(f.made, &key);
	assert_true(made_dirs_have(f.made, f.nodes, a));
	node_key(f.nodes, a, &key);
	made_dirs_remove(f.made, &key);
	assert_false(made_dirs_have(f.made, f.nodes, a));
	made_fixture_close(&f);
}

static void fil_3_another_directory_with_the_same_inode_number_was_not_made(void **state)
{
	struct made_fixture f;

	made_fixture_open(&f);
	made_dirs_add(f.made, f.nodes, dir(&f, 10, 7));
	assert_false(made_dirs_have(f.made, f.nodes, dir(&f, 10, 8)));
	/* without a birth time it could be either */
	made_dirs_add(f.made, f.nodes, dir(&f, 12, 0));
	assert_false(made_dirs_have(f.made, f.nodes, dir(&f, 12, 0)));
	made_fixture_close(&f);
}

static void fil_3_the_list_of_made_directories_is_bounded_and_keeps_the_newest(void **state)
{
	const uint64_t last = 100 + 20 * (uint64_t)MADE_DIRS_MAX;
	struct made_fixture f;
	unsigned kept = 0;

	made_fixture_open(&f);
	for (uint64_t ino = 100; ino <= last; ino++)
		made_dirs_add(f.made, f.nodes, dir(&f, ino, 7));
	for (uint64_t ino = 100; ino <= last; ino++)
		kept += made_dirs_have(f.made, f.nodes, dir(&f, ino, 7));
	assert_int_equal(kept, MADE_DIRS_MAX);
	assert_true(made_dirs_have(f.made, f.nodes, dir(&f, last, 7)));
	assert_false(made_dirs_have(f.made, f.nodes, dir(&f, 100, 7)));
	made_fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_3_a_directory_that_was_made_is_known_until_it_is_removed),
		cmocka_unit_test(fil_3_another_directory_with_the_same_inode_number_was_not_made),
		cmocka_unit_test(
			fil_3_the_list_of_made_directories_is_bounded_and_keeps_the_newest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
