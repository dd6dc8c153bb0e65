// SPDX-License-Identifier: Apache-2.0
/* The real API child's start and end, with a program in its place that does what the first override
 * says. */
#include "launcher/testkit/rig_testkit.h"

static _Noreturn void fake_api(char **argv)
{
	struct launcher_hello hello;
	struct link link;
	struct link_msg m;
	const char *mode;

	if (strcmp(argv[1], "--link-fd") != 0)
		_exit(99);
	link_init(&link, atoi(argv[2]), SIDE_API, SIDE_LAUNCHER);
	if (link_recv(&link, &m, NULL) != LINK_OK || m.type != MSG_launcher_hello ||
	    link_unpack(&m, &hello, NULL) < 0)
		_exit(98);
	mode = hello.overrides.n > 0 ? hello.overrides.v[0] : "";
	if (strcmp(mode, "die") == 0)
		_exit(7);
	if (strcmp(mode, "leak") == 0) {
		int n = 0;

		for (int fd = 0; fd < 256; fd++)
			n += fcntl(fd, F_GETFD) >= 0;
		_exit(getenv("AGENTSH_SECRET") != NULL || getenv("HOME") == NULL
			      ? 1
			      : 10 + n - (int)m.nfds);
	}
	while (link_recv(&link, &m, NULL) == 0) {
		if (m.type == MSG_launcher_stop && strcmp(mode, "deaf") != 0)
			_exit(0);
		if (m.type == MSG_launcher_hup && strcmp(mode, "remove") == 0)
			_exit(link_send(&link, MSG_launcher_remove, 0,
					&(struct launcher_remove){(char[]){"s"}}, NULL, 0, NULL));
		link_msg_done(&m);
	}
	_exit(0);
}

static void start(struct rig *g, const char *mode)
{
	struct err err = {0};

	g->l.deadline = watch_timer(g->l.loop, loop_kit_nothing, NULL);
	g->l.ready = true; /* one has listened before */
	strv_add(&g->l.source.overrides, mode);
	assert_int_equal(api_child_start(&g->l, &err), 0);
}

static char *status_of(pid_t pid, struct buf *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	buf_clear(out);
	fdio_load_path(path, 16384, out, NULL);
	return out->len > 0 ? out->data : NULL;
}

static bool executed(struct rig *g, void *arg)
{
	cleanup_buf struct buf text = {0};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)g->l.api.child.pid);
	fdio_load_path(path, 4096, &text, NULL);
	return text.len > 0 && strcmp(text.data, "agentsh-api") == 0;
}

static void api_3_the_api_child_has_no_privilege(void **state)
{
	struct rig *g = *state;
	cleanup_buf struct buf text = {0};
	char expect[64];
	const char *s;

	start(g, "wait");
	assert_true(rig_until(g, executed, NULL));
	s = status_of(g->l.api.child.pid, &text);
	assert_non_null(s);
	assert_non_null(strstr(s, "CapInh:\t0000000000000000\n"));
	assert_non_null(strstr(s, "CapPrm:\t0000000000000000\n"));
	assert_non_null(strstr(s, "CapEff:\t0000000000000000\n"));
	assert_non_null(strstr(s, "CapAmb:\t0000000000000000\n"));
	assert_non_null(strstr(s, "NoNewPrivs:\t1\n"));
	assert_non_null(strstr(s, "SigBlk:\t0000000000000000\n"));
	if (rig_root()) {
		const unsigned u = g->l.settings.config.api_uid;

		snprintf(expect, sizeof(expect), "Uid:\t%u\t%u\t%u\t%u\n", u, u, u, u);
		assert_non_null(strstr(s, expect));
		snprintf(expect, sizeof(expect), "Gid:\t%u\t%u\t%u\t%u\n", u, u, u, u);
		assert_non_null(strstr(s, expect));
		assert_non_null(strstr(s, "Groups:\t \n"));
		assert_non_null(strstr(s, "CapBnd:\t0000000000000000\n"));
	}
}

static bool dead(struct rig *g, void *arg)
{
	return g->l.api.child.pid == 0 || g->l.api.child.pid != *(pid_t *)arg;
}

