// SPDX-License-Identifier: Apache-2.0
/* A real session made by root: namespaces, mounts, identity. */
#include "base/fdio.h"
#include "base/mem.h"
#include "spawn/testkit/init_testkit.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void sbx_1_walls_are_reported_by_who_raised_them(void **state)
{
	const struct box_session *s = box_session_of(state);
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
	struct box_session *s = box_session_of(state);

	cleanup_free char *name = mem_printf("/proc/%d/comm", (int)s->pid);
	cleanup_buf struct buf comm = {0};

	assert_int_equal(fdio_load_path(name, 64, &comm, NULL), 0);
	assert_string_equal(comm.data, "agentsh-init\n");
	/* Neither init nor leaders, which cannot be traced. */
	box_expect(s, "ls -d /proc/1 2>/dev/null; cat /proc/sys/kernel/hostname", "session-test\n");
	box_expect(s, BOX_NAMES, "sh\n");
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
	struct box_session *s = box_session_of(state);

	box_expect(
		s, "grep -E '^(Uid|Gid|Groups|Cap.*|NoNewPrivs|Seccomp):' /proc/self/status",
		"Uid:\t64999\t64999\t64999\t64999\nGid:\t64999\t64999\t64999\t64999\nGroups:\t \n"
		"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
		"CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"
		"Seccomp:\t2\n");
	expect_status(s->pid, "Uid:\t64999\t64999\t64999\t64999\n");
	expect_status(s->pid, "CapEff:\t0000000000000000\n");
	expect_status(s->pid, "CapBnd:\t0000000000000000\n");
	expect_status(s->pid, "NoNewPrivs:\t1\n");
	box_expect(s, "grep 'core file' /proc/self/limits | tr -s ' '",
		   "Max core file size 1 1 bytes \n");
	/* Non-dumpable: no process with the same uid can look into init or a leader. */
	box_expect(s, "ls /proc/1/fd /proc/$PPID/fd 2>/dev/null; echo $?", "2\n");
}

static void sbx_4_cores_priorities_and_files_are_limited(void **state)
{
	box_expect_limits(box_session_of(state));
}

static void sbx_1_root_is_read_only_and_scratch_is_not(void **state)
{
	struct box_session *s = box_session_of(state);

	box_expect(s,
		   "for d in / /usr /etc /bin/ /run /run/agentsh /dev /home /proc/sys/kernel; do "
		   "touch $d/x 2>/dev/null && echo $d; done; "
		   "for d in /tmp /var/tmp /dev/shm $HOME /workspace; do touch $d/x && rm $d/x || "
		   "echo no $d; "
		   "done; stat -c '%a %u %g' /tmp /var/tmp /dev/shm $HOME",
		   "1777 0 0\n1777 0 0\n1777 0 0\n700 64999 64999\n");
	box_expect(s, "ls -d /sys /root /mnt /srv /boot 2>/dev/null; ls /home /run /run/agentsh",
		   "/home:\nagent\n\n/run:\nagentsh\n\n/run/agentsh:\nbin\nsession\nstate.sock\n");
	box_expect(s,
		   "grep -E ' /(usr|etc/ld.so.cache|proc/sys|run/agentsh/bin/state) ' "
		   "/proc/self/mounts | "
		   "grep -cE ' ro,nosuid,nodev'",
		   "4\n");
	box_expect(s, "grep ' /workspace ' /proc/self/mounts | grep -c 'nosuid,nodev'", "1\n");
	box_expect(
		s,
		"for d in sys irq bus fs; do test ! -e /proc/$d || "
		"grep -q \" /proc/$d proc ro,nosuid\" /proc/self/mounts || echo $d; done; echo end",
		"end\n");
	/* Files that show the machine cannot be opened. */
	box_expect(s,
		   "for f in kcore keys sysrq-trigger timer_list latency_stats sched_debug; do "
		   "cat /proc/$f 2>/dev/null && echo $f; done; "
		   "for d in scsi acpi; do ls /proc/$d 2>/dev/null && echo $d; done; echo end",
		   "end\n");
	box_expect(s, "ls /run/agentsh/.scratch 2>/dev/null || echo shut", "shut\n");
	/* The old root is gone. */
	box_expect(s, "grep -cE ' / ' /proc/self/mounts; ls -A /workspace", "1\n");
}

