// SPDX-License-Identifier: Apache-2.0
/* Time-outs, kills, floods, windows, and what is asked of a session, through the real programs. */
#include "command/testkit/warden_testkit.h"
#include <sys/eventfd.h>

#define STORM_GOES_ON_MS 300

static void send_kill(struct wkit *k, const char *id, int sig, uint64_t grace_ms, bool tree)
{
	const struct warden_kill m = {.command_id = (char *)(uintptr_t)id,
				      .signal = (uint32_t)sig,
				      .grace_ms = grace_ms,
				      .tree = tree};

	assert_int_equal(link_send(&k->api, MSG_warden_kill, 0, &m, NULL, 0, NULL), 0);
}

/* EXE-4: the time-out ends the whole tree, whatever it does, and answers with what was printed. */
static void exe_4_a_time_out_kills_the_tree(void **state)
{
	static const char *const scripts[] = {
		"sleep 7171",
		"trap '' TERM HUP INT; sleep 7171; sleep 7171",
		"setsid sleep 7171 & (setsid sh -c 'sleep 7171 & sleep 7171' &) ; sleep 7171",
		"sleep 7171 & kill -STOP $!; kill -STOP $$",
		"while :; do (setsid sh -c '(sleep 7171 &) ; sleep 7171' &) ; sleep 0.01; done",
	};
	struct wkit *k = wkit_of(state);

	for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
		cleanup_free char *script = mem_printf("echo partial; %s", scripts[i]);
		const int64_t begun = wkit_now_ms();
		struct wkit_command c = wkit_start_script(k, script, STORM_GOES_ON_MS);
		cleanup_free char *out = NULL;

		wkit_wait(k, &c);
		out = wkit_text(&c, 0);
		assert_string_equal(out, "partial\n");
		assert_int_equal(c.result.exit_code, 124);
		assert_string_equal(c.result.error_code, "E_COMMAND_TIMEOUT");
		assert_int_equal(c.result.background.n, 0);
		assert_true(wkit_now_ms() - begun >= STORM_GOES_ON_MS);
		assert_true(wkit_now_ms() - begun < STORM_GOES_ON_MS + 3000);
		assert_false(wkit_alive("sleep 7171"));
		wkit_done(&c);
	}
	wkit_drain(k);
	assert_non_null(strstr(k->events, "command_timeout cmd-1 124;"));
}

/* EXE-4: the session's limit caps the request's. */
static void exe_4_the_sessions_time_out_caps(void **state)
{
	const struct wkit_request request = {.timeout_ms = 200};
	static const uint64_t asked[] = {0, 60000};
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
		struct wkit_command c = wkit_start_script(k, "sleep 7172", asked[i]);

		wkit_wait(k, &c);
		assert_int_equal(c.result.exit_code, 124);
		assert_true(c.result.duration_us >= 200000 && c.result.duration_us < 5000000);
		wkit_done(&c);
	}
	wkit_close((void **)&k);
}

/* A bomb that doubles until it is stopped. */
static void exe_4_a_fork_bomb_ends(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_start_script(
		k, "ulimit -u 200; f() { f 7173 & f 7173 & wait; }; f 2>/dev/null", 500);

	wkit_wait(k, &c);
	assert_int_equal(c.result.exit_code, 124);
	wkit_done(&c);
	wkit_expect(k, "[ $(ls /proc | grep -c '^[0-9]') -le 8 ] && echo few", "few\n", 0);
}

/* EXE-5: the signal of choice to the first process, with its own end. */
static void exe_5_a_signal_reaches_the_first_process(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_start_script(
		k, "trap 'echo got; exit 9' USR1; sleep 7174 & echo ready; wait", 0);
	cleanup_free char *out = NULL;

	c.ask.report_output = 1;
	wkit_wait_started(k, &c);
	while (lseek(c.out[0], 0, SEEK_END) < 6)
		poll(NULL, 0, 1);
	send_kill(k, c.id, SIGUSR1, 0, false);
	wkit_wait(k, &c);
	out = wkit_text(&c, 0);
	assert_string_equal(out, "ready\ngot\n");
	assert_int_equal(c.result.exit_code, 9);
	assert_null(c.result.error_code);
	assert_int_equal(c.result.background.n, 1);
	assert_false(wkit_alive("sleep 7174"));
	wkit_done(&c);
}

