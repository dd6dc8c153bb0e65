// SPDX-License-Identifier: Apache-2.0
/* Limits of groups at work: real ones in whatever trees this machine has, and v2's files in a
 * directory that looks like a group. */
#include "base/fdio.h"
#include "base/id.h"
#include "base/testkit/child_testkit.h"
#include "cgroup/cgroup_group.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static const struct limits no_limits;
static struct cgroup_host host;
static char id[ID_MAX + 1];
static struct wall_report walls;

static bool has(enum cgroup_controller c)
{
	for (size_t i = 0; i < host.n; i++)
		if ((host.tree[i].controllers & 1u << c) != 0)
			return true;
	return false;
}

static int make_group(void **state)
{
	const struct cgroup_ask ask = {.id = id};

	id_make(id, "change");
	wall_report_init(&walls);
	cgroup_host_open(&host, NULL);
	if (!has(CGROUP_MEMORY) || !has(CGROUP_CPU) || !has(CGROUP_PIDS))
		return 0;
	return cgroup_create(&host, &ask, &walls, NULL);
}

static int remove_group(void **state)
{
	const int r = cgroup_remove(&host, id, 10000, NULL);

	cgroup_host_close(&host);
	return r;
}

static void need_group(void)
{
	struct limits l = no_limits;

	if (cgroup_limits_get(&host, id, 0, &l, NULL) < 0) {
		print_message("# skipped: no cgroup with memory, cpu and pids\n");
		skip();
	}
}

static struct limits limits_now(void)
{
	struct limits l = no_limits;

	assert_int_equal(cgroup_limits_get(&host, id, 0, &l, NULL), 0);
	return l;
}

static void change(const struct limits *to)
{
	const struct cgroup_ask ask = {
		.id = id, .limits = *to, .required = UINT64_C(1) << WALL_memory_limit};
	struct err err = {0};

	if (cgroup_change(&host, &ask, &walls, &err) < 0)
		fail_msg("%s: %s", err.subject, err.message);
}

static void ses_5_a_group_says_what_holds_it(void **state)
{
	struct limits to = no_limits, l;

	need_group();
	l = limits_now();
	assert_int_equal(l.value[LIMIT_max_memory_mb], 0);
	assert_int_equal(l.value[LIMIT_memory_swap_max_mb], 0);
	assert_int_equal(l.value[LIMIT_max_cpu_percent], 0);
	assert_int_equal(l.value[LIMIT_pids_max], 0);
	assert_int_equal(l.value[LIMIT_io_read_bps_max], 0);
	to.value[LIMIT_max_memory_mb] = 300;
	to.value[LIMIT_memory_swap_max_mb] = 5;
	to.value[LIMIT_pids_max] = 77;
	to.value[LIMIT_max_cpu_percent] = 33;
	to.value[LIMIT_cpu_period_us] = 20010; /* no multiple of 100: the quota is rounded */
	change(&to);
	l = limits_now();
	assert_int_equal(l.value[LIMIT_max_memory_mb], 300);
	if (walls.wall[WALL_memory_limit].state == WALL_UP)
		assert_int_equal(l.value[LIMIT_memory_swap_max_mb], 5);
	assert_int_equal(l.value[LIMIT_pids_max], 77);
	assert_int_equal(l.value[LIMIT_max_cpu_percent], 33);
	assert_int_equal(l.value[LIMIT_cpu_period_us], 20010);
	/* and what is asked for later */
	to.value[LIMIT_max_memory_mb] = 200;
	to.value[LIMIT_pids_max] = 76;
	change(&to);
	assert_int_equal(limits_now().value[LIMIT_max_memory_mb], 200);
	assert_int_equal(limits_now().value[LIMIT_pids_max], 76);
	assert_non_null(strstr(walls.wall[WALL_pids_limit].detail, "76 "));
}

static void ses_5_no_group_has_no_limits(void **state)
{
	struct limits l = no_limits;

	assert_int_equal(cgroup_limits_get(&host, "change-nobody", 0, &l, NULL), -E_NOT_FOUND);
}

