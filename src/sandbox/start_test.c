// SPDX-License-Identifier: Apache-2.0
/* A real session made by root: namespaces, mounts, identity, leaders. */
#include "sandbox/start_testkit.h"
#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>

#define UID 64999

static bool ready;

static struct kit_session *session(void **state)
{
	if (!ready) {
		print_message("# skipped: not root, or agentsh-init and agentsh-state are not "
			      "built beside the test \n");
		skip();
	}
	return *state;
}

static int open_session(void **state)
{
	struct kit_session *s;

	if (!ready)
		return 0;
	s = mem_new(struct kit_session);
	kit_plan(&s->plan, UID, true);
	s->plan.idmap = 1;
	kit_open(s, 0);
	*state = s;
	return 0;
}

static int close_session(void **state)
{
	if (!ready)
		return 0;
	kit_close(*state);
	free(*state);
	return 0;
}

static void sbx_1_walls_are_reported_by_who_raised_them(void **state)
{
	const struct kit_session *s = session(state);
	static const struct {
		enum wall wall;
		enum wall_state state;
	} rows[] = {
		{WALL_mount_namespace, WALL_UP},    {WALL_pid_namespace, WALL_UP},
		{WALL_ipc_namespace, WALL_UP},	    {WALL_uts_namespace, WALL_UP},
		{WALL_capabilities, WALL_UP},	    {WALL_no_new_privs, WALL_UP},
		{WALL_user_namespace, WALL_ABSENT}, {WALL_net_namespace, WALL_UP},
		{WALL_cgroup_namespace, WALL_UP},   {WALL_seccomp, WALL_UP},
		{WALL_landlock, WALL_UP},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(s->walls.wall[rows[i].wall].state, rows[i].state);
		assert_string_not_equal(s->walls.wall[rows[i].wall].detail, "not asked for");
	}
}

static void sbx_1_pid_1_is_init_and_the_rest_is_out_of_sight(void **state)
{
	struct kit_session *s = session(state);

	cleanup_free char *name = mem_printf("/proc/%d/comm", (int)s->pid);
	cleanup_buf struct buf comm = {0};

	assert_int_equal(fdio_load_path(name, 64, &comm, NULL), 0);
	assert_string_equal(comm.data, "agentsh-init\n");
	/* Neither init nor leaders, which cannot be traced. */
	kit_expect(s, "ls -d /proc/1 2>/dev/null; cat /proc/sys/kernel/hostname", "session-test\n");
	kit_expect(s, KIT_NAMES, "sh\n");
}

static void expect_status(pid_t pid, const char *line)
{
	cleanup_free char *name = mem_printf("/proc/%d/status", (int)pid);
	cleanup_buf struct buf text = {0};

	assert_int_equal(fdio_load_path(name, 1 << 16, &text, NULL), 0);
	assert_non_null(strstr(text.data, line));
}

static void sbx_1_identity_has_no_power(void **state)
{
	struct kit_session *s = session(state);

	kit_expect(
		s, "grep -E '^(Uid|Gid|Groups|Cap.*|NoNewPrivs|Seccomp):' /proc/self/status",
		"Uid:\t64999\t64999\t64999\t64999\nGid:\t64999\t64999\t64999\t64999\nGroups:\t \n"
		"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
		"CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"
		"Seccomp:\t2\n");
	expect_status(s->pid, "Uid:\t64999\t64999\t64999\t64999\n");
	expect_status(s->pid, "CapEff:\t0000000000000000\n");
	expect_status(s->pid, "CapBnd:\t0000000000000000\n");
	expect_status(s->pid, "NoNewPrivs:\t1\n");
	kit_expect(s, "grep 'core file' /proc/self/limits | tr -s ' '",
		   "Max core file size 1 1 bytes \n");
	/* Non-dumpable: nobody with the same uid looks into init or a leader. */
	kit_expect(s, "ls /proc/1/fd /proc/$PPID/fd 2>/dev/null; echo $?", "2\n");
}

