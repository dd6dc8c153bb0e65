// SPDX-License-Identifier: Apache-2.0
/* Trees of real processes below a subreaper, as a leader is one. */
#include "base/mem.h"
#include "base/proc.h"
#include "base/process_tree.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A leader that runs a script as its child and exits when it has no child. Returns when the script
 * has written a byte. */
static struct tree_root lead(const char *script)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		if (fork() == 0) {
			dup2(ready[1], 1);
			execl("/bin/sh", "sh", "-c", script, (char *)NULL);
			_exit(1);
		}
		close(ready[1]);
		while (wait(NULL) > 0 || errno == EINTR)
			;
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return (struct tree_root){pid, proc_pidfd(pid)};
}

/* A busy machine needs rounds, a tree that escapes needs them for ever. */
static void expect_end(struct tree_root leader)
{
	struct pollfd p = {leader.pidfd, POLLIN, 0};
	unsigned rounds = 0;

	do {
		tree_kill_round(&leader);
		assert_true(++rounds < 500);
	} while (poll(&p, 1, 20) == 0);
	assert_int_equal(waitpid(leader.pid, NULL, 0), leader.pid);
	close(leader.pidfd);
}

/* EXE-4: sessions of their own, double forks, ignored signals, stopped processes. */
static void exe_4_nothing_escapes(void **state)
{
	static const char *const scripts[] = {
		"echo; sleep 30",
		"trap '' TERM INT HUP; (trap '' TERM; sleep 30) & echo; sleep 30",
		"setsid sleep 30 & (setsid sh -c 'sleep 30 & sleep 30' &) ; echo; sleep 30",
		"sleep 30 & kill -STOP $!; echo; kill -STOP $$",
		"(sleep 30 & sleep 30 &) ; echo",
	};

	for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
		expect_end(lead(scripts[i]));
}

/* EXE-4: a tree that forks all the time. */
static void exe_4_a_storm_ends(void **state)
{
	expect_end(lead(
		"echo; while :; do (setsid sh -c 'sleep 30 & sleep 30' &) ; sleep 0.01; done"));
	/* Each process of six generations starts two. */
	expect_end(lead("f() { if [ $1 -gt 0 ]; then (f $(($1-1)) &) ; (f $(($1-1)) &) ; fi; sleep "
			"30; }; "
			"echo; f 6"));
}

static void exe_4_an_empty_tree(void **state)
{
	const struct tree_root leader = lead("echo; sleep 0.1");

	assert_int_equal(waitpid(leader.pid, NULL, 0), leader.pid);
	assert_int_equal(tree_kill_round(&leader), 0);
	tree_signal(&leader, SIGTERM);
	close(leader.pidfd);
}

/* EXE-4: the pid of a dead leader that another process has now has no tree. */
static void exe_4_a_dead_leaders_tree_is_nobodys(void **state)
{
	const struct tree_root dead = lead("echo"), other = lead("echo; sleep 30");
	const struct tree_root mixed = {other.pid, dead.pidfd};
	struct strv list = {0};

	assert_int_equal(waitpid(dead.pid, NULL, 0), dead.pid);
	assert_int_equal(tree_kill_round(&mixed), 0);
	tree_list(&mixed, "ended", &list);
	assert_int_equal(list.n, 0);
	close(dead.pidfd);
	expect_end(other);
}

/* EXE-5: one signal to all, and nothing to the leader. */
static void exe_5_a_signal_to_the_tree(void **state)
{
	const struct tree_root leader =
		lead("sleep 30 & (trap 'exit 0' USR1; echo; while :; do sleep 0.01; done)");
	struct strv list = {0};
	int status;

	tree_list(&leader, "ended", &list);
	assert_true(list.n >= 2);
	for (size_t i = 0; i < list.n; i++)
		assert_memory_equal(list.v[i], "ended ", 6);
	tree_signal(&leader, SIGUSR1);
	assert_int_equal(waitpid(leader.pid, &status, 0), leader.pid);
	assert_int_equal(status, 0);
	close(leader.pidfd);
	strv_done(&list);
}

