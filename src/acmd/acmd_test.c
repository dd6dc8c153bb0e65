// SPDX-License-Identifier: Apache-2.0
#include "acmd/acmd.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/agentsh-acmd-XXXXXX";
static const char *const no_env[] = {NULL};

/* Runs a line of words. */
static int call(const char *line, const char *const *env, int out)
{
	cleanup_free char *words = mem_strdup(line);
	char *argv[20] = {NULL}, *envp[20] = {NULL}, *rest = words;
	int argc = 0;

	while (argc < 19 && (argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	for (size_t i = 0; env[i] != NULL; i++)
		envp[i] = (char *)(uintptr_t)env[i];
	return acmd_main(argc, argv, envp, out);
}

/* The same; its answer, which the caller frees, and the status. */
static json_t *run_env(const char *line, const char *const *env, int *status)
{
	cleanup_buf struct buf text = {0};
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC);
	json_error_t e;
	json_t *json;

	*status = call(line, env, out);
	assert_int_equal(lseek(out, 0, SEEK_SET), 0);
	assert_int_equal(fdio_load(out, 64 << 20, &text, NULL), 0);
	json = json_loadb(text.data, text.len, 0, &e);
	if (json == NULL)
		fail_msg("%s: %s: %s", line, e.text, text.data);
	assert_int_equal(text.data[text.len - 1], '\n');
	return json;
}

static json_t *run(const char *line, int expected)
{
	int status;
	json_t *json = run_env(line, no_env, &status);

	if (status != expected) {
		cleanup_free char *text = json_dumps(json, 0);

		fail_msg("%s: exit %d: %s", line, status, text);
	}
	return json;
}

static const char *str(const json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

static json_int_t num(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

static void put(const char *path, const void *data, size_t n)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

	assert_int_equal(fdio_write_all(fd, data, n), 0);
}

/* The values of a key of all elements, joined; ends at the last page. */
static char *all(const char *line, const char *list, const char *key)
{
	struct buf out = {0};
	uint64_t next = 0;

	for (;;) {
		cleanup_free char *page = mem_printf("%s --offset %llu", line, (long long)next);
		json_t *j = run(page, 0), *one;
		size_t i;

		json_array_foreach(json_object_get(j, list), i, one)
		{
			buf_adds(&out, out.len > 0 ? " " : "");
			buf_adds(&out, str(one, key));
		}
		one = json_object_get(j, "next");
		next = json_is_null(one) ? 0 : (uint64_t)json_integer_value(one);
		json_decref(j);
		if (next == 0)
			return out.len > 0 ? buf_take(&out) : mem_strdup("");
	}
}

static void expect_all(const char *line, const char *list, const char *key, const char *expected)
{
	cleanup_free char *got = all(line, list, key);

	assert_string_equal(got, expected);
}

static int make_tree(void **state)
{
	const struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};

	assert_non_null(mkdtemp(top));
	assert_int_equal(chdir(top), 0);
	assert_int_equal(mkdir("d", 0750), 0);
	assert_int_equal(mkdir("d/e", 0755), 0);
	assert_int_equal(mkdir("d/empty", 0755), 0);
	put("b", "12345", 5);
	put(".hidden", "", 0);
	put("d/one.c", "x\n", 2);
	put("d/e/two.c", "1\n2\n3\n", 6);
	assert_int_equal(symlink("..", "d/e/up"), 0); /* a loop */
	assert_int_equal(symlink("none", "dangling"), 0);
	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_int_equal(chmod("b", 04711), 0);
	assert_int_equal(utimensat(AT_FDCWD, "b", old, 0), 0);
	return 0;
}

static int remove_tree(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf %s", top);

	return system(command);
}

/* ---- als, afind, astat ---- */

static void exe_7_als_lists_with_attributes(void **state)
{
	json_t *j = run("/x/als", 0), *sum = json_object_get(j, "summary");
	json_t *entries = json_object_get(j, "entries"), *b = json_array_get(entries, 0);

	assert_string_equal(str(j, "cwd"), top);
	assert_int_equal(json_array_size(entries), 4);
	assert_string_equal(str(b, "name"), "b");
	assert_string_equal(str(b, "type"), "file");
	assert_string_equal(str(b, "mode"), "4711");
	assert_string_equal(str(b, "mtime"), "2001-09-09T01:46:40.000000Z");
	assert_int_equal(num(b, "size"), 5);
	if (geteuid() == 0)
		assert_string_equal(str(b, "owner"), "root");
	assert_string_equal(str(json_array_get(entries, 2), "name"), "dangling");
	assert_string_equal(str(json_array_get(entries, 2), "target"), "none");
	assert_string_equal(str(json_array_get(entries, 2), "type"), "symlink");
	assert_string_equal(str(json_array_get(entries, 3), "type"), "fifo");
	assert_int_equal(num(sum, "files"), 1);
	assert_int_equal(num(sum, "directories"), 1);
	assert_int_equal(num(sum, "others"), 2);
	assert_int_equal(num(sum, "total_size"), 5);
	assert_true(json_is_null(json_object_get(j, "next")));
	json_decref(j);
}

static void exe_7_lists_have_the_names_that_were_asked_for(void **state)
{
	static const char *const rows[][4] = {
		{"als", "entries", "name", "b d dangling pipe"},
		{"als -a", "entries", "name", ".hidden b d dangling pipe"},
		{"als d", "entries", "name", "e empty one.c"},
		{"als d/", "entries", "name", "e empty one.c"},
		{"als -R", "entries", "name",
		 "b d d/e d/e/two.c d/e/up d/empty d/one.c dangling pipe"},
		{"als -Ra d", "entries", "name", "e e/two.c e/up empty one.c"},
		{"als --depth 2", "entries", "name", "b d d/e d/empty d/one.c dangling pipe"},
		{"als d/empty", "entries", "name", ""},
		{"als -R d/empty", "entries", "name", ""},
		{"afind d/empty", "matches", "path", ""},
		{"adu d/empty", "entries", "path", ""},
		{"als b", "entries", "name", "b"},
		{"als dangling", "entries", "name", "dangling"},
		{"als pipe", "entries", "name", "pipe"},
		{"als --limit 1", "entries", "name", "b d dangling pipe"},
		{"als -R --limit 3", "entries", "name",
		 "b d d/e d/e/two.c d/e/up d/empty d/one.c dangling pipe"},
		{"afind", "matches", "path",
		 ".hidden b d d/e d/e/two.c d/e/up d/empty d/one.c dangling pipe"},
		{"afind d/e", "matches", "path", "d/e/two.c d/e/up"},
		{"afind ./", "matches", "path",
		 "./.hidden ./b ./d ./d/e ./d/e/two.c ./d/e/up ./d/empty ./d/one.c ./dangling "
		 "./pipe"},
		{"afind --name *.c", "matches", "path", "d/e/two.c d/one.c"},
		{"afind -name *.c --limit 1", "matches", "path", "d/e/two.c d/one.c"},
		{"afind --name=[ab]", "matches", "path", "b"},
		{"afind --type d", "matches", "path", "d d/e d/empty"},
		{"afind --type symlink,p", "matches", "path", "d/e/up dangling pipe"},
		{"afind --type f --size 5", "matches", "path", "b"},
		{"afind --type f --size +5c", "matches", "path", "d/e/two.c"},
		{"afind --type f --size -5", "matches", "path", ".hidden d/one.c"},
		{"afind --type f --size -1k", "matches", "path", ".hidden b d/e/two.c d/one.c"},
		{"afind --size +16777215G", "matches", "path", ""},
		{"afind --type f --mtime +300", "matches", "path", "b"},
		{"afind --type f --mtime -1h", "matches", "path", ".hidden d/e/two.c d/one.c"},
		{"afind --depth 1 --type d", "matches", "path", "d"},
		{"astat b d", "files", "path", "b d"},
		{"astat dangling", "files", "type", "symlink"},
		{"astat -L d/e/up", "files", "type", "directory"},
		{"adu", "entries", "path", "d"},
		{"adu --depth 9", "entries", "path", "d/e d/empty d"},
		{"adu d", "entries", "path", "d/e d/empty"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_all(rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
}

/* The summary does not depend on the page. */
static void exe_7_the_summary_is_of_everything(void **state)
{
	json_t *j = run("als -R --offset 2 --limit 1", 0), *sum = json_object_get(j, "summary");

	assert_int_equal(num(j, "next"), 3);
	assert_int_equal(num(sum, "files"), 3);
	assert_int_equal(num(sum, "directories"), 3);
	assert_int_equal(num(sum, "others"), 3);
	assert_int_equal(num(sum, "total_size"), 13);
	json_decref(j);
}

static void exe_7_astat_shows_all_attributes(void **state)
{
	json_t *j = run("astat b", 0), *f = json_array_get(json_object_get(j, "files"), 0);
	struct stat st;

	assert_int_equal(stat("b", &st), 0);
	assert_int_equal(num(f, "inode"), st.st_ino);
	assert_int_equal(num(f, "links"), 1);
	assert_int_equal(num(f, "uid"), st.st_uid);
	assert_int_equal(num(f, "gid"), st.st_gid);
	assert_int_equal(num(f, "disk"), st.st_blocks * 512);
	assert_non_null(str(f, "atime"));
	assert_non_null(str(f, "ctime"));
	assert_non_null(str(f, "device"));
	json_decref(j);
	j = run("als -l b", 0);
	assert_int_equal(num(json_array_get(json_object_get(j, "entries"), 0), "inode"), st.st_ino);
	json_decref(j);
}

/* A name that is not text comes as base64. */
static void exe_7_odd_names_are_safe(void **state)
{
	json_t *j, *entries;

	assert_int_equal(mkdir("odd", 0755), 0);
	put("odd/\n\"\\\t", "", 0);
	put("odd/\xff\xfe", "", 0);
	put("odd/\xc3\xa4", "", 0);
	assert_int_equal(symlink("\x80", "odd/z"), 0);
	j = run("als odd", 0);
	entries = json_object_get(j, "entries");
	assert_string_equal(str(json_array_get(entries, 0), "name"), "\n\"\\\t");
	assert_string_equal(str(json_array_get(entries, 1), "name"), "z");
	assert_string_equal(str(json_array_get(entries, 1), "target"), "gA==");
	assert_string_equal(str(json_array_get(entries, 1), "target_encoding"), "base64");
	assert_string_equal(str(json_array_get(entries, 2), "name"), "\xc3\xa4");
	assert_null(str(json_array_get(entries, 2), "name_encoding"));
	assert_string_equal(str(json_array_get(entries, 3), "name"), "//4=");
	assert_string_equal(str(json_array_get(entries, 3), "name_encoding"), "base64");
	json_decref(j);
	assert_int_equal(system("rm -r odd"), 0);
}

/* ---- acat ---- */

static void exe_7_acat_reads_the_lines_that_were_asked_for(void **state)
{
	static const struct {
		const char *file, *options, *content;
		json_int_t first, last, total, next;
	} rows[] = {
		{"1\n2\n3\n", "", "1\n2\n3\n", 1, 3, 3, 0},
		{"1\n2\n3", "", "1\n2\n3", 1, 3, 3, 0},
		{"", "", "", 0, 0, 0, 0},
		{"\n", "", "\n", 1, 1, 1, 0},
		{"1\n2\n3\n", "--lines 2", "2\n", 2, 2, 3, 0},
		{"1\n2\n3\n", "--lines 2-3", "2\n3\n", 2, 3, 3, 0},
		{"1\n2\n3\n", "--lines 2-", "2\n3\n", 2, 3, 3, 0},
		{"1\n2\n3", "--lines 3-99", "3", 3, 3, 3, 0},
		{"1\n2\n3\n", "--lines 4-", "", 0, 0, 3, 0},
		{"1\n2\n3\n", "--limit 3", "1\n2", 1, 2, 3, 3},
		{"1\n2\n3\n", "--offset 3", "\n3\n", 2, 3, 3, 0},
		{"1\n2\n3\n", "--offset 6", "", 0, 0, 3, 0},
		{"1\n2\n3\n", "--offset 99", "", 0, 0, 3, 0},
		{"1\n22\n3\n", "--lines 2-3 --limit 2", "22", 2, 2, 3, 4},
		{"1\n22\n3\n", "--lines 2-3 --offset 4", "\n3\n", 2, 3, 3, 0},
		/* a character is not cut */
		{"a\xc3\xa4", "--limit 2", "a", 1, 1, 1, 1},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *line = mem_printf("acat %s text", rows[i].options);
		json_t *j, *lines;

		if (rows[i].options[0] == '\0')
			memmove(line + 4, line + 5, strlen(line + 5) + 1);
		put("text", rows[i].file, strlen(rows[i].file));
		j = run(line, 0);
		lines = json_object_get(j, "lines");
		if (strcmp(str(j, "content"), rows[i].content) != 0 ||
		    num(lines, "first") != rows[i].first || num(lines, "last") != rows[i].last ||
		    num(lines, "total") != rows[i].total || num(j, "next") != rows[i].next) {
			cleanup_free char *got = json_dumps(j, 0);

			fail_msg("row %zu: %s", i, got);
		}
		assert_string_equal(str(j, "encoding"), "text");
		assert_int_equal(num(j, "size"), strlen(rows[i].file));
		json_decref(j);
	}
	unlink("text");
}

/* Pages put together are the file, whatever it contains; each fits into an answer. */
static void exe_7_pages_of_acat_are_the_file(void **state)
{
	static const char *const encodings[] = {"text", "text", "base64", "text"};
	enum { SIZE = 50000 };
	static char data[SIZE];

	for (int kind = 0; kind < 4; kind++) {
		uint64_t at = 0;
		size_t pages = 0;

		for (int i = 0; i < SIZE; i++)
			data[i] = (char)(kind == 0   ? 'x'		 /* one line */
					 : kind == 1 ? "\x01\n\t"[i % 3] /* long in JSON */
					 : kind == 2 ? i * 7		 /* not text */
						     : "\xe2\x82\xac"[i % 3]);
		put("big", data, SIZE - SIZE % 3);
		for (; at < SIZE - SIZE % 3; pages++) {
			cleanup_free char *line =
				mem_printf("acat big --offset %llu", (unsigned long long)at);
			json_t *j = run(line, 0), *next = json_object_get(j, "next");
			cleanup_free char *text = json_dumps(j, 0);
			const size_t n = strlen(str(j, "content"));

			assert_true(strlen(text) < 10000);
			assert_int_equal(num(j, "offset"), at);
			assert_string_equal(str(j, "encoding"), encodings[kind]);
			if (kind != 2)
				assert_memory_equal(str(j, "content"), data + at, n);
			if (kind != 2)
				assert_int_equal(json_is_null(next) ? SIZE - SIZE % 3
								    : json_integer_value(next),
						 at + n);
			at = json_is_null(next) ? SIZE : (uint64_t)json_integer_value(next);
			json_decref(j);
		}
		assert_in_range(pages, 7, 60);
	}
	unlink("big");
}

static void exe_7_acat_ends_with_endless_files(void **state)
{
	json_t *j = run("acat /dev/zero --limit 3", 0);

	assert_string_equal(str(j, "content"), "AAAA");
	assert_string_equal(str(j, "encoding"), "base64");
	assert_true(json_is_null(json_object_get(json_object_get(j, "lines"), "total")));
	assert_int_equal(num(j, "next"), 3);
	json_decref(j);
}

/* A hole of 8 EiB: sizes do not overflow, lines far behind are not counted. */
static void exe_7_gigantic_files(void **state)
{
	cleanup_fd int fd = open("sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	off_t size = (off_t)1 << 43;
	json_t *j;

	while (ftruncate(fd, size) < 0)
		size >>= 1;
	assert_true(size > 100 << 20);
	assert_int_equal(pwrite(fd, "end", 3, size - 3), 3);
	j = run("acat --lines 1 --limit 2 sparse", 0);
	assert_int_equal(num(j, "size"), size);
	json_decref(j);
	{
		cleanup_free char *line =
			mem_printf("acat sparse --offset %lld", (long long)size - 3);

		j = run(line, 0);
		assert_string_equal(str(j, "content"), "end");
		assert_true(json_is_null(json_object_get(j, "lines")));
		json_decref(j);
	}
	j = run("acat sparse --offset 9223372036854775807", 0);
	assert_string_equal(str(j, "content"), "");
	assert_true(json_is_null(json_object_get(j, "next")));
	json_decref(j);
	j = run("afind --size +100M", 0);
	assert_int_equal(json_array_size(json_object_get(j, "matches")), 1);
	json_decref(j);
	unlink("sparse");
}

/* ---- aenv, adu ---- */

static void exe_7_aenv_is_a_map(void **state)
{
	static const char *const env[] = {"B=2",    "A=1",  "A=later", "E=",	   "N\"=q",
					  "X=\xff", "none", "=odd",    "M=a=b\nc", NULL};
	int status;
	json_t *j = run_env("aenv", env, &status), *map = json_object_get(j, "environment");

	assert_int_equal(status, 0);
	assert_int_equal(json_object_size(map), 7);
	assert_string_equal(str(map, "A"), "1"); /* as getenv */
	assert_string_equal(str(map, "E"), "");
	assert_string_equal(str(map, "N\""), "q");
	assert_string_equal(str(map, "M"), "a=b\nc");
	assert_string_equal(str(map, "none"), "");
	assert_string_equal(json_string_value(json_array_get(json_object_get(j, "base64"), 0)),
			    "WD3/");
	json_decref(j);
	j = run_env("aenv B none2", env, &status);
	assert_int_equal(status, 0);
	assert_int_equal(json_object_size(json_object_get(j, "environment")), 1);
	json_decref(j);
	json_decref(run_env("aenv none2", env, &status));
	assert_int_equal(status, 1);
}

static void exe_7_adu_counts_a_file_once(void **state)
{
	json_t *j = run("adu", 0);
	const json_int_t size = num(json_object_get(j, "total"), "size"),
			 files = num(json_object_get(j, "total"), "files");

	json_decref(j);
	for (int i = 0; i < 2000; i++) { /* more than the first table has room for */
		cleanup_free char *name = mem_printf("d/l%d", i), *second = mem_printf("l%d", i);

		put(name, "12", 2);
		assert_int_equal(link(name, second), 0);
	}
	j = run("adu", 0);
	assert_int_equal(num(json_object_get(j, "total"), "size"), size + 4000);
	assert_int_equal(num(json_object_get(j, "total"), "files"), files + 2000);
	json_decref(j);
	assert_int_equal(system("rm l* d/l*"), 0);
}

static void exe_7_sums_do_not_overflow(void **state)
{
	const struct stat many = {.st_blocks = INT64_MAX}, wrong = {.st_blocks = -1};
	uint64_t sum = INT64_MAX - 5;

	acmd_sum(&sum, 4);
	assert_int_equal(sum, INT64_MAX - 1);
	acmd_sum(&sum, 4);
	assert_int_equal(sum, INT64_MAX);
	acmd_sum(&sum, UINT64_MAX);
	assert_int_equal(sum, INT64_MAX);
	assert_int_equal(acmd_bytes(UINT64_MAX, 1), INT64_MAX);
	assert_int_equal(acmd_disk(&many), INT64_MAX);
	assert_int_equal(acmd_disk(&wrong), 0);
}

/* ---- errors ---- */

static void exe_7_bad_usage_is_a_json_error(void **state)
{
	static const char *const rows[] = {
		"als -z",
		"als --recursiv",
		"als -az",
		"als a b",
		"als --all=1",
		"als --limit",
		"als --limit 0",
		"als --limit -1",
		"als --limit 18446744073709551616",
		"als --limit 9223372036854775808",
		"als --limit 1x",
		"als --limit=",
		"als --lines 1",
		"afind --type x",
		"afind --type f,",
		"afind --type",
		"afind --size 1T",
		"afind --size +",
		"afind --size 18446744073709551615k",
		"afind --mtime 5",
		"afind --mtime +99999999999999999d",
		"acat",
		"acat a b",
		"acat f --lines 0",
		"acat f --lines 3-2",
		"acat f --lines 2-x",
		"acat f --lines 1-2-3",
		"acat f --lines",
		"astat",
		"aps x",
		"what",
		"agentsh-init",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *j = run(rows[i], 2), *e = json_object_get(j, "error");

		assert_string_equal(str(e, "code"), "E_BAD_REQUEST");
		assert_true(strlen(str(e, "message")) > 8);
		json_decref(j);
	}
}

static void exe_7_a_wrong_value_is_explained(void **state)
{
	static const struct {
		const char *line, *message;
	} rows[] = {
		{"als --limit 0", "--limit N: '0' is not a number above 0"},
		{"als --offset x", "--offset N: 'x' is not a number"},
		{"acat f --lines x", "--lines A-B: 'x' is not of this form"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *j = run(rows[i].line, 2);

		assert_string_equal(str(json_object_get(j, "error"), "message"), rows[i].message);
		json_decref(j);
	}
}

static void exe_7_what_fails_is_named(void **state)
{
	static const struct {
		const char *line, *code, *path;
	} rows[] = {
		{"als none", "ENOENT", "none"},	 {"afind none", "ENOENT", "none"},
		{"afind b", "ENOTDIR", "b"},	 {"adu none", "ENOENT", "none"},
		{"acat none", "ENOENT", "none"}, {"acat d", "EISDIR", "d"},
		{"acat pipe", "EINVAL", "pipe"}, {"astat none", "ENOENT", "none"},
		{"astat b/c", "ENOTDIR", "b/c"}, {"astat -L dangling", "ENOENT", "dangling"},
		{"adf none", "ENOENT", "none"},	 {"als -- -x", "ENOENT", "-x"},
	};
	json_t *j, *e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		j = run(rows[i].line, 1);
		e = json_object_get(j, "error");
		assert_string_equal(str(e, "code"), rows[i].code);
		assert_string_equal(str(e, "path"), rows[i].path);
		json_decref(j);
	}
	/* others of the same answer are there */
	j = run("astat none b", 1);
	e = json_object_get(j, "errors");
	assert_int_equal(json_array_size(json_object_get(j, "files")), 1);
	assert_int_equal(json_array_size(e), 1);
	assert_string_equal(str(json_array_get(e, 0), "code"), "ENOENT");
	json_decref(j);
	j = run("astat 1 2 3 4 5 6 7 8 9 10 11 12", 1);
	assert_int_equal(json_array_size(json_object_get(j, "errors")), ACMD_ERRORS);
	assert_int_equal(num(j, "errors_total"), 12);
	json_decref(j);
}

static void exe_7_help_is_for_people(void **state)
{
	cleanup_fd int out = memfd_create("out", MFD_CLOEXEC);
	char text[2000] = "";

	assert_int_equal(call("afind --help", no_env, out), 0);
	assert_true(pread(out, text, sizeof(text) - 1, 0) > 100);
	assert_non_null(strstr(text, "usage: afind [OPTIONS] [PATH]\n"));
	assert_non_null(strstr(text, "--mtime +N|-N[smhd]"));
	assert_null(strstr(text, "--lines"));
}

static void exe_7_a_closed_output_is_a_failure(void **state)
{
	int pair[2];

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	close(pair[0]);
	assert_int_equal(call("als -R /usr/include", no_env, pair[1]), 1);
	close(pair[1]);
	assert_int_equal(call("als", no_env, -1), 1);
}

static bool sleeps(pid_t pid)
{
	struct proc_stat p;

	return proc_stat(pid, &p) == 0 && p.state == 'S';
}

/* A pipe that another process made non-blocking, and that is full when the answer comes. */
static void exe_7_a_full_pipe_is_waited_for(void **state)
{
	static const char fill[4096];
	cleanup_buf struct buf text = {0};
	int pair[2], status;
	pid_t pid;

	assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(pair[1], fill, sizeof(fill)) > 0)
		;
	alarm(30);
	pid = fork();
	if (pid == 0)
		_exit(call("als", no_env, pair[1]));
	close(pair[1]);
	while (!sleeps(pid))
		;
	assert_int_equal(fcntl(pair[0], F_SETFL, 0), 0);
	assert_int_equal(fdio_load(pair[0], 1 << 20, &text, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	alarm(0);
	assert_int_equal(status, 0);
	assert_memory_equal(text.data + text.len - 3, "]}\n", 3);
	close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_7_als_lists_with_attributes),
		cmocka_unit_test(exe_7_lists_have_the_names_that_were_asked_for),
		cmocka_unit_test(exe_7_the_summary_is_of_everything),
		cmocka_unit_test(exe_7_astat_shows_all_attributes),
		cmocka_unit_test(exe_7_odd_names_are_safe),
		cmocka_unit_test(exe_7_acat_reads_the_lines_that_were_asked_for),
		cmocka_unit_test(exe_7_pages_of_acat_are_the_file),
		cmocka_unit_test(exe_7_acat_ends_with_endless_files),
		cmocka_unit_test(exe_7_gigantic_files),
		cmocka_unit_test(exe_7_aenv_is_a_map),
		cmocka_unit_test(exe_7_adu_counts_a_file_once),
		cmocka_unit_test(exe_7_sums_do_not_overflow),
		cmocka_unit_test(exe_7_bad_usage_is_a_json_error),
		cmocka_unit_test(exe_7_a_wrong_value_is_explained),
		cmocka_unit_test(exe_7_what_fails_is_named),
		cmocka_unit_test(exe_7_help_is_for_people),
		cmocka_unit_test(exe_7_a_closed_output_is_a_failure),
		cmocka_unit_test(exe_7_a_full_pipe_is_waited_for),
	};

	return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