/* EXE-5: a process that survives the signal is killed after the grace; KILL acts at once. */
static void exe_5_kill_ends_everything(void **state)
{
	static const struct {
		int sig;
		uint64_t grace_ms;
		bool tree;
		uint32_t code;
	} rows[] = {
		{SIGTERM, 300, false, 137}, {SIGTERM, 300, true, 137}, {SIGKILL, 0, false, 137}};
	struct wkit *k = wkit_of(state);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct wkit_command c = wkit_start_script(
			k,
			"trap '' TERM; (trap '' TERM; setsid sleep 7175) & echo x; "
			"sleep 7175; sleep 7175; sleep 7175",
			0);
		int64_t begun;

		wkit_wait_started(k, &c);
		while (lseek(c.out[0], 0, SEEK_END) < 2)
			poll(NULL, 0, 1);
		begun = wkit_now_ms();
		send_kill(k, c.id, rows[i].sig, rows[i].grace_ms, rows[i].tree);
		wkit_wait(k, &c);
		assert_true(wkit_now_ms() - begun >= (int64_t)rows[i].grace_ms);
		assert_int_equal(c.result.exit_code, rows[i].code);
		assert_int_equal(c.result.signal, SIGKILL);
		assert_string_equal(c.result.error_code, "E_COMMAND_KILLED");
		assert_false(wkit_alive("sleep 7175"));
		wkit_done(&c);
	}
	wkit_drain(k);
	assert_non_null(strstr(k->events, "command_killed cmd-3 137;"));
	send_kill(k, "cmd-unknown", SIGKILL, 0, false);
	wkit_expect(k, "echo still here", "still here\n", 0);
}

static long warden_peak_kb(const struct wkit *k)
{
	cleanup_free char *path = mem_printf("/proc/%d/status", (int)k->warden);
	cleanup_buf struct buf text = {0};
	const char *line;

	assert_int_equal(fdio_load_path(path, 65536, &text, NULL), 0);
	line = strstr(text.data, "VmHWM:");
	assert_non_null(line);
	return strtol(line + 6, NULL, 10);
}

/* EXE-3: 100 MB are counted, the quota is kept, memory does not grow. */
static void exe_3_a_flood_is_bounded(void **state)
{
	const struct wkit_request request = {.quota = 1000000};
	struct wkit *k;
	struct wkit_command c;
	long before;

	wkit_of(state);
	k = wkit_open_with(&request);
	wkit_expect(k, "true", "", 0);
	before = warden_peak_kb(k);
	c = wkit_command(k);
	c.ask.script = mem_strdup("yes 123456789 | head -c 104857600; echo end >&2");
	wkit_send(k, &c); /* without a reader */
	wkit_wait(k, &c);
	assert_int_equal(c.result.stdout_bytes, 104857600);
	assert_true(k->out_bytes > 1000000); /* the file's size does not tell it */
	assert_int_equal(c.result.stdout_lines, 10485760);
	assert_int_equal(c.result.stdout_kept, 1000000);
	assert_int_equal(c.result.stderr_bytes, 4);
	assert_int_equal(lseek(c.out[0], 0, SEEK_END), 1000000);
	assert_true(warden_peak_kb(k) - before < 8192);
	wkit_done(&c);
	wkit_close((void **)&k);
}

static void send_window(struct wkit *k, const char *id, uint64_t allowed)
{
	const struct warden_window m = {(char *)(uintptr_t)id, 1, allowed, 0};

	assert_int_equal(link_send(&k->api, MSG_warden_window, 0, &m, NULL, 0, NULL), 0);
}

/* EXE-6: with flow, no more is produced than the window allows. */
static void exe_6_output_waits_for_its_window(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_command(k);

	/* More than a pipe holds: what is in the pipe at the command's end is read in any case. */
	c.ask.script = mem_strdup("head -c 4000000 /dev/zero; echo done >&2");
	c.ask.flow = c.ask.report_output = 1;
	wkit_send(k, &c);
	while (k->out_bytes < 65536)
		assert_false(wkit_step(k, &c));
	poll(NULL, 0, 50);
	assert_int_equal(lseek(c.out[0], 0, SEEK_END), 65536);
	send_window(k, c.id, 65537);
	while (k->out_bytes < 65537)
		assert_false(wkit_step(k, &c));
	poll(NULL, 0, 50);
	assert_int_equal(lseek(c.out[0], 0, SEEK_END), 65537);
	send_window(k, c.id, 1000);
	send_window(k, c.id, 1 << 30);
	wkit_wait(k, &c);
	assert_int_equal(c.result.stdout_bytes, 4000000);
	wkit_done(&c);
}

static void send_stdin(struct wkit *k, const char *id, const char *data, size_t n, bool eof)
{
	struct warden_stdin m = {.command_id = (char *)(uintptr_t)id, .eof = eof};
	struct err err = {0};

	bytes_set(&m.data, data, n);
	if (link_send(&k->api, MSG_warden_stdin, 0, &m, NULL, 0, &err) != LINK_OK)
		fail_msg("%s", err.message);
	bytes_done(&m.data);
}

