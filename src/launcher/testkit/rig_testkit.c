// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"
#include "check/check.h"
#include "spawn/assignment.h"
#include <linux/close_range.h>
#include <time.h>

bool rig_root(void)
{
	return geteuid() == 0;
}

uid_t rig_uid(void)
{
	return rig_root() ? RIG_UID : geteuid();
}

/* ---- the other programs ---- */

static _Noreturn void fake_init(void)
{
	char byte = SANDBOX_PREPARED;
	int fd[2];
	size_t nfds = 2;

	fdio_send(INIT_ASSIGNMENT_FD, &byte, 1, NULL, 0);
	while (fdio_recv(INIT_ASSIGNMENT_FD, &byte, 1, fd, &nfds, NULL) == -1)
		if (errno != ECONNRESET)
			_exit(1);
	while (read(INIT_LINK_FD, &byte, 1) > 0)
		;
	_exit(0);
}

static void fake_tell(int fd, const char *id)
{
	cleanup_buf struct buf text = {0};
	int number;

	buf_addf(&text, "id=%s pid=%d fds=", id, (int)getpid());
	for (number = 0; number < 256; number++)
		if (fcntl(number, F_GETFD) >= 0)
			buf_addf(&text, "%d:%d,", number, fcntl(number, F_GETFL) & O_ACCMODE);
	buf_adds(&text, "\n");
	fdio_load_path("/proc/self/status", 8192, &text, NULL);
	send(fd, text.data, text.len, MSG_NOSIGNAL);
}

static _Noreturn void fake_warden(char **argv)
{
	struct process_args args;
	struct err err = {0};
	int argc = 0;

	while (argv[argc] != NULL)
		argc++;
	if (assignment_await(argc, argv, NULL, &args, &err) < 0)
		_exit(99);
	fake_tell(args.api_fd, argv[1]);
	if (strncmp(argv[1], "exit", 4) == 0)
		_exit(atoi(argv[1] + 4));
	if (strncmp(argv[1], "deaf", 4) == 0)
		for (;;)
			pause();
	for (;;) {
		const int conn = accept4(args.listen_fd, NULL, NULL, SOCK_CLOEXEC);

		fake_tell(conn, argv[1]);
	}
}

void rig_main(char **argv)
{
	if (strcmp(argv[0], "agentsh-check") == 0)
		_exit(check_main(atoi(argv[2])));
	if (strcmp(argv[0], process_table[process_of(PROCESS_INSIDE)].program) == 0)
		fake_init();
	if (strcmp(argv[0], MAIN_PROCESS->program) == 0)
		fake_warden(argv);
	/* No process of a session runs the tests again: each of them would start the next. */
	for (size_t i = 0; i < PROCESSES; i++)
		while (strcmp(argv[0], process_table[i].program) == 0)
			pause();
}

size_t rig_ring_count(void)
{
	size_t rings;

	process_count(false, &rings);
	return rings;
}

size_t rig_processes(void)
{
	size_t rings;

	return process_count(false, &rings);
}

void rig_rings(const struct strv *names, const int *fd)
{
	assert_int_equal(names->n, rig_ring_count());
	for (size_t i = 0; i < names->n; i++) {
		assert_string_equal(names->v[i], process_table[process_with_ring(i)].name);
		assert_int_equal(fcntl(fd[2 * i], F_GETFL) & O_ACCMODE, O_RDONLY);
		assert_int_equal(fcntl(fd[2 * i + 1], F_GETFL) & O_ACCMODE, O_RDWR);
	}
}

/* ---- the launcher ---- */

static void rig_place(struct rig *g)
{
	struct config *c = &g->l.settings.config;
	struct err err = {0};
	bool other;
	const struct {
		const char *key, *value;
	} sets[] = {{"server.unix_socket", "run/agentsh.sock"}, {"sessions.base_dir", "state"}};

	assert_int_equal(config_defaults(CONFIG_SYSTEM, c, &err), 0);
	/* The programs are this one: there is no file server, and no policy that needs one. */
	assert_int_equal(config_override("monitoring.mode=native", c, &err), 0);
	assert_int_equal(config_override("policies.default=observe", c, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
		cleanup_free char *text =
			mem_printf("%s=%s/%s", sets[i].key, g->dir, sets[i].value);

		assert_int_equal(config_override(text, c, &err), 0);
	}
	assert_int_equal(runtime_open(c, g->l.privileged, &g->l.place, &err), 0);
	assert_int_equal(runtime_take(&g->l.place, false, 0, &other, &err), 0);
	assert_int_equal(runtime_prepare(c, g->l.privileged, &g->l.place, &err), 0);
	assert_int_equal(runtime_listen(c, g->l.privileged, &g->l.place, &err), 0);
}

static void rig_programs(struct launcher *l)
{
	for (size_t i = 0; i < PROGRAMS; i++) {
		l->programs.fd[i] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
		assert_true(l->programs.fd[i] >= 0);
	}
	l->programs.state_path = mem_strdup("/bin/true");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &l->nofile), 0);
}

int rig_setup(void **state)
{
	struct rig *g = mem_new(struct rig);

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC), 0);
	launcher_init(&g->l);
	g->api.fd = -1;
	snprintf(g->dir, sizeof(g->dir), "/tmp/agentsh-rig-XXXXXX");
	assert_non_null(mkdtemp(g->dir));
	assert_int_equal(chmod(g->dir, 0755), 0);
	snprintf(g->workspace, sizeof(g->workspace), "%s/work", g->dir);
	assert_int_equal(mkdir(g->workspace, 0755), 0);
	if (rig_root())
		assert_int_equal(chown(g->workspace, RIG_UID, RIG_GID), 0);
	rig_place(g);
	rig_programs(&g->l);
	*state = g;
	return 0;
}

