// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"

static void gone(struct rig *g, const char *id, const char *reason)
{
	struct link_msg m = rig_expect(g, MSG_launcher_gone);
	struct launcher_gone text;

	assert_int_equal(link_unpack(&m, &text, NULL), 0);
	assert_string_equal(text.session_id, id);
	assert_string_equal(text.reason, reason);
	msg_done(MSG_launcher_gone, &text);
	link_msg_done(&m);
}

static void remove_session(struct rig *g, const char *id)
{
	const struct launcher_remove ask = {(char *)(uintptr_t)id};

	assert_int_equal(link_send(&g->api, MSG_launcher_remove, 0, &ask, NULL, 0, NULL), 0);
}

static bool process_gone(struct rig *g, void *arg)
{
	return meta_start_time(*(pid_t *)arg) == 0;
}

static void ses_2_a_dead_warden_is_told_and_its_ring_kept(void **state)
{
	struct rig *g = *state;
	struct link_msg m, other;
	pid_t init;

	rig_greeted(g);
	m = rig_make(g, "s");
	other = rig_make(g, "t");
	init = (pid_t)meta_inside(&entry_find(&g->l, "s")->meta)->pid;
	proc_pidfd_signal(entry_find(&g->l, "s")->warden.pidfd, SIGKILL);
	gone(g, "s", "the warden was killed by signal KILL (9)");
	assert_false(rig_file(g, "s.sock"));
	assert_true(rig_file(g, "s.ring") && rig_file(g, "s.ack") && rig_file(g, "s.meta"));
	assert_int_equal(entry_find(&g->l, "s")->state, ENTRY_DEAD);
	assert_int_equal(entry_find(&g->l, "t")->state, ENTRY_ALIVE);
	assert_int_equal(g->l.alive, 1);
	assert_int_equal(rig_entries(g), 2);
	assert_true(rig_until(g, process_gone, &init));

	remove_session(g, "s");
	remove_session(g, "nobody");
	remove_session(g, "../../etc");
	remove_session(g, "");
	while (entry_find(&g->l, "s") != NULL)
		loop_turn(g->l.loop);
	assert_false(session_files_any(g->l.place.sessions_fd, "s"));
	assert_true(session_files_any(g->l.place.sessions_fd, "t"));
	assert_int_equal(rig_entries(g), 1);
	link_msg_done(&m);
	link_msg_done(&other);
}

static void ses_2_an_exit_status_is_the_reason(void **state)
{
	struct rig *g = *state;
	struct link_msg m;

	rig_greeted(g);
	m = rig_make(g, "exit3");
	gone(g, "exit3", "the warden ended with exit status 3");
	link_msg_done(&m);
}

/* An init that does not notice its link (stopped, stuck) goes all the same. */
static void ses_8_a_stopped_init_goes_with_its_warden(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	pid_t init;

	rig_greeted(g);
	m = rig_make(g, "s");
	init = (pid_t)meta_inside(&entry_find(&g->l, "s")->meta)->pid;
	assert_int_equal(kill(init, SIGSTOP), 0);
	proc_pidfd_signal(entry_find(&g->l, "s")->warden.pidfd, SIGKILL);
	gone(g, "s", "the warden was killed by signal KILL (9)");
	assert_true(rig_until(g, process_gone, &init));
	link_msg_done(&m);
}

static void ses_8_a_living_session_that_is_removed_is_killed(void **state)
{
	struct rig *g = *state;
	struct link_msg m;

	rig_greeted(g);
	m = rig_make(g, "s");
	remove_session(g, "s");
	gone(g, "s", "the warden was killed by signal KILL (9)");
	assert_true(TAILQ_EMPTY(&g->l.entries));
	assert_false(session_files_any(g->l.place.sessions_fd, "s"));
	link_msg_done(&m);
	/* The name is free again. */
	m = rig_make(g, "s");
	link_msg_done(&m);
}

static bool is_leaving(struct rig *g, void *arg)
{
	return ((struct session_entry *)arg)->leaving != NULL;
}

/* A session is over before its warden is: that is not killed for being about to end. */
static void ses_2_a_warden_ends_by_itself(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	struct session_entry *w;

	rig_greeted(g);
	m = rig_make(g, "s");
	w = entry_find(&g->l, "s");
	remove_session(g, "s");
	assert_true(rig_until(g, is_leaving, w));
	entries_kill(&g->l); /* a server that stops */
	entry_remove(w);
	assert_false(w->killed);
	assert_int_equal(w->state, ENTRY_ALIVE);
	kill((pid_t)w->meta.process[0].pid, SIGTERM);
	gone(g, "s", "the warden was killed by signal TERM (15)");
	assert_true(TAILQ_EMPTY(&g->l.entries));
	link_msg_done(&m);
}

static void expect_reason(const char *who, int code, int status, const char *expected)
{
	siginfo_t si = {.si_code = code};
	char text[64];

	si.si_status = status;
	death_reason(who, &si, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void ses_2_reasons_are_for_people(void **state)
{
	expect_reason("it", CLD_EXITED, 0, "it ended with exit status 0");
	expect_reason("the warden", CLD_KILLED, SIGSEGV,
		      "the warden was killed by signal SEGV (11)");
	expect_reason("it", CLD_DUMPED, SIGABRT, "it was killed by signal ABRT (6)");
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(ses_2_a_dead_warden_is_told_and_its_ring_kept),
		T(ses_2_an_exit_status_is_the_reason),
		T(ses_8_a_stopped_init_goes_with_its_warden),
		T(ses_8_a_living_session_that_is_removed_is_killed),
		T(ses_2_a_warden_ends_by_itself),
		cmocka_unit_test(ses_2_reasons_are_for_people),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
