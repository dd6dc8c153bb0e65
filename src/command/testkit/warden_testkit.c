// SPDX-License-Identifier: Apache-2.0
#include "command/testkit/warden_testkit.h"
#include "spawn/testkit/init_testkit.h"

char wkit_dir[64];
bool wkit_ready;
int wkit_warden_fd = -1;
static int wkit_init_fd = -1;

int64_t wkit_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wkit_open_program(const char *name)
{
	const char *build = getenv("AGENTSH_BUILD_DIR");
	cleanup_free char *path =
		mem_printf("%s/%s", build != NULL ? build : proc_self_dir(), name);

	return open(path, O_RDONLY | O_CLOEXEC);
}

static int wkit_copy(int from, const char *to)
{
	cleanup_fd int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	cleanup_buf struct buf b = {0};

	if (from < 0 || out < 0 || fdio_load(from, 64 << 20, &b, NULL) < 0)
		return -1;
	return fdio_write_all(out, b.data, b.len);
}

int wkit_prepare(void **state)
{
	const bool root = geteuid() == 0;
	cleanup_fd int program = wkit_open_program("agentsh-state");
	char path[128];

	setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* the warden is non-dumpable */
	signal(SIGPIPE, SIG_IGN);
	wkit_init_fd = wkit_open_program("agentsh-init");
	wkit_warden_fd = wkit_open_program("agentsh-warden");
	strcpy(wkit_dir, "/tmp/agentsh-warden-XXXXXX");
	if (wkit_init_fd < 0 || wkit_warden_fd < 0 || mkdtemp(wkit_dir) == NULL ||
	    chmod(wkit_dir, 0755) < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/state", wkit_dir);
	if (wkit_copy(program, path) < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/workspace", wkit_dir);
	if (mkdir(path, 0755) < 0 || (root && chown(path, WKIT_UID, WKIT_UID) < 0))
		return 0;
	wkit_ready = true;
	return 0;
}

int wkit_clean(void **state)
{
	cleanup_free char *command = mem_printf("rm -rf '%s'", wkit_dir);

	return wkit_dir[0] != '\0' ? system(command) : 0;
}

static int wkit_listen(struct wkit *k)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	static unsigned n;
	int fd;

	snprintf(k->socket, sizeof(k->socket), "%s/%u.sock", wkit_dir, n++);
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", k->socket);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(chmod(k->socket, 0666), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static _Noreturn void wkit_stub(struct wkit *k, struct process_args *args, int init_link, int tree)
{
	const struct sandbox_start start = {&k->plan, wkit_init_fd, init_link, tree};
	const struct process_row *row = &process_table[PROCESS_warden];
	struct process_link init = {.row = &process_table[PROCESS_init], .fd = args->init_fd};
	struct strv argv = {0};
	struct err err = {0};
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* A warden that outlives a broken test must not hold the test's output open. */
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (getenv("KIT_LOG") == NULL)
		dup2(null, STDERR_FILENO);
	if (box_start_init(&start, NULL, &init.pid, &err) == 0) {
		process_args_add(args, &init);
		process_args_format(row, args, &argv);
		process_args_pass(row, args);
		if (sandbox_become_user(&k->plan, &err) == 0)
			sandbox_execute(wkit_warden_fd, argv.v, &err);
	}
	fprintf(stderr, "stub: %s\n", err.message);
	_exit(125);
}

static void wkit_plan(struct wkit *k)
{
	static const char *const system[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
	const bool root = geteuid() == 0;

	k->plan = (struct sandbox_plan){.uid = root ? WKIT_UID : geteuid(),
					.gid = root ? WKIT_UID : getegid(),
					.privileged = root,
					.exec_control = 1};
	k->plan.session_id = mem_strdup("session-test");
	k->plan.hostname = mem_strdup("session-test");
	k->plan.state_program = mem_printf("%s/state", wkit_dir);
	for (size_t i = 0; i < ARRAY_LEN(system); i++)
		strv_add(&k->plan.read_only_paths, system[i]);
}

static void wkit_journal(struct wkit *k, uint32_t size, struct process_args *args)
{
	static unsigned n;
	cleanup_free char *ring = mem_printf("%s/%u.ring", wkit_dir, n);
	cleanup_free char *ack = mem_printf("%s/%u.ack", wkit_dir, n++);
	struct err err = {0};

	if (journal_create(AT_FDCWD, ring, ack, size, &args->ring_fd, &args->ack_fd, &err) < 0)
		fail_msg("%s", err.message);
	k->ring_fd = fcntl(args->ring_fd, F_DUPFD_CLOEXEC, 3);
	k->ack_fd = fcntl(args->ack_fd, F_DUPFD_CLOEXEC, 3);
	assert_int_equal(journal_reader_open(fcntl(args->ring_fd, F_DUPFD_CLOEXEC, 3),
					     fcntl(args->ack_fd, F_DUPFD_CLOEXEC, 3), "ring",
					     &k->reader, &err),
			 0);
}

/* The next message, whatever it is. */
static enum link_status wkit_recv(struct wkit *k, struct link_msg *m)
{
	struct pollfd p = {k->api.fd, POLLIN, 0};
	struct err err = {0};

	if (poll(&p, 1, WKIT_WAIT_MS) <= 0)
		fail_msg("the warden sends no message");
	return link_recv(&k->api, m, &err);
}

void wkit_recv_type(struct wkit *k, enum msg_type type, void *obj)
{
	for (;;) {
		struct link_msg m;

		assert_int_equal(wkit_recv(k, &m), 0);
		if (m.type == type) {
			assert_int_equal(link_unpack(&m, obj, NULL), 0);
			link_msg_done(&m);
			return;
		}
		link_msg_done(&m);
	}
}

void wkit_say_hello(struct wkit *k)
{
	struct err err = {0};

	if (link_send(&k->api, MSG_warden_hello, 1, &k->hello, NULL, 0, &err) != LINK_OK)
		fail_msg("%s", err.message);
	msg_done(MSG_warden_state, &k->state);
	wkit_recv_type(k, MSG_warden_state, &k->state);
}

static int wkit_policy(const char *rules)
{
	cleanup_free char *text =
		mem_printf("version: 1\nname: test\ndefault: {files: allow, network: "
			   "allow, commands: allow}\n%s",
			   rules != NULL ? rules : "");
	const struct policy_options o = {0};
	cleanup_buf struct buf bytes = {0}, report = {0};
	struct err err = {0};

	if (policy_compile("test.yaml", text, strlen(text), &o, &report, &bytes, &err) < 0)
		fail_msg("%s", report.data);
	return fdio_sealed("policy", bytes.data, bytes.len);
}

struct wkit *wkit_open_with(const struct wkit_request *request)
{
	struct wkit *k = mem_new(struct wkit);
	cleanup_free char *workspace = mem_printf("%s/workspace", wkit_dir);
	const struct sandbox_workspace_ask ask = {workspace, geteuid() == 0 ? WKIT_UID : geteuid(),
						  geteuid() == 0 ? WKIT_UID : getegid(), NULL};
	struct process_args args = {.session_id = "session-test",
				    .log_level = LOG_INFO,
				    .exec_map_fd = request->exec_map > 0 ? request->exec_map : -1,
				    .exec_link_fd =
					    request->exec_map > 0 ? request->exec_link : -1};
	cleanup_free char *real = NULL;
	cleanup_fd int tree = -1;
	int api[2], init[2];
	struct err err = {0};

	wkit_plan(k);
	if (sandbox_workspace(&ask, &k->plan, &tree, &real, &err) < 0)
		fail_msg("%s", err.message);
	wkit_journal(k, request->ring > 0 ? request->ring : JOURNAL_RING_DEFAULT, &args);
	assert_int_equal(link_pair(api, &err), 0);
	assert_int_equal(link_pair(init, &err), 0);
	args.listen_fd = wkit_listen(k);
	args.api_fd = api[1];
	args.init_fd = init[0];
	args.policy_fd = wkit_policy(request->rules);
	args.api_uid = geteuid() == 0 ? WKIT_API_UID : geteuid();
	strv_add(&args.walls, "process_separation\tup\tby the test");
	if (request->counters != NULL)
		args.counters = *request->counters;
	k->warden = fork();
	if (k->warden == 0) {
		close(api[0]);
		wkit_stub(k, &args, init[1], tree);
	}
	close(api[1]);
	close(init[0]);
	close(init[1]);
	close(args.listen_fd);
	close(args.ring_fd);
	close(args.ack_fd);
	close(args.policy_fd);
	strv_done(&args.walls);
	link_init(&k->api, api[0], SIDE_API, SIDE_WARDEN);
	k->hello = (struct warden_hello){
		.version = LINK_VERSION,
		.orphan_timeout_ms = request->orphan_ms > 0 ? request->orphan_ms : 10000,
		.command_timeout_ms = request->timeout_ms,
		.output_quota = request->quota > 0 ? request->quota : 1 << 30,
		.env_max = request->env_max,
		.keep_background = request->keep,
		.full_ring_drops = request->drops};
	strv_add(&k->hello.env, WKIT_PATH);
	strv_add(&k->hello.env, "LANG=C.UTF-8");
	k->hello.cwd = mem_strdup("/workspace");
	k->hello.shell = mem_strdup(request->shell);
	k->hello.agent_id = mem_strdup("agent-1");
	if (!request->no_hello)
		wkit_say_hello(k);
	return k;
}

int wkit_open(void **state)
{
	const struct wkit_request plain = {.timeout_ms = 60000};

	if (wkit_ready)
		*state = wkit_open_with(&plain);
	return 0;
}

struct wkit *wkit_of(void **state)
{
	if (!wkit_ready)
		skip(); /* agentsh-init, agentsh-warden and agentsh-state are not built beside the
			   test */
	return *state;
}

static bool wkit_note_event(const struct event *e, uint64_t pos, void *arg)
{
	struct wkit *k = arg;
	const size_t n = strlen(k->events), have = strlen(k->execs);

	if (e->type == EVENT_exec) {
		assert_true(e->exec_argv.n > 0);
		assert_true(e->pid > 1 || strcmp(e->decision, "deny") == 0);
		snprintf(k->execs + have, sizeof(k->execs) - have, "%s %s %s %s;", e->exec_path,
			 e->decision, e->command_id != NULL ? e->command_id : "-", e->policy_rule);
		return true;
	}
	if (e->type == EVENT_command_finished)
		k->pid = e->pid;
	if (e->command_line != NULL)
		snprintf(k->line, sizeof(k->line), "%s", e->command_line);
	snprintf(k->events + n, sizeof(k->events) - n, "%s %s %d;", event_type_name(e->type),
		 e->command_id != NULL ? e->command_id : "-", e->has_exit ? (int)e->exit_code : -1);
	return true;
}

void wkit_drain(struct wkit *k)
{
	struct err err = {0};

	while (journal_drain(k->reader, 1000, wkit_note_event, k, &err) > 0)
		;
	assert_int_equal(err.code, 0);
	journal_ack_to(k->reader, journal_reader_pos(k->reader));
}

void wkit_free(struct wkit *k)
{
	link_done(&k->api);
	journal_reader_close(k->reader);
	close(k->ring_fd);
	close(k->ack_fd);
	sandbox_plan_done(&k->plan);
	msg_done(MSG_warden_hello, &k->hello);
	msg_done(MSG_warden_state, &k->state);
	free(k);
}

int wkit_wait_warden(struct wkit *k)
{
	const int pidfd = proc_pidfd(k->warden);
	struct pollfd p = {pidfd, POLLIN, 0};
	int status = -1;

	if (poll(&p, 1, WKIT_WAIT_MS) <= 0) {
		kill(k->warden, SIGKILL);
		waitpid(k->warden, NULL, 0);
		fail_msg("the warden does not end");
	}
	close(pidfd);
	assert_int_equal(waitpid(k->warden, &status, 0), k->warden);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void wkit_end(struct wkit *k)
{
	const struct warden_end end = {(char *)(uintptr_t) "test"};

	assert_int_equal(link_send(&k->api, MSG_warden_end, 9, &end, NULL, 0, NULL), 0);
}

int wkit_close(void **state)
{
	struct wkit *k = *state;

	if (k == NULL)
		return 0;
	wkit_end(k);
	wkit_drain(k);
	assert_int_equal(wkit_wait_warden(k), 0);
	wkit_free(k);
	*state = NULL;
	return 0;
}

struct wkit_command wkit_command(struct wkit *k)
{
	struct wkit_command c = {0};

	snprintf(c.id, sizeof(c.id), "cmd-%u", ++k->made);
	c.ask.command_id = mem_strdup(c.id);
	for (int i = 0; i < 2; i++)
		c.out[i] = memfd_create("out", MFD_CLOEXEC);
	return c;
}

void wkit_send(struct wkit *k, struct wkit_command *c)
{
	struct err err = {0};

	for (int i = 0; i < 2; i++)
		fcntl(c->out[i], F_SETFL, O_APPEND);
	if (link_send(&k->api, MSG_warden_exec, 5, &c->ask, c->out, 2, &err) != LINK_OK)
		fail_msg("%s", err.message);
}

bool wkit_step(struct wkit *k, struct wkit_command *c)
{
	struct link_msg m;
	struct warden_started s;
	struct warden_output o;
	struct warden_taken t;
	bool over = false;

	if (wkit_recv(k, &m) != LINK_OK)
		fail_msg("the warden is gone");
	switch (m.type) {
	case MSG_warden_started:
		assert_int_equal(link_unpack(&m, &s, NULL), 0);
		assert_true(s.pid > 1);
		k->started = true;
		msg_done(m.type, &s);
		break;
	case MSG_warden_output:
		assert_int_equal(link_unpack(&m, &o, NULL), 0);
		k->out_bytes = o.stdout_bytes;
		msg_done(m.type, &o);
		break;
	case MSG_warden_taken:
		assert_int_equal(link_unpack(&m, &t, NULL), 0);
		k->taken = t.total;
		msg_done(m.type, &t);
		break;
	case MSG_warden_bell:
		k->bells++;
		break;
	case MSG_warden_refused:
		assert_int_equal(link_unpack(&m, &c->refused, NULL), 0);
		over = true;
		break;
	case MSG_warden_result:
		assert_int_equal(link_unpack(&m, &c->result, NULL), 0);
		assert_string_equal(c->result.command_id, c->id);
		over = true;
		break;
	case MSG_warden_failed: {
		struct warden_failed f;

		assert_int_equal(link_unpack(&m, &f, NULL), 0);
		fail_msg("the session failed: %s", f.reason);
		break;
	}
	default:
		break;
	}
	link_msg_done(&m);
	return over;
}

void wkit_ack(struct wkit *k, const char *id)
{
	char *ids[] = {(char *)(uintptr_t)id, NULL};
	const struct warden_acks ack = {{ids, 1}};
	const enum link_status s = link_send(&k->api, MSG_warden_ack, 0, &ack, NULL, 0, NULL);

	/* A warden that was asked to end may be gone once its last result is there. */
	if (k->api.state != LINK_ENDING || s != LINK_EOF)
		assert_int_equal(s, LINK_OK);
}

void wkit_wait_started(struct wkit *k, struct wkit_command *c)
{
	k->started = false;
	while (!k->started)
		if (wkit_step(k, c))
			fail_msg("%s is over", c->id);
}

void wkit_wait(struct wkit *k, struct wkit_command *c)
{
	while (!wkit_step(k, c))
		;
	if (c->result.command_id != NULL)
		wkit_ack(k, c->id);
}

void wkit_done(struct wkit_command *c)
{
	msg_done(MSG_warden_exec, &c->ask);
	msg_done(MSG_warden_result, &c->result);
	msg_done(MSG_warden_refused, &c->refused);
	close(c->out[0]);
	close(c->out[1]);
}

char *wkit_text(const struct wkit_command *c, int i)
{
	cleanup_buf struct buf b = {0};

	buf_adds(&b, "");
	lseek(c->out[i], 0, SEEK_SET);
	assert_int_equal(fdio_load(c->out[i], 1 << 24, &b, NULL), 0);
	return buf_take(&b);
}

struct wkit_command wkit_run_v(struct wkit *k, const char *const *argv)
{
	struct wkit_command c = wkit_command(k);

	for (; *argv != NULL; argv++)
		strv_add(&c.ask.argv, *argv);
	wkit_send(k, &c);
	wkit_wait(k, &c);
	return c;
}

struct wkit_command wkit_start_script(struct wkit *k, const char *script, uint64_t timeout_ms)
{
	struct wkit_command c = wkit_command(k);

	c.ask.script = mem_strdup(script);
	c.ask.timeout_ms = timeout_ms;
	wkit_send(k, &c);
	return c;
}

struct wkit_command wkit_script(struct wkit *k, const char *script)
{
	struct wkit_command c = wkit_command(k);

	c.ask.script = mem_strdup(script);
	wkit_send(k, &c);
	wkit_wait(k, &c);
	return c;
}

void wkit_expect(struct wkit *k, const char *script, const char *out, uint32_t code)
{
	struct wkit_command c = wkit_script(k, script);
	cleanup_free char *text = wkit_text(&c, 0);
	cleanup_free char *err = wkit_text(&c, 1);

	if (c.refused.code != NULL)
		fail_msg("%s: refused: %s", script, c.refused.message);
	if (strcmp(text, out) != 0 || c.result.exit_code != code)
		fail_msg("%s: printed '%s' '%s' and ended with %u (%s), capture %s", script, text,
			 err, c.result.exit_code,
			 c.result.error_message != NULL ? c.result.error_message : "no error",
			 c.result.capture);
	wkit_done(&c);
}

bool wkit_alive(const char *text)
{
	cleanup_free char *command =
		mem_printf("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -q '[%c]%s'",
			   text[0], text + 1);

	return system(command) == 0;
}
