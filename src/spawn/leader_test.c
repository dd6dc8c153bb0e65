// SPDX-License-Identifier: Apache-2.0
/* Leaders of a real session made by root: what a command starts with, and how its end is reported.
 */
#include "base/mem.h"
#include "base/proc.h"
#include "spawn/testkit/init_testkit.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void exe_4_only_three_descriptors_reach_the_command(void **state)
{
	box_expect(box_session_of(state), "ls /proc/self/fd", "0\n1\n2\n3\n");
}

static void exe_4_signals_reach_the_command_in_their_default(void **state)
{
	box_expect(box_session_of(state), "cat /proc/self/status | grep -E '^Sig(Blk|Ign|Cgt):'",
		   "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:"
		   "\t0000000000000000\n");
}

static void exe_4_umask_cwd_and_argv0_are_as_asked(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;

	box_ask(&ask, "echo $0 $(umask) $(pwd)");
	free(ask.argv.v[0]);
	ask.argv.v[0] = mem_strdup("-odd");
	free(ask.cwd);
	ask.cwd = mem_strdup("/usr");
	ask.umask = 0137;
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	box_read_all(&run);
	assert_string_equal(run.text.data, "-odd 0137 /usr\n");
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void exe_4_null_stdio_hears_and_says_nothing(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;

	box_ask(&ask, "echo lost; read x || exit 3");
	ask.stdio = SPAWN_NULL;
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(WEXITSTATUS(run.exit.status), 3);
	box_read_all(&run);
	assert_int_equal(run.text.len, 0);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void expect_failure(struct box_session *s, struct init_spawn *ask, enum spawn_stage stage,
			   int errnum)
{
	struct box_run run;

	assert_int_equal(box_spawn(s, ask, &run), MSG_leader_failed);
	assert_int_equal(run.failed.stage, stage);
	assert_int_equal(run.failed.errnum, errnum);
	box_expect_eof(&run);
	box_run_done(&run);
	msg_done(MSG_init_spawn, ask);
}

static void exe_8_a_failed_start_names_its_stage(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;

	box_ask(&ask, "");
	free(ask.cwd);
	ask.cwd = mem_strdup("/workspace/none");
	expect_failure(s, &ask, SPAWN_STAGE_CWD, ENOENT);

	box_ask(&ask, "");
	ask.stdio = SPAWN_PTY;
	expect_failure(s, &ask, SPAWN_STAGE_STDIO, ENOTSUP);

	box_ask(&ask, "");
	strv_done(&ask.argv);
	expect_failure(s, &ask, SPAWN_STAGE_EXEC, EINVAL);
}

static void exe_1_the_end_carries_status_and_counters(void **state)
{
	struct box_session *s = box_session_of(state);
	struct box_run run;

	assert_int_equal(
		box_script(s, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 42", &run),
		42 << 8);
	assert_int_equal(run.exit.empty, 1);
	assert_in_range(run.exit.cpu_us, 10000, 10000000);
	assert_in_range(run.exit.maxrss_kb, 500, 100000);
	box_run_done(&run);

	assert_int_equal(box_script(s,
				    "head -c 3000000 /dev/urandom > f; sync f; rm f; kill -KILL $$",
				    &run),
			 SIGKILL);
	assert_in_range(run.exit.write_bytes, 3000000, 4000000);
	box_run_done(&run);
}

/* EXE-5: what a command leaves behind belongs to its leader, which leaves when the last one has
 * gone. */
static void exe_5_orphans_stay_with_their_leader(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;
	pid_t *left;

	box_ask(&ask, "(setsid sh -c 'read x; exit 1' <&3 &) 3<&0; exit 5");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	msg_done(MSG_init_spawn, &ask);
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 5 << 8);
	assert_int_equal(run.exit.empty, 0);
	assert_int_equal(proc_descendants(run.leader_pid, &left), 1);
	assert_int_equal(proc_ppid(left[0]), run.leader_pid);
	assert_int_equal(proc_ppid(run.leader_pid), s->pid);
	free(left);

	close(take_fd(run.in));
	box_recv_exit(&run, MSG_leader_empty);
	assert_int_equal(run.exit.status, 5 << 8);
	assert_int_equal(run.exit.empty, 1);
	box_run_done(&run);
}

static unsigned count_files(pid_t pid)
{
	cleanup_free char *path = mem_printf("/proc/%d/fd", (int)pid);
	DIR *d = opendir(path);
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* EXE-1: an idle leader takes the next command; what it counts is that command's alone. */
static void exe_1_a_leader_leads_again(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;
	unsigned files;
	pid_t leader;

	box_ask(&ask,
		"(exec >&- 2>&-; read x) <&3 & head -c 30000000 /dev/zero | tail -n 1 >f; rm f;"
		"sleep 0.1; kill $!; umask 0; exit 7");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	leader = run.leader_pid;
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 7 << 8);
	assert_true(run.exit.maxrss_kb > 20000);
	if (run.exit.empty == 0)
		box_recv_exit(&run, MSG_leader_empty);
	msg_done(MSG_init_spawn, &ask);

	box_ask(&ask, "umask");
	files = count_files(leader);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_started);
		assert_int_equal(run.leader_pid, leader);
		box_read_all(&run);
		assert_string_equal(run.text.data, "0022\n");
		box_recv_exit(&run, MSG_leader_exit);
		assert_int_equal(run.exit.status, 0);
		assert_int_equal(run.exit.empty, 1);
		assert_in_range(run.exit.maxrss_kb, 500, 20000);
		assert_in_range(run.exit.cpu_us, 1, 10000000);
		assert_int_equal(count_files(leader), files);
	}
	msg_done(MSG_init_spawn, &ask);
	box_run_done(&run);
}

