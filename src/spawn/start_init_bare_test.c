// SPDX-License-Identifier: Apache-2.0
/* A normal user's real session without namespaces. As root the program becomes uid 1000 first. The
 * plan asks for no namespaces, also where the machine offers them. */
#include "base/mem.h"
#include "base/proc.h"
#include "base/process_tree.h"
#include "sandbox/landlock.h"
#include "spawn/testkit/init_testkit.h"
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char own[128], home[160], tmp[160];

static void bare_plan(struct sandbox_plan *p)
{
	box_plan(p, geteuid(), false);
	p->workspace = mem_strdup(box_workspace);
	p->own_dir = mem_strdup(own);
	strv_add(&p->monitored_paths, "/workspace");
}

static void make_own(void)
{
	snprintf(own, sizeof(own), "%s/own", box_dir);
	snprintf(home, sizeof(home), "%s/" SANDBOX_OWN_HOME, own);
	snprintf(tmp, sizeof(tmp), "%s/" SANDBOX_OWN_TMP, own);
}

static void bare_open_session(struct box_session *s)
{
	struct init_failed failed;
	struct init_ready ready;
	struct link_msg m;

	box_start(s, geteuid(), &m);
	if (m.type == MSG_init_failed) {
		assert_int_equal(link_unpack(&m, &failed, NULL), 0);
		fail_msg("init failed: %s: %s", failed.wall, failed.message);
	}
	assert_int_equal(m.nfds, 3);
	s->root_fd = take_fd(m.fd[0]);
	s->state_fd = take_fd(m.fd[1]);
	assert_int_equal(link_unpack(&m, &ready, NULL), 0);
	assert_int_equal(ready.pid, s->pid);
	assert_string_equal(ready.workspace, box_workspace);
	assert_string_equal(ready.own_dir, own);
	assert_string_equal(ready.state_program, box_state);
	assert_int_equal(ready.writable.n, 3);
	assert_string_equal(ready.writable.v[0], box_workspace);
	assert_string_equal(ready.writable.v[1], home);
	assert_string_equal(ready.writable.v[2], tmp);
	wall_report_init(&s->walls);
	assert_int_equal(wall_unpack(&s->walls, &ready.walls, NULL), 0);
	msg_done(MSG_init_ready, &ready);
	link_msg_done(&m);
}

static int open_group(void **state)
{
	struct box_session *s;

	if (!box_ready)
		return 0;
	s = mem_new(struct box_session);
	bare_plan(&s->plan);
	bare_open_session(s);
	*state = s;
	return 0;
}

static void ask_here(struct init_spawn *ask, const char *script)
{
	box_ask(ask, script);
	free(ask->cwd);
	ask->cwd = mem_strdup(box_workspace);
}

/* What a script prints, whatever its end. */
static void expect(struct box_session *s, const char *script, const char *output)
{
	struct init_spawn ask;
	struct box_run run;

	ask_here(&ask, script);
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	msg_done(MSG_init_spawn, &ask);
	close(take_fd(run.in));
	box_read_all(&run);
	box_recv_exit(&run, MSG_leader_exit);
	if (strcmp(run.text.data, output) != 0)
		fail_msg("%s: printed '%s', expected '%s'", script, run.text.data, output);
	box_run_done(&run);
}

/* ---- what stands ---- */

static void sbx_5_the_report_names_what_is_missing(void **state)
{
	const struct box_session *s = box_session_of(state);

	for (unsigned w = WALL_user_namespace; w <= WALL_cgroup_namespace; w++)
		assert_int_equal(s->walls.wall[w].state, WALL_UNAVAILABLE);
	assert_int_equal(s->walls.wall[WALL_no_new_privs].state, WALL_UP);
	assert_int_equal(s->walls.wall[WALL_seccomp].state, WALL_UP);
	assert_int_equal(s->walls.wall[WALL_landlock].state,
			 landlock_abi() >= 6 ? WALL_UP : WALL_PARTIAL);
	assert_int_equal(s->walls.wall[WALL_disk_limit].state, WALL_ABSENT);
}

