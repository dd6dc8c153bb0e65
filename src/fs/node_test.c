// SPDX-License-Identifier: Apache-2.0
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "fs/node.h"
#include <errno.h>
#include <malloc.h>
#include <stdio.h>

static const struct node_key root_key = {.ino = 2, .dev = 8, .directory = true};

static struct node_key file(uint64_t ino)
{
	return (struct node_key){.ino = ino, .dev = 8, .birth = 1};
}

static struct node_key dir(uint64_t ino)
{
	return (struct node_key){.ino = ino, .dev = 8, .birth = 1, .directory = true};
}

static struct node *enter(struct node_table *t, struct node *parent, const char *name,
			  struct node_key key)
{
	return node_look_up(t, parent, name, &key);
}

static struct node *root_of(struct node_table *t)
{
	return node_get(t, NODE_ROOT);
}

static void note_name(void *arg, const struct node *parent, const char *name)
{
	char *text = arg;

	sprintf(text + strlen(text), "%u%s ", parent->slot, name);
}

/* FIL-7: the walk passes every name, with the directory that has it. */
static void fil_7_a_walk_passes_each_name(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node *d = enter(t, root_of(t), "d", dir(10));
	char text[64] = "", wanted[16];

	enter(t, d, "one", file(11));
	enter(t, d, "two", file(11));
	enter(t, d, "gone", file(12));
	node_remove_name(t, d, "gone");
	node_each_name(t, note_name, text);
	assert_int_equal(strlen(text), strlen("1d 2one 2two "));
	assert_non_null(strstr(text, "1d "));
	snprintf(wanted, sizeof(wanted), "%uone ", d->slot);
	assert_non_null(strstr(text, wanted));
	snprintf(wanted, sizeof(wanted), "%utwo ", d->slot);
	assert_non_null(strstr(text, wanted));
	node_table_free(t);
}

/* FIL-7: names of one inode share a node; a forgotten id is never another node's. */
static void fil_7_a_node_is_an_inode_and_its_id_is_not_reused(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node *a = enter(t, root_of(t), "a", file(10));
	const uint64_t id = node_id(a);

	assert_ptr_equal(enter(t, root_of(t), "b", file(10)), a);
	assert_ptr_equal(node_child(t, root_of(t), "b"), a);
	assert_int_equal(a->lookups, 2);
	node_forget(t, a, 1);
	assert_non_null(node_get(t, id));
	node_forget(t, a, 1);
	assert_null(node_get(t, id));
	assert_null(node_child(t, root_of(t), "a"));
	assert_null(node_child(t, root_of(t), "b"));
	assert_int_equal(node_table_count(t), 1);
	a = enter(t, root_of(t), "a", file(10));
	assert_int_equal((uint32_t)node_id(a), (uint32_t)id); /* the same slot */
	assert_true(node_id(a) != id);
	assert_null(node_get(t, id));
	assert_null(node_get(t, 0));
	assert_null(node_get(t, 77));
	node_table_free(t);
}

/* FIL-7: objects of two devices with one number, and numbers that look like another device's. */
static void fil_7_numbers_of_several_devices_are_unique(void **state)
{
	const uint64_t inos[] = {1,
				 2,
				 (UINT64_C(1) << 48) - 1,
				 UINT64_C(1) << 48 | 2,
				 UINT64_C(2) << 48 | 2,
				 UINT64_C(4095) << 48 | 2,
				 UINT64_C(4096) << 48 | 2,
				 UINT64_C(0xfffe) << 48,
				 UINT64_C(0xffff) << 48,
				 UINT64_MAX};
	struct node_table *t = node_table_new(&root_key);
	uint64_t seen[5000 + 6 * ARRAY_LEN(inos)];
	size_t n = 0;

	for (dev_t dev = root_key.dev; dev < root_key.dev + 6; dev++)
		for (size_t i = 0; i < ARRAY_LEN(inos); i++)
			seen[n++] = node_number(t, dev, inos[i]);
	for (dev_t dev = root_key.dev + 6; dev < root_key.dev + 5006; dev++)
		seen[n++] = node_number(t, dev, 2);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			if (seen[i] == seen[j])
				fail_msg("%zu and %zu are %#lx", i, j, seen[i]);
	/* the root's are its own, and all stay the same */
	assert_int_equal(seen[1], 2);
	assert_int_equal(seen[6], inos[6]);
	assert_int_equal(node_number(t, root_key.dev + 5, UINT64_MAX), seen[59]);
	assert_int_equal(node_number(t, root_key.dev + 5005, 2), seen[n - 1]);
	node_table_free(t);
}

