// SPDX-License-Identifier: Apache-2.0
/* Exec control as a normal user, who does not own the programs of the system: every exec is
 * verified, also of a program that no process can change.
 *
 * A guest here is this program executed again with the name of what it does, so that its memory
 * began with an exec. Its strings are on its stack and heap. */
#include "exec/testkit/exec_testkit.h"
#include <spawn.h>

extern char **environ;

#define SYSTEM "/usr/bin/true" /* neither it nor its directories can be changed by us */

static char self[128]; /* a copy of this program */

enum way { BY_FORK, BY_VFORK, BY_SPAWN };

static int run(enum way way, const char *path)
{
	char name[] = "x", copy[128];
	char *argv[] = {name, NULL};
	pid_t pid = -1;

	snprintf(copy, sizeof(copy), "%s", path);
	if (way == BY_SPAWN) {
		if (posix_spawn(&pid, copy, NULL, NULL, argv, environ) != 0)
			return KIT_NOT_RUN;
	} else {
		pid = way == BY_FORK ? fork() : vfork();
	}
	if (pid == 0) {
		execve(copy, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static int do_plain(void)
{
	return run(BY_FORK, SYSTEM) + run(BY_VFORK, SYSTEM) + run(BY_SPAWN, SYSTEM);
}

static int do_changeable(void)
{
	return run(BY_FORK, kit_path("good"));
}

static int do_relative(void)
{
	return chdir("/usr/bin") == 0 ? run(BY_FORK, "./true") : KIT_BROKEN;
}

static void *sleep_on(void *arg)
{
	while (pause() == -1)
		;
	return arg;
}

static int do_threads(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, sleep_on, NULL) != 0)
		return KIT_BROKEN;
	return run(BY_VFORK, SYSTEM);
}

static int sleep_process(void *arg)
{
	sleep_on(arg);
	return 0;
}

/* A process that shares the memory and does nothing. */
static int do_clone_vm(void)
{
	static char stack[16384] __attribute__((aligned(16)));
	const pid_t pid = clone(sleep_process, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	const int r = run(BY_FORK, SYSTEM);

	kill(pid, SIGKILL);
	return kit_status(pid) == 128 + SIGKILL ? r : KIT_BROKEN;
}

static int do_hidden(void)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return KIT_BROKEN;
	return run(BY_FORK, SYSTEM);
}

static int do_unreadable(void)
{
	return run(BY_FORK, kit_path("sealed"));
}

static int do_loader(void)
{
	char loader[] = "/lib64/ld-linux-x86-64.so.2", program[] = SYSTEM;
	char *argv[] = {loader, program, NULL};
	pid_t pid = fork();

	if (pid == 0) {
		execve(loader, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static int do_script(void)
{
	char script[] = "/usr/bin/ldd", version[] = "--version";
	char *argv[] = {script, version, NULL};
	pid_t pid = fork();

	if (pid == 0) {
		execve(script, argv, environ);
		_exit(KIT_NOT_RUN);
	}
	return kit_status(pid);
}

static const struct {
	const char *name;
	int (*run)(void);
} deeds[] = {
	{"plain", do_plain},	       {"changeable", do_changeable}, {"relative", do_relative},
	{"threads", do_threads},       {"clone_vm", do_clone_vm},     {"hidden", do_hidden},
	{"unreadable", do_unreadable}, {"loader", do_loader},	      {"script", do_script},
};

static int be_guest(const char *name, const char *dir)
{
	snprintf(kit.dir, sizeof(kit.dir), "%s", dir);
	for (size_t i = 0; i < ARRAY_LEN(deeds); i++)
		if (strcmp(deeds[i].name, name) == 0)
			return deeds[i].run();
	return KIT_BROKEN;
}

static int guest_self(void *arg)
{
	char *argv[] = {self, (char *)"guest", arg, kit.dir, NULL};

	execve(self, argv, environ);
	return KIT_BROKEN;
}

/* Runs a deed; record 0 is this program itself. All that follow have this outcome. */
static void check(const char *name, enum gate_outcome want, size_t n)
{
	assert_int_equal(kit_run(guest_self, (void *)(uintptr_t)name),
			 want == GATE_REFUSED ? KIT_NOT_RUN : 0);
	assert_int_equal(kit.nrecords, n + 1);
	assert_int_equal(kit.record[0].outcome, GATE_DONE);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(kit.record[i + 1].outcome, want);
}

/* Also a program that is remembered. */
static void pol_4_every_exec_is_verified(void **state)
{
	check("plain", GATE_DONE, 3);
	assert_string_equal(kit.record[3].path, SYSTEM);
	check("script", GATE_DONE, 1);
	check("loader", GATE_DONE, 1);
	check("changeable", GATE_DONE, 1);
	check("relative", GATE_DONE, 1);
	check("threads", GATE_DONE, 1);
	check("clone_vm", GATE_DONE, 1);
}

static void pol_4_what_cannot_be_read_is_refused(void **state)
{
	kit_copy("/usr/bin/true", "sealed", 0111);
	check("hidden", GATE_REFUSED, 1);
	check("unreadable", GATE_REFUSED, 1);
	assert_string_equal(kit.record[1].argv, "");
}

static int prepare(void **state)
{
	if (kit_prepare(state) < 0)
		return -1;
	snprintf(self, sizeof(self), "%s", kit_path("self"));
	kit_copy("/proc/self/exe", "self", 0755);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		KIT_BOTH(pol_4_every_exec_is_verified),
		KIT_BOTH(pol_4_what_cannot_be_read_is_refused),
	};

	if (argc == 4 && strcmp(argv[1], "guest") == 0)
		return be_guest(argv[2], argv[3]);
	if (kit_become_user() < 0)
		return 1;
	return cmocka_run_group_tests(tests, prepare, kit_clean);
}
