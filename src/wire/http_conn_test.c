// SPDX-License-Identifier: Apache-2.0
/* Connections: order, leaving clients, the end of the server. */
#include "wire/testkit/http_testkit.h"
#include <netinet/in.h>
#include <netinet/tcp.h>

/* The answer is on its way when on_request returns: one turn of the loop that accepts is enough. */
static void api_1_an_answer_needs_no_second_turn(void **state)
{
	cleanup_buf struct buf got = {0};
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/a"));
	loop_turn(f.loop);
	assert_int_equal(fixture_receive(fd, &got), 1);
	fixture_mask_date(&got);
	assert_string_equal(got.data, OK("/a", "2"));
	buf_clear(&got);
	fixture_send(fd, GET("/b"));
	loop_turn(f.loop);
	assert_int_equal(fixture_receive(fd, &got), 1);
	fixture_mask_date(&got);
	assert_string_equal(got.data, OK("/b", "2"));
	close(fd);
	fixture_stop(&f);
}

static void api_1_connections_live_as_long_as_asked(void **state)
{
	static const struct {
		const char *request, *answer;
		bool lives;
	} rows[] = {
		{GET("/"), OK("/", "1"), true},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", OK_CLOSE("/", "1"),
		 false},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", OK_CLOSE("/", "1"),
		 false},
		{"GET / HTTP/1.0\r\n\r\n", OK_CLOSE("/", "1"), false},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
		 "HTTP/1.1 200 OK\r\nDate: *\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n"
		 "Connection: keep-alive\r\n\r\n/",
		 true},
	};
	struct fixture f;

	fixture_start(&f, &http_limits_default, serve);
	for (size_t i = 0; i < ARRAY_LEN(rows) * 2; i++) {
		const int fd = fixture_connect(i % 2 == 0 ? f.unix_fd : f.tcp_fd);

		fixture_send(fd, rows[i / 2].request);
		fixture_expect(&f, fd, rows[i / 2].answer);
		if (rows[i / 2].lives) {
			fixture_send(fd, GET("/again"));
			fixture_expect(&f, fd, OK("/again", "6"));
		} else {
			fixture_expect_end(&f, fd);
		}
		close(fd);
	}
	fixture_turn(&f);
	assert_int_equal(http_server_connections(f.server), 0);
	fixture_stop(&f);
}

static void api_1_pipelined_requests_are_answered_in_order(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/hold1") GET("/2") GET("/hold3") GET("/4"));
	fixture_turn(&f);
	fixture_assert_log(&f, "/hold1;");
	/* Bytes that are not read yet must not keep the loop busy. */
	fixture_send(fd, GET("/5"));
	fixture_turn(&f);
	fixture_assert_quiet(&f);
	fixture_assert_log(&f, "/hold1;");
	answer_held(&f, "one");
	fixture_expect(&f, fd, OK("one", "3") OK("/2", "2"));
	fixture_assert_log(&f, "/hold1;/2;/hold3;");
	answer_held(&f, "three");
	fixture_expect(&f, fd, OK("three", "5") OK("/4", "2") OK("/5", "2"));
	close(fd);
	fixture_stop(&f);
}

/* More than one turn's worth, in one segment. */
static void api_1_many_pipelined_requests_are_all_answered(void **state)
{
	cleanup_buf struct buf in = {0}, want = {0};
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.tcp_fd);
	for (int i = 0; i < 100; i++) {
		buf_adds(&in, GET("/p"));
		buf_adds(&want, OK("/p", "2"));
	}
	fixture_send(fd, in.data);
	fixture_expect(&f, fd, want.data);
	close(fd);
	fixture_stop(&f);
}

static void api_1_a_request_may_come_byte_by_byte(void **state)
{
	static const char text[] =
		"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" GET("/y");
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.unix_fd);
	for (size_t i = 0; i < sizeof(text) - 1; i++) {
		assert_int_equal(send(fd, text + i, 1, 0), 1);
		fixture_turn(&f);
	}
	fixture_expect(&f, fd, OK("/x", "2") OK("/y", "2"));
	close(fd);
	fixture_stop(&f);
}

/* --- leaving --- */

enum leaving { LEAVE_CLOSE, LEAVE_HALF, LEAVE_RESET };

static void leave(int fd, enum leaving how)
{
	const struct linger reset = {1, 0};

	if (how == LEAVE_HALF) {
		shutdown(fd, SHUT_WR);
		return;
	}
	if (how == LEAVE_RESET)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
}

