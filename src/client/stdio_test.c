// SPDX-License-Identifier: Apache-2.0
/* The stdio stream between three processes: this one holds the ends of the command's streams, one
 * runs client_stdio with them as its descriptors 0, 1 and 2, one is the server. */
#include "base/fdio.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "client/client_internal.h"
#include "client/testkit/server_testkit.h"
#include "wire/stdio_frame.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- the server: echoes stdin on stdout, and the first byte of each frame on stderr --- */

struct echo {
	struct http_request *req;
	struct stdio_parser parser;
	struct buf out[2];
	size_t credit[2];
	size_t total, free; /* of stdin: all, and not yet granted again */
	size_t credit_left; /* of the client */
	bool eof, ended, wants_credit;
	struct buf signals;
};

static void send_frame(struct echo *e, enum stdio_type type, const void *p, size_t n)
{
	cleanup_buf struct buf b = {0};

	stdio_frame(&b, type, p, n);
	http_stream_write(e->req, b.data, b.len);
}

static void end(struct echo *e)
{
	cleanup_buf struct buf b = {0};

	buf_addf(&b, "{\"bytes\":%zu,\"signals\":\"%s\"}", e->total,
		 e->signals.data != NULL ? e->signals.data : "");
	send_frame(e, STDIO_RESULT, b.data, b.len);
	http_stream_end(e->req);
	e->ended = true;
}

static void give_credit(struct echo *e)
{
	char text[80];

	if (e->free < 16384)
		return;
	snprintf(text, sizeof(text), "{\"credit\":{\"stream\":\"stdin\",\"bytes\":%zu}}", e->free);
	send_frame(e, STDIO_CONTROL, text, strlen(text));
	e->credit_left += e->free;
	e->free = 0;
}

static void pump(struct echo *e)
{
	for (int i = 0; i < 2; i++)
		while (e->out[i].len > 0 && e->credit[i] > 0 && http_pending(e->req) < 200000) {
			size_t n = e->out[i].len < e->credit[i] ? e->out[i].len : e->credit[i];

			n = n < STDIO_FRAME_MAX ? n : STDIO_FRAME_MAX;
			send_frame(e, STDIO_STDOUT + i, e->out[i].data, n);
			buf_drop(&e->out[i], n);
			e->credit[i] -= n;
			if (i == 0)
				e->free += n;
		}
	give_credit(e);
	if (e->eof && !e->ended && e->out[0].len + e->out[1].len == 0)
		end(e);
}

static void on_control(struct echo *e, const uint8_t *p, size_t n)
{
	const json_t *credit;
	const char *signal;
	json_t *doc = NULL;

	ensure(json_parse((const char *)p, n, &doc, NULL) == 0);
	credit = json_object_get(doc, "credit");
	signal = json_string_value(json_object_get(doc, "signal"));
	if (credit != NULL && e->wants_credit) {
		e->total = (size_t)json_integer_value(json_object_get(credit, "bytes"));
		e->eof = true;
	}
	if (credit != NULL)
		e->credit[strcmp(json_string_value(json_object_get(credit, "stream")), "stdout") !=
			  0] += (size_t)json_integer_value(json_object_get(credit, "bytes"));
	if (json_is_true(json_object_get(doc, "eof")))
		e->eof = true;
	if (signal != NULL) {
		buf_addf(&e->signals, "%s ", signal);
		send_frame(e, STDIO_STDERR, "!", 1);
		e->eof = e->eof || strcmp(signal, "TERM") == 0;
	}
	json_decref(doc);
}

static int on_frame(enum stdio_type type, const uint8_t *p, size_t n, void *arg)
{
	struct echo *e = arg;

	if (type == STDIO_CONTROL) {
		on_control(e, p, n);
		return 0;
	}
	/* More than its credit, or anything behind the end, is the client's mistake. */
	ensure(n <= e->credit_left && !e->eof);
	e->credit_left -= n;
	e->total += n;
	buf_add(&e->out[0], p, n);
	buf_add(&e->out[1], p, 1);
	return 0;
}

static void on_data(struct http_request *req, const void *p, size_t n, void *arg)
{
	struct echo *e = arg;

	if (n > 0)
		ensure(stdio_parse(&e->parser, p, n, 1U << STDIO_STDIN | 1U << STDIO_CONTROL,
				   on_frame, e, NULL) == 0);
	pump(e);
}

