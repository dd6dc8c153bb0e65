// SPDX-License-Identifier: Apache-2.0
/* client/client.h - a blocking HTTP/1.1 client for the CLI: unix socket or TCP, keep-alive,
 * streaming, upgrade; finds or starts the server. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct client;
struct client_options {
	const char *server;  /* "unix:/path", "/path", "http://127.0.0.1:8080", "127.0.0.1:8080";
				NULL: find */
	const char *api_key; /* NULL: none */
	bool no_auto;	     /* never start a server */
};
/* Finds the server (flag, AGENTSH_SERVER, the socket of AGENTSH_CONFIG and then no other one, the
 * user's runtime directory, /run/agentsh), or starts one (agentsh-server --auto) and waits for its
 * ready pipe, unless no_auto or AGENTSH_NO_AUTO. Fails with E_UNAVAILABLE and the remedy. */
int client_open(const struct client_options *o, struct client **out, struct err *err);
void client_close(struct client *c);

/* The process that listens on the socket of a client. */
struct client_peer {
	const char *socket; /* borrowed from the client */
	pid_t pid;
	uid_t uid;
};
/* Fails with E_BAD_REQUEST over TCP, and with E_UNAVAILABLE if the process is in another namespace.
 */
int client_peer(const struct client *c, struct client_peer *out, struct err *err);

/* Sets how long to wait for each part of an answer; the default is for ever. */
void client_set_patience(struct client *c, int ms);

struct client_call {
	const char *method, *path; /* path with query */
	const void *body;
	size_t len;
	const char *idempotency_key, *accept, *last_event_id;
	struct buf *refusal; /* gets the body of an answer with status >= 400; may be NULL */
	/* client_stdio: called with the session that the server made for the command, before its
	 * output; may be NULL */
	void (*on_session)(const json_t *session, void *arg);
	void *arg;
};
/* Makes one call and appends the body of its answer. Fails with the error of the body for an answer
 * with status >= 400. */
int client_call(struct client *c, const struct client_call *call, struct buf *answer,
		struct err *err);
/* Makes a call with an SSE answer and calls fn for each message until fn returns non-zero. */
typedef int client_sse_fn(const char *id, const char *name, const char *data, size_t len,
			  void *arg);
int client_stream(struct client *c, const struct client_call *call, client_sse_fn *fn, void *arg,
		  struct err *err);
/* Upgrades to agentsh-stdio/1 and passes fds 0, 1, 2 and signals through until the result; answer
 * gets the result JSON. */
int client_stdio(struct client *c, const struct client_call *call, struct buf *answer,
		 struct err *err);