static void api_1_a_client_that_leaves_is_noticed_once(void **state)
{
	for (int i = 0; i < 12; i++) {
		const enum leaving how = i % 3;
		struct fixture f;
		int fd;

		fixture_start(&f, &http_limits_default, serve);
		fd = fixture_connect(i < 6 ? f.unix_fd : f.tcp_fd);
		fixture_send(fd, GET("/hold"));
		fixture_turn(&f);
		fixture_assert_log(&f, "/hold;");
		/* In every other case bytes lie before the end. */
		if (i % 6 >= 3) {
			fixture_send(fd, GET("/never"));
			fixture_turn(&f);
		}
		leave(fd, how);
		fixture_turn(&f);
		fixture_assert_log(&f, "/hold;closed /hold;");
		assert_int_equal(http_server_connections(f.server), 0);
		fixture_assert_quiet(&f);
		if (how == LEAVE_HALF)
			close(fd);
		fixture_stop(&f);
	}
}

/* The end was there before the request was read. */
static void api_1_a_client_may_have_left_before_its_request_is_read(void **state)
{
	cleanup_buf struct buf got = {0};
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/hold"));
	shutdown(fd, SHUT_WR);
	fixture_turn(&f);
	fixture_assert_log(&f, "/hold;closed /hold;");
	close(fd);

	/* What is answered at once reaches a client that only listens. */
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/a"));
	shutdown(fd, SHUT_WR);
	fixture_turn(&f);
	assert_int_equal(fixture_receive(fd, &got), 0);
	fixture_mask_date(&got);
	assert_string_equal(got.data, OK("/a", "2"));
	close(fd);

	/* Not a whole request: the application does not see it. */
	buf_clear(&f.log);
	fd = fixture_connect(f.tcp_fd);
	fixture_send(fd, "GET / HT");
	fixture_turn(&f);
	assert_int_equal(http_server_connections(f.server), 1);
	close(fd);
	fixture_turn(&f);
	assert_int_equal(http_server_connections(f.server), 0);
	fixture_assert_log(&f, "");
	fixture_stop(&f);
}

static void api_1_an_answer_to_nobody_is_harmless(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/hold"));
	fixture_turn(&f);
	/* Closed, and the server has had no turn to notice. */
	close(fd);
	answer_held(&f, "x");
	fixture_turn(&f);
	fixture_assert_log(&f, "/hold;");
	assert_int_equal(http_server_connections(f.server), 0);

	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/hold"));
	fixture_turn(&f);
	close(fd);
	http_stream_start(f.held, 200, NULL, NULL);
	http_stream_write(f.held, "x", 1);
	fixture_turn(&f);
	fixture_assert_log(&f, "/hold;/hold;closed /hold;");

	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/hold"));
	fixture_turn(&f);
	close(fd);
	http_stream_start(f.held, 200, NULL, NULL);
	http_stream_end(f.held);
	fixture_turn(&f);
	fixture_assert_log(&f, "/hold;/hold;closed /hold;/hold;");
	assert_int_equal(http_server_connections(f.server), 0);
	fixture_stop(&f);
}

/* --- the server's end --- */

static void count_quiet(void *arg)
{
	(*(int *)arg)++;
}

static void api_1_a_draining_server_finishes_its_answers(void **state)
{
	int idle, busy, reading, late, quiet = 0;
	struct fixture f;

	fixture_start(&f, &http_limits_default, serve);
	idle = fixture_connect(f.unix_fd);
	busy = fixture_connect(f.unix_fd);
	reading = fixture_connect(f.unix_fd);
	fixture_send(busy, GET("/hold"));
	fixture_send(reading, "GET /r HTTP/1.1\r\n");
	fixture_turn(&f);
	http_server_drain(f.server);
	http_server_on_quiet(f.server, count_quiet, &quiet);
	fixture_expect_end(&f, idle);
	late = fixture_connect(f.unix_fd);
	fixture_turn(&f);
	assert_int_equal(http_server_connections(f.server), 2);
	fixture_send(reading, "Host: a\r\n\r\n");
	fixture_expect(&f, reading, OK_CLOSE("/r", "2"));
	fixture_expect_end(&f, reading);
	assert_int_equal(quiet, 0);
	answer_held(&f, "done");
	fixture_expect(&f, busy, OK_CLOSE("done", "4"));
	fixture_expect_end(&f, busy);
	assert_int_equal(quiet, 1); /* though the clients have not closed */
	http_server_on_quiet(f.server, count_quiet, &quiet);
	assert_int_equal(quiet, 2);
	close(reading);
	close(busy);
	fixture_turn(&f);
	assert_int_equal(http_server_connections(f.server), 0);
	close(idle);
	close(late);
	fixture_stop(&f);
}

