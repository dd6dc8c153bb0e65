// SPDX-License-Identifier: Apache-2.0
/* Real groups below the test's own, in whatever trees this machine has; and the files of v2, where
 * the machine has no such controllers, in a directory that looks like a group. */
#include "base/fdio.h"
#include "base/id.h"
#include "base/testkit/child_testkit.h"
#include "cgroup/cgroup.h"
#include "cgroup/cgroup_group.h"
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define WAIT_MS 20000

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

static bool pids_are_v2(void)
{
	return host.n > 0 && host.tree[0].v2 && (host.tree[0].controllers & 1u << CGROUP_PIDS) != 0;
}

static void need(enum cgroup_controller c)
{
	if (!has(c)) {
		print_message("# skipped: %s\n", host.why[c]);
		skip();
	}
}

static int open_host(void **state)
{
	cgroup_host_open(&host, NULL);
	return 0;
}

static int close_host(void **state)
{
	for (size_t i = 0; i < host.n; i++) {
		cleanup_free char *link = mem_printf("/proc/self/fd/%d", host.tree[i].dir);
		char path[PATH_MAX] = "";

		if (readlink(link, path, sizeof(path) - 1) > 0)
			rmdir(path); /* stays while another has sessions there */
	}
	cgroup_host_close(&host);
	assert_int_equal(host.n, 0);
	return 0;
}

static int name_group(void **state)
{
	id_make(id, "test");
	wall_report_init(&walls);
	return 0;
}

static int remove_group(void **state)
{
	struct err err = {0};

	if (cgroup_remove(&host, id, WAIT_MS, &err) < 0) {
		print_message("# %s\n", err.message);
		return -1;
	}
	return 0;
}

static void create_on(const struct limits *limits, uint64_t required, dev_t io_device)
{
	const struct cgroup_ask ask = {id, *limits, io_device, required, false};
	struct err err = {0};

	if (cgroup_create(&host, &ask, &walls, &err) < 0)
		fail_msg("%s: %s", err.subject, err.message);
}

static void create(const struct limits *limits, uint64_t required)
{
	create_on(limits, required, 0);
}

static struct cgroup_counters counters(void)
{
	struct cgroup_counters c;

	assert_int_equal(cgroup_read(&host, id, &c, NULL), 0);
	return c;
}

/* ---- children ---- */

static int join_and(kid_fn *fn)
{
	struct err err = {0};

	if (cgroup_join(&host, id, 0, &err) < 0) {
		fprintf(stderr, "# %s\n", err.message);
		return 250;
	}
	return fn(NULL);
}

static int touch(uint64_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 249;
	for (uint64_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
	return 0;
}

static int touch_much(const void *arg)
{
	return touch(96 * MIB);
}

static int touch_little(const void *arg)
{
	return touch(8 * MIB);
}

/* forks until it fails, at most 20 times; the number that worked is the status */
static int fork_many(const void *arg)
{
	int n = 0, ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return 249;
	for (; n < 20; n++) {
		const pid_t pid = fork();

		if (pid == -1 && errno != EAGAIN)
			return 248;
		if (pid == -1)
			break;
		if (pid == 0) {
			char c;

			close(ends[1]);
			_exit((int)read(ends[0], &c, 1));
		}
	}
	close(ends[1]);
	while (wait(NULL) > 0)
		;
	return n;
}

static int burn(const void *arg)
{
	struct timespec t;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	while (t.tv_sec == 0 && t.tv_nsec < 60000000);
	return 0;
}

static int kid_touch_much(const void *arg)
{
	return join_and(touch_much);
}

static int kid_touch_little(const void *arg)
{
	return join_and(touch_little);
}

static int kid_fork_many(const void *arg)
{
	return join_and(fork_many);
}

static int kid_burn(const void *arg)
{
	return join_and(burn);
}

/* A child in the group that sleeps; returns once it is there. */
static pid_t start_sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		alarm(KID_SECONDS);
		for (;;)
			pause();
	}
	assert_int_equal(cgroup_join(&host, id, pid, NULL), 0);
	return pid;
}

