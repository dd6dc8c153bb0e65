// SPDX-License-Identifier: Apache-2.0
#include "session/session_testkit.h"

struct pair {
	struct loop *loop;
	struct link ours, theirs;
	struct outbox box;
};

static int setup(void **state)
{
	struct pair *p = mem_new(struct pair);
	int fd[2];

	assert_int_equal(link_pair(fd, NULL), 0);
	fdio_nonblock(fd[0]);
	fdio_nonblock(fd[1]);
	p->loop = loop_new(NULL, NULL);
	link_init(&p->ours, fd[0], SIDE_API, SIDE_WARDEN);
	link_init(&p->theirs, fd[1], SIDE_WARDEN, SIDE_API);
	outbox_init(&p->box, p->loop, &p->ours);
	assert_int_equal(
		outbox_send(&p->box, MSG_warden_hello, &(struct warden_hello){0}, NULL, 0, NULL),
		0);
	kit_skip(&p->theirs, MSG_warden_hello);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	outbox_done(&p->box);
	outbox_done(&p->box); /* twice is fine */
	link_done(&p->ours);
	link_done(&p->theirs);
	loop_free(p->loop);
	free(p);
	return 0;
}

/* Sends until something waits; returns how many messages that took. */
static unsigned fill(struct pair *p)
{
	struct warden_stdin m = {.command_id = (char *)"c"};
	unsigned n = 0;

	m.data.len = 30000;
	m.data.data = mem_alloc(m.data.len);
	while (p->box.bytes == 0) {
		m.eof = n++;
		assert_int_equal(outbox_send(&p->box, MSG_warden_stdin, &m, NULL, 0, NULL), 0);
		assert_true(n < 1000);
	}
	free(m.data.data);
	return n;
}

static void ses_8_a_full_socket_keeps_order_and_descriptors(void **state)
{
	struct pair *p = *state;
	unsigned n = fill(p), got = 0;
	cleanup_fd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct warden_exec x = {.command_id = (char *)"next"};
	struct link_msg m;

	assert_int_equal(outbox_send(&p->box, MSG_warden_exec, &x, (int[]){fd, fd}, 2, NULL), 0);
	while (got < n) {
		struct warden_stdin in;

		kit_recv(&p->theirs, MSG_warden_stdin, &in, &m);
		assert_int_equal(in.eof, got++);
		assert_int_equal(in.data.len, 30000);
		msg_done(MSG_warden_stdin, &in);
		loop_settle(p->loop);
	}
	kit_recv(&p->theirs, MSG_warden_exec, &x, &m);
	assert_string_equal(x.command_id, "next");
	assert_int_equal(m.nfds, 2);
	msg_done(MSG_warden_exec, &x);
	link_msg_done(&m);
	assert_int_equal(p->box.bytes, 0);
	kit_recv_nothing(&p->theirs);
}

static void ses_8_what_waits_is_bounded(void **state)
{
	struct pair *p = *state;
	struct warden_stdin m = {.command_id = (char *)"c"};
	struct err err = {0};
	int r = 0;

	fill(p);
	m.data.len = 1024 * 1024;
	m.data.data = mem_alloc(m.data.len);
	for (int i = 0; i < 31 && r == 0; i++)
		r = outbox_send(&p->box, MSG_warden_stdin, &m, NULL, 0, &err);
	assert_int_equal(r, 0);
	assert_int_equal(outbox_send(&p->box, MSG_warden_stdin, &m, NULL, 0, &err), -E_UNAVAILABLE);
	assert_true(p->box.bytes <= OUTBOX_MAX);
	free(m.data.data);
}

static void ses_8_what_may_not_be_sent_is_refused_though_it_would_wait(void **state)
{
	struct pair *p = *state;
	struct warden_stdin m = {.command_id = (char *)"c"};
	struct err err = {0};

	fill(p);
	m.data.len = 1024 * 1024 + 1;
	m.data.data = mem_alloc(m.data.len);
	assert_int_equal(outbox_send(&p->box, MSG_warden_stdin, &m, NULL, 0, &err), -E_INTERNAL);
	free(m.data.data);
}

static void ses_8_a_closed_peer_is_an_error_or_drops_what_waits(void **state)
{
	struct pair *p = *state;
	struct err err = {0};

	fill(p);
	link_done(&p->theirs);
	loop_settle(p->loop);
	assert_int_equal(p->box.bytes, 0);
	assert_int_equal(
		outbox_send(&p->box, MSG_warden_end, &(struct warden_end){0}, NULL, 0, &err),
		-E_UNAVAILABLE);
	outbox_done(&p->box);
	assert_int_equal(
		outbox_send(&p->box, MSG_warden_end, &(struct warden_end){0}, NULL, 0, &err),
		-E_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ses_8_a_full_socket_keeps_order_and_descriptors,
						setup, teardown),
		cmocka_unit_test_setup_teardown(ses_8_what_waits_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(
			ses_8_what_may_not_be_sent_is_refused_though_it_would_wait, setup,
			teardown),
		cmocka_unit_test_setup_teardown(ses_8_a_closed_peer_is_an_error_or_drops_what_waits,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
