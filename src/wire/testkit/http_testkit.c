// SPDX-License-Identifier: Apache-2.0
#include "wire/testkit/http_testkit.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <time.h>

static void request(struct http_request *req, void *arg)
{
	struct fixture *f = arg;

	f->on_request(f, req);
}

static void refuse(int status, const char *reason, struct buf *body, void *arg)
{
	buf_addf(body, "{\"bad\":%d}", status);
}

int fixture_bind(const struct sockaddr *a, socklen_t len)
{
	const int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, a, len), 0);
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

void fixture_start(struct fixture *f, const struct http_limits *limits,
		   void (*on_request)(struct fixture *f, struct http_request *req))
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	*f = (struct fixture){.on_request = on_request};
	f->loop = loop_new(NULL, NULL);
	f->server = http_server_new(f->loop, limits, request, refuse, f);
	/* An address of the family alone lets the kernel choose an abstract name. */
	f->unix_fd = fixture_bind((struct sockaddr *)&un, sizeof(sa_family_t));
	f->tcp_fd = fixture_bind((struct sockaddr *)&in, sizeof(in));
	assert_int_equal(http_server_listen(f->server, f->unix_fd, 7, transport_plain, NULL), 0);
	assert_int_equal(http_server_listen(f->server, f->tcp_fd, 8, transport_plain, NULL), 0);
}

void fixture_stop(struct fixture *f)
{
	http_server_free(f->server);
	loop_free(f->loop);
	close(f->unix_fd);
	close(f->tcp_fd);
	buf_done(&f->log);
}

int fixture_connect(int listener)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	int fd;

	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, len), 0);
	return fd;
}

void fixture_send(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

void fixture_run_ms(struct fixture *f, int ms)
{
	loop_run_ms(f->loop, (unsigned)ms);
}

void fixture_turn(struct fixture *f)
{
	loop_settle(f->loop);
}

static int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void fixture_assert_quiet(struct fixture *f)
{
	const int64_t before = cpu_us();

	fixture_run_ms(f, 100);
	assert_true(cpu_us() - before < 50000);
}

int fixture_receive(int fd, struct buf *out)
{
	char chunk[65536];
	ssize_t n;

	while ((n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT)) > 0)
		buf_add(out, chunk, (size_t)n);
	return n == 0 ? 0 : errno == EAGAIN ? 1 : -1;
}

void fixture_mask_date(struct buf *b)
{
	char *at = b->data, *end;

	while ((at = strstr(at, "\r\nDate: ")) != NULL) {
		at += strlen("\r\nDate: ");
		end = strstr(at, "\r\n");
		assert_int_equal(end - at, strlen("Sun, 06 Nov 1994 08:49:37 GMT"));
		assert_memory_equal(end - 4, " GMT", 4);
		*at = '*';
		memmove(at + 1, end, strlen(end) + 1);
		b->len = strlen(b->data);
	}
}

void fixture_expect(struct fixture *f, int fd, const char *want)
{
	cleanup_buf struct buf got = {0};

	buf_reserve(&got, 0);
	for (int i = 0; i < 400; i++) {
		fixture_turn(f);
		fixture_receive(fd, &got);
		fixture_mask_date(&got);
		if (got.len >= strlen(want))
			break;
		fixture_run_ms(f, 5);
	}
	assert_string_equal(got.data, want);
}

void fixture_expect_end(struct fixture *f, int fd)
{
	cleanup_buf struct buf got = {0};
	int r = 1;

	for (int i = 0; i < 400 && r == 1; i++) {
		fixture_turn(f);
		r = fixture_receive(fd, &got);
		if (r == 1)
			fixture_run_ms(f, 5);
	}
	assert_int_equal(r, 0);
	assert_int_equal(got.len, 0);
}

void fixture_assert_log(struct fixture *f, const char *want)
{
	buf_reserve(&f->log, 0);
	assert_string_equal(f->log.data, want);
}

void say(struct http_request *req, const char *text)
{
	http_reply(req, 200, "text/plain", text, strlen(text), NULL);
}

void note_close(struct http_request *req, void *arg)
{
	struct fixture *f = arg;

	buf_addf(&f->log, "closed %s;", http_path(req));
	f->held = NULL;
}

void serve(struct fixture *f, struct http_request *req)
{
	buf_addf(&f->log, "%s;", http_path(req));
	if (strncmp(http_path(req), "/hold", 5) != 0) {
		say(req, http_path(req));
		return;
	}
	assert_null(f->held);
	f->held = req;
	http_hooks(req, note_close, NULL, f);
}

void answer_held(struct fixture *f, const char *text)
{
	struct http_request *req = f->held;

	assert_non_null(req);
	f->held = NULL;
	say(req, text);
}