static void end_sleeper(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Whether the kernel reports that a counter may have grown. */
static bool is_told(const struct cgroup_files *f, int timeout_ms)
{
	struct pollfd p[] = {{f->event, POLLIN, 0}, {f->notify, POLLIN, 0}};

	return poll(p, ARRAY_LEN(p), timeout_ms) > 0;
}

static void read_empty(const struct cgroup_files *f)
{
	const int fd[] = {f->event, f->notify};
	char events[4096];

	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		while (fd[i] != -1 && read(fd[i], events, sizeof(events)) > 0)
			;
}

/* ---- tests ---- */

static void sbx_4_memory(void **state)
{
	struct limits limits = no_limits;
	struct cgroup_counters c;
	struct cgroup_files f;
	int status;

	need(CGROUP_MEMORY);
	limits.value[LIMIT_max_memory_mb] = 48;
	limits.given[LIMIT_memory_swap_max_mb] = true;
	create(&limits, UINT64_C(1) << WALL_memory_limit);
	assert_int_equal(walls.wall[WALL_memory_limit].state, WALL_UP);
	assert_non_null(strstr(walls.wall[WALL_memory_limit].detail, "48 MB, swap 0 MB"));
	assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_ABSENT);
	cgroup_files_open(&host, id, &f);
	assert_int_equal(kid_run(kid_touch_little, NULL, false), 0);
	c = counters();
	assert_int_equal(c.oom_kills, 0);
	assert_in_range(c.memory_peak_bytes, 8 * MIB, 48 * MIB);
	assert_false(is_told(&f, 0));

	status = kid_wait(kid_touch_much, NULL, false);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_true(is_told(&f, WAIT_MS));
	read_empty(&f);
	assert_false(is_told(&f, 0));
	c = counters();
	assert_int_equal(c.oom_kills, 1);
	assert_in_range(c.memory_peak_bytes, 40 * MIB, 48 * MIB);
	assert_true(c.memory_bytes < 48 * MIB);
	cgroup_files_close(&f);
}

static void sbx_4_processes(void **state)
{
	struct limits limits = no_limits;
	struct cgroup_files f;
	pid_t pid;

	need(CGROUP_PIDS);
	limits.value[LIMIT_pids_max] = 5;
	create(&limits, UINT64_C(1) << WALL_pids_limit);
	assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_UP);
	cgroup_files_open(&host, id, &f);
	pid = start_sleeper();
	assert_int_equal(counters().pids_hits, 0);
	assert_int_equal(kid_run(kid_fork_many, NULL, false), 3);
	assert_int_equal(counters().pids_hits, 1);
	if (pids_are_v2())
		assert_true(is_told(&f, WAIT_MS));
	read_empty(&f);
	assert_false(is_told(&f, 0));
	cgroup_files_close(&f);
	end_sleeper(pid);
}

static void sbx_4_cpu(void **state)
{
	struct limits limits = no_limits;
	struct cgroup_counters c;

	need(CGROUP_CPU);
	limits.value[LIMIT_max_cpu_percent] = 10;
	limits.value[LIMIT_cpu_period_us] = 20000;
	create(&limits, UINT64_C(1) << WALL_cpu_limit);
	assert_int_equal(walls.wall[WALL_cpu_limit].state, WALL_UP);
	assert_int_equal(kid_run(kid_burn, NULL, false), 0);
	c = counters();
	/* 60 ms at 2 ms a period; a busy machine does some of the waiting */
	assert_in_range(c.throttled, 5, 60);
	if (has(CGROUP_CPUACCT))
		assert_in_range(c.cpu_us, 30000, 1000000);
}

