// SPDX-License-Identifier: Apache-2.0
#include "launcher/testkit/rig_testkit.h"

static void found(struct rig *g, const char *id)
{
	struct link_msg m = rig_expect(g, MSG_launcher_found);
	struct launcher_found text;
	cleanup_free char *expect = mem_printf("id=%s ", id);

	assert_int_equal(link_unpack(&m, &text, NULL), 0);
	assert_string_equal(text.session_id, id);
	assert_int_equal(m.nfds, 1 + 2 * rig_ring_count());
	assert_memory_equal(rig_hear(m.fd[0]), expect, strlen(expect));
	assert_int_equal(fcntl(m.fd[0], F_GETFL) & O_NONBLOCK, 0);
	rig_rings(&text.rings, m.fd + 1);
	msg_done(MSG_launcher_found, &text);
	link_msg_done(&m);
}

static void lost(struct rig *g, const char *id, const char *reason, size_t files)
{
	struct link_msg m = rig_expect(g, MSG_launcher_lost);
	struct launcher_lost text;

	assert_int_equal(link_unpack(&m, &text, NULL), 0);
	assert_string_equal(text.session_id, id);
	assert_string_equal(text.reason, reason);
	assert_int_equal(m.nfds, files);
	if (files > 0)
		rig_rings(&text.rings, m.fd);
	msg_done(MSG_launcher_lost, &text);
	link_msg_done(&m);
}

static void make(struct rig *g, const char *id)
{
	struct link_msg m = rig_make(g, id);

	rig_hear(m.fd[0]);
	link_msg_done(&m);
}

/* Forgets everything, as a launcher that was killed does; the next one looks around. */
static void restart(struct rig *g)
{
	api_link_stop(&g->l);
	while (!TAILQ_EMPTY(&g->l.entries))
		entry_free(TAILQ_FIRST(&g->l.entries));
	assert_int_equal(g->l.alive, 0);
	assert_int_equal(rig_entries(g), 0);
	assert_int_equal(adopt_scan(&g->l, NULL), 0);
}

static void ses_8_the_next_api_child_finds_living_and_dead(void **state)
{
	struct rig *g = *state;

	rig_greeted(g);
	make(g, "a");
	make(g, "b");
	make(g, "c");
	proc_pidfd_signal(entry_find(&g->l, "b")->warden.pidfd, SIGKILL);
	rig_skip(g, MSG_launcher_gone);
	rig_connect(g);
	rig_skip(g, MSG_launcher_hello);
	found(g, "a");
	lost(g, "b", "the warden was killed by signal KILL (9)", 2 * rig_ring_count());
	found(g, "c");
	rig_skip(g, MSG_launcher_found_all);
	/* It gets launcher_gone for deaths, like the API child before it. */
	proc_pidfd_signal(entry_find(&g->l, "a")->warden.pidfd, SIGKILL);
	rig_skip(g, MSG_launcher_gone);
}

static void ses_8_the_next_launcher_adopts_wardens(void **state)
{
	struct rig *g = *state;
	struct launcher_gone text;
	struct link_msg m;
	struct session_entry *w;
	uint64_t pid;

	rig_greeted(g);
	make(g, "a");
	pid = entry_find(&g->l, "a")->meta.process[0].pid;
	restart(g);
	w = entry_find(&g->l, "a");
	assert_non_null(w);
	assert_int_equal(w->state, ENTRY_ALIVE);
	assert_true(w->adopted);
	assert_int_equal(proc_pidfd_pid(w->warden.pidfd), pid);
	assert_int_equal(w->meta.process[0].pid, pid);
	assert_int_equal(g->l.alive, 1);
	rig_connect(g);
	rig_skip(g, MSG_launcher_hello);
	found(g, "a");
	rig_skip(g, MSG_launcher_found_all);
	proc_pidfd_signal(w->warden.pidfd, SIGKILL);
	m = rig_expect(g, MSG_launcher_gone);
	assert_int_equal(link_unpack(&m, &text, NULL), 0);
	assert_string_equal(text.session_id, "a");
	msg_done(MSG_launcher_gone, &text);
	link_msg_done(&m);
	assert_false(rig_file(g, "a.sock"));
	assert_true(rig_file(g, "a.ring"));
}

