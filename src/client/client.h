// SPDX-License-Identifier: Apache-2.0
/* client/client.h - a blocking HTTP/1.1 client for the CLI: unix socket or TCP, keep-alive,
 * streaming, upgrade; finds or starts the server. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
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
 * user's runtime directory, /run/agentsh), else starts one (agentsh-server --auto, waits for its
 * ready pipe) unless no_auto or AGENTSH_NO_AUTO. E_UNAVAILABLE with the remedy. */
int client_open(const struct client_options *o, struct client **out, struct err *err);
void client_close(struct client *c);

/* The process that listens where a client has just been connected. */
struct client_peer {
	const char *socket; /* borrowed from the client */
	pid_t pid;
	uid_t uid;
};
/* E_BAD_REQUEST over TCP; E_UNAVAILABLE if its process cannot be seen from here. */
int client_peer(const struct client *c, struct client_peer *out, struct err *err);

/* How long to wait for each part of an answer; by default for ever, as commands may take long. */
void client_set_patience(struct client *c, int ms);

struct client_answer {
	int status;
	struct buf body;
};
void client_answer_done(struct client_answer *a);
struct client_call {
	const char *method, *path; /* path with query */
	const void *body;
	size_t len;
	const char *idempotency_key, *accept, *last_event_id;
	struct buf *refusal; /* gets the body of an answer with status >= 400; NULL: not wanted */
};
/* One call. An answer with status >= 400 is turned into *err (code, message, details of the body)
 * and fails. */
int client_call(struct client *c, const struct client_call *call, struct client_answer *out,
		struct err *err);
/* GET or POST whose answer is SSE: fn per message; a non-zero return of fn stops. */
typedef int client_sse_fn(const char *id, const char *name, const char *data, size_t len,
			  void *arg);
int client_stream(struct client *c, const struct client_call *call, client_sse_fn *fn, void *arg,
		  struct err *err);
/* Upgrade to agentsh-stdio/1: passes our fds 0, 1, 2 and signals through until the result; *answer
 * is the result JSON. */
int client_stdio(struct client *c, const struct client_call *call, struct buf *answer,
		 struct err *err);