static void sbx_1_root_is_read_only_and_scratch_is_not(void **state)
{
	struct kit_session *s = session(state);

	kit_expect(s,
		   "for d in / /usr /etc /bin/ /run /run/agentsh /dev /home /proc/sys/kernel; do "
		   "touch $d/x 2>/dev/null && echo $d; done; "
		   "for d in /tmp /var/tmp /dev/shm $HOME /workspace; do touch $d/x && rm $d/x || "
		   "echo no $d; "
		   "done; stat -c '%a %u %g' /tmp /var/tmp /dev/shm $HOME",
		   "1777 0 0\n1777 0 0\n1777 0 0\n700 64999 64999\n");
	kit_expect(s, "ls -d /sys /root /mnt /srv /boot 2>/dev/null; ls /home /run /run/agentsh",
		   "/home:\nagent\n\n/run:\nagentsh\n\n/run/agentsh:\nbin\nsession\nstate.sock\n");
	kit_expect(s,
		   "grep -E ' /(usr|etc/ld.so.cache|proc/sys|run/agentsh/bin/state) ' "
		   "/proc/self/mounts | "
		   "grep -cE ' ro,nosuid,nodev'",
		   "4\n");
	kit_expect(s, "grep ' /workspace ' /proc/self/mounts | grep -c 'nosuid,nodev'", "1\n");
	kit_expect(
		s,
		"for d in sys irq bus fs; do test ! -e /proc/$d || "
		"grep -q \" /proc/$d proc ro,nosuid\" /proc/self/mounts || echo $d; done; echo end",
		"end\n");
	/* What tells of the machine cannot be opened. */
	kit_expect(s,
		   "for f in kcore keys sysrq-trigger timer_list latency_stats sched_debug; do "
		   "cat /proc/$f 2>/dev/null && echo $f; done; "
		   "for d in scsi acpi; do ls /proc/$d 2>/dev/null && echo $d; done; echo end",
		   "end\n");
	kit_expect(s, "ls /run/agentsh/.scratch 2>/dev/null || echo shut", "shut\n");
	/* The old root is gone. */
	kit_expect(s, "grep -cE ' / ' /proc/self/mounts; ls -A /workspace", "1\n");
}

static void sbx_1_dev_has_its_nodes_and_no_others(void **state)
{
	struct kit_session *s = session(state);

	kit_expect(s, "ls /dev",
		   "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\n"
		   "urandom\nzero\n");
	kit_expect(s,
		   "echo x > /dev/null; head -c 3 /dev/zero | od -An -tx1; head -c 1 /dev/urandom "
		   "| wc -c; "
		   "echo y > /dev/full 2>/dev/null || echo full; ls /dev/pts; cat /dev/stdin < "
		   "/run/agentsh/session",
		   " 00 00 00\n1\nfull\nptmx\nsession-test");
}

static void shm_3_the_proof_and_the_program_are_ours(void **state)
{
	struct kit_session *s = session(state);

	kit_expect(s,
		   "cat /run/agentsh/session; rm -f /run/agentsh/session 2>/dev/null || echo stays",
		   "session-teststays\n");
	kit_expect(s, "echo x > /run/agentsh/bin/state; echo $?",
		   "sh: 1: cannot create /run/agentsh/bin/state: Read-only file system\n2\n");
}