/* SES-6: each process is named with pid and text; a long list is cut. */
static void ses_6_the_list_is_cut(void **state)
{
	const struct tree_root leader =
		lead("i=0; while [ $i -lt 101 ]; do sleep 30 & i=$((i+1)); done; echo; sleep 30");
	struct strv list = {0};
	unsigned sleeping = 0;

	/* The shell, its last child and 101 others, once all of them are what they will be. */
	for (int i = 0; i < 1000 && (list.n <= 100 || sleeping < 99 ||
				     strcmp(list.v[100], "kept 0 and 3 more") != 0);
	     i++) {
		poll(NULL, 0, i > 0 ? 10 : 0);
		strv_done(&list);
		tree_list(&leader, "kept", &list);
		sleeping = 0;
		for (size_t k = 0; k < list.n; k++)
			sleeping += strstr(list.v[k], " sleep 30") != NULL;
	}
	assert_int_equal(list.n, 101);
	assert_string_equal(list.v[100], "kept 0 and 3 more");
	assert_true(sleeping >= 99);
	strv_done(&list);
	expect_end(leader);
}

/* EXE-4: a process ends what is below it, orphans of sessions of their own too. */
static void exe_4_a_subreaper_ends_its_own(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int ready[2];
		char c;

		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		if (pipe2(ready, O_CLOEXEC) < 0)
			_exit(2);
		if (fork() == 0) {
			dup2(ready[1], 1);
			execl("/bin/sh", "sh", "-c",
			      "(setsid sh -c 'trap \"\" TERM; echo; sleep 60' &) ; sleep 60",
			      (char *)NULL);
			_exit(2);
		}
		if (read(ready[0], &c, 1) != 1 || !tree_end_own(20000, 0))
			_exit(2);
		/* they are zombies now, every one of them ours; the shell that left the other
		 * behind may have ended by itself */
		while (wait(&status) > 0)
			if (status != 0 && status != SIGKILL)
				_exit(3);
		_exit(errno == ECHILD && tree_end_own(0, 0) ? 0 : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* It runs as soon as it can, before us on the one processor: killed, it is dead at once. Without
 * the right to do so it dies a little later. */
static _Noreturn void be_swift(void)
{
	const struct sched_param first = {.sched_priority = 1};

	sched_setscheduler(0, SCHED_FIFO, &first);
	for (;;)
		pause();
}

/* EXE-4: what was killed may be dead before the next look. */
static void exe_4_children_that_die_at_once(void **state)
{
	cpu_set_t all, one;
	int status;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (int i = 0; i < 5; i++) {
		const pid_t pid = fork();

		if (pid == 0)
			be_swift();
		sched_yield();
		assert_true(tree_end_own(20000, 0));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, SIGKILL);
	}
	sched_setaffinity(0, sizeof(all), &all);
}

/* SES-8: a process waits for the end of processes that another one ends, without reaping them. */
static void ses_8_the_end_is_awaited_and_the_dead_are_gone(void **state)
{
	struct sigaction before;
	pid_t pid;

	assert_int_equal(sigaction(SIGCHLD, NULL, &before), 0);
	assert_true(tree_await_own(0));
	pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	assert_false(tree_await_own(0));
	assert_false(tree_await_own(30));
	tree_leave_dead();
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(tree_await_own(20000));
	assert_int_equal(waitpid(pid, NULL, 0), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_4_nothing_escapes),
		cmocka_unit_test(exe_4_a_storm_ends),
		cmocka_unit_test(exe_4_an_empty_tree),
		cmocka_unit_test(exe_4_a_dead_leaders_tree_is_nobodys),
		cmocka_unit_test(exe_5_a_signal_to_the_tree),
		cmocka_unit_test(ses_6_the_list_is_cut),
		cmocka_unit_test(exe_4_a_subreaper_ends_its_own),
		cmocka_unit_test(exe_4_children_that_die_at_once),
		cmocka_unit_test(ses_8_the_end_is_awaited_and_the_dead_are_gone),
	};

	return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
