// SPDX-License-Identifier: Apache-2.0
/* What the next server finds. */
#include "base/fdio.h"
#include "base/log.h"
#include "session/drain.h"
#include "session/sessions.h"
#include "session/testkit/command_testkit.h"
#include "session/testkit/record_testkit.h"
#include <fcntl.h>
#include <sys/stat.h>

static void on_ready(void *arg)
{
	++*(unsigned *)arg;
}

static void ses_8_nothing_to_find_is_ready_at_once(void **state)
{
	struct kit *k = *state;
	struct session_request request = {.workspace = kit_text("/w")};
	struct told t = {0};
	unsigned ready = 0;

	kit_restart(k);
	sessions_on_ready(k->ss, on_ready, &ready);
	assert_false(sessions_ready(k->ss));
	session_create(k->ss, &k->who, &request, kit_told, &t);
	assert_int_equal(t.err.code, E_UNAVAILABLE);
	kit_found_all(k);
	assert_int_equal(ready, 1);
	sessions_on_ready(k->ss, on_ready, &ready);
	assert_int_equal(ready, 2);
}

static void ses_8_ready_when_every_found_warden_has_told_all(void **state)
{
	struct kit *k = *state;
	struct fake *a = kit_session(k, "s1"), *b = kit_session(k, "s2");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0};

	kit_restart(k);
	kit_found(k, a);
	kit_found(k, b);
	kit_found_all(k);
	fake_answer_hello(k, a);
	assert_false(sessions_ready(k->ss));
	kit_submit(k, "s1", &request, &o);
	assert_int_equal(o.err.code, E_UNAVAILABLE);
	fake_answer_patch(k, a);
	assert_false(sessions_ready(k->ss));
	fake_answer_hello(k, b);
	fake_answer_patch(k, b);
	assert_true(sessions_ready(k->ss));
	assert_string_equal(kit_get(k, "s1")->cwd, "/workspace/now");
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_events(k, "s1", "session_created session_state:ready");
	assert_int_equal(sessions_live(k->ss), 2);
}

/* A client without room for a session waits only for one that can be waited for: not for one whose
 * warden has not answered this process. */
static void ses_8_a_stopping_session_out_of_reach_is_not_waited_for(void **state)
{
	struct kit *k = *state;
	struct fake *a = kit_session(k, "s1");
	struct told told = {0};

	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &told);
	kit_turn(k);
	assert_ptr_equal(session_ending(k->ss, &k->who), kit_get(k, "s1"));
	kit_restart(k);
	kit_found(k, a);
	kit_found_all(k);
	sessions_serve_rest(k->ss);
	assert_string_equal(kit_state(k, "s1"), "stopping");
	assert_null(session_ending(k->ss, &k->who));
	fake_answer_hello(k, a);
	fake_answer_patch(k, a);
	assert_ptr_equal(session_ending(k->ss, &k->who), kit_get(k, "s1"));
}

/* A warden that is stopped or stuck is nothing that another session notices. */
static void ses_8_a_silent_warden_keeps_only_its_session_waiting(void **state)
{
	struct kit *k = *state;
	struct fake *a = kit_session(k, "s1"), *b = kit_session(k, "s2");
	const struct exec_request request = kit_request("true");
	struct seen_by o = {0}, again = {0}, other = {0};
	struct err err = {0};

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(a);
	kit_restart(k);
	kit_found(k, a);
	kit_found(k, b);
	kit_found_all(k);
	fake_answer_hello(k, b);
	fake_answer_patch(k, b);
	assert_false(sessions_ready(k->ss));
	sessions_serve_rest(k->ss);
	assert_true(sessions_ready(k->ss));
	kit_submit(k, "s2", &request, &other);
	assert_int_equal(other.err.code, E_OK);
	kit_submit(k, "s1", &request, &again);
	assert_int_equal(again.err.code, E_UNAVAILABLE);
	/* Whether it runs is not known: it is not taken for one that never did. */
	assert_int_equal(command_kill(kit_get(k, "s1")->commands.tqh_first, NULL, 0, &err),
			 -E_UNAVAILABLE);
	fake_answer_hello(k, a);
	fake_send(k, a, MSG_warden_started,
		  &(struct warden_started){.command_id = kit_text("c1"), .time_us = KIT_START_US});
	fake_answer_patch(k, a);
	assert_int_equal(command_kill(kit_get(k, "s1")->running, NULL, 0, &err), 0);
	kit_seen_done(&o);
	kit_seen_done(&other);
}

