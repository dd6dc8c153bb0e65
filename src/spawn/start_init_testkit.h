// SPDX-License-Identifier: Apache-2.0
/* spawn/start_init_testkit.h - a test as the launcher, the stub and the warden of one session with
 * the real agentsh-init.
 *
 * Shared by the tests as root and as a normal user; every function fails the running cmocka test.
 */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "link/link.h"
#include "sandbox/sandbox.h"
#include "spawn/capture.h"
#include "spawn/spawn.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KIT_TIMEOUT_S 60 /* for a whole program: a hang becomes a failure */

/* The names of all processes in sight, each once; no other process is needed to ask. */
#define KIT_NAMES                                                                                 \
	"for f in /proc/[0-9]*/comm; do read n < $f || continue; case \" $all \" in *\" $n \"*) " \
	";; "                                                                                     \
	"*) all=\"$all $n\";; esac; done 2>/dev/null; echo $all"

/* Opened before a test gives up root: the build may lie where only root looks. */
static int kit_init_fd = -1;
static char kit_dir[64]; /* scratch, with our own copy of agentsh-state */
static char kit_state[96];
static char kit_workspace[96];
static int kit_program = -1; /* goes with the next spawns; -1: their path is executed */

static inline int kit_open_program(const char *name)
{
	const char *build = getenv("AGENTSH_BUILD_DIR");
	cleanup_free char *path =
		mem_printf("%s/%s", build != NULL ? build : proc_self_dir(), name);

	return open(path, O_RDONLY | O_CLOEXEC);
}

static inline int kit_copy(int from, const char *to)
{
	cleanup_fd int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	cleanup_buf struct buf b = {0};

	if (out < 0 || fdio_load(from, 64 << 20, &b, NULL) < 0)
		return -1;
	return fdio_write_all(out, b.data, b.len);
}

/* 0, or -1 if a program is missing. owner is who will use the directory. */
static inline int kit_prepare(uid_t owner)
{
	cleanup_fd int state = kit_open_program("agentsh-state");

	alarm(KIT_TIMEOUT_S);
	kit_init_fd = kit_open_program("agentsh-init");
	if (kit_init_fd < 0 || state < 0)
		return -1;
	snprintf(kit_dir, sizeof(kit_dir), "/tmp/agentsh-test-XXXXXX");
	if (mkdtemp(kit_dir) == NULL || chmod(kit_dir, 0755) < 0)
		return -1;
	snprintf(kit_state, sizeof(kit_state), "%s/state", kit_dir);
	snprintf(kit_workspace, sizeof(kit_workspace), "%s/workspace", kit_dir);
	if (kit_copy(state, kit_state) < 0 || mkdir(kit_workspace, 0755) < 0 ||
	    chown(kit_workspace, owner, owner) < 0)
		return -1;
	return 0;
}

static inline void kit_clean(void)
{
	cleanup_free char *command = mem_printf("rm -rf %s", kit_dir);

	if (kit_dir[0] != '\0' && system(command) != 0)
		fprintf(stderr, "cannot remove %s\n", kit_dir);
}

/* Root becomes this user and cannot go back; others stay who they are. */
#define KIT_USER 1000
static inline int kit_become_user(void)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(KIT_USER, KIT_USER, KIT_USER) < 0)
		return -1;
	return setresuid(KIT_USER, KIT_USER, KIT_USER);
}

/* Runs the tests in a child that is the normal user; the parent stays who it was, to clean up. Its
 * exit status. */
