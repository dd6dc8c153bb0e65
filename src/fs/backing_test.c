// SPDX-License-Identifier: Apache-2.0
/* Requests without a kernel: what the backing tree does meanwhile is chosen by the test. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/mem.h"
#include "fs/fs.h"
#include "fs/node.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

struct tree {
	char path[64];
	int root, second; /* second: the directory "second", which is a tree as well; -1 */
	struct fs *fs;
	char out[4096];
	struct fs_reply r;
};

static void make_tree(struct tree *t, unsigned open_dirs, size_t trees)
{
	struct fs_tree tree[] = {{.shown = "/tree"}, {.shown = "/second"}};
	const struct fs_setup s = {.tree = tree,
				   .trees = trees,
				   .entry_ms = 1000,
				   .attr_ms = 1000,
				   .open_dirs = open_dirs};

	strcpy(t->path, "/tmp/agentsh-fs-XXXXXX");
	assert_non_null(mkdtemp(t->path));
	t->root = open(t->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	tree[0].root = t->root;
	t->second = -1;
	if (trees > 1) {
		assert_int_equal(mkdirat(t->root, "second", 0700), 0);
		t->second = openat(t->root, "second", O_PATH | O_DIRECTORY | O_CLOEXEC);
		tree[1].root = t->second;
	}
	assert_int_equal(fs_new(&s, &t->fs, NULL), 0);
}

static void tree_setup(struct tree *t, unsigned open_dirs)
{
	make_tree(t, open_dirs, 1);
}

static void tree_teardown(struct tree *t)
{
	cleanup_free char *command = mem_printf("rm -rf %s", t->path);

	fs_free(t->fs);
	close(t->root);
	if (t->second >= 0)
		close(t->second);
	assert_int_equal(system(command), 0);
}

static int call(struct tree *t, uint32_t opcode, uint64_t node, const void *arg, const char *name,
		const char *other)
{
	const struct fs_request q = {
		.opcode = opcode, .node = node, .arg = arg, .name = {name, other}};

	t->r = (struct fs_reply){.out = t->out, .size = sizeof(t->out)};
	fs_handle(t->fs, &q, &t->r);
	return t->r.error;
}

/* The node; 0 and *error: the look-up failed. */
static uint64_t look_up(struct tree *t, uint64_t parent, const char *name, int *error)
{
	int e = call(t, FUSE_LOOKUP, parent, NULL, name, NULL);

	if (error != NULL)
		*error = e;
	else
		assert_int_equal(e, 0);
	return e == 0 ? ((struct fuse_entry_out *)t->out)->nodeid : 0;
}

static int get_attributes(struct tree *t, uint64_t node)
{
	const struct fuse_getattr_in in = {0};

	return call(t, FUSE_GETATTR, node, &in, NULL, NULL);
}

static uint64_t make_dir(struct tree *t, uint64_t parent, const char *name)
{
	const struct fuse_mkdir_in in = {.mode = 0755};

	assert_int_equal(call(t, FUSE_MKDIR, parent, &in, name, NULL), 0);
	return ((struct fuse_entry_out *)t->out)->nodeid;
}

static int make_file(struct tree *t, uint64_t parent, const char *name, uint64_t *node,
		     uint64_t *fh)
{
	const struct fuse_create_in in = {.flags = O_RDWR, .mode = 0644};
	const int e = call(t, FUSE_CREATE, parent, &in, name, NULL);

	if (e == 0) {
		*node = ((struct fuse_entry_out *)t->out)->nodeid;
		*fh = ((struct fuse_open_out *)(t->out + sizeof(struct fuse_entry_out)))->fh;
	}
	return e;
}

static void forget(struct tree *t, uint64_t node, uint64_t count)
{
	const struct fuse_forget_in in = {.nlookup = count};

	call(t, FUSE_FORGET, node, &in, NULL, NULL);
}

/* FIL-7: few open directories serve a tree of many. */
static void fil_7_directories_are_reached_without_being_open(void **state)
{
	struct tree t;
	uint64_t top[10], low[10];
	struct fs_counts c;
	char name[16];

	tree_setup(&t, 3);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		top[i] = make_dir(&t, NODE_TREE, name);
		low[i] = make_dir(&t, make_dir(&t, top[i], "x"), "y");
	}
	for (int n = 0; n < 3; n++)
		for (int i = 0; i < 10; i++) {
			snprintf(name, sizeof(name), "f%d", n);
			make_dir(&t, low[i], name);
		}
	fs_counts(t.fs, &c);
	assert_int_equal(c.open_dirs, 3);
	assert_int_equal(c.nodes, 61);
	tree_teardown(&t);
}