/* Its client got no answer, and the limits of its policy are not known. */
static void ses_8_a_session_that_was_being_made_is_ended(void **state)
{
	struct kit *k = *state;
	struct session_request request = {.id = kit_text("s1"), .workspace = kit_text("/w")};
	struct fake *f;

	session_create(k->ss, &k->who, &request, kit_told, &(struct told){0});
	kit_turn(k);
	f = fake_new(k, "s1");
	kit_restart(k); /* the launcher went on alone */
	kit_found(k, f);
	kit_found_all(k);
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_true(sessions_ready(k->ss));
	assert_string_equal(kit_state(k, "s1"), "failed");
}

static void ses_8_hello_brings_the_row_for_a_warden_that_never_had_one(void **state)
{
	struct kit *k = *state;
	struct session_request request = {
		.id = kit_text("s1"), .workspace = kit_text("/w"), .background = kit_text("keep")};
	struct told t = {0};
	struct warden_hello hello;
	struct link_msg m;
	struct fake *f;

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	f = fake_new(k, "s1");
	fake_created(k, f);
	kit_recv(&f->link, MSG_warden_hello, &hello, &m);
	assert_string_equal(hello.cwd, "/workspace");
	assert_string_equal(hello.agent_id, "agent-1");
	assert_string_equal(strv_env_get(&hello.env, "LANG"), "C.UTF-8");
	assert_int_equal(hello.keep_background, 1);
	assert_int_equal(hello.full_ring_drops, 0);
	assert_int_equal(hello.command_timeout_ms, 300000);
	assert_int_equal(hello.orphan_timeout_ms, k->config.orphan_timeout_ms);
	assert_int_equal(hello.output_quota, k->config.output_command_quota);
	assert_int_equal(hello.env_max, REQUEST_ENV_MAX);
	kit_recv_nothing(&f->link);
	fake_state(k, f, "/workspace", &hello.env);
	msg_done(MSG_warden_hello, &hello);
	assert_true(sessions_ready(k->ss));
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_events(k, "s1", "session_created session_state:ready");
}

static void ses_8_a_running_command_goes_on(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by o = {0};
	cleanup_buf struct buf before = {0}, after = {0};

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	fake_start(k, f);
	assert_int_equal(fdio_write_all(f->out[0], "half\n", 5), 0);
	kit_restart(k);
	kit_found(k, f);
	kit_found_all(k);
	fake_answer_hello(k, f);
	fake_send(k, f, MSG_warden_started,
		  &(struct warden_started){.command_id = kit_text("c1"),
					   .time_us = KIT_START_US + 5});
	fake_answer_patch(k, f);
	assert_true(sessions_ready(k->ss));
	assert_string_equal(kit_state(k, "s1"), "busy");
	before = kit_command_record(k, "c1");
	assert_at(&before, "state", "running");
	assert_at(&before, "started", "2027-01-15T08:00:00.000005Z");
	assert_at(&before, "stdout_total_bytes", "5");
	assert_at(&before, "stdout_total_lines", "1");
	fake_finish(k, f, 0, "half\n");
	kit_skip(&f->link, MSG_warden_ack);
	after = kit_command_answer(k, "c1");
	assert_at(&after, "result.stdout", "half\n");
	assert_at(&after, "result.exit_code", "0");
	assert_at(&after, "request.command", "true");
	assert_string_equal(kit_state(k, "s1"), "ready");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started command_finished session_state:ready");
	kit_seen_done(&o);
}

