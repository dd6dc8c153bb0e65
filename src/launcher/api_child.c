// SPDX-License-Identifier: Apache-2.0
/* The API child: it starts without privilege, gets everything by its link, and is started again
 * when it dies. It ends when its link does.
 *
 * Nothing on the link waits: messages that the socket does not take are queued. While the queue is
 * not empty nothing is read, so a child that does not read cannot make the launcher's memory grow.
 * A child that breaks the protocol is killed. */
#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "launcher/make.h"
#include "launcher/policy_snapshots.h"
#include "launcher/session_limits.h"
#include <fcntl.h>

#define FAST_US 1000000
#define FAST_MAX 5
#define AGAIN_MAX_MS 32000

/* ---- the link ---- */

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

/* Sends the stop once, after the last session was announced; false if there is nothing to send. */
static bool tell_stop(struct launcher *l)
{
	if (!l->stopping || l->api.telling || l->api.stop_told)
		return false;
	l->api.stop_told = true;
	api_link_post(l, MSG_launcher_stop, 0, &(struct msg_empty){0}, NULL, 0);
	return true;
}

/* Sends what the child must still get, as far as the socket takes it: sessions, then the stop. */
static void pump(void *launcher)
{
	struct launcher *l = launcher;

	while (l->api.peer.link.fd != -1 && l->api.peer.queued == 0 &&
	       (adopt_tell(l) || tell_stop(l)))
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
	{MSG_launcher_trim, trim_home},
};
static const struct peer_kind kind = {.self = SIDE_LAUNCHER,
				      .other = SIDE_API,
				      .rows = rows,
				      .n = ARRAY_LEN(rows),
				      .readable = on_readable,
				      .writable = pump,
				      .pauses = true};

/* The child is dead: its last messages count (sessions to remove), then the link is closed. */
static void end_link(struct launcher *l)
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

/* ---- the process ---- */

static void on_again(void *arg)
{
	struct launcher *l = arg;
	struct err err = {0};

	if (l->stopping || api_child_start(l, &err) == 0)
		return;
	log_error("cannot start the API child", "error", err.message);
	watch_after(l->api.again, 1000);
}

/* Starts the API child again: at once, or later if it died early several times in a row. */
static void restart(struct launcher *l, bool fast)
{
	struct api_child *api = &l->api;
	const bool came_up = l->ready || l->alive > 0;
	unsigned late;

	if (came_up)
		api->fast_deaths = fast ? api->fast_deaths + 1 : 0;
	late = api->fast_deaths < FAST_MAX ? 0 : api->fast_deaths - FAST_MAX + 1;
	/* It has never listened and no session lives; or the next command starts a server anyway.
	 */
	if (!came_up || (late > 0 && l->auto_start)) {
		l->status = err_row(E_UNAVAILABLE)->exit;
		launcher_stop(l, came_up ? "the API child does not stay"
					 : "the API child cannot start");
		return;
	}
	watch_after(api->again, late == 0 ? 0 : late > 5 ? AGAIN_MAX_MS : 500U << late);
}

static void on_death(void *arg)
{
	struct launcher *l = arg;
	const bool fast = clock_mono_us(&clock_system) - l->api.started_us < FAST_US;
	siginfo_t si = {0};
	char reason[64];
	struct session_entry *w, *next;

	if (!child_ended(&l->api.child, &si))
		return;
	death_reason("it", &si, reason, sizeof(reason));
	log_write(l->stopping ? LOG_INFO : LOG_WARN, "the API child ended", "reason", reason, NULL);
	end_link(l);
	for (w = TAILQ_FIRST(&l->entries); w != NULL; w = next) {
		next = TAILQ_NEXT(w, next);
		if (w->making != NULL)
			make_abandon(w);
	}
	if (!l->stopping)
		restart(l, fast);
	if (l->stopping) {
		entries_kill(l);
		launcher_maybe_end(l);
	}
}

/* A descriptor that cannot be had makes api_link_post fail, which ends the child. */
static void greet(struct launcher *l)
{
	const struct settings *s = &l->settings;
	struct launcher_hello hello = {
		.version = LINK_VERSION,
		.privileged = l->privileged,
		.auto_started = l->auto_start,
		.accept_loss = l->accept_loss && !l->ready,
		.owner_uid = l->owner_uid,
		.state_dir = mem_strdup(s->config.base_dir),
		.runtime_dir = mem_strdup(l->place.runtime),
		.has_config = s->has_config,
		.has_keys = s->has_keys,
		.share_mb = (uint64_t)l->groups.share_mb,
	};
	cleanup_free char *unix_name = mem_printf("unix %s", l->place.socket);
	size_t n = 0;
	int fd[4];

	strv_copy(&hello.overrides, &l->source.overrides);
	for (size_t i = 0; i < s->kept.n; i++)
		strv_add(&hello.overrides, s->kept.v[i]);
	if (s->has_config)
		fd[n++] = fdio_sealed("config", s->config_text.data, s->config_text.len);
	if (s->has_keys)
		fd[n++] = fdio_sealed("keys", s->keys_text.data, s->keys_text.len);
	strv_add(&hello.listeners, unix_name);
	fd[n++] = fcntl(l->place.unix_fd, F_DUPFD_CLOEXEC, 3);
	if (l->place.tcp_fd != -1) {
		cleanup_free char *tcp_name = mem_printf("tcp %s", l->place.http);

		strv_add(&hello.listeners, tcp_name);
		fd[n++] = fcntl(l->place.tcp_fd, F_DUPFD_CLOEXEC, 3);
	}
	l->api.telling = true;
	api_link_post(l, MSG_launcher_hello, 0, &hello, fd, n);
	api_link_kick(l);
}

int api_child_connect(struct launcher *l, int fd, struct err *err)
{
	struct session_entry *w;
	const int r = peer_open(&l->api.peer, &kind, l->loop, fd, l, err);

	TAILQ_FOREACH (w, &l->entries, next)
		w->told = false;
	if (r == 0)
		greet(l);
	return r;
}

int api_child_start(struct launcher *l, struct err *err)
{
	struct api_child *api = &l->api;
	cleanup_fd int link = -1;
	int r = child_start(&api->child, l, PROGRAM_API, l->settings.config.api_uid, &link, err);

	api->started_us = clock_mono_us(&clock_system);
	if (api->again == NULL)
		api->again = watch_timer(l->loop, on_again, l);
	if (r == 0)
		r = child_watch(&api->child, l->loop, on_death, l, err);
	if (r < 0) {
		child_end(&api->child, NULL);
		return r;
	}
	return api_child_connect(l, take_fd(link), err);
}

void api_child_hup(struct launcher *l)
{
	/* The log, the configuration (an empty one holds its place), the keys if there are any. */
	const int fd[] = {
		fcntl(l->settings.log_fd, F_DUPFD_CLOEXEC, 3),
		fdio_sealed("config", l->settings.config_text.data, l->settings.config_text.len),
		l->settings.has_keys
			? fdio_sealed("keys", l->settings.keys_text.data, l->settings.keys_text.len)
			: -1};

	api_link_post(l, MSG_launcher_hup, 0, &(struct msg_empty){0}, fd,
		      l->settings.has_keys ? 3 : 2);
}