static void ses_3_workspace_files_belong_to_the_owner(void **state)
{
	struct kit_session *s = session(state);
	cleanup_free char *inside = mem_printf("%s/inside", kit_workspace);
	cleanup_free char *outside = mem_printf("%s/outside", kit_workspace);
	struct stat st;
	int fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	kit_expect(s, "umask 027; echo hi > inside; stat -c '%u %g %a' inside outside; pwd",
		   "64999 64999 640\n64999 64999 600\n/workspace\n");
	assert_int_equal(stat(inside, &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_gid, 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	unlink(inside);
	unlink(outside);
}

/* Descriptor n of init as root sees it; "" if there is none. */
static void init_descriptor(const struct kit_session *s, int n, char out[64])
{
	cleanup_free char *path = mem_printf("/proc/%d/fd/%d", (int)s->pid, n);
	const ssize_t len = readlink(path, out, 63);

	out[len > 0 ? len : 0] = '\0';
}

static void sbx_1_init_holds_nothing_of_the_host(void **state)
{
	const struct kit_session *s = session(state);
	char target[64];
	int others = 0;

	for (int n = 0; n <= 2; n++) {
		init_descriptor(s, n, target);
		assert_string_equal(target, "/dev/null");
	}
	for (int n = 3; n < 1024; n++) {
		init_descriptor(s, n, target);
		if (target[0] != '\0' && strncmp(target, "socket:", 7) != 0 &&
		    strncmp(target, "pipe:", 5) != 0)
			fail_msg("descriptor %d of init is %s", n, target);
		others += target[0] != '\0';
	}
	/* The link, and the pipe of the spare leader unless that is being forked right
	 * now. */
	assert_in_range(others, 1, 3);
}

static void exe_4_only_three_descriptors_reach_the_command(void **state)
{
	kit_expect(session(state), "ls /proc/self/fd", "0\n1\n2\n3\n");
}

static void exe_4_signals_reach_the_command_in_their_default(void **state)
{
	kit_expect(session(state), "cat /proc/self/status | grep -E '^Sig(Blk|Ign|Cgt):'",
		   "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:"
		   "\t0000000000000000\n");
}

static void exe_4_umask_cwd_and_argv0_are_as_asked(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;

	kit_ask(&ask, "echo $0 $(umask) $(pwd)");
	free(ask.argv.v[0]);
	ask.argv.v[0] = mem_strdup("-odd");
	free(ask.cwd);
	ask.cwd = mem_strdup("/usr");
	ask.umask = 0137;
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	kit_read_all(&run);
	assert_string_equal(run.text.data, "-odd 0137 /usr\n");
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void exe_4_null_stdio_hears_and_says_nothing(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;

	kit_ask(&ask, "echo lost; read x || exit 3");
	ask.stdio = SPAWN_NULL;
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(WEXITSTATUS(run.exit.status), 3);
	kit_read_all(&run);
	assert_int_equal(run.text.len, 0);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void expect_failure(struct kit_session *s, struct init_spawn *ask, enum spawn_stage stage,
			   int errnum)
{
	struct kit_run run;

	assert_int_equal(kit_spawn(s, ask, &run), MSG_leader_failed);
	assert_int_equal(run.failed.stage, stage);
	assert_int_equal(run.failed.errnum, errnum);
	kit_expect_eof(&run);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, ask);
}

static void exe_8_a_failed_start_names_its_stage(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;

	kit_ask(&ask, "");
	free(ask.cwd);
	ask.cwd = mem_strdup("/workspace/none");
	expect_failure(s, &ask, SPAWN_STAGE_CWD, ENOENT);

	kit_ask(&ask, "");
	ask.stdio = SPAWN_PTY;
	expect_failure(s, &ask, SPAWN_STAGE_STDIO, ENOTSUP);

	kit_ask(&ask, "");
	strv_done(&ask.argv);
	expect_failure(s, &ask, SPAWN_STAGE_EXEC, EINVAL);
}

static void exe_1_the_end_carries_status_and_counters(void **state)
{
	struct kit_session *s = session(state);
	struct kit_run run;

	assert_int_equal(
		kit_script(s, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 42", &run),
		42 << 8);
	assert_int_equal(run.exit.empty, 1);
	assert_in_range(run.exit.cpu_us, 10000, 10000000);
	assert_in_range(run.exit.maxrss_kb, 500, 100000);
	kit_run_done(&run);

	assert_int_equal(kit_script(s,
				    "head -c 3000000 /dev/urandom > f; sync f; rm f; kill -KILL $$",
				    &run),
			 SIGKILL);
	assert_in_range(run.exit.write_bytes, 3000000, 4000000);
	kit_run_done(&run);
}

/* EXE-5: what a command leaves behind belongs to its leader, which leaves when the last one has
 * gone. */
static void exe_5_orphans_stay_with_their_leader(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;
	pid_t *left;

	kit_ask(&ask, "(setsid sh -c 'read x; exit 1' <&3 &) 3<&0; exit 5");
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	msg_done(MSG_init_spawn, &ask);
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 5 << 8);
	assert_int_equal(run.exit.empty, 0);
	assert_int_equal(proc_descendants(run.leader_pid, &left), 1);
	assert_int_equal(proc_ppid(left[0]), run.leader_pid);
	assert_int_equal(proc_ppid(run.leader_pid), s->pid);
	free(left);

	close(take_fd(run.in));
	kit_recv_exit(&run, MSG_leader_empty);
	assert_int_equal(run.exit.status, 5 << 8);
	assert_int_equal(run.exit.empty, 1);
	kit_run_done(&run);
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
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;
	unsigned files;
	pid_t leader;

	kit_ask(&ask,
		"(exec >&- 2>&-; read x) <&3 & head -c 30000000 /dev/zero | tail -n 1 >f; rm f;"
		"sleep 0.1; kill $!; umask 0; exit 7");
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	leader = run.leader_pid;
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 7 << 8);
	assert_true(run.exit.maxrss_kb > 20000);
	if (run.exit.empty == 0)
		kit_recv_exit(&run, MSG_leader_empty);
	msg_done(MSG_init_spawn, &ask);

	kit_ask(&ask, "umask");
	files = count_files(leader);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kit_spawn_again(&ask, &run), MSG_leader_started);
		assert_int_equal(run.leader_pid, leader);
		kit_read_all(&run);
		assert_string_equal(run.text.data, "0022\n");
		kit_recv_exit(&run, MSG_leader_exit);
		assert_int_equal(run.exit.status, 0);
		assert_int_equal(run.exit.empty, 1);
		assert_in_range(run.exit.maxrss_kb, 500, 20000);
		assert_in_range(run.exit.cpu_us, 1, 10000000);
		assert_int_equal(count_files(leader), files);
	}
	msg_done(MSG_init_spawn, &ask);
	kit_run_done(&run);
}

