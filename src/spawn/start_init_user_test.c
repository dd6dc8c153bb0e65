// SPDX-License-Identifier: Apache-2.0
/* A real session made by a normal user in a user namespace. As root the program becomes uid 1000
 * first. */
#include "base/mem.h"
#include "base/proc.h"
#include "spawn/testkit/init_testkit.h"
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

static void sbx_5_walls_of_a_normal_user(void **state)
{
	const struct box_session *s = box_session_of(state);
	static const enum wall up[] = {
		WALL_user_namespace, WALL_mount_namespace, WALL_pid_namespace,
		WALL_ipc_namespace,  WALL_uts_namespace,   WALL_capabilities,
		WALL_no_new_privs,   WALL_net_namespace,   WALL_cgroup_namespace};

	for (size_t i = 0; i < ARRAY_LEN(up); i++)
		assert_int_equal(s->walls.wall[up[i]].state, WALL_UP);
}

static void sbx_5_identity_is_the_users_without_power(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_free char *ids = mem_printf("Uid:\t%u\t%u\t%u\t%u\nCapPrm:\t0000000000000000\n"
					    "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
					    "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\n",
					    geteuid(), geteuid(), geteuid(), geteuid());

	box_expect(s, "grep -E '^(Uid|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs):' /proc/self/status",
		   ids);
	box_expect(s, "hostname; " BOX_NAMES, "session-test\nsh\n");
	box_expect(s, "ls /proc/self/fd; ls /proc/1/fd 2>/dev/null || echo shut",
		   "0\n1\n2\n3\nshut\n");
}

static void sbx_4_cores_priorities_and_files_are_limited(void **state)
{
	box_expect_limits(box_session_of(state));
}

static void sbx_5_mounts_are_as_roots(void **state)
{
	struct box_session *s = box_session_of(state);

	box_expect(
		s,
		"for d in / /usr /etc /run /run/agentsh /dev /home /proc/sys/kernel; do "
		"touch $d/x 2>/dev/null && echo $d; done; "
		"for d in /tmp /var/tmp /dev/shm $HOME /workspace; do touch $d/x && rm $d/x || "
		"echo no $d; "
		"done; stat -c %a /tmp $HOME; ls -A /workspace; grep -cE ' / ' /proc/self/mounts",
		"1777\n700\n1\n");
	box_expect(s,
		   "echo x > /dev/null; head -c 2 /dev/zero | od -An -tx1; ls /dev /dev/pts; cat "
		   "/run/agentsh/session",
		   " 00 "
		   "00\n/dev:\nfd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\n"
		   "urandom\nzero\n\n/dev/pts:\nptmx\nsession-test");
	box_expect(s, "grep ' /workspace ' /proc/self/mounts | grep -c 'nosuid,nodev'", "1\n");
}

static void ses_3_workspace_files_belong_to_the_user(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_free char *path = mem_printf("%s/file", box_workspace);
	struct stat st;

	box_expect(s, "echo hi > file; pwd", "/workspace\n");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_gid, getegid());
	unlink(path);
}

/* SESSION: only the owner of the user namespace may look at what runs in it; captures stand on
 * that. */
static void sta_3_the_warden_sees_who_sends(void **state)
{
	box_expect_sender(box_session_of(state), "/run/agentsh/bin/state; echo $?");
}

static void exe_5_the_warden_can_kill_what_an_orphan_left(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;
	pid_t *left;

	box_ask(&ask, "(setsid sh -c 'trap \"\" TERM; read x' <&3 &) 3<&0");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	box_recv_exit(&run, MSG_leader_exit);
	assert_int_equal(run.exit.empty, 0);
	assert_int_equal(proc_descendants(run.leader_pid, &left), 1);
	assert_int_equal(kill(left[0], SIGKILL), 0);
	free(left);
	box_recv_exit(&run, MSG_leader_empty);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

static void ses_8_everything_goes_with_the_link(void **state)
{
	box_expect_end(box_session_of(state));
}

static int run_group(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_walls_of_a_normal_user),
		cmocka_unit_test(sbx_5_identity_is_the_users_without_power),
		cmocka_unit_test(sbx_4_cores_priorities_and_files_are_limited),
		cmocka_unit_test(sbx_5_mounts_are_as_roots),
		cmocka_unit_test(ses_3_workspace_files_belong_to_the_user),
		cmocka_unit_test(sta_3_the_warden_sees_who_sends),
		cmocka_unit_test(exe_5_the_warden_can_kill_what_an_orphan_left),
		cmocka_unit_test(ses_8_everything_goes_with_the_link),
	};

	return cmocka_run_group_tests(tests, box_group_open, box_group_close);
}

int main(void)
{
	box_ready = box_prepare(geteuid() == 0 ? BOX_USER : geteuid()) == 0;
	return box_run_as_user(run_group);
}
