// SPDX-License-Identifier: Apache-2.0
/* Calls: answers in all shapes from a server that sends fixed bytes, and from wire's own server. */
#include "base/fdio.h"
#include "base/mem.h"
#include "client/client.h"
#include "client/client_internal.h"
#include "client/testkit/server_testkit.h"
#include "wire/sse.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- servers --- */

static struct client *open_client(const struct server *s)
{
	const struct client_options o = {.server = s->socket, .api_key = "key-1"};
	struct client *c = NULL;
	struct err err = {0};

	assert_int_equal(client_open(&o, &c, &err), 0);
	return c;
}

struct canned {
	const char *bytes; /* NULL: closes without a word */
	bool close;	   /* the connection ends after it */
};

static void read_request(int fd)
{
	char text[4096];
	size_t len = 0;

	do {
		const ssize_t n = recv(fd, text + len, sizeof(text) - 1 - len, 0);

		if (n <= 0)
			return;
		len += (size_t)n;
		text[len] = '\0';
	} while (strstr(text, "\r\n\r\n") == NULL);
}

/* Answers the n-th request with the n-th row, whatever was asked. */
static void start_canned(struct server *s, const struct canned *rows, size_t n)
{
	int listener, fd = -1;

	server_place(s);
	listener = server_listen(s->socket);
	s->pid = server_fork();
	if (s->pid > 0) {
		close(listener);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (fd < 0)
			fd = accept(listener, NULL, NULL);
		read_request(fd);
		if (rows[i].bytes != NULL)
			fdio_write_all(fd, rows[i].bytes, strlen(rows[i].bytes));
		if (rows[i].close) {
			close(fd);
			fd = -1;
		}
	}
	pause();
	_exit(0);
}

/* --- answers --- */

static void cli_1_answers_come_in_all_shapes(void **state)
{
	static const struct {
		const char *bytes, *body;
		bool close;
	} rows[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false},
		{"HTTP/1.1 201\r\ncontent-length:0\r\n\r\n", "", false},
		{"HTTP/1.1 204 No Content\r\n\r\n", "", false},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "a",
		 false},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: "
		 "Chunked\r\n\r\n3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n"
		 "T: 1\r\n\r\n",
		 "abc0123456789", false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab", "ab", true},
		{"HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end", true},
		{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", true},
		{"HTTP/1.1 399 Odd\r\nContent-Length: 0\r\n\r\n", "", false},
	};
	struct canned canned[ARRAY_LEN(rows)];
	const struct client_call call = {.method = "GET", .path = "/"};
	struct server s;
	struct client *c;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		canned[i] = (struct canned){rows[i].bytes, rows[i].close};
	start_canned(&s, canned, ARRAY_LEN(rows));
	c = open_client(&s);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf body = {0};
		struct err err = {0};

		if (client_call(c, &call, &body, &err) < 0)
			fail_msg("row %zu: %s", i, err.message);
		assert_string_equal(body.data, rows[i].body);
		assert_int_equal(body.len, strlen(rows[i].body));
		assert_int_equal(c->fd < 0, rows[i].close);
	}
	client_close(c);
	client_close(NULL);
	server_stop(&s);
}

static void cli_1_broken_answers_are_told(void **state)
{
	static const struct canned rows[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", true},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", true},
		{"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", true},
		{"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", true},
		{"HTTP/2.0 200 OK\r\n\r\n", true},
		{"HTTP/1.1 20\r\n\r\n", true},
		{"HTTP/1.1 2x0 OK\r\n\r\n", true},
		{"HTTP/1.1 099 OK\r\n\r\n", true},
		{"HTTP/1.1-200 OK\r\n\r\n", true},
		{"HTTP/1.1 200 OK\r\nA: b\r\n", true},
		{NULL, true},
	};
	const struct client_call call = {.method = "POST", .path = "/"};
	struct server s;
	struct client *c;

	start_canned(&s, rows, ARRAY_LEN(rows));
	c = open_client(&s);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf body = {0};
		struct err err = {0};

		if (client_call(c, &call, &body, &err) != -E_UNAVAILABLE)
			fail_msg("row %zu: %d %s", i, err.code, err.message);
		assert_int_equal(body.len, 0);
		assert_int_equal(c->fd, -1);
	}
	client_close(c);
	server_stop(&s);
}

