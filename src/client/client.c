// SPDX-License-Identifier: Apache-2.0
#include "client/client.h"
#include "base/mem.h"
#include "client/client_internal.h"
#include "wire/sse.h"
#include <errno.h>
#include <poll.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/uio.h>

void client_disconnect(struct client *c)
{
	if (c->fd != -1)
		close(c->fd);
	c->fd = -1;
	buf_clear(&c->in);
	c->in_at = 0;
}

void client_close(struct client *c)
{
	if (c == NULL)
		return;
	client_disconnect(c);
	address_done(&c->address);
	free(c->name);
	free(c->api_key);
	buf_done(&c->in);
	free(c);
}

int client_peer(const struct client *c, struct client_peer *out, struct err *err)
{
	struct ucred who = {0};
	socklen_t len = sizeof(who);

	if (c->address.path == NULL)
		return err_set(err, E_BAD_REQUEST, NULL,
			       "this needs the server's unix socket, not its TCP address");
	/* SO_PEERCRED names the process that called listen() */
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 || who.pid == 0)
		return err_set(err, E_UNAVAILABLE, c->name,
			       "the process that listens on %s cannot be seen from here", c->name);
	*out = (struct client_peer){c->address.path, who.pid, who.uid};
	return 0;
}

void client_set_patience(struct client *c, int ms)
{
	c->patience_ms = ms;
}

/* --- the request --- */

static int format_head(const struct client *c, const struct client_call *call, const char *upgrade,
		       struct buf *b, struct err *err)
{
	const struct {
		const char *name, *value;
	} headers[] = {
		{"Content-Type", call->len != 0 ? "application/json" : NULL},
		{"Accept", call->accept},
		{"Idempotency-Key", call->idempotency_key},
		{"Last-Event-ID", call->last_event_id},
		{"X-API-Key", c->api_key},
		{"Connection", upgrade != NULL ? "Upgrade" : NULL},
		{"Upgrade", upgrade},
	};

	for (const char *s = call->path; *s != '\0'; s++)
		if ((unsigned char)*s <= ' ' || *s == 0x7f)
			return err_set(err, E_BAD_REQUEST, NULL, "a path has no spaces");
	buf_addf(b, "%s %s HTTP/1.1\r\nHost: ", call->method, call->path);
	if (c->address.path != NULL)
		buf_adds(b, "localhost");
	else
		buf_addf(b, strchr(c->address.host, ':') != NULL ? "[%s]:%s" : "%s:%s",
			 c->address.host, c->address.port);
	buf_addf(b, "\r\nUser-Agent: agentsh/%s\r\n", AGENTSH_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		const char *value = headers[i].value != NULL ? headers[i].value : "";

		for (const char *s = value; *s != '\0'; s++)
			if ((unsigned char)*s < ' ' || *s == 0x7f)
				return err_set(err, E_BAD_REQUEST, headers[i].name,
					       "%s has a control character", headers[i].name);
		if (headers[i].value != NULL)
			buf_addf(b, "%s: %s\r\n", headers[i].name, value);
	}

	if (call->len != 0 || strcmp(call->method, "GET") != 0)
		buf_addf(b, "Content-Length: %zu\r\n", call->len);
	buf_adds(b, "\r\n");
	return 0;
}

/* Ignores failures: a server that rejects a request early may close its reading side, and then its
 * answer has the reason. */