/* FIL-7: a number that the backing file system uses again belongs to another node. */
static void fil_7_a_reused_inode_number_is_another_node(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node *a = enter(t, root_of(t), "a", file(10)), *b;
	struct node_key later = file(10), set = file(10);

	later.birth = 2;
	b = enter(t, root_of(t), "b", later);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(enter(t, root_of(t), "b", later), b);
	set.set = 1;
	assert_ptr_not_equal(enter(t, root_of(t), "c", set), a);
	/* no name and no handle: the number may be used again, in the same instant */
	node_remove_name(t, root_of(t), "a");
	assert_ptr_not_equal(enter(t, root_of(t), "d", file(10)), a);
	/* while a handle holds the inode, a name that is found later leads to its node */
	b->handles = (void *)b;
	node_remove_name(t, root_of(t), "b");
	assert_ptr_equal(enter(t, root_of(t), "e", later), b);
	b->handles = NULL;
	node_table_free(t);
}

/* FIL-7: a parent lives as long as a name below it. */
static void fil_7_parents_live_as_long_as_their_children(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node *d = enter(t, root_of(t), "d", dir(10));
	struct node *e = enter(t, d, "e", dir(11));
	struct node *f = enter(t, e, "f", file(12));

	node_forget(t, d, 1);
	node_forget(t, e, 5);
	assert_int_equal(node_table_count(t), 4);
	assert_ptr_equal(node_parent(t, f->names), e);
	node_forget(t, f, 1);
	assert_int_equal(node_table_count(t), 1);
	node_table_free(t);
}

/* FIL-7: rename moves a name over another one, exchange swaps two. */
static void fil_7_rename_and_exchange_move_names(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node *d = enter(t, root_of(t), "d", dir(10));
	struct node *a = enter(t, root_of(t), "a", file(11)), *b = enter(t, d, "b", file(12));
	const uint64_t b_id = node_id(b);

	node_rename(t, root_of(t), "a", d, "b", true);
	assert_ptr_equal(node_child(t, d, "b"), a);
	assert_ptr_equal(node_child(t, root_of(t), "a"), b);
	node_rename(t, d, "b", root_of(t), "a", false);
	assert_null(node_child(t, d, "b"));
	assert_ptr_equal(node_child(t, root_of(t), "a"), a);
	assert_null(node_get(t, b_id)->names);
	node_rename(t, root_of(t), "nothing", root_of(t), "a", false);
	assert_null(node_child(t, root_of(t), "a"));
	/* the table is old: what is renamed over is the directory that it comes from */
	enter(t, enter(t, root_of(t), "p", dir(20)), "q", dir(21));
	node_forget(t, node_child(t, root_of(t), "p"), 1);
	b = node_child(t, root_of(t), "p");
	node_rename(t, b, "q", root_of(t), "p", false);
	assert_int_equal(node_child(t, root_of(t), "p")->ino, 21);
	assert_int_equal(node_table_count(t), 5);
	/* two links of one file: rename() does nothing */
	a = enter(t, d, "x", file(13));
	enter(t, d, "y", file(13));
	node_rename(t, d, "x", d, "y", false);
	assert_ptr_equal(node_child(t, d, "x"), a);
	assert_ptr_equal(node_child(t, d, "y"), a);
	node_table_free(t);
}