/* EXE-1: a brief command is reported once, at its end; a longer one at its start as well. */
static void exe_1_a_brief_command_is_told_once(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;

	box_ask(&ask, "exit 9");
	ask.brief_ms = 60000;
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_exit);
	assert_int_equal(run.exit.status, 9 << 8);
	assert_int_equal(run.exit.empty, 1);
	assert_true(run.leader_pid > 1);
	msg_done(MSG_init_spawn, &ask);

	box_ask(&ask, "read x; exit 3");
	ask.brief_ms = 1;
	assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_started);
	assert_true(run.pidfd >= 0);
	assert_int_equal(write(run.in, "go\n", 3), 3);
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 3 << 8);
	msg_done(MSG_init_spawn, &ask);

	/* The first process is over in time, another is not. */
	box_ask(&ask, "exec 3<&0; (exec >&- 2>&-; read x <&3) & exit 4");
	ask.brief_ms = 60000;
	assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_exit);
	assert_int_equal(run.exit.status, 4 << 8);
	assert_int_equal(run.exit.empty, 0);
	close(take_fd(run.in));
	box_recv_exit(&run, MSG_leader_empty);
	msg_done(MSG_init_spawn, &ask);
	box_run_done(&run);
}

/* EXE-8: the warden has searched for the program; the leader tries one file. */
static void exe_8_one_file_is_tried(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;

	static const struct {
		const char *path;
		int errnum;
	} rows[] = {{"sh", ENOENT},
		    {"/bin/no-such-program", ENOENT},
		    {"/etc/passwd", EACCES},
		    {"odd", ENOEXEC},
		    {"", EINVAL}};

	box_expect(s, "echo 'echo script' > odd; chmod 755 odd", "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		box_ask(&ask, "echo found");
		free(ask.path);
		ask.path = mem_strdup(rows[i].path);
		expect_failure(s, &ask, SPAWN_STAGE_EXEC, rows[i].errnum);
	}
	box_expect(s, "rm odd", "");
}

/* POL-4: the descriptor is executed, whatever the path is. */
static void pol_4_a_program_comes_as_a_descriptor(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_fd int program = openat(s->root_fd, "usr/bin/env", O_RDONLY | O_CLOEXEC);
	struct init_spawn ask;
	struct box_run run;
	unsigned files;

	assert_true(program >= 0);
	box_ask(&ask, "");
	strv_done(&ask.argv);
	strv_add(&ask.argv, "any");
	strv_add(&ask.argv, "readlink");
	strv_add(&ask.argv, "/proc/self/exe");
	free(ask.path);
	ask.path = mem_strdup("/nowhere");
	box_program = program;
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	box_read_all(&run);
	assert_string_equal(run.text.data, "/usr/bin/readlink\n");
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 0);
	files = count_files(run.leader_pid);
	assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_started);
	box_read_all(&run);
	assert_string_equal(run.text.data, "/usr/bin/readlink\n");
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(count_files(run.leader_pid), files);
	box_program = -1;
	assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_failed);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void exe_5_a_command_does_not_hit_its_leader_with_kill_0(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;

	box_ask(&ask, "kill -KILL 0");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, SIGKILL);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