static void cli_1_errors_keep_their_code_and_details(void **state)
{
	static const struct {
		const char *bytes;
		int code;
		const char *subject, *message;
		unsigned ndetails;
	} rows[] = {
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 68\r\n\r\n"
		 "{\"error\":{\"code\":\"E_SESSION_NOT_FOUND\",\"message\":\"m\",\"subject\":\"s\"}"
		 "}",
		 E_SESSION_NOT_FOUND, "s", "m", 0},
		{"HTTP/1.1 400 Bad Request\r\nContent-Length: 94\r\n\r\n"
		 "{\"error\":{\"code\":\"E_BAD_REQUEST\",\"message\":\"m\","
		 "\"details\":[{\"field\":\"f\",\"problem\":\"p %s\"},{}]}}",
		 E_BAD_REQUEST, "", "m", 2},
		{"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}", E_BAD_REQUEST, "",
		 "the server answered with status 400", 0},
		{"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\noops", E_TOO_LARGE, "",
		 "the server answered with status 413", 0},
		{"HTTP/1.1 599 What\r\nContent-Length: 0\r\n\r\n", E_INTERNAL, "",
		 "the server answered with status 599", 0},
	};
	struct canned canned[ARRAY_LEN(rows)];
	struct client_call call = {.method = "DELETE", .path = "/"};
	struct server s;
	struct client *c;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		canned[i] = (struct canned){rows[i].bytes, false};
	start_canned(&s, canned, ARRAY_LEN(rows));
	c = open_client(&s);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {.ndetails = 3};
		cleanup_buf struct buf body = {0}, refusal = {0};

		buf_adds(&refusal, "of another call");
		call.refusal = i % 2 == 0 ? &refusal : NULL;
		assert_int_equal(client_call(c, &call, &body, &err), -rows[i].code);
		assert_int_equal(body.len, 0);
		assert_string_equal(refusal.data, i % 2 == 0 ? strstr(rows[i].bytes, "\r\n\r\n") + 4
							     : "of another call");
		assert_int_equal(err.code, rows[i].code);
		assert_string_equal(err.subject, rows[i].subject);
		assert_string_equal(err.message, rows[i].message);
		assert_int_equal(err.ndetails, rows[i].ndetails);
		if (err.ndetails > 0) {
			assert_string_equal(err.details[0].field, "f");
			assert_string_equal(err.details[0].problem, "p %s");
		}
		/* The connection is good for the next call. */
		assert_true(c->fd >= 0);
	}
	client_close(c);
	server_stop(&s);
}

/* A server closes kept connections when it likes: only what may be repeated is. */
static void cli_1_a_kept_connection_may_have_ended(void **state)
{
	static const struct canned rows[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1", true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n2", false},
		{NULL, true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n4", false},
		{NULL, true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n6", false},
		{NULL, true},
	};
	static const struct {
		const char *method, *key, *body;
	} calls[] = {
		{"POST", NULL, "1"},
		/* Closed after the answer: noticed before the next call. */
		{"POST", NULL, "2"},
		/* Closed on arrival of the call. */
		{"GET", NULL, "4"},
		{"POST", "key", "6"},
		{"POST", NULL, NULL},
	};
	struct server s;
	struct client *c;

	start_canned(&s, rows, ARRAY_LEN(rows));
	c = open_client(&s);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		const struct client_call call = {
			.method = calls[i].method, .path = "/", .idempotency_key = calls[i].key};
		cleanup_buf struct buf body = {0};
		struct err err = {0};
		char byte;

		assert_int_equal(client_call(c, &call, &body, &err),
				 calls[i].body != NULL ? 0 : -E_UNAVAILABLE);
		if (calls[i].body != NULL)
			assert_string_equal(body.data, calls[i].body);
		/* Until the end of the first connection has arrived. */
		if (i == 0)
			assert_int_equal(recv(c->fd, &byte, 1, MSG_PEEK), 0);
	}
	client_close(c);
	server_stop(&s);
}

