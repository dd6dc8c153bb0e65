// SPDX-License-Identifier: Apache-2.0
/* api/api.h - the API process: calls in front (call.h), sessions behind.
 *
 * Process agentsh-api: unprivileged, no capabilities, one loop. The launcher starts it with a link;
 * when the link closes it ends. One row per method (methods.c) gives verb, path, listeners, role,
 * ownership and handler. */
#pragma once
#include "api/call.h"
#include "base/err.h"
#include "base/loop.h"
#include "config/config.h"
#include "event/metrics.h"
#include "event/sink_jsonl.h"
#include "event/store.h"
#include "link/peer.h"
#include "session/session.h"
#include <sys/queue.h>

#define API_PREFIX "/api/v1"
#define API_LISTENERS 8

struct held;
struct http_server;
struct api {
	struct loop *loop;
	struct peer launcher;
	struct config config;
	bool accept_loss; /* start although a damaged redo file held events */
	int64_t share_mb; /* the whole of which "75%" is a part */
	bool privileged;  /* the launcher is root's */
	struct strv
		overrides; /* from flags and environment; applied each time that the file is read */
	struct api_keys keys;
	/* NULL while the disk is too full to open it: then the server answers only about its own
	 * state, no_store says why, and messages of the launcher for the sessions are held.
	 * sessions is NULL, too. */
	struct store *store;
	struct err no_store;
	STAILQ_HEAD(, held) held;
	struct sink_jsonl *jsonl; /* NULL: off */
	struct metrics *metrics;
	struct sessions *sessions;
	struct http_server *http;
	int output_dir;
	int listener[API_LISTENERS];
	unsigned listener_kind[API_LISTENERS]; /* LISTENER_… */
	size_t nlisteners;
	const struct method *methods;
	size_t nmethods;
	uint32_t owner_uid;
	bool auto_started, stopping, failed;
	uint64_t dropped; /* events that were lost, counted by the stored events about that */
	bool listening;
	struct watch *idle_timer, *open_timer, *leave_timer;
	int64_t idle_since_us;
	LIST_HEAD(, call) waiting; /* calls with an answer that comes later */
};

/* Runs until the launcher closes the link or sends launcher_stop; returns the exit status. */
int api_main(int link_fd);

/* call_http.c: turns HTTP requests into calls, and makes the error body of a malformed request. */
struct http_request;
void api_on_request(struct http_request *req, void *arg);
void api_on_bad(int status, const char *reason, struct buf *body, void *arg);
