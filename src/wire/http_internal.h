// SPDX-License-Identifier: Apache-2.0
/* wire/http_internal.h - shared by the files of the HTTP server, http_*.c.
 *
 * http_parser.c turns bytes into requests and reads them, http_conn.c moves bytes and
 * keeps the state of a connection, http_reply.c writes answers, http_server.c accepts, http_peer.c
 * shares out connections. */
#pragma once
#include "base/loop.h"
#include "wire/http.h"
#include <sys/queue.h>
#include <sys/uio.h>

#define HTTP_MAX_QUERY 32   /* parameters */
#define HTTP_LOW_MARK 65536 /* pending bytes below which `drained` is called */
#define HTTP_READ_SIZE 65536

/* Two strings, as offsets into the head, which may move while it grows. */
struct http_pair {
	size_t name, value;
};

struct http_request {
	struct http_conn *conn; /* NULL for a parser without connection */
	struct buf head;	/* request line and headers, cut into strings in place */
	struct buf body;
	size_t method, path; /* offsets into head */
	struct http_pair *header;
	size_t nheaders;
	struct http_pair query[HTTP_MAX_QUERY];
	size_t nquery;
	bool version_1_0, keep_alive, is_head, expects_continue;
	http_hook_fn *gone, *drained;
	void *hook_arg;
};

enum http_phase {
	HTTP_PHASE_LINE,
	HTTP_PHASE_HEADERS,
	HTTP_PHASE_BODY,
	HTTP_PHASE_CHUNK_SIZE,
	HTTP_PHASE_CHUNK_DATA,
	HTTP_PHASE_CHUNK_END,
	HTTP_PHASE_TRAILERS,
	HTTP_PHASE_READY,
	HTTP_PHASE_BAD,
};

struct http_parser {
	struct http_limits limits;
	struct http_request req;
	enum http_phase phase;
	bool started;	     /* a byte of the request has come */
	bool skipped;	     /* the one empty line that may precede a request */
	size_t line;	     /* where the unfinished line begins in req.head */
	struct buf extra;    /* an unfinished line of the chunked framing */
	size_t header_bytes; /* of headers and trailers */
	size_t header_lines;
	size_t extension_bytes;
	size_t left;	/* of the body or of the chunk */
	const char *in; /* the rest of what http_parser_feed was given */
	size_t n;
	struct http_refusal refusal;
};
/* Whether all n bytes may be in the value of a header. */
bool http_is_value(const char *s, size_t n);

struct http_listener {
	SLIST_ENTRY(http_listener) link;
	struct http_server *server;
	struct watch *readable;
	transport_open_fn *open;
	int fd, tag;
	bool tcp;
};

struct http_server {
	struct loop *loop;
	struct http_limits limits;
	http_request_fn *on_request;
	http_bad_fn *on_bad;
	void *arg;
	LIST_HEAD(, http_conn) conns;
	SLIST_HEAD(, http_listener) listeners;
	LIST_HEAD(, http_peer) peers;
	unsigned nconns, ntrusted; /* being served; those of root and the owner */
	unsigned nrefused;	   /* get a 503 only */
	bool draining;
	bool starved; /* no descriptor for accept: listeners are off until retry */
	bool hungry;  /* it was logged; reset when the queue of a listener is empty */
	struct watch *retry;
	void (*on_quiet)(void *arg); /* NULL: not wanted */
	void *quiet_arg;
	struct buf head, bad; /* scratch of one answer */
	char date[32];
	int64_t date_s;
	char *scratch; /* HTTP_READ_SIZE */
};
/* A connection may have become quiet. */
void http_server_look(struct http_server *s);

