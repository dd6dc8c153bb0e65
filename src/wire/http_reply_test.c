// SPDX-License-Identifier: Apache-2.0
/* Answers: whole, streamed, upgraded; expectations; back-pressure. */
#include "base/fdio.h"
#include "wire/testkit/http_testkit.h"
#include <errno.h>
#include <sys/mman.h>

#define HEAD_OF(status) "HTTP/1.1 " status "\r\nDate: *\r\n"
#define BIG ((size_t)4 * 1024 * 1024)

static void note_gone(struct http_request *req, void *arg)
{
	struct fixture *f = arg;

	buf_adds(&f->log, "closed;");
	f->held = NULL;
}

/* Keeps the request for the test. */
static void hold(struct fixture *f, struct http_request *req)
{
	size_t len;
	const char *body = http_body(req, &len);

	buf_addf(&f->log, "%s %.*s;", http_method(req), (int)len, body);
	f->held = req;
	http_hooks(req, note_gone, NULL, f);
}

static int ask(struct fixture *f, const char *text)
{
	const int fd = fixture_connect(f->unix_fd);

	fixture_send(fd, text);
	fixture_turn(f);
	return fd;
}

static void end(struct fixture *f, int fd)
{
	close(fd);
	fixture_turn(f);
	fixture_stop(f);
}

/* --- whole answers --- */

static void api_1_heads_carry_what_they_must(void **state)
{
	static const struct http_extra extra[] = {
		{"X-A", "1"}, {"X-B", "a\r\nX-C: 2\x7f"}, {NULL, NULL}};
	static const struct {
		const char *method;
		int status;
		const char *type, *body;
		const struct http_extra *extra;
		const char *want;
	} rows[] = {
		{"GET", 200, "text/plain", "hi", NULL,
		 HEAD_OF("200 OK") "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"},
		{"GET", 201, NULL, "", NULL, HEAD_OF("201 Created") "Content-Length: 0\r\n\r\n"},
		{"GET", 599, NULL, "", NULL, HEAD_OF("599 Status") "Content-Length: 0\r\n\r\n"},
		{"HEAD", 200, "a/b", "hello", NULL,
		 HEAD_OF("200 OK") "Content-Type: a/b\r\nContent-Length: 5\r\n\r\n"},
		{"GET", 204, "a/b", "x", NULL, HEAD_OF("204 No Content") "\r\n"},
		{"GET", 304, "a/b", "x", NULL, HEAD_OF("304 Not Modified") "\r\n"},
		{"GET", 405, NULL, "", extra,
		 HEAD_OF("405 Method Not Allowed") "Content-Length: 0\r\nX-A: 1\r\nX-B: a  X-C: 2 "
						   "\r\n\r\n"},
	};
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = fixture_connect(f.unix_fd);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf b = {0};

		buf_addf(&b, "%s / HTTP/1.1\r\nHost: a\r\n\r\n", rows[i].method);
		fixture_send(fd, b.data);
		fixture_turn(&f);
		http_reply(f.held, rows[i].status, rows[i].type, rows[i].body, strlen(rows[i].body),
			   rows[i].extra);
		fixture_expect(&f, fd, rows[i].want);
	}
	end(&f, fd);
}

/* Reads everything that comes until n bytes are there; the client is slow on purpose. */
static void read_slowly(struct fixture *f, int fd, struct buf *got, size_t n)
{
	char chunk[30000];

	while (got->len < n) {
		ssize_t r;

		fixture_turn(f);
		r = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
		assert_true(r > 0 || (r < 0 && errno == EAGAIN));
		if (r > 0)
			buf_add(got, chunk, (size_t)r);
	}
}

static char *pattern(size_t n)
{
	char *p = mem_alloc(n);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 2654435761U >> 13);
	return p;
}

