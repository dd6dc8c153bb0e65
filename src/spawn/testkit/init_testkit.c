// SPDX-License-Identifier: Apache-2.0
#include "spawn/testkit/init_testkit.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/proc.h"
#include "sandbox/inside.h"
#include "sandbox/toolchains.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TIMEOUT_S 60 /* for a whole program: a hang becomes a failure */

/* Opened before a test gives up root: the build may lie where only root looks. */
static int box_init_fd = -1;
char box_dir[64], box_state[96], box_workspace[96];
int box_program = -1;

static int box_open_program(const char *name)
{
	const char *build = getenv("AGENTSH_BUILD_DIR");
	cleanup_free char *path =
		mem_printf("%s/%s", build != NULL ? build : proc_self_dir(), name);

	return open(path, O_RDONLY | O_CLOEXEC);
}

static int box_copy(int from, const char *to)
{
	cleanup_fd int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	cleanup_buf struct buf b = {0};

	if (out < 0 || fdio_load(from, 64 << 20, &b, NULL) < 0)
		return -1;
	return fdio_write_all(out, b.data, b.len);
}

int box_prepare(uid_t owner)
{
	cleanup_fd int state = box_open_program("agentsh-state");

	alarm(TIMEOUT_S);
	box_init_fd = box_open_program("agentsh-init");
	if (box_init_fd < 0 || state < 0)
		return -1;
	snprintf(box_dir, sizeof(box_dir), "/tmp/agentsh-test-XXXXXX");
	if (mkdtemp(box_dir) == NULL || chmod(box_dir, 0755) < 0)
		return -1;
	snprintf(box_state, sizeof(box_state), "%s/state", box_dir);
	snprintf(box_workspace, sizeof(box_workspace), "%s/workspace", box_dir);
	if (box_copy(state, box_state) < 0 || mkdir(box_workspace, 0755) < 0 ||
	    chown(box_workspace, owner, owner) < 0)
		return -1;
	return 0;
}

void box_clean(void)
{
	cleanup_free char *command = mem_printf("rm -rf %s", box_dir);

	if (box_dir[0] != '\0' && system(command) != 0)
		fprintf(stderr, "cannot remove %s\n", box_dir);
}

/* Root becomes this user and cannot go back; any other user stays the same. */
static int box_become_user(void)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(BOX_USER, BOX_USER, BOX_USER) < 0)
		return -1;
	return setresuid(BOX_USER, BOX_USER, BOX_USER);
}