static void on_drain(struct http_request *req, void *arg)
{
	pump(arg);
}

static int go_on[2], has_left[2]; /* pipes of a run: to the server, and from it */

static void on_gone(struct http_request *req, void *arg)
{
	ensure(write(has_left[1], "", 1) == 1);
}

static const char error_body[] = "{\"error\":{\"code\":\"E_SESSION_BUSY\",\"message\":\"busy\"}}";

static void on_request(struct http_request *req, void *arg)
{
	static const char zeros[STDIO_FRAME_MAX];
	const char *path = http_path(req);
	struct echo *e;
	char text[1];

	if (strcmp(path, "/busy") == 0 || strcmp(path, "/bad") == 0) {
		http_reply(req, path[2] == 'u' ? 409 : 400, "application/json", error_body,
			   sizeof(error_body) - 1, NULL);
		return;
	}
	if (strcmp(path, "/plain") == 0 || strcmp(path, "/odd") == 0) {
		http_reply(req, path[1] == 'p' ? 200 : 399, "application/json", "{}", 2, NULL);
		return;
	}
	ensure(http_wants_upgrade(req, STDIO_PROTOCOL));
	e = mem_new(struct echo);
	e->req = req;
	e->credit[0] = e->credit[1] = e->credit_left = STDIO_WINDOW;
	http_upgrade(req, STDIO_PROTOCOL, on_data, e);
	http_hooks(req, on_gone, on_drain, e);
	if (strcmp(path, "/ready") == 0)
		send_frame(e, STDIO_STDOUT, "up", 2);
	if (strcmp(path, "/credit") == 0) {
		e->wants_credit = true;
		send_frame(e, STDIO_STDOUT, zeros, 16384);
	}
	if (strcmp(path, "/busy-for-a-while") == 0) {
		e->free = 4 * 1024 * 1024;
		give_credit(e);
		e->credit[0] -= 2;
		send_frame(e, STDIO_STDOUT, "up", 2);
		ensure(read(go_on[0], text, 1) == 1);
	}
	if (strcmp(path, "/early") == 0) {
		send_frame(e, STDIO_STDOUT, "out", 3);
		send_frame(e, STDIO_STDERR, "err", 3);
		end(e);
	}
	if (strcmp(path, "/window") == 0) {
		send_frame(e, STDIO_STDERR, zeros, STDIO_WINDOW);
		end(e);
	}
	/* 2 MiB: more than the largest window. The test reads nothing meanwhile. */
	for (int i = 0; strcmp(path, "/flood") == 0 && i < 32; i++)
		send_frame(e, STDIO_STDERR, zeros, STDIO_FRAME_MAX);
	if (strcmp(path, "/vanish") == 0) {
		send_frame(e, STDIO_STDOUT, "last words", 10);
		http_stream_end(req);
	}
	if (strcmp(path, "/nonsense") == 0)
		http_stream_write(req, "\x05\0\0\0\0\0\0\0", 8);
	if (strcmp(path, "/badcontrol") == 0)
		send_frame(e, STDIO_CONTROL, "{", 1);
}

/* --- the client's process --- */

struct run {
	struct server server;
	pid_t pid;
	int in, out, err; /* our ends of its streams; -1: closed */
	int report;	  /* a pipe with its result */
};

/* What client_stdio left behind: its result and the state of the process. */
static void report(int fd, int r, const struct err *err, const struct buf *answer, bool leaked)
{
	sigset_t mask;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	dprintf(fd, "%d %s%s%s%s", r, answer->data != NULL ? answer->data : "",
		r < 0 ? err->message : "",
		sigismember(&mask, SIGINT) || sigismember(&mask, SIGHUP) ? " blocked" : "",
		leaked ? " leaked" : "");
}

/* The lowest descriptor above the standard ones that is free: changes if one is left open. */
static int free_fd(void)
{
	const int fd = client_above_stdio(open("/", O_PATH | O_CLOEXEC));

	close(fd);
	return fd;
}