static inline int kit_run_as_user(int (*tests)(void))
{
	int status = 1;
	const pid_t pid = fork();

	if (pid == 0)
		exit(kit_become_user() < 0 ? 1 : tests());
	waitpid(pid, &status, 0);
	kit_clean();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

struct kit_session {
	struct sandbox_plan plan;
	struct link init;
	struct wall_report walls;
	int root_fd, state_fd;
	pid_t pid;
};

static inline void kit_plan(struct sandbox_plan *p, uint32_t uid, bool privileged)
{
	static const char *const system[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};

	*p = (struct sandbox_plan){.uid = uid, .gid = uid, .privileged = privileged};
	p->session_id = mem_strdup("session-test");
	p->hostname = mem_strdup("session-test");
	p->state_program = mem_strdup(kit_state);
	for (size_t i = 0; i < ARRAY_LEN(system); i++)
		strv_add(&p->read_only_paths, system[i]);
}

/* Makes the session up to init's first message, which is left in *m. asker: whose workspace it is.
 */
static inline void kit_start(struct kit_session *s, uint32_t asker, struct link_msg *m)
{
	struct sandbox_workspace_ask ask = {kit_workspace, asker, asker, NULL, -1, NULL};
	const struct idmap map = {s->plan.owner_uid, s->plan.owner_gid, s->plan.uid, s->plan.gid};
	struct sandbox_trees view = {0};
	cleanup_free char *real = NULL;
	cleanup_fd int tree = -1;
	struct sandbox_start start = {&s->plan, kit_init_fd, -1, -1, &view};
	struct err err = {0};
	int pair[2];

	s->root_fd = s->state_fd = -1;
	if (s->plan.idmap && sandbox_idmap(&map, &ask.userns, &err) < 0)
		fail_msg("%s", err.message);
	if (sandbox_workspace(&ask, &s->plan, &tree, &real, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(real, kit_workspace);
	if (s->plan.privileged)
		sandbox_view(&s->plan, &ask, &view, NULL); /* init says what is wrong */
	assert_int_equal(link_pair(pair, &err), 0);
	start.init_link = pair[1];
	start.tree_fd = tree;
	if (sandbox_start_init(&start, &s->pid, &err) < 0)
		fail_msg("%s", err.message);
	close(pair[1]);
	sandbox_trees_done(&view);
	mem_cleanup_fd(&ask.userns);
	link_init(&s->init, pair[0], SIDE_WARDEN, SIDE_INIT);
	if (link_recv(&s->init, m, &err) != LINK_OK)
		fail_msg("no message from init: %s", err.message);
}

static inline void kit_open(struct kit_session *s, uint32_t asker)
{
	struct init_failed failed;
	struct init_ready ready;
	struct link_msg m;

	kit_start(s, asker, &m);
	if (m.type == MSG_init_failed) {
		assert_int_equal(link_unpack(&m, &failed, NULL), 0);
		fail_msg("init failed: %s: %s", failed.wall, failed.message);
	}
	assert_int_equal(m.type, MSG_init_ready);
	assert_int_equal(m.nfds, 3);
	s->root_fd = take_fd(m.fd[0]);
	s->state_fd = take_fd(m.fd[1]);
	assert_int_equal(link_unpack(&m, &ready, NULL), 0);
	assert_int_equal(ready.pid, 1);
	wall_report_init(&s->walls);
	assert_int_equal(wall_unpack(&s->walls, &ready.walls, NULL), 0);
	msg_done(MSG_init_ready, &ready);
	link_msg_done(&m);
}

/* Closes the link and waits until init has gone, as the warden's death would have it. */
static inline void kit_close(struct kit_session *s)
{
	int status;

	link_done(&s->init);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(s->root_fd);
	close(s->state_fd);
	sandbox_plan_done(&s->plan);
}

struct kit_run {
	struct link leader;
	pid_t leader_pid;
	int pidfd, out, in; /* ends that are ours; -1 once closed */
	struct buf text;    /* stdout and stderr */
	struct leader_failed failed;
	struct leader_exit exit;
};

static inline enum msg_type kit_first_message(struct kit_run *run)
{
	struct err err = {0};
	struct link_msg m;

	if (link_recv(&run->leader, &m, &err) != LINK_OK)
		fail_msg("no message from the leader: %s", err.message);
	run->leader_pid = m.cred.pid;
	if (m.type == MSG_leader_started)
		run->pidfd = take_fd(m.fd[0]);
	else if (m.type == MSG_leader_exit)
		assert_int_equal(link_unpack(&m, &run->exit, NULL), 0);
	else
		assert_int_equal(link_unpack(&m, &run->failed, NULL), 0);
	link_msg_done(&m);
	return m.type;
}

/* Sends the spawn through init; everything that is not in *ask is filled. Returns the type of the
 * leader's first message. */
static inline enum msg_type kit_spawn(struct kit_session *s, struct init_spawn *ask,
				      struct kit_run *run)
{
	int in[2], out[2], pair[2];
	const int on = 1;
	struct err err = {0};

	*run = (struct kit_run){.pidfd = -1};
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(link_pair(pair, &err), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	link_init(&run->leader, pair[0], SIDE_WARDEN, SIDE_LEADER);
	if (link_send(&s->init, MSG_init_spawn, 7, ask,
		      (int[]){in[0], out[1], out[1], pair[1], kit_program},
		      kit_program >= 0 ? 5 : 4, &err) != LINK_OK)
		fail_msg("%s", err.message);
	close(in[0]);
	close(out[1]);
	close(pair[1]);
	run->in = in[1];
	run->out = out[0];
	return kit_first_message(run);
}

/* Sends another to the same leader, which is idle. */
static inline enum msg_type kit_spawn_again(struct init_spawn *ask, struct kit_run *run)
{
	int in[2], out[2];
	struct err err = {0};

	mem_cleanup_fd(&run->in);
	mem_cleanup_fd(&run->out);
	mem_cleanup_fd(&run->pidfd);
	run->pidfd = -1;
	run->text.len = 0;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	if (link_send(&run->leader, MSG_leader_spawn, 7, ask,
		      (int[]){in[0], out[1], out[1], kit_program}, kit_program >= 0 ? 4 : 3,
		      &err) != LINK_OK)
		fail_msg("%s", err.message);
	close(in[0]);
	close(out[1]);
	run->in = in[1];
	run->out = out[0];
	return kit_first_message(run);
}

static inline void kit_recv_exit(struct kit_run *run, enum msg_type type)
{
	struct err err = {0};
	struct link_msg m;

	if (link_recv(&run->leader, &m, &err) != LINK_OK)
		fail_msg("the leader has gone: %s", err.message);
	assert_int_equal(m.type, type);
	assert_int_equal(link_unpack(&m, &run->exit, NULL), 0);
}

static inline void kit_read_all(struct kit_run *run)
{
	assert_int_equal(fdio_load(run->out, 1 << 20, &run->text, NULL), 0);
}

static inline void kit_expect_eof(struct kit_run *run)
{
	struct link_msg m;

	assert_int_equal(link_recv(&run->leader, &m, NULL), LINK_EOF);
}

static inline void kit_run_done(struct kit_run *run)
{
	link_done(&run->leader);
	mem_cleanup_fd(&run->pidfd);
	mem_cleanup_fd(&run->in);
	mem_cleanup_fd(&run->out);
	buf_done(&run->text);
}

static inline void kit_ask(struct init_spawn *ask, const char *script)
{
	*ask = (struct init_spawn){.umask = 022, .stdio = SPAWN_PIPE, .new_session = 1};
	ask->path = mem_strdup("/bin/sh");
	ask->cwd = mem_strdup("/workspace");
	strv_add(&ask->argv, "sh");
	strv_add(&ask->argv, "-c");
	strv_add(&ask->argv, script);
	strv_add(&ask->env, "PATH=/usr/local/bin:/usr/bin:/bin");
	strv_add(&ask->env, "HOME=/home/agent");
}

/* Runs a script to its end; the output is left in run->text, the wait status returned. */
static inline int kit_script(struct kit_session *s, const char *script, struct kit_run *run)
{
	struct init_spawn ask;

	kit_ask(&ask, script);
	assert_int_equal(kit_spawn(s, &ask, run), MSG_leader_started);
	msg_done(MSG_init_spawn, &ask);
	close(take_fd(run->in));
	kit_read_all(run);
	kit_recv_exit(run, MSG_leader_exit);
	return (int)run->exit.status;
}

/* A script must print exactly this and end well. */
static inline void kit_expect(struct kit_session *s, const char *script, const char *output)
{
	struct kit_run run;
	const int status = kit_script(s, script, &run);

	if (status != 0 || strcmp(run.text.data, output) != 0)
		fail_msg("%s: status %#x, printed '%s', expected '%s'", script, (unsigned)status,
			 run.text.data, output);
	kit_run_done(&run);
}

/* ---- a group of tests with one session ---- */

#define KIT_SESSION_UID 64999 /* of root's session */
static bool kit_ready;	      /* false: the tests are skipped */

static inline struct kit_session *kit_session_of(void **state)
{
	if (!kit_ready) {
		print_message("# skipped: the wrong user, or agentsh-init and agentsh-state are "
			      "not built beside the test\n");
		skip();
	}
	return *state;
}

/* Root's, with a mapped workspace, or a normal user's own. */
static inline int kit_group_open(void **state)
{
	const bool root = geteuid() == 0;
	struct kit_session *s;

	if (!kit_ready)
		return 0;
	s = mem_new(struct kit_session);
	kit_plan(&s->plan, root ? KIT_SESSION_UID : geteuid(), root);
	s->plan.idmap = root;
	kit_open(s, geteuid());
	*state = s;
	return 0;
}

static inline int kit_group_close(void **state)
{
	if (!kit_ready)
		return 0;
	kit_close(*state);
	free(*state);
	return 0;
}

/* Of a group of root's; passes the exit status of the program through. */
static inline int kit_finish(int failed)
{
	kit_clean();
	return failed;
}

/* The script runs our helper and prints its exit code: who sends a capture is seen from outside,
 * and is our program. */
static inline void kit_expect_sender(struct kit_session *s, const char *script)
{
	cleanup_fd int conn = -1;
	struct init_spawn ask;
	struct kit_run run;
	struct ucred who;
	socklen_t len = sizeof(who);
	struct stat st;

	kit_ask(&ask, script);
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

/* The session's end takes a command and its leader, whatever they ignore. */
static inline void kit_expect_end(struct kit_session *s)
{
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