/* The answer counts, even if the server did not want to read all of the call. */
static void cli_1_a_server_may_refuse_before_it_has_read_all(void **state)
{
	static const struct canned rows[] = {
		{"HTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n", true},
		{NULL, true},
	};
	const size_t len = 8 * 1024 * 1024;
	cleanup_free char *big = mem_alloc(len);
	const struct client_call call = {.method = "POST", .path = "/", .body = big, .len = len};
	cleanup_buf struct buf body = {0};
	struct err err = {0};
	struct server s;
	struct client *c;
	int fd;

	start_canned(&s, rows, ARRAY_LEN(rows));
	c = open_client(&s);
	fd = c->fd;
	assert_int_equal(client_call(c, &call, &body, &err), -E_TOO_LARGE);
	assert_int_equal(client_call(c, &call, &body, &err), -E_UNAVAILABLE);
	/* Nothing of a connection stays behind. */
	client_close(c);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	server_stop(&s);
}

static void cli_1_tcp_is_spoken_too(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct client_call call = {.method = "GET", .path = "/"};
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cleanup_free char *name = NULL, *want = NULL;
	cleanup_buf struct buf body = {0};
	socklen_t len = sizeof(a);
	struct client *c = NULL;
	struct err err = {0};
	int first, on;

	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	name = mem_printf("http://localhost:%u", ntohs(a.sin_port));
	want = mem_printf("Host: localhost:%u\r\n", ntohs(a.sin_port));
	assert_int_equal(client_open(&(struct client_options){.server = name}, &c, &err), 0);
	first = accept(listener, NULL, NULL);
	assert_int_equal(fdio_write_all(first, "HTTP/1.1 204 X\r\n\r\n", 18), 0);
	/* The answer is there before the call: the connection counts as ended, and another is made.
	 */
	if (server_fork() == 0) {
		char text[1000] = "";
		const int second = accept(listener, NULL, NULL);

		assert_true(recv(second, text, sizeof(text) - 1, 0) > 0);
		if (strstr(text, want) != NULL)
			fdio_write_all(second, "HTTP/1.1 204 X\r\n\r\n", 18);
		_exit(0);
	}
	assert_int_equal(client_call(c, &call, &body, &err), 0);
	len = sizeof(on);
	assert_int_equal(getsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
	assert_int_not_equal(on, 0);
	client_close(c);
	close(first);
	close(listener);
	assert_true(wait(NULL) > 0);
}

static void cli_1_values_cannot_add_headers(void **state)
{
	const struct client_call calls[] = {
		{.method = "GET", .path = "/a b"},
		{.method = "GET", .path = "/\x7f"},
		{.method = "GET", .path = "/", .idempotency_key = "a\r\nX: y"},
		{.method = "GET", .path = "/", .last_event_id = "1\x7f"},
		{.method = "GET", .path = "/", .accept = "\x1f"},
	};
	struct client c = {.address = {.path = (char *)"/nowhere"}, .fd = -1};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		cleanup_buf struct buf body = {0};
		struct err err = {0};

		assert_int_equal(client_call(&c, &calls[i], &body, &err), -E_BAD_REQUEST);
	}
}

/* --- with the real server --- */