/* Makes the call in the child, which has these descriptors. */
static void be_client(const char *socket, const char *path, int fd)
{
	const struct client_options o = {.server = socket};
	const struct client_call call = {.method = "POST", .path = path, .body = "{}", .len = 2};
	cleanup_buf struct buf answer = {0};
	const int before = free_fd();
	struct client *c = NULL;
	struct err err = {0};
	int r = client_open(&o, &c, &err);

	if (r == 0)
		r = client_stdio(c, &call, &answer, &err);
	client_close(c);
	report(fd, r, &err, &answer, free_fd() != before);
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* reader: whether its stdout has a reader. */
static void start_run_with(struct run *r, const char *path, bool reader)
{
	int in[2], out[2], err[2], rep[2];

	assert_int_equal(pipe2(go_on, O_CLOEXEC) | pipe2(has_left, O_CLOEXEC), 0);
	server_start(&r->server, on_request);
	assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC) |
				 pipe2(rep, O_CLOEXEC),
			 0);
	if (!reader)
		close_end(&out[0]);
	r->pid = server_fork();
	if (r->pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		/* Our own ends must not keep the pipes open. */
		for (int i = 0; i < 2; i++) {
			close_end(&in[i]);
			close_end(&out[i]);
			close_end(&err[i]);
		}
		be_client(r->server.socket, path, rep[1]);
		_exit(0);
	}
	close(in[0]);
	close(out[1]);
	close(err[1]);
	close(rep[1]);
	r->in = in[1];
	r->out = out[0];
	r->err = err[0];
	r->report = rep[0];
}

static void start_run(struct run *r, const char *path)
{
	start_run_with(r, path, true);
}

static void end_run(struct run *r, const char *want)
{
	cleanup_buf struct buf got = {0};
	int status;

	assert_int_equal(fdio_load(r->report, 10000, &got, NULL), 0);
	assert_string_equal(got.data, want);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	assert_int_equal(status, 0);
	close_end(&r->in);
	close_end(&r->out);
	close_end(&r->err);
	close_end(&r->report);
	for (int i = 0; i < 2; i++) {
		close_end(&go_on[i]);
		close_end(&has_left[i]);
	}
	server_stop(&r->server);
}

static void expect_text(int fd, const char *want)
{
	cleanup_buf struct buf got = {0};
	char chunk[100];

	buf_reserve(&got, 0);
	while (got.len < strlen(want)) {
		const ssize_t n = read(fd, chunk, sizeof(chunk));

		assert_true(n > 0);
		buf_add(&got, chunk, (size_t)n);
	}
	assert_string_equal(got.data, want);
}

/* --- tests --- */

static void exe_4_streams_pass_through(void **state)
{
	struct run r;

	start_run(&r, "/echo");
	assert_int_equal(write(r.in, "hello", 5), 5);
	expect_text(r.out, "hello");
	expect_text(r.err, "h");
	assert_int_equal(write(r.in, "again", 5), 5);
	expect_text(r.out, "again");
	close_end(&r.in);
	end_run(&r, "0 {\"bytes\":10,\"signals\":\"\"}");
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 2654435761U >> 11);
}

/* Writes `total` bytes to the command, `sent` of them before, and compares what comes back; then
 * everything ends. */
static void echo_through(struct run *r, size_t sent, size_t total)
{
	cleanup_free char *want = mem_printf("0 {\"bytes\":%zu,\"signals\":\"\"}", total);
	static uint8_t chunk[65536];
	size_t got = 0;

	fdio_nonblock(r->in);
	while (got < total) {
		struct pollfd p[3] = {{.fd = r->in, .events = POLLOUT},
				      {.fd = r->out, .events = POLLIN},
				      {.fd = r->err, .events = POLLIN}};
		ssize_t n;

		assert_true(poll(p, 3, 20000) > 0);
		if (p[0].revents != 0) {
			const size_t part = MIN(sizeof(chunk), total - sent);

			for (size_t i = 0; i < part; i++)
				chunk[i] = byte_at(sent + i);
			n = write(r->in, chunk, part);
			sent += n > 0 ? (size_t)n : 0;
			if (sent == total)
				close_end(&r->in);
		}
		if (p[1].revents != 0) {
			n = read(r->out, chunk, sizeof(chunk));
			assert_true(n > 0);
			for (ssize_t i = 0; i < n; i++)
				if (chunk[i] != byte_at(got + (size_t)i))
					fail_msg("byte %zu differs", got + (size_t)i);
			got += (size_t)n;
		}
		/* It may have ended while stdout still holds bytes. */
		if (p[2].revents != 0 && read(r->err, chunk, sizeof(chunk)) <= 0)
			close_end(&r->err);
	}
	while (r->err >= 0 && read(r->err, chunk, sizeof(chunk)) > 0)
		;
	end_run(r, want);
}

