// SPDX-License-Identifier: Apache-2.0
/* wire/http.h - a strict HTTP/1.1 server on base/loop. No knowledge of agentsh.
 *
 * One thread. Requests of a connection are handled one after another; a pipelined request waits
 * until its predecessor's answer is written. A client that leaves is noticed at any time, also
 * while its request is being worked on (EPOLLRDHUP: a half-close counts as leaving, except after an
 * upgrade). Refused, each with 400 (or the status in brackets) and a closed connection: bare LF,
 * obs-fold, space before the colon, NUL or control bytes, bad method or target, HTTP version other
 * than 1.0/1.1 [505], missing or double Host in 1.1, several or malformed Content-Length,
 * Content-Length with Transfer-Encoding, any transfer coding but a single `chunked` [501],
 * Transfer-Encoding in 1.0, bad chunk sizes and trailers, chunk extensions over a limit, too many
 * or too long headers [431], too long target [414], body over the limit [413], Expect other than
 * 100-continue [417]. A header that is not complete by an absolute deadline [408], a body below a
 * minimum rate [408], and idle connections are closed.
 *
 * Connections are shared out by peer: a user of a unix socket, or what http_set_peer names. One
 * that has its share, and everyone while all are taken, gets 503, and the connection is closed. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "wire/transport.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct http_server;
struct http_request;

struct http_limits {
	size_t max_target, max_header_bytes, max_headers, max_body;
	int header_timeout_ms, idle_timeout_ms;
	int body_min_rate, body_grace_ms; /* bytes a second after the first 5 s */
	unsigned max_connections;
	uint32_t owner_uid;	  /* has the same rights to connections as root */
	size_t max_pending_write; /* of a stream; above, its client counts as gone */
};
extern const struct http_limits http_limits_default;

/* Makes the body (application/json) of the answer to a request that the server refuses by itself;
 * NULL: it is empty. The connection is closed afterwards. */
typedef void http_bad_fn(int status, const char *reason, struct buf *body, void *arg);
typedef void http_request_fn(struct http_request *req, void *arg);

struct http_server *http_server_new(struct loop *loop, const struct http_limits *limits,
				    http_request_fn *on_request, http_bad_fn *on_bad, void *arg);
/* Accepts on a listening socket (borrowed, non-blocking). http_tag returns tag for its requests.
 * open makes the transport of each connection. */
int http_server_listen(struct http_server *s, int fd, int tag, transport_open_fn *open,
		       struct err *err);
/* Sets the limits of later connections. */
void http_server_limit(struct http_server *s, const struct http_limits *limits);
/* Stops accepting; open connections finish their answer and close. */
void http_server_drain(struct http_server *s);
/* Calls fn once, as soon as no connection waits for an answer or has one to send; maybe at once. */
void http_server_on_quiet(struct http_server *s, void (*fn)(void *arg), void *arg);
unsigned http_server_connections(const struct http_server *s);
void http_server_free(struct http_server *s); /* closes all; `gone` is called */

/* --- the request; valid until its answer has ended or `gone` was called --- */
const char *http_method(const struct http_request *req); /* "GET" */
/* Percent-decoded, no query; malformed escapes and those of NUL and '/' were refused. */
const char *http_path(const struct http_request *req);
const char *
http_query(const struct http_request *req,
	   const char *name); /* decoded value, NULL if absent; twice is refused (400) */
/* The name of a query parameter by its place; NULL behind the last one. */
const char *http_query_name(const struct http_request *req, size_t i);
const char *http_header(const struct http_request *req,
			const char *name); /* case-insensitive; lists joined by ", "; NULL */
const char *http_body(const struct http_request *req, size_t *len); /* never NULL */
bool http_wants_upgrade(const struct http_request *req, const char *protocol);
int http_fd(const struct http_request *req);  /* the connection, to pass it on; borrowed */
int http_tag(const struct http_request *req); /* of the listener */
/* The user at the other end of a unix socket (SO_PEERCRED, when it connected). */
#define HTTP_NO_UID UINT32_MAX
uint32_t http_uid(const struct http_request *req);
/* Counts the connection as one of this peer from now on (TCP clients without a name are one peer).
 * False: the peer has its share; the connection closes after the answer, which should be a 503. */
bool http_set_peer(struct http_request *req, const char *name);
/* gone: called once if the client leaves before the answer has ended; the request is freed when it
 * returns. drained: called whenever pending falls below the low mark (64 KiB) after having been
 * above; after an upgrade whenever nothing is pending any more. Either may be NULL. */
typedef void http_hook_fn(struct http_request *req, void *arg);
void http_hooks(struct http_request *req, http_hook_fn *gone, http_hook_fn *drained, void *arg);

struct http_extra {
	const char *name, *value;
};
/* A whole answer; frees the request. extra ends with name NULL; may be NULL. HEAD gets no body. */
void http_reply(struct http_request *req, int status, const char *type, const void *body,
		size_t len, const struct http_extra *extra);
/* A streamed answer (chunked; 1.0: until close). */
void http_stream_start(struct http_request *req, int status, const char *type,
		       const struct http_extra *extra);
void http_stream_write(struct http_request *req, const void *p, size_t n);
void http_stream_end(struct http_request *req);
/* 101; afterwards the bytes are raw: on_data gets what arrives (n 0: the client closed its sending
 * side). http_stream_write and http_stream_end (closes after flushing) apply. */
typedef void http_data_fn(struct http_request *req, const void *p, size_t n, void *arg);
void http_upgrade(struct http_request *req, const char *protocol, http_data_fn *on_data, void *arg);
/* The same as http_stream_write after an upgrade, from several places. */
void http_stream_send(struct http_request *req, const struct iovec *iov, int n);
/* The same for a head and n bytes of a file from `at` on. The kernel may read them after the call:
 * they must not change. The file must have them, or the client counts as gone. */
void http_stream_send_file(struct http_request *req, const struct iovec *head, int fd, uint64_t at,
			   size_t n);
/* Bytes accepted for writing but not yet given to the kernel. */
size_t http_pending(const struct http_request *req);

/* --- the parser alone, for fuzzers and tests: feeds bytes, no socket --- */
struct http_parser;
struct http_parser *http_parser_new(const struct http_limits *limits);
void http_parser_free(struct http_parser *p);
enum http_parse { HTTP_MORE, HTTP_READY, HTTP_BAD };
/* Consumes from data; *used tells how much. READY: a whole request is held (http_parser_request
 * until http_parser_next). BAD: http_parser_refusal tells why; the parser takes nothing more. */
enum http_parse http_parser_feed(struct http_parser *p, const void *data, size_t n, size_t *used);
struct http_request *http_parser_request(struct http_parser *p);
void http_parser_next(struct http_parser *p);
struct http_refusal {
	int status;
	const char *reason;
};
const struct http_refusal *http_parser_refusal(const struct http_parser *p);