static void ses_8_an_unacknowledged_result_is_stored(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by o = {0};
	struct warden_result r;
	cleanup_buf struct buf answer = {0};

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	fake_start(k, f);
	r = fake_result(f, 5, "done\n");
	kit_restart(k);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_send(k, f, MSG_warden_result, &r);
	fake_answer_patch(k, f);
	kit_found_all(k);
	assert_true(sessions_ready(k->ss));
	kit_skip(&f->link, MSG_warden_ack);
	answer = kit_command_answer(k, "c1");
	assert_at(&answer, "result.exit_code", "5");
	assert_at(&answer, "result.stdout", "done\n");
	assert_int_equal(journal_acked(f->journal), journal_head(f->journal));
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_started command_finished session_state:ready");
	kit_seen_done(&o);
}

/* Killed between the commit and the acknowledgement: sent again, stored once. */
static void ses_8_a_result_that_is_told_twice_is_stored_once(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by o = {0};
	struct warden_result r;
	cleanup_free char *before = NULL;
	cleanup_buf struct buf a = {0}, b = {0};

	kit_submit_id(k, "s1", "c1", &o);
	fake_take_exec(f);
	fake_start(k, f);
	r = fake_result(f, 5, "");
	fake_send(k, f, MSG_warden_result, &r);
	a = kit_command_answer(k, "c1");
	before = kit_events(k, "s1");
	kit_restart(k);
	assert_int_equal(ftruncate(f->ack_fd, 0), 0); /* nothing was acknowledged */
	{
		cleanup_free char *ring = mem_printf("%s/x.ring", k->dir);
		cleanup_free char *ack = mem_printf("%s/x.ack", k->dir);
		int fd[2];

		assert_int_equal(journal_create(AT_FDCWD, ring, ack, 4 * JOURNAL_RING_DEFAULT,
						&fd[0], &fd[1], NULL),
				 0);
		close(fd[0]);
		close(f->ack_fd);
		f->ack_fd = fd[1];
	}
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_send(k, f, MSG_warden_result, &r);
	kit_skip(&f->link, MSG_warden_ack);
	fake_answer_patch(k, f);
	kit_found_all(k);
	b = kit_command_answer(k, "c1");
	assert_string_equal(a.data, b.data);
	assert_events(k, "s1", before);
	assert_int_equal(kit_get(k, "s1")->totals.command_count, 1);
	kit_seen_done(&o);
}

static void state_with_execs(struct kit *k, struct fake *f, uint64_t verified)
{
	struct warden_state m = {.version = LINK_VERSION,
				 .session_id = f->id,
				 .cwd = kit_text("/workspace"),
				 .execs.verified = verified};

	fake_send(k, f, MSG_warden_state, &m);
}

static void assert_verified(const struct kit *k, unsigned n)
{
	cleanup_free char *line = mem_printf("\nagentsh_execs_total{outcome=\"verified\"} %u\n", n);
	cleanup_buf struct buf b = {0};

	metrics_format(k->metrics, &b);
	if (strstr(b.data, line) == NULL)
		fail_msg("not %u verified", n);
}

/* POL-4: a server counts what happens from its greeting on; a result that is sent again is older.
 */
