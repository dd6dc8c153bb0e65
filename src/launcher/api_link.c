// SPDX-License-Identifier: Apache-2.0
/* The link to the API child. Nothing here waits: what the socket does not take stays queued, and
 * while anything is queued nothing is read, so that a child that does not listen cannot make us
 * grow. A child that breaks the protocol is killed. */
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"

static void letter_free(struct letter *letter)
{
	msg_done(letter->type, letter->obj);
	free(letter->obj);
	for (size_t i = 0; i < letter->nfds; i++)
		close(letter->fd[i]);
	free(letter);
}

static void on_readable(void *arg)
{
	api_link_read(arg);
}

static void on_writable(void *arg)
{
	api_link_pump(arg);
}

int api_link_start(struct launcher *l, int fd, struct err *err)
{
	struct api_child *api = &l->api;

	link_init(&api->link, fd, SIDE_LAUNCHER, SIDE_API);
	STAILQ_INIT(&api->letters);
	if (fdio_nonblock(fd) < 0)
		return err_errno(err, E_INTERNAL, NULL, "cannot prepare the API child's link");
	api->readable = watch_readable(l->loop, fd, on_readable, l);
	api->writable = watch_writable(l->loop, fd, on_writable, l);
	if (watch_start(api->readable) < 0)
		return err_set(err, E_UNAVAILABLE, NULL, "cannot hear the API child: " LOOP_FULL);
	return 0;
}

static void drop_letters(struct api_child *api)
{
	while (!STAILQ_EMPTY(&api->letters)) {
		struct letter *first = STAILQ_FIRST(&api->letters);

		STAILQ_REMOVE_HEAD(&api->letters, next);
		letter_free(first);
	}
}

void api_link_stop(struct launcher *l)
{
	struct api_child *api = &l->api;

	if (api->link.fd == -1)
		return;
	drop_letters(api);
	watch_free(take(api->readable));
	watch_free(take(api->writable));
	api->telling = api->stop_told = false;
	link_done(&api->link);
}

void api_link_kick(struct launcher *l)
{
	if (l->api.link.fd == -1)
		return;
	/* First the one, then the other: what epoll has of it stays, and needs no room. */
	watch_start(l->api.writable);
	watch_stop(l->api.readable);
}

void api_link_post(struct launcher *l, enum msg_type type, uint32_t req, void *obj, const int *fds,
		   size_t nfds)
{
	struct letter *letter = mem_new(struct letter);

	ensure(nfds <= FDIO_MAX_FDS);
	letter->type = type;
	letter->req = req;
	letter->obj = mem_dup(obj, msg_row(type)->fields->size);
	if (nfds > 0)
		memcpy(letter->fd, fds, nfds * sizeof(*fds));
	letter->nfds = nfds;
	if (l->api.link.fd == -1) {
		letter_free(letter);
		return;
	}
	STAILQ_INSERT_TAIL(&l->api.letters, letter, next);
	api_link_kick(l);
}

void api_link_refuse(struct launcher *l, uint32_t req, const char *id, const struct err *why)
{
	struct launcher_refused refused = {
		.session_id = mem_strdup(id_valid(id) ? id : ""),
		.code = mem_strdup(err_row(why->code)->name),
		.subject = mem_strdup(why->subject),
		.message = mem_strdup(why->message),
		.policy = why->policy[0] != '\0' ? mem_strdup(why->policy) : NULL,
	};

	log_info("session refused", "session_id", refused.session_id, "code", refused.code, "error",
		 refused.message);
	api_link_post(l, MSG_launcher_refused, req, &refused, NULL, 0);
}

static int on_remove(struct launcher *l, struct link_msg *m, struct err *err)
{
	struct launcher_remove ask;
	const int r = link_unpack(m, &ask, err);
	struct session_entry *w;

	if (r < 0)
		return r;
	w = id_valid(ask.session_id) ? entry_find(l, ask.session_id) : NULL;
	if (w != NULL)
		entry_remove(w);
	else
		log_debug("asked to remove a session that is not there", "session_id",
			  id_valid(ask.session_id) ? ask.session_id : "");
	msg_done(MSG_launcher_remove, &ask);
	return 0;
}