/* EXE-4: stdin in pieces, counted as it is taken, with its end. */
static void exe_4_stdin_is_pumped(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_command(k);
	cleanup_free char *big = mem_alloc(200000);

	memset(big, 'x', 200000);
	c.ask.script = mem_strdup("head -c 6 >/dev/null; sleep 0.1; wc -c");
	c.ask.stdin_open = 1;
	bytes_set(&c.ask.stdin_data, "first ", 6);
	wkit_send(k, &c);
	send_stdin(k, c.id, big, 200000, false);
	send_stdin(k, c.id, "end", 3, true);
	wkit_wait(k, &c);
	{
		cleanup_free char *out = wkit_text(&c, 0);

		assert_string_equal(out, "200003\n");
	}
	assert_true(k->taken <= 200009);
	wkit_done(&c);

	/* Without a reader it is thrown away, and counted. */
	c = wkit_command(k);
	c.ask.script = mem_strdup("exec 0<&-; sleep 0.3");
	c.ask.stdin_open = 1;
	wkit_send(k, &c);
	wkit_wait_started(k, &c);
	poll(NULL, 0, 100);
	k->taken = 0;
	send_stdin(k, c.id, big, 200000, false);
	wkit_wait(k, &c);
	assert_int_equal(k->taken, 200000);
	wkit_done(&c);
}

/* SES-2: an end kills what runs and still tells of it. */
static void ses_2_an_end_tells_of_killed_commands(void **state)
{
	const struct wkit_request request = {0};
	struct wkit_command c, late;
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	c = wkit_start_script(k, "trap '' TERM; echo x; sleep 7178", 0);
	wkit_wait_started(k, &c);
	wkit_end(k);
	wkit_wait(k, &c);
	assert_string_equal(c.result.error_code, "E_COMMAND_KILLED");
	assert_non_null(strstr(c.result.error_message, "the session ended"));
	assert_int_equal(wkit_wait_warden(k), 0);
	wkit_drain(k);
	assert_non_null(strstr(k->events, "command_killed cmd-1 137;"));
	wkit_free(k);
	wkit_done(&c);

	/* One that is asked for afterwards is not the link's business any more. */
	k = wkit_open_with(&request);
	late = wkit_command(k);
	strv_add(&late.ask.argv, "true");
	wkit_end(k);
	assert_int_equal(link_send(&k->api, MSG_warden_exec, 5, &late.ask, late.out, 2, NULL),
			 LINK_BROKEN);
	assert_int_equal(wkit_wait_warden(k), 0);
	wkit_free(k);
	wkit_done(&late);
}

/* SES-1: a patch changes the session's state; a bad one changes nothing; each is answered. */
static void ses_1_a_patch_is_answered_with_the_state(void **state)
{
	struct wkit *k = wkit_of(state);
	struct warden_patch p = {.cwd = (char *)(uintptr_t) "/tmp"};
	struct warden_state s = {0};

	strv_add(&p.set, "A=1");
	strv_add(&p.set, "LD_PRELOAD=x");
	strv_add(&p.unset, "LANG");
	assert_int_equal(link_send(&k->api, MSG_warden_patch, 3, &p, NULL, 0, NULL), 0);
	wkit_recv_type(k, MSG_warden_state, &s);
	assert_string_equal(s.cwd, "/tmp");
	assert_string_equal(strv_env_get(&s.env, "A"), "1");
	assert_null(strv_env_get(&s.env, "LD_PRELOAD"));
	assert_null(strv_env_get(&s.env, "LANG"));
	msg_done(MSG_warden_state, &s);
	p.cwd = (char *)(uintptr_t) "/no/such";
	strv_add(&p.set, "B=1");
	assert_int_equal(link_send(&k->api, MSG_warden_patch, 3, &p, NULL, 0, NULL), 0);
	wkit_recv_type(k, MSG_warden_state, &s);
	assert_string_equal(s.cwd, "/tmp");
	assert_null(strv_env_get(&s.env, "B"));
	msg_done(MSG_warden_state, &s);
	wkit_expect(k, "echo $PWD $OLDPWD $A", "/tmp /workspace 1\n", 0);
	p.cwd = NULL;
	msg_done(MSG_warden_patch, &p);
}