static void pol_4_execs_before_this_server_are_not_counted(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0};
	struct warden_result r;

	kit_submit_id(k, "s1", "c1", &a);
	fake_take_exec(f);
	r = fake_result(f, 0, "");
	r.execs.verified = 3;
	kit_restart(k);
	kit_found(k, f);
	kit_skip(&f->link, MSG_warden_hello);
	state_with_execs(k, f, 5);
	assert_verified(k, 0);
	fake_send(k, f, MSG_warden_result, &r);
	assert_verified(k, 0);
	state_with_execs(k, f, 6); /* answers the patch */
	assert_verified(k, 1);
	kit_found_all(k);
	kit_submit_id(k, "s1", "c2", &b);
	kit_skip(&f->link, MSG_warden_settings);
	kit_skip(&f->link, MSG_warden_patch);
	kit_skip(&f->link, MSG_warden_ack);
	fake_take_exec(f);
	r = fake_result(f, 0, "");
	r.execs.verified = 9;
	fake_send(k, f, MSG_warden_result, &r);
	assert_verified(k, 4);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void ses_8_what_the_warden_never_saw_is_lost(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	const struct exec_request request = kit_request("true");
	struct seen_by a = {0}, b = {0}, c = {0};
	struct command_observer obs = kit_observer(&a);
	const uint8_t hash[32] = {0};
	const struct command_ask ask = {
		.request = &request, .idempotency_key = "key", .body_hash = hash};
	cleanup_buf struct buf answer = {0};

	command_submit(kit_get(k, "s1"), &k->who, &ask, &obs, NULL);
	kit_turn(k);
	kit_submit_id(k, "s1", "waiting", &b);
	kit_restart(k);
	kit_found(k, f);
	fake_answer_hello(k, f);
	kit_found_all(k);
	assert_false(sessions_ready(k->ss));
	assert_string_equal(kit_state(k, "s1"), "busy");
	fake_answer_patch(k, f);
	assert_true(sessions_ready(k->ss));
	assert_string_equal(kit_state(k, "s1"), "ready");
	answer = kit_command_answer(k, "waiting");
	assert_at(&answer, "command_state", "lost");
	assert_at(&answer, "result.exit_code", "null");
	assert_at(&answer, "result.error.code", "E_UNAVAILABLE");
	assert_events(k, "s1",
		      "session_created session_state:ready command_queued session_state:busy "
		      "command_queued command_killed command_killed session_state:ready");
	obs = kit_observer(&c);
	command_submit(kit_get(k, "s1"), &k->who, &ask, &obs, NULL);
	kit_turn(k);
	assert_int_equal(c.done, 1); /* never run again */
	assert_at(&c.answer, "command_state", "lost");
	kit_recv_nothing(&f->link);
	kit_submit_id(k, "s1", "next", &a);
	fake_run(k, f, 0, "");
	assert_int_equal(a.done, 1);
	kit_seen_done(&a);
	kit_seen_done(&c);
}

/* What the journal no longer holds, the store still knows. */
static void ses_8_a_started_command_of_a_dead_session_was_killed(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0};
	cleanup_buf struct buf r = {0};

	kit_submit_id(k, "s1", "c1", &a);
	fake_take_exec(f);
	fake_start(k, f);
	session_drain(kit_get(k, "s1"), NULL);
	kit_turn(k);
	kit_restart(k);
	kit_tell(k, MSG_launcher_lost, &(struct launcher_lost){.session_id = f->id}, NULL, 0);
	kit_found_all(k);
	r = kit_command_record(k, "c1");
	assert_at(&r, "state", "killed");
	assert_at(&r, "started", "2027-01-15T08:00:00.000005Z");
}

static void ses_8_a_stop_is_finished_by_the_next_server(void **state)
{
	struct kit *k = *state;
	struct fake *a = kit_session(k, "s1");

	kit_session(k, "s2");
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &(struct told){0});
	session_destroy(kit_get(k, "s2"), &k->who, "x", kit_told, &(struct told){0});
	kit_turn(k);
	kit_restart(k);
	kit_found(k, a);
	kit_found_all(k);
	assert_string_equal(kit_state(k, "s2"), "stopped"); /* its processes are gone, as asked */
	fake_answer_hello(k, a);
	fake_answer_patch(k, a);
	kit_skip(&a->link, MSG_warden_end);
	link_done(&a->link);
	kit_turn(k);
	assert_string_equal(kit_state(k, "s1"), "stopped");
}

static void ses_8_a_warden_without_a_row_is_ended(void **state)
{
	struct kit *k = *state;
	struct fake *f = fake_new(k, "unclaimed");
	struct session *s;

	kit_restart(k);
	kit_found(k, f);
	kit_found_all(k);
	assert_true(sessions_ready(k->ss)); /* the server does not wait for it */
	assert_int_equal(session_get(k->ss, &k->who, "unclaimed", &s, NULL), -E_SESSION_NOT_FOUND);
	assert_int_equal(sessions_live(k->ss), 0);
	fake_answer_hello(k, f);
	fake_answer_patch(k, f);
	kit_skip(&f->link, MSG_warden_end);
	link_done(&f->link);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_events(k, "unclaimed", "");
}

static void ses_8_a_warden_that_dies_while_it_is_greeted(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");

	kit_restart(k);
	kit_found(k, f);
	kit_found_all(k);
	assert_false(sessions_ready(k->ss));
	link_done(&f->link);
	kit_tell(k, MSG_launcher_gone,
		 &(struct launcher_gone){.session_id = f->id, .reason = kit_text("killed")}, NULL,
		 0);
	assert_true(sessions_ready(k->ss));
	assert_string_equal(kit_state(k, "s1"), "failed");
}