static void sbx_3_only_what_is_given_is_opened(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_free char *script = mem_printf(
		"exec 2>/dev/null; pwd; echo a > file && cat file; rm file; echo b > %s/b && cat "
		"%s/b; "
		"rm %s/b; echo c > %s/c && rm %s/c; echo d > %s/d || echo no; echo e > /tmp/e || "
		"echo "
		"no; ls %s || echo no; ls / || echo no; cat /etc/shadow || echo no; "
		"cat /etc/os-release > /dev/null && read x < /proc/self/stat && echo yes",
		home, home, home, tmp, tmp, own, box_dir);
	cleanup_free char *printed =
		mem_printf("%s\na\nb\nno\nno\nno\nno\nno\nyes\n", box_workspace);

	expect(s, script, printed);
}

static void sbx_2_sockets_and_foreign_processes_are_refused(void **state)
{
	struct box_session *s = box_session_of(state);
	cleanup_free char *script =
		mem_printf("exec 2>/dev/null; kill -0 %d || echo no; kill -0 %d && echo own; "
			   "cat /proc/%d/environ || echo no; chmod 700 . || echo no",
			   (int)getpid(), (int)s->pid, (int)getpid());

	expect(s, script, "no\nown\nno\nno\n");
}

static void exe_4_a_leader_that_is_left_ends_its_tree(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;
	pid_t *left;
	size_t n;

	ask_here(&ask, "setsid sleep 3600 & (setsid sh -c 'trap \"\" TERM; sleep 3600; :' &) ; "
		       "echo; sleep 3600");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	msg_done(MSG_init_spawn, &ask);
	assert_int_equal(read(run.out, (char[1]){0}, 1), 1);
	for (int i = 0; i < 1000; i++) {
		n = proc_descendants(run.leader_pid, &left);
		free(left);
		if (n >= 4)
			break;
		poll(NULL, 0, 5);
	}
	assert_true(n >= 4);
	link_done(&run.leader);
	/* its output ends with the last of them */
	box_read_all(&run);
	mem_cleanup_fd(&run.pidfd);
	mem_cleanup_fd(&run.in);
	mem_cleanup_fd(&run.out);
	buf_done(&run.text);
	expect(s, "echo fine", "fine\n");
}

/* ---- plans that Landlock cannot enforce ---- */

struct refused {
	const char *wall, *word;
	void (*change)(struct sandbox_plan *p);
};

static void block_in_workspace(struct sandbox_plan *p)
{
	strv_add(&p->blocked_paths, "/workspace/blocked");
}
static void block_in_system(struct sandbox_plan *p)
{
	strv_add(&p->blocked_paths, "/usr/bin");
}
static void block_above(struct sandbox_plan *p)
{
	strv_add(&p->blocked_paths, box_dir);
}
static void shut_in_workspace(struct sandbox_plan *p)
{
	strv_add(&p->read_only_paths, "/workspace/x");
}
static void show_the_servers_own(struct sandbox_plan *p)
{
	strv_add(&p->kept_out, own);
	strv_add(&p->passthrough_paths, box_dir);
}
static void show_below_the_servers_own(struct sandbox_plan *p)
{
	strv_add(&p->kept_out, box_dir);
	strv_add(&p->read_only_paths, own);
}
static void show_the_machine(struct sandbox_plan *p)
{
	strv_add(&p->read_only_paths, "/proc/self");
}
static void limit_the_disk(struct sandbox_plan *p)
{
	p->scratch_mb = 1;
}
static void lose_the_home(struct sandbox_plan *p)
{
	free(p->own_dir);
	p->own_dir = mem_strdup("/nonexistent");
}
static void move_the_workspace(struct sandbox_plan *p)
{
	free(p->workspace);
	p->workspace = mem_strdup(box_dir);
}
static void write_to_the_program(struct sandbox_plan *p)
{
	strv_add(&p->passthrough_paths, box_dir);
}

static const struct refused refusals[] = {
	{"landlock", "blocked_paths", block_in_workspace},
	{"landlock", "blocked_paths", block_in_system},
	{"landlock", "blocked_paths", block_above},
	{"landlock", "read_only", shut_in_workspace},
	{"landlock", "server's own", show_the_servers_own},
	{"landlock", "server's own", show_below_the_servers_own},
	{"landlock", "machine's", show_the_machine},
	{"mount_namespace", "disk_limit", limit_the_disk},
	{"landlock", "/nonexistent", lose_the_home},
	{"landlock", "moved", move_the_workspace},
	{"landlock", "the server's program", write_to_the_program},
};