/* FIL-7: the path of 4,000 levels is longer than any that a system call takes. */
static void fil_7_four_thousand_levels(void **state)
{
	const char *name = "a_directory_with_a_name_of_ordinary_length";
	uint64_t node = NODE_TREE, deep[10];
	struct tree t;

	tree_setup(&t, 2);
	for (int i = 0; i < 4000; i++) {
		node = make_dir(&t, node, name);
		if (i >= 3990)
			deep[i - 3990] = node;
	}
	/* push the deep ones out of the open directories, then reach them from the top */
	make_dir(&t, make_dir(&t, NODE_TREE, "p"), "q");
	make_dir(&t, make_dir(&t, NODE_TREE, "r"), "s");
	assert_int_equal(get_attributes(&t, deep[9]), 0);
	make_dir(&t, deep[9], "bottom");
	for (int i = 9; i >= 0; i--)
		assert_int_equal(look_up(&t, deep[i], "nothing", &(int){0}), 0);
	tree_teardown(&t);
}

/* FIL-7: a directory that the host replaces by a symbolic link or by another one is stale. */
static void fil_7_what_took_the_place_of_a_directory_is_not_entered(void **state)
{
	uint64_t d, e, f;
	struct tree t;
	int error;

	tree_setup(&t, 1);
	d = make_dir(&t, NODE_TREE, "d");
	e = make_dir(&t, d, "e");
	make_dir(&t, NODE_TREE, "other"); /* d and e are not open any more */
	look_up(&t, look_up(&t, NODE_TREE, "other", NULL), "x", &error);
	assert_int_equal(renameat(t.root, "d", t.root, "moved"), 0);
	assert_int_equal(symlinkat("/etc", t.root, "d"), 0);
	look_up(&t, e, "passwd", &error);
	assert_int_equal(error, ESTALE);
	look_up(&t, d, "passwd", &error);
	assert_int_equal(error, ESTALE);
	assert_int_equal(unlinkat(t.root, "d", 0), 0);
	assert_int_equal(mkdirat(t.root, "d", 0755), 0);
	assert_int_equal(mkdirat(t.root, "d/e", 0755), 0);
	look_up(&t, e, "passwd", &error);
	assert_int_equal(error, ESTALE);
	assert_int_equal(get_attributes(&t, e), ESTALE);
	/* the kernel then looks the path up again */
	f = look_up(&t, look_up(&t, NODE_TREE, "d", NULL), "e", NULL);
	assert_true(f != e);
	assert_int_equal(get_attributes(&t, f), 0);
	/* the node of the moved one is found at its new place */
	assert_int_equal(look_up(&t, look_up(&t, NODE_TREE, "moved", NULL), "e", NULL), e);
	assert_int_equal(get_attributes(&t, e), 0);
	tree_teardown(&t);
}

/* FIL-7: a file that was unlinked is served by its handle; a FIFO in a file's place stops nothing.
 */
static void fil_7_unlinked_files_and_swapped_ones(void **state)
{
	const struct fuse_open_in open_in = {.flags = O_RDONLY};
	struct fuse_release_in release = {0};
	struct fs_counts c;
	struct tree t;
	uint64_t node, fh, again;

	tree_setup(&t, 4);
	assert_int_equal(make_file(&t, NODE_TREE, "f", &node, &fh), 0);
	assert_int_equal(call(&t, FUSE_UNLINK, NODE_TREE, NULL, "f", NULL), 0);
	assert_int_equal(get_attributes(&t, node), 0);
	assert_int_equal(((struct fuse_attr_out *)t.out)->attr.nlink, 0);
	assert_int_equal(call(&t, FUSE_OPEN, node, &open_in, NULL, NULL), 0);
	release.fh = ((struct fuse_open_out *)t.out)->fh;
	assert_int_equal(call(&t, FUSE_RELEASE, node, &release, NULL, NULL), 0);
	release.fh = fh;
	assert_int_equal(call(&t, FUSE_RELEASE, node, &release, NULL, NULL), 0);
	assert_int_equal(call(&t, FUSE_RELEASE, node, &release, NULL, NULL), EBADF);
	assert_int_equal(get_attributes(&t, node), ESTALE);
	/* the kernel has not forgotten the node: a new file must not get it, whatever its number */
	assert_int_equal(make_file(&t, NODE_TREE, "f", &again, &fh), 0);
	assert_true(again != node);
	forget(&t, node, 1);
	release.fh = fh;
	assert_int_equal(call(&t, FUSE_RELEASE, again, &release, NULL, NULL), 0);
	assert_int_equal(unlinkat(t.root, "f", 0), 0);
	assert_int_equal(mkfifoat(t.root, "f", 0600), 0);
	assert_int_equal(call(&t, FUSE_OPEN, again, &open_in, NULL, NULL), ESTALE);
	forget(&t, again, 1);
	fs_counts(t.fs, &c);
	assert_int_equal(c.nodes, 1);
	assert_int_equal(c.handles, 0);
	tree_teardown(&t);
}

/* FIL-7: requests with ids and handles that do not exist are errors. */
static void fil_7_unknown_ids_are_errors(void **state)
{
	static const uint64_t zeroes[16];
	struct tree t;

	tree_setup(&t, 4);
	for (uint32_t op = 0; op < 60; op++) {
		const bool forgets = op == FUSE_FORGET || op == FUSE_BATCH_FORGET;
		const int e = op == FUSE_STATFS || op == FUSE_SYNCFS
				      ? EIO
				      : call(&t, op, UINT64_C(5) << 32 | 99, zeroes, "a", "b");

		assert_true(forgets || e != 0);
	}
	assert_int_equal(call(&t, FUSE_RENAME, NODE_TREE, zeroes, "a", "b"), ESTALE);
	tree_teardown(&t);
}