void api_link_end(struct launcher *l)
{
	struct link_msg m;

	if (l->api.link.fd == -1)
		return;
	drop_letters(&l->api);
	while (link_recv(&l->api.link, &m, NULL) == LINK_OK) {
		if (m.type == MSG_launcher_remove)
			on_remove(l, &m, NULL);
		link_msg_done(&m);
	}
	api_link_stop(l);
}

static void broken(struct launcher *l, const char *what, const struct err *err)
{
	log_error(what, "error", err->message);
	api_link_stop(l);
	api_child_kill(l);
}

/* 1: sent, or nothing to send; 0: later; -1: the link is gone. */
static int send_first(struct launcher *l)
{
	struct letter *first = STAILQ_FIRST(&l->api.letters);
	struct err err = {0};
	enum link_status status;

	if (first == NULL)
		return 1;
	status = link_send(&l->api.link, first->type, first->req, first->obj, first->fd,
			   first->nfds, &err);
	if (status == LINK_FULL)
		return 0;
	if (status != LINK_OK) {
		/* It has closed its end, or is about to lose it. When stopping it may take its time
		 * to exit. */
		log_debug("cannot send to the API child", "error", err.message);
		if (status != LINK_EOF || !l->stopping)
			api_child_kill(l);
		api_link_end(l);
		return -1;
	}
	STAILQ_REMOVE_HEAD(&l->api.letters, next);
	letter_free(first);
	return 1;
}

void api_link_pump(struct launcher *l)
{
	int r;

	if (l->api.link.fd == -1)
		return;
	do
		r = send_first(l);
	while (r > 0 && (!STAILQ_EMPTY(&l->api.letters) || adopt_tell(l) || launcher_stop_tell(l)));
	if (r == 0)
		watch_start(l->api.writable);
	if (r > 0) {
		watch_start(l->api.readable);
		watch_stop(l->api.writable);
	}
}

static int on_idle(struct launcher *l, struct link_msg *m, struct err *err)
{
	if (l->auto_start && !l->stopping)
		launcher_stop(l, "idle");
	return 0;
}

static int on_ready(struct launcher *l, struct link_msg *m, struct err *err)
{
	launcher_say_ready(l);
	return 0;
}

static const struct {
	enum msg_type type;
	int (*apply)(struct launcher *l, struct link_msg *m, struct err *err);
} handlers[] = {
	{MSG_launcher_create, make_session}, {MSG_launcher_remove, on_remove},
	{MSG_launcher_idle, on_idle},	     {MSG_launcher_ready, on_ready},
	{MSG_launcher_ask, policies_ask},    {MSG_launcher_limit, narrow_session},
};

static int take_message(struct launcher *l, struct link_msg *m, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(handlers); i++)
		if (handlers[i].type == m->type)
			return handlers[i].apply(l, m, err);
	return err_set(err, E_BAD_REQUEST, NULL, "message %u has no place here", m->type);
}

void api_link_read(struct launcher *l)
{
	enum link_status status = LINK_OK;
	struct err err = {0};

	while ((status == LINK_OK || status == LINK_LOST) && l->api.link.fd != -1 &&
	       STAILQ_EMPTY(&l->api.letters)) {
		struct link_msg m;

		status = link_recv(&l->api.link, &m, &err);
		if (status == LINK_LOST) /* the API child gives up waiting for an answer */
			log_error("a message of the API child is lost", "error", err.message);
		if (status != LINK_OK)
			continue;
		if (take_message(l, &m, &err) < 0)
			status = LINK_BROKEN;
		link_msg_done(&m);
	}
	if (status == LINK_EOF) {
		/* The end of the link is the end of the child; when stopping it has the time it was
		 * given. */
		api_link_stop(l);
		if (!l->stopping)
			api_child_kill(l);
	} else if (status == LINK_BROKEN) {
		broken(l, "the API child's link is broken", &err);
	}
}
