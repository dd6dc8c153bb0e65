// SPDX-License-Identifier: Apache-2.0
/* The coming and going of the API child, and the deaths of init, leaders and the warden, through
 * the real programs. */
#include "command/testkit/warden_testkit.h"

static int dial(const struct wkit *k)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", k->socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* Leaves the warden as a killed API child would, and comes back as the next one. */
static void reconnect(struct wkit *k)
{
	link_done(&k->api);
	link_init(&k->api, dial(k), SIDE_API, SIDE_WARDEN);
	wkit_say_hello(k);
}

/* SES-8: commands go on without an API child; a result that was not acknowledged is sent again. */
static void ses_8_the_api_child_is_replaced(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command a = wkit_start_script(k, "export ONE=1; exit 4", 0);
	struct wkit_command b, again = {0};

	while (!wkit_step(k, &a))
		;
	b = wkit_start_script(k, "head -c 300000 /dev/zero; echo $ONE >&2; sleep 0.3; exit 5", 0);
	b.ask.flow = 1;
	wkit_wait_started(k, &b);
	reconnect(k);
	assert_int_equal(k->state.fresh, 0);
	assert_string_equal(strv_env_get(&k->state.env, "ONE"), "1");
	assert_int_equal(k->state.commands, 2);
	assert_int_equal(k->state.last_exit, 4);
	/* First's result again, and that the second runs. */
	k->started = false;
	memcpy(again.id, a.id, sizeof(again.id));
	again.out[0] = again.out[1] = -1;
	while (again.result.command_id == NULL || !k->started)
		wkit_step(k, &again);
	assert_int_equal(again.result.exit_code, 4);
	wkit_ack(k, a.id);
	wkit_wait(k, &b);
	assert_int_equal(b.result.exit_code, 5);
	assert_int_equal(b.result.stdout_bytes, 300000);
	/* Both are acknowledged: nothing but the state comes now. */
	reconnect(k);
	wkit_expect(k, "echo new", "new\n", 0);
	wkit_drain(k);
	assert_non_null(strstr(k->events, "command_finished cmd-2 5;"));
	wkit_done(&a);
	wkit_done(&b);
	msg_done(MSG_warden_result, &again.result);
}

/* SES-8: a window without an API child that could widen it does not stop a command. */
static void ses_8_windows_end_with_the_api_child(void **state)
{
	struct wkit *k = wkit_of(state);
	struct wkit_command c = wkit_command(k);

	c.ask.script = mem_strdup("head -c 400000 /dev/zero");
	c.ask.flow = 1;
	wkit_send(k, &c);
	wkit_wait_started(k, &c);
	reconnect(k);
	wkit_wait(k, &c);
	assert_int_equal(c.result.stdout_bytes, 400000);
	wkit_done(&c);
}

