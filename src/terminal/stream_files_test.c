// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "terminal/stream.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

#define NOW_US INT64_C(2000000000000000)

struct runtime {
	char path[64];
	int fd;
};

static int make_place(void **state)
{
	struct runtime *p = mem_new(struct runtime);

	snprintf(p->path, sizeof(p->path), "/tmp/stream_files.XXXXXX");
	if (mkdtemp(p->path) == NULL)
		return -1;
	p->fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = p;
	return p->fd < 0;
}

static int remove_place(void **state)
{
	struct runtime *p = *state;
	char cmd[96];
	int r;

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", p->path);
	close(p->fd);
	r = system(cmd);
	free(p);
	return r;
}

static void make_pair(const struct runtime *p, const char *session, const char *name, int fd[2])
{
	for (int i = 0; i < 2; i++) {
		fd[i] = stream_file_create(p->fd, session, name, i + 1);
		assert_true(fd[i] >= 0);
	}
}

/* Both files with so many bytes each, last written so many microseconds before NOW_US. */
static void put(const struct runtime *p, const char *session, const char *command, size_t bytes,
		int64_t age_us)
{
	const int64_t us = NOW_US - age_us;
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {us / 1000000, us % 1000000 * 1000}};
	int fd[2];

	make_pair(p, session, command, fd);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ftruncate(fd[i], (off_t)bytes), 0);
		assert_int_equal(futimens(fd[i], times), 0);
		close(fd[i]);
	}
}

static bool there(const struct runtime *p, const char *session, const char *command)
{
	struct err err = {0};
	int fd;
	const int r = stream_file_open(p->fd, session, command, 1, &err, &fd);

	if (r == 0)
		close(fd);
	else
		assert_int_equal(r, -E_NOT_FOUND);
	return r == 0;
}