static unsigned long weight_of_all(size_t sessions)
{
	const char *const file[] = {"cpu.shares", "cpu.weight"};
	cleanup_buf struct buf text = {0};

	cgroup_weigh(&host, sessions);
	for (size_t i = 0; i < host.n; i++)
		if ((host.tree[i].controllers & 1u << CGROUP_CPU) != 0 &&
		    cgroup_load(host.tree[i].dir, file[host.tree[i].v2], &text) == 0)
			return strtoul(text.data, NULL, 10);
	return 0;
}

static void prf_2_all_sessions_weigh_as_one_process_each_up_to_four(void **state)
{
	unsigned long one;

	need(CGROUP_CPU);
	one = weight_of_all(1);
	assert_in_range(one, 100, 1024);
	assert_int_equal(weight_of_all(3), 3 * one);
	assert_int_equal(weight_of_all(500), 4 * one);
	assert_int_equal(weight_of_all(0), one);
}

static void sbx_4_disk_bandwidth(void **state)
{
	struct limits limits = no_limits;
	struct stat st;

	need(CGROUP_IO);
	assert_int_equal(stat("/", &st), 0);
	limits.value[LIMIT_io_read_bps_max] = 10 * MIB;
	create_on(&limits, 0, st.st_dev);
	if (cgroup_disk(st.st_dev) == 0)
		assert_int_equal(walls.wall[WALL_io_limit].state, WALL_UNAVAILABLE);
	else if (!host.tree[0].v2 || host.n > 1) {
		assert_int_equal(walls.wall[WALL_io_limit].state, WALL_PARTIAL);
		assert_non_null(strstr(walls.wall[WALL_io_limit].detail, "direct I/O only"));
	}
}

static void sbx_4_no_disk_no_limit(void **state)
{
	struct cgroup_ask ask = {.id = id, .required = UINT64_C(1) << WALL_io_limit};
	struct cgroup_counters c;
	struct err err = {0};

	need(CGROUP_IO);
	ask.limits.value[LIMIT_io_write_bps_max] = MIB;
	ask.io_device = makedev(0, 40);
	assert_int_equal(cgroup_disk(makedev(0, 40)), 0);
	assert_int_equal(cgroup_create(&host, &ask, &walls, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "io_limit");
	assert_int_equal(walls.wall[WALL_io_limit].state, WALL_UNAVAILABLE);
	assert_int_equal(cgroup_read(&host, id, &c, NULL), -E_NOT_FOUND);
}

static void sbx_4_what_cannot_be_had_is_named(void **state)
{
	struct cgroup_host nothing = {.why = {[CGROUP_PIDS] = "no pids here"}};
	struct cgroup_ask ask = {.id = "s"};
	struct err err = {0};

	ask.limits.value[LIMIT_pids_max] = 4;
	assert_int_equal(cgroup_create(&nothing, &ask, &walls, &err), 0);
	assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_UNAVAILABLE);
	assert_string_equal(walls.wall[WALL_pids_limit].detail, "no pids here");
	assert_int_equal(walls.wall[WALL_memory_limit].state, WALL_ABSENT);
	assert_int_equal(walls.wall[WALL_cpu_limit].state, WALL_ABSENT);
	assert_int_equal(walls.wall[WALL_io_limit].state, WALL_ABSENT);
	ask.required = UINT64_C(1) << WALL_pids_limit;
	assert_int_equal(cgroup_create(&nothing, &ask, &walls, &err), -E_ENFORCEMENT);
	assert_string_equal(err.subject, "pids_limit");
	assert_string_equal(err.message, "no pids here");
	assert_int_equal(cgroup_kill(&nothing, "s", &err), -E_UNAVAILABLE);
}

static void sbx_4_only_ids_are_names(void **state)
{
	static const char *const bad[] = {"", "..", "a/b", "../x", ".", "/"};
	struct cgroup_counters c;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const struct cgroup_ask ask = {.id = bad[i]};

		assert_int_equal(cgroup_create(&host, &ask, &walls, NULL), -E_BAD_REQUEST);
		assert_int_equal(cgroup_remove(&host, bad[i], 0, NULL), -E_BAD_REQUEST);
		assert_int_equal(cgroup_read(&host, bad[i], &c, NULL), -E_NOT_FOUND);
	}
}

