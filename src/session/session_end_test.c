// SPDX-License-Identifier: Apache-2.0
/* How sessions end: asked for, by a failure, with the server. */
#include "session/testkit/fake_warden_testkit.h"
#include "session/testkit/record_testkit.h"
#include <stdio.h>

static void ses_2_destroy_ends_in_order(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct told t = {0};
	struct warden_end end;
	struct link_msg m;
	cleanup_buf struct buf r = {0};

	session_destroy(kit_get(k, "s1"), &k->who, "asked for", kit_told, &t);
	kit_recv_nothing(&f->link); /* not before the row is safe */
	kit_turn(k);
	assert_int_equal(t.n, 0);
	assert_string_equal(kit_state(k, "s1"), "stopping");
	kit_recv(&f->link, MSG_warden_end, &end, &m);
	assert_string_equal(end.reason, "asked for");
	msg_done(MSG_warden_end, &end);
	k->clock.fixed_us += 1000000;
	link_done(&f->link);
	kit_turn(k);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.err.code, E_OK);
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_events(k, "s1",
		      "session_created session_state:ready session_state:stopping "
		      "session_state:stopped session_destroyed");
	r = kit_session_record(k, "s1"); /* from its row now */
	assert_at(&r, "state", "stopped");
	assert_at(&r, "ended", "2027-01-15T08:00:01.000000Z");
	assert_at(&r, "failure", "null");
	assert_at(&r, "policy.version", k->version);
	assert_at(&r, "environment.LANG", "C.UTF-8");
	assert_at(&r, "config.timeout", "4h");
	assert_at(&r, "enforcement.1.state", "up");
	assert_int_equal(sessions_live(k->ss), 0);
	assert_int_equal(kit_destroy(k, "s1").n, 1); /* again */
	kit_recv_nothing(&k->launcher);
}

static void ses_2_two_who_destroy_are_both_told(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct told a = {0}, b = {0};

	session_destroy(kit_get(k, "s1"), &k->who, "one", kit_told, &a);
	session_destroy(kit_get(k, "s1"), &k->who, "two", kit_told, &b);
	kit_turn(k);
	kit_skip(&f->link, MSG_warden_end);
	kit_recv_nothing(&f->link);
	link_done(&f->link);
	kit_turn(k);
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 1);
}

static void ses_2_a_dead_warden_fails_its_session_only(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	cleanup_buf struct buf r = {0};

	kit_session(k, "s2");
	link_done(&f->link);
	kit_turn(k);
	assert_string_equal(kit_state(k, "s1"), "ready"); /* the launcher knows why */
	kit_tell(k, MSG_launcher_gone,
		 &(struct launcher_gone){.session_id = kit_text("s1"),
					 .reason = kit_text("killed by signal KILL (9)")},
		 NULL, 0);
	r = kit_session_record(k, "s1");
	assert_at(&r, "state", "failed");
	assert_at(&r, "failure", "killed by signal KILL (9)");
	assert_events(k, "s1",
		      "session_created session_state:ready session_state:failed session_failed");
	assert_string_equal(kit_state(k, "s2"), "ready");
	kit_skip(&k->launcher, MSG_launcher_remove);
	assert_int_equal(sessions_live(k->ss), 1);
}

static unsigned failed_seen;

static void count_failed(const struct stored_event *e, void *arg)
{
	failed_seen += e->type == EVENT_session_failed;
}

static void ses_2_a_closed_link_is_enough_after_a_moment(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	cleanup_buf struct buf r = {0};

	failed_seen = 0;
	store_add_sink(k->store, count_failed, NULL, NULL);
	link_done(&f->link);
	kit_until(k, &failed_seen, 1);
	kit_turn(k);
	r = kit_session_record(k, "s1");
	assert_at(&r, "failure", "its warden ended without a reason");
}

static void ses_2_a_broken_protocol_fails_the_session(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	cleanup_buf struct buf r = {0};

	assert_int_equal(send(f->link.fd, "nonsense", 8, 0), 8);
	kit_turn(k);
	r = kit_session_record(k, "s1");
	assert_at(&r, "state", "failed");
	assert_at(&r, "failure", "its warden broke the protocol");
	kit_skip(&k->launcher, MSG_launcher_remove);
	kit_session(k, "s2");
	fake_state(k, &k->warden[1], "/", &(struct strv){0}); /* not asked for: nothing happens */
	assert_string_equal(kit_state(k, "s2"), "ready");
	snprintf(k->warden[1].id, sizeof(k->warden[1].id), "other");
	fake_state(k, &k->warden[1], "/", &(struct strv){0});
	assert_string_equal(kit_state(k, "s2"), "failed");
}

static void ses_2_last_words_are_read_before_the_end(void **state)
{
	struct kit *k = *state;
	struct fake *f = kit_session(k, "s1");
	struct err err = {0};

	/* something of ours is unread when the warden closes: the kernel reports that first */
	session_destroy(kit_get(k, "s1"), &k->who, "x", kit_told, &(struct told){0});
	store_commit(k->store, &err);
	assert_int_equal(link_send(&f->link, MSG_warden_failed, 0,
				   &(struct warden_failed){.reason = kit_text("why")}, NULL, 0,
				   &err),
			 0);
	link_done(&f->link);
	kit_turn(k);
	assert_string_equal(kit_state(k, "s1"), "stopped");
}

/* ---- all ---- */

static void stopped(void *arg)
{
	++*(unsigned *)arg;
}

static void ses_8_stopping_the_server_ends_every_session(void **state)
{
	struct kit *k = *state;
	struct fake *a = kit_session(k, "s1"), *b = kit_session(k, "s2");
	struct session_request request = kit_request_of("s3");
	unsigned n = 0;
	struct told t = {0};

	session_create(k->ss, &k->who, &request, kit_told, &t);
	kit_turn(k);
	kit_skip(&k->launcher, MSG_launcher_create);
	sessions_stop(k->ss, stopped, &n);
	kit_turn(k);
	kit_skip(&a->link, MSG_warden_end);
	kit_skip(&b->link, MSG_warden_end);
	link_done(&a->link);
	kit_turn(k);
	link_done(&b->link);
	kit_turn(k);
	assert_int_equal(n, 0);
	b = fake_new(k, "s3");
	fake_created(k, b);
	fake_greet(k, b);
	assert_int_equal(t.n, 1);
	kit_skip(&b->link, MSG_warden_end);
	link_done(&b->link);
	kit_turn(k);
	assert_int_equal(n, 1);
	request = kit_request_of("s4");
	assert_int_equal(kit_create(k, &request).err.code, E_UNAVAILABLE);
}

static void ses_8_stopping_without_sessions_is_done_at_once(void **state)
{
	struct kit *k = *state;
	unsigned n = 0;

	sessions_stop(k->ss, stopped, &n);
	assert_int_equal(n, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, kit_setup, kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ses_2_destroy_ends_in_order),
		TEST(ses_2_two_who_destroy_are_both_told),
		TEST(ses_2_a_dead_warden_fails_its_session_only),
		TEST(ses_2_a_closed_link_is_enough_after_a_moment),
		TEST(ses_2_a_broken_protocol_fails_the_session),
		TEST(ses_2_last_words_are_read_before_the_end),
		TEST(ses_8_stopping_the_server_ends_every_session),
		TEST(ses_8_stopping_without_sessions_is_done_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
