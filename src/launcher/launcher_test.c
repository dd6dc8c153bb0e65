// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"

/* A configuration file that says what the rig is, and more. */
static void write_config(struct rig *g, const char *socket, const char *base, const char *more)
{
	cleanup_free char *path = mem_printf("%s/config.yaml", g->dir);
	cleanup_free char *text =
		mem_printf("server:\n  unix_socket: %s/%s\nsessions:\n  base_dir: %s/%s\n%s",
			   g->dir, socket, g->dir, base, more);
	const int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);

	assert_int_equal(fdio_write_all(fd, text, strlen(text)), 0);
	close(fd);
	free(g->l.source.path);
	g->l.source.path = take(path);
	g->l.source.must_exist = true;
	g->l.source.mode = rig_root() ? CONFIG_SYSTEM : CONFIG_USER;
}

static void cfg_1_a_reload_takes_new_settings(void **state)
{
	struct rig *g = *state;
	struct link_msg m;

	rig_greeted(g);
	write_config(g, "run/agentsh.sock", "state", "  max_sessions: 3\n");
	launcher_reload(&g->l);
	assert_int_equal(g->l.settings.config.max_sessions, 3);
	m = rig_expect(g, MSG_launcher_hup);
	assert_int_equal(m.nfds, 2); /* log and configuration */
	link_msg_done(&m);
}

/* Two writes may get the same time: a look between them must not hide the second one. */
static void cli_1_a_file_with_the_same_time_and_another_size_is_read_again(void **state)
{
	struct rig *g = *state;

	rig_greeted(g);
	write_config(g, "run/agentsh.sock", "state", "  max_sessions: 3\n");
	g->l.config_look = watch_timer(g->l.loop, launcher_look, &g->l);
	assert_int_equal(stat(g->l.source.path, &g->l.config_seen), 0);
	launcher_look(&g->l);
	assert_int_not_equal(g->l.settings.config.max_sessions, 3);
	g->l.config_seen.st_size = 0;
	launcher_look(&g->l);
	assert_int_equal(g->l.settings.config.max_sessions, 3);
}

static void cfg_1_a_broken_file_changes_nothing(void **state)
{
	static const struct {
		const char *socket, *base, *more;
	} rows[] = {
		{"run/agentsh.sock", "state", "  max_sessions: many\n"},
		{"run/agentsh.sock", "state", "  max_session: 3\n"},
		{"run/agentsh.sock", "state",
		 "  max_sessions: 3\nsandbox:\n  session_uid: 64998\n"},
		{"run/agentsh.sock", "state",
		 "  max_sessions: 3\nlogging:\n  output: /nowhere/at/all\n"},
	};
	struct rig *g = *state;
	const int64_t before = g->l.settings.config.max_sessions;

	rig_greeted(g);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		write_config(g, rows[i].socket, rows[i].base, rows[i].more);
		launcher_reload(&g->l);
		assert_int_equal(g->l.settings.config.max_sessions, before);
		for (int turn = 0; turn < 5; turn++)
			loop_settle(g->l.loop);
		assert_int_equal(link_recv(&g->api, &(struct link_msg){0}, NULL), LINK_AGAIN);
	}
}

/* The rest holds from then on; the log names what waits, and the next API child gets the value that
 * is in use. */
