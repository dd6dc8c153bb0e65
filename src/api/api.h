// SPDX-License-Identifier: Apache-2.0
/* api/api.h - the API child: HTTP in front, sessions behind.
 *
 * Process agentsh-api: unprivileged, no capabilities, one loop. It is started by the launcher with
 * a link; when the link closes it ends. One row per method (methods.c) gives verb, path, role,
 * ownership and handler; the dispatcher authenticates, resolves what the path names and only then
 * calls the handler. */
#pragma once
#include "api/shape.h"
#include "base/err.h"
#include "base/loop.h"
#include "config/config.h"
#include "event/metrics.h"
#include "event/sink_jsonl.h"
#include "event/store.h"
#include "link/link.h"
#include "session/session.h"
#include "wire/http.h"
#include <sys/queue.h>

#define API_PREFIX "/api/v1"
#define API_LISTENERS 8

struct pending_call;
struct held;
struct api {
	struct loop *loop;
	struct link launcher;
	struct config config;
	bool accept_loss;      /* of what a damaged redo file held */
	bool privileged;       /* the launcher is root's */
	struct strv overrides; /* of flags and environment, for the next reading of the file */
	struct api_keys keys;
	/* NULL while the disk is too full to open it: then only the server's own state is
	 * answered, no_store says why, and what the launcher tells is held. sessions is NULL too.
	 */
	struct store *store;
	struct err no_store;
	STAILQ_HEAD(, held) held;
	struct sink_jsonl *jsonl; /* NULL: off */
	struct metrics *metrics;
	struct sessions *sessions;
	struct http_server *http;
	int output_dir;
	int listener[API_LISTENERS];
	bool listener_unix[API_LISTENERS];
	size_t nlisteners;
	uint32_t owner_uid;
	bool auto_started, stopping, failed;
	uint64_t dropped; /* events lost, as told by stored events */
	bool listening;
	struct watch *launcher_readable, *idle_timer, *open_timer, *leave_timer;
	int64_t idle_since_us;
	LIST_HEAD(, pending_call) pending; /* creates, patches and destroys without an answer yet */
};

/* Runs until the launcher's link closes or it says stop; the exit status. */
int api_main(int link_fd);

/* One request being answered. Lives until the answer has ended or the client has left. */
struct method;
struct call {
	struct api *api;
	struct http_request *req;
	const struct method *method;
	struct caller who;
	struct session *session; /* {id}, where the row owns a session */
	struct command *command; /* {cmd} */
	char id[ID_MAX + 1], cmd[ID_MAX + 1];
	int64_t begun_us;
	bool begun; /* its answer has */
	void *work; /* of the handler: freed by work_free with the call */
	void (*work_free)(struct call *call, bool gone);
};
/* Answers and ends the call. */
void call_reply(struct call *call, int status, struct buf *body);
void call_fail(struct call *call, const struct err *err);
/* Appends the error's body; without a subject of its own it is about the request's path. */
void call_error(struct call *call, const struct err *err, struct buf *out);
/* For answers that the handler sends itself: call_begun with the head, call_end behind its end. */
void call_begun(struct call *call, int status);
void call_end(struct call *call);
/* Begins an answer of server-sent events. */
void call_begin_sse(struct call *call);
/* The body as JSON object (owned); an empty body is {} where optional. Fails with E_BAD_REQUEST. */
int call_json(struct call *call, bool optional, json_t **out, struct err *err);
/* A decimal query parameter, at most max; absent gives fallback. Problems become details. */
uint64_t call_number(struct call *call, const char *name, uint64_t fallback, uint64_t max,
		     struct err *err);
/* The query parameter "limit": 1 to max. */
unsigned call_limit(struct call *call, unsigned fallback, unsigned max, struct err *err);

typedef void method_fn(struct call *call);
enum method_owner { OWN_NONE, OWN_SESSION, OWN_COMMAND, OWN_SESSION_COMMAND };
struct method {
	const char *verb, *path; /* path with {id} and {cmd} */
	const char *rpc;	 /* name in the proto */
	unsigned roles;		 /* bit set of 1<<enum role; 0: no credential needed */
	enum method_owner owner;
	const char *query; /* space-separated names of allowed query parameters */
	bool idempotent;   /* repeating it changes nothing */
	bool audited;	   /* logged at info with who and outcome */
	method_fn *handler;
	const struct shape_body *body; /* NULL: none */
	struct shape_answer answers[3];
};
extern const struct method api_methods[];
extern const size_t api_nmethods;

void api_on_request(struct http_request *req, void *arg);		      /* dispatch.c */
void api_on_bad(int status, const char *reason, struct buf *body, void *arg); /* dispatch.c */
/* On TCP, which is loopback: only a loopback name or address may stand in Host. A browser that was
 * led here by the name of a page's own host sends that name. E_FORBIDDEN. */
int api_check_host(const struct api *api, const struct http_request *req, struct err *err);
/* Before all else: E_FORBIDDEN for a process of a session of root's server. */
int api_admit_peer(const struct api *api, struct http_request *req, struct err *err);
int api_authenticate(struct api *api, struct http_request *req, struct caller *who,
		     struct err *err);