static void on_request(struct http_request *req, void *arg)
{
	cleanup_buf struct buf b = {0};
	const char *key = http_header(req, "X-API-Key"), *path = http_path(req);
	size_t len;
	const char *body = http_body(req, &len);

	if (strcmp(path, "/events") == 0) {
		http_stream_start(req, 200, "text/event-stream", NULL);
		sse_format(&b, "1", "stdout", "a\nb", 3);
		sse_comment(&b, "alive");
		sse_format(&b, http_header(req, "Last-Event-ID"), NULL, http_header(req, "Accept"),
			   strlen(http_header(req, "Accept")));
		sse_format(&b, "3", "result", body, len);
		http_stream_write(req, b.data, b.len / 2);
		http_stream_write(req, b.data + b.len / 2, b.len - b.len / 2);
		http_stream_end(req);
		return;
	}
	buf_addf(&b, "%s %s %s %s %s %zu", http_method(req), path,
		 http_query(req, "q") != NULL ? http_query(req, "q") : "-", key != NULL ? key : "-",
		 http_header(req, "Host"), len);
	http_reply(req, path[1] == '=' ? atoi(path + 2) : 200, "text/plain", b.data, b.len, NULL);
}

static void api_1_client_and_server_understand_each_other(void **state)
{
	const size_t len = 3 * 1024 * 1024;
	cleanup_free char *big = mem_alloc(len);
	const struct client_call calls[] = {
		{.method = "GET", .path = "/a%20b?q=1+2"},
		{.method = "POST", .path = "/x", .body = big, .len = len},
		{.method = "DELETE", .path = "/x"},
	};
	static const char *const want[] = {
		"GET /a b 1 2 key-1 localhost 0",
		"POST /x - key-1 localhost 3145728",
		"DELETE /x - key-1 localhost 0",
	};
	struct server s;
	struct client *c;

	server_start(&s, on_request);
	c = open_client(&s);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		cleanup_buf struct buf body = {0};
		struct err err = {0};

		if (client_call(c, &calls[i], &body, &err) < 0)
			fail_msg("%s", err.message);
		assert_string_equal(body.data, want[i]);
	}
	client_close(c);
	server_stop(&s);
}

struct messages {
	struct buf log;
	int stop_at, n;
};

static int note_message(const char *id, const char *name, const char *data, size_t len, void *arg)
{
	struct messages *m = arg;

	buf_addf(&m->log, "[%s|%s|%.*s]", id, name, (int)len, data);
	return ++m->n == m->stop_at;
}

static void exe_6_messages_arrive_until_stopped(void **state)
{
	const struct client_call call = {
		.method = "POST", .path = "/events", .body = "{}", .len = 2, .last_event_id = "2"};
	const struct client_call bad = {.method = "GET", .path = "/=400"},
				 odd = {.method = "GET", .path = "/=399"};
	struct server s;
	struct client *c;

	server_start(&s, on_request);
	c = open_client(&s);
	for (int stop_at = 0; stop_at < 3; stop_at++) {
		struct messages m = {.stop_at = stop_at};
		struct err err = {0};

		assert_int_equal(client_stream(c, &call, note_message, &m, &err), 0);
		assert_string_equal(
			m.log.data,
			stop_at == 0   ? "[1|stdout|a\nb][2|message|text/event-stream][3|result|{}]"
			: stop_at == 1 ? "[1|stdout|a\nb]"
				       : "[1|stdout|a\nb][2|message|text/event-stream]");
		/* A stream that was left cannot be used again; a whole one can. */
		assert_int_equal(c->fd >= 0, stop_at == 0);
		buf_done(&m.log);
		assert_int_equal(client_stream(c, &bad, note_message, &m, &err), -E_BAD_REQUEST);
		assert_int_equal(client_stream(c, &odd, note_message, &m, &err), 0);
		assert_null(m.log.data);
	}
	client_close(c);
	server_stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cli_1_answers_come_in_all_shapes),
		cmocka_unit_test(cli_1_broken_answers_are_told),
		cmocka_unit_test(cli_1_errors_keep_their_code_and_details),
		cmocka_unit_test(cli_1_a_kept_connection_may_have_ended),
		cmocka_unit_test(cli_1_a_server_may_refuse_before_it_has_read_all),
		cmocka_unit_test(cli_1_tcp_is_spoken_too),
		cmocka_unit_test(cli_1_values_cannot_add_headers),
		cmocka_unit_test(api_1_client_and_server_understand_each_other),
		cmocka_unit_test(exe_6_messages_arrive_until_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
