// SPDX-License-Identifier: Apache-2.0
/* Connections are shared out by peer, so that one peer cannot hold all of them.
 *
 * A peer is a user of a unix socket, or a name from the application (http_set_peer); TCP clients
 * without a name are one peer. Each may have a quarter of the connections. This limit does not
 * apply to root and the owner, and a few connections are reserved for them. */
#include "base/mem.h"
#include "wire/http_internal.h"
#include <stdio.h>
#include <sys/socket.h>

#define SHARE 4	  /* a peer may have one in so many connections */
#define KEPT 16	  /* connections reserved for root and the owner, at most */
#define TCP "tcp" /* no user has this name */
#define OVER "you have your share of this server's connections open already: close some of them"
#define FULL "all connections of this server are taken: try again later"

static unsigned share(const struct http_server *s)
{
	return s->limits.max_connections < SHARE ? 1 : s->limits.max_connections / SHARE;
}

static struct http_peer *find(struct http_server *s, const char *name, uint32_t uid)
{
	struct http_peer *p;

	LIST_FOREACH (p, &s->peers, link)
		if (strcmp(p->name, name) == 0)
			return p;
	p = mem_new(struct http_peer);
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->uid = uid;
	p->trusted = uid == 0 || (uid != HTTP_NO_UID && uid == s->limits.owner_uid);
	LIST_INSERT_HEAD(&s->peers, p, link);
	return p;
}

static void free_unused(struct http_peer *p)
{
	if (p->conns > 0 || p->held)
		return;
	LIST_REMOVE(p, link);
	free(p);
}

struct http_peer *http_peer_of(struct http_server *s, int fd, bool tcp)
{
	char name[HTTP_PEER_NAME] = TCP;
	struct ucred peer = {.uid = HTTP_NO_UID};
	socklen_t len = sizeof(peer);
	struct http_peer *p;

	if (!tcp && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		snprintf(name, sizeof(name), "uid-%u", peer.uid);
	p = find(s, name, tcp ? HTTP_NO_UID : peer.uid);
	p->held = true;
	return p;
}

void http_peer_release(struct http_peer *p)
{
	p->held = false;
	free_unused(p);
}

void http_peer_join(struct http_conn *c, struct http_peer *p)
{
	c->peer = p;
	p->conns++;
	c->server->nconns++;
	if (p->trusted)
		c->server->ntrusted++;
}

void http_peer_leave(struct http_conn *c)
{
	struct http_peer *p = c->peer;

	c->peer = NULL;
	p->conns--;
	c->server->nconns--;
	if (p->trusted)
		c->server->ntrusted--;
	free_unused(p);
}

/* Whether to close a rather than b: prefers connections without an unsent answer, then those of the
 * peer with more connections, then the older one. */
static bool is_better(const struct http_conn *a, const struct http_conn *b)
{
	if (b != NULL && (http_conn_pending(a) > 0) != (http_conn_pending(b) > 0))
		return http_conn_pending(a) == 0;
	if (b == NULL || a->peer->conns != b->peer->conns)
		return b == NULL || a->peer->conns > b->peer->conns;
	return a->wait_since_us < b->wait_since_us;
}

/* Closes the oldest unfinished request of the peer with the most connections, or the connection of
 * `only` that has waited longest. False: there is no such connection. An untrusted client cannot
 * displace a trusted one. */
static bool make_room(struct http_server *s, const struct http_peer *only, bool trusted)
{
	struct http_conn *c, *oldest = NULL;

	LIST_FOREACH (c, &s->conns, link)
		if (c->peer != NULL && (trusted || !c->peer->trusted) &&
		    (only == NULL ? http_conn_is_unfinished(c)
				  : c->peer == only && http_conn_is_waiting(c)) &&
		    is_better(c, oldest))
			oldest = c;
	if (oldest == NULL)
		return false;
	if (http_conn_pending(oldest) > 0)
		http_conn_lost(oldest); /* its client does not read: a refusal would not arrive */
	else
		http_conn_evict(oldest, FULL);
	return true;
}

const char *http_peer_room(struct http_server *s, const struct http_peer *p)
{
	const unsigned max = s->limits.max_connections;
	const unsigned kept = max / SHARE < KEPT ? max / SHARE : KEPT;

	if (!p->trusted && p->conns >= share(s))
		/* A client with a key counts as "tcp" until it has sent the key. */
		return strcmp(p->name, TCP) == 0 && make_room(s, p, false) ? NULL : OVER;
	if (s->nconns < max && (p->trusted || s->nconns - s->ntrusted < max - kept))
		return NULL;
	return make_room(s, NULL, p->trusted) ? NULL : FULL;
}

bool http_set_peer(struct http_request *req, const char *name)
{
	struct http_conn *c = req->conn;
	struct http_server *s = c->server;
	struct http_peer *p;

	if (c->peer->trusted || strcmp(c->peer->name, name) == 0)
		return true;
	p = find(s, name, HTTP_NO_UID);
	if (p->conns >= share(s)) {
		req->keep_alive = false;
		return false;
	}
	http_peer_leave(c);
	http_peer_join(c, p);
	return true;
}