int box_run_as_user(int (*tests)(void))
{
	int status = 1;
	const pid_t pid = fork();

	if (pid == 0)
		exit(box_become_user() < 0 ? 1 : tests());
	waitpid(pid, &status, 0);
	box_clean();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void box_plan(struct sandbox_plan *p, uint32_t uid, bool privileged)
{
	static const char *const system[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};

	*p = (struct sandbox_plan){.uid = uid, .gid = uid, .privileged = privileged};
	p->session_id = mem_strdup("session-test");
	p->hostname = mem_strdup("session-test");
	p->state_program = mem_strdup(box_state);
	for (size_t i = 0; i < ARRAY_LEN(system); i++)
		strv_add(&p->read_only_paths, system[i]);
}

int box_start_init(const struct sandbox_start *start, const struct sandbox_trees *view, pid_t *pid,
		   struct err *err)
{
	struct sandbox_prepared p = {.assignment = -1};
	cleanup_fd int plan_fd = -1;
	int r = plan_seal(start->plan, &plan_fd, err);

	if (r == 0)
		r = sandbox_prepare_init(start, &p, err);
	if (r < 0)
		return r;
	r = sandbox_bind_init(&p, plan_fd, start->tree_fd, view, err);
	close(p.assignment);
	if (r == 0)
		*pid = p.pid;
	else
		waitpid(p.pid, NULL, 0);
	return r;
}

void box_start(struct box_session *s, uint32_t asker, struct link_msg *m)
{
	struct sandbox_workspace_ask ask = {box_workspace, asker, asker, NULL, -1, NULL};
	const struct idmap map = {s->plan.owner_uid, s->plan.owner_gid, s->plan.uid, s->plan.gid};
	const struct toolchains none = {0};
	struct sandbox_trees view = {0};
	cleanup_free char *real = NULL;
	cleanup_fd int tree = -1;
	struct sandbox_start start = {&s->plan, box_init_fd, -1, -1};
	struct err err = {0};
	int pair[2];

	s->root_fd = s->state_fd = -1;
	if (s->plan.idmap && sandbox_idmap(&map, &ask.userns, &err) < 0)
		fail_msg("%s", err.message);
	if (sandbox_workspace(&ask, &s->plan, &tree, &real, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(real, box_workspace);
	if (s->plan.privileged)
		sandbox_view(&s->plan, &ask, &none, &view, NULL); /* init reports the error */
	assert_int_equal(link_pair(pair, &err), 0);
	start.init_link = pair[1];
	start.tree_fd = tree;
	if (box_start_init(&start, &view, &s->pid, &err) < 0)
		fail_msg("%s", err.message);
	close(pair[1]);
	sandbox_trees_done(&view);
	mem_cleanup_fd(&ask.userns);
	link_init(&s->init, pair[0], SIDE_WARDEN, SIDE_INIT);
	if (link_recv(&s->init, m, &err) != LINK_OK)
		fail_msg("no message from init: %s", err.message);
}

void box_open(struct box_session *s, uint32_t asker)
{
	struct init_failed failed;
	struct init_ready ready;
	struct link_msg m;

	box_start(s, asker, &m);
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

void box_close(struct box_session *s)
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

static enum msg_type box_first_message(struct box_run *run)
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

enum msg_type box_spawn(struct box_session *s, struct init_spawn *ask, struct box_run *run)
{
	int in[2], out[2], pair[2];
	const int on = 1;
	struct err err = {0};

	*run = (struct box_run){.pidfd = -1};
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(link_pair(pair, &err), 0);
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	link_init(&run->leader, pair[0], SIDE_WARDEN, SIDE_LEADER);
	if (link_send(&s->init, MSG_init_spawn, 7, ask,
		      (int[]){in[0], out[1], out[1], pair[1], box_program},
		      box_program >= 0 ? 5 : 4, &err) != LINK_OK)
		fail_msg("%s", err.message);
	close(in[0]);
	close(out[1]);
	close(pair[1]);
	run->in = in[1];
	run->out = out[0];
	return box_first_message(run);
}

enum msg_type box_spawn_again(struct init_spawn *ask, struct box_run *run)
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
		      (int[]){in[0], out[1], out[1], box_program}, box_program >= 0 ? 4 : 3,
		      &err) != LINK_OK)
		fail_msg("%s", err.message);
	close(in[0]);
	close(out[1]);
	run->in = in[1];
	run->out = out[0];
	return box_first_message(run);
}

void box_recv_exit(struct box_run *run, enum msg_type type)
{
	struct err err = {0};
	struct link_msg m;

	if (link_recv(&run->leader, &m, &err) != LINK_OK)
		fail_msg("the leader has gone: %s", err.message);
	assert_int_equal(m.type, type);
	assert_int_equal(link_unpack(&m, &run->exit, NULL), 0);
}

void box_read_all(struct box_run *run)
{
	assert_int_equal(fdio_load(run->out, 1 << 20, &run->text, NULL), 0);
}

void box_expect_eof(struct box_run *run)
{
	struct link_msg m;

	assert_int_equal(link_recv(&run->leader, &m, NULL), LINK_EOF);
}

void box_run_done(struct box_run *run)
{
	link_done(&run->leader);
	mem_cleanup_fd(&run->pidfd);
	mem_cleanup_fd(&run->in);
	mem_cleanup_fd(&run->out);
	buf_done(&run->text);
}

void box_ask(struct init_spawn *ask, const char *script)
{
	*ask = (struct init_spawn){.umask = 022, .stdio = SPAWN_PIPE};
	ask->path = mem_strdup("/bin/sh");
	ask->cwd = mem_strdup("/workspace");
	strv_add(&ask->argv, "sh");
	strv_add(&ask->argv, "-c");
	strv_add(&ask->argv, script);
	strv_add(&ask->env, "PATH=/usr/local/bin:/usr/bin:/bin");
	strv_add(&ask->env, "HOME=/home/agent");
}

int box_script(struct box_session *s, const char *script, struct box_run *run)
{
	struct init_spawn ask;

	box_ask(&ask, script);
	assert_int_equal(box_spawn(s, &ask, run), MSG_leader_started);
	msg_done(MSG_init_spawn, &ask);
	close(take_fd(run->in));
	box_read_all(run);
	box_recv_exit(run, MSG_leader_exit);
	return (int)run->exit.status;
}

void box_expect(struct box_session *s, const char *script, const char *output)
{
	struct box_run run;
	const int status = box_script(s, script, &run);

	if (status != 0 || strcmp(run.text.data, output) != 0)
		fail_msg("%s: status %#x, printed '%s', expected '%s'", script, (unsigned)status,
			 run.text.data, output);
	box_run_done(&run);
}

/* ---- a group of tests with one session ---- */

bool box_ready;

struct box_session *box_session_of(void **state)
{
	if (!box_ready) {
		print_message("# skipped: the wrong user, or agentsh-init and agentsh-state are "
			      "not built beside the test\n");
		skip();
	}
	return *state;
}

int box_group_open(void **state)
{
	const bool root = geteuid() == 0;
	struct box_session *s;

	if (!box_ready)
		return 0;
	s = mem_new(struct box_session);
	box_plan(&s->plan, root ? BOX_SESSION_UID : geteuid(), root);
	s->plan.idmap = root;
	box_open(s, geteuid());
	*state = s;
	return 0;
}

int box_group_close(void **state)
{
	if (!box_ready)
		return 0;
	box_close(*state);
	free(*state);
	return 0;
}

int box_finish(int failed)
{
	box_clean();
	return failed;
}

void box_expect_sender(struct box_session *s, const char *script)
{
	cleanup_fd int conn = -1;
	struct init_spawn ask;
	struct box_run run;
	struct ucred who;
	socklen_t len = sizeof(who);
	struct stat st;

	box_ask(&ask, script);
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	conn = accept4(s->state_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(conn >= 0);
	assert_int_equal(getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &who, &len), 0);
	assert_int_equal(stat(box_state, &st), 0);
	assert_int_equal(proc_exe_is(who.pid, st.st_dev, st.st_ino), 1);
	assert_int_equal(send(conn, "A", 1, MSG_NOSIGNAL), 1);
	box_read_all(&run);
	assert_string_equal(run.text.data, "0\n");
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

void box_expect_end(struct box_session *s)
{
	cleanup_fd int pidfd = -1, leader = -1;
	struct init_spawn ask;
	struct box_run run;

	box_ask(&ask, "trap '' TERM HUP; while :; do read x; done < /dev/zero");
	assert_int_equal(box_spawn(s, &ask, &run), MSG_leader_started);
	leader = proc_pidfd(run.leader_pid);
	assert_true(leader >= 0);
	pidfd = take_fd(run.pidfd);
	shutdown(s->init.fd, SHUT_RDWR);
	assert_int_equal(poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, 10000), 1);
	assert_int_equal(poll(&(struct pollfd){leader, POLLIN, 0}, 1, 10000), 1);
	box_expect_eof(&run);
	box_run_done(&run);
	msg_done(MSG_init_spawn, &ask);
}

void box_expect_limits(struct box_session *s)
{
	cleanup_free char *name = mem_printf("/proc/%d/limits", (int)s->pid), *expected = NULL;
	cleanup_buf struct buf text = {0};
	unsigned long long soft, hard;
	struct rlimit now;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	expected = mem_printf(
		"Max core file size 1 1 bytes \nMax open files 4096 %llu files \n"
		"Max nice priority 0 0 \nMax realtime priority 0 0 \n100\nno\nfull\n",
		(unsigned long long)(now.rlim_max / 2 < 65536 ? now.rlim_max / 2 : 65536));
	box_expect(s,
		   "grep -E 'core file|open files|nice|realtime p' /proc/self/limits | tr -s ' '; "
		   "ulimit -n 100; ulimit -n; (ulimit -n 101) 2>/dev/null || echo no; "
		   "sh -c 'exec 3</ 100</' 2>/dev/null || echo full",
		   expected);
	/* init and the leaders, which send descriptors, have more */
	assert_int_equal(fdio_load_path(name, 1 << 16, &text, NULL), 0);
	assert_int_equal(sscanf(strstr(text.data, "Max open files"), "Max open files %llu %llu",
				&soft, &hard),
			 2);
	assert_int_equal(soft, now.rlim_max);
	assert_int_equal(hard, now.rlim_max);
}
