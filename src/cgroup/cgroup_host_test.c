// SPDX-License-Identifier: Apache-2.0
/* Where the groups of sessions are to be. What a host with nothing but v2 does is seen in a guest.
 */
#include "base/fdio.h"
#include "base/testkit/child_testkit.h"
#include "cgroup/cgroup_group.h"
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

static char service[PATH_MAX];

/* Exits with 1 if the server stepped aside, 0 if it did not. */
static int serve_in_group(bool crowded)
{
	cleanup_free char *procs = mem_printf("%s/cgroup.procs", service);
	cleanup_fd int fd = open(procs, O_WRONLY | O_CLOEXEC);
	cleanup_buf struct buf text = {0};
	struct cgroup_host own;
	pid_t other = 0;

	if (fd == -1 || write(fd, "0", 1) != 1)
		return 250;
	if (crowded && (other = fork()) == 0) {
		alarm(KID_SECONDS);
		for (;;)
			pause();
	}
	cgroup_host_open(&own, NULL);
	cgroup_host_close(&own);
	if (other > 0) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
	if (fdio_load_path("/proc/self/cgroup", 4096, &text, NULL) < 0)
		return 251;
	return strstr(text.data, "/agentsh-server\n") != NULL;
}

static int serve_alone(const void *arg)
{
	return serve_in_group(false);
}

static int serve_with_another(const void *arg)
{
	return serve_in_group(true);
}

static void rmdir_in_service(const char *name)
{
	cleanup_free char *path = mem_printf("%s/%s", service, name);

	rmdir(path);
}

/* A v2 group cannot have both processes and limited children. */
static void sbx_4_who_is_alone_steps_aside(void **state)
{
	kid_fn *const way[] = {serve_with_another, serve_alone};
	struct cgroup_host host;

	cgroup_host_open(&host, NULL);
	for (int i = 0; i < 2 && host.n > 0 && host.tree[0].v2; i++) {
		cleanup_free char *link = mem_printf("/proc/self/fd/%d", host.tree[0].dir);
		char ours[PATH_MAX - 64] = "";

		assert_true(readlink(link, ours, sizeof(ours) - 1) > 0);
		*strrchr(ours, '/') = '\0';
		snprintf(service, sizeof(service), "%s/agentsh-test-%d", ours, (int)getpid());
		assert_int_equal(mkdir(service, 0755), 0);
		assert_int_equal(kid_run(way[i], NULL, false), i);
		rmdir_in_service("agentsh-server");
		rmdir_in_service("agentsh");
		assert_int_equal(rmdir(service), 0);
	}
	if (host.n == 0 || !host.tree[0].v2)
		print_message("# skipped: no cgroup v2 here\n");
	cgroup_host_close(&host);
}

static void sbx_4_our_own_group(void **state)
{
	static const char text[] = "9:name=systemd:/a\n4:memory:/m/x\n2:cpu,cpuacct:/both\n"
				   "1:pids:/../../out\n0::/one:two\n";
	static const struct {
		const char *controller, *path;
	} rows[] = {
		{"memory", "/m/x"}, {"cpu", "/both"}, {"cpuacct", "/both"}, {"pids", "/"},
		{"acct", "/"},	    {"mem", "/"},     {NULL, "/one:two"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *path = cgroup_own_path(text, rows[i].controller);

		assert_string_equal(path, rows[i].path);
	}
	for (size_t i = 0; i < 3; i++) {
		cleanup_free char *path = cgroup_own_path(
			((const char *const[]){"", "0::", "nonsense\n:"})[i], "memory");

		assert_string_equal(path, "/");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_4_who_is_alone_steps_aside),
		cmocka_unit_test(sbx_4_our_own_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
