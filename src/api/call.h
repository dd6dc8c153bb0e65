// SPDX-License-Identifier: Apache-2.0
/* api/call.h - one call of a method of the API, for any protocol.
 *
 * A provider (call_http.c for HTTP/1) turns a request of its protocol into a call: it finds the
 * row, fills the call and passes it to call_run. Handlers use parameters by name, a body, an answer
 * or a stream of messages; work_free is called when the client has gone. They do not depend on the
 * protocol. API process, loop thread. */
#pragma once
#include "api/shape.h"
#include "session/session.h"
#include <sys/queue.h>

struct api;
struct call;
struct method;

/* Listeners, as bits. */
enum { LISTENER_UNIX = 1, LISTENER_TCP = 2 };

/* What a message of a stream is. The first five have the numbers of enum stdio_type. */
enum call_part {
	CALL_STDIN,
	CALL_STDOUT, /* bytes that the command wrote */
	CALL_STDERR,
	CALL_CONTROL, /* a JSON object: signals and credit */
	CALL_RESULT,  /* the answer as JSON; the last message */
	CALL_EVENT,   /* an event as JSON, beside the output of its command */
	CALL_FEED,    /* the same in a feed: a client may go on behind its number */
	CALL_ALIVE,   /* nothing: detects a client that has gone, and keeps the connection open */
	CALL_PARTS
};
struct call_message {
	enum call_part part;
	uint64_t at;	  /* of bytes: the offset of the first; of an event: its sequence number */
	const void *data; /* NULL: they are in a file, from `at` on */
	size_t len;
	int fd; /* the file, borrowed; its bytes do not change any more */
};

/* Callbacks of a handler for its stream. `room` and `broken` may end the call. */
struct call_stream {
	/* There may be room again (call_has_room), or all of a client's messages were passed on. */
	void (*room)(struct call *call);
	/* Bidirectional only: a message of the client, its end of input, a broken protocol. */
	int (*message)(struct call *call, const struct call_message *m, struct err *err);
	void (*end)(struct call *call);
	void (*broken)(struct call *call, const struct err *err);
};

struct call_provider {
	/* A parameter that is not in the path, or NULL. */
	const char *(*param)(const struct call *call, const char *name);
	/* Adds a detail to err for each parameter that is not in the row. */
	void (*check_params)(const struct call *call, struct err *err);
	/* The client's key, or NULL. E_UNAUTHENTICATED: what it sent is not one key. */
	int (*credential)(const struct call *call, const char **secret, struct err *err);
	/* Counts the connection as one of this peer; false: the peer has its share of them. */
	bool (*set_peer)(struct call *call, const char *name);
	/* A whole answer. code is E_OK, or that of the error in the body. */
	void (*answer)(struct call *call, int status, enum err_code code, const char *type,
		       const struct buf *body);
	/* Begins a stream by the row's kind; returns the status that was sent. */
	int (*stream_begin)(struct call *call);
	void (*stream_write)(struct call *call, const struct call_message *m);
	size_t (*stream_pending)(const struct call *call); /* bytes that the kernel has not taken */
	void (*stream_end)(struct call *call);
	void (*free)(struct call *call);
};

#define CALL_PATH_PARAMS 3
#define CALL_NO_UID UINT32_MAX

/* One request being answered. Lives until the answer has ended or the client has left. */
struct call {
	struct api *api;
	const struct call_provider *provider;
	const struct method *method;
	/* The client: the bit of its listener and its connection (borrowed). */
	unsigned listener;
	int fd;
	uint32_t uid;		      /* of a client of the unix socket; else CALL_NO_UID */
	bool from_page;		      /* sent by a web page in a browser */
	bool head_only;		      /* a stream ends after its head */
	const char *target;	      /* the path of the request, for errors */
	const char *body, *body_type; /* borrowed; type NULL: not given */
	size_t body_len;
	struct {
		const char *name; /* in the row's path, ends at '}' */
		char value[ID_MAX + 1];
	} path[CALL_PATH_PARAMS];
	size_t npath;
	struct caller who;
	struct session *session; /* {id}, where the row owns a session */
	struct command *command; /* {cmd} */
	struct buf reply;	 /* what w has written; call_reply sends it */
	struct jw w;
	const struct call_stream *stream; /* NULL: not a stream */
	int64_t begun_us;
	LIST_ENTRY(call) next; /* of the calls that wait */
	bool waits;	       /* for an answer that comes later */
	bool gone;	       /* the client has left meanwhile */
	bool begun;	       /* its answer has */
	void *work;	       /* the handler's; work_free frees it with the call */
	void (*work_free)(struct call *call, bool gone);
};

