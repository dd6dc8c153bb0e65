// SPDX-License-Identifier: Apache-2.0
/* client/client_internal.h - functions that the files of the client share.
 *
 * address.c parses an address and connects to it, connect.c finds or starts a server, response.c
 * reads answers, client.c makes calls, stdio.c passes a command's streams through. */
#pragma once
#include "client/client.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CLIENT_ANSWER_MAX ((size_t)64 * 1024 * 1024)
#define CLIENT_HEAD_MAX ((size_t)64 * 1024)

struct address {
	char *path;	   /* owned; unix socket, or NULL */
	char *host, *port; /* owned; TCP */
};
/* "unix:/path", "/path", "http://host:port", "host:port", "[::1]:port". Fails with
 * E_BAD_REQUEST. */
int address_parse(const char *text, struct address *out, struct err *err);
void address_done(struct address *a);
/* Returns a connected blocking socket, or -1 and errno. */
int address_dial(const struct address *a);

/* Takes fd and returns a descriptor above 2, or -1 for -1. The caller of agentsh may have closed
 * the standard descriptors, which are the command's streams. */
int client_above_stdio(int fd);

struct client {
	char *name; /* owned; the address as it was given */
	struct address address;
	char *api_key; /* owned, or NULL */
	int fd;	       /* -1: not connected */
	struct buf in; /* received, not consumed */
	size_t in_at;
	int patience_ms; /* 0: for ever */
};

/* --- connect.c --- */
struct client_places {
	const char *sockets[3]; /* in order of preference, ends with NULL */
	const char *dir;	/* for a started server's log */
	const char *program;	/* agentsh-server; NULL: beside this program */
	bool only;		/* a server that is started must listen at the first socket */
};
int client_open_at(const struct client_options *o, const struct client_places *places,
		   struct client **out, struct err *err);

/* --- response.c --- */
#define LENGTH_UNTIL_CLOSE UINT64_MAX
struct answer_head {
	int status;
	bool chunked;
	bool keep;	 /* the connection may be used again */
	uint64_t length; /* of a body that is not chunked */
};
/* Reads and parses the head of the next answer that is not 1xx (except 101). Sets *began if a byte
 * came. */
int answer_head(struct client *c, struct answer_head *out, bool *began, struct err *err);
/* Gives the body to sink piece by piece; returns early what sink returns, if it is not 0. */
typedef int answer_sink_fn(const char *p, size_t n, void *arg, struct err *err);
int answer_body(struct client *c, const struct answer_head *head, answer_sink_fn *sink, void *arg,
		struct err *err);
/* Turns an answer of 400 or above into *err; always fails. */
int answer_error(int status, const struct buf *body, struct err *err);

/* --- client.c --- */
/* Connects, or connects again. Fails with E_FORBIDDEN or E_UNAVAILABLE. */
int client_connect(struct client *c, struct err *err);
/* Sends the call (upgrade: asks for this protocol) and reads the head of its answer. Fails with the
 * error of an answer with status >= 400. */
int client_ask(struct client *c, const struct client_call *call, const char *upgrade,
	       struct answer_head *head, struct err *err);
/* Appends the whole body; keeps the connection only if the head allows it. */
int client_read_all(struct client *c, const struct answer_head *head, struct buf *body,
		    struct err *err);
void client_disconnect(struct client *c);