/* The leader keeps no copy of the command's pipes. */
static void exe_6_output_ends_with_the_command_that_closes_it(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;

	box_ask(&ask, "exec >&- 2>&-; read x; exit 4");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	box_read_all(&run);
	assert_int_equal(run.text.len, 0);
	assert_int_equal(write(run.in, "go\n", 3), 3);
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 4 << 8);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void ses_8_a_leader_leaves_when_its_link_closes(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_fd int pidfd = -1;
	struct init_spawn ask;
	struct box_run run;

	box_ask(&ask, "read x");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	pidfd = proc_pidfd(run.leader_pid);
	assert_true(pidfd >= 0);
	link_done(&run.leader);
	assert_int_equal(poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, 10000), 1);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

/* The system call that a process sleeps in; -1: it does not. */
static long sleeps_in(pid_t pid)
{
	char path[64], text[256] = "";
	long nr = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	if (fgets(text, sizeof(text), f) != NULL)
		sscanf(text, "%ld ", &nr);
	fclose(f);
	return nr;
}

/* Runs commands until the leader has cloned the process of the next one, which it does where the
 * processors are not busy. That process, which sleeps. */
static pid_t wait_for_waiting(struct box_run *run)
{
	struct init_spawn ask;
	pid_t *below = NULL, pid = 0;

	for (int tries = 0; pid == 0; tries++) {
		long nr;

		assert_true(tries < 1000);
		while ((nr = sleeps_in(run->leader_pid)) != SYS_futex && nr != SYS_recvmsg)
			sched_yield();
		if (nr == SYS_futex) {
			assert_int_equal(proc_descendants(run->leader_pid, &below), 1);
			pid = below[0];
			free(below);
			while (sleeps_in(pid) != SYS_poll)
				sched_yield();
			break;
		}
		box_ask(&ask, "true");
		assert_int_equal(box_spawn_again(&ask, run), MSG_leader_started);
		box_recv_exit(run, MSG_leader_exit);
		box_read_all(run);
		msg_done(MSG_init_spawn, &ask);
	}
	return pid;
}

static void open_leader(struct box_session *s, struct box_run *run)
{
	struct init_spawn ask;

	box_ask(&ask, "true");
	assert_int_equal(box_spawn(s, &ask, run), MSG_leader_started);
	box_recv_exit(run, MSG_leader_exit);
	box_read_all(run);
	msg_done(MSG_init_spawn, &ask);
}

static void exe_1_a_process_waits_for_the_next_command(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;
	pid_t waiting;

	open_leader(s, &run);
	for (int i = 0; i < 3; i++) {
		waiting = wait_for_waiting(&run);
		box_ask(&ask, "read -r pid a b c pgid sid x < /proc/$$/stat\n"
			      "[ $pid = $pgid ] && [ $pid = $sid ] && echo $(umask) $(pwd)\n"
			      "ls /proc/self/fd; read go");
		free(ask.cwd);
		ask.cwd = mem_strdup("/usr");
		ask.umask = i == 0 ? 0137 : 022;
		assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_started);
		assert_int_equal(proc_pidfd_pid(run.pidfd), waiting);
		assert_int_equal(write(run.in, "\n", 1), 1);
		box_read_all(&run);
		assert_string_equal(run.text.data,
				    i == 0 ? "0137 /usr\n0\n1\n2\n3\n" : "0022 /usr\n0\n1\n2\n3\n");
		box_recv_exit(&run, MSG_leader_exit);
		assert_int_equal(run.exit.status, 0);
		msg_done(MSG_init_spawn, &ask);
	}
	box_run_done(&run);
}

static void exe_5_a_killed_waiting_process_is_replaced(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;

	open_leader(s, &run);
	for (int i = 0; i < 3; i++) {
		const pid_t waiting = wait_for_waiting(&run);

		assert_int_equal(kill(waiting, SIGKILL), 0);
		box_ask(&ask, "exit 3");
		assert_int_equal(box_spawn_again(&ask, &run), MSG_leader_started);
		assert_int_not_equal(proc_pidfd_pid(run.pidfd), waiting);
		box_recv_exit(&run, MSG_leader_exit);
		assert_int_equal(WEXITSTATUS(run.exit.status), 3);
		box_read_all(&run);
		msg_done(MSG_init_spawn, &ask);
	}
	box_run_done(&run);
}