static void send_all(int fd, const struct buf *head, const struct client_call *call)
{
	void *body = (void *)(call->body != NULL ? call->body : "");
	struct iovec iov[2] = {{head->data, head->len}, {body, call->len}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

	while (iov[0].iov_len + iov[1].iov_len != 0) {
		ssize_t n = TEMP_FAILURE_RETRY(sendmsg(fd, &m, MSG_NOSIGNAL));

		if (n == -1)
			return;
		for (int i = 0; i < 2; i++) {
			const size_t part = MIN((size_t)n, iov[i].iov_len);

			iov[i].iov_base = (char *)iov[i].iov_base + part;
			iov[i].iov_len -= part;
			n -= (ssize_t)part;
		}
	}
}

int client_connect(struct client *c, struct err *err)
{
	client_disconnect(c);
	c->fd = address_dial(&c->address);
	if (c->fd != -1)
		return 0;
	return errno == EACCES || errno == EPERM
		       ? err_errno(err, E_FORBIDDEN, c->name,
				   "no permission to connect to the server at %s", c->name)
		       : err_errno(err, E_UNAVAILABLE, c->name, "no server at %s", c->name);
}

/* Reads an answer of status >= 400 and fails with its error. */
static int refused(struct client *c, const struct client_call *call, const struct answer_head *head,
		   struct err *err)
{
	cleanup_buf struct buf body = {0};
	int r = client_read_all(c, head, &body, err);

	if (r < 0)
		return r;
	if (call->refusal != NULL) {
		buf_clear(call->refusal);
		buf_add(call->refusal, body.data, body.len);
	}
	return answer_error(head->status, &body, err);
}

int client_ask(struct client *c, const struct client_call *call, const char *upgrade,
	       struct answer_head *head, struct err *err)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
	cleanup_buf struct buf b = {0};
	bool kept = c->fd != -1 && poll(&p, 1, 0) == 0; /* else the server has closed it */
	bool began = false;
	int r = format_head(c, call, upgrade, &b, err);

	if (r == 0 && !kept)
		r = client_connect(c, err);
	for (; r == 0; kept = false) {
		send_all(c->fd, &b, call);
		r = answer_head(c, head, &began, err);
		/* The server may have closed a kept connection while we wrote. */
		if (r == 0 || !kept || began ||
		    (strcmp(call->method, "GET") != 0 && call->idempotency_key == NULL))
			break;
		r = client_connect(c, err);
	}
	if (r != 0)
		client_disconnect(c);
	return r == 0 && head->status >= 400 ? refused(c, call, head, err) : r;
}

static int collect(const char *p, size_t n, void *arg, struct err *err)
{
	struct buf *body = arg;

	if (n > CLIENT_ANSWER_MAX - body->len)
		return err_set(err, E_TOO_LARGE, NULL, "the server's answer is over %zu bytes",
			       CLIENT_ANSWER_MAX);
	buf_add(body, p, n);
	return 0;
}

static int read_body(struct client *c, const struct answer_head *head, answer_sink_fn *sink,
		     void *arg, struct err *err)
{
	const int r = answer_body(c, head, sink, arg, err);

	if (r != 0 || !head->keep)
		client_disconnect(c);
	return r;
}

int client_read_all(struct client *c, const struct answer_head *head, struct buf *body,
		    struct err *err)
{
	int r;

	buf_reserve(body, 0);
	r = read_body(c, head, collect, body, err);
	if (r < 0)
		buf_clear(body);
	return r;
}

int client_call(struct client *c, const struct client_call *call, struct buf *answer,
		struct err *err)
{
	struct answer_head head;
	const int r = client_ask(c, call, NULL, &head, err);

	return r < 0 ? r : client_read_all(c, &head, answer, err);
}

struct client_streaming {
	struct sse_parser parser;
	client_sse_fn *fn;
	void *arg;
	bool stopped;
};

static void on_message(const char *id, const char *name, const char *data, size_t len, void *arg)
{
	struct client_streaming *s = arg;

	if (!s->stopped)
		s->stopped = s->fn(id, name, data, len, s->arg) != 0;
}

static int on_bytes(const char *p, size_t n, void *arg, struct err *err)
{
	struct client_streaming *s = arg;

	if (sse_parse(&s->parser, p, n, on_message, s) < 0)
		return err_set(err, E_TOO_LARGE, NULL, "a message of the server is too large");
	return s->stopped ? 1 : 0;
}

int client_stream(struct client *c, const struct client_call *call, client_sse_fn *fn, void *arg,
		  struct err *err)
{
	struct client_streaming s = {.fn = fn, .arg = arg};
	struct client_call sse = *call;
	struct answer_head head;
	int r;

	sse.accept = "text/event-stream";
	r = client_ask(c, &sse, NULL, &head, err);
	if (r == 0)
		r = read_body(c, &head, on_bytes, &s, err);
	sse_parser_done(&s.parser);
	return s.stopped ? 0 : r;
}