/* SES-8: a connection without a message replaces no link; a stranger is refused. */
static void ses_8_strangers_stay_outside(void **state)
{
	struct wkit *k = wkit_of(state);
	const int knock = dial(k);
	pid_t pid;
	int status;

	wkit_expect(k, "echo a", "a\n", 0);
	close(knock);
	wkit_expect(k, "echo b", "b\n", 0);
	if (geteuid() != 0)
		return;
	pid = fork();
	if (pid == 0) {
		char c;
		int fd;

		if (setresuid(WKIT_UID, WKIT_UID, WKIT_UID) < 0)
			_exit(2);
		fd = dial(k);
		_exit(recv(fd, &c, 1, 0) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	wkit_expect(k, "echo c", "c\n", 0);
}

/* SES-8: without a server for the orphan time the session ends in order. */
static void ses_8_an_orphan_ends(void **state)
{
	const struct wkit_request request = {.orphan_ms = 200};
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	link_done(&k->api);
	k->api.fd = -1;
	assert_int_equal(wkit_wait_warden(k), 0);
	wkit_free(k);
}

static void expect_failure(struct wkit *k, const char *reason)
{
	struct warden_failed f = {0};

	wkit_recv_type(k, MSG_warden_failed, &f);
	if (strstr(f.reason, reason) == NULL)
		fail_msg("failed with '%s'", f.reason);
	msg_done(MSG_warden_failed, &f);
	assert_int_equal(wkit_wait_warden(k), 1);
	wkit_free(k);
}

static pid_t only_child(pid_t parent)
{
	cleanup_free pid_t *all = NULL;
	const size_t n = proc_descendants(parent, &all);

	assert_true(n > 0);
	return all[0];
}

/* SES-8: a killed init fails the session, with its reason, and nothing stays. */
static void ses_8_a_killed_init_fails_the_session(void **state)
{
	const struct wkit_request request = {0};
	struct wkit_command c;
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	c = wkit_start_script(k, "sleep 7176", 0);
	wkit_wait_started(k, &c);
	kill(only_child(k->warden), SIGKILL);
	expect_failure(k, "init was ended by signal 9");
	assert_false(wkit_alive("sleep 7176"));
	wkit_done(&c);
}

/* SES-8: a command that kills its leader is killed with all that it left, and the session goes on;
 * a killed warden takes all with it. */
static void ses_8_a_killed_leader_ends_its_command(void **state)
{
	const struct wkit_request request = {0};
	struct wkit_command c;
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	c = wkit_start_script(k, "kill -9 $PPID; sleep 7177", 0);
	wkit_wait(k, &c);
	assert_int_equal(c.result.exit_code, 137);
	assert_int_equal(c.result.signal, SIGKILL);
	assert_string_equal(c.result.error_code, "E_COMMAND_KILLED");
	assert_non_null(strstr(c.result.error_message, "it may have run"));
	assert_false(wkit_alive("sleep 7177"));
	wkit_done(&c);
	wkit_expect(k, "echo still", "still\n", 0);
	c = wkit_start_script(k, "sleep 7177", 0);
	wkit_wait_started(k, &c);
	kill(k->warden, SIGKILL);
	assert_int_equal(wkit_wait_warden(k), 137);
	for (int i = 0; wkit_alive("sleep 7177") && i < 2000; i++)
		poll(NULL, 0, 10);
	assert_false(wkit_alive("sleep 7177"));
	wkit_free(k);
	wkit_done(&c);
}

static pid_t leader_of(struct wkit *k)
{
	struct wkit_command c = wkit_script(k, "echo $PPID");
	cleanup_free char *out = wkit_text(&c, 0);
	const pid_t inside = atoi(out);
	pid_t *all, found = 0;
	const size_t n = proc_descendants(only_child(k->warden), &all);

	for (size_t i = 0; i < n; i++) {
		cleanup_free char *path = mem_printf("/proc/%d/status", (int)all[i]);
		cleanup_buf struct buf b = {0};
		cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
		const char *at;
		int host, own;

		if (fd < 0 || fdio_load(fd, 1 << 16, &b, NULL) < 0 ||
		    (at = strstr(b.data, "NSpid:")) == NULL)
			continue;
		if (sscanf(at, "NSpid: %d %d", &host, &own) == 2 && own == inside)
			found = all[i];
	}
	free(all);
	wkit_done(&c);
	return found;
}

/* EXE-1: a leader is used again; one that dies while it is idle ends no command. */
static void exe_1_a_dead_idle_leader_is_replaced(void **state)
{
	struct wkit *k = wkit_of(state);
	const pid_t first = leader_of(k);
	cleanup_fd int pidfd = -1;

	assert_true(first > 0);
	assert_int_equal(leader_of(k), first);
	pidfd = proc_pidfd(first);
	kill(first, SIGKILL);
	assert_int_equal(poll(&(struct pollfd){pidfd, POLLIN, 0}, 1, WKIT_WAIT_MS), 1);
	for (int i = 0; i < 3; i++)
		wkit_expect(k, "echo fine", "fine\n", 0);
	assert_int_not_equal(leader_of(k), first);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, wkit_open, wkit_close)
	const struct CMUnitTest tests[] = {
		TEST(ses_8_the_api_child_is_replaced),
		TEST(ses_8_windows_end_with_the_api_child),
		TEST(ses_8_strangers_stay_outside),
		cmocka_unit_test(ses_8_an_orphan_ends),
		cmocka_unit_test(ses_8_a_killed_init_fails_the_session),
		cmocka_unit_test(ses_8_a_killed_leader_ends_its_command),
		TEST(exe_1_a_dead_idle_leader_is_replaced),
	};

	return cmocka_run_group_tests_name("deaths", tests, wkit_prepare, wkit_clean);
}
