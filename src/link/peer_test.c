// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "base/testkit/loop_testkit.h"
#include "link/peer.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* An API process and a warden; both ends are here. */
struct pair {
	struct loop *loop;
	struct peer ours;
	struct link theirs;
	unsigned reads, rooms; /* calls of readable and writable */
	enum link_status last;
	struct buf heard;
	char *kept; /* a part of a message that its handler took */
	int fd;
	bool closes; /* a handler closes the peer */
};

static void on_readable(void *arg)
{
	struct pair *p = arg;

	p->reads++;
	p->last = peer_read(&p->ours, NULL);
}

static void on_writable(void *arg)
{
	struct pair *p = arg;

	p->rooms++;
}

static void on_failed(void *ctx, void *msg, struct link_msg *m)
{
	struct pair *p = ctx;
	struct warden_failed *failed = msg;

	buf_addf(&p->heard, "failed %s %u;", failed->reason, m->req);
	p->kept = take(failed->reason);
}

static void on_bell(void *ctx, void *msg, struct link_msg *m)
{
	struct pair *p = ctx;

	buf_adds(&p->heard, "bell;");
	if (p->closes)
		peer_close(&p->ours);
}

static const struct peer_row rows[] = {{MSG_warden_failed, on_failed}, {MSG_warden_bell, on_bell}};
static const struct peer_kind kind = {.self = SIDE_API,
				      .other = SIDE_WARDEN,
				      .rows = rows,
				      .n = ARRAY_LEN(rows),
				      .readable = on_readable,
				      .writable = on_writable};

static int on_rest(void *ctx, struct link_msg *m, struct err *err)
{
	struct pair *p = ctx;

	buf_addf(&p->heard, "rest %s;", msg_row(m->type)->name);
	return m->type == MSG_warden_taken ? 0 : -E_BAD_REQUEST;
}

static void recv_type(struct link *l, enum msg_type type, void *obj, struct link_msg *m)
{
	assert_int_equal(link_recv(l, m, NULL), LINK_OK);
	assert_int_equal(m->type, type);
	assert_int_equal(link_unpack(m, obj, NULL), 0);
}

static int setup_kind(void **state, const struct peer_kind *k)
{
	struct pair *p = mem_new(struct pair);
	struct warden_hello hello = {0};
	struct link_msg m;
	int fd[2];

	assert_int_equal(link_pair(fd, NULL), 0);
	fdio_nonblock(fd[1]);
	p->loop = loop_new(NULL, NULL);
	p->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	link_init(&p->theirs, fd[1], SIDE_WARDEN, SIDE_API);
	assert_int_equal(peer_open(&p->ours, k, p->loop, fd[0], p, NULL), 0);
	assert_int_equal(peer_send(&p->ours, MSG_warden_hello, 0, &hello, NULL, 0, NULL), LINK_OK);
	recv_type(&p->theirs, MSG_warden_hello, &hello, &m);
	*state = p;
	return 0;
}

static int setup(void **state)
{
	return setup_kind(state, &kind);
}

static int setup_pauses(void **state)
{
	static struct peer_kind pauses;

	pauses = kind;
	pauses.pauses = true;
	return setup_kind(state, &pauses);
}

static int setup_rest(void **state)
{
	static struct peer_kind rest;

	rest = kind;
	rest.rest = on_rest;
	return setup_kind(state, &rest);
}

static int teardown(void **state)
{
	struct pair *p = *state;

	peer_close(&p->ours);
	peer_close(&p->ours); /* twice is fine */
	link_done(&p->theirs);
	loop_free(p->loop);
	buf_done(&p->heard);
	free(p->kept);
	close(p->fd);
	free(p);
	return 0;
}

static enum link_status send_stdin(struct pair *p, size_t len, uint32_t eof, struct err *err)
{
	cleanup_free uint8_t *data = mem_alloc(len);
	const struct warden_stdin m = {(char *)(uintptr_t) "c", {data, len}, eof};

	return peer_send(&p->ours, MSG_warden_stdin, 0, &m, NULL, 0, err);
}

/* Sends until something waits; returns how many messages that took. */
static unsigned fill(struct pair *p)
{
	unsigned n = 0;

	while (p->ours.queued == 0) {
		assert_int_equal(send_stdin(p, 30000, n++, NULL), LINK_OK);
		assert_true(n < 1000);
	}
	return n;
}

static void ses_8_a_full_socket_keeps_order_and_descriptors(void **state)
{
	struct pair *p = *state;
	unsigned n = fill(p), got = 0;
	struct warden_exec x = {.command_id = (char *)(uintptr_t) "next"};
	struct link_msg m;

	assert_int_equal(
		peer_send(&p->ours, MSG_warden_exec, 7, &x, (int[]){p->fd, p->fd}, 2, NULL),
		LINK_OK);
	while (got < n) {
		struct warden_stdin in;

		recv_type(&p->theirs, MSG_warden_stdin, &in, &m);
		assert_int_equal(in.eof, got++);
		assert_int_equal(in.data.len, 30000);
		msg_done(MSG_warden_stdin, &in);
		loop_pass(p->loop);
	}
	recv_type(&p->theirs, MSG_warden_exec, &x, &m);
	assert_string_equal(x.command_id, "next");
	assert_int_equal(m.req, 7);
	assert_int_equal(m.nfds, 2);
	msg_done(MSG_warden_exec, &x);
	link_msg_done(&m);
	assert_int_equal(p->ours.queued, 0);
	assert_int_equal(p->rooms, 1);
	assert_int_equal(link_recv(&p->theirs, &m, NULL), LINK_AGAIN);
}