/* One limit that cannot be had: the others are as before, limited or not. */
static void ses_5_what_was_written_is_put_back(void **state)
{
	struct limits to = no_limits;
	struct cgroup_ask ask = {.id = id, .required = UINT64_C(1) << WALL_io_limit};
	struct wall_report before;
	struct err err = {0};

	need_group();
	to.value[LIMIT_max_memory_mb] = 300;
	to.value[LIMIT_memory_swap_max_mb] = 4;
	to.value[LIMIT_pids_max] = 50;
	change(&to);
	before = walls;
	ask.limits = to;
	ask.limits.value[LIMIT_max_memory_mb] = 100;
	ask.limits.given[LIMIT_memory_swap_max_mb] = true;
	ask.limits.value[LIMIT_pids_max] = 20;
	ask.limits.value[LIMIT_max_cpu_percent] = 10;
	ask.limits.value[LIMIT_io_write_bps_max] = MIB;
	ask.io_device = makedev(0, 40); /* on no disk */
	assert_int_equal(cgroup_change(&host, &ask, &walls, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "io_limit");
	assert_int_equal(limits_now().value[LIMIT_max_memory_mb], 300);
	if (walls.wall[WALL_memory_limit].state == WALL_UP)
		assert_int_equal(limits_now().value[LIMIT_memory_swap_max_mb], 4);
	assert_int_equal(limits_now().value[LIMIT_pids_max], 50);
	assert_int_equal(limits_now().value[LIMIT_max_cpu_percent], 0);
	assert_memory_equal(&walls, &before, sizeof(walls));
}

/* A child in the group that holds memory until it is killed. */
static pid_t start_holder(uint64_t bytes)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		alarm(KID_SECONDS);
		if (cgroup_join(&host, id, 0, NULL) < 0 || p == MAP_FAILED)
			_exit(1);
		for (uint64_t i = 0; i < bytes; i += 4096)
			p[i] = 1;
		if (write(ready[1], "x", 1) != 1)
			_exit(2);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void ses_5_memory_in_use_is_a_conflict(void **state)
{
	struct limits to = no_limits;
	struct cgroup_ask ask = {.id = id, .required = UINT64_C(1) << WALL_memory_limit};
	struct err err = {0};
	pid_t pid;

	need_group();
	to.value[LIMIT_max_memory_mb] = 200;
	to.given[LIMIT_memory_swap_max_mb] = true;
	change(&to);
	pid = start_holder(64 * MIB);
	ask.limits = to;
	ask.limits.value[LIMIT_max_memory_mb] = 16;
	ask.limits.value[LIMIT_pids_max] = 5;
	assert_int_equal(cgroup_change(&host, &ask, &walls, &err), -E_CONFLICT);
	assert_string_equal(err.subject, "memory_limit");
	assert_non_null(strstr(err.message, " MB are in use, more than the 16 MB"));
	assert_int_equal(limits_now().value[LIMIT_max_memory_mb], 200);
	assert_int_equal(limits_now().value[LIMIT_pids_max], 0);
	assert_int_equal(kill(pid, 0), 0);
	/* enough room: no conflict */
	ask.limits.value[LIMIT_max_memory_mb] = 128;
	assert_int_equal(cgroup_change(&host, &ask, &walls, &err), 0);
	assert_int_equal(limits_now().value[LIMIT_max_memory_mb], 128);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- v2's files ---- */

static char fake[] = "/tmp/cgroup-change-XXXXXX";
static char *fake_group;
static int fake_dir = -1;
static struct cgroup_host one;

static int open_fake(void **state)
{
	wall_report_init(&walls);
	snprintf(fake + strlen(fake) - 6, 7, "XXXXXX");
	if (mkdtemp(fake) == NULL)
		return -1;
	fake_group = mem_printf("%s/session-x", fake);
	one = (struct cgroup_host){.n = 1};
	one.tree[0].dir = open(fake, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	one.tree[0].v2 = true;
	one.tree[0].controllers = (1u << CGROUP_CONTROLLERS) - 1;
	if (mkdir(fake_group, 0755) < 0)
		return -1;
	fake_dir = open(fake_group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int close_fake(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf '%s'", fake);

	close(fake_dir);
	cgroup_host_close(&one);
	free(fake_group);
	return system(command);
}

static void put(const char *file, const char *text)
{
	cleanup_fd int fd = openat(fake_dir, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
}

static void expect_file(const char *file, const char *begin)
{
	cleanup_buf struct buf b = {0};

	assert_int_equal(cgroup_load(fake_dir, file, &b), 0);
	if (strncmp(b.data, begin, strlen(begin)) != 0)
		fail_msg("%s: '%s', not '%s'", file, b.data, begin);
}

static dev_t a_disk(void)
{
	struct stat st;

	return stat("/", &st) == 0 && cgroup_disk(st.st_dev) != 0 ? st.st_dev : 0;
}

static void put_disk(const char *rest)
{
	const dev_t disk = cgroup_disk(a_disk());
	cleanup_free char *text = mem_printf("9%u:0 rbps=1 wbps=1\n%u:%u %s\n", major(disk),
					     major(disk), minor(disk), rest);

	put("io.max", text);
}

static void ses_5_v2_says_what_holds_a_group(void **state)
{
	struct limits l;

	put("memory.max", "max\n");
	put("memory.swap.max", "1048576\n");
	put("cpu.max", "max 100000\n");
	put("pids.max", "12\n");
	put_disk("rbps=max wbps=2000 riops=max wiops=max");
	assert_int_equal(cgroup_limits_get(&one, "x", a_disk(), &l, NULL), 0);
	assert_int_equal(l.value[LIMIT_max_memory_mb], 0);
	assert_int_equal(l.value[LIMIT_memory_swap_max_mb], 1);
	assert_int_equal(l.value[LIMIT_max_cpu_percent], 0);
	assert_int_equal(l.value[LIMIT_pids_max], 12);
	assert_int_equal(l.value[LIMIT_io_read_bps_max], 0);
	if (a_disk() != 0)
		assert_int_equal(l.value[LIMIT_io_write_bps_max], 2000);
	put("memory.max", "4096\n");
	put("cpu.max", "15000 100000\n");
	assert_int_equal(cgroup_limits_get(&one, "x", a_disk(), &l, NULL), 0);
	assert_int_equal(l.value[LIMIT_max_memory_mb], 1); /* rounded up */
	assert_int_equal(l.value[LIMIT_max_cpu_percent], 15);
	assert_int_equal(l.value[LIMIT_cpu_period_us], 100000);
}

static void ses_5_v2_puts_back(void **state)
{
	struct cgroup_ask ask = {.id = "x", .required = UINT64_C(1) << WALL_cpu_limit};
	struct err err = {0};

	put("memory.current", "1000\n");
	put("memory.max", "67108864\n");
	put("memory.swap.max", "max\n");
	put("pids.max", "max\n");
	put_disk("rbps=7 wbps=max riops=max wiops=max");
	ask.limits.value[LIMIT_max_memory_mb] = 32;
	ask.limits.given[LIMIT_memory_swap_max_mb] = true;
	ask.limits.value[LIMIT_pids_max] = 3;
	ask.limits.value[LIMIT_max_cpu_percent] = 10; /* there is no cpu.max */
	ask.limits.value[LIMIT_io_read_bps_max] = 5;
	ask.io_device = a_disk();
	assert_int_equal(cgroup_change(&one, &ask, &walls, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "cpu_limit");
	expect_file("memory.max", "67108864");
	expect_file("memory.swap.max", "max");
	expect_file("pids.max", "max");
	if (a_disk() != 0) {
		const dev_t disk = cgroup_disk(a_disk());
		cleanup_free char *line =
			mem_printf("%u:%u rbps=7 wbps=max", major(disk), minor(disk));

		expect_file("io.max", line);
	}
	assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_ABSENT);
}

/* v2 would kill for it. */
static void ses_5_v2_refuses_what_is_in_use(void **state)
{
	struct cgroup_ask ask = {.id = "x", .required = UINT64_C(1) << WALL_memory_limit};
	struct err err = {0};

	put("memory.current", "33554433\n");
	put("memory.reclaim", "");
	put("memory.max", "max\n");
	ask.limits.value[LIMIT_max_memory_mb] = 32;
	assert_int_equal(cgroup_change(&one, &ask, &walls, &err), -E_CONFLICT);
	assert_string_equal(err.subject, "memory_limit");
	assert_non_null(strstr(err.message, "32 MB are in use"));
	expect_file("memory.reclaim", "1");
	expect_file("memory.max", "max");
	put("memory.current", "33554432\n");
	assert_int_equal(cgroup_change(&one, &ask, &walls, &err), 0);
	expect_file("memory.max", "33554432");
}

static void ses_5_a_line_is_found_by_its_disk(void **state)
{
	static const char text[] = "18:0 1\n8:01 2\n8:0 3\n8:16 4";

	assert_string_equal(cgroup_disk_line(text, makedev(8, 16)), "4");
	assert_int_equal(strtol(cgroup_disk_line(text, makedev(8, 0)), NULL, 10), 3);
	assert_null(cgroup_disk_line(text, makedev(8, 1)));
	assert_null(cgroup_disk_line("", makedev(8, 1)));
}

static void ses_5_a_quota_is_the_percentage_that_was_asked_for(void **state)
{
	static const struct {
		const char *text;
		int64_t percent;
	} rows[] = {{"10000 100000", 10}, {"333 1010", 33}, {"200000 100000", 200},
		    {"max 100000", 0},	  {"1 max", 0},	    {"1 0", 0}};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct limits l;

		put("cpu.max", rows[i].text);
		assert_int_equal(cgroup_limits_get(&one, "x", 0, &l, NULL), 0);
		assert_int_equal(l.value[LIMIT_max_cpu_percent], rows[i].percent);
	}
}

#define GROUP_TEST(f) cmocka_unit_test_setup_teardown(f, make_group, remove_group)
#define FAKE_TEST(f) cmocka_unit_test_setup_teardown(f, open_fake, close_fake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		GROUP_TEST(ses_5_a_group_says_what_holds_it),
		GROUP_TEST(ses_5_no_group_has_no_limits),
		GROUP_TEST(ses_5_what_was_written_is_put_back),
		GROUP_TEST(ses_5_memory_in_use_is_a_conflict),
		FAKE_TEST(ses_5_v2_says_what_holds_a_group),
		FAKE_TEST(ses_5_v2_puts_back),
		FAKE_TEST(ses_5_v2_refuses_what_is_in_use),
		cmocka_unit_test(ses_5_a_line_is_found_by_its_disk),
		FAKE_TEST(ses_5_a_quota_is_the_percentage_that_was_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
