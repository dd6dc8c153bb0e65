// SPDX-License-Identifier: Apache-2.0
/* Every act on both sides: an existing target can be reached, a missing one cannot. */
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
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char outcome[32], detail[PROBE_DETAIL];

/* Tries an act and reads the line that it prints. */
static const char *try_one(const struct probe_act *act, const char *value)
{
	const int out = memfd_create("out", MFD_CLOEXEC), saved = dup(STDOUT_FILENO);
	char line[512] = "", *at = line;

	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	probe_try(act, value);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_true(pread(out, line, sizeof(line) - 1, 0) > 0);
	close(out);
	line[strcspn(line, "\n")] = '\0';
	assert_string_equal(strsep(&at, "\t"), act->wall);
	snprintf(outcome, sizeof(outcome), "%s", strsep(&at, "\t"));
	assert_string_equal(strsep(&at, "\t"), act->what);
	snprintf(detail, sizeof(detail), "%s", at);
	return outcome;
}

/* Tries the act that is described by a text with this beginning. */
static const char *try_act(const char *what, const char *value)
{
	for (const struct probe_act *act = probe_acts; act->group != NULL; act++)
		if (strncmp(act->what, what, strlen(what)) == 0)
			return try_one(act, value);
	fail_msg("no act '%s'", what);
	return "";
}
#define DONE(what, value) assert_string_equal(try_act(what, value), "done")
#define REFUSED(what, value) assert_string_equal(try_act(what, value), "refused")

static void sbx_5_files(void **state)
{
	DONE("open a file", "/dev/null");
	assert_string_equal(detail, "it worked");
	REFUSED("open a file", "/nonexistent");
	assert_string_equal(detail, "ENOENT");
}

/* No act leaves a descriptor open. */
static void sbx_5_nothing_stays_open(void **state)
{
	const int before = dup(STDIN_FILENO);
	int after;

	close(before);
	DONE("open a file", "/dev/null");
	REFUSED("connect to a port", "1");
	after = dup(STDIN_FILENO);
	close(after);
	assert_int_equal(after, before);
}

/* A process that waits and has this command line. */
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
	DONE(PROBE_SIGNAL, text);
	REFUSED("read its command", text);
	assert_string_equal(detail, "the number belongs to another process");
	end(other);
	REFUSED(PROBE_SIGNAL, text);
	assert_string_equal(detail, "ESRCH");
	REFUSED("read its command", text);
	assert_string_equal(detail, "ENOENT");
	snprintf(text, sizeof(text), "%d", (int)ours);
	DONE("read its command", text);
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
	DONE("connect to a port", port);
	DONE("connect to an abstract", name);
	close(tcp);
	close(abstract);
	REFUSED("connect to a port", port);
	REFUSED("connect to an abstract", name);
	assert_string_equal(detail, "ECONNREFUSED");
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
	DONE("find a System V", key);
	DONE("open a POSIX", name);
	msgctl(sysv, IPC_RMID, NULL);
	mq_unlink(name);
	REFUSED("find a System V", key);
	REFUSED("open a POSIX", name);
}

static void sbx_5_names(void **state)
{
	char host[256] = "", cgroup[64] = "", mounts[64] = "";

	gethostname(host, sizeof(host) - 1);
	assert_true(readlink("/proc/self/ns/cgroup", cgroup, sizeof(cgroup) - 1) > 0);
	assert_true(readlink("/proc/self/ns/mnt", mounts, sizeof(mounts) - 1) > 0);
	DONE("read the machine's", host);
	REFUSED("read the machine's", "x");
	DONE("share the machine's cgroups", cgroup);
	REFUSED("share the machine's cgroups", "cgroup:[1]");
	REFUSED("share the machine's cgroups", "x");
	DONE("share the machine's mounts", mounts);
	assert_string_equal(detail, mounts);
	REFUSED("share the machine's mounts", "mnt:[1]");
}

/* Runs fn in a child; fn returns whether it is content. */
static void in_child(bool (*fn)(void))
{
	const pid_t pid = fork();
	int status = -1;

	if (pid == 0)
		_exit(fn() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static bool see_no_cgroup(void)
{
	return unshare(CLONE_NEWCGROUP) == 0 &&
	       strcmp(try_act("see a cgroup", NULL), "refused") == 0;
}

/* In a namespace of its own every path is /; elsewhere the test reads the paths itself. */
static void sbx_5_cgroups(void **state)
{
	char line[4096];
	bool below = false;
	FILE *f = fopen("/proc/self/cgroup", "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		below |= strlen(line) > 3 && strcmp(line + strlen(line) - 3, ":/\n") != 0;
	fclose(f);
	assert_string_equal(try_act("see a cgroup", NULL), below ? "done" : "refused");
	assert_int_equal(strcmp(detail, "every path is /") == 0, !below);
	if (geteuid() == 0)
		in_child(see_no_cgroup);
}

static bool set_the_flag(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       strcmp(try_act("run without", NULL), "refused") == 0;
}

static void sbx_5_powers(void **state)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)
		DONE("run without", NULL);
	in_child(set_the_flag);
	setenv("LD_PRELOAD", "", 1);
	DONE("hand LD_PRELOAD", "LD_PRELOAD");
	unsetenv("LD_PRELOAD");
	REFUSED("hand LD_PRELOAD", "LD_PRELOAD");
	unsetenv("BASH_ENV");
	REFUSED("hand BASH_ENV", "BASH_ENV");
	/* the status of the copy counts: 1 raised, 0 not, any other: it did not run */
	DONE("run a set-uid", "/bin/false");
	REFUSED("run a set-uid", "/bin/true");
	assert_string_equal(try_act("run a set-uid", "/nonexistent"), "untried");
}

static void sbx_5_programs(void **state)
{
	DONE("run a program that", "/nonexistent:/bin/true");
	assert_string_equal(detail, "/bin/true ran");
	REFUSED("run a program that", "/nonexistent:/dev/null");
	assert_string_equal(detail, "EACCES");
}

static long die(const char *value, char text[PROBE_DETAIL])
{
	return raise(SIGKILL);
}
static long fail_so(const char *value, char text[PROBE_DETAIL])
{
	errno = ENOMEM;
	return PROBE_REFUSED;
}

static void sbx_5_children(void **state)
{
	assert_string_equal(try_one(&(struct probe_act){"g", "w", "die", die}, NULL), "refused");
	assert_string_equal(detail, "killed by SIGKILL");
	assert_string_equal(try_one(&(struct probe_act){"g", "w", "fail", fail_so}, NULL),
			    "refused");
	assert_string_equal(detail, "ENOMEM");
}

static void sbx_4_limits(void **state)
{
	DONE("use three times", "4");
	DONE("start more", "4");
	/* more than there is */
	REFUSED("use twice the CPU", "51");
}

static int usage(const char *a, const char *b)
{
	char name[] = "probe", one[64], two[64];
	char *argv[] = {name, one, b != NULL ? two : NULL, NULL};

	snprintf(one, sizeof(one), "%s", a);
	snprintf(two, sizeof(two), "%s", b != NULL ? b : "");
	return probe_main(b != NULL ? 3 : 2, argv);
}

static void sbx_5_usage(void **state)
{
	char name[] = "probe";
	char *argv[] = {name, NULL};

	assert_int_equal(probe_main(1, argv), 2);
	assert_int_equal(usage("moat", NULL), 2);
	assert_int_equal(usage("programs", "moat=1"), 2);
	assert_int_equal(usage("programs", "denied"), 2);
	assert_int_equal(usage("programs", NULL), 0);
	assert_int_equal(usage("programs", "denied=/nonexistent"), 0);
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