int rig_teardown(void **state)
{
	struct rig *g = *state;
	cleanup_free char *command = mem_printf("rm -rf '%s'", g->dir);
	cleanup_free pid_t *children = NULL;
	size_t n;

	entries_kill(&g->l);
	launcher_done(&g->l);
	link_done(&g->api);
	/* what a test that failed has left */
	n = proc_children(getpid(), &children);
	for (size_t i = 0; i < n; i++)
		kill(children[i], SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
	free(g);
	return system(command);
}

static int64_t rig_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool rig_until(struct rig *g, bool (*done)(struct rig *g, void *arg), void *arg)
{
	const int64_t deadline = rig_now_ms() + RIG_WAIT_MS;

	while (!done(g, arg)) {
		if (rig_now_ms() > deadline)
			return false;
		loop_pass(g->l.loop);
		sched_yield();
	}
	return true;
}

void rig_connect(struct rig *g)
{
	int pair[2];

	api_link_stop(&g->l);
	link_done(&g->api);
	assert_int_equal(link_pair(pair, NULL), 0);
	assert_int_equal(fdio_nonblock(pair[1]), 0);
	link_init(&g->api, pair[1], SIDE_API, SIDE_LAUNCHER);
	assert_int_equal(api_child_connect(&g->l, pair[0], NULL), 0);
}

bool rig_received(struct rig *g, void *arg)
{
	return link_recv(&g->api, arg, NULL) == 0;
}

struct link_msg rig_expect(struct rig *g, enum msg_type type)
{
	struct link_msg m = {0};

	for (;;) {
		assert_true(rig_until(g, rig_received, &m));
		/* what is known of policies comes whenever one was compiled */
		if (m.type == type || m.type != MSG_launcher_policies)
			break;
		link_msg_done(&m);
	}
	assert_int_equal(m.type, type);
	return m;
}

void rig_skip(struct rig *g, enum msg_type type)
{
	struct link_msg m = rig_expect(g, type);

	link_msg_done(&m);
}

void rig_greeted(struct rig *g)
{
	rig_connect(g);
	rig_skip(g, MSG_launcher_hello);
	rig_skip(g, MSG_launcher_found_all);
}

int rig_client(const struct rig *g, uid_t uid, gid_t gid)
{
	const pid_t pid = fork();

	if (pid == 0) {
		struct sockaddr_un a = {.sun_family = AF_UNIX};
		const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		char byte;

		snprintf(a.sun_path, sizeof(a.sun_path), "%s", g->l.place.socket);
		if (rig_root() && (setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
			_exit(1);
		if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
			_exit(2);
		(void)!read(fd, &byte, 1);
		_exit(0);
	}
	for (;;) {
		const int fd = accept4(g->l.place.unix_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			return fd;
		assert_int_equal(errno, EAGAIN);
		sched_yield();
	}
}

void rig_ask(struct rig *g, uint32_t req, const struct launcher_create *ask, int proof)
{
	struct err err = {0};

	assert_int_equal(
		link_send(&g->api, MSG_launcher_create, req, ask, &proof, proof >= 0 ? 1 : 0, &err),
		0);
}

struct launcher_create rig_request(struct rig *g, const char *id)
{
	return (struct launcher_create){.session_id = (char *)(uintptr_t)id,
					.workspace = g->workspace,
					.policy = (char *)(uintptr_t) "observe"};
}

static bool rig_use_prepare(struct launcher *l, struct check_job *job, struct check_ask *ask,
			    int *snapshot)
{
	char name[] = "observe", *names[] = {name};

	policies_question(l, &(struct strv){names, 1}, true, ask);
	return true;
}

static void rig_use_done(struct launcher *l, struct check_job *job, struct checked *got, size_t n)
{
	assert_int_equal(checked_error(&got[0], NULL), 0);
	policies_add(l, &got[0]);
}

static bool rig_used(struct rig *g, void *arg)
{
	return policies_find(&g->l, "observe") != NULL;
}

void rig_use_policy(struct rig *g)
{
	struct check_job job = {.prepare = rig_use_prepare, .done = rig_use_done};

	check_start(&g->l, &job);
	assert_true(rig_until(g, rig_used, NULL));
}

struct link_msg rig_make(struct rig *g, const char *id)
{
	const struct launcher_create ask = rig_request(g, id);
	const int proof = rig_client(g, rig_uid(), RIG_GID);
	struct link_msg m;

	rig_ask(g, 17, &ask, proof);
	m = rig_expect(g, MSG_launcher_created);
	assert_int_equal(m.req, 17);
	close(proof);
	return m;
}

char *rig_hear(int fd)
{
	static char text[16384];
	struct pollfd pfd = {fd, POLLIN, 0};
	ssize_t n;

	assert_int_equal(poll(&pfd, 1, RIG_WAIT_MS), 1);
	n = recv(fd, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	return text;
}

bool rig_file(const struct rig *g, const char *name)
{
	struct stat st;

	return fstatat(g->l.place.sessions_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

size_t rig_entries(const struct rig *g)
{
	const struct session_entry *w;
	size_t n = 0;

	TAILQ_FOREACH (w, &g->l.entries, next)
		n++;
	return n;
}

bool rig_no_entries(struct rig *g, void *arg)
{
	return TAILQ_EMPTY(&g->l.entries);
}
