// SPDX-License-Identifier: Apache-2.0
/* Connections: deadlines, refusals, limits. */
#include "base/clock.h"
#include "base/log.h"
#include "wire/testkit/http_testkit.h"
#include <sys/mman.h>
#include <sys/resource.h>

/* --- deadlines --- */

static void api_1_a_slow_header_gets_408(void **state)
{
	struct http_limits limits = http_limits_default;
	struct fixture f;
	int fd;

	limits.header_timeout_ms = 300;
	limits.idle_timeout_ms = 60000;
	fixture_start(&f, &limits, serve);
	fd = fixture_connect(f.unix_fd);
	/* Silence is not a header. */
	fixture_run_ms(&f, 450);
	fixture_send(fd, "G");
	fixture_run_ms(&f, 180);
	fixture_send(fd, "ET / HTTP/1.1\r\n");
	fixture_run_ms(&f, 60);
	assert_int_equal(http_server_connections(f.server), 1);
	/* The deadline is absolute: progress does not move it. */
	fixture_run_ms(&f, 120);
	fixture_expect(&f, fd, BAD("408", "Request Timeout"));
	fixture_expect_end(&f, fd);
	close(fd);
	fixture_stop(&f);
}

/* The deadline of a second request begins with that request. */
static void api_1_the_header_deadline_is_per_request(void **state)
{
	struct http_limits limits = http_limits_default;
	struct fixture f;
	int fd;

	limits.header_timeout_ms = 1000;
	fixture_start(&f, &limits, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, "GET /a HTTP/1.1\r\n");
	fixture_run_ms(&f, 600);
	fixture_send(fd, "Host: a\r\n\r\nGET /b HTTP/1.1\r\n");
	fixture_run_ms(&f, 600);
	fixture_send(fd, "Host: a\r\n\r\n");
	fixture_expect(&f, fd, OK("/a", "2") OK("/b", "2"));
	fixture_run_ms(&f, 1200);
	assert_int_equal(http_server_connections(f.server), 1);
	close(fd);
	fixture_stop(&f);
}

static void api_1_an_idle_connection_is_closed(void **state)
{
	struct http_limits limits = http_limits_default;
	struct fixture f;
	int fresh, used;

	limits.idle_timeout_ms = 1000;
	fixture_start(&f, &limits, serve);
	fresh = fixture_connect(f.unix_fd);
	used = fixture_connect(f.unix_fd);
	fixture_run_ms(&f, 600);
	fixture_send(used, GET("/"));
	fixture_expect(&f, used, OK("/", "1"));
	fixture_run_ms(&f, 600);
	fixture_expect_end(&f, fresh);
	/* A request counts anew. */
	assert_int_equal(http_server_connections(f.server), 1);
	/* The application may take its time. */
	fixture_send(used, GET("/hold"));
	fixture_run_ms(&f, 1500);
	answer_held(&f, "late");
	fixture_expect(&f, used, OK("late", "4"));
	fixture_run_ms(&f, 1500);
	fixture_expect_end(&f, used);
	close(fresh);
	close(used);
	fixture_stop(&f);
}

static void api_1_a_slow_body_gets_408(void **state)
{
	struct http_limits limits = http_limits_default;
	struct fixture f;
	int slow, fast;
	char bytes[601];

	memset(bytes, 'x', sizeof(bytes) - 1);
	bytes[sizeof(bytes) - 1] = '\0';
	limits.body_min_rate = 300;
	limits.body_grace_ms = 300;
	fixture_start(&f, &limits, serve);
	slow = fixture_connect(f.unix_fd);
	fast = fixture_connect(f.unix_fd);
	fixture_send(slow, "PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1200\r\n\r\n12345");
	fixture_send(fast, "PUT /fast HTTP/1.1\r\nHost: a\r\nContent-Length: 1200\r\n\r\n");
	fixture_send(fast, bytes);
	fixture_run_ms(&f, 240);
	assert_int_equal(http_server_connections(f.server), 2);
	fixture_run_ms(&f, 240);
	fixture_expect(&f, slow, BAD("408", "Request Timeout"));
	/* 600 bytes buy two seconds more. */
	fixture_run_ms(&f, 180);
	fixture_send(fast, bytes);
	fixture_expect(&f, fast, OK("/fast", "5"));
	close(slow);
	close(fast);
	fixture_stop(&f);
}

/* A client that does not read its answer is dropped, and delays no other client. */
static void api_1_an_unread_answer_is_given_up(void **state)
{
	struct http_limits limits = http_limits_default;
	const size_t len = 8 * 1024 * 1024;
	cleanup_free char *big = mem_alloc(len);
	struct fixture f;
	int64_t begun;
	int fd;

	limits.idle_timeout_ms = 300;
	fixture_start(&f, &limits, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, GET("/hold"));
	fixture_turn(&f);
	begun = clock_mono_us(&clock_system);
	http_reply(f.held, 200, NULL, big, len, NULL);
	f.held = NULL;
	for (int i = 0; i < 1000 && http_server_connections(f.server) > 0; i++)
		fixture_run_ms(&f, 5);
	assert_int_equal(http_server_connections(f.server), 0);
	assert_true(clock_mono_us(&clock_system) - begun >= 300000);
	close(fd);
	fixture_stop(&f);
}

/* --- refusals --- */