static void api_1_a_large_answer_continues_by_event(void **state)
{
	static const char head[] = HEAD_OF("200 OK") "Content-Length: 4194304\r\n\r\n";
	cleanup_free char *big = pattern(BIG);
	cleanup_buf struct buf got = {0};
	const size_t date = strlen("Sun, 06 Nov 1994 08:49:37 GMT") - 1;
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = ask(&f, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
	http_reply(f.held, 200, NULL, big, BIG, NULL);
	f.held = NULL;
	fixture_turn(&f);
	/* The next request waits until this answer is written. */
	assert_null(f.held);
	read_slowly(&f, fd, &got, sizeof(head) - 1 + date + BIG);
	assert_memory_equal(got.data + got.len - BIG, big, BIG);
	fixture_turn(&f);
	assert_non_null(f.held);
	http_reply(f.held, 204, NULL, NULL, 0, NULL);
	fixture_expect(&f, fd, HEAD_OF("204 No Content") "\r\n");
	end(&f, fd);
}

/* --- requests with bodies --- */

static void api_1_a_body_may_be_chunked(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = ask(&f, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: 1\r\n\r\n");
	fixture_assert_log(&f, "POST abcde;");
	http_reply(f.held, 204, NULL, NULL, 0, NULL);
	fixture_expect(&f, fd, HEAD_OF("204 No Content") "\r\n");
	end(&f, fd);
}

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static void api_1_a_client_may_wait_for_100(void **state)
{
	static const struct {
		const char *head, *before, *body;
	} rows[] = {
		{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
		 CONTINUE, "ab"},
		{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: "
		 "chunked\r\n\r\n",
		 CONTINUE, "2\r\nab\r\n0\r\n\r\n"},
		/* It does not wait after all. */
		{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\na",
		 "", "b"},
		{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
		 "", ""},
		{"PUT / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\n"
		 "Content-Length: 2\r\n\r\n",
		 "", "ab"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct fixture f;
		int fd;

		fixture_start(&f, &http_limits_default, hold);
		fd = ask(&f, rows[i].head);
		fixture_expect(&f, fd, rows[i].before);
		fixture_send(fd, rows[i].body);
		fixture_turn(&f);
		fixture_expect(&f, fd, "");
		fixture_assert_log(&f, "PUT ab;");
		end(&f, fd);
	}
}

/* A body over the limit is refused instead of asked for. */
static void api_1_no_100_before_a_refusal(void **state)
{
	struct http_limits limits = http_limits_default;
	struct fixture f;
	int fd;

	limits.max_body = 1;
	fixture_start(&f, &limits, hold);
	fd = ask(&f,
		 "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	fixture_expect(
		&f, fd,
		HEAD_OF("413 Content Too Large") "Content-Type: application/json\r\n"
						 "Content-Length: 11\r\nConnection: close\r\n\r\n"
						 "{\"bad\":413}");
	end(&f, fd);
}

#define UPGRADE                                                                 \
	"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: p/1\r\n" \
	"Content-Length: 2\r\n\r\n{}"
#define SWITCHED HEAD_OF("101 Switching Protocols") "Connection: Upgrade\r\nUpgrade: p/1\r\n\r\n"

static void note_data(struct http_request *req, const void *p, size_t n, void *arg)
{
	struct fixture *f = arg;

	buf_addf(&f->log, "<%.*s|%zu>", (int)(n < 100 ? n : 100), (const char *)p, n);
}

static void upgrade_now(struct fixture *f, struct http_request *req)
{
	assert_true(http_wants_upgrade(req, "p/1"));
	f->held = req;
	http_hooks(req, note_gone, NULL, f);
	http_upgrade(req, "p/1", note_data, f);
}

/* --- streams --- */

static void exe_6_a_stream_is_chunked_and_keeps_the_connection(void **state)
{
	static const struct http_extra extra[] = {{"X-A", "1"}, {NULL, NULL}};
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = ask(&f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	http_stream_start(f.held, 200, "text/event-stream", extra);
	fixture_expect(&f, fd,
		       HEAD_OF("200 OK") "Content-Type: text/event-stream\r\n"
					 "Transfer-Encoding: chunked\r\nX-A: 1\r\n\r\n");
	http_stream_write(f.held, "", 0);
	http_stream_write(f.held, "0123456789abcdef", 16);
	fixture_expect(&f, fd, "10\r\n0123456789abcdef\r\n");
	http_stream_write(f.held, "x", 1);
	http_stream_end(f.held);
	fixture_expect(&f, fd, "1\r\nx\r\n0\r\n\r\n");
	fixture_send(fd, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
	fixture_turn(&f);
	http_stream_start(f.held, 200, NULL, NULL);
	http_stream_write(f.held, "unseen", 6);
	http_stream_end(f.held);
	fixture_expect(&f, fd, HEAD_OF("200 OK") "Transfer-Encoding: chunked\r\n\r\n");
	fixture_send(fd, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	fixture_turn(&f);
	http_stream_start(f.held, 200, NULL, NULL);
	http_stream_end(f.held);
	fixture_expect(&f, fd,
		       HEAD_OF("200 OK") "Transfer-Encoding: chunked\r\nConnection: "
					 "close\r\n\r\n0\r\n\r\n");
	fixture_expect_end(&f, fd);
	end(&f, fd);
}

static void exe_6_a_stream_to_1_0_ends_with_the_connection(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = ask(&f, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	http_stream_start(f.held, 200, NULL, NULL);
	http_stream_write(f.held, "abc", 3);
	http_stream_end(f.held);
	fixture_expect(&f, fd, HEAD_OF("200 OK") "Connection: close\r\n\r\nabc");
	fixture_expect_end(&f, fd);
	end(&f, fd);
}

static void note_drain(struct http_request *req, void *arg)
{
	struct fixture *f = arg;

	assert_true(http_pending(req) < 65536);
	buf_adds(&f->log, "drained;");
}

static void note_empty(struct http_request *req, void *arg)
{
	struct fixture *f = arg;

	assert_int_equal(http_pending(req), 0);
	buf_adds(&f->log, "empty;");
}

/* Fills the socket, then adds bytes until exactly n are pending. */
static void pend(struct http_request *req, size_t n, const char *bytes)
{
	while (http_pending(req) == 0)
		http_stream_write(req, bytes, 1000);
	assert_true(http_pending(req) + 7 < n);
	/* Four digits of size and two line ends. */
	while (http_pending(req) + 8 + 0x1000 + 8 + 0x1fff < n)
		http_stream_write(req, bytes, 0x1000);
	while (http_pending(req) + 8 + 0x1000 < n && http_pending(req) + 16 + 0x2000 > n)
		http_stream_write(req, bytes, (n - http_pending(req) - 16) / 2);
	http_stream_write(req, bytes, n - http_pending(req) - 8);
	assert_int_equal(http_pending(req), n);
}

/* The callback comes when pending falls below 64 KiB, if and only if it has reached them. */
static void exe_6_drain_is_told_once_below_the_mark(void **state)
{
	cleanup_free char *bytes = mem_alloc(BIG);

	for (int over = 0; over < 2; over++) {
		cleanup_buf struct buf got = {0};
		struct fixture f;
		int fd;

		fixture_start(&f, &http_limits_default, hold);
		fd = ask(&f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
		buf_clear(&f.log);
		http_hooks(f.held, note_gone, note_drain, &f);
		http_stream_start(f.held, 200, NULL, NULL);
		pend(f.held, over ? 65536 : 65535, bytes);
		fixture_assert_log(&f, "");
		while (http_pending(f.held) > 0) {
			fixture_receive(fd, &got);
			fixture_turn(&f);
		}
		fixture_assert_log(&f, over ? "drained;" : "");
		/* And again. */
		buf_clear(&f.log);
		pend(f.held, 200000, bytes);
		while (http_pending(f.held) > 0) {
			fixture_receive(fd, &got);
			fixture_turn(&f);
		}
		fixture_assert_log(&f, "drained;");
		end(&f, fd);
	}
}

/* After an upgrade it comes when nothing is pending any more, however little it was. */
static void exe_6_an_upgraded_stream_is_told_when_it_is_empty(void **state)
{
	cleanup_free char *bytes = mem_alloc(BIG);

	for (size_t n = 1; n <= BIG; n += BIG - 1) {
		cleanup_buf struct buf got = {0};
		struct fixture f;
		int fd;

		fixture_start(&f, &http_limits_default, upgrade_now);
		fd = ask(&f, UPGRADE);
		fixture_expect(&f, fd, SWITCHED);
		http_hooks(f.held, note_gone, note_empty, &f);
		buf_clear(&f.log);
		while (http_pending(f.held) == 0)
			http_stream_write(f.held, bytes, 1);
		http_stream_write(f.held, bytes, n);
		fixture_assert_log(&f, "");
		while (http_pending(f.held) > 0) {
			fixture_receive(fd, &got);
			fixture_turn(&f);
		}
		fixture_assert_log(&f, "empty;");
		end(&f, fd);
	}
}

static void exe_6_a_reader_that_is_too_slow_counts_as_gone(void **state)
{
	struct http_limits limits = http_limits_default;
	cleanup_free char *bytes = mem_alloc(BIG);
	struct fixture f;
	int fd;

	limits.max_pending_write = 100000;
	fixture_start(&f, &limits, hold);
	fd = ask(&f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	buf_clear(&f.log);
	http_stream_start(f.held, 200, NULL, NULL);
	pend(f.held, 100000, bytes);
	fixture_turn(&f);
	fixture_assert_log(&f, "");
	http_stream_write(f.held, bytes, 1);
	/* Not from inside the call. */
	fixture_assert_log(&f, "");
	fixture_turn(&f);
	fixture_assert_log(&f, "closed;");
	end(&f, fd);
}

/* What was written is dropped from the buffer while more is added behind it. */
static void exe_6_a_long_stream_stays_whole(void **state)
{
	cleanup_free char *big = pattern(BIG);
	cleanup_buf struct buf got = {0};
	struct fixture f;
	size_t written = 0;
	int fd;

	fixture_start(&f, &http_limits_default, upgrade_now);
	fd = ask(&f, UPGRADE);
	fixture_expect(&f, fd, SWITCHED);
	http_stream_write(f.held, big, BIG / 2);
	for (written = BIG / 2; written < BIG; written += BIG / 64) {
		read_slowly(&f, fd, &got, written - BIG / 8);
		http_stream_write(f.held, big + written, BIG / 64);
	}
	read_slowly(&f, fd, &got, BIG);
	assert_memory_equal(got.data, big, BIG);
	assert_int_equal(http_pending(f.held), 0);
	end(&f, fd);
}

/* The head has promised to keep the connection; a server that drains meanwhile closes it all the
 * same. */
static void exe_6_a_stream_that_ends_while_draining_closes(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = ask(&f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	http_stream_start(f.held, 200, NULL, NULL);
	http_server_drain(f.server);
	http_stream_end(f.held);
	fixture_expect(&f, fd, HEAD_OF("200 OK") "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	fixture_expect_end(&f, fd);
	end(&f, fd);
}

static void exe_6_a_reader_that_leaves_in_the_middle_is_noticed(void **state)
{
	cleanup_free char *bytes = mem_alloc(BIG);
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = ask(&f, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
	buf_clear(&f.log);
	http_stream_start(f.held, 200, NULL, NULL);
	http_stream_write(f.held, bytes, BIG);
	assert_true(http_pending(f.held) > 0);
	close(fd);
	fixture_turn(&f);
	fixture_assert_log(&f, "closed;");
	assert_int_equal(http_server_connections(f.server), 0);
	fixture_stop(&f);
}

/* Parts of a file with heads, to a socket that is full or empty; a file that is too short ends the
 * connection. */
static void exe_6_parts_of_a_file_come_whole(void **state)
{
	static const struct iovec head = {(void *)"head", 4};
	const size_t step = BIG / 64;
	cleanup_free char *big = pattern(BIG);
	cleanup_fd int file = memfd_create("file", MFD_CLOEXEC);
	cleanup_buf struct buf got = {0}, want = {0};
	struct fixture f;
	int fd;

	assert_int_equal(fdio_write_all(file, big, BIG), 0);
	fixture_start(&f, &http_limits_default, upgrade_now);
	fd = ask(&f, UPGRADE);
	fixture_expect(&f, fd, SWITCHED);
	for (size_t at = 0; at < BIG; at += step) {
		http_stream_send_file(f.held, &head, file, at, step);
		buf_add(&want, "head", 4);
		buf_add(&want, big + at, step);
		if (at > BIG / 2)
			read_slowly(&f, fd, &got, want.len - step / 2);
	}
	read_slowly(&f, fd, &got, want.len);
	assert_memory_equal(got.data, want.data, want.len);
	assert_int_equal(http_pending(f.held), 0);
	buf_clear(&f.log);
	http_stream_send_file(f.held, &head, file, BIG - 10, 11);
	fixture_turn(&f);
	fixture_assert_log(&f, "closed;");
	end(&f, fd);
}

/* --- upgrades --- */

static void exe_4_an_upgrade_passes_bytes_both_ways(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, upgrade_now);
	/* The first raw bytes come with the request. */
	fd = ask(&f, UPGRADE "raw");
	fixture_expect(&f, fd, SWITCHED);
	fixture_assert_log(&f, "<raw|3>");
	http_stream_write(f.held, "back", 4);
	fixture_expect(&f, fd, "back");
	fixture_send(fd, "more");
	fixture_turn(&f);
	fixture_assert_log(&f, "<raw|3><more|4>");
	/* A half-close is reported once; the other direction goes on. */
	shutdown(fd, SHUT_WR);
	fixture_turn(&f);
	fixture_assert_quiet(&f);
	fixture_assert_log(&f, "<raw|3><more|4><|0>");
	http_stream_write(f.held, "last", 4);
	http_stream_end(f.held);
	fixture_expect(&f, fd, "last");
	fixture_expect_end(&f, fd);
	assert_int_equal(http_server_connections(f.server), 0);
	fixture_assert_log(&f, "<raw|3><more|4><|0>");
	end(&f, fd);
}

static void exe_4_an_upgrade_may_come_later(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, hold);
	fd = ask(&f, UPGRADE "raw");
	fixture_send(fd, "more");
	fixture_turn(&f);
	fixture_assert_log(&f, "POST {};");
	http_upgrade(f.held, "p/1", note_data, &f);
	/* Not from inside the call. */
	fixture_assert_log(&f, "POST {};");
	fixture_expect(&f, fd, SWITCHED);
	fixture_assert_log(&f, "POST {};<raw|3><more|4>");
	end(&f, fd);
}

static void exe_4_a_client_that_leaves_an_upgrade_is_noticed(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct fixture f;
		int fd;

		fixture_start(&f, &http_limits_default, upgrade_now);
		fd = ask(&f, UPGRADE "a");
		fixture_expect(&f, fd, SWITCHED);
		if (i == 1) {
			shutdown(fd, SHUT_WR);
			fixture_turn(&f);
		}
		close(fd);
		fixture_turn(&f);
		fixture_assert_log(&f, "<a|1><|0>closed;");
		assert_int_equal(http_server_connections(f.server), 0);
		fixture_stop(&f);
	}
}

static void end_at_end(struct http_request *req, const void *p, size_t n, void *arg)
{
	const char *big = arg;

	if (n == 0) {
		http_stream_write(req, big, BIG);
		http_stream_end(req);
	}
}

static void upgrade_big(struct fixture *f, struct http_request *req)
{
	http_upgrade(req, "p/1", end_at_end, f->held);
}

/* What was written before the end arrives, also when the client has closed its side and when it
 * goes on sending. */
static void exe_4_the_last_bytes_arrive(void **state)
{
	cleanup_free char *big = pattern(BIG);
	cleanup_buf struct buf got = {0};
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, upgrade_big);
	f.held = (void *)big;
	fd = ask(&f, UPGRADE);
	fixture_expect(&f, fd, SWITCHED);
	shutdown(fd, SHUT_WR);
	read_slowly(&f, fd, &got, BIG);
	assert_memory_equal(got.data, big, BIG);
	fixture_expect_end(&f, fd);
	end(&f, fd);

	fixture_start(&f, &http_limits_default, upgrade_now);
	fd = fixture_connect(f.tcp_fd);
	fixture_send(fd, UPGRADE);
	fixture_expect(&f, fd, SWITCHED);
	send(fd, big, 100000, MSG_DONTWAIT);
	http_stream_write(f.held, "bye", 3);
	http_stream_end(f.held);
	fixture_expect(&f, fd, "bye");
	fixture_expect_end(&f, fd);
	end(&f, fd);
}

static void end_on_data(struct http_request *req, const void *p, size_t n, void *arg)
{
	http_stream_write(req, p, n);
	http_stream_end(req);
}

static void upgrade_once(struct fixture *f, struct http_request *req)
{
	http_upgrade(req, "p/1", end_on_data, NULL);
}

static void exe_4_an_upgrade_may_end_inside_its_callback(void **state)
{
	struct fixture f;
	int fd;

	fixture_start(&f, &http_limits_default, upgrade_once);
	fd = ask(&f, UPGRADE "abc");
	fixture_expect(&f, fd, SWITCHED "abc");
	fixture_expect_end(&f, fd);
	fixture_assert_quiet(&f);
	end(&f, fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_heads_carry_what_they_must),
		cmocka_unit_test(api_1_a_large_answer_continues_by_event),
		cmocka_unit_test(api_1_a_body_may_be_chunked),
		cmocka_unit_test(api_1_a_client_may_wait_for_100),
		cmocka_unit_test(api_1_no_100_before_a_refusal),
		cmocka_unit_test(exe_6_a_stream_is_chunked_and_keeps_the_connection),
		cmocka_unit_test(exe_6_a_stream_to_1_0_ends_with_the_connection),
		cmocka_unit_test(exe_6_drain_is_told_once_below_the_mark),
		cmocka_unit_test(exe_6_an_upgraded_stream_is_told_when_it_is_empty),
		cmocka_unit_test(exe_6_a_reader_that_is_too_slow_counts_as_gone),
		cmocka_unit_test(exe_6_a_long_stream_stays_whole),
		cmocka_unit_test(exe_6_parts_of_a_file_come_whole),
		cmocka_unit_test(exe_6_a_stream_that_ends_while_draining_closes),
		cmocka_unit_test(exe_6_a_reader_that_leaves_in_the_middle_is_noticed),
		cmocka_unit_test(exe_4_an_upgrade_passes_bytes_both_ways),
		cmocka_unit_test(exe_4_an_upgrade_may_come_later),
		cmocka_unit_test(exe_4_a_client_that_leaves_an_upgrade_is_noticed),
		cmocka_unit_test(exe_4_the_last_bytes_arrive),
		cmocka_unit_test(exe_4_an_upgrade_may_end_inside_its_callback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
