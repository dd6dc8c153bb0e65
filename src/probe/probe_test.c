// SPDX-License-Identifier: Apache-2.0
/* Every act on both sides: what there is can be reached, what there is not cannot. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "probe/probe.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[PROBE_DETAIL];

/* Runs the act whose description begins so. */
static enum probe_outcome try_act(const struct probe_act *acts, const char *what,
				  const struct probe_args *a)
{
	for (; acts->wall != NULL; acts++)
		if (strncmp(acts->what, what, strlen(what)) == 0)
			return acts->run(a, said);
	fail_msg("no act '%s'", what);
	return PROBE_UNTRIED;
}
#define TRY(acts, what, ...) try_act(acts, what, &(const struct probe_args){__VA_ARGS__})

static void sbx_5_files(void **state)
{
	assert_int_equal(TRY(probe_places, "open a file", .canary = "/dev/null"), PROBE_DONE);
	assert_string_equal(said, "it worked");
	assert_int_equal(TRY(probe_places, "open a file", .canary = "/nonexistent"), PROBE_REFUSED);
	assert_string_equal(said, "ENOENT");
}

/* What is opened is closed again, whatever its number. */
static void sbx_5_nothing_stays_open(void **state)
{
	const int saved = dup(STDIN_FILENO);

	close(STDIN_FILENO);
	assert_int_equal(TRY(probe_places, "open a file", .canary = "/dev/null"), PROBE_DONE);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	assert_int_equal(TRY(probe_places, "connect to a port", .port = "1"), PROBE_REFUSED);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	dup2(saved, STDIN_FILENO);
	close(saved);
}

/* A process that waits and whose command line is this. */
static pid_t start_named(const char *name)
{
	int fd[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		_exit(execl("/bin/sleep", name, "600", NULL));
	close(fd[1]);
	/* until it has executed */
	assert_int_equal(read(fd[0], &c, 1), 0);
	close(fd[0]);
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void sbx_5_processes(void **state)
{
	const pid_t ours = start_named("agentsh"), other = start_named("sleep");
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)other);
	assert_int_equal(TRY(probe_places, PROBE_SIGNAL, .pid = text), PROBE_DONE);
	assert_int_equal(TRY(probe_places, "read its command", .pid = text), PROBE_REFUSED);
	assert_string_equal(said, "the number belongs to another process");
	end(other);
	assert_int_equal(TRY(probe_places, PROBE_SIGNAL, .pid = text), PROBE_REFUSED);
	assert_string_equal(said, "ESRCH");
	assert_int_equal(TRY(probe_places, "read its command", .pid = text), PROBE_REFUSED);
	assert_string_equal(said, "ENOENT");
	snprintf(text, sizeof(text), "%d", (int)ours);
	assert_int_equal(TRY(probe_places, "read its command", .pid = text), PROBE_DONE);
	end(ours);
}

static void sbx_5_sockets(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(in);
	const int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int abstract = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char port[16], name[32];

	snprintf(name, sizeof(name), "probe-test-%d", (int)getpid());
	memcpy(un.sun_path + 1, name, strlen(name));
	assert_int_equal(bind(tcp, (struct sockaddr *)&in, len), 0);
	assert_int_equal(listen(tcp, 1), 0);
	assert_int_equal(getsockname(tcp, (struct sockaddr *)&in, &len), 0);
	snprintf(port, sizeof(port), "%u", ntohs(in.sin_port));
	assert_int_equal(
		bind(abstract, (struct sockaddr *)&un,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
		0);
	assert_int_equal(listen(abstract, 1), 0);
	assert_int_equal(TRY(probe_places, "connect to a port", .port = port), PROBE_DONE);
	assert_int_equal(TRY(probe_places, "connect to an abstract", .abstract = name), PROBE_DONE);
	close(tcp);
	close(abstract);
	assert_int_equal(TRY(probe_places, "connect to a port", .port = port), PROBE_REFUSED);
	assert_int_equal(TRY(probe_places, "connect to an abstract", .abstract = name),
			 PROBE_REFUSED);
	assert_string_equal(said, "ECONNREFUSED");
}

static void sbx_5_queues(void **state)
{
	const int sysv = msgget((key_t)getpid(), IPC_CREAT | 0600);
	char key[16], name[32];
	mqd_t posix;

	snprintf(key, sizeof(key), "%d", (int)getpid());
	snprintf(name, sizeof(name), "/probe-test-%d", (int)getpid());
	assert_int_not_equal(sysv, -1);
	posix = mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, NULL);
	assert_int_not_equal(posix, -1);
	mq_close(posix);
	assert_int_equal(TRY(probe_places, "find a System V", .key = key), PROBE_DONE);
	assert_int_equal(TRY(probe_places, "open a POSIX", .queue = name), PROBE_DONE);
	msgctl(sysv, IPC_RMID, NULL);
	mq_unlink(name);
	assert_int_equal(TRY(probe_places, "find a System V", .key = key), PROBE_REFUSED);
	assert_int_equal(TRY(probe_places, "open a POSIX", .queue = name), PROBE_REFUSED);
}

static void sbx_5_names(void **state)
{
	char host[256] = "", link[64] = "";

	gethostname(host, sizeof(host) - 1);
	assert_true(readlink("/proc/self/ns/cgroup", link, sizeof(link) - 1) > 0);
	assert_int_equal(TRY(probe_places, "read the machine's", .hostname = host), PROBE_DONE);
	assert_int_equal(TRY(probe_places, "read the machine's", .hostname = "x"), PROBE_REFUSED);
	assert_int_equal(TRY(probe_places, "share the machine's cgroups", .cgroup = link),
			 PROBE_DONE);
	assert_int_equal(TRY(probe_places, "share the machine's cgroups", .cgroup = "x"),
			 PROBE_REFUSED);
	assert_int_equal(TRY(probe_places, "share the machine's mounts", .mounts = link),
			 PROBE_REFUSED);
}