/* SES-5: counters are read only for limits that are set; also for a limit that is set later. */
static void ses_5_counters_are_read_once_there_is_a_limit(void **state)
{
	const int file = memfd_create("counter", 0), event = eventfd(0, EFD_NONBLOCK);
	char *names[] = {mem_printf("%d 1/pids.events", file), mem_printf("%d event", event), NULL};
	const struct strv counters = {names, 2};
	const struct wkit_request request = {.counters = &counters};
	struct warden_patch p = {0};
	struct warden_state s = {0};
	struct wkit *k;

	wkit_of(state);
	assert_int_equal(write(file, "max 3\n", 6), 6);
	k = wkit_open_with(&request);
	wkit_expect(k, "true", "", 0);
	wkit_drain(k);
	assert_null(strstr(k->events, "resource_limit "));
	strv_add(&p.walls, "pids_limit\tup\t5 processes");
	assert_int_equal(link_send(&k->api, MSG_warden_patch, 3, &p, NULL, 0, NULL), 0);
	wkit_recv_type(k, MSG_warden_state, &s);
	msg_done(MSG_warden_state, &s);
	wkit_expect(k, "true", "", 0);
	wkit_drain(k);
	assert_non_null(strstr(k->events, "resource_limit "));
	k->events[0] = '\0';
	/* the kernel says that one has grown */
	assert_int_equal(pwrite(file, "max 4\n", 6, 0), 6);
	assert_int_equal(write(event, &(uint64_t){1}, 8), 8);
	for (int i = 0; i < 1000 && strstr(k->events, "resource_limit ") == NULL; i++) {
		poll(NULL, 0, 10);
		wkit_drain(k);
	}
	assert_non_null(strstr(k->events, "resource_limit "));
	wkit_close((void **)&k);
	close(file);
	close(event);
	free(names[0]);
	free(names[1]);
	msg_done(MSG_warden_patch, &p);
}

/* CFG-1: settings that change while the session lives, and another log. */
static void cfg_1_new_settings_are_taken(void **state)
{
	struct wkit *k = wkit_of(state);
	struct warden_settings m = {.orphan_timeout_ms = 10000,
				    .output_quota = 3,
				    .log_level = LOG_INFO,
				    .log_format = LOG_JSON};
	const int log = memfd_create("log", MFD_CLOEXEC);
	struct wkit_command c;
	char text[4096] = "";

	assert_int_equal(link_send(&k->api, MSG_warden_settings, 0, &m, &log, 1, NULL), 0);
	c = wkit_run(k, "printf", "12345");
	assert_int_equal(c.result.stdout_bytes, 5);
	assert_int_equal(c.result.stdout_kept, 3);
	wkit_done(&c);
	m.log_level = 99; /* none of ours */
	m.output_quota = 4;
	assert_int_equal(link_send(&k->api, MSG_warden_settings, 0, &m, NULL, 0, NULL), 0);
	c = wkit_run(k, "printf", "12345");
	assert_int_equal(c.result.stdout_kept, 3);
	wkit_done(&c);
	wkit_close(state);
	assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "\"message\":\"session ends\""));
	close(log);
}

/* SES-4: the walls of launcher and init are in the first state. */
static void ses_4_the_first_state(void **state)
{
	struct wkit *k = wkit_of(state);
	unsigned seen = 0;

	assert_int_equal(k->state.fresh, 1);
	assert_string_equal(k->state.session_id, "session-test");
	assert_string_equal(k->state.cwd, "/workspace");
	assert_int_equal(k->state.commands, 0);
	for (size_t i = 0; i < k->state.walls.n; i++) {
		seen |= strstr(k->state.walls.v[i], "process_separation") != NULL;
		seen |= 2U * (strstr(k->state.walls.v[i], "mount_namespace\tup") != NULL);
	}
	assert_int_equal(seen, 3);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, wkit_open, wkit_close)
	const struct CMUnitTest tests[] = {
		TEST(exe_4_a_time_out_kills_the_tree),
		cmocka_unit_test(exe_4_the_sessions_time_out_caps),
		TEST(exe_4_a_fork_bomb_ends),
		TEST(exe_5_a_signal_reaches_the_first_process),
		TEST(exe_5_kill_ends_everything),
		cmocka_unit_test(exe_3_a_flood_is_bounded),
		TEST(exe_6_output_waits_for_its_window),
		TEST(exe_4_stdin_is_pumped),
		cmocka_unit_test(ses_2_an_end_tells_of_killed_commands),
		TEST(ses_1_a_patch_is_answered_with_the_state),
		cmocka_unit_test(ses_5_counters_are_read_once_there_is_a_limit),
		TEST(cfg_1_new_settings_are_taken),
		TEST(ses_4_the_first_state),
	};

	return cmocka_run_group_tests_name("control", tests, wkit_prepare, wkit_clean);
}
