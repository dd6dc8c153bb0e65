// SPDX-License-Identifier: Apache-2.0
/* Answers. The head is made in the server's scratch buffer and goes out together with the first
 * bytes of the body. */
#include "base/clock.h"
#include "base/mem.h"
#include "wire/http_internal.h"
#include <stdio.h>
#include <time.h>

static const char *status_text(int status, size_t *len)
{
	static const char texts[] =
		"101 Switching Protocols\n200 OK\n201 Created\n202 Accepted\n204 No Content\n"
		"304 Not Modified\n400 Bad Request\n401 Unauthorized\n403 Forbidden\n"
		"404 Not Found\n405 Method Not Allowed\n408 Request Timeout\n409 Conflict\n"
		"410 Gone\n413 Content Too Large\n414 URI Too Long\n415 Unsupported Media Type\n"
		"417 Expectation Failed\n426 Upgrade Required\n429 Too Many Requests\n"
		"431 Request Header Fields Too Large\n500 Internal Server Error\n"
		"501 Not Implemented\n503 Service Unavailable\n505 HTTP Version Not Supported\n";
	const char *at = texts;

	while (*at != '\0' && atoi(at) != status)
		at += strcspn(at, "\n") + 1;
	at = *at != '\0' ? at + strlen("200 ") : "Status";
	*len = strcspn(at, "\n");
	return at;
}

static void add_header(struct buf *b, const char *name, const char *value)
{
	buf_adds(b, name);
	buf_adds(b, ": ");
	/* A value may come from a peer: it must not start another header. */
	for (; *value != '\0'; value++)
		buf_addc(b, http_is_value(value, 1) ? *value : ' ');
	buf_adds(b, "\r\n");
}

static struct buf *start_head(struct http_server *s, int status)
{
	const time_t now = (time_t)(clock_wall_us(&clock_system) / 1000000);
	struct buf *b = &s->head;
	struct tm tm;
	size_t len;
	const char *text = status_text(status, &len);

	buf_clear(b);
	buf_addf(b, "HTTP/1.1 %d ", status);
	buf_add(b, text, len);
	buf_adds(b, "\r\nDate: ");
	if (now != s->date_s) { /* made once a second */
		s->date_s = now;
		gmtime_r(&now, &tm);
		strftime(s->date, sizeof(s->date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	}
	buf_adds(b, s->date);
	buf_adds(b, "\r\n");
	return b;
}

static void add_extras(struct buf *b, const struct http_extra *extra)
{
	for (; extra != NULL && extra->name != NULL; extra++)
		add_header(b, extra->name, extra->value);
}

static void add_connection(struct buf *b, const struct http_request *req, bool keep)
{
	if (!keep)
		buf_adds(b, "Connection: close\r\n");
	else if (req->version_1_0)
		buf_adds(b, "Connection: keep-alive\r\n");
}

static bool may_keep(const struct http_request *req)
{
	return req->keep_alive && !req->conn->server->draining;
}

static void send_one(struct http_conn *c, const void *p, size_t n)
{
	http_conn_send(c, &(struct iovec){(void *)p, n}, 1);
}

static void send_buf(struct http_conn *c, const struct buf *b)
{
	send_one(c, b->data, b->len);
}

void http_reply(struct http_request *req, int status, const char *type, const void *body,
		size_t len, const struct http_extra *extra)
{
	struct http_conn *c = req->conn;
	struct buf *b = start_head(c->server, status);
	const bool bodiless = status == 204 || status == 304;
	const bool keep = may_keep(req);

	ensure(c->active);
	if (!bodiless && type != NULL)
		add_header(b, "Content-Type", type);
	if (!bodiless)
		buf_addf(b, "Content-Length: %zu\r\n", len);
	add_connection(b, req, keep);
	add_extras(b, extra);
	buf_adds(b, "\r\n");
	http_conn_send(c, (const struct iovec[]){{b->data, b->len}, {(void *)body, len}},
		       bodiless || req->is_head || len == 0 ? 1 : 2);
	http_conn_answered(c, keep);
}

void http_refuse(struct http_conn *c, int status, const char *reason)
{
	struct http_server *s = c->server;
	struct buf *b = start_head(s, status), *body = &s->bad;

	buf_clear(body);
	if (s->on_bad != NULL)
		s->on_bad(status, reason, body, s->arg);
	buf_addf(b,
		 "Content-Type: application/json\r\nContent-Length: %zu\r\n"
		 "Connection: close\r\n\r\n",
		 body->len);
	buf_add(b, body->data, body->len);
	send_buf(c, b);
	http_conn_refused(c);
}

void http_send_continue(struct http_conn *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";

	c->parser->req.expects_continue = false;
	send_one(c, text, sizeof(text) - 1);
}

void http_stream_start(struct http_request *req, int status, const char *type,
		       const struct http_extra *extra)
{
	struct http_conn *c = req->conn;
	struct buf *b = start_head(c->server, status);

	ensure(c->active);
	c->chunked = !req->version_1_0;
	if (type != NULL)
		add_header(b, "Content-Type", type);
	if (c->chunked)
		buf_adds(b, "Transfer-Encoding: chunked\r\n");
	add_connection(b, req, may_keep(req) && c->chunked);
	add_extras(b, extra);
	buf_adds(b, "\r\n");
	send_buf(c, b);
}

static void check_pending(struct http_conn *c)
{
	if (http_conn_pending(c) > c->server->limits.max_pending_write)
		http_conn_break(c);
}

void http_stream_write(struct http_request *req, const void *p, size_t n)
{
	struct http_conn *c = req->conn;
	char size[24];

	ensure(c->active);
	if (n == 0 || (req->is_head && !c->raw))
		return;
	if (c->raw || !c->chunked) {
		send_one(c, p, n);
	} else {
		const int len = snprintf(size, sizeof(size), "%zx\r\n", n);

		http_conn_send(c,
			       (const struct iovec[]){
				       {size, (size_t)len}, {(void *)p, n}, {(void *)"\r\n", 2}},
			       3);
	}
	check_pending(c);
}

void http_stream_send(struct http_request *req, const struct iovec *iov, int n)
{
	struct http_conn *c = req->conn;

	ensure(c->active && c->raw);
	http_conn_send(c, iov, n);
	check_pending(c);
}

void http_stream_send_file(struct http_request *req, const struct iovec *head, int fd, uint64_t at,
			   size_t n)
{
	struct http_conn *c = req->conn;

	ensure(c->active && c->raw);
	http_conn_send_file(c, head, fd, at, n);
	check_pending(c);
}

void http_stream_end(struct http_request *req)
{
	static const char last[] = "0\r\n\r\n";
	struct http_conn *c = req->conn;
	const bool chunked = c->chunked && !c->raw;

	ensure(c->active);
	if (chunked && !req->is_head)
		send_one(c, last, sizeof(last) - 1);
	http_conn_answered(c, chunked && may_keep(req));
}

void http_upgrade(struct http_request *req, const char *protocol, http_data_fn *on_data, void *arg)
{
	struct http_conn *c = req->conn;
	struct buf *b = start_head(c->server, 101);

	ensure(c->active);
	buf_adds(b, "Connection: Upgrade\r\n");
	add_header(b, "Upgrade", protocol);
	buf_adds(b, "\r\n");
	c->on_data = on_data;
	c->data_arg = arg;
	c->raw = true;
	send_buf(c, b);
	http_conn_poke(c);
}

size_t http_pending(const struct http_request *req)
{
	return http_conn_pending(req->conn);
}
