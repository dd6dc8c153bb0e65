// SPDX-License-Identifier: Apache-2.0
/* Theory of operation.
 *
 * One edge-triggered event (EPOLLIN | EPOLLRDHUP) is on for the whole life of a connection: a
 * request costs no epoll_ctl, and a client that leaves is noticed while nothing is read. A
 * level-triggered WATCH_CLOSED would not do: libevent 2.1 reports EPOLLERR (a reset) as readable
 * and writable only, so a watcher of WATCH_CLOSED would not be called and the loop would spin. With
 * edges each change is reported once; `readable` remembers that there may be bytes. A short read
 * means that the kernel had no more (epoll(7)); a later end is a new edge, an earlier one has set
 * `shut`.
 *
 * The application's calls (http_reply and so on) never run its callbacks: those run in a later turn
 * of the loop (http_conn_poke). Functions here that call the application do so between enter() and
 * leave(): the outermost leave() decides how to go on, and frees a connection that has ended
 * meanwhile. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/http_internal.h"
#include <errno.h>
#include <poll.h>
#include <sys/param.h>

#define TURN_STEPS 8	  /* reads or requests of one connection before others get their turn */
#define LINGER_US 2000000 /* how long the peer of a closed connection may go on sending */
#define KEEP_OUT (4 * HTTP_LOW_MARK) /* a larger buffer is given back once empty */
#define NEVER INT64_MAX

static int64_t now_us(void)
{
	return clock_mono_us(&clock_system);
}

size_t http_conn_pending(const struct http_conn *c)
{
	return c->out.len - c->out_at;
}

bool http_conn_is_idle(const struct http_conn *c)
{
	return !c->active && !c->closing && !c->parser->started && c->in.len == 0 &&
	       http_conn_pending(c) == 0;
}

bool http_conn_is_waiting(const struct http_conn *c)
{
	return !c->active && !c->broken && (!c->closing || http_conn_pending(c) > 0);
}

bool http_conn_is_unfinished(const struct http_conn *c)
{
	const bool begun = c->parser->started || (c->nrequests == 0 && !c->peer->trusted);

	return begun && http_conn_is_waiting(c) && http_conn_pending(c) == 0;
}

bool http_conn_is_quiet(const struct http_conn *c)
{
	return c->lingering || c->broken ||
	       (!c->active && !c->closing && http_conn_pending(c) == 0);
}

void http_conn_poke(struct http_conn *c)
{
	watch_soon(c->event);
}

/* --- deadlines: a timer that is too early is set anew when it fires, so that a request need not
 * touch it --- */

static enum http_wait wait_for(const struct http_conn *c)
{
	if (c->lingering)
		return HTTP_WAIT_LINGER;
	if (c->active)
		return HTTP_WAIT_APP;
	if (http_conn_pending(c) > 0)
		return HTTP_WAIT_FLUSH;
	if (!c->parser->started && c->in.len == 0)
		return HTTP_WAIT_IDLE;
	return c->parser->phase <= HTTP_PHASE_HEADERS ? HTTP_WAIT_HEAD : HTTP_WAIT_BODY;
}

static int64_t deadline(const struct http_conn *c)
{
	const struct http_limits *l = &c->server->limits;
	const int64_t since = c->wait_since_us;

	switch (c->wait) {
	case HTTP_WAIT_IDLE:
	case HTTP_WAIT_FLUSH:
		return since + (int64_t)l->idle_timeout_ms * 1000;
	case HTTP_WAIT_HEAD:
		return since + (int64_t)l->header_timeout_ms * 1000;
	case HTTP_WAIT_BODY:
		return since + (int64_t)l->body_grace_ms * 1000 +
		       (int64_t)c->parser->req.body.len * 1000000 / l->body_min_rate;
	case HTTP_WAIT_LINGER:
		return since + LINGER_US;
	case HTTP_WAIT_APP:
		break;
	}
	return NEVER;
}

