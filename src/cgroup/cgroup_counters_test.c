// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "cgroup/cgroup.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define ALL ((1u << CGROUP_CONTROLLERS) - 1)

/* Plain files with the text that the kernel would give. */
static int file_of(const char *text)
{
	const int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static void parse(struct cgroup_files *f, int fd, const char *name)
{
	cleanup_free char *arg = mem_printf("%d %s", fd, name);
	struct err err = {0};

	assert_int_equal(cgroup_files_parse(f, arg, &err), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

static void sbx_4_counters_are_read_from_what_was_given(void **state)
{
	struct cgroup_files f = CGROUP_FILES_NONE;
	struct cgroup_counters c;

	parse(&f, file_of("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), "1/memory.oom_control");
	parse(&f, file_of("4\n"), "1/memory.failcnt");
	parse(&f, file_of("max 5\n"), "1/pids.events");
	parse(&f, file_of("nr_periods 9\nnr_throttled 6\nthrottled_time 7000\n"), "1/cpu.stat");
	cgroup_files_read(&f, ALL, &c);
	assert_int_equal(c.oom_kills, 3);
	assert_int_equal(c.memory_hits, 4);
	assert_int_equal(c.pids_hits, 5);
	assert_int_equal(c.throttled, 6);
	/* only of those that are asked about */
	cgroup_files_read(&f, 1u << CGROUP_PIDS, &c);
	assert_int_equal(c.pids_hits, 5);
	assert_int_equal(c.oom_kills + c.memory_hits + c.throttled, 0);
	cgroup_files_read(&f, 1u << CGROUP_MEMORY, &c);
	assert_int_equal(c.pids_hits, 0);
	assert_int_equal(c.oom_kills, 3);
	/* again, from the start of each file */
	cgroup_files_read(&f, ALL, &c);
	assert_int_equal(c.oom_kills, 3);
	cgroup_files_close(&f);
	cgroup_files_read(&f, ALL, &c);
	assert_int_equal(c.oom_kills, 0);
}

static void sbx_4_v2_counters_are_read_from_what_was_given(void **state)
{
	struct cgroup_files f = CGROUP_FILES_NONE;
	struct cgroup_counters c;

	parse(&f, file_of("low 0\nhigh 0\nmax 8\noom 1\noom_kill 2\n"), "2/memory.events");
	parse(&f, file_of("usage_usec 1\nnr_throttled 3\nthrottled_usec 4\n"), "2/cpu.stat");
	cgroup_files_read(&f, ALL, &c);
	assert_int_equal(c.memory_hits, 8);
	assert_int_equal(c.oom_kills, 2);
	assert_int_equal(c.throttled, 3);
	assert_int_equal(c.cpu_us, 0); /* no hit */
	cgroup_files_close(&f);
}

static void exe_1_what_was_used_is_read_by_itself(void **state)
{
	struct cgroup_files f = CGROUP_FILES_NONE;
	struct cgroup_counters c;

	parse(&f, file_of("8000\n"), "1/cpuacct.usage");
	parse(&f, file_of("4096\n"), "1/memory.max_usage_in_bytes");
	parse(&f, file_of("8:0 Read 10\n8:0 Write 20\nTotal 30\n"),
	      "1/blkio.throttle.io_service_bytes");
	parse(&f, file_of("max 5\n"), "1/pids.events");
	parse(&f, file_of("usage_usec 7\nnr_throttled 3\nthrottled_usec 4\n"), "2/cpu.stat");
	cgroup_files_use(&f, &c);
	assert_int_equal(c.cpu_us, 8 + 7);
	assert_int_equal(c.memory_peak_bytes, 4096);
	assert_int_equal(c.io_read_bytes, 10);
	assert_int_equal(c.io_write_bytes, 20);
	assert_int_equal(c.pids_hits + c.throttled, 0);
	cgroup_files_read(&f, ALL, &c);
	assert_int_equal(c.pids_hits, 5);
	assert_int_equal(c.throttled, 3);
	assert_int_equal(c.cpu_us + c.memory_peak_bytes + c.io_read_bytes, 0);
	/* the file takes what is written to it */
	assert_int_equal(cgroup_files_reset_peak(&f), 0);
	cgroup_files_use(&f, &c);
	assert_int_equal(c.memory_peak_bytes, 96);
	assert_int_equal(c.cpu_us, 8 + 7);
	cgroup_files_close(&f);
	assert_int_equal(cgroup_files_reset_peak(&f), -1);
}

static void sbx_4_arguments_come_back_as_they_went(void **state)
{
	struct cgroup_files f = CGROUP_FILES_NONE, back = CGROUP_FILES_NONE;
	struct strv args = {0};

	parse(&f, file_of("max 5\n"), "2/pids.events");
	parse(&f, file_of(""), "event");
	parse(&f, file_of(""), "notify");
	cgroup_files_format(&f, &args);
	assert_int_equal(args.n, 3);
	for (size_t i = 0; i < args.n; i++)
		assert_int_equal(cgroup_files_parse(&back, args.v[i], NULL), 0);
	assert_int_equal(back.n, 1);
	assert_int_equal(back.file[0].fd, f.file[0].fd);
	assert_ptr_equal(back.file[0].row, f.file[0].row);
	assert_int_equal(back.event, f.event);
	assert_int_equal(back.notify, f.notify);
	strv_done(&args);
	cgroup_files_format(&CGROUP_FILES_NONE, &args);
	assert_int_equal(args.n, 0);
	cgroup_files_close(&f);
}

static void sbx_4_what_is_no_counter_is_refused(void **state)
{
	static const char *const rows[] = {
		"",
		"0",
		"x event",
		"-1 event",
		"0event",
		"0 ",
		"0 evil",
		"0 1/x",
		"0 pids.events",
		"0 3/pids.events",
		"99999 event",
		"4294967296 event",
	};
	struct cgroup_files f = CGROUP_FILES_NONE;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(cgroup_files_parse(&f, rows[i], NULL), -E_BAD_REQUEST);
	assert_int_equal(f.n, 0);
	parse(&f, file_of(""), "1/pids.events");
	parse(&f, file_of(""), "event");
	assert_int_equal(cgroup_files_parse(&f, "0 1/pids.events", NULL), -E_BAD_REQUEST);
	assert_int_equal(cgroup_files_parse(&f, "0 event", NULL), -E_BAD_REQUEST);
	assert_int_equal(f.n, 1);
	cgroup_files_close(&f);
}

/* A real group: a process with the files needs no right to read them, and sees a failed fork. */
static void sbx_4_hits_are_seen_through_the_files(void **state)
{
	const struct cgroup_ask ask = {.id = "files-test", .limits.value[LIMIT_pids_max] = 1};
	struct cgroup_files f;
	struct cgroup_counters c;
	struct cgroup_host host;
	struct wall_report walls;
	struct strv ids = {0};
	unsigned pids = 0;
	pid_t pid;

	cgroup_host_open(&host, NULL);
	wall_report_init(&walls);
	if (cgroup_create(&host, &ask, &walls, NULL) < 0 ||
	    walls.wall[WALL_pids_limit].state != WALL_UP) {
		cgroup_host_close(&host);
		skip();
	}
	cgroup_list(&host, "files-", &ids);
	assert_true(ids.n >= 1);
	assert_string_equal(ids.v[0], "files-test");
	strv_done(&ids);
	cgroup_list(&host, "files-x", &ids);
	assert_int_equal(ids.n, 0);
	cgroup_files_open(&host, ask.id, &f);
	cgroup_files_format(&f, &ids);
	for (size_t i = 0; i < ids.n; i++)
		pids += strstr(ids.v[i], "/pids.events") != NULL;
	strv_done(&ids);
	assert_int_equal(pids, 1);
	pid = fork();
	if (pid == 0) {
		if (cgroup_join(&host, ask.id, 0, NULL) < 0)
			_exit(1);
		if (setresuid(1000, 1000, 1000) < 0)
			_exit(2);
		pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid > 0)
			_exit(3);
		cgroup_files_read(&f, ALL, &c);
		_exit(c.pids_hits == 1 ? 0 : 4);
	}
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	cgroup_files_read(&f, ALL, &c);
	assert_int_equal(c.pids_hits, 1);
	cgroup_files_close(&f);
	assert_int_equal(cgroup_remove(&host, ask.id, 1000, NULL), 0);
	cgroup_host_close(&host);
}

/* A group that was made before gets its limits later; nothing is made that is not there. */
static void sbx_4_limits_come_later(void **state)
{
	struct cgroup_ask ask = {.id = "later-test"};
	struct cgroup_host host;
	struct wall_report walls;
	struct strv ids = {0};
	struct err err = {0};

	cgroup_host_open(&host, NULL);
	wall_report_init(&walls);
	assert_int_equal(cgroup_create(&host, &ask, &walls, &err), 0);
	assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_ABSENT);
	ask.limits.value[LIMIT_pids_max] = 9;
	assert_int_equal(cgroup_limit(&host, &ask, &walls, &err), 0);
	if (geteuid() == 0 && host.n > 0)
		assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_UP);
	cgroup_remove(&host, ask.id, 0, NULL);
	ask.required = UINT64_C(1) << WALL_pids_limit;
	assert_int_equal(cgroup_limit(&host, &ask, &walls, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "pids_limit");
	cgroup_list(&host, "later-test", &ids);
	assert_int_equal(ids.n, 0);
	ask.id = "a/b";
	assert_int_equal(cgroup_limit(&host, &ask, &walls, &err), -E_BAD_REQUEST);
	cgroup_host_close(&host);
}

static void sbx_4_only_what_is_up_is_limited(void **state)
{
	struct wall_report walls;

	wall_report_init(&walls);
	assert_int_equal(cgroup_limited(&walls), 0);
	wall_set(&walls, WALL_pids_limit, WALL_UP, "x");
	wall_set(&walls, WALL_cpu_limit, WALL_UNAVAILABLE, "x");
	assert_int_equal(cgroup_limited(&walls), 1u << CGROUP_PIDS);
	wall_set(&walls, WALL_memory_limit, WALL_PARTIAL, "x");
	wall_set(&walls, WALL_seccomp, WALL_UP, "x");
	assert_int_equal(cgroup_limited(&walls), 1u << CGROUP_PIDS | 1u << CGROUP_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_4_counters_are_read_from_what_was_given),
		cmocka_unit_test(sbx_4_v2_counters_are_read_from_what_was_given),
		cmocka_unit_test(exe_1_what_was_used_is_read_by_itself),
		cmocka_unit_test(sbx_4_arguments_come_back_as_they_went),
		cmocka_unit_test(sbx_4_what_is_no_counter_is_refused),
		cmocka_unit_test(sbx_4_hits_are_seen_through_the_files),
		cmocka_unit_test(sbx_4_limits_come_later),
		cmocka_unit_test(sbx_4_only_what_is_up_is_limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
