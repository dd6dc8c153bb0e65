// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHER_UID 1987654321

static const pid_t no_pid = 0x3fffffff; /* above what a kernel gives */

/* A child that runs fn. It ends with the thread that started it, so that ending a tree's root ends
 * the tree without trusting the list under test. */
static pid_t start(void (*fn)(void))
{
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void wait_for_signal(void)
{
	for (;;)
		pause();
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void exe_5_a_pidfd_names_one_process(void **state)
{
	const pid_t pid = start(wait_for_signal);
	cleanup_fd int fd = proc_pidfd(pid);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int status;

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(proc_pidfd_pid(fd), pid);
	assert_int_equal(proc_ppid(pid), getpid());
	assert_int_equal(proc_pidfd_signal(fd, 0), 0);
	assert_false(proc_ending(pid));
	assert_int_equal(proc_pidfd_signal(fd, SIGKILL), 0);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_true(proc_ending(pid));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(proc_ending(pid));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_int_equal(proc_pidfd_pid(fd), -1);
	assert_int_equal(proc_pidfd_signal(fd, SIGKILL), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(proc_ppid(no_pid), -1);
	assert_int_equal(proc_pidfd(no_pid), -1);
	assert_int_equal(proc_pidfd_pid(STDERR_FILENO), -1);
	assert_int_equal(proc_pidfd_pid(-1), -1);
}

static void other_user(void)
{
	ensure(geteuid() != 0 || setresuid(OTHER_UID, OTHER_UID, OTHER_UID) == 0);
	raise(SIGSTOP);
}

static void sbx_6_a_zombie_does_not_use_its_user_id(void **state)
{
	const pid_t pid = start(other_user);
	siginfo_t si;
	int status;

	(void)state;
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(proc_uid_lives(geteuid() != 0 ? geteuid() : OTHER_UID));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
	assert_false(geteuid() == 0 && proc_uid_lives(OTHER_UID));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(proc_uid_lives(OTHER_UID));
}

static void odd_name(void)
{
	prctl(PR_SET_NAME, "a) S 1 (b)");
	raise(SIGSTOP);
}

static void exe_5_names_with_brackets_do_not_confuse(void **state)
{
	const pid_t pid = start(odd_name);
	struct proc_stat p, mine;
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_int_equal(proc_ppid(pid), getpid());
	assert_int_equal(proc_stat(pid, &p), 0);
	assert_string_equal(p.name, "a) S 1 (b)");
	assert_int_equal(p.state, 'T');
	assert_int_equal(p.threads, 1);
	assert_in_range(p.pages, 1, 1 << 20);
	assert_int_equal(proc_stat(getpid(), &mine), 0);
	assert_int_equal(mine.state, 'R');
	assert_in_range(p.start, mine.start, mine.start + 6000);
	end(pid);
}

static void pol_4_an_executable_is_known_by_its_inode(void **state)
{
	struct stat st;

	assert_int_equal(stat("/proc/self/exe", &st), 0);
	assert_int_equal(proc_exe_is(getpid(), st.st_dev, st.st_ino), 1);
	assert_int_equal(proc_exe_is(getpid(), st.st_dev, st.st_ino + 1), 0);
	assert_int_equal(proc_exe_is(getpid(), st.st_dev + 1, st.st_ino), 0);
	assert_int_equal(proc_exe_is(no_pid, st.st_dev, st.st_ino), -1);
	assert_int_equal(errno, ENOENT);
}

static int ready[2]; /* children write one byte when their tree stands */

static void tell(void)
{
	assert_int_equal(write(ready[1], "x", 1), 1);
}

static void hear(int n)
{
	char c;

	for (; n > 0; n--)
		assert_int_equal(read(ready[0], &c, 1), 1);
}

static bool among(const pid_t *v, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == pid)
			return true;
	return false;
}

static void leaf(void)
{
	tell();
	wait_for_signal();
}

static void branch(void)
{
	start(leaf);
	start(leaf);
	wait_for_signal();
}

static void zombie_parent(void)
{
	const pid_t pid = fork();
	siginfo_t info;

	if (pid == 0)
		_exit(0);
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	start(branch);
	wait_for_signal();
}

static void exe_5_descendants_are_all_found_and_zombies_are_not(void **state)
{
	const pid_t pid = start(zombie_parent);
	cleanup_free pid_t *v = NULL, *none = NULL, *children = NULL, *alone = NULL;
	size_t n;

	hear(2);
	n = proc_descendants(pid, &v);
	assert_int_equal(n, 3); /* the branch and its two leaves, not the zombie */
	assert_false(among(v, n, pid));
	assert_int_equal(proc_ppid(v[0]), pid);
	assert_int_equal(proc_ppid(v[1]), v[0]);
	assert_int_equal(proc_ppid(v[2]), v[0]);
	assert_int_equal(proc_children(pid, &children), 2); /* the branch and the zombie */
	assert_true(among(children, 2, v[0]));
	assert_int_equal(proc_children(v[1], &alone), 0);
	end(pid);
	assert_int_equal(proc_descendants(no_pid, &none), 0);
}

static void *thread_forks(void *arg)
{
	start(leaf);
	if (arg != NULL)
		pthread_join(*(pthread_t *)arg, NULL);
	wait_for_signal();
	return NULL;
}

static void forks_in_a_thread(void)
{
	pthread_t t;

	pthread_create(&t, NULL, thread_forks, NULL);
	wait_for_signal();
}

/* The leader of the group ends, another thread goes on and forks: the process reads as a zombie. */
static void leader_ends(void)
{
	static pthread_t leader;
	pthread_t t;

	leader = pthread_self();
	pthread_create(&t, NULL, thread_forks, &leader);
	pthread_exit(NULL);
}

static void leader_ends_below(void)
{
	start(leader_ends);
	wait_for_signal();
}

static void exe_5_children_of_threads_are_found(void **state)
{
	const pid_t pid = start(forks_in_a_thread);
	cleanup_free pid_t *v = NULL;

	hear(1);
	assert_int_equal(proc_descendants(pid, &v), 1);
	end(pid);
}

static void sbx_6_a_process_without_its_leader_cannot_hide(void **state)
{
	const pid_t pid = start(leader_ends_below);
	cleanup_free pid_t *v = NULL;

	hear(1);
	assert_int_equal(proc_descendants(pid, &v), 2);
	end(pid);
}

#define MANY 150
static void many_leaves(void)
{
	for (int i = 0; i < MANY; i++)
		start(leaf);
	wait_for_signal();
}

static void exe_5_many_children(void **state)
{
	const pid_t pid = start(many_leaves);
	cleanup_free pid_t *v = NULL;
	size_t n;

	hear(MANY);
	n = proc_descendants(pid, &v);
	assert_int_equal(n, MANY);
	for (size_t i = 0; i < n; i++)
		assert_false(among(v, i, v[i]));
	end(pid);
}

static void ses_6_command_lines_are_one_line(void **state)
{
	char text[64], cut[8], one[1];
	int status;
	pid_t pid;

	proc_cmdline(getpid(), text, sizeof(text));
	assert_non_null(strstr(text, "unit-base-proc_test"));
	proc_cmdline(no_pid, text, sizeof(text));
	assert_string_equal(text, "");

	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "name", "stop", "a\nb\x7f\x1f ~", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	proc_cmdline(pid, text, sizeof(text));
	assert_string_equal(text, "name stop a?b?? ~");
	proc_cmdline(pid, cut, sizeof(cut));
	assert_string_equal(cut, "name st");
	proc_cmdline(pid, one, sizeof(one));
	assert_string_equal(one, "");
	end(pid);
}

static void named_zombie(void)
{
	prctl(PR_SET_NAME, "ghost");
}

static void ses_6_a_zombie_has_its_name(void **state)
{
	const pid_t pid = start(named_zombie);
	char text[64], cut[4];
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	proc_cmdline(pid, text, sizeof(text));
	assert_string_equal(text, "[ghost]");
	proc_cmdline(pid, cut, sizeof(cut));
	assert_string_equal(cut, "[gh");
	end(pid);
}

static void cli_1_siblings_are_found_beside_us(void **state)
{
	const char *dir = proc_self_dir();
	cleanup_free char *path = NULL, *want = mem_printf("%s/unit-base-proc_test", dir);
	struct err err = {0};

	assert_int_equal(dir[0], '/');
	assert_true(dir[strlen(dir) - 1] != '/');
	assert_ptr_equal(proc_self_dir(), dir);
	assert_int_equal(proc_sibling("unit-base-proc_test", &path, &err), 0);
	assert_string_equal(path, want);
	assert_int_equal(proc_sibling("no-such-program", &path, &err), -E_UNAVAILABLE);
	assert_string_equal(path, want);
	assert_string_equal(err.subject, "no-such-program");
	assert_non_null(strstr(err.message, dir));
	assert_non_null(strstr(err.message, AGENTSH_LIBEXECDIR));
}

static void exe_5_signals_have_names(void **state)
{
	assert_string_equal(proc_signal_name(SIGKILL), "KILL");
	assert_string_equal(proc_signal_name(SIGHUP), "HUP");
	assert_string_equal(proc_signal_name(31), "SYS");
	assert_string_equal(proc_signal_name(SIGRTMIN), "RTMIN");
	assert_string_equal(proc_signal_name(SIGRTMIN + 1), "RTMIN+1");
	assert_string_equal(proc_signal_name(SIGRTMIN + 15), "RTMIN+15");
	assert_string_equal(proc_signal_name(SIGRTMAX - 14), "RTMAX-14");
	assert_string_equal(proc_signal_name(SIGRTMAX), "RTMAX");
	assert_null(proc_signal_name(0));
	assert_null(proc_signal_name(-1));
	assert_null(proc_signal_name(32));
	assert_null(proc_signal_name(33));
	assert_null(proc_signal_name(65));
	for (int sig = 1; sig < 65; sig++)
		if (proc_signal_name(sig) != NULL)
			assert_int_equal(proc_signal_by_name(proc_signal_name(sig)), sig);
}

static void exe_5_signals_are_found_by_name_and_number(void **state)
{
	assert_int_equal(proc_signal_by_name("TERM"), SIGTERM);
	assert_int_equal(proc_signal_by_name("SIGTERM"), SIGTERM);
	assert_int_equal(proc_signal_by_name("sigterm"), SIGTERM);
	assert_int_equal(proc_signal_by_name("15"), SIGTERM);
	assert_int_equal(proc_signal_by_name("1"), 1);
	assert_int_equal(proc_signal_by_name("64"), 64);
	assert_int_equal(proc_signal_by_name("65"), -1);
	assert_int_equal(proc_signal_by_name("0"), -1);
	assert_int_equal(proc_signal_by_name("-9"), -1);
	assert_int_equal(proc_signal_by_name("9x"), -1);
	assert_int_equal(proc_signal_by_name("4294967305"), -1);
	assert_int_equal(proc_signal_by_name(""), -1);
	assert_int_equal(proc_signal_by_name("SIG"), -1);
	assert_int_equal(proc_signal_by_name("SIGNOPE"), -1);
	assert_int_equal(proc_signal_by_name("SIGSIGTERM"), -1);
	assert_int_equal(proc_signal_by_name(" TERM"), -1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_5_a_pidfd_names_one_process),
		cmocka_unit_test(exe_5_names_with_brackets_do_not_confuse),
		cmocka_unit_test(sbx_6_a_zombie_does_not_use_its_user_id),
		cmocka_unit_test(pol_4_an_executable_is_known_by_its_inode),
		cmocka_unit_test(exe_5_descendants_are_all_found_and_zombies_are_not),
		cmocka_unit_test(exe_5_children_of_threads_are_found),
		cmocka_unit_test(sbx_6_a_process_without_its_leader_cannot_hide),
		cmocka_unit_test(exe_5_many_children),
		cmocka_unit_test(ses_6_command_lines_are_one_line),
		cmocka_unit_test(ses_6_a_zombie_has_its_name),
		cmocka_unit_test(cli_1_siblings_are_found_beside_us),
		cmocka_unit_test(exe_5_signals_have_names),
		cmocka_unit_test(exe_5_signals_are_found_by_name_and_number),
	};

	/* The process whose command line a test reads. */
	if (argc > 1 && strcmp(argv[1], "stop") == 0)
		return raise(SIGSTOP);
	if (pipe2(ready, O_CLOEXEC) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