static void ses_8_what_waits_is_bounded(void **state)
{
	struct pair *p = *state;
	struct err err = {0};

	fill(p);
	for (int i = 0; i < 31; i++)
		assert_int_equal(send_stdin(p, 1024 * 1024, 0, &err), LINK_OK);
	assert_int_equal(send_stdin(p, 1024 * 1024, 0, &err), LINK_FULL);
	assert_int_equal(err.code, E_UNAVAILABLE);
	assert_true(p->ours.queued <= PEER_QUEUE_MAX);
}

static void ses_8_what_may_not_be_sent_is_refused_though_it_would_wait(void **state)
{
	struct pair *p = *state;
	struct err err = {0};

	fill(p);
	assert_int_equal(send_stdin(p, 1024 * 1024 + 1, 0, &err), LINK_BROKEN);
	assert_int_equal(err.code, E_INTERNAL);
	/* The end that waits counts as sent: nothing may come behind it. */
	assert_int_equal(
		peer_send(&p->ours, MSG_warden_end, 0, &(struct warden_end){0}, NULL, 0, &err),
		LINK_OK);
	assert_int_equal(send_stdin(p, 1, 0, &err), LINK_BROKEN);
}

static void ses_8_a_closed_peer_is_an_error_or_drops_what_waits(void **state)
{
	struct pair *p = *state;
	struct err err = {0};

	fill(p);
	link_done(&p->theirs);
	loop_pass(p->loop);
	assert_int_equal(p->ours.queued, 0);
	assert_int_equal(send_stdin(p, 1, 0, &err), LINK_EOF);
	assert_int_equal(err.code, E_UNAVAILABLE);
	peer_close(&p->ours);
	assert_int_equal(send_stdin(p, 1, 0, &err), LINK_EOF);
}

static void say(struct pair *p, enum msg_type type, uint32_t req, const void *obj)
{
	assert_int_equal(link_send(&p->theirs, type, req, obj, NULL, 0, NULL), LINK_OK);
}

static void heard(struct pair *p, const char *want)
{
	buf_adds(&p->heard, "");
	assert_string_equal(p->heard.data, want);
}

static void ses_8_each_message_goes_to_its_handler(void **state)
{
	struct pair *p = *state;
	const struct msg_empty empty = {0};

	say(p, MSG_warden_bell, 0, &empty);
	say(p, MSG_warden_failed, 5, &(struct warden_failed){(char *)(uintptr_t) "why"});
	loop_settle(p->loop);
	heard(p, "bell;failed why 5;");
	assert_string_equal(p->kept, "why");
	assert_int_equal(p->reads, 2); /* one message each */
	assert_int_equal(peer_read(&p->ours, NULL), LINK_AGAIN);
	/* Legal by the table of messages, but this process has no row for it. */
	say(p, MSG_warden_taken, 0, &(struct warden_taken){0});
	loop_pass(p->loop);
	assert_int_equal(p->last, LINK_BROKEN);
	link_done(&p->theirs);
	loop_pass(p->loop);
	assert_int_equal(p->last, LINK_EOF);
}

static void ses_8_the_rest_has_a_handler_of_its_own(void **state)
{
	struct pair *p = *state;

	say(p, MSG_warden_taken, 0, &(struct warden_taken){0});
	loop_pass(p->loop);
	assert_int_equal(p->last, LINK_OK);
	say(p, MSG_warden_started, 0, &(struct warden_started){0});
	loop_pass(p->loop);
	assert_int_equal(p->last, LINK_BROKEN);
	heard(p, "rest warden_taken;rest warden_started;");
}

static void ses_8_a_handler_may_close_its_peer(void **state)
{
	struct pair *p = *state;

	p->closes = true;
	say(p, MSG_warden_bell, 0, &(struct msg_empty){0});
	loop_pass(p->loop);
	assert_int_equal(p->last, LINK_OK);
	assert_int_equal(p->ours.link.fd, -1);
}

static void api_1_nothing_is_read_while_something_waits(void **state)
{
	struct pair *p = *state;
	const unsigned n = fill(p);
	struct link_msg m;

	say(p, MSG_warden_bell, 0, &(struct msg_empty){0});
	loop_settle(p->loop);
	assert_int_equal(p->reads, 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(link_recv(&p->theirs, &m, NULL), LINK_OK);
		loop_pass(p->loop);
	}
	loop_settle(p->loop);
	heard(p, "bell;");
}

static void ses_8_last_words_are_read_though_something_waits(void **state)
{
	struct pair *p = *state;

	fill(p);
	say(p, MSG_warden_bell, 0, &(struct msg_empty){0});
	link_done(&p->theirs);
	loop_settle(p->loop);
	heard(p, "bell;");
	assert_int_equal(p->ours.queued, 0);
	assert_int_equal(p->last, LINK_EOF);
}

static void exe_6_room_is_awaited_without_a_queue(void **state)
{
	struct pair *p = *state;

	peer_await_room(&p->ours);
	loop_settle(p->loop);
	assert_int_equal(p->rooms, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(ses_8_a_full_socket_keeps_order_and_descriptors),
		TEST(ses_8_what_waits_is_bounded),
		TEST(ses_8_what_may_not_be_sent_is_refused_though_it_would_wait),
		TEST(ses_8_a_closed_peer_is_an_error_or_drops_what_waits),
		TEST(ses_8_each_message_goes_to_its_handler),
		cmocka_unit_test_setup_teardown(ses_8_the_rest_has_a_handler_of_its_own, setup_rest,
						teardown),
		TEST(ses_8_a_handler_may_close_its_peer),
		cmocka_unit_test_setup_teardown(api_1_nothing_is_read_while_something_waits,
						setup_pauses, teardown),
		cmocka_unit_test_setup_teardown(ses_8_last_words_are_read_though_something_waits,
						setup_pauses, teardown),
		TEST(exe_6_room_is_awaited_without_a_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