/* EXE-1: a brief command is told once, by its end; a longer one by its start as well. */
static void exe_1_a_brief_command_is_told_once(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;

	kit_ask(&ask, "exit 9");
	ask.brief_ms = 60000;
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_exit);
	assert_int_equal(run.exit.status, 9 << 8);
	assert_int_equal(run.exit.empty, 1);
	assert_true(run.leader_pid > 1);
	msg_done(MSG_init_spawn, &ask);

	kit_ask(&ask, "read x; exit 3");
	ask.brief_ms = 1;
	assert_int_equal(kit_spawn_again(&ask, &run), MSG_leader_started);
	assert_true(run.pidfd >= 0);
	assert_int_equal(write(run.in, "go\n", 3), 3);
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 3 << 8);
	msg_done(MSG_init_spawn, &ask);

	/* The first process is over in time, another is not. */
	kit_ask(&ask, "exec 3<&0; (exec >&- 2>&-; read x <&3) & exit 4");
	ask.brief_ms = 60000;
	assert_int_equal(kit_spawn_again(&ask, &run), MSG_leader_exit);
	assert_int_equal(run.exit.status, 4 << 8);
	assert_int_equal(run.exit.empty, 0);
	close(take_fd(run.in));
	kit_recv_exit(&run, MSG_leader_empty);
	msg_done(MSG_init_spawn, &ask);
	kit_run_done(&run);
}

/* EXE-8: whoever asks has searched; nothing is searched or tried here. */
static void exe_8_one_file_is_tried(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;

	static const struct {
		const char *path;
		int errnum;
	} rows[] = {{"sh", ENOENT},
		    {"/bin/no-such-program", ENOENT},
		    {"/etc/passwd", EACCES},
		    {"odd", ENOEXEC},
		    {"", EINVAL}};

	kit_expect(s, "echo 'echo script' > odd; chmod 755 odd", "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		kit_ask(&ask, "echo found");
		free(ask.path);
		ask.path = mem_strdup(rows[i].path);
		expect_failure(s, &ask, SPAWN_STAGE_EXEC, rows[i].errnum);
	}
	kit_expect(s, "rm odd", "");
}