/* FIL-7: directories that the host moved into each other make no ring. */
static void fil_7_moved_directories_make_no_ring(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node *a = enter(t, root_of(t), "a", dir(10)), *b = enter(t, a, "b", dir(11));
	struct node *c = enter(t, b, "c", dir(12));

	/* the host: mv a/b b; mv a b/c/a; the kernel asks below c first */
	assert_ptr_equal(enter(t, c, "a", dir(10)), a);
	assert_ptr_equal(node_parent(t, a->names), c);
	assert_ptr_equal(node_parent(t, c->names), b);
	assert_null(b->names);
	assert_ptr_equal(enter(t, root_of(t), "b", dir(11)), b);
	assert_null(enter(t, b, "self", dir(11))->names->next);
	assert_ptr_equal(node_parent(t, b->names), root_of(t));
	node_table_free(t);
}

/* FIL-7: 100,000 known names with ordinary lengths cost at most 160 bytes each. */
static void fil_7_a_known_name_costs_at_most_160_bytes(void **state)
{
	const size_t before = mallinfo2().uordblks, n = 100000;
	struct node_table *t = node_table_new(&root_key);
	char name[32];
	size_t bytes;

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "file_name_%06zu.c", i);
		enter(t, root_of(t), name, file(1000 + i));
	}
	bytes = mallinfo2().uordblks - before;
#ifndef __SANITIZE_ADDRESS__
	assert_in_range(bytes / n, 1, 160);
#endif
	(void)bytes;
	assert_int_equal(node_table_count(t), n + 1);
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "file_name_%06zu.c", i);
		node_forget(t, node_child(t, root_of(t), name), 1);
	}
	assert_int_equal(node_table_count(t), 1);
	node_table_free(t);
}

/* FIL-3: names of one object with other decisions have other nodes; a moved name keeps its node. */
static void fil_3_a_node_is_an_object_under_one_set_of_decisions(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node_key denied = file(10);
	struct node *a = enter(t, root_of(t), "a", file(10)), *b;
	char path[64];

	denied.set = 7;
	assert_false(node_has_twin(t, a));
	b = enter(t, root_of(t), "b", denied);
	assert_ptr_not_equal(a, b);
	assert_true(node_has_twin(t, a) && node_has_twin(t, b));
	assert_ptr_equal(enter(t, root_of(t), "c", file(10)), a);
	/* one of two names is decided otherwise now: it goes to the other node */
	assert_ptr_equal(enter(t, root_of(t), "c", denied), b);
	assert_ptr_equal(node_child(t, root_of(t), "a"), a);
	/* the only name: the node keeps its id, and the kernel its cache */
	node_remove_name(t, root_of(t), "b");
	node_remove_name(t, root_of(t), "c");
	denied.set = 8;
	assert_ptr_equal(enter(t, root_of(t), "a", denied), a);
	assert_int_equal(a->set, 8);
	/* another object in its place is another node */
	denied = file(11);
	assert_ptr_not_equal(enter(t, root_of(t), "a", denied), a);

	a = enter(t, enter(t, root_of(t), "dir", dir(20)), "f", file(21));
	assert_int_equal(node_path(t, a, NULL, path, sizeof(path)), 0);
	assert_string_equal(path, "/dir/f");
	assert_int_equal(node_path(t, root_of(t), NULL, path, sizeof(path)), 0);
	assert_string_equal(path, "");
	assert_int_equal(node_path(t, root_of(t), "x", path, sizeof(path)), 0);
	assert_string_equal(path, "/x");
	assert_int_equal(node_path(t, a, NULL, path, sizeof("/dir/f")), 0);
	assert_string_equal(path, "/dir/f");
	assert_int_equal(node_path(t, a, NULL, path, sizeof("/dir/f") - 1), -ENAMETOOLONG);
	assert_string_equal(path, "/...f");
	node_remove_name(t, root_of(t), "dir");
	assert_int_equal(node_path(t, a, NULL, path, sizeof(path)), -ENOENT);
	node_table_free(t);
}