static void exe_4_64_mb_pass_both_ways(void **state)
{
	struct run r;

	start_run(&r, "/echo");
	echo_through(&r, 0, (size_t)64 * 1024 * 1024);
}

static bool sleeps(pid_t pid)
{
	cleanup_free char *path = mem_printf("/proc/%d/stat", pid);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[100] = "";

	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	return strstr(text, ") S ") != NULL;
}

/* Credit beyond what the socket holds: what it does not take now is sent later. The client has
 * credit and input, so it sleeps only when its socket is full. */
static void exe_4_a_full_socket_loses_nothing(void **state)
{
	static uint8_t chunk[65536];
	size_t sent = 0;
	struct run r;
	ssize_t n;

	start_run(&r, "/busy-for-a-while");
	expect_text(r.out, "up");
	fdio_nonblock(r.in);
	do {
		for (size_t i = 0; i < sizeof(chunk); i++)
			chunk[i] = byte_at(sent + i);
		n = write(r.in, chunk, sizeof(chunk));
		sent += n > 0 ? (size_t)n : 0;
	} while (n > 0 || !sleeps(r.pid));
	assert_true(sent < 4 * 1024 * 1024);
	assert_int_equal(write(go_on[1], "", 1), 1);
	echo_through(&r, sent, (size_t)4 * 1024 * 1024);
}

/* A reader that does not read holds up the input by credit, and no memory grows without bound. */
static void exe_4_a_slow_reader_holds_up_the_writer(void **state)
{
	static char chunk[65536];
	size_t sent = 0, got = 0;
	struct pollfd p;
	struct run r;

	start_run(&r, "/echo");
	fdio_nonblock(r.in);
	p = (struct pollfd){.fd = r.in, .events = POLLOUT};
	/* Pipes, windows and socket buffers take less than 2 MiB together. */
	while (poll(&p, 1, 300) > 0) {
		const ssize_t n = write(r.in, chunk, sizeof(chunk));

		sent += n > 0 ? (size_t)n : 0;
		assert_true(sent < 2 * 1024 * 1024);
	}
	close_end(&r.in);
	while (got < sent) {
		const ssize_t n = read(r.out, chunk, sizeof(chunk));

		assert_true(n > 0);
		got += (size_t)n;
	}
	{
		cleanup_free char *want = mem_printf("0 {\"bytes\":%zu,\"signals\":\"\"}", sent);

		end_run(&r, want);
	}
}

static void exe_4_the_result_ends_it_while_stdin_is_open(void **state)
{
	struct run r;

	start_run(&r, "/early");
	expect_text(r.out, "out");
	expect_text(r.err, "err");
	end_run(&r, "0 {\"bytes\":0,\"signals\":\"\"}");
}

static void exe_4_signals_are_the_commands(void **state)
{
	struct run r;

	/* Ignored by our caller: stays so. */
	signal(SIGHUP, SIG_IGN);
	start_run(&r, "/ready");
	signal(SIGHUP, SIG_DFL);
	expect_text(r.out, "up");
	kill(r.pid, SIGINT);
	expect_text(r.err, "!");
	kill(r.pid, SIGQUIT);
	expect_text(r.err, "!");
	kill(r.pid, SIGHUP);
	kill(r.pid, SIGTERM);
	expect_text(r.err, "!");
	end_run(&r, "0 {\"bytes\":0,\"signals\":\"INT QUIT TERM \"}");
}