/* POL-4: a descriptor is what is executed, whatever the path says. */
static void pol_4_a_program_comes_as_a_descriptor(void **state)
{
	struct kit_session *s = session(state);
	cleanup_fd int program = openat(s->root_fd, "usr/bin/env", O_RDONLY | O_CLOEXEC);
	struct init_spawn ask;
	struct kit_run run;
	unsigned files;

	assert_true(program >= 0);
	kit_ask(&ask, "");
	strv_done(&ask.argv);
	strv_add(&ask.argv, "any");
	strv_add(&ask.argv, "readlink");
	strv_add(&ask.argv, "/proc/self/exe");
	free(ask.path);
	ask.path = mem_strdup("/nowhere");
	kit_program = program;
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	kit_read_all(&run);
	assert_string_equal(run.text.data, "/usr/bin/readlink\n");
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 0);
	files = count_files(run.leader_pid);
	assert_int_equal(kit_spawn_again(&ask, &run), MSG_leader_started);
	kit_read_all(&run);
	assert_string_equal(run.text.data, "/usr/bin/readlink\n");
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(count_files(run.leader_pid), files);
	kit_program = -1;
	assert_int_equal(kit_spawn_again(&ask, &run), MSG_leader_failed);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void exe_5_a_command_does_not_hit_its_leader_with_kill_0(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;

	for (uint32_t own = 0; own < 2; own++) {
		kit_ask(&ask, "kill -KILL 0");
		ask.new_session = own;
		assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
		kit_recv_exit(&run, MSG_leader_exit);
		assert_int_equal(run.exit.status, SIGKILL);
		kit_run_done(&run);
		msg_done(MSG_init_spawn, &ask);
	}
}

/* The leader keeps no copy of the command's pipes. */
static void exe_6_output_ends_with_the_command_that_closes_it(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;

	kit_ask(&ask, "exec >&- 2>&-; read x; exit 4");
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	kit_read_all(&run);
	assert_int_equal(run.text.len, 0);
	assert_int_equal(write(run.in, "go\n", 3), 3);
	kit_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.status, 4 << 8);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void ses_8_a_leader_leaves_when_its_link_closes(void **state)
{
	struct kit_session *s = session(state);
	cleanup_fd int pidfd = -1;
	struct init_spawn ask;
	struct kit_run run;

	kit_ask(&ask, "read x");
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	pidfd = proc_pidfd(run.leader_pid);
	assert_true(pidfd >= 0);
	link_done(&run.leader);
	assert_int_equal(poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, 10000), 1);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

/* Ends every leader that waits; only init is left. */
static void kill_spares(struct kit_session *s)
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
	struct kit_session *s = session(state);
	pid_t *waiting;

	kit_expect(s, "kill -KILL 1; echo alive", "alive\n");
	/* The spare one, and leaders that are about to leave. */
	assert_in_range(proc_descendants(s->pid, &waiting), 0, 3);
	free(waiting);
	kill_spares(s);
	kit_expect(s, "echo alive", "alive\n");
}

/* Sets how many processes the session's uid may have when init forks; done by that uid, which needs
 * no capability for it. */