static int see_no_cgroup(const void *arg)
{
	return unshare(CLONE_NEWCGROUP) == 0 &&
			       TRY(probe_places, "see a cgroup", NULL) == PROBE_REFUSED
		       ? 0
		       : 1;
}

/* In a namespace of its own every path is /; elsewhere as the test itself reads it. */
static void sbx_5_cgroups(void **state)
{
	char line[4096];
	bool below = false;
	FILE *f = fopen("/proc/self/cgroup", "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		below |= strlen(line) > 3 && strcmp(line + strlen(line) - 3, ":/\n") != 0;
	fclose(f);
	assert_int_equal(TRY(probe_places, "see a cgroup", NULL),
			 below ? PROBE_DONE : PROBE_REFUSED);
	assert_int_equal(strcmp(said, "every path is /") == 0, !below);
	if (geteuid() == 0)
		assert_int_equal(probe_child(see_no_cgroup, NULL, said), PROBE_DONE);
}

static int drop_all(const void *arg)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			       TRY(probe_powers, "run without", NULL) == PROBE_REFUSED
		       ? 0
		       : 1;
}

static void sbx_5_powers(void **state)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
		assert_int_equal(TRY(probe_powers, "run without", NULL), PROBE_DONE);
	assert_int_equal(probe_child(drop_all, NULL, said), PROBE_DONE);
	setenv("LD_PRELOAD", "", 1);
	assert_int_equal(TRY(probe_environment, "hand LD_PRELOAD", NULL), PROBE_DONE);
	unsetenv("LD_PRELOAD");
	assert_int_equal(TRY(probe_environment, "hand LD_PRELOAD", NULL), PROBE_REFUSED);
	unsetenv("BASH_ENV");
	assert_int_equal(TRY(probe_environment, "hand BASH_ENV", NULL), PROBE_REFUSED);
	/* the status of the copy is what counts: 1 raised, 0 not, all else did not run */
	assert_int_equal(TRY(probe_powers, "run a set-uid", .set_uid = "/bin/false"), PROBE_DONE);
	assert_int_equal(TRY(probe_powers, "run a set-uid", .set_uid = "/bin/true"), PROBE_REFUSED);
	assert_int_equal(TRY(probe_powers, "run a set-uid", .set_uid = "/nonexistent"),
			 PROBE_UNTRIED);
}

static void sbx_5_programs(void **state)
{
	const struct probe_args ran = {.denied = {"/nonexistent", "/bin/true"}};
	const struct probe_args none = {.denied = {"/nonexistent", "/dev/null"}};

	assert_int_equal(try_act(probe_programs, "run a program", &ran), PROBE_DONE);
	assert_string_equal(said, "/bin/true ran");
	assert_int_equal(try_act(probe_programs, "run a program", &none), PROBE_REFUSED);
	assert_string_equal(said, "EACCES");
}

static int die(const void *arg)
{
	return raise(SIGKILL);
}
static int fail_so(const void *arg)
{
	return ENOMEM;
}

static void sbx_5_children(void **state)
{
	assert_int_equal(probe_child(die, NULL, said), PROBE_REFUSED);
	assert_string_equal(said, "killed by SIGKILL");
	assert_int_equal(probe_child(fail_so, NULL, said), PROBE_REFUSED);
	assert_string_equal(said, "ENOMEM");
}

static void sbx_4_limits(void **state)
{
	assert_int_equal(TRY(probe_limits, "use three times", .memory = "4"), PROBE_DONE);
	assert_int_equal(TRY(probe_limits, "start more", .pids = "4"), PROBE_DONE);
	/* more than there is */
	assert_int_equal(TRY(probe_limits, "use twice the CPU", .cpu = "51"), PROBE_REFUSED);
}

static int usage(const char *a, const char *b)
{
	char name[] = "probe", one[64], two[64];
	char *argv[] = {name, one, b != NULL ? two : NULL, NULL};

	snprintf(one, sizeof(one), "%s", a);
	snprintf(two, sizeof(two), "%s", b != NULL ? b : "");
	return probe_main(b != NULL ? 3 : 2, argv);
}

/* With so many denied programs. */
static int denied(int n)
{
	char name[] = "probe", group[] = "programs", one[] = "denied=/nonexistent";
	char *argv[PROBE_DENIED + 4] = {name, group};

	for (int i = 0; i < n; i++)
		argv[2 + i] = one;
	return probe_main(2 + n, argv);
}

static void sbx_5_usage(void **state)
{
	char name[] = "probe";
	char *argv[] = {name, NULL};

	assert_int_equal(probe_main(1, argv), 2);
	assert_int_equal(usage("moat", NULL), 2);
	assert_int_equal(usage("programs", "moat=1"), 2);
	assert_int_equal(usage("programs", NULL), 0);
	assert_int_equal(denied(PROBE_DENIED), 0);
	assert_int_equal(denied(PROBE_DENIED + 1), 2);
	assert_int_equal(usage(PROBE_EUID, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_files),	   cmocka_unit_test(sbx_5_nothing_stays_open),
		cmocka_unit_test(sbx_5_processes), cmocka_unit_test(sbx_5_sockets),
		cmocka_unit_test(sbx_5_queues),	   cmocka_unit_test(sbx_5_names),
		cmocka_unit_test(sbx_5_cgroups),   cmocka_unit_test(sbx_5_powers),
		cmocka_unit_test(sbx_5_programs),  cmocka_unit_test(sbx_5_children),
		cmocka_unit_test(sbx_4_limits),	   cmocka_unit_test(sbx_5_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