static void sbx_1_dev_has_its_nodes_and_no_others(void **state)
{
	struct box_session *s = box_session_of(state);

	box_expect(s, "ls /dev",
		   "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\n"
		   "urandom\nzero\n");
	box_expect(s,
		   "echo x > /dev/null; head -c 3 /dev/zero | od -An -tx1; head -c 1 /dev/urandom "
		   "| wc -c; "
		   "echo y > /dev/full 2>/dev/null || echo full; ls /dev/pts; cat /dev/stdin < "
		   "/run/agentsh/session",
		   " 00 00 00\n1\nfull\nptmx\nsession-test");
}

static void shm_3_the_proof_and_the_program_are_ours(void **state)
{
	struct box_session *s = box_session_of(state);

	box_expect(s,
		   "cat /run/agentsh/session; rm -f /run/agentsh/session 2>/dev/null || echo stays",
		   "session-teststays\n");
	box_expect(s, "echo x > /run/agentsh/bin/state; echo $?",
		   "sh: 1: cannot create /run/agentsh/bin/state: Read-only file system\n2\n");
}

static void ses_3_workspace_files_belong_to_the_owner(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_free char *inside = mem_printf("%s/inside", box_workspace);
	cleanup_free char *outside = mem_printf("%s/outside", box_workspace);
	struct stat st;
	int fd = open(outside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	box_expect(s, "umask 027; echo hi > inside; stat -c '%u %g %a' inside outside; pwd",
		   "64999 64999 640\n64999 64999 600\n/workspace\n");
	assert_int_equal(stat(inside, &st), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(st.st_gid, 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	unlink(inside);
	unlink(outside);
}

/* Descriptor n of init as root sees it; "" if it is closed. */
static void init_descriptor(const struct box_session *s, int n, char out[64])
{
	cleanup_free char *path = mem_printf("/proc/%d/fd/%d", (int)s->pid, n);
	const ssize_t len = readlink(path, out, 63);

	out[len > 0 ? len : 0] = '\0';
}

static void sbx_1_init_holds_nothing_of_the_host(void **state)
{
	const struct box_session *s = box_session_of(state);
	char target[64];
	int others = 0;

	for (int n = 0; n <= 2; n++) {
		init_descriptor(s, n, target);
		assert_string_equal(target, "/dev/null");
	}
	for (int n = 3; n < 1024; n++) {
		init_descriptor(s, n, target);
		/* the file of its own /proc */
		if (target[0] != '\0' && strncmp(target, "socket:", 7) != 0 &&
		    strncmp(target, "pipe:", 5) != 0 &&
		    strcmp(target, "anon_inode:[eventfd]") != 0 &&
		    strcmp(target, "/proc/1/oom_score_adj") != 0)
			fail_msg("descriptor %d of init is %s", n, target);
		others += target[0] != '\0';
	}
	/* The link, the score, the eventfd that the warden writes to, and the pipe of the spare
	 * leader unless that is being forked right now. */
	assert_in_range(others, 3, 5);
}

static void sbx_5_a_step_that_fails_names_wall_call_and_remedy(void **state)
{
	struct box_session s = {0};
	struct init_failed failed;
	struct link_msg m;

	box_session_of(state);
	box_plan(&s.plan, BOX_SESSION_UID, true);
	free(s.plan.state_program);
	s.plan.state_program = mem_strdup("/none/agentsh-state");
	box_start(&s, 0, &m);
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

static void ses_8_everything_goes_with_the_link(void **state)
{
	box_expect_end(box_session_of(state));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_1_walls_are_reported_by_who_raised_them),
		cmocka_unit_test(sbx_1_pid_1_is_init_and_the_rest_is_out_of_sight),
		cmocka_unit_test(sbx_1_identity_has_no_power),
		cmocka_unit_test(sbx_4_cores_priorities_and_files_are_limited),
		cmocka_unit_test(sbx_1_root_is_read_only_and_scratch_is_not),
		cmocka_unit_test(sbx_1_dev_has_its_nodes_and_no_others),
		cmocka_unit_test(shm_3_the_proof_and_the_program_are_ours),
		cmocka_unit_test(ses_3_workspace_files_belong_to_the_owner),
		cmocka_unit_test(sbx_1_init_holds_nothing_of_the_host),
		cmocka_unit_test(sbx_5_a_step_that_fails_names_wall_call_and_remedy),
		cmocka_unit_test(ses_8_everything_goes_with_the_link),
	};

	box_ready = geteuid() == 0 && box_prepare(0) == 0;
	return box_finish(cmocka_run_group_tests(tests, box_group_open, box_group_close));
}