static void update_wait(struct http_conn *c)
{
	const enum http_wait wait = wait_for(c);
	const int64_t due = watch_due_us(c->timer);
	int64_t at, wait_us;

	if (wait != c->wait || c->nrequests != c->wait_request) {
		c->wait = wait;
		c->wait_request = c->nrequests;
		if (wait != HTTP_WAIT_APP)
			c->wait_since_us = now_us();
	}
	at = deadline(c);
	/* The timer counts whole milliseconds. */
	if (at == NEVER || (due != 0 && due < at + 1000))
		return;
	wait_us = at - now_us();
	watch_after(c->timer, wait_us > 0 ? (uint64_t)(wait_us + 999) / 1000 : 1);
}

/* --- life --- */

/* Whether there is input that may be worked on now. */
static bool can_step(const struct http_conn *c)
{
	const bool input = c->in.len > 0 || c->readable;

	if (c->dead || c->broken || !input)
		return false;
	return c->raw || c->lingering || (!c->active && !c->closing && http_conn_pending(c) == 0);
}

static void enter(struct http_conn *c)
{
	c->busy++;
}

static void leave(struct http_conn *c)
{
	struct http_server *s = c->server;

	if (c->busy == 1 && !c->dead) {
		if (can_step(c))
			http_conn_poke(c);
		update_wait(c);
	}
	if (--c->busy > 0)
		return;
	if (c->dead) {
		watch_free(c->event);
		watch_free(c->writable);
		watch_free(c->timer);
		http_parser_free(c->parser);
		buf_done(&c->in);
		buf_done(&c->out);
		free(c);
	}
	http_server_look(s);
}

/* Only between enter() and leave(). */
static void drop(struct http_conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	watch_stop(c->event);
	watch_stop(c->writable);
	watch_stop(c->timer);
	LIST_REMOVE(c, link);
	c->io->ops->close(c->io);
	if (c->peer != NULL)
		http_peer_leave(c);
	else
		c->server->nrefused--;
	if (c->server->starved) /* accepting may go on */
		watch_soon(c->server->retry);
}

/* Only between enter() and leave(). */
static void lose(struct http_conn *c)
{
	struct http_request *req = &c->parser->req;
	const bool tell = c->active && req->gone != NULL;

	c->broken = true;
	c->active = false;
	if (tell)
		req->gone(req, req->hook_arg);
	drop(c);
}

void http_conn_lost(struct http_conn *c)
{
	enter(c);
	lose(c);
	leave(c);
}

static void answered(struct http_conn *c)
{
	/* A broken connection ends in its next turn. */
	if (!c->closing || c->broken || http_conn_pending(c) > 0)
		return;
	c->io->ops->shut_down(c->io);
	if (c->shut) {
		drop(c);
		return;
	}
	/* A close with unread bytes resets the connection, and the client may lose our last answer.
	 * So bytes that it still sends are read and dropped for a while. */
	c->lingering = c->readable = true;
}

void http_conn_answered(struct http_conn *c, bool keep)
{
	enter(c);
	c->active = c->raw = c->above = false;
	c->closing = !keep || c->server->draining;
	http_parser_next(c->parser);
	answered(c);
	leave(c);
}

void http_conn_refused(struct http_conn *c)
{
	enter(c);
	c->closing = true;
	answered(c);
	leave(c);
}

/* --- writing --- */

static void add_unsent(struct http_conn *c, const struct iovec *iov, int n, size_t sent)
{
	if (c->out_at > KEEP_OUT && c->out_at > c->out.len / 2) {
		buf_drop(&c->out, c->out_at);
		c->out_at = 0;
	}
	for (int i = 0; i < n; i++) {
		const size_t skip = MIN(sent, iov[i].iov_len);

		sent -= skip;
		buf_add(&c->out, (const char *)iov[i].iov_base + skip, iov[i].iov_len - skip);
	}
}

/* After an upgrade the application may wait until nothing is unsent. */
static size_t low_mark(const struct http_conn *c)
{
	return c->raw ? 1 : HTTP_LOW_MARK;
}

/* first: nothing was unsent before. */
static void watch_unsent(struct http_conn *c, bool first)
{
	if (first && http_conn_pending(c) > 0)
		watch_start(c->writable);
	c->above = c->above || http_conn_pending(c) >= low_mark(c);
}