/* --- http_peer.c --- */
#define HTTP_PEER_NAME 96
struct http_peer {
	LIST_ENTRY(http_peer) link;
	char name[HTTP_PEER_NAME];
	unsigned conns;
	uint32_t uid; /* of a unix socket's client; HTTP_NO_UID for others */
	bool trusted; /* root or the owner */
	bool held;    /* not freed even without a connection */
};
/* The peer of an accepted connection; not freed until http_peer_release. */
struct http_peer *http_peer_of(struct http_server *s, int fd, bool tcp);
/* NULL if the peer may have one more connection (another may be closed for it); else why not. */
const char *http_peer_room(struct http_server *s, const struct http_peer *p);
void http_peer_join(struct http_conn *c, struct http_peer *p);
/* A peer that has no connection and is not held is freed. */
void http_peer_leave(struct http_conn *c);
void http_peer_release(struct http_peer *p);

/* What a connection waits for; decides its deadline. */
enum http_wait {
	HTTP_WAIT_IDLE,
	HTTP_WAIT_HEAD,
	HTTP_WAIT_BODY,
	HTTP_WAIT_APP,
	HTTP_WAIT_FLUSH,
	HTTP_WAIT_LINGER
};

struct http_conn {
	LIST_ENTRY(http_conn) link;
	struct http_server *server;
	struct http_peer *peer; /* NULL: it is refused and counts apart */
	struct http_parser *parser;
	struct transport *io;
	int tag;
	uint32_t uid;
	struct watch *event;	/* readable or closed, by edges; always on */
	struct watch *writable; /* by edges; on while out holds bytes */
	struct watch *timer;
	struct buf in;	/* received, not consumed: pipelined */
	struct buf out; /* not yet taken by the kernel */
	size_t out_at;
	http_data_fn *on_data;
	void *data_arg;
	enum http_wait wait;
	uint64_t nrequests, wait_request;
	int64_t wait_since_us;
	unsigned busy;	     /* depth of callbacks that still use c */
	bool readable;	     /* the kernel may hold bytes or the end */
	bool shut;	     /* the peer has closed its sending side */
	bool active;	     /* a request is with the application */
	bool chunked;	     /* the streamed answer is framed by chunks */
	bool raw, raw_ended; /* upgraded; on_data was called for the end */
	bool above;	     /* `drained` is to be called: pending was above the low mark */
	bool closing, lingering, broken, dead;
};
/* Takes fd. refusal: it gets a 503 with this reason and counts apart; NULL: it is served. */
void http_conn_start(const struct http_listener *l, int fd, struct http_peer *p,
		     const char *refusal);
/* Refuses a connection that is waiting. */
void http_conn_evict(struct http_conn *c, const char *reason);
/* It waits for a request, for the rest of one, or until its client reads an answer. */
bool http_conn_is_waiting(const struct http_conn *c);
/* A request has come in part; or, unless the peer is trusted, no request has come yet. */
bool http_conn_is_unfinished(const struct http_conn *c);
/* Sends as much as the kernel takes and keeps the rest. After a failure the client counts as gone
 * in the next turn. */
void http_conn_send(struct http_conn *c, const struct iovec *iov, int n);
/* The same for a head and n bytes of a file. A file that has less ends the connection. */
void http_conn_send_file(struct http_conn *c, const struct iovec *head, int fd, uint64_t at,
			 size_t n);
size_t http_conn_pending(const struct http_conn *c);
/* The answer has ended, and the request is freed. keep: the connection may serve another one. */
void http_conn_answered(struct http_conn *c, bool keep);
/* Continues in a later turn, so that callbacks never run inside the application's calls. */
void http_conn_poke(struct http_conn *c);
/* A refusal has been sent: the connection ends. */
void http_conn_refused(struct http_conn *c);
/* Ends the connection; its client counts as gone in the next turn. */
void http_conn_break(struct http_conn *c);
/* The client has left: calls `gone`, frees the connection (or leave() does, once busy is 0). */
void http_conn_lost(struct http_conn *c);
bool http_conn_is_idle(const struct http_conn *c);
/* No request is being answered, and nothing is left to send. */
bool http_conn_is_quiet(const struct http_conn *c);

/* --- http_reply.c --- */
/* Refuses a malformed request and closes. */
void http_refuse(struct http_conn *c, int status, const char *reason);
void http_send_continue(struct http_conn *c);
