// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/remove.h"
#include "trash/trash.h"
#include "trash/trash_index.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// after stdarg and setjmp
#include <cmocka.h>

#define MANY (UINT64_C(1) << 30)

/* A workspace and a trash on one file system, or with the trash on another one. */
struct rig {
	char top[32], other[32];
	int tree, dir;
	struct trash *t;
};

static void rig_open(struct rig *g, bool two)
{
	*g = (struct rig){.top = "/tmp/trash-XXXXXX", .other = "/dev/shm/trash-XXXXXX"};
	assert_non_null(mkdtemp(g->top));
	assert_non_null(mkdtemp(g->other));
	g->tree = open(g->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(g->tree, "w", 0755), 0);
	assert_int_equal(mkdirat(g->tree, "t", 0700), 0);
	g->dir = two ? open(g->other, O_PATH | O_DIRECTORY | O_CLOEXEC)
		     : openat(g->tree, "t", O_PATH | O_DIRECTORY | O_CLOEXEC);
	mem_cleanup_fd(&g->tree);
	g->tree = open(g->top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(trash_new(g->dir, &g->t, NULL), 0);
	trash_limit(g->t, MANY, 0);
}

static int workspace(const struct rig *g)
{
	const int fd = openat(g->tree, "w", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void rig_close(struct rig *g)
{
	trash_free(g->t);
	close(g->tree);
	close(g->dir);
	remove_tree(AT_FDCWD, g->top);
	remove_tree(AT_FDCWD, g->other);
}

static void write_file(const struct rig *g, const char *name, const char *text, mode_t mode)
{
	cleanup_free char *path = mem_printf("w/%s", name);
	cleanup_fd int fd = openat(g->tree, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

static void expect_file(const struct rig *g, const char *name, const char *text)
{
	cleanup_free char *path = mem_printf("%s/w/%s", g->top, name);
	cleanup_buf struct buf got = {0};

	if (text == NULL) {
		assert_int_equal(access(path, F_OK), -1);
		return;
	}
	assert_int_equal(fdio_load_path(path, 1 << 20, &got, NULL), 0);
	assert_int_equal(got.len, strlen(text));
	assert_memory_equal(got.data, text, got.len);
}

/* Deletes a file below the workspace. */
static int delete (struct rig *g, const char *name, bool open, uint64_t *id)
{
	cleanup_free char *path = mem_printf("/workspace/%s", name);
	cleanup_free char *real = mem_printf("%s/w/%s", g->top, name);
	cleanup_free char *parent = mem_printf("w/%s", name);
	const struct trash_victim v = {.name = strrchr(path, '/') + 1,
				       .open = open,
				       .path = path,
				       .real_path = real,
				       .command_id = "cmd-1"};
	struct trash_victim here = v;
	cleanup_fd int dir = -1;

	*strrchr(parent, '/') = '\0';
	dir = openat(g->tree, parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	here.dir = dir;
	return trash_take(g->t, &here, id);
}

static int restore(struct rig *g, uint64_t id, struct err *err)
{
	cleanup_fd int root = workspace(g);
	cleanup_free char *path = NULL;

	return trash_restore(g->t, id, &(struct trash_target){.root = root}, &path, err);
}

static size_t count(const struct rig *g)
{
	cleanup_trash_list struct trash_list list;

	assert_int_equal(trash_load(g->dir, 0, &list, NULL), 0);
	return list.n;
}

/* ---- there and back ---- */

static void back_and_forth(bool two)
{
	cleanup_trash_list struct trash_list list;
	const struct timespec times[] = {{1000, 0}, {2000, 5000}};
	uint64_t file, link;
	struct rig g;
	struct stat st;

	rig_open(&g, two);
	assert_int_equal(mkdirat(g.tree, "w/d", 0755), 0);
	write_file(&g, "d/f", "text", 0640);
	assert_int_equal(utimensat(g.tree, "w/d/f", times, 0), 0);
	assert_int_equal(symlinkat("some\nwhere", g.tree, "w/l"), 0);
	assert_int_equal(delete (&g, "d/f", false, &file), 0);
	assert_int_equal(delete (&g, "l", false, &link), 0);
	assert_true(link > file);
	assert_int_equal(trash_load(g.dir, 0, &list, NULL), 0);
	assert_int_equal(list.n, 2);
	assert_string_equal(list.v[0].path, "/workspace/d/f");
	assert_string_equal(list.v[0].command_id, "cmd-1");
	assert_int_equal(list.v[0].mode, S_IFREG | 0640);
	assert_int_equal(list.v[0].mtime_us, 2000000005);
	assert_int_equal(list.v[0].size, 4);
	expect_file(&g, "d/f", NULL);

	assert_int_equal(unlinkat(g.tree, "w/d", AT_REMOVEDIR), 0);
	assert_int_equal(restore(&g, file, NULL), 0);
	assert_int_equal(restore(&g, link, NULL), 0);
	expect_file(&g, "d/f", "text");
	assert_int_equal(fstatat(g.tree, "w/d/f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_mtim.tv_sec, 2000);
	assert_int_equal(st.st_mtim.tv_nsec, 5000);
	assert_int_equal(count(&g), 0);
	assert_int_equal(restore(&g, file, NULL), -E_NOT_FOUND);
	rig_close(&g);
}

static void fil_3_a_file_goes_into_the_trash_and_comes_back(void **state)
{
	back_and_forth(false);
	back_and_forth(true);
}

static void fil_3_only_files_and_links_are_kept(void **state)
{
	struct rig g;
	uint64_t id;

	rig_open(&g, false);
	assert_int_equal(mkfifoat(g.tree, "w/p", 0600), 0);
	assert_int_equal(delete (&g, "p", false, &id), TRASH_NOT_KEPT);
	assert_int_equal(delete (&g, "none", false, &id), -ENOENT);
	assert_int_equal(count(&g), 0);
	rig_close(&g);
}

/* A program that has the file open, or another name of it, cannot change what was kept. */
static void fil_3_what_is_open_or_has_another_name_is_copied(void **state)
{
	cleanup_fd int fd = -1;
	struct rig g;
	uint64_t a, b;

	rig_open(&g, false);
	write_file(&g, "a", "before", 0644);
	fd = openat(g.tree, "w/a", O_WRONLY | O_CLOEXEC);
	assert_int_equal(delete (&g, "a", true, &a), 0);
	assert_int_equal(pwrite(fd, "later", 5, 0), 5);
	write_file(&g, "b", "before", 0644);
	assert_int_equal(linkat(g.tree, "w/b", g.tree, "w/c", 0), 0);
	assert_int_equal(delete (&g, "b", false, &b), 0);
	write_file(&g, "c", "later", 0644);
	assert_int_equal(restore(&g, a, NULL), 0);
	assert_int_equal(restore(&g, b, NULL), 0);
	expect_file(&g, "a", "before");
	expect_file(&g, "b", "before");
	rig_close(&g);
}

/* Its owner may not read it, and it comes back without the bits that give power. */
static void fil_3_a_file_comes_back_with_its_mode_and_without_power(void **state)
{
	struct rig g;
	struct stat st;
	uint64_t id;

	rig_open(&g, true);
	write_file(&g, "f", "text", 06000);
	assert_int_equal(delete (&g, "f", false, &id), 0);
	assert_int_equal(restore(&g, id, NULL), 0);
	assert_int_equal(fstatat(g.tree, "w/f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0);
	rig_close(&g);
}

/* ---- what a restore does not do ---- */

static void fil_3_a_restore_follows_no_link_and_replaces_nothing(void **state)
{
	struct err err = {0};
	struct rig g;
	uint64_t id;

	rig_open(&g, false);
	assert_int_equal(mkdirat(g.tree, "w/d", 0755), 0);
	assert_int_equal(mkdirat(g.tree, "outside", 0755), 0);
	write_file(&g, "d/f", "text", 0644);
	assert_int_equal(delete (&g, "d/f", false, &id), 0);
	/* the parent was swapped */
	assert_int_equal(unlinkat(g.tree, "w/d", AT_REMOVEDIR), 0);
	assert_int_equal(symlinkat("../outside", g.tree, "w/d"), 0);
	assert_int_equal(restore(&g, id, &err), -E_CONFLICT);
	assert_int_equal(faccessat(g.tree, "outside/f", F_OK, 0), -1);
	assert_int_equal(unlinkat(g.tree, "w/d", 0), 0);
	/* something has its name: a file, a link that leads nowhere, a directory */
	assert_int_equal(mkdirat(g.tree, "w/d", 0755), 0);
	write_file(&g, "d/f", "other", 0644);
	assert_int_equal(restore(&g, id, &err), -E_CONFLICT);
	expect_file(&g, "d/f", "other");
	assert_int_equal(unlinkat(g.tree, "w/d/f", 0), 0);
	assert_int_equal(symlinkat("../../outside/f", g.tree, "w/d/f"), 0);
	assert_int_equal(restore(&g, id, &err), -E_CONFLICT);
	assert_int_equal(faccessat(g.tree, "outside/f", F_OK, 0), -1);
	assert_int_equal(unlinkat(g.tree, "w/d/f", 0), 0);
	assert_int_equal(restore(&g, id, &err), 0);
	expect_file(&g, "d/f", "text");
	rig_close(&g);
}

static int refuse_directories(void *arg, const char *path, struct err *err)
{
	strcat(arg, path);
	strcat(arg, " ");
	return strcmp(path, "d/e") == 0 ? err_set(err, E_POLICY_DENIED, path, "no") : 0;
}

static void fil_3_each_new_directory_is_asked_about(void **state)
{
	char asked[64] = "";
	struct rig g;
	uint64_t id;
	int root;

	rig_open(&g, false);
	assert_int_equal(mkdirat(g.tree, "w/d", 0755), 0);
	assert_int_equal(mkdirat(g.tree, "w/d/e", 0755), 0);
	write_file(&g, "d/e/f", "text", 0644);
	assert_int_equal(delete (&g, "d/e/f", false, &id), 0);
	assert_int_equal(unlinkat(g.tree, "w/d/e", AT_REMOVEDIR), 0);
	root = workspace(&g);
	assert_int_equal(
		trash_restore(g.t, id,
			      &(struct trash_target){root, NULL, refuse_directories, asked}, NULL,
			      NULL),
		-E_POLICY_DENIED);
	close(root);
	assert_string_equal(asked, "d/e/f d/e ");
	assert_int_equal(faccessat(g.tree, "w/d/e", F_OK, 0), -1);
	assert_int_equal(count(&g), 1);
	rig_close(&g);
}

/* ---- limits ---- */

static void cfg_1_what_has_no_room_stays_where_it_is(void **state)
{
	struct rig g;
	uint64_t a, b;

	rig_open(&g, false);
	trash_limit(g.t, 3 * 4096, 0);
	write_file(&g, "a", "x", 0644); /* a block, and the entry itself */
	write_file(&g, "b", "x", 0644);
	assert_int_equal(delete (&g, "a", false, &a), 0);
	assert_int_equal(delete (&g, "b", false, &b), TRASH_FULL);
	expect_file(&g, "b", "x");
	/* entries that the owner has purged leave room */
	assert_int_equal(trash_purge(g.dir, a, NULL), 0);
	assert_int_equal(delete (&g, "b", false, &b), 0);
	assert_int_equal(restore(&g, b, NULL), 0);
	assert_int_equal(delete (&g, "b", false, &b), 0);
	assert_int_equal(count(&g), 1);
	rig_close(&g);
}

static void cfg_1_an_entry_ends_with_its_age(void **state)
{
	cleanup_free char *files = NULL;
	struct rig g;
	uint64_t id;

	rig_open(&g, false);
	write_file(&g, "a", "x", 0644);
	assert_int_equal(delete (&g, "a", false, &id), 0);
	trash_limit(g.t, MANY, INT64_C(3600) * 1000000);
	trash_expire(g.t);
	assert_int_equal(count(&g), 1);
	trash_limit(g.t, MANY, 1);
	while (clock_wall_us(&clock_system) <= (int64_t)id + 1)
		;
	trash_expire(g.t);
	assert_int_equal(count(&g), 0);
	assert_int_equal(restore(&g, id, NULL), -E_NOT_FOUND);
	rig_close(&g);
}

/* ---- the index ---- */

static size_t parsed(const struct rig *g, const struct trash_entry *e)
{
	cleanup_trash_list struct trash_list list;

	assert_int_equal(trash_append(g->dir, e, NULL), 0);
	assert_int_equal(trash_load(g->dir, 0, &list, NULL), 0);
	return list.n;
}

#define ENTRY(number, canonical, real)                      \
	(&(struct trash_entry){.id = (number),              \
			       .mode = S_IFREG | 0644,      \
			       .path = (char *)(canonical), \
			       .real_path = (char *)(real)})

static void sbx_6_an_entry_cannot_name_anything_but_a_file_of_the_workspace(void **state)
{
	struct rig g;

	rig_open(&g, false);
	assert_int_equal(parsed(&g, ENTRY(1, "/workspace/a\nb", "/home/p/a\nb")), 1);
	assert_int_equal(parsed(&g, ENTRY(2, "/workspace/\xff", "/home/p/\xff")), 2);
	assert_int_equal(parsed(&g, ENTRY(3, "/workspace/..", "/home/p/..")), 2);
	assert_int_equal(parsed(&g, ENTRY(4, "/workspace/../etc/x", "/home/p/../etc/x")), 2);
	assert_int_equal(parsed(&g, ENTRY(5, "/workspace/a", "/etc/b")), 2);
	assert_int_equal(parsed(&g, ENTRY(6, "/workspace", "/home/p")), 2);
	assert_int_equal(parsed(&g, ENTRY(7, "/workspace/", "/home/p/")), 2);
	assert_int_equal(parsed(&g, ENTRY(8, "/workspace2/a", "/home/p2/a")), 2);
	assert_int_equal(parsed(&g, ENTRY(9, "/workspace/a//b", "/home/p/a//b")), 2);
	assert_int_equal(parsed(&g, ENTRY(10, NULL, NULL)), 2);
	assert_int_equal(parsed(&g, &(struct trash_entry){.id = 1, .gone = 1}), 1);
	rig_close(&g);
}

static void fil_9_a_record_that_was_cut_hides_only_itself(void **state)
{
	cleanup_trash_list struct trash_list list;
	cleanup_fd int fd = -1;
	struct rig g;

	rig_open(&g, false);
	assert_int_equal(parsed(&g, ENTRY(1, "/workspace/a", "/home/p/a")), 1);
	fd = openat(g.dir, TRASH_INDEX, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(write(fd, "\x40\0\0\0abc", 7), 7);
	assert_int_equal(trash_load(g.dir, 0, &list, NULL), 0);
	assert_int_equal(list.n, 1);
	assert_int_equal(write(fd, "\xff", 1), 1);
	rig_close(&g);
}

static void sbx_6_the_index_is_a_plain_file(void **state)
{
	cleanup_trash_list struct trash_list list = {0};
	struct err err = {0};
	struct rig g;

	rig_open(&g, false);
	assert_int_equal(trash_load(g.dir, 0, &list, &err), 0);
	assert_int_equal(symlinkat("/etc/passwd", g.dir, TRASH_INDEX), 0);
	assert_int_equal(trash_load(g.dir, 0, &list, &err), -E_UNAVAILABLE);
	assert_int_equal(trash_append(g.dir, ENTRY(1, "/workspace/a", "/home/p/a"), NULL), -ELOOP);
	assert_int_equal(unlinkat(g.dir, TRASH_INDEX, 0), 0);
	assert_int_equal(mkfifoat(g.dir, TRASH_INDEX, 0600), 0);
	assert_int_equal(trash_load(g.dir, 0, &list, &err), -E_BAD_REQUEST);
	rig_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fil_3_a_file_goes_into_the_trash_and_comes_back),
		cmocka_unit_test(fil_3_only_files_and_links_are_kept),
		cmocka_unit_test(fil_3_what_is_open_or_has_another_name_is_copied),
		cmocka_unit_test(fil_3_a_file_comes_back_with_its_mode_and_without_power),
		cmocka_unit_test(fil_3_a_restore_follows_no_link_and_replaces_nothing),
		cmocka_unit_test(fil_3_each_new_directory_is_asked_about),
		cmocka_unit_test(cfg_1_what_has_no_room_stays_where_it_is),
		cmocka_unit_test(cfg_1_an_entry_ends_with_its_age),
		cmocka_unit_test(sbx_6_an_entry_cannot_name_anything_but_a_file_of_the_workspace),
		cmocka_unit_test(fil_9_a_record_that_was_cut_hides_only_itself),
		cmocka_unit_test(sbx_6_the_index_is_a_plain_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