static void ses_8_commands_are_numbered_on(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct seen_by a = {0}, b = {0};
	cleanup_buf struct buf list = {0};

	kit_submit_id(k, "s1", "c1", &a);
	fake_run(k, f, 0, "");
	kit_restart(k);
	kit_found(k, f);
	fake_answer_hello(k, f);
	fake_answer_patch(k, f);
	kit_found_all(k);
	kit_submit_id(k, "s1", "a2", &b);
	fake_run(k, f, 0, "");
	assert_int_equal(command_list(kit_get(k, "s1"), "1", 10, &JW(&list), NULL), 0);
	assert_at(&list, "commands.0.command_id", "a2");
	assert_int_equal(kit_get(k, "s1")->totals.command_count, 2);
	kit_seen_done(&a);
	kit_seen_done(&b);
}

static void assert_settings(struct fake *f, uint64_t orphan_ms, uint64_t quota, uint32_t drops)
{
	struct warden_settings m;
	struct link_msg msg;
	struct stat log, ours;

	kit_recv(&f->link, MSG_warden_settings, &m, &msg);
	assert_int_equal(m.orphan_timeout_ms, orphan_ms);
	assert_int_equal(m.output_quota, quota);
	assert_int_equal(m.full_ring_drops, drops);
	assert_int_equal(m.log_level, LOG_DEBUG);
	assert_int_equal(m.log_format, LOG_JSON);
	assert_int_equal(msg.nfds, 1);
	assert_int_equal(fstat(msg.fd[0], &log), 0);
	assert_int_equal(fstat(STDERR_FILENO, &ours), 0);
	assert_int_equal(log.st_ino, ours.st_ino);
	link_msg_done(&msg);
}

/* CFG-1: wardens get the settings that may change while they live. A session that is being made
 * gets them when it is ready. */
static void cfg_1_wardens_are_told_of_new_settings(void **state)
{
	static const char *const sets[] = {"sessions.orphan_timeout=7s",
					   "output.command_quota=5000", "events.full_ring=drop",
					   "logging.level=debug", "logging.format=json"};
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1"), *late;
	struct session_request request = {.id = kit_text("s2"),
					  .workspace = kit_text("/srv/project")};
	struct told t = {0};

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		assert_int_equal(config_override(sets[i], &k->config, NULL), 0);
	sessions_reconfigure(k->ss);
	assert_settings(f, 7000, 5000, 1);
	late = fake_new(k, "s2");
	fake_created(k, late);
	kit_skip(&late->link, MSG_warden_hello);
	kit_recv_nothing(&late->link);
	fake_state(k, late, "/workspace", &(struct strv){0});
	assert_settings(late, 7000, 5000, 1);
	assert_int_equal(t.n, 1);
	kit_recv_nothing(&late->link);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_8_nothing_to_find_is_ready_at_once),
		TEST(ses_8_ready_when_every_found_warden_has_told_all),
		TEST(ses_8_a_stopping_session_out_of_reach_is_not_waited_for),
		TEST(ses_8_a_silent_warden_keeps_only_its_session_waiting),
		TEST(ses_8_a_session_that_was_being_made_is_ended),
		TEST(ses_8_hello_brings_the_row_for_a_warden_that_never_had_one),
		TEST(ses_8_a_running_command_goes_on),
		TEST(ses_8_an_unacknowledged_result_is_stored),
		TEST(ses_8_a_result_that_is_told_twice_is_stored_once),
		TEST(pol_4_execs_before_this_server_are_not_counted),
		TEST(ses_8_what_the_warden_never_saw_is_lost),
		TEST(ses_8_a_started_command_of_a_dead_session_was_killed),
		TEST(ses_8_a_stop_is_finished_by_the_next_server),
		TEST(ses_8_a_warden_without_a_row_is_ended),
		TEST(ses_8_a_warden_that_dies_while_it_is_greeted),
		TEST(ses_8_commands_are_numbered_on),
		TEST(cfg_1_wardens_are_told_of_new_settings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