/* ---- for handlers ---- */

/* A parameter by its name, from the path or elsewhere; NULL: it was not given. */
const char *call_param(const struct call *call, const char *name);
/* A decimal parameter, at most max; absent gives fallback. Problems become details. */
uint64_t call_number(struct call *call, const char *name, uint64_t fallback, uint64_t max,
		     struct err *err);
/* The parameter "limit": 1 to max. */
unsigned call_limit(struct call *call, unsigned fallback, unsigned max, struct err *err);
/* The body as JSON object (owned); an empty body is {} where optional. Fails with E_BAD_REQUEST. */
int call_json(struct call *call, bool optional, json_t **out, struct err *err);

/* Each of these answers and ends the call. call_reply sends what call->w has written. */
void call_reply(struct call *call, int status);
void call_reply_as(struct call *call, int status, const char *type);
void call_fail(struct call *call, const struct err *err);
void call_finish(struct call *call, int r, const struct err *err); /* fails, or replies with 200 */
/* Appends the error's body. An error without a subject gets the target of the call. */
void call_error(struct call *call, const struct err *err, struct buf *out);

/* A stream by the row's kind; a unary row that streams begins a server stream. */
void call_stream_begin(struct call *call, const struct call_stream *stream);
void call_send(struct call *call, enum call_part part, uint64_t at, const void *data, size_t len);
/* Bytes of a bidirectional stream that are in a file, at the same offset. */
void call_send_file(struct call *call, enum call_part part, uint64_t at, int fd, size_t len);
bool call_has_room(const struct call *call);
void call_stream_end(struct call *call); /* ends the call */

/* For an answer that comes later, by a callback with the call as its argument: until call_resume
 * the call stays, even if its client leaves. False: the client has left, and the call is freed. */
struct call *call_wait(struct call *call);
bool call_resume(struct call *call);
/* After sessions_free, when no client is left: no answer will come. */
void call_resume_all(struct api *api);

/* ---- rows ---- */

typedef void method_fn(struct call *call);
enum method_kind { UNARY, SERVER_STREAM, BIDIRECTIONAL };
enum method_owner { OWN_NONE, OWN_SESSION, OWN_COMMAND, OWN_SESSION_COMMAND };
struct method {
	const char *verb, *path; /* a part of the path in braces is a parameter */
	const char *rpc;	 /* name in the proto */
	enum method_kind kind;
	unsigned listeners;	 /* that offer it */
	unsigned roles;		 /* bit set of 1<<enum role; 0: no credential needed */
	enum method_owner owner; /* {id} names the caller's session, {cmd} the caller's command */
	/* Other parameters, separated by spaces; in HTTP, those with a capital letter are header
	 * fields. */
	const char *params;
	bool idempotent; /* repeating it changes nothing */
	bool audited;	 /* logged at info, with caller and outcome */
	method_fn *handler;
	const struct shape_body *body; /* NULL: none */
	struct shape_answer answers[3];
};
extern const struct method api_methods[];
extern const size_t api_nmethods;
extern const struct method api_metrics_method; /* its path is the configuration's */

/* ---- for providers ---- */

/* request_id: as the client chose it, or NULL. */
void call_init(struct call *call, struct api *api, const struct call_provider *provider,
	       const char *request_id);
/* Whether the path matches the row; if so, fills the call's path parameters. */
bool call_match(struct call *call, const struct method *row, const char *path);
/* The first check: E_FORBIDDEN for a process of a session, if root runs the server. */
int call_admit_peer(const struct call *call, struct err *err);
/* Authenticates, checks, resolves what the path names and calls the row's handler. */
void call_run(struct call *call, const struct method *row);
void call_free(struct call *call, bool gone);

/* auth.c: fills call->who. */
int call_authenticate(struct call *call, struct err *err);
