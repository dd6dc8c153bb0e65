// SPDX-License-Identifier: Apache-2.0
/* How connections are shared out. Of 8 a peer may have 2, and 2 are kept for the owner: this test.
 */
#include "wire/testkit/http_testkit.h"

#define HALF "GET /x HTTP/1.1\r\n"
#define REFUSED BAD("503", "Service Unavailable")

/* A path /as/NAME says who asks, as an application would that has read a key. */
static void serve_named(struct fixture *f, struct http_request *req)
{
	if (strncmp(http_path(req), "/as/", 4) == 0 && !http_set_peer(req, http_path(req)))
		http_reply(req, 503, "text/plain", "", 0, NULL);
	else
		serve(f, req);
}

static void start(struct fixture *f)
{
	struct http_limits limits = http_limits_default;

	limits.max_connections = 8;
	limits.owner_uid = geteuid();
	fixture_start(f, &limits, serve_named);
}

static int connect_and_send(struct fixture *f, int listener, const char *text)
{
	const int fd = fixture_connect(listener);

	fixture_send(fd, text);
	fixture_turn(f);
	return fd;
}

static void close_all(const int *fd, int n)
{
	for (int i = 0; i < n; i++)
		close(fd[i]);
}

static bool is_open(int fd)
{
	cleanup_buf struct buf got = {0};

	return fixture_receive(fd, &got) == 1 && got.len == 0;
}

/* Clients without a name are one peer. The oldest unfinished request gives way, so that a client
 * that brings a name gets as far as telling it. */
static void api_1_unfinished_requests_on_tcp_do_not_keep_others_out(void **state)
{
	struct fixture f;
	int fd[4];

	start(&f);
	for (int i = 0; i < 3; i++)
		fd[i] = connect_and_send(&f, f.tcp_fd, HALF);
	fixture_expect(&f, fd[0], REFUSED);
	fixture_expect_end(&f, fd[0]);
	assert_true(is_open(fd[1]) && is_open(fd[2]));
	assert_int_equal(http_server_connections(f.server), 2);
	/* also one that has sent nothing */
	close(fd[2]);
	fd[2] = fixture_connect(f.tcp_fd);
	fixture_turn(&f);
	fixture_send(fd[1], "Host: a\r\n\r\n");
	fixture_expect(&f, fd[1], OK("/x", "2"));
	fd[3] = connect_and_send(&f, f.tcp_fd, GET("/as/a"));
	fixture_expect(&f, fd[2], REFUSED);
	fixture_expect(&f, fd[3], OK("/as/a", "5"));
	close_all(fd, 4);
	fixture_stop(&f);
}

static void api_1_answers_that_are_not_read_do_not_keep_others_out(void **state)
{
	const size_t len = 32 << 20; /* more than the kernel keeps */
	cleanup_free char *big = mem_alloc(len);
	struct fixture f;
	int fd[4];

	start(&f);
	for (int i = 0; i < 2; i++) {
		fd[i] = connect_and_send(&f, f.tcp_fd, GET("/hold"));
		http_reply(f.held, 200, NULL, big, len, NULL);
		f.held = NULL;
	}
	fd[2] = connect_and_send(&f, f.tcp_fd, GET("/as/a"));
	fixture_expect(&f, fd[2], OK("/as/a", "5"));
	/* One that only waits goes first. */
	fd[3] = connect_and_send(&f, f.tcp_fd, HALF);
	close(fd[2]);
	fd[2] = connect_and_send(&f, f.tcp_fd, GET("/as/a"));
	fixture_expect(&f, fd[3], REFUSED);
	fixture_expect(&f, fd[2], OK("/as/a", "5"));
	close_all(fd, 4);
	fixture_stop(&f);
}

