// SPDX-License-Identifier: Apache-2.0
#include "base/fdio.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static const struct meta sample = {
	.process = {{"warden", 4711, 123456}, {"init", 4712, 123457}},
	.n = 2,
	.uid = 1000,
	.gid = 1001,
	.group = 77,
	.device = 2049,
};
static const char sample_text[] =
	"warden_pid=4711\nwarden_start=123456\ninit_pid=4712\ninit_start=123457\n"
	"uid=1000\ngid=1001\nowner_uid=0\ngroup=77\ndevice=2049\n";

#define BOTH "warden_pid=1\nwarden_start=2\ninit_pid=3\ninit_start=4\n"
#define REST "uid=5\ngid=6\nowner_uid=7\ngroup=8\n"

static char dir[] = "/tmp/agentsh-meta-XXXXXX";
static int dir_fd;

static int open_dir(void **state)
{
	assert_non_null(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0;
}

static int close_dir(void **state)
{
	session_files_remove(dir_fd, "s.1", true);
	close(dir_fd);
	return rmdir(dir);
}

/* Loads a record with this text. */
static int load(const char *text, struct meta *m)
{
	const int fd = openat(dir_fd, "s.1.meta", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	close(fd);
	return meta_load(dir_fd, "s.1", m, NULL);
}

static void expect_saved(const struct meta *m, const char *text)
{
	cleanup_buf struct buf saved = {0};
	cleanup_free char *path = mem_printf("%s/s.1.meta", dir);

	assert_int_equal(meta_save(dir_fd, "s.1", m, NULL), 0);
	assert_int_equal(fdio_load_path(path, 4096, &saved, NULL), 0);
	assert_string_equal(saved.data, text);
}

static void ses_8_a_record_is_read_as_it_was_written(void **state)
{
	struct meta m = {0};

	expect_saved(&sample, sample_text);
	assert_int_equal(meta_load(dir_fd, "s.1", &m, NULL), 0);
	assert_memory_equal(&m, &sample, sizeof(m));
}

/* Written by the version before: 1 while it moved the session's processes into the group. */
static void ses_8_a_group_that_may_not_hold_all_is_none(void **state)
{
	struct meta m;

	assert_int_equal(load(BOTH REST "late=2\n", &m), 0);
	assert_int_equal(m.group, 8);
	assert_int_equal(load(BOTH REST "late=1\n", &m), 0);
	assert_int_equal(m.group, 0);
	assert_int_equal(load("late=2\n", &m), -E_BAD_REQUEST);
}

/* A session of another version has processes that this one does not know. */
static void ses_8_a_process_that_is_not_in_the_table_is_kept(void **state)
{
	static const char text[] = BOTH "some_fs_pid=5\nsome_fs_start=6\n" REST;
	struct meta m;

	assert_int_equal(load(text, &m), 0);
	assert_int_equal(m.n, 3);
	assert_string_equal(m.process[2].name, "some_fs");
	assert_int_equal(meta_inside(&m)->pid, 3);
	expect_saved(&m, text);
}

static void ses_8_the_largest_number_fits_and_one_more_does_not(void **state)
{
	const struct {
		const char *number;
		int result;
	} rows[] = {
		{"18446744073709551615", 0},
		{"18446744073709551616", -E_BAD_REQUEST},
		{"99999999999999999999", -E_BAD_REQUEST},
		{"0", 0},
		{"9", 0},
		{"", -E_BAD_REQUEST},
		{"-1", -E_BAD_REQUEST},
		{"1 ", -E_BAD_REQUEST},
		{"1/", -E_BAD_REQUEST},
		{"1:", -E_BAD_REQUEST},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *text =
			mem_printf(BOTH "uid=5\ngid=6\nowner_uid=7\ngroup=%s\n", rows[i].number);
		struct meta m;

		assert_int_equal(load(text, &m), rows[i].result);
	}
}

static void ses_8_a_broken_record_is_no_record(void **state)
{
	static const char *const rows[] = {
		"",
		"\n",
		"warden_pid\n",
		"warden_pid=1",
		"uid=1\nuid=1\n",
		"colour=1\n",
		"uid=1\ngid=1\n",
		"_pid=1\n_start=2\n" REST,
		"init_pid=3\ninit_start=4\n" REST,
		"init_pid=3\ninit_start=4\nwarden_pid=1\nwarden_start=2\n" REST,
		"warden_pid=1\nwarden_start=2\n" REST,
		"warden_pid=1\nwarden_start=2\ninit_pid=3\n" REST,
		"warden_pid=1\nwarden_start=2\ninit_start=3\n" REST,
		"warden_pid=1\ninit_pid=3\nwarden_start=2\ninit_start=4\n" REST,
		"warden_pid=1\nwarden_start=2\nwarden_start=2\ninit_pid=3\ninit_start=4\n" REST,
		BOTH "a_name_of_16_byte_pid=3\na_name_of_16_byte_start=4\n" REST,
		BOTH
		"a_pid=1\na_start=1\nb_pid=1\nb_start=1\nc_pid=1\nc_start=1\nd_pid=1\nd_start=1\n"
		"e_pid=1\ne_start=1\nf_pid=1\nf_start=1\ng_pid=1\ng_start=1\n" REST,
	};
	cleanup_free char *more = mem_printf("%suid=1\n", sample_text);
	struct meta m = sample;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(load(rows[i], &m), -E_BAD_REQUEST);
	assert_int_equal(load(more, &m), -E_BAD_REQUEST);
	/* Cut anywhere, it is refused; without the last line an earlier version wrote it. */
	for (size_t n = 0; n + 1 < sizeof(sample_text); n++) {
		cleanup_free char *cut = mem_strndup(sample_text, n);

		if (strncmp(sample_text + n, "device=", 7) != 0)
			assert_int_equal(load(cut, &m), -E_BAD_REQUEST);
	}
	assert_memory_equal(&m, &sample, sizeof(m));
}

static void ses_8_a_saved_record_is_whole_and_private(void **state)
{
	struct meta m;
	struct err err = {0};
	struct stat st;

	assert_int_equal(meta_load(dir_fd, "s.2", &m, &err), -E_NOT_FOUND);
	assert_int_equal(meta_save(dir_fd, "s.2", &sample, &err), 0);
	assert_int_equal(meta_load(dir_fd, "s.2", &m, &err), 0);
	assert_memory_equal(&m, &sample, sizeof(m));
	assert_int_equal(fstatat(dir_fd, "s.2.meta", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(fstatat(dir_fd, "s.2.new", &st, 0), -1);
	session_files_remove(dir_fd, "s.2", true);
}

static pid_t sleeper(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void ses_8_only_the_process_that_was_recorded_is_killed(void **state)
{
	const pid_t pid = sleeper();
	const uint64_t start = meta_start_time(pid);
	int status;

	assert_true(start > 0);
	assert_true(start >= meta_start_time(getpid()));
	meta_kill(&(struct meta_process){"", (uint64_t)pid, start + 1});
	meta_kill(&(struct meta_process){"", (uint64_t)pid, 0});
	meta_kill(&(struct meta_process){"", 0, start});
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	meta_kill(&(struct meta_process){"", (uint64_t)pid, start});
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(meta_start_time(pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ses_8_a_record_is_read_as_it_was_written),
		cmocka_unit_test(ses_8_a_group_that_may_not_hold_all_is_none),
		cmocka_unit_test(ses_8_a_process_that_is_not_in_the_table_is_kept),
		cmocka_unit_test(ses_8_the_largest_number_fits_and_one_more_does_not),
		cmocka_unit_test(ses_8_a_broken_record_is_no_record),
		cmocka_unit_test(ses_8_a_saved_record_is_whole_and_private),
		cmocka_unit_test(ses_8_only_the_process_that_was_recorded_is_killed),
	};

	return cmocka_run_group_tests(tests, open_dir, close_dir);
}