void http_conn_send(struct http_conn *c, const struct iovec *iov, int n)
{
	const bool first = http_conn_pending(c) == 0;
	ssize_t sent = 0;

	if (c->broken)
		return;
	if (first)
		sent = c->io->ops->send(c->io, iov, n);
	if (sent == -1) {
		if (errno != EAGAIN) {
			http_conn_break(c);
			return;
		}
		sent = 0;
	}
	add_unsent(c, iov, n, (size_t)sent);
	watch_unsent(c, first);
}

void http_conn_send_file(struct http_conn *c, const struct iovec *head, int fd, uint64_t at,
			 size_t n)
{
	const bool first = http_conn_pending(c) == 0;
	struct buf *out = &c->out;
	ssize_t sent = 0;

	http_conn_send(c, head, 1);
	if (c->broken)
		return;
	if (http_conn_pending(c) == 0 && c->io->ops->send_file != NULL)
		sent = c->io->ops->send_file(c->io, fd, (off_t)at, n);
	if (sent > 0) {
		at += (uint64_t)sent;
		n -= (size_t)sent;
	}
	/* The rest is kept here; an error shows again. */
	buf_reserve(out, n);
	if (fdio_pread_full(fd, out->data + out->len, n, at) != (ssize_t)n) {
		http_conn_break(c);
		return;
	}
	out->len += n;
	watch_unsent(c, first);
}

void http_conn_break(struct http_conn *c)
{
	c->broken = true;
	http_conn_poke(c);
}

/* Writes until the kernel takes no more; -1 if the connection has failed. */
static int flush(struct http_conn *c)
{
	while (http_conn_pending(c) > 0) {
		const struct iovec rest = {c->out.data + c->out_at, http_conn_pending(c)};
		const ssize_t n = c->io->ops->send(c->io, &rest, 1);

		if (n == -1)
			return errno == EAGAIN ? 0 : -1;
		c->out_at += (size_t)n;
		c->wait_since_us = now_us();
	}
	watch_stop(c->writable);
	buf_clear(&c->out);
	c->out_at = 0;
	if (c->out.cap > KEEP_OUT)
		buf_done(&c->out);
	return 0;
}

static void on_writable(void *arg)
{
	struct http_conn *c = arg;
	struct http_request *req = &c->parser->req;

	enter(c);
	if (flush(c) < 0)
		lose(c);
	else if (!c->active)
		answered(c);
	else if (c->above && http_conn_pending(c) < low_mark(c)) {
		c->above = false;
		if (req->drained != NULL)
			req->drained(req, req->hook_arg);
	}
	leave(c);
}

/* --- reading --- */