static void api_1_a_peer_over_its_share_gets_503(void **state)
{
	struct fixture f;
	struct http_request *held[2];
	int fd[5], idle;

	start(&f);
	for (int i = 0; i < 2; i++) {
		fd[i] = connect_and_send(&f, f.tcp_fd, GET("/hold"));
		held[i] = f.held;
		f.held = NULL;
	}
	fd[2] = connect_and_send(&f, f.tcp_fd, GET("/x")); /* the others are being served */
	fixture_expect(&f, fd[2], REFUSED);
	fixture_expect_end(&f, fd[2]);
	for (int i = 0; i < 2; i++) {
		say(held[i], "/hold");
		fixture_expect(&f, fd[i], OK("/hold", "5"));
	}
	/* One that waits for another request gives way where peers have no name yet. */
	idle = fd[0];
	fd[0] = connect_and_send(&f, f.tcp_fd, GET("/x"));
	fixture_expect(&f, idle, REFUSED);
	fixture_expect(&f, fd[0], OK("/x", "2"));
	close(idle);
	/* A name moves the connection to another peer, which has a share of its own. */
	fixture_send(fd[0], GET("/as/a"));
	fixture_expect(&f, fd[0], OK("/as/a", "5"));
	fixture_send(fd[1], GET("/as/a") GET("/as/a"));
	fixture_expect(&f, fd[1], OK("/as/a", "5") OK("/as/a", "5"));
	fd[3] = connect_and_send(&f, f.tcp_fd, GET("/as/a"));
	fixture_expect(&f, fd[3],
		       "HTTP/1.1 503 Service Unavailable\r\nDate: *\r\nContent-Type: text/plain\r\n"
		       "Content-Length: 0\r\nConnection: close\r\n\r\n");
	fixture_expect_end(&f, fd[3]);
	close(fd[3]);
	fd[3] = connect_and_send(&f, f.tcp_fd, GET("/as/b"));
	fixture_expect(&f, fd[3], OK("/as/b", "5"));
	/* Who leaves gives the place back. */
	close(fd[0]);
	fixture_turn(&f);
	fd[4] = connect_and_send(&f, f.tcp_fd, GET("/as/a"));
	fixture_expect(&f, fd[4], OK("/as/a", "5"));
	close_all(fd + 1, 4);
	fixture_stop(&f);
}

/* Six connections of three peers: the last two are the owner's. */
static void fill(struct fixture *f, int *fd)
{
	for (int i = 0; i < 6; i++) {
		const char name[] = {'/', 'a', 's', '/', (char)('a' + i / 2), '\0'};
		cleanup_free char *ask = mem_printf("GET %s HTTP/1.1\r\nHost: a\r\n\r\n", name);
		cleanup_buf struct buf got = {0};

		fd[i] = connect_and_send(f, f->tcp_fd, ask);
		fixture_turn(f);
		assert_int_equal(fixture_receive(fd[i], &got), 1);
		assert_non_null(strstr(got.data, "200 OK"));
	}
}

static void api_1_some_connections_are_kept_for_the_owner(void **state)
{
	struct fixture f;
	int fd[9];

	start(&f);
	fill(&f, fd);
	fd[6] = connect_and_send(&f, f.tcp_fd, GET("/x"));
	fixture_expect(&f, fd[6], REFUSED);
	for (int i = 7; i < 9; i++) {
		fd[i] = connect_and_send(&f, f.unix_fd, GET("/x"));
		fixture_expect(&f, fd[i], OK("/x", "2"));
	}
	assert_int_equal(http_server_connections(f.server), 8);
	close(fd[6]);
	fd[6] = connect_and_send(&f, f.unix_fd, GET("/x")); /* nothing is unfinished */
	fixture_expect(&f, fd[6], REFUSED);
	fixture_expect_end(&f, fd[6]);
	close_all(fd, 9);
	fixture_stop(&f);
}

static void api_1_a_full_server_closes_the_oldest_unfinished_request(void **state)
{
	struct fixture f;
	int fd[8];

	start(&f);
	fill(&f, fd);
	close(fd[0]); /* a has one now, b and c have two */
	fixture_turn(&f);
	fd[0] = connect_and_send(&f, f.tcp_fd, HALF);
	fixture_send(fd[1], HALF);
	fixture_turn(&f);
	fixture_send(fd[4], HALF);
	fixture_turn(&f);
	fixture_send(fd[2], HALF);
	fixture_turn(&f);
	fd[6] = connect_and_send(&f, f.tcp_fd, GET("/y")); /* b and c have most, c's is older */
	fixture_expect(&f, fd[4], REFUSED);
	fixture_expect(&f, fd[6], OK("/y", "2"));
	fd[7] = connect_and_send(&f, f.tcp_fd, GET("/z")); /* it has its share: its own gives way */
	fixture_expect(&f, fd[0], REFUSED);
	fixture_expect(&f, fd[7], OK("/z", "2"));
	assert_true(is_open(fd[1]) && is_open(fd[2]));
	close_all(fd, 8);
	fixture_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_unfinished_requests_on_tcp_do_not_keep_others_out),
		cmocka_unit_test(api_1_answers_that_are_not_read_do_not_keep_others_out),
		cmocka_unit_test(api_1_a_peer_over_its_share_gets_503),
		cmocka_unit_test(api_1_some_connections_are_kept_for_the_owner),
		cmocka_unit_test(api_1_a_full_server_closes_the_oldest_unfinished_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