/* The answer survives although the server leaves bytes unread, which on TCP would reset the
 * connection. */
static void api_1_a_refusal_reaches_its_client(void **state)
{
	const size_t len = 300000;
	cleanup_free char *junk = mem_alloc(len + 1);
	struct fixture f;
	int fd;

	memset(junk, 'x', len);
	fixture_start(&f, &http_limits_default, serve);
	for (int i = 0; i < 2; i++) {
		fd = fixture_connect(i == 0 ? f.tcp_fd : f.unix_fd);
		fixture_send(fd, GET("/a") "GET / HTTP/1.1\r\nHost : a\r\n\r\n");
		fixture_turn(&f);
		send(fd, junk, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		fixture_expect(&f, fd, OK("/a", "2") BAD("400", "Bad Request"));
		fixture_expect_end(&f, fd);
		close(fd);
		fixture_turn(&f);
		assert_int_equal(http_server_connections(f.server), 0);
	}
	fixture_assert_log(&f, "/a;/a;");
	fixture_stop(&f);
}

/* Without on_bad a refusal has no body. */
static void api_1_a_peer_that_never_ends_is_dropped(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, serve);
	fd = fixture_connect(f.unix_fd);
	fixture_send(fd, "bad\r\n");
	fixture_expect(&f, fd, BAD("400", "Bad Request"));
	fixture_run_ms(&f, 1700);
	assert_int_equal(http_server_connections(f.server), 1);
	fixture_run_ms(&f, 600);
	assert_int_equal(http_server_connections(f.server), 0);
	close(fd);
	fixture_stop(&f);
}

static void api_1_connections_over_the_limit_get_503(void **state)
{
	struct http_limits limits = http_limits_default;
	int fd[3], many[70], told = 0;
	struct fixture f;

	limits.max_connections = 2;
	limits.owner_uid = geteuid();
	fixture_start(&f, &limits, serve);
	for (int i = 0; i < 3; i++)
		fd[i] = fixture_connect(f.unix_fd);
	fixture_expect(&f, fd[2], BAD("503", "Service Unavailable"));
	fixture_expect_end(&f, fd[2]);
	assert_int_equal(http_server_connections(f.server), 2);
	close(fd[2]);
	fixture_send(fd[1], GET("/b"));
	fixture_expect(&f, fd[1], OK("/b", "2"));
	/* More from now on, and less again. */
	limits.max_connections = 3;
	http_server_limit(f.server, &limits);
	fd[2] = fixture_connect(f.unix_fd);
	fixture_send(fd[2], GET("/c"));
	fixture_expect(&f, fd[2], OK("/c", "2"));
	close(fd[2]);
	fixture_turn(&f);
	limits.max_connections = 2;
	http_server_limit(f.server, &limits);
	/* All get the answer, although only so many have time to read it. */
	for (int i = 0; i < 70; i++) {
		many[i] = fixture_connect(f.unix_fd);
		fixture_turn(&f);
	}
	for (int i = 0; i < 70; i++) {
		cleanup_buf struct buf got = {0};

		assert_int_equal(fixture_receive(many[i], &got), 0);
		told += got.len > 0;
		close(many[i]);
	}
	assert_int_equal(told, 70);
	close(fd[0]);
	fixture_turn(&f);
	fd[0] = fixture_connect(f.unix_fd);
	fixture_send(fd[0], GET("/c"));
	fixture_expect(&f, fd[0], OK("/c", "2"));
	close(fd[0]);
	close(fd[1]);
	fixture_stop(&f);
}

static void api_1_a_lack_of_descriptors_does_not_spin(void **state)
{
	cleanup_fd int log = memfd_create("log", MFD_CLOEXEC);
	struct rlimit old, none;
	struct fixture f;
	char text[512] = "";
	int first, second;

	log_init("test", LOG_WARN, LOG_TEXT, log);
	fixture_start(&f, &http_limits_default, serve);
	first = fixture_connect(f.unix_fd);
	fixture_turn(&f);
	second = fixture_connect(f.unix_fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	fixture_send(second, GET("/2"));
	fixture_turn(&f);
	fixture_assert_quiet(&f);
	assert_int_equal(http_server_connections(f.server), 1);
	/* Others are served meanwhile. */
	fixture_send(first, GET("/1"));
	fixture_expect(&f, first, OK("/1", "2"));
	/* The end of a connection is a reason to try again, but not to say it again. */
	close(first);
	fixture_turn(&f);
	assert_int_equal(http_server_connections(f.server), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	fixture_expect(&f, second, OK("/2", "2"));
	log_init("test", LOG_DEBUG, LOG_TEXT, STDERR_FILENO);
	assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	assert_non_null(strstr(text, "accept failed"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
	close(second);
	fixture_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_a_slow_header_gets_408),
		cmocka_unit_test(api_1_the_header_deadline_is_per_request),
		cmocka_unit_test(api_1_an_idle_connection_is_closed),
		cmocka_unit_test(api_1_a_slow_body_gets_408),
		cmocka_unit_test(api_1_an_unread_answer_is_given_up),
		cmocka_unit_test(api_1_a_refusal_reaches_its_client),
		cmocka_unit_test(api_1_a_peer_that_never_ends_is_dropped),
		cmocka_unit_test(api_1_connections_over_the_limit_get_503),
		cmocka_unit_test(api_1_a_lack_of_descriptors_does_not_spin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