/* EXE-3: files are private, appended to, made once, and read back by stream. */
static void exe_3_files_are_made_once(void **state)
{
	const struct runtime *p = *state;
	struct err err = {0};
	struct stat st;
	int fd[2], back;
	char text[8];

	make_pair(p, "s-1", "c-1", fd);
	assert_int_equal(fcntl(fd[0], F_GETFL) & (O_ACCMODE | O_APPEND), O_WRONLY);
	assert_int_equal(fcntl(fd[1], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fstat(fd[0], &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(fstatat(p->fd, "s-1", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(write(fd[0], "out", 3), 3);
	assert_int_equal(write(fd[1], "err", 3), 3);
	assert_int_equal(stream_file_create(p->fd, "s-1", "c-1", 1), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(stream_file_open(p->fd, "s-1", "c-1", 2, &err, &back), 0);
	assert_int_equal(read(back, text, sizeof(text)), 3);
	assert_memory_equal(text, "err", 3);
	close(back);
	assert_int_equal(stream_file_open(p->fd, "s-1", "c-1", 1, &err, &back), 0);
	assert_int_equal(read(back, text, sizeof(text)), 3);
	assert_memory_equal(text, "out", 3);
	close(back);
	close(fd[0]);
	close(fd[1]);
	stream_file_remove(p->fd, "s-1", "c-1", 1);
	assert_false(there(p, "s-1", "c-1"));
	assert_int_equal(faccessat(p->fd, "s-1/c-1.err", F_OK, 0), 0);
	stream_file_remove(p->fd, "s-1", "c-1", 2);
	assert_int_equal(faccessat(p->fd, "s-1", F_OK, 0), -1);
}

/* EXE-3: names that are not ids never reach the file system. */
static void exe_3_names_cannot_leave_the_directory(void **state)
{
	const struct runtime *p = *state;
	struct err err = {0};
	int fd = -1;

	assert_int_equal(stream_file_create(p->fd, "..", "c", 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(stream_file_create(p->fd, "s", "../c", 2), -1);
	assert_int_equal(stream_file_open(p->fd, "..", "c", 1, &err, &fd), -E_NOT_FOUND);
	assert_int_equal(stream_file_open(p->fd, "s", "nosuch", 1, &err, &fd), -E_NOT_FOUND);
	stream_file_remove(p->fd, "..", "c", 1);
	assert_int_equal(faccessat(p->fd, "s", F_OK, 0), -1);
}

static bool keep_c2(const char *session, const char *command, void *arg)
{
	(*(int *)arg)++;
	return strcmp(session, "a") == 0 && strcmp(command, "c2") == 0;
}

/* TRM-10: what is older than the age goes, at the very microsecond; a running command stays. */
static void exe_3_sweep_by_age(void **state)
{
	const struct runtime *p = *state;
	int asked = 0;

	assert_int_equal(stream_sweep(p->fd, 1000, 1000, NOW_US, keep_c2, &asked), 0);
	put(p, "a", "c1", 10, 1000001);
	put(p, "a", "c2", 10, 5000000);
	put(p, "b", "c2", 10, 5000000);
	put(p, "a", "c3", 10, 1000000);
	assert_int_equal(stream_sweep(p->fd, 1000, 1000, NOW_US, keep_c2, &asked), 40);
	assert_int_equal(asked, 6); /* for each file */
	assert_false(there(p, "a", "c1"));
	assert_true(there(p, "a", "c2"));
	assert_true(there(p, "a", "c3"));
	assert_int_equal(faccessat(p->fd, "b", F_OK, 0), -1);
	assert_int_equal(stream_sweep(p->fd, 1000, 1000, NOW_US, NULL, NULL), 20);
	assert_false(there(p, "a", "c2"));
}

/* TRM-10: the oldest go until exactly the quota is left; foreign files are left alone. */
static void exe_3_sweep_by_quota(void **state)
{
	const struct runtime *p = *state;

	put(p, "a", "new", 30, 1000);
	put(p, "b", "mid", 20, 2000);
	put(p, "a", "old", 10, 3000);
	close(openat(p->fd, "a/foreign.txt", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	close(openat(p->fd, "a/.out", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(stream_sweep(p->fd, 120, 1000, NOW_US, NULL, NULL), 0);
	assert_int_equal(stream_sweep(p->fd, 119, 1000, NOW_US, NULL, NULL), 10);
	assert_int_equal(stream_sweep(p->fd, 60, 1000, NOW_US, NULL, NULL), 50);
	assert_false(there(p, "a", "old"));
	assert_false(there(p, "b", "mid"));
	assert_true(there(p, "a", "new"));
	assert_int_equal(stream_sweep(p->fd, 0, 1000, NOW_US, NULL, NULL), 60);
	assert_int_equal(faccessat(p->fd, "a/foreign.txt", F_OK, 0), 0);
	assert_int_equal(faccessat(p->fd, "a/.out", F_OK, 0), 0);
}

/* TRM-10: the longest id is an id, one more character is not. */
static void exe_3_the_longest_names(void **state)
{
	static const char longest[] =
		"c123456789012345678901234567890123456789012345678901234567890123";
	const struct runtime *p = *state;

	put(p, longest, longest, 5, 0);
	assert_int_equal(mkdirat(p->fd, "s", 0700), 0);
	close(openat(p->fd,
		     "s/c1234567890123456789012345678901234567890123456789012345678901234.out",
		     O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(stream_sweep(p->fd, 0, 1000, NOW_US, NULL, NULL), 10);
	assert_false(there(p, longest, longest));
	assert_int_equal(unlinkat(p->fd, "s", AT_REMOVEDIR), -1);
}

/* EXE-3: descriptor 0 is as good as any. */
static void exe_3_descriptor_0_is_a_file_too(void **state)
{
	const struct runtime *p = *state;
	const int saved = dup(STDIN_FILENO);
	struct err err = {0};
	int fd = -1;

	close(STDIN_FILENO);
	assert_int_equal(stream_file_create(p->fd, "session-a", "cmd-a", 1), 0);
	close(STDIN_FILENO);
	assert_int_equal(stream_file_open(p->fd, "session-a", "cmd-a", 1, &err, &fd), 0);
	assert_int_equal(fd, 0);
	close(STDIN_FILENO);
	/* it is given back after the directory was listed */
	stream_sweep(p->fd, 0, 0, NOW_US, NULL, NULL);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	assert_false(there(p, "session-a", "cmd-a"));
	dup2(saved, STDIN_FILENO);
	close(saved);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_place, remove_place)
	const struct CMUnitTest tests[] = {
		TEST(exe_3_files_are_made_once), TEST(exe_3_names_cannot_leave_the_directory),
		TEST(exe_3_sweep_by_age),	 TEST(exe_3_sweep_by_quota),
		TEST(exe_3_the_longest_names),	 TEST(exe_3_descriptor_0_is_a_file_too),
	};

	return cmocka_run_group_tests_name("stream_files", tests, NULL, NULL);
}
