// SPDX-License-Identifier: Apache-2.0
/* HTTP over a transport that is not the plain one: every byte is turned over on its way, and only
 * a few are taken at a time. */
#include "wire/testkit/http_testkit.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/un.h>

#define FEW 7

static unsigned shut_downs, closed;

static void turn_over(char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (char)~p[i];
}

static ssize_t receive(struct transport *t, void *p, size_t n)
{
	const ssize_t got = recv(t->fd, p, n, 0);

	turn_over(p, got > 0 ? (size_t)got : 0);
	return got;
}

static ssize_t send_few(struct transport *t, const struct iovec *iov, int n)
{
	char bytes[FEW];
	size_t len = 0;

	for (int i = 0; i < n; i++)
		for (size_t k = 0; k < iov[i].iov_len && len < FEW; k++)
			bytes[len++] = ((const char *)iov[i].iov_base)[k];
	turn_over(bytes, len);
	return send(t->fd, bytes, len, MSG_NOSIGNAL);
}

static void shut_down(struct transport *t)
{
	shut_downs++;
	shutdown(t->fd, SHUT_WR);
}

static void close_it(struct transport *t)
{
	closed++;
	close(t->fd);
	free(t);
}

static struct transport *open_turned(int fd)
{
	static const struct transport_ops ops = {receive, send_few, NULL, shut_down, close_it};
	struct transport *t = mem_new(struct transport);

	*t = (struct transport){&ops, fd};
	return t;
}

static void ask(int fd, const char *request)
{
	cleanup_free char *bytes = mem_strdup(request);

	turn_over(bytes, strlen(request));
	assert_int_equal(send(fd, bytes, strlen(request), MSG_NOSIGNAL), strlen(request));
}

static void expect(struct fixture *f, int fd, const char *want)
{
	cleanup_buf struct buf got = {0};
	size_t len = 0;

	buf_reserve(&got, 0);
	while (got.len < strlen(want)) {
		loop_turn(f->loop);
		len = got.len;
		fixture_receive(fd, &got);
		turn_over(got.data + len, got.len - len);
		if (strstr(got.data, "GMT\r\n") != NULL)
			fixture_mask_date(&got);
	}
	assert_string_equal(got.data, want);
}

static void api_1_a_connection_runs_over_any_transport(void **state)
{
	const struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct fixture f;
	int listener, fd;

	fixture_start(&f, &http_limits_default, serve);
	listener = fixture_bind((const struct sockaddr *)&un, sizeof(sa_family_t));
	assert_int_equal(http_server_listen(f.server, listener, 9, open_turned, NULL), 0);
	fd = fixture_connect(listener);
	ask(fd, GET("/first"));
	expect(&f, fd, OK("/first", "6"));
	ask(fd, GET("/hold"));
	while (f.held == NULL)
		loop_turn(f.loop);
	answer_held(&f, "second");
	expect(&f, fd, OK("second", "6"));
	assert_int_equal(shut_downs, 0);
	ask(fd, "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	expect(&f, fd, OK_CLOSE("/last", "5"));
	assert_int_equal(shut_downs, 1);
	close(fd);
	while (closed == 0)
		loop_turn(f.loop);
	assert_int_equal(closed, 1);
	fixture_assert_log(&f, "/first;/hold;/last;");
	fixture_stop(&f);
	close(listener);
}

static void ignore_data(struct http_request *req, const void *p, size_t n, void *arg)
{
}

/* A transport that must see the bytes gets those of a file, too. */
static void api_1_a_file_goes_over_any_transport(void **state)
{
	const struct sockaddr_un un = {.sun_family = AF_UNIX};
	static const struct iovec head = {(void *)"head ", 5};
	cleanup_fd int file = memfd_create("file", MFD_CLOEXEC);
	struct fixture f;
	int listener, fd;

	assert_int_equal(write(file, "0123456789", 10), 10);
	fixture_start(&f, &http_limits_default, serve);
	listener = fixture_bind((const struct sockaddr *)&un, sizeof(sa_family_t));
	assert_int_equal(http_server_listen(f.server, listener, 9, open_turned, NULL), 0);
	fd = fixture_connect(listener);
	ask(fd, GET("/hold"));
	while (f.held == NULL)
		loop_turn(f.loop);
	http_upgrade(f.held, "p/1", ignore_data, NULL);
	http_stream_send_file(f.held, &head, file, 3, 6);
	expect(&f, fd,
	       "HTTP/1.1 101 Switching Protocols\r\nDate: *\r\nConnection: Upgrade\r\n"
	       "Upgrade: p/1\r\n\r\nhead 345678");
	http_stream_end(f.held);
	close(fd);
	fixture_stop(&f);
	close(listener);
}

static void note_empty(struct http_request *req, void *arg)
{
	*(bool *)arg = http_pending(req) == 0;
}

/* A head that the kernel did not take at once holds a stream back, until it is sent. */
static void exe_6_an_upgraded_stream_is_told_when_its_head_is_sent(void **state)
{
	const struct sockaddr_un un = {.sun_family = AF_UNIX};
	bool empty = false;
	struct fixture f;
	int listener, fd;

	fixture_start(&f, &http_limits_default, serve);
	listener = fixture_bind((const struct sockaddr *)&un, sizeof(sa_family_t));
	assert_int_equal(http_server_listen(f.server, listener, 9, open_turned, NULL), 0);
	fd = fixture_connect(listener);
	ask(fd, GET("/hold"));
	while (f.held == NULL)
		loop_turn(f.loop);
	http_hooks(f.held, NULL, note_empty, &empty);
	http_upgrade(f.held, "p/1", ignore_data, NULL);
	assert_true(http_pending(f.held) > 0);
	while (http_pending(f.held) > 0)
		loop_turn(f.loop);
	assert_true(empty);
	http_stream_end(f.held);
	close(fd);
	fixture_stop(&f);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_1_a_connection_runs_over_any_transport),
		cmocka_unit_test(api_1_a_file_goes_over_any_transport),
		cmocka_unit_test(exe_6_an_upgraded_stream_is_told_when_its_head_is_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