/* stdio, the link, and what came over it. */
static void sbx_6_the_api_child_inherits_its_link_and_no_secret(void **state)
{
	struct rig *g = *state;
	siginfo_t si = {0};

	setenv("AGENTSH_SECRET", "x", 1);
	setenv("HOME", "/root", 1);
	start(g, "leak");
	/* The greeting is sent already; the loop does not turn: it would reap the child. */
	assert_int_equal(waitid(P_PIDFD, (id_t)g->l.api.child.pidfd, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(si.si_code, CLD_EXITED);
	assert_int_equal(si.si_status, 10 + 4);
	unsetenv("AGENTSH_SECRET");
}

static bool greeted(struct rig *g, void *arg)
{
	return !g->l.api.telling;
}

static void ses_8_the_last_message_of_a_dead_child_counts(void **state)
{
	struct rig *g = *state;
	siginfo_t si = {0};
	pid_t first;

	start(g, "remove");
	first = g->l.api.child.pid;
	assert_true(rig_until(g, greeted, NULL));
	entry_new(&g->l, "s")->told = true;
	api_link_post(&g->l, MSG_launcher_hup, 0, &(struct msg_empty){0}, NULL, 0);
	assert_int_equal(waitid(P_PID, (id_t)first, &si, WEXITED | WNOWAIT), 0);
	assert_int_equal(si.si_status, 0);
	assert_true(rig_until(g, dead, &first));
	assert_null(entry_find(&g->l, "s"));
}

static void ses_8_a_killed_api_child_is_replaced(void **state)
{
	struct rig *g = *state;
	pid_t first;

	start(g, "wait");
	for (int i = 0; i < 3; i++) {
		first = g->l.api.child.pid;
		assert_true(rig_until(g, executed, NULL));
		assert_int_equal(kill(first, SIGKILL), 0);
		assert_true(rig_until(g, dead, &first));
		first = 0;
		assert_true(rig_until(g, dead, &first) && rig_until(g, executed, NULL));
		assert_int_equal(watch_due_us(g->l.api.again), 0);
	}
}

static bool fast_deaths(struct rig *g, void *arg)
{
	return g->l.api.fast_deaths >= *(unsigned *)arg;
}

static void ses_8_one_that_keeps_dying_is_given_time(void **state)
{
	struct rig *g = *state;
	unsigned n = 4;

	start(g, "die");
	assert_true(rig_until(g, fast_deaths, &n));
	n = 5;
	assert_true(rig_until(g, fast_deaths, &n));
	assert_int_equal(g->l.api.fast_deaths, 5);
	assert_int_equal(g->l.api.child.pid, 0);
	assert_true(watch_due_us(g->l.api.again) > 0);
	for (int i = 0; i < 20; i++)
		loop_settle(g->l.loop);
	assert_int_equal(g->l.api.child.pid, 0);
	assert_false(g->l.stopping);
}

static void cli_1_an_auto_started_server_gives_up_instead(void **state)
{
	struct rig *g = *state;

	g->l.auto_start = true;
	start(g, "die");
	loop_run(g->l.loop);
	assert_true(g->l.stopping);
	assert_int_equal(g->l.api.fast_deaths, 5);
	assert_int_equal(g->l.status, 125);
}

static void ses_8_a_server_that_never_came_up_ends(void **state)
{
	struct rig *g = *state;

	start(g, "die");
	g->l.ready = false;
	loop_run(g->l.loop);
	assert_true(g->l.stopping);
	assert_int_equal(g->l.api.fast_deaths, 0);
	assert_int_equal(g->l.status, 125);
}

/* Unless sessions live: they may be found by the next child. */
static void ses_8_a_server_that_never_came_up_stays_for_its_sessions(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	unsigned n = 2;

	rig_greeted(g);
	m = rig_make(g, "s");
	link_msg_done(&m);
	api_link_stop(&g->l);
	start(g, "die");
	g->l.ready = false;
	assert_true(rig_until(g, fast_deaths, &n));
	assert_false(g->l.stopping);
	assert_int_equal(entry_find(&g->l, "s")->state, ENTRY_ALIVE);
}

static void ses_8_a_stop_ends_child_and_loop(void **state)
{
	struct rig *g = *state;

	start(g, "wait");
	launcher_stop(&g->l, "test");
	loop_run(g->l.loop);
	assert_int_equal(g->l.api.child.pid, 0);
	assert_int_equal(g->l.status, 0);
}

static void ses_8_a_second_stop_does_not_wait(void **state)
{
	struct rig *g = *state;

	start(g, "deaf");
	assert_true(rig_until(g, executed, NULL));
	launcher_stop(&g->l, "test");
	for (int i = 0; i < 20; i++)
		loop_settle(g->l.loop);
	assert_int_not_equal(g->l.api.child.pid, 0);
	launcher_stop(&g->l, "test");
	loop_run(g->l.loop);
	assert_int_equal(g->l.api.child.pid, 0);
}

/* A fake API child ends nothing by itself: what it left is killed before the loop ends. */
static void ses_8_no_warden_outlives_a_stop(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	pid_t init;

	rig_greeted(g);
	m = rig_make(g, "s");
	link_msg_done(&m);
	init = (pid_t)meta_inside(&entry_find(&g->l, "s")->meta)->pid;
	api_link_stop(&g->l);
	start(g, "wait");
	launcher_stop(&g->l, "test");
	loop_run(g->l.loop);
	assert_int_equal(g->l.alive, 0);
	assert_false(rig_file(g, "s.sock"));
	assert_true(rig_file(g, "s.ring")); /* for the next server to drain */
	while (meta_start_time(init) != 0)
		sched_yield();
}

static void ses_8_a_child_that_leaves_its_link_is_killed_and_replaced(void **state)
{
	struct rig *g = *state;
	pid_t first;

	start(g, "wait");
	assert_true(rig_until(g, executed, NULL));
	first = g->l.api.child.pid;
	assert_int_equal(shutdown(g->l.api.peer.link.fd, SHUT_RD), 0);
	assert_true(rig_until(g, dead, &first));
	first = 0;
	assert_true(rig_until(g, dead, &first));
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(api_3_the_api_child_has_no_privilege),
		T(sbx_6_the_api_child_inherits_its_link_and_no_secret),
		T(ses_8_the_last_message_of_a_dead_child_counts),
		T(ses_8_a_killed_api_child_is_replaced),
		T(ses_8_one_that_keeps_dying_is_given_time),
		T(cli_1_an_auto_started_server_gives_up_instead),
		T(ses_8_a_server_that_never_came_up_ends),
		T(ses_8_a_server_that_never_came_up_stays_for_its_sessions),
		T(ses_8_a_stop_ends_child_and_loop),
		T(ses_8_a_second_stop_does_not_wait),
		T(ses_8_no_warden_outlives_a_stop),
		T(ses_8_a_child_that_leaves_its_link_is_killed_and_replaced),
	};

	rig_main(argv);
	if (strcmp(argv[0], "agentsh-api") == 0)
		fake_api(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