/* An id that is called like a control file is a group like any other. */
static void sbx_4_an_id_like_a_control_file(void **state)
{
	if (host.n == 0)
		skip();
	snprintf(id, sizeof(id), "cgroup.procs");
	create(&no_limits, 0);
	create(&no_limits, 0); /* the group of a dead launcher is replaced */
}

static void sbx_4_a_group_goes_when_its_processes_have(void **state)
{
	struct err err = {0};
	pid_t pid;

	if (host.n == 0)
		skip();
	create(&no_limits, 0);
	pid = start_sleeper();
	assert_int_equal(cgroup_remove(&host, id, 0, &err), -E_UNAVAILABLE);
	assert_int_equal(cgroup_remove(&host, id, 30, &err), -E_UNAVAILABLE);
	/* its end, and not the time, is what the removal waits for */
	if (fork() == 0) {
		poll(NULL, 0, 50);
		kill(pid, SIGKILL);
		_exit(0);
	}
	assert_int_equal(cgroup_remove(&host, id, WAIT_MS, &err), 0);
	assert_int_equal(cgroup_remove(&host, id, 0, &err), 0);
	while (wait(NULL) > 0)
		;
}

static void sbx_4_a_v2_group_is_killed_at_once(void **state)
{
	int status;
	pid_t pid;

	if (host.n == 0 || !host.tree[0].v2) {
		print_message("# skipped: no cgroup v2\n");
		skip();
	}
	create(&no_limits, 0);
	pid = start_sleeper();
	assert_int_equal(cgroup_kill(&host, id, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void sbx_4_a_process_is_born_in_a_v2_group(void **state)
{
	struct cgroup_host one = {.n = 1, .tree = {host.tree[0]}};
	cleanup_free char *line = mem_printf("/session-%s\n", id);
	cleanup_buf struct buf text = {0};
	int status;
	pid_t pid;

	if (host.n == 0 || !host.tree[0].v2) {
		print_message("# skipped: no cgroup v2 here\n");
		skip();
	}
	assert_int_equal(cgroup_fork(&one, id), -1);
	assert_int_equal(errno, ENOENT);
	create(&no_limits, 0);
	pid = cgroup_fork(&one, id);
	if (pid == 0) {
		if (fdio_load_path("/proc/self/cgroup", 4096, &text, NULL) < 0)
			_exit(1);
		_exit(strstr(strstr(text.data, "0::"), line) != NULL ? 7 : 2);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
}

/* One group of several would not be all of it, and v1 has no such call. */
static void sbx_4_no_process_is_born_in_one_of_several_groups(void **state)
{
	struct cgroup_host several = {.n = 2, .tree = {host.tree[0], host.tree[0]}};

	several.tree[0].v2 = several.tree[1].v2 = true;
	assert_int_equal(cgroup_fork(&several, id), -1);
	assert_int_equal(errno, ENOTSUP);
	several.n = 0;
	assert_int_equal(cgroup_fork(&several, id), -1);
	assert_int_equal(errno, ENOTSUP);
	several.n = 1;
	several.tree[0].v2 = false;
	assert_int_equal(cgroup_fork(&several, id), -1);
	assert_int_equal(errno, ENOTSUP);
}

/* ---- v2's files ---- */

static char fake[] = "/tmp/cgroup-test-XXXXXX";
static char *fake_group; /* of session x */
static int fake_dir = -1;
static struct cgroup_host one;

static void put(const char *file, const char *text)
{
	cleanup_fd int fd = openat(fake_dir, file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
}

static void expect_file(const char *file, const char *text)
{
	cleanup_fd int fd = openat(fake_dir, file, O_RDONLY | O_CLOEXEC);
	cleanup_buf struct buf b = {0};

	buf_adds(&b, "");
	assert_int_equal(fdio_load(fd, 4096, &b, NULL), 0);
	assert_string_equal(b.data, text);
	assert_int_equal(unlinkat(fake_dir, file, 0), 0);
}

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
	if (mkdir(fake_group, 0755) < 0)
		return -1;
	fake_dir = open(fake_group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

static int close_fake(void **state)
{
	cleanup_free char *group = take(fake_group);

	close(fake_dir);
	cgroup_host_close(&one);
	return rmdir(group) < 0 ? -1 : rmdir(fake);
}

/* Only these controllers are there. */
static void limit(unsigned controllers, const struct cgroup_ask *ask)
{
	one.tree[0].controllers = controllers;
	assert_int_equal(cgroup_limit(&one, ask, &walls, NULL), 0);
}

static void sbx_4_v2_limits(void **state)
{
	struct cgroup_ask l = {.id = "x",
			       .limits.value = {[LIMIT_max_memory_mb] = 64,
						[LIMIT_memory_swap_max_mb] = 16,
						[LIMIT_max_cpu_percent] = 150,
						[LIMIT_cpu_period_us] = 50000,
						[LIMIT_pids_max] = 7,
						[LIMIT_io_read_bps_max] = 1000,
						[LIMIT_io_write_bps_max] = 2000}};
	struct stat st;

	limit((1u << CGROUP_CONTROLLERS) - 1, &l);
	/* no file is there */
	assert_int_equal(walls.wall[WALL_memory_limit].state, WALL_UNAVAILABLE);
	assert_int_equal(walls.wall[WALL_cpu_limit].state, WALL_UNAVAILABLE);
	assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_UNAVAILABLE);
	assert_int_equal(walls.wall[WALL_io_limit].state, WALL_UNAVAILABLE);
	assert_non_null(strstr(walls.wall[WALL_memory_limit].detail, "memory.max: No such file"));

	put("memory.max", "");
	limit(1u << CGROUP_MEMORY, &l);
	assert_int_equal(walls.wall[WALL_memory_limit].state, WALL_PARTIAL);
	l.swap = true;
	limit(1u << CGROUP_MEMORY, &l);
	assert_int_equal(walls.wall[WALL_memory_limit].state, WALL_UNAVAILABLE);
	put("memory.swap.max", "");
	limit(1u << CGROUP_MEMORY, &l);
	assert_int_equal(walls.wall[WALL_memory_limit].state, WALL_UP);
	assert_string_equal(walls.wall[WALL_memory_limit].detail, "64 MB, swap 16 MB");
	expect_file("memory.max", "67108864");
	expect_file("memory.swap.max", "16777216");
	put("cpu.max", "");
	limit(1u << CGROUP_CPU, &l);
	assert_int_equal(walls.wall[WALL_cpu_limit].state, WALL_UP);
	expect_file("cpu.max", "75000 50000");
	l.limits.value[LIMIT_cpu_period_us] = 0;
	put("cpu.max", "");
	limit(1u << CGROUP_CPU, &l);
	expect_file("cpu.max", "150000 100000");
	put("pids.max", "");
	limit(1u << CGROUP_PIDS, &l);
	assert_int_equal(walls.wall[WALL_pids_limit].state, WALL_UP);
	expect_file("pids.max", "7");

	assert_int_equal(stat("/", &st), 0);
	if (cgroup_disk(st.st_dev) != 0) {
		cleanup_free char *line =
			mem_printf("%u:%u rbps=max wbps=2000", major(cgroup_disk(st.st_dev)),
				   minor(cgroup_disk(st.st_dev)));

		l.io_device = st.st_dev;
		l.limits.value[LIMIT_io_read_bps_max] = 0;
		put("io.max", "");
		limit(1u << CGROUP_IO, &l);
		assert_int_equal(walls.wall[WALL_io_limit].state, WALL_UP);
		expect_file("io.max", line);
	}
}

static void sbx_4_v2_asks_nothing_of_what_was_not_asked(void **state)
{
	struct cgroup_ask l = {.id = "x"};

	limit((1u << CGROUP_CONTROLLERS) - 1, &l);
	for (unsigned w = 0; w < WALLS; w++)
		assert_int_equal(walls.wall[w].state, WALL_ABSENT);
	put("memory.max", "");
	put("memory.swap.max", "");
	l.limits.given[LIMIT_memory_swap_max_mb] = true;
	limit(1u << CGROUP_MEMORY, &l);
	assert_string_equal(walls.wall[WALL_memory_limit].detail, "swap 0 MB");
	expect_file("memory.max", "max");
	expect_file("memory.swap.max", "0");
}

static void sbx_4_v2_counters(void **state)
{
	static const char *const files[] = {"memory.current", "memory.events", "pids.events",
					    "cpu.stat", "io.stat"};
	struct cgroup_counters c;

	one.tree[0].controllers = (1u << CGROUP_CONTROLLERS) - 1;
	put("memory.current", "4096\n");
	put("memory.peak", "8192\n");
	put("memory.events", "low 0\nhigh 1\nmax 22\noom 3\noom_kill 4\noom_group_kill 5\n");
	put("pids.events", "max 7\n");
	put("cpu.stat", "usage_usec 8\nuser_usec 1\nnr_periods 2\nnr_throttled 9\n"
			"throttled_usec 10\n");
	put("io.stat", "8:0 rbytes=100 wbytes=200 rios=1 wios=1 dbytes=5\n"
		       "8:16 rbytes=11 wbytes=22 rios=1 wios=1 dbytes=5\n");
	assert_int_equal(cgroup_read(&one, "x", &c, NULL), 0);
	assert_int_equal(c.memory_bytes, 4096);
	assert_int_equal(c.memory_peak_bytes, 8192);
	assert_int_equal(c.memory_hits, 22);
	assert_int_equal(c.oom_kills, 4);
	assert_int_equal(c.pids_hits, 7);
	assert_int_equal(c.cpu_us, 8);
	assert_int_equal(c.throttled, 9);
	assert_int_equal(c.io_read_bytes, 111);
	assert_int_equal(c.io_write_bytes, 222);
	/* an older kernel without memory.peak */
	assert_int_equal(unlinkat(fake_dir, "memory.peak", 0), 0);
	assert_int_equal(cgroup_read(&one, "x", &c, NULL), 0);
	assert_int_equal(c.memory_peak_bytes, 0);
	assert_int_equal(c.memory_hits, 22);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		assert_int_equal(unlinkat(fake_dir, files[i], 0), 0);
}

#define GROUP_TEST(f) cmocka_unit_test_setup_teardown(f, name_group, remove_group)
#define FAKE_TEST(f) cmocka_unit_test_setup_teardown(f, open_fake, close_fake)

int main(void)
{
	const struct CMUnitTest tests[] = {
		GROUP_TEST(sbx_4_memory),
		GROUP_TEST(sbx_4_processes),
		GROUP_TEST(sbx_4_cpu),
		GROUP_TEST(prf_2_all_sessions_weigh_as_one_process_each_up_to_four),
		GROUP_TEST(sbx_4_disk_bandwidth),
		GROUP_TEST(sbx_4_no_disk_no_limit),
		GROUP_TEST(sbx_4_what_cannot_be_had_is_named),
		GROUP_TEST(sbx_4_only_ids_are_names),
		GROUP_TEST(sbx_4_an_id_like_a_control_file),
		GROUP_TEST(sbx_4_a_group_goes_when_its_processes_have),
		GROUP_TEST(sbx_4_a_v2_group_is_killed_at_once),
		GROUP_TEST(sbx_4_a_process_is_born_in_a_v2_group),
		GROUP_TEST(sbx_4_no_process_is_born_in_one_of_several_groups),
		FAKE_TEST(sbx_4_v2_limits),
		FAKE_TEST(sbx_4_v2_asks_nothing_of_what_was_not_asked),
		FAKE_TEST(sbx_4_v2_counters),
	};

	return cmocka_run_group_tests(tests, open_host, close_host);
}
