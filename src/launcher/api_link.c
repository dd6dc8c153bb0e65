// SPDX-License-Identifier: Apache-2.0
/* The link to the API child. Nothing here waits: messages that the socket does not take are queued.
 * While the queue is not empty nothing is read, so a child that does not read cannot make the
 * launcher's memory grow. A child that breaks the protocol is killed. */
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"

void api_link_stop(struct launcher *l)
{
	l->api.telling = l->api.stop_told = false;
	peer_close(&l->api.peer);
}

void api_link_kick(struct launcher *l)
{
	if (l->api.peer.link.fd != -1)
		peer_await_room(&l->api.peer);
}

void api_link_post(struct launcher *l, enum msg_type type, uint32_t req, void *obj, const int *fds,
		   size_t nfds)
{
	struct err err = {0};
	const enum link_status status = peer_send(&l->api.peer, type, req, obj, fds, nfds, &err);

	msg_done(type, obj);
	for (size_t i = 0; i < nfds; i++)
		close(fds[i]);
	if (status != LINK_BROKEN && status != LINK_FULL)
		return; /* a link that has ended shows itself to the reader */
	log_error("cannot send to the API child: killed", "error", err.message);
	child_kill(&l->api.child);
}

void api_link_refuse(struct launcher *l, uint32_t req, const char *id, const struct err *why)
{
	struct launcher_refused refused = {
		.session_id = mem_strdup(id_valid(id) ? id : ""),
		.code = mem_strdup(err_row(why->code)->name),
		.subject = mem_strdup(why->subject),
		.message = mem_strdup(why->message),
		.policy = why->denial[0] != '\0' ? mem_strdup(why->denial) : NULL,
	};

	log_info("session refused", "session_id", refused.session_id, "code", refused.code, "error",
		 refused.message);
	api_link_post(l, MSG_launcher_refused, req, &refused, NULL, 0);
}

static void on_remove(void *ctx, void *msg, struct link_msg *m)
{
	const struct launcher_remove *ask = msg;
	const char *id = id_valid(ask->session_id) ? ask->session_id : "";
	struct session_entry *w = entry_find(ctx, id);

	if (w != NULL)
		entry_remove(w);
	else
		log_debug("asked to remove a session that is not there", "session_id", id);
}

static void on_idle(void *ctx, void *msg, struct link_msg *m)
{
	struct launcher *l = ctx;

	if (l->auto_start && !l->stopping)
		launcher_stop(l, "idle");
}

static void on_ready(void *ctx, void *msg, struct link_msg *m)
{
	launcher_say_ready(ctx);
}

/* Sends what is owed as far as the socket takes it: sessions that the child does not know, the
 * stop. */
static void pump(void *launcher)
{
	struct launcher *l = launcher;

	while (l->api.peer.link.fd != -1 && l->api.peer.queued == 0 &&
	       (adopt_tell(l) || launcher_stop_tell(l)))
		;
}

/* Reads everything that the API child has sent, unless an answer waits. */
static void on_readable(void *arg)
{
	struct launcher *l = arg;
	enum link_status status = LINK_OK;
	struct err err = {0};

	while ((status == LINK_OK || status == LINK_LOST) && l->api.peer.link.fd != -1 &&
	       !l->api.peer.paused) {
		status = peer_read(&l->api.peer, &err);
		if (status == LINK_LOST) /* the API child gives up waiting for an answer */
			log_error("a message of the API child is lost", "error", err.message);
	}
	if (status == LINK_BROKEN)
		log_error("the API child's link is broken", "error", err.message);
	if (status != LINK_BROKEN && status != LINK_EOF)
		return;
	/* The end of the link is the end of the child; when stopping it has the time it was
	 * given. */
	api_link_stop(l);
	if (status == LINK_BROKEN || !l->stopping)
		child_kill(&l->api.child);
}

static const struct peer_row rows[] = {
	{MSG_launcher_create, admit_session}, {MSG_launcher_remove, on_remove},
	{MSG_launcher_idle, on_idle},	      {MSG_launcher_ready, on_ready},
	{MSG_launcher_ask, policies_ask},     {MSG_launcher_limit, narrow_session},
};
static const struct peer_kind kind = {.self = SIDE_LAUNCHER,
				      .other = SIDE_API,
				      .rows = rows,
				      .n = ARRAY_LEN(rows),
				      .readable = on_readable,
				      .writable = pump,
				      .pauses = true};

int api_link_start(struct launcher *l, int fd, struct err *err)
{
	return peer_open(&l->api.peer, &kind, l->loop, fd, l, err);
}

void api_link_end(struct launcher *l)
{
	struct link_msg m;

	if (l->api.peer.link.fd == -1)
		return;
	while (link_recv(&l->api.peer.link, &m, NULL) == LINK_OK) {
		if (m.type == MSG_launcher_remove)
			peer_dispatch(&kind, l, &m, NULL);
		link_msg_done(&m);
	}
	api_link_stop(l);
}