static void limit_processes(const struct kit_session *s, rlim_t soft)
{
	struct rlimit limit;
	int status;
	pid_t pid;

	assert_int_equal(getrlimit(RLIMIT_NPROC, &limit), 0);
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	pid = fork();
	if (pid == 0)
		_exit(setresgid(UID, UID, UID) < 0 || setresuid(UID, UID, UID) < 0 ||
		      prlimit(s->pid, RLIMIT_NPROC, &limit, NULL) < 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void exe_8_without_processes_a_start_fails_until_there_are_some(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;

	limit_processes(s, 0);
	kill_spares(s);
	kit_ask(&ask, "");
	expect_failure(s, &ask, SPAWN_STAGE_FORK, EAGAIN);
	kit_ask(&ask, "");
	expect_failure(s, &ask, SPAWN_STAGE_FORK, EAGAIN);
	limit_processes(s, RLIM_INFINITY);
	kit_expect(s, "echo alive", "alive\n");
}

/* Runs a script that ends with the helper, and receives what it sends. */
static void capture_of(struct kit_session *s, const char *script, struct strv *env, char **cwd)
{
	struct capture c = {0};
	struct init_spawn ask;
	struct kit_run run;
	cleanup_fd int conn = -1;
	char datagram[CAPTURE_CHUNK];

	kit_ask(&ask, script);
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	conn = accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(conn >= 0);
	while (!c.ended) {
		const ssize_t n = recv(conn, datagram, sizeof(datagram), MSG_TRUNC);

		assert_in_range(n, 1, (long)sizeof(datagram));
		assert_int_equal(capture_feed(&c, datagram, (size_t)n, 256 * 1024, NULL), 0);
	}
	assert_int_equal(capture_finish(&c, env, cwd, NULL), 0);
	assert_int_equal(send(conn, "A", 1, MSG_NOSIGNAL), 1);
	kit_read_all(&run);
	assert_string_equal(run.text.data, "0\n");
	capture_done(&c);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void sta_3_the_environment_comes_back_as_data(void **state)
{
	struct kit_session *s = session(state);
	cleanup_free char *cwd = NULL;
	struct strv env = {0};

	capture_of(s,
		   "export BIG=$(head -c 70000 /dev/zero | tr '\\0' x) LINES='a\nb'; "
		   "/run/agentsh/bin/state; "
		   "echo $?",
		   &env, &cwd);
	assert_int_equal(strlen(strv_env_get(&env, "BIG")), 70000);
	assert_string_equal(strv_env_get(&env, "LINES"), "a\nb");
	assert_string_equal(strv_env_get(&env, "HOME"), "/home/agent");
	assert_string_equal(cwd, "/workspace");
	strv_done(&env);
}

/* STA-2: the shell's own name of the directory counts if it is one, else the kernel's. */
static void sta_2_the_directory_keeps_the_links_that_were_walked(void **state)
{
	static const struct {
		const char *script, *cwd;
	} rows[] = {
		{"ln -s /usr /tmp/link; cd /tmp/link; /run/agentsh/bin/state; echo $?",
		 "/tmp/link"},
		{"cd /usr; PWD=/tmp /run/agentsh/bin/state; echo $?", "/usr"},
		{"cd /usr; PWD=/no/such /run/agentsh/bin/state; echo $?", "/usr"},
		{"cd /usr; PWD=../usr /run/agentsh/bin/state; echo $?", "/usr"},
		{"cd /usr; env -u PWD /run/agentsh/bin/state; echo $?", "/usr"},
		{"mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone; /run/agentsh/bin/state; echo $?",
		 "/tmp/gone"},
	};
	struct kit_session *s = session(state);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_free char *cwd = NULL;
		struct strv env = {0};

		capture_of(s, rows[i].script, &env, &cwd);
		assert_string_equal(cwd, rows[i].cwd);
		strv_done(&env);
	}
}

/* STA-6: who sends can be told by the inode of its program. */
static void sta_6_the_sender_is_our_program(void **state)
{
	struct kit_session *s = session(state);
	cleanup_fd int conn = -1;
	struct init_spawn ask;
	struct kit_run run;
	struct ucred who;
	socklen_t len = sizeof(who);
	struct stat st;

	kit_ask(&ask, "LD_PRELOAD=/none /run/agentsh/bin/state; echo $?");
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	conn = accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(conn >= 0);
	assert_int_equal(getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &who, &len), 0);
	assert_int_equal(stat(kit_state, &st), 0);
	assert_int_equal(proc_exe_is(who.pid, st.st_dev, st.st_ino), 1);
	assert_int_equal(send(conn, "A", 1, MSG_NOSIGNAL), 1);
	kit_read_all(&run);
	assert_string_equal(run.text.data, "0\n");
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void sta_5_a_capture_that_is_refused_fails(void **state)
{
	struct kit_session *s = session(state);
	struct init_spawn ask;
	struct kit_run run;
	int conn;

	kit_ask(&ask, "/run/agentsh/bin/state; echo $?");
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	conn = accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(send(conn, "F", 1, MSG_NOSIGNAL), 1);
	kit_read_all(&run);
	assert_string_equal(run.text.data, "1\n");
	close(conn);
	kit_run_done(&run);
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	close(accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC));
	kit_read_all(&run);
	assert_string_equal(run.text.data, "1\n");
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void ses_8_everything_goes_with_the_link(void **state)
{
	struct kit_session *s = session(state);
	cleanup_fd int pidfd = -1, leader = -1;
	struct init_spawn ask;
	struct kit_run run;

	kit_ask(&ask, "trap '' TERM HUP; while :; do read x; done < /dev/zero");
	assert_int_equal(kit_spawn(s, &ask, &run), MSG_leader_started);
	leader = proc_pidfd(run.leader_pid);
	assert_true(leader >= 0);
	pidfd = take_fd(run.pidfd);
	shutdown(s->init.fd, SHUT_RDWR);
	assert_int_equal(poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, 10000), 1);
	assert_int_equal(poll(&(struct pollfd){leader, POLLIN, 0}, 1, 10000), 1);
	kit_expect_eof(&run);
	kit_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void sbx_5_a_step_that_fails_names_wall_call_and_remedy(void **state)
{
	struct kit_session s = {0};
	struct init_failed failed;
	struct link_msg m;

	session(state);
	kit_plan(&s.plan, UID, true);
	free(s.plan.state_program);
	s.plan.state_program = mem_strdup("/none/agentsh-state");
	kit_start(&s, 0, &m);
	assert_int_equal(m.type, MSG_init_failed);
	assert_int_equal(link_unpack(&m, &failed, NULL), 0);
	assert_string_equal(failed.wall, "mount_namespace");
	assert_non_null(strstr(failed.message, "open_tree(/none/agentsh-state): No such file"));
	assert_non_null(strstr(failed.message, "run the server as root"));
	msg_done(MSG_init_failed, &failed);
	link_done(&s.init);
	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	sandbox_plan_done(&s.plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_1_walls_are_reported_by_who_raised_them),
		cmocka_unit_test(sbx_1_pid_1_is_init_and_the_rest_is_out_of_sight),
		cmocka_unit_test(sbx_1_identity_has_no_power),
		cmocka_unit_test(sbx_1_root_is_read_only_and_scratch_is_not),
		cmocka_unit_test(sbx_1_dev_has_its_nodes_and_no_others),
		cmocka_unit_test(shm_3_the_proof_and_the_program_are_ours),
		cmocka_unit_test(ses_3_workspace_files_belong_to_the_owner),
		cmocka_unit_test(sbx_1_init_holds_nothing_of_the_host),
		cmocka_unit_test(exe_4_only_three_descriptors_reach_the_command),
		cmocka_unit_test(exe_4_signals_reach_the_command_in_their_default),
		cmocka_unit_test(exe_4_umask_cwd_and_argv0_are_as_asked),
		cmocka_unit_test(exe_4_null_stdio_hears_and_says_nothing),
		cmocka_unit_test(exe_8_a_failed_start_names_its_stage),
		cmocka_unit_test(exe_8_one_file_is_tried),
		cmocka_unit_test(pol_4_a_program_comes_as_a_descriptor),
		cmocka_unit_test(exe_1_the_end_carries_status_and_counters),
		cmocka_unit_test(exe_5_orphans_stay_with_their_leader),
		cmocka_unit_test(exe_1_a_leader_leads_again),
		cmocka_unit_test(exe_1_a_brief_command_is_told_once),
		cmocka_unit_test(exe_5_a_command_does_not_hit_its_leader_with_kill_0),
		cmocka_unit_test(exe_6_output_ends_with_the_command_that_closes_it),
		cmocka_unit_test(ses_8_a_leader_leaves_when_its_link_closes),
		cmocka_unit_test(exe_5_a_killed_spare_leader_is_replaced),
		cmocka_unit_test(exe_8_without_processes_a_start_fails_until_there_are_some),
		cmocka_unit_test(sta_3_the_environment_comes_back_as_data),
		cmocka_unit_test(sta_2_the_directory_keeps_the_links_that_were_walked),
		cmocka_unit_test(sta_6_the_sender_is_our_program),
		cmocka_unit_test(sta_5_a_capture_that_is_refused_fails),
		cmocka_unit_test(sbx_5_a_step_that_fails_names_wall_call_and_remedy),
		cmocka_unit_test(ses_8_everything_goes_with_the_link),
	};
	int failed;

	ready = geteuid() == 0 && kit_prepare(0) == 0;
	failed = cmocka_run_group_tests(tests, open_session, close_session);
	kit_clean();
	return failed;
}