static void expect_refusal(const struct refused *row)
{
	struct box_session s = {0};
	struct init_failed failed;
	struct link_msg m;
	int status;

	bare_plan(&s.plan);
	/* whatever may be missing: these two may not */
	strv_add(&s.plan.unenforced, "landlock");
	strv_add(&s.plan.unenforced, "seccomp");
	row->change(&s.plan);
	box_start(&s, geteuid(), &m);
	assert_int_equal(m.type, MSG_init_failed);
	assert_int_equal(link_unpack(&m, &failed, NULL), 0);
	if (strcmp(failed.wall, row->wall) != 0 || strstr(failed.message, row->word) == NULL)
		fail_msg("%s: %s, expected %s: %s", failed.wall, failed.message, row->wall,
			 row->word);
	msg_done(MSG_init_failed, &failed);
	link_msg_done(&m);
	link_done(&s.init);
	assert_int_equal(waitpid(s.pid, &status, 0), s.pid);
	sandbox_plan_done(&s.plan);
}

static void sbx_3_what_landlock_cannot_hold_is_refused(void **state)
{
	cleanup_free char *blocked = mem_printf("%s/blocked", box_workspace);

	box_session_of(state);
	assert_int_equal(mkdir(blocked, 0700), 0);
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
		expect_refusal(&refusals[i]);
	assert_int_equal(rmdir(blocked), 0);
}

/* A blocked path that is not there, a limit that may be missing, a system directory that stays
 * read-only, and rights that the policy withholds. */
static void sbx_3_what_can_be_held_is(void **state)
{
	struct box_session s = {0};
	cleanup_free char *withheld = mem_printf("%u %s", (unsigned)LANDLOCK_MAKE, box_workspace);

	box_session_of(state);
	bare_plan(&s.plan);
	strv_add(&s.plan.blocked_paths, "/workspace/missing");
	strv_add(&s.plan.unenforced, "disk_limit");
	strv_add(&s.plan.passthrough_paths, "/usr/share");
	strv_add(&s.plan.passthrough_paths, "/nonexistent");
	strv_add(&s.plan.withheld, withheld);
	s.plan.scratch_mb = 1;
	bare_open_session(&s);
	assert_int_equal(s.walls.wall[WALL_disk_limit].state, WALL_UNAVAILABLE);
	expect(&s,
	       "exec 2>/dev/null; echo x > made || echo no; ls /usr/share > /dev/null && echo yes",
	       "no\nyes\n");
	box_close(&s);
}

/* SES-8: what a session has started goes with its link, wherever it has gone to. */
static void ses_8_everything_goes_with_the_link(void **state)
{
	struct box_session *s = box_session_of(state);
	struct init_spawn ask;
	struct box_run run;
	int status;

	ask_here(&ask, "(setsid sh -c 'trap \"\" TERM; echo; sleep 3600; :' &) ; sleep 3600");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	msg_done(MSG_init_spawn, &ask);
	assert_int_equal(read(run.out, (char[1]){0}, 1), 1);
	link_done(&s->init);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_int_equal(status, 0);
	box_read_all(&run);
	box_run_done(&run);
	/* the sweeper starts when init has ended: wait for it, as the warden does */
	tree_leave_dead();
	assert_true(tree_await_own(20000));
	close(s->root_fd);
	close(s->state_fd);
	sandbox_plan_done(&s->plan);
	free(s);
}

static int run_group(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sbx_5_the_report_names_what_is_missing),
		cmocka_unit_test(sbx_3_only_what_is_given_is_opened),
		cmocka_unit_test(sbx_2_sockets_and_foreign_processes_are_refused),
		cmocka_unit_test(exe_4_a_leader_that_is_left_ends_its_tree),
		cmocka_unit_test(sbx_3_what_landlock_cannot_hold_is_refused),
		cmocka_unit_test(sbx_3_what_can_be_held_is),
		cmocka_unit_test(ses_8_everything_goes_with_the_link),
	};

	return cmocka_run_group_tests(tests, open_group, NULL);
}

int main(void)
{
	const uid_t user = geteuid() == 0 ? BOX_USER : geteuid();

	box_ready = box_prepare(user) == 0;
	make_own();
	box_ready = box_ready && mkdir(own, 0700) == 0 && mkdir(home, 0700) == 0 &&
		    mkdir(tmp, 0700) == 0 && chown(own, user, user) == 0 &&
		    chown(home, user, user) == 0 && chown(tmp, user, user) == 0;
	return box_run_as_user(run_group);
}