static void exe_4_a_server_that_fails_is_told(void **state)
{
	static const struct {
		const char *path, *out, *want;
	} rows[] = {
		{"/vanish", "last words",
		 "-10 the server went away before the command's result, after 10 bytes of stdout "
		 "and 0 of stderr"},
		{"/flood", "", "-10 the server sent more stderr than its credit"},
		{"/nonsense", "", "-1 unexpected frame type 5"},
		{"/badcontrol", "", "-10 the server's control frame is malformed"},
		{"/busy", "", "-13 busy"},
		{"/bad", "", "-13 busy"},
		{"/plain", "", "0 {}"},
		{"/odd", "", "0 {}"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_buf struct buf got = {0};
		struct run r;
		char gone;

		start_run(&r, rows[i].path);
		if (strcmp(rows[i].path, "/flood") == 0)
			assert_int_equal(read(has_left[0], &gone, 1), 1);
		/* Before the end, so that nothing blocks. */
		buf_reserve(&got, 0);
		assert_int_equal(fdio_load(r.err, 2 * 1024 * 1024, &got, NULL), 0);
		buf_clear(&got);
		assert_int_equal(fdio_load(r.out, 1000000, &got, NULL), 0);
		assert_string_equal(got.data, rows[i].out);
		end_run(&r, rows[i].want);
	}
}

static void exe_4_a_full_window_is_no_flood(void **state)
{
	cleanup_buf struct buf got = {0};
	struct run r;

	start_run(&r, "/window");
	assert_int_equal(fdio_load(r.err, 1000000, &got, NULL), 0);
	assert_int_equal(got.len, STDIO_WINDOW);
	end_run(&r, "0 {\"bytes\":0,\"signals\":\"\"}");
}

/* The client grants credit after 16 KiB, so that a server need not wait for more; and it opens the
 * window from 64 KiB to 1 MiB, and makes the pipe larger. */
static void exe_4_credit_is_given_in_steps(void **state)
{
	cleanup_buf struct buf got = {0};
	struct run r;
	int fresh[2];

	assert_int_equal(pipe2(fresh, O_CLOEXEC), 0);
	assert_int_equal(fcntl(fresh[0], F_GETPIPE_SZ), 65536);
	close(fresh[0]);
	close(fresh[1]);
	start_run(&r, "/credit");
	assert_int_equal(fdio_load(r.out, 1000000, &got, NULL), 0);
	assert_int_equal(got.len, 16384);
	assert_int_equal(fcntl(r.out, F_GETPIPE_SZ), 262144);
	end_run(&r, "0 {\"bytes\":999424,\"signals\":\"\"}");
}

static void exe_4_a_closed_stdout_is_told(void **state)
{
	/* While the command runs, and after its result has come. */
	static const char *const paths[] = {"/ready", "/early"};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct run r;

		signal(SIGPIPE, SIG_IGN);
		start_run_with(&r, paths[i], false);
		signal(SIGPIPE, SIG_DFL);
		end_run(&r, "-10 cannot write to stdout: Broken pipe");
	}
}

/* Without descriptors 0, 1 and 2 the connection must not take their place. */
static void exe_4_closed_streams_stay_closed(void **state)
{
	cleanup_buf struct buf got = {0};
	struct server s;
	int rep[2], status;
	pid_t pid;

	server_start(&s, on_request);
	assert_int_equal(pipe2(rep, O_CLOEXEC), 0);
	pid = server_fork();
	if (pid == 0) {
		close(0);
		close(1);
		close(2);
		be_client(s.socket, "/echo", rep[1]);
		_exit(0);
	}
	close(rep[1]);
	assert_int_equal(fdio_load(rep[0], 1000, &got, NULL), 0);
	assert_string_equal(got.data, "0 {\"bytes\":0,\"signals\":\"\"}");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(rep[0]);
	server_stop(&s);
}

int main(void)
{
	/* A background job of a shell begins with these ignored. */
	static const int by_default[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exe_4_streams_pass_through),
		cmocka_unit_test(exe_4_64_mb_pass_both_ways),
		cmocka_unit_test(exe_4_a_full_socket_loses_nothing),
		cmocka_unit_test(exe_4_a_slow_reader_holds_up_the_writer),
		cmocka_unit_test(exe_4_the_result_ends_it_while_stdin_is_open),
		cmocka_unit_test(exe_4_signals_are_the_commands),
		cmocka_unit_test(exe_4_a_server_that_fails_is_told),
		cmocka_unit_test(exe_4_a_full_window_is_no_flood),
		cmocka_unit_test(exe_4_credit_is_given_in_steps),
		cmocka_unit_test(exe_4_a_closed_stdout_is_told),
		cmocka_unit_test(exe_4_closed_streams_stay_closed),
	};

	for (size_t i = 0; i < ARRAY_LEN(by_default); i++)
		signal(by_default[i], SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
