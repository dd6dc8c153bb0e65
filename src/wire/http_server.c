// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "base/mem.h"
#include "wire/http_internal.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define ACCEPT_TURN 64 /* connections accepted before others get their turn */
#define MAX_REFUSED 64 /* refused connections that may read their answer, at least */
#define RETRY_MS 100   /* until accept is tried again without descriptors */

static void set_accepting(struct http_server *s, bool on)
{
	struct http_listener *l;

	SLIST_FOREACH (l, &s->listeners, link)
		if (on)
			watch_start(l->readable);
		else
			watch_stop(l->readable);
}

static void on_retry(void *arg)
{
	struct http_server *s = arg;

	s->starved = false;
	set_accepting(s, !s->draining);
}

/* The socket stays readable while accept fails for want of descriptors: watching it would spin. */
static void starve(struct http_server *s)
{
	if (!s->hungry)
		log_warn("accept failed, trying again until it works", "error", strerror(errno));
	s->starved = s->hungry = true;
	set_accepting(s, false);
	watch_after(s->retry, RETRY_MS);
}

/* A machine that vanishes sends no FIN: keep-alive probes detect it. No TCP_USER_TIMEOUT: it would
 * also end a connection with a client that reads slowly. */
static void set_tcp(int fd)
{
	static const struct {
		int level, name, value;
	} rows[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},	 {SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 30}, {IPPROTO_TCP, TCP_KEEPINTVL, 10},
		{IPPROTO_TCP, TCP_KEEPCNT, 3},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		setsockopt(fd, rows[i].level, rows[i].name, &rows[i].value, sizeof(rows[i].value));
}

/* Closes the refused connection that had most time to read its answer. */
static void drop_refused(struct http_server *s)
{
	struct http_conn *c, *oldest = NULL;

	LIST_FOREACH (c, &s->conns, link)
		if (c->peer == NULL)
			oldest = c;
	if (oldest != NULL)
		http_conn_lost(oldest);
}

static void admit(struct http_listener *l, int fd)
{
	struct http_server *s = l->server;
	struct http_peer *p = http_peer_of(s, fd, l->tcp);
	const char *refusal = http_peer_room(s, p);

	if (s->nrefused >= MAX_REFUSED && s->nrefused >= s->limits.max_connections)
		drop_refused(s);
	if (l->tcp)
		set_tcp(fd);
	http_conn_start(l, fd, p, refusal);
	http_peer_release(p);
}

static void on_accept(void *arg)
{
	struct http_listener *l = arg;

	for (int i = 0; i < ACCEPT_TURN; i++) {
		const int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			admit(l, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			starve(l->server);
		else if (errno == EAGAIN)
			l->server->hungry = false;
		/* Any other error concerns one client; EAGAIN: no client is left. */
		return;
	}
}

struct http_server *http_server_new(struct loop *loop, const struct http_limits *limits,
				    http_request_fn *on_request, http_bad_fn *on_bad, void *arg)
{
	struct http_server *s = mem_new(struct http_server);

	s->loop = loop;
	s->limits = *limits;
	s->on_request = on_request;
	s->on_bad = on_bad;
	s->arg = arg;
	s->scratch = mem_alloc(HTTP_READ_SIZE);
	LIST_INIT(&s->conns);
	LIST_INIT(&s->peers);
	SLIST_INIT(&s->listeners);
	s->retry = watch_timer(loop, on_retry, s);
	return s;
}

int http_server_listen(struct http_server *s, int fd, int tag, transport_open_fn *open,
		       struct err *err)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	struct http_listener *l;

	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return err_errno(err, E_INTERNAL, NULL, "cannot listen on descriptor %d", fd);
	l = mem_new(struct http_listener);
	l->server = s;
	l->fd = fd;
	l->tag = tag;
	l->open = open;
	l->tcp = a.ss_family != AF_UNIX;
	l->readable = watch_readable(s->loop, fd, on_accept, l);
	if (watch_start(l->readable) < 0) {
		watch_free(l->readable);
		free(l);
		return err_set(err, E_INTERNAL, NULL, "cannot watch a listener: " LOOP_FULL);
	}
	SLIST_INSERT_HEAD(&s->listeners, l, link);
	return 0;
}

void http_server_limit(struct http_server *s, const struct http_limits *limits)
{
	s->limits = *limits;
}

void http_server_drain(struct http_server *s)
{
	struct http_conn *c, *next;

	s->draining = true;
	set_accepting(s, false);
	for (c = LIST_FIRST(&s->conns); c != NULL; c = next) {
		next = LIST_NEXT(c, link);
		if (http_conn_is_idle(c))
			http_conn_lost(c);
	}
}

void http_server_look(struct http_server *s)
{
	void (*fn)(void *arg) = s->on_quiet;
	struct http_conn *c;

	if (fn == NULL)
		return;
	LIST_FOREACH (c, &s->conns, link)
		if (!http_conn_is_quiet(c))
			return;
	s->on_quiet = NULL;
	fn(s->quiet_arg);
}

void http_server_on_quiet(struct http_server *s, void (*fn)(void *arg), void *arg)
{
	s->on_quiet = fn;
	s->quiet_arg = arg;
	http_server_look(s);
}

unsigned http_server_connections(const struct http_server *s)
{
	return s->nconns;
}

void http_server_free(struct http_server *s)
{
	struct http_listener *l;
	struct http_conn *c;

	if (s == NULL)
		return;
	s->draining = true;
	s->on_quiet = NULL;
	while ((c = LIST_FIRST(&s->conns)) != NULL)
		http_conn_lost(c);
	watch_free(s->retry);
	while ((l = SLIST_FIRST(&s->listeners)) != NULL) {
		SLIST_REMOVE_HEAD(&s->listeners, link);
		watch_free(l->readable);
		free(l);
	}
	buf_done(&s->head);
	buf_done(&s->bad);
	free(s->scratch);
	free(s);
}
