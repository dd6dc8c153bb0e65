// SPDX-License-Identifier: Apache-2.0
/* A full ring holds the commands or drops their events, through the real programs. */
#include "command/testkit/warden_testkit.h"

/* EVT-2: a full ring holds the commands until it is read; nothing is lost, nothing overtakes. */
static void evt_2_a_full_ring_waits(void **state)
{
	const struct wkit_request request = {.ring = JOURNAL_RING_MIN};
	struct wkit *k;
	unsigned sent = 0, answered = 0;
	struct wkit_command c[400] = {0};

	wkit_of(state);
	k = wkit_open_with(&request);
	/* Long lines fill the ring soon. */
	while (answered < 200) {
		struct pollfd p = {k->api.fd, POLLIN, 0};

		if (sent == answered && sent < 200) {
			c[sent] = wkit_command(k);
			strv_add(&c[sent].ask.argv, "history");
			strv_add(&c[sent].ask.argv, "0");
			for (int i = 0; i < 100; i++)
				strv_add(&c[sent].ask.argv, "a word of no use");
			wkit_send(k, &c[sent++]);
		}
		if (poll(&p, 1, 300) == 0) {
			/* Held: no answer comes while the ring is full. */
			wkit_drain(k);
			continue;
		}
		if (wkit_step(k, &c[answered])) {
			assert_int_equal(c[answered].result.exit_code, 1);
			wkit_ack(k, c[answered].id);
			wkit_done(&c[answered++]);
		}
	}
	wkit_drain(k);
	for (unsigned i = 1; i <= 200; i++) {
		cleanup_free char *pair =
			mem_printf("command_started cmd-%u -1;command_finished cmd-%u 1;", i, i);

		assert_non_null(strstr(k->events, pair));
	}
	assert_null(strstr(k->events, "events_dropped"));
	wkit_close((void **)&k);
}

static struct wkit_command send_long(struct wkit *k)
{
	struct wkit_command c = wkit_command(k);

	strv_add(&c.ask.argv, "pwd");
	for (int i = 0; i < 100; i++)
		strv_add(&c.ask.argv, "a word of no use");
	wkit_send(k, &c);
	return c;
}

/* EVT-2: only so many commands wait for a full ring. */
static void evt_2_only_so_many_wait(void **state)
{
	const struct wkit_request request = {.ring = JOURNAL_RING_MIN};
	struct pollfd p = {.events = POLLIN};
	struct wkit_command c[65];
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	p.fd = k->api.fd;
	for (c[0] = send_long(k); poll(&p, 1, 500) > 0; c[0] = send_long(k)) {
		wkit_wait(k, &c[0]);
		wkit_done(&c[0]);
	}
	for (int i = 1; i < 65; i++)
		c[i] = send_long(k);
	wkit_wait(k, &c[64]);
	assert_string_equal(c[64].refused.code, "E_UNAVAILABLE");
	wkit_drain(k);
	for (int i = 0; i < 64; i++) {
		wkit_wait(k, &c[i]);
		assert_int_equal(c[i].result.exit_code, 0);
	}
	for (int i = 0; i < 65; i++)
		wkit_done(&c[i]);
	wkit_close((void **)&k);
}

/* EVT-2: or drops, and says how many. */
static void evt_2_a_full_ring_drops_and_counts(void **state)
{
	const struct wkit_request request = {.ring = JOURNAL_RING_MIN, .drops = true};
	struct wkit *k;

	wkit_of(state);
	k = wkit_open_with(&request);
	for (unsigned i = 0; i < 300; i++) {
		struct wkit_command c = wkit_command(k);

		strv_add(&c.ask.argv, "pwd");
		for (int w = 0; w < 100; w++)
			strv_add(&c.ask.argv, "a word of no use");
		wkit_send(k, &c);
		wkit_wait(k, &c);
		wkit_done(&c);
	}
	wkit_drain(k);
	assert_null(strstr(k->events, "cmd-300 "));
	wkit_expect(k, "echo x", "x\n", 0);
	wkit_drain(k);
	assert_non_null(strstr(k->events, "events_dropped"));
	assert_non_null(strstr(k->events, "command_finished cmd-301 0;"));
	wkit_close((void **)&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evt_2_a_full_ring_waits),
		cmocka_unit_test(evt_2_only_so_many_wait),
		cmocka_unit_test(evt_2_a_full_ring_drops_and_counts),
	};

	return cmocka_run_group_tests_name("ring", tests, wkit_prepare, wkit_clean);
}