/* Whether both directions are closed. */
static bool hung_up(const struct http_conn *c)
{
	struct pollfd p = {.fd = c->io->fd};

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

/* Keeps the bytes behind p + used; p is c->in, or the server's scratch. */
static void keep_rest(struct http_conn *c, const char *p, size_t n, size_t used)
{
	if (c->in.len > 0)
		buf_drop(&c->in, used);
	else if (used < n)
		buf_add(&c->in, p + used, n - used);
	if (c->in.len == 0)
		buf_done(&c->in);
}

static void consume(struct http_conn *c, const char *p, size_t n)
{
	struct http_parser *parser = c->parser;
	const struct http_refusal *why;
	size_t used;
	const enum http_parse r = http_parser_feed(parser, p, n, &used);

	keep_rest(c, p, n, used);
	if (r == HTTP_BAD) {
		why = http_parser_refusal(parser);
		http_refuse(c, why->status, why->reason);
	} else if (r == HTTP_READY) {
		c->nrequests++;
		c->active = true;
		c->server->on_request(http_parser_request(parser), c->server->arg);
		if (c->active && !c->raw && c->shut)
			lose(c);
	} else if (parser->req.expects_continue && parser->req.body.len == 0) {
		http_send_continue(c);
	}
}

static void on_end(struct http_conn *c)
{
	const bool was_raw = c->raw, tell = c->raw && !c->raw_ended;

	c->shut = true;
	c->readable = false;
	c->raw_ended = c->raw;
	if (tell)
		c->on_data(&c->parser->req, "", 0, c->data_arg);
	/* If the application has ended its answer just now, the rest is still to be flushed. */
	if (!was_raw || (c->raw && hung_up(c)))
		lose(c);
}

/* Reads into the server's scratch. Returns the number of bytes; 0: nothing to read now, or the
 * connection has ended. */
static size_t receive(struct http_conn *c)
{
	const ssize_t n = c->io->ops->receive(c->io, c->server->scratch, HTTP_READ_SIZE);

	if (n == 0) {
		on_end(c);
		return 0;
	}
	if (n == -1 && errno != EAGAIN) {
		lose(c);
		return 0;
	}
	if (n != HTTP_READ_SIZE && !c->shut)
		c->readable = false;
	return n == -1 ? 0 : (size_t)n;
}

static void step(struct http_conn *c)
{
	const char *p = c->server->scratch;
	size_t n;

	if (c->lingering)
		buf_done(&c->in);
	n = c->in.len;
	if (n > 0)
		p = c->in.data;
	else
		n = receive(c);
	if (n == 0 || c->lingering)
		return;
	if (!c->raw) {
		consume(c, p, n);
		return;
	}
	c->on_data(&c->parser->req, p, n, c->data_arg);
	keep_rest(c, p, n, n);
}

/* Whether an event means that the client of the request in progress has left. */
static bool has_left(const struct http_conn *c, unsigned what)
{
	if (!c->active || (what & (WATCH_READABLE | WATCH_CLOSED)) == 0)
		return false;
	if (c->raw)
		return c->raw_ended && hung_up(c);
	/* Readable alone is a pipelined request, or a reset behind one. */
	return (what & WATCH_CLOSED) != 0 || hung_up(c);
}

static void work(struct http_conn *c, unsigned what)
{
	if ((what & (WATCH_READABLE | WATCH_CLOSED)) != 0)
		c->readable = true;
	if ((what & WATCH_CLOSED) != 0)
		c->shut = true;
	if (c->broken || has_left(c, what))
		lose(c);
	for (int i = 0; i < TURN_STEPS && can_step(c); i++)
		step(c);
}

static void on_event(void *arg)
{
	struct http_conn *c = arg;

	enter(c);
	work(c, watch_seen(c->event));
	leave(c);
}

static void on_timer(void *arg)
{
	struct http_conn *c = arg;

	enter(c);
	if (now_us() < deadline(c))
		;
	else if (c->wait == HTTP_WAIT_HEAD)
		http_refuse(c, 408, "the header did not come in time");
	else if (c->wait == HTTP_WAIT_BODY)
		http_refuse(c, 408, "the body comes too slowly");
	else
		drop(c);
	leave(c);
}

void http_conn_evict(struct http_conn *c, const char *reason)
{
	enter(c);
	http_peer_leave(c);
	c->server->nrefused++;
	http_refuse(c, 503, reason);
	leave(c);
}

void http_conn_start(const struct http_listener *l, int fd, struct http_peer *p,
		     const char *refusal)
{
	struct http_server *s = l->server;
	struct http_conn *c = mem_new(struct http_conn);
	bool watched;

	c->server = s;
	c->io = l->open(fd);
	c->tag = l->tag;
	c->uid = p->uid;
	c->readable = true;
	c->wait_since_us = now_us();
	c->parser = http_parser_new(&s->limits);
	c->parser->req.conn = c;
	c->event = watch_edges(s->loop, fd, WATCH_READABLE | WATCH_CLOSED, on_event, c);
	c->writable = watch_edges(s->loop, fd, WATCH_WRITABLE, on_writable, c);
	c->timer = watch_timer(s->loop, on_timer, c);
	watched = watch_start(c->event) == 0;
	if (!watched) {
		refusal = "connections cannot be watched: the server's user has used up "
			  "fs.epoll.max_user_watches";
		log_warn(refusal);
	}
	LIST_INSERT_HEAD(&s->conns, c, link);
	enter(c);
	if (refusal == NULL) {
		http_peer_join(c, p);
	} else {
		s->nrefused++;
		http_refuse(c, 503, refusal);
	}
	if (!watched) {
		/* With unread bytes, close would reset the connection. */
		while (c->io->ops->receive(c->io, s->scratch, HTTP_READ_SIZE) > 0)
			;
		drop(c);
	}
	work(c, 0);
	leave(c);
}