static void fil_7_a_file_is_made_where_a_fifo_came(void **state)
{
	const struct fuse_create_in in = {.flags = O_RDWR, .mode = S_IFREG | 0600};
	struct fs_counts c;
	struct tree t;

	tree_setup(&t, 0);
	assert_int_equal(mkfifoat(t.root, "f", 0600), 0);
	assert_int_equal(call(&t, FUSE_CREATE, NODE_TREE, &in, "f", NULL), ESTALE);
	fs_counts(t.fs, &c);
	assert_int_equal(c.handles, 0);
	assert_int_equal(c.nodes, 1);
	tree_teardown(&t);
}

/* Directories that are not in use make room for files. */
static void fil_7_no_descriptor_is_left(void **state)
{
	const struct fuse_create_in in = {.flags = O_RDWR, .mode = S_IFREG | 0600};
	struct rlimit old, few = {.rlim_cur = 256};
	struct fs_counts c;
	struct tree t;
	uint64_t last = 0;
	int fd[256], n = 0, e;

	tree_setup(&t, 0);
	for (char name[] = "a"; name[0] <= 'h'; name[0]++) {
		assert_int_equal(mkdirat(t.root, name, 0700), 0);
		last = look_up(&t, NODE_TREE, name, NULL);
		look_up(&t, last, "none", &e); /* opens it */
		assert_int_equal(e, ENOENT);
	}
	fs_counts(t.fs, &c);
	assert_int_equal(c.open_dirs, 8);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while ((fd[n] = dup(t.root)) >= 0)
		n++;
	e = call(&t, FUSE_CREATE, last, &in, "f", NULL);
	while (n > 0)
		close(fd[--n]);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(e, 0);
	fs_counts(t.fs, &c);
	assert_int_equal(c.open_dirs, 1); /* the one in use */
	look_up(&t, look_up(&t, NODE_TREE, "b", NULL), "none", &e);
	assert_int_equal(e, ENOENT);
	tree_teardown(&t);
}

/* FIL-6: the root of the mount has the trees and nothing else, and nothing moves between trees. */
static void fil_6_trees_are_apart(void **state)
{
	const struct fuse_rename_in back = {.newdir = NODE_TREE}, to_top = {.newdir = NODE_ROOT};
	struct fuse_link_in link = {0};
	const char *rest = NULL;
	struct tree t;
	uint64_t fh;
	int e;

	make_tree(&t, 0, 2);
	assert_int_equal(look_up(&t, NODE_ROOT, "0", NULL), NODE_TREE);
	assert_int_equal(look_up(&t, NODE_ROOT, "1", NULL), NODE_TREE + 1);
	for (size_t i = 0; i < 5; i++) {
		look_up(&t, NODE_ROOT, ((const char *[]){"2", "x", "", "-1", "0x"})[i], &e);
		assert_int_equal(e, EACCES);
	}
	assert_int_equal(get_attributes(&t, NODE_ROOT), 0);
	assert_int_equal(call(&t, FUSE_OPENDIR, NODE_ROOT, &(struct fuse_open_in){0}, NULL, NULL),
			 EACCES);
	assert_int_equal(call(&t, FUSE_MKDIR, NODE_ROOT, &(struct fuse_mkdir_in){0}, "d", NULL),
			 EACCES);
	make_dir(&t, NODE_TREE + 1, "d");
	assert_int_equal(faccessat(t.root, "second/d", F_OK, 0), 0);
	assert_int_equal(call(&t, FUSE_RENAME, NODE_TREE + 1, &back, "d", "d"), EXDEV);
	assert_int_equal(call(&t, FUSE_RENAME, NODE_TREE + 1, &to_top, "d", "d"), EXDEV);
	assert_int_equal(make_file(&t, NODE_TREE + 1, "f", &link.oldnodeid, &fh), 0);
	assert_int_equal(call(&t, FUSE_LINK, NODE_TREE, &link, "f", NULL), EXDEV);
	assert_int_equal(call(&t, FUSE_LINK, NODE_TREE + 1, &link, "g", NULL), 0);
	assert_string_equal(fs_tree_of(t.fs, "/second/d", &rest)->shown, "/second");
	assert_string_equal(rest, "/d");
	assert_null(fs_tree_of(t.fs, "/seconds", &rest));
	tree_teardown(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_7_directories_are_reached_without_being_open),
		cmocka_unit_test(fil_7_four_thousand_levels),
		cmocka_unit_test(fil_7_what_took_the_place_of_a_directory_is_not_entered),
		cmocka_unit_test(fil_7_unlinked_files_and_swapped_ones),
		cmocka_unit_test(fil_7_unknown_ids_are_errors),
		cmocka_unit_test(fil_7_a_file_is_made_where_a_fifo_came),
		cmocka_unit_test(fil_7_no_descriptor_is_left),
		cmocka_unit_test(fil_6_trees_are_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