static void ses_8_a_warden_that_died_in_between_is_lost_with_its_ring(void **state)
{
	struct rig *g = *state;
	uint64_t pid;

	rig_greeted(g);
	make(g, "a");
	pid = entry_find(&g->l, "a")->meta.process[0].pid;
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
	restart(g);
	assert_int_equal(entry_find(&g->l, "a")->state, ENTRY_DEAD);
	assert_false(rig_file(g, "a.sock"));
	rig_connect(g);
	rig_skip(g, MSG_launcher_hello);
	lost(g, "a", "the warden died while no server watched it", 2 * rig_ring_count());
	rig_skip(g, MSG_launcher_found_all);
	/* A second restart: still lost, until it is removed. */
	restart(g);
	unlinkat(g->l.place.sessions_fd, "a.ring", 0);
	rig_connect(g);
	rig_skip(g, MSG_launcher_hello);
	lost(g, "a", "the warden died while no server watched it", 0);
	rig_skip(g, MSG_launcher_found_all);
}

static void ses_8_what_was_never_answered_for_goes_without_a_word(void **state)
{
	struct rig *g = *state;
	static const char *const names[] = {"x.ring", "x.ack", "y.sock", "z.new"};

	rig_greeted(g);
	make(g, "a");
	assert_int_equal(unlinkat(g->l.place.sessions_fd, "a.meta", 0), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		close(openat(g->l.place.sessions_fd, names[i], O_CREAT | O_WRONLY | O_CLOEXEC,
			     0600));
	close(openat(g->l.place.sessions_fd, "README", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	restart(g);
	assert_int_equal(rig_entries(g), 1); /* the living one, being killed */
	rig_connect(g);
	rig_skip(g, MSG_launcher_hello);
	rig_skip(g, MSG_launcher_found_all);
	assert_true(rig_until(g, rig_no_entries, NULL));
	assert_false(session_files_any(g->l.place.sessions_fd, "a"));
	assert_false(session_files_any(g->l.place.sessions_fd, "x"));
	assert_false(session_files_any(g->l.place.sessions_fd, "y"));
	assert_false(session_files_any(g->l.place.sessions_fd, "z"));
	assert_true(rig_file(g, "README"));
}

/* A warden that accepts nothing fills its backlog; it is killed rather than waited for. */
static void ses_8_a_warden_that_does_not_accept_is_lost(void **state)
{
	struct rig *g = *state;
	struct link_msg m;
	bool seen = false;

	rig_greeted(g);
	m = rig_make(g, "deaf");
	link_msg_done(&m);
	for (int i = 0; i < 40 && !seen; i++) {
		struct link_msg next = {0};

		rig_connect(g);
		rig_skip(g, MSG_launcher_hello);
		assert_true(rig_until(g, rig_received, &next));
		seen = next.type == MSG_launcher_lost;
		link_msg_done(&next);
		rig_skip(g, MSG_launcher_found_all);
	}
	assert_true(seen);
	assert_int_equal(entry_find(&g->l, "deaf")->state, ENTRY_DEAD);

	/* The same for the next launcher. */
	m = rig_make(g, "deaf2");
	link_msg_done(&m);
	int conn[64], n = 0;
	while ((conn[n] = session_files_connect(g->l.place.sessions_fd, "deaf2")) >= 0)
		n++;
	while (n > 1)
		close(conn[--n]);
	while (session_files_connect(g->l.place.sessions_fd, "deaf2") >= 0)
		;
	restart(g);
	assert_int_equal(entry_find(&g->l, "deaf2")->state, ENTRY_DEAD);
	assert_string_equal(entry_find(&g->l, "deaf2")->reason, "the warden did not answer");
}

/* More than the socket holds: every one arrives, in order, once. */
static void ses_8_a_thousand_lost_sessions_are_all_told(void **state)
{
	struct rig *g = *state;
	const int many = 1000;
	struct meta meta = {0};
	char id[16];

	for (size_t i = 0; i < PROCESSES; i++)
		meta_add(&meta, (enum process)i, 0, 0);
	for (int i = 0; i < many; i++) {
		snprintf(id, sizeof(id), "s%04d", i);
		assert_int_equal(meta_save(g->l.place.sessions_fd, id, &meta, NULL), 0);
	}
	restart(g);
	rig_connect(g);
	/* The API child does not read yet. */
	for (int i = 0; i < 100; i++)
		loop_settle(g->l.loop);
	rig_skip(g, MSG_launcher_hello);
	for (int i = 0; i < many; i++)
		rig_skip(g, MSG_launcher_lost);
	rig_skip(g, MSG_launcher_found_all);
}

int main(int argc, char **argv)
{
#define T(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		T(ses_8_the_next_api_child_finds_living_and_dead),
		T(ses_8_the_next_launcher_adopts_wardens),
		T(ses_8_a_warden_that_died_in_between_is_lost_with_its_ring),
		T(ses_8_what_was_never_answered_for_goes_without_a_word),
		T(ses_8_a_warden_that_does_not_accept_is_lost),
		T(ses_8_a_thousand_lost_sessions_are_all_told),
	};

	rig_main(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