static void cfg_1_what_was_made_at_start_needs_a_restart(void **state)
{
	static const char *const keys[] = {"server.unix_socket", "server.http_addr",
					   "server.api_uid",	 "sessions.base_dir",
					   "events.db",		 "events.jsonl.path"};
	static const char *const sets[] = {
		"server.auth.type=none", "server.auth.none_as=1000", "server.http_addr=127.0.0.1:1",
		"server.api_uid=61111",	 "events.db=/new/db",	     "events.jsonl.path=none"};
	struct rig *g = *state;
	cleanup_free char *log = mem_printf("%s/log", g->dir);
	cleanup_free char *output = mem_printf("logging.output=%s", log);
	cleanup_free char *base = mem_strdup(g->l.settings.config.base_dir);
	cleanup_free char *kept = mem_printf("sessions.base_dir=%s", base);
	cleanup_buf struct buf text = {0};
	struct launcher_hello hello;
	struct link_msg m;
	bool found = false;

	rig_greeted(g);
	write_config(g, "run/other.sock", "elsewhere", "  max_sessions: 3\n");
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		strv_add(&g->l.source.overrides, sets[i]);
	strv_add(&g->l.source.overrides, output);
	launcher_reload(&g->l);
	assert_int_equal(g->l.settings.config.max_sessions, 3);
	assert_string_equal(g->l.settings.config.base_dir, base);
	assert_string_equal(g->l.settings.config.http_addr, "");
	assert_int_equal(g->l.settings.kept.n, ARRAY_LEN(keys));
	assert_int_equal(fdio_load_path(log, 65536, &text, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		cleanup_free char *line = mem_printf("needs a restart key=%s\n", keys[i]);

		assert_non_null(strstr(text.data, line));
	}
	m = rig_expect(g, MSG_launcher_hup);
	link_msg_done(&m);
	rig_connect(g);
	m = rig_expect(g, MSG_launcher_hello);
	assert_int_equal(link_unpack(&m, &hello, NULL), 0);
	link_msg_done(&m);
	for (size_t i = 0; i < hello.overrides.n; i++)
		found |= strcmp(hello.overrides.v[i], kept) == 0;
	assert_true(found);
	msg_done(MSG_launcher_hello, &hello);
}

static void obs_2_a_reload_opens_the_log_again(void **state)
{
	struct rig *g = *state;
	cleanup_free char *log = mem_printf("%s/log", g->dir);
	cleanup_free char *old = mem_printf("%s/log.1", g->dir);
	cleanup_free char *more = mem_printf("logging:\n  output: %s\n", log);
	struct stat st;

	write_config(g, "run/agentsh.sock", "state", more);
	launcher_reload(&g->l);
	assert_true(g->l.settings.log_fd > STDERR_FILENO);
	assert_int_equal(rename(log, old), 0);
	launcher_reload(&g->l);
	assert_int_equal(stat(log, &st), 0);
	assert_true(st.st_size > 0);
	assert_int_equal(stat(old, &st), 0);
	assert_true(st.st_size > 0);
	write_config(g, "run/agentsh.sock", "state", "");
	launcher_reload(&g->l);
	assert_int_equal(g->l.settings.log_fd, STDERR_FILENO);
}

static void ses_8_the_loop_ends_when_nothing_is_left(void **state)
{
	struct rig *g = *state;
	struct link_msg m;

	g->l.deadline = watch_timer(g->l.loop, loop_kit_nothing, NULL);
	rig_greeted(g);
	m = rig_make(g, "s");
	link_msg_done(&m);
	/* No API child any more: wardens are killed at once. */
	api_link_stop(&g->l);
	launcher_stop(&g->l, "test");
	loop_run(g->l.loop);
	assert_int_equal(g->l.alive, 0);
}

/* ---- the whole program: a copy of this test beside links to it under the siblings' names ---- */

#define READY_FD 99

struct server {
	pid_t pid;
	int out, err; /* our ends */
};

static _Noreturn void run_server(int argc, char **argv)
{
	struct launcher_options o;
	struct err err = {0};

	if (launcher_options_parse(argc, argv, &o, &err) < 0)
		_exit(1);
	_exit(launcher_main(&o));
}

/* An API child that stays until it gets launcher_stop, or reports that it is idle. */
static _Noreturn void fake_api(char **argv)
{
	struct launcher_hello hello;
	struct link link;
	struct link_msg m;

	link_init(&link, atoi(argv[2]), SIDE_API, SIDE_LAUNCHER);
	if (link_recv(&link, &m, NULL) != LINK_OK || link_unpack(&m, &hello, NULL) < 0)
		_exit(98);
	link_send(&link, MSG_launcher_ready, 0, &(struct msg_empty){0}, NULL, 0, NULL);
	for (size_t i = 0; i < hello.overrides.n; i++)
		if (strcmp(hello.overrides.v[i], "server.auto_idle=1ms") == 0)
			link_send(&link, MSG_launcher_idle, 0, &(struct msg_empty){0}, NULL, 0,
				  NULL);
	while (link_recv(&link, &m, NULL) == 0 && m.type != MSG_launcher_stop)
		link_msg_done(&m);
	_exit(0);
}

static void install(struct rig *g)
{
	static const char *const names[] = {"agentsh-api",   "agentsh-warden", "agentsh-init",
					    "agentsh-check", "agentsh-bpf",    "agentsh-state",
					    "agentsh-fs"};
	cleanup_free char *copy =
		mem_printf("cp /proc/%d/exe %s/agentsh-server", (int)getpid(), g->dir);

	assert_int_equal(system(copy), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		cleanup_free char *path = mem_printf("%s/%s", g->dir, names[i]);

		assert_int_equal(symlink("agentsh-server", path), 0);
	}
	/* The rig's own launcher gives way. */
	runtime_done(&g->l.place);
	write_config(g, "run/agentsh.sock", "state", "");
}

static struct server start(const struct rig *g, const char *const *more)
{
	cleanup_free char *program = mem_printf("%s/agentsh-server", g->dir);
	/* The program under agentsh-bpf's name is this test. */
	const char *args[16] = {"agentsh-server", "--config", g->l.source.path, "--set",
				"sandbox.bpf=off"};
	int out[2], err[2];
	struct server s;

	for (size_t n = 5; *more != NULL; n++)
		args[n] = *more++;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	s.pid = fork();
	if (s.pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		dup2(err[1], STDERR_FILENO);
		dup2(err[1], READY_FD);
		execv(program, (char *const *)(uintptr_t)args);
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	s.out = out[0];
	s.err = err[0];
	return s;
}

#define START(g, ...) start(g, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

/* One line, or what is there at the end. */
static char *read_line(int fd)
{
	static char text[4096];
	size_t n = 0;

	while (n + 1 < sizeof(text) && read(fd, text + n, 1) == 1 && text[n++] != '\n')
		;
	text[n] = '\0';
	return text;
}

static void assert_ready(const struct rig *g, const struct server *s)
{
	cleanup_free char *expect =
		mem_printf("agentsh: ready on unix:%s/run/agentsh.sock\n", g->dir);

	assert_string_equal(read_line(s->out), expect);
}

/* Its exit status; -signal if it was killed. */
static int end(struct server *s, int sig)
{
	int status;

	if (sig != 0)
		assert_int_equal(kill(s->pid, sig), 0);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	close(s->out);
	close(s->err);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static pid_t api_of(const struct server *s)
{
	cleanup_buf struct buf text = {0};
	cleanup_free char *path = mem_printf("/proc/%d/task/%d/children", (int)s->pid, (int)s->pid);

	assert_int_equal(fdio_load_path(path, 4096, &text, NULL), 0);
	return text.len > 0 ? (pid_t)atol(text.data) : 0;
}

static bool socket_there(const struct rig *g)
{
	cleanup_free char *path = mem_printf("%s/run/agentsh.sock", g->dir);

	return access(path, F_OK) == 0;
}

static void ses_8_sigterm_and_sigint_end_in_order(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT};
	struct rig *g = *state;

	install(g);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		struct server s = START(g);

		assert_ready(g, &s);
		assert_true(socket_there(g));
		assert_int_equal(end(&s, signals[i]), 0);
		assert_false(socket_there(g));
	}
}

static void ses_8_after_sigkill_the_next_server_starts_at_once(void **state)
{
	struct rig *g = *state;

	install(g);
	for (int i = 0; i < 3; i++) {
		struct server s = START(g);
		cleanup_fd int api = -1;
		struct pollfd pfd;

		assert_ready(g, &s);
		api = proc_pidfd(api_of(&s));
		assert_true(api >= 0);
		assert_int_equal(end(&s, SIGKILL), -SIGKILL);
		/* The API child dies with it. */
		pfd = (struct pollfd){api, POLLIN, 0};
		assert_int_equal(poll(&pfd, 1, RIG_WAIT_MS), 1);
	}
}

static void cli_1_ready_is_told_to_the_descriptor(void **state)
{
	struct rig *g = *state;
	cleanup_free char *expect = mem_printf("ready %s/run/agentsh.sock\n", g->dir);
	struct server s;

	install(g);
	s = START(g, "--ready-fd", "99");
	assert_ready(g, &s);
	assert_string_equal(read_line(s.err), expect);
	assert_int_equal(end(&s, SIGTERM), 0);
}

static void cli_1_a_second_server_says_who_is_there(void **state)
{
	struct rig *g = *state;
	struct server first, second;
	char pid[32];

	install(g);
	first = START(g);
	assert_ready(g, &first);
	snprintf(pid, sizeof(pid), "(pid %d)", (int)first.pid);
	second = START(g);
	assert_non_null(strstr(read_line(second.err), pid));
	assert_int_equal(end(&second, 0), 125);
	/* An auto-started one is content with it. */
	second = START(g, "--auto");
	assert_ready(g, &second);
	assert_int_equal(end(&second, 0), 0);
	assert_true(socket_there(g));
	assert_int_equal(end(&first, SIGTERM), 0);
}

static void cli_1_an_auto_started_server_ends_when_idle(void **state)
{
	struct rig *g = *state;
	struct server s;

	install(g);
	s = START(g, "--auto", "--set", "server.auto_idle=1ms");
	assert_ready(g, &s);
	assert_int_equal(end(&s, 0), 0);
	assert_false(socket_there(g));
}

static void cfg_1_a_configuration_that_cannot_be_used_is_told_at_start(void **state)
{
	struct rig *g = *state;
	struct server s;

	install(g);
	write_config(g, "run/agentsh.sock", "state", "  max_session: 3\n");
	s = START(g);
	assert_non_null(strstr(read_line(s.err), "config.yaml:5:3"));
	assert_non_null(strstr(read_line(s.err), "agentsh-server:"));
	assert_int_equal(end(&s, 0), 125);
	write_config(g, "run/agentsh.sock", "state", "");
	s = START(g, "--set", "no.such.key=1");
	assert_non_null(strstr(read_line(s.err), "no.such.key"));
	assert_int_equal(end(&s, 0), 125);
}

static void cfg_1_sighup_reads_the_configuration_again(void **state)
{
	struct rig *g = *state;
	struct server s;

	install(g);
	s = START(g);
	assert_ready(g, &s);
	assert_int_equal(kill(s.pid, SIGHUP), 0);
	assert_non_null(strstr(read_line(s.err), "configuration read again"));
	write_config(g, "run/agentsh.sock", "state", "  max_session: 3\n");
	assert_int_equal(kill(s.pid, SIGHUP), 0);
	assert_non_null(strstr(read_line(s.err), "the old configuration stays"));
	assert_int_equal(end(&s, SIGTERM), 0);
}

static void obs_2_the_log_level_is_a_flag(void **state)
{
	struct rig *g = *state;
	struct server s;

	install(g);
	s = START(g, "--log-level", "error");
	assert_ready(g, &s);
	assert_int_equal(kill(s.pid, SIGHUP), 0);
	assert_int_equal(kill(s.pid, SIGTERM), 0);
	assert_string_equal(read_line(s.err), "");
	assert_int_equal(end(&s, 0), 0);
}

static void sbx_6_the_launcher_keeps_its_memory_to_itself(void **state)
{
	struct rig *g = *state;
	cleanup_buf struct buf text = {0};
	cleanup_free char *path = NULL;
	struct server s;
	struct stat st;

	install(g);
	s = START(g);
	assert_ready(g, &s);
	/* Non-dumpable: its files in /proc are root's, and it cannot be traced by its own uid. */
	path = mem_printf("/proc/%d/environ", (int)s.pid);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 0);
	if (!rig_root())
		assert_true(fdio_load_path(path, 65536, &text, NULL) < 0);
	assert_int_equal(end(&s, SIGTERM), 0);
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(cfg_1_a_reload_takes_new_settings),
		T(cli_1_a_file_with_the_same_time_and_another_size_is_read_again),
		T(cfg_1_a_broken_file_changes_nothing),
		T(cfg_1_what_was_made_at_start_needs_a_restart),
		T(obs_2_a_reload_opens_the_log_again),
		T(ses_8_the_loop_ends_when_nothing_is_left),
		T(ses_8_sigterm_and_sigint_end_in_order),
		T(ses_8_after_sigkill_the_next_server_starts_at_once),
		T(cli_1_ready_is_told_to_the_descriptor),
		T(cli_1_a_second_server_says_who_is_there),
		T(cli_1_an_auto_started_server_ends_when_idle),
		T(cfg_1_a_configuration_that_cannot_be_used_is_told_at_start),
		T(cfg_1_sighup_reads_the_configuration_again),
		T(obs_2_the_log_level_is_a_flag),
		T(sbx_6_the_launcher_keeps_its_memory_to_itself),
	};

	rig_main(argv);
	if (strcmp(argv[0], "agentsh-server") == 0)
		run_server(argc, argv);
	if (strcmp(argv[0], "agentsh-api") == 0)
		fake_api(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