/* A connection is quiet when its answer was sent to the end. */
static void api_1_an_answer_that_is_not_sent_yet_is_no_quiet(void **state)
{
	const size_t size = 8 << 20; /* more than the kernel takes at once */
	cleanup_buf struct buf got = {0};
	cleanup_free char *text = mem_alloc(size + 1);
	struct fixture f;
	int fd, quiet = 0;

	memset(text, 'x', size);
	text[size] = '\0';
	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, "GET /hold HTTP/1.1\r\n");
	fixture_turn(&f);
	http_server_on_quiet(f.server, count_quiet, &quiet);
	assert_int_equal(quiet, 1);
	fixture_send(fd, "Host: a\r\n\r\n");
	fixture_turn(&f);
	http_server_on_quiet(f.server, count_quiet, &quiet);
	assert_int_equal(quiet, 1);
	answer_held(&f, text);
	fixture_turn(&f);
	assert_int_equal(quiet, 1);
	while (got.len < size) {
		assert_int_equal(fixture_receive(fd, &got), 1);
		fixture_turn(&f);
	}
	assert_int_equal(quiet, 2); /* though the connection stays */
	assert_int_equal(http_server_connections(f.server), 1);
	close(fd);
	fixture_stop(&f);
}

static void api_1_a_freed_server_tells_its_requests(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.tcp_fd);
	fixture_send(fd, GET("/hold"));
	fixture_turn(&f);
	http_server_free(f.server);
	fixture_assert_log(&f, "/hold;closed /hold;");
	f.server = NULL;
	fixture_stop(&f);
	close(fd);
}

static void tell_where(struct fixture *f, struct http_request *req)
{
	int type;
	socklen_t len = sizeof(type);

	assert_int_equal(getsockopt(http_fd(req), SOL_SOCKET, SO_TYPE, &type, &len), 0);
	buf_addf(&f->log, "%d;", http_tag(req));
	/* An answer on TCP does not wait for more. */
	if (http_tag(req) == 8) {
		assert_int_equal(getsockopt(http_fd(req), IPPROTO_TCP, TCP_NODELAY, &type, &len),
				 0);
		assert_int_not_equal(type, 0);
		assert_int_equal(getsockopt(http_fd(req), SOL_SOCKET, SO_KEEPALIVE, &type, &len),
				 0);
		assert_int_not_equal(type, 0);
	}
	http_reply(req, 204, NULL, NULL, 0, NULL);
}

static void api_1_a_request_knows_its_listener(void **state)
{
	struct err err = {0};
	struct fixture f;
	int u, t;

	fixture_start(&f, &http_limits_default, tell_where);
	u = fixture_connect(f.unix_fd);
	fixture_send(u, GET("/"));
	fixture_expect(&f, u, "HTTP/1.1 204 No Content\r\nDate: *\r\n\r\n");
	t = fixture_connect(f.tcp_fd);
	fixture_send(t, GET("/"));
	fixture_expect(&f, t, "HTTP/1.1 204 No Content\r\nDate: *\r\n\r\n");
	fixture_assert_log(&f, "7;8;");
	assert_int_equal(http_server_listen(f.server, -1, 0, transport_plain, &err), -E_INTERNAL);
	close(u);
	close(t);
	fixture_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_an_answer_needs_no_second_turn),
		cmocka_unit_test(api_1_connections_live_as_long_as_asked),
		cmocka_unit_test(api_1_pipelined_requests_are_answered_in_order),
		cmocka_unit_test(api_1_many_pipelined_requests_are_all_answered),
		cmocka_unit_test(api_1_a_request_may_come_byte_by_byte),
		cmocka_unit_test(api_1_a_client_that_leaves_is_noticed_once),
		cmocka_unit_test(api_1_a_client_may_have_left_before_its_request_is_read),
		cmocka_unit_test(api_1_an_answer_to_nobody_is_harmless),
		cmocka_unit_test(api_1_a_draining_server_finishes_its_answers),
		cmocka_unit_test(api_1_an_answer_that_is_not_sent_yet_is_no_quiet),
		cmocka_unit_test(api_1_a_freed_server_tells_its_requests),
		cmocka_unit_test(api_1_a_request_knows_its_listener),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