/* Neither the death of a leader nor the end of its link leaves a process that waits. */
static void ses_8_a_waiting_process_goes_with_its_leader(void **state)
{
	struct box_session *s = box_session_of(state);

	for (int i = 0; i < 2; i++) {
		cleanup_fd int pidfd = -1;
		struct box_run run;

		open_leader(s, &run);
		pidfd = proc_pidfd(wait_for_waiting(&run));
		assert_true(pidfd >= 0);
		if (i == 0) {
			assert_int_equal(kill(run.leader_pid, SIGKILL), 0);
			box_expect_eof(&run);
		} else {
			link_done(&run.leader);
		}
		assert_int_equal(poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, 10000), 1);
		box_run_done(&run);
	}
}

/* Ends every leader that waits; only init is left. */
static void kill_spares(struct box_session *s)
{
	pid_t *waiting;
	size_t n = proc_descendants(s->pid, &waiting);

	for (size_t i = 0; i < n; i++) {
		cleanup_fd int pidfd = proc_pidfd(waiting[i]);

		if (pidfd >= 0 && proc_pidfd_signal(pidfd, SIGKILL) == 0)
			poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, -1);
	}
	free(waiting);
}

/* A command may kill every process of its uid; init, which it cannot kill, forks the next leader
 * all the same. */
static void exe_5_a_killed_spare_leader_is_replaced(void **state)
{
	struct box_session *s = box_session_of(state);
	pid_t *waiting;

	box_expect(s, "kill -KILL 1; echo alive", "alive\n");
	/* The spare one, and leaders that are about to leave. */
	assert_in_range(proc_descendants(s->pid, &waiting), 0, 3);
	free(waiting);
	kill_spares(s);
	box_expect(s, "echo alive", "alive\n");
}

/* Sets how many processes the session's uid may have when init forks; done by that uid, which needs
 * no capability for it. */
static void limit_processes(const struct box_session *s, rlim_t soft)
{
	struct rlimit limit;
	int status;
	pid_t pid;

	assert_int_equal(getrlimit(RLIMIT_NPROC, &limit), 0);
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	pid = fork();
	if (pid == 0)
		_exit(setresgid(BOX_SESSION_UID, BOX_SESSION_UID, BOX_SESSION_UID) < 0 ||
		      setresuid(BOX_SESSION_UID, BOX_SESSION_UID, BOX_SESSION_UID) < 0 ||
		      prlimit(s->pid, RLIMIT_NPROC, &limit, NULL) < 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void exe_8_without_processes_a_start_fails_until_there_are_some(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;

	limit_processes(s, 0);
	kill_spares(s);
	box_ask(&ask, "");
	expect_failure(s, &ask, SPAWN_STAGE_FORK, EAGAIN);
	box_ask(&ask, "");
	expect_failure(s, &ask, SPAWN_STAGE_FORK, EAGAIN);
	limit_processes(s, RLIM_INFINITY);
	box_expect(s, "echo alive", "alive\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_4_only_three_descriptors_reach_the_command),
		cmocka_unit_test(exe_4_signals_reach_the_command_in_their_default),
		cmocka_unit_test(exe_4_umask_cwd_and_argv0_are_as_asked),
		cmocka_unit_test(exe_4_null_stdio_hears_and_says_nothing),
		cmocka_unit_test(exe_8_a_failed_start_names_its_stage),
		cmocka_unit_test(exe_1_the_end_carries_status_and_counters),
		cmocka_unit_test(exe_5_orphans_stay_with_their_leader),
		cmocka_unit_test(exe_1_a_leader_leads_again),
		cmocka_unit_test(exe_1_a_brief_command_is_told_once),
		cmocka_unit_test(exe_8_one_file_is_tried),
		cmocka_unit_test(pol_4_a_program_comes_as_a_descriptor),
		cmocka_unit_test(exe_5_a_command_does_not_hit_its_leader_with_kill_0),
		cmocka_unit_test(exe_6_output_ends_with_the_command_that_closes_it),
		cmocka_unit_test(ses_8_a_leader_leaves_when_its_link_closes),
		cmocka_unit_test(exe_1_a_process_waits_for_the_next_command),
		cmocka_unit_test(exe_5_a_killed_waiting_process_is_replaced),
		cmocka_unit_test(ses_8_a_waiting_process_goes_with_its_leader),
		cmocka_unit_test(exe_5_a_killed_spare_leader_is_replaced),
		cmocka_unit_test(exe_8_without_processes_a_start_fails_until_there_are_some),
	};

	box_ready = geteuid() == 0 && box_prepare(0) == 0;
	return box_finish(cmocka_run_group_tests(tests, box_group_open, box_group_close));
}