static void fil_3_a_directory_has_a_node_for_each_way(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node *root = node_get(t, NODE_ROOT);
	struct node_key plain = dir(10), other = dir(10);
	struct node *a, *b;

	plain.way = 1;
	other.way = 5;
	a = node_look_up(t, root, "a", &plain);
	b = node_look_up(t, root, "b", &other);
	assert_ptr_not_equal(a, b);
	assert_ptr_equal(node_child(t, root, "a"), a);
	assert_true(node_has_twin(t, a));
	assert_ptr_equal(node_look_up(t, root, "b", &other), b);
	/* moved to where no other path leads */
	node_rename(t, root, "b", root, "c", false);
	other.way = 0;
	assert_ptr_equal(node_look_up(t, root, "c", &other), b);
	assert_int_equal(b->way, 0);
	node_table_free(t);
}

/* FIL-6: the root of a tree stays; a directory is another node in each tree, and below an alias it
 * is named by the first tree. */
static void fil_6_trees_have_names_and_nodes_of_their_own(void **state)
{
	struct node_table *t = node_table_new(&root_key);
	struct node_key one = dir(10), two = dir(20), d = dir(11), a = dir(10);
	struct node *n, *m;
	char path[64];

	two.set = 1;
	node_add_tree(t, &one, "workspace");
	node_add_tree(t, &two, "srv/data");
	n = enter(t, node_get(t, NODE_TREE), "d", d);
	d.set = 1;
	m = enter(t, node_get(t, NODE_TREE + 1), "d", d);
	assert_ptr_not_equal(n, m);
	assert_int_equal(node_path(t, n, "x", path, sizeof(path)), 0);
	assert_string_equal(path, "/workspace/d/x");
	assert_int_equal(node_path(t, m, NULL, path, sizeof(path)), 0);
	assert_string_equal(path, "/srv/data/d");
	assert_int_equal(node_path(t, node_get(t, NODE_TREE + 1), NULL, path, sizeof(path)), 0);
	assert_string_equal(path, "/srv/data");
	a.set = 1 | NODE_ALIAS;
	m = enter(t, m, "ws", a);
	assert_int_equal(node_path(t, m, NULL, path, sizeof(path)), 0);
	assert_string_equal(path, "/workspace");
	d = dir(12);
	d.set = 1;
	assert_int_equal(node_path(t, enter(t, m, "e", d), "x", path, sizeof(path)), 0);
	assert_string_equal(path, "/workspace/e/x");
	/* a root that is found in a tree keeps its place, and is not freed with its look-ups */
	n = enter(t, n, "self", one);
	assert_true(node_is_root(t, n));
	node_forget(t, n, 1);
	assert_int_equal(node_path(t, node_get(t, NODE_TREE), NULL, path, sizeof(path)), 0);
	assert_string_equal(path, "/workspace");
	node_table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_6_trees_have_names_and_nodes_of_their_own),
		cmocka_unit_test(fil_7_a_walk_passes_each_name),
		cmocka_unit_test(fil_7_a_node_is_an_inode_and_its_id_is_not_reused),
		cmocka_unit_test(fil_7_numbers_of_several_devices_are_unique),
		cmocka_unit_test(fil_7_a_reused_inode_number_is_another_node),
		cmocka_unit_test(fil_3_a_node_is_an_object_under_one_set_of_decisions),
		cmocka_unit_test(fil_7_parents_live_as_long_as_their_children),
		cmocka_unit_test(fil_7_rename_and_exchange_move_names),
		cmocka_unit_test(fil_7_moved_directories_make_no_ring),
		cmocka_unit_test(fil_7_a_known_name_costs_at_most_160_bytes),
		cmocka_unit_test(fil_3_a_directory_has_a_node_for_each_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
