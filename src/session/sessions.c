// SPDX-License-Identifier: Apache-2.0
/* The registry of sessions, the launcher's messages, readiness after a restart, and the stop of the
 * server. */
#include "session/sessions.h"
#include "base/fnv.h"
#include "base/log.h"
#include "session/command_state.h"
#include "session/drain.h"
#include "session/homes.h"
#include "session/rows.h"
#include "session/session_policies.h"
#include "session/trash_entries.h"

#define QUIET_MS 3000 /* then the other sessions do not wait for silent wardens */

/* ---- what lives until the next turn ---- */

struct borrowed {
	STAILQ_ENTRY(borrowed) next;
	struct session *s; /* or a command */
	struct command *c;
};

static void sweep(void *arg)
{
	struct sessions *ss = arg;
	struct borrowed *b;

	while ((b = STAILQ_FIRST(&ss->borrowed)) != NULL) {
		STAILQ_REMOVE_HEAD(&ss->borrowed, next);
		if (b->s != NULL) {
			session_unref(b->s);
		} else {
			spare_fill(b->c->s); /* its answer is on its way */
			command_unref(b->c);
		}
		free(b);
	}
}

static void borrow(struct sessions *ss, struct session *s, struct command *c)
{
	struct borrowed *b = mem_new(struct borrowed);

	*b = (struct borrowed){.s = s, .c = c};
	STAILQ_INSERT_TAIL(&ss->borrowed, b, next);
	watch_after(ss->sweep, 0);
}

void command_lend(struct command *c)
{
	borrow(c->s->ss, NULL, c);
}

/* ---- registry ---- */

static unsigned bucket_of(const char *id)
{
	return fnv32(FNV32, id, strlen(id)) % SESSION_BUCKETS;
}

struct session *sessions_find(struct sessions *ss, const char *id)
{
	struct session *s;

	LIST_FOREACH (s, &ss->bucket[bucket_of(id)], bucket)
		if (strcmp(s->id, id) == 0)
			return s;
	return NULL;
}

void sessions_count(struct sessions *ss)
{
	struct session *s;

	ss->live = 0;
	TAILQ_FOREACH (s, &ss->all, all)
		if (!s->unclaimed && !session_is_over(s))
			ss->live++;
	metrics_set(ss->deps.metrics, METRIC_SESSIONS_ACTIVE, ss->live);
}

void sessions_add(struct sessions *ss, struct session *s)
{
	session_ref(s);
	s->phase = SESSION_UNSETTLED;
	TAILQ_INSERT_TAIL(&ss->all, s, all);
	LIST_INSERT_HEAD(&ss->bucket[bucket_of(s->id)], s, bucket);
	sessions_count(ss);
}

void sessions_drop(struct session *s)
{
	struct sessions *ss = s->ss;

	if (!session_is_registered(s))
		return;
	s->phase = SESSION_GONE;
	TAILQ_REMOVE(&ss->all, s, all);
	LIST_REMOVE(s, bucket);
	sessions_count(ss);
	borrow(ss, s, NULL);
}

unsigned sessions_live(const struct sessions *ss)
{
	return ss->live;
}

uint64_t sessions_dropped(const struct sessions *ss)
{
	const struct session *s;
	uint64_t n = 0;

	TAILQ_FOREACH (s, &ss->all, all)
		n += session_is_over(s) ? 0 : session_dropped(s);
	return n;
}

struct session *session_ending(struct sessions *ss, const struct caller *who)
{
	struct session *s;

	TAILQ_FOREACH (s, &ss->all, all)
		if (s->state == SESSION_STOPPING && s->phase == SESSION_SETTLED && !s->unclaimed &&
		    session_visible(who, s->agent_id))
			return s;
	return NULL;
}

bool session_visible(const struct caller *who, const char *agent_id)
{
	return who->role == ROLE_ADMIN || strcmp(who->agent_id, agent_id) == 0;
}

/* ---- made and freed ---- */

static void load_command(struct command *c, void *arg)
{
	c->recovered = true;
	c->phase = COMMAND_UNKNOWN;
	command_read_request(c);
	command_list_add(c);
	command_unref(c);
}

/* The rows of a session that lived when the last server ended. */
static void load_session(struct session *s, void *arg)
{
	struct err err = {0};
	int64_t last = 0;

	sessions_add(s->ss, s);
	if (rows_commands_open(s, load_command, NULL, &err) < 0 || rows_last_n(s, &last, &err) < 0)
		log_error("commands not loaded", "session_id", s->id, "error", err.message);
	s->next_n = last + 1;
	s->totals.command_count = s->saved_totals.command_count = last;
	if (s->state == SESSION_READY && !TAILQ_EMPTY(&s->commands))
		s->state = SESSION_BUSY;
	session_unref(s);
}

int sessions_new(const struct sessions_deps *deps, struct sessions **out, struct err *err)
{
	struct sessions *ss = mem_new(struct sessions);
	int r;

	ss->deps = *deps;
	TAILQ_INIT(&ss->all);
	STAILQ_INIT(&ss->borrowed);
	STAILQ_INIT(&ss->policy_waiters);
	STAILQ_INIT(&ss->home_waiters);
	ss->sweep = watch_timer(deps->loop, sweep, ss);
	ss->quiet = watch_timer(deps->loop, sessions_serve_rest, ss);
	r = rows_sessions_live(ss, load_session, NULL, err);
	if (r == 0)
		r = reaper_start(ss, err);
	if (r < 0) {
		sessions_free(ss);
		return r;
	}
	*out = ss;
	return 0;
}

void sessions_abandon(struct sessions *ss)
{
	if (ss == NULL || ss->freeing)
		return;
	ss->freeing = true;
	store_commit(ss->deps.store, NULL);
	store_release(ss->deps.store); /* functions that wait for the commit hold pointers to ss */
}

void sessions_free(struct sessions *ss)
{
	struct session *s;
	struct command *c;

	if (ss == NULL)
		return;
	sessions_abandon(ss);
	while ((s = TAILQ_FIRST(&ss->all)) != NULL) {
		spare_drop(s);
		session_patches_fail(s);
		session_restores_fail(s);
		while ((c = TAILQ_FIRST(&s->commands)) != NULL)
			command_list_drop(c);
		sessions_drop(s);
	}
	sweep(ss);
	policies_forget_waiters(ss);
	homes_forget_waiters(ss);
	policies_close(ss);
	watch_free(ss->reaper);
	watch_free(ss->sweep);
	watch_free(ss->quiet);
	free(ss);
}

void sessions_reconfigure(struct sessions *ss)
{
	struct session *s;

	reaper_again(ss);
	TAILQ_FOREACH (s, &ss->all, all)
		if (s->phase == SESSION_SETTLED)
			warden_tell_settings(s);
		else
			s->settings_due = true;
}

/* ---- readiness ---- */

bool sessions_ready(const struct sessions *ss)
{
	return ss->ready;
}

void sessions_on_ready(struct sessions *ss, void (*fn)(void *arg), void *arg)
{
	ss->on_ready = fn;
	ss->on_ready_arg = arg;
	if (ss->ready)
		fn(arg);
}

static void become_ready(struct sessions *ss)
{
	watch_stop(ss->quiet);
	ss->ready = true;
	if (ss->on_ready != NULL)
		ss->on_ready(ss->on_ready_arg);
}

void sessions_serve_rest(void *sessions)
{
	struct sessions *ss = sessions;
	struct session *s;

	TAILQ_FOREACH (s, &ss->all, all)
		if (s->phase == SESSION_UNSETTLED && !s->unclaimed)
			log_warn("a warden does not answer: its session waits for it", "session_id",
				 s->id);
	become_ready(ss);
}

/* The server waits for every warden, but only QUIET_MS after the last message of one. */
void sessions_check_ready(struct sessions *ss)
{
	struct session *s;

	if (ss->ready || !ss->found_all || ss->freeing)
		return;
	TAILQ_FOREACH (s, &ss->all, all) {
		if (s->phase == SESSION_SETTLED || s->unclaimed)
			continue;
		watch_after(ss->quiet, QUIET_MS);
		return;
	}
	become_ready(ss);
}

/* ---- the end of all ---- */

void sessions_check_stopped(struct sessions *ss)
{
	void (*fn)(void *arg) = ss->on_stopped;

	if (fn == NULL || !TAILQ_EMPTY(&ss->all))
		return;
	ss->on_stopped = NULL;
	fn(ss->on_stopped_arg);
}

void sessions_stop(struct sessions *ss, void (*done)(void *arg), void *arg)
{
	struct session *s;

	ss->stopping = true;
	ss->on_stopped = done;
	ss->on_stopped_arg = arg;
	TAILQ_FOREACH (s, &ss->all, all)
		session_begin_stop(s, "the server was stopped", "");
	sessions_check_stopped(ss);
}

/* ---- what the launcher says ---- */

/* The session of a warden that the launcher found or lost; NULL if that was reported before. The
 * server ends and removes a session that has no living row: the store has its end already, or it
 * belongs to another database. */
static struct session *found_session(struct sessions *ss, const char *id)
{
	struct session *s = sessions_find(ss, id);

	if (s == NULL) {
		log_warn("a session without a living row is ended", "session_id", id);
		s = session_new(ss, id, "");
		s->unclaimed = true;
		s->state = SESSION_STOPPING;
		s->end_reason = mem_strdup("the server does not know this session");
		sessions_add(ss, s);
		session_unref(s);
	}
	return session_is_linked(s) || session_is_over(s) ? NULL : s;
}

static void on_found(void *ctx, void *msg, struct link_msg *m)
{
	struct launcher_found *found = msg;
	struct session *s = found_session(ctx, found->session_id);
	struct err err = {0};

	if (s == NULL)
		return;
	if (s->state == SESSION_CREATING) /* its client never got an answer */
		session_over(s, "the server ended while it was made");
	else if (warden_attach(s, &found->rings, m->fd, m->nfds, &err) < 0)
		session_over(s, err.message);
}

static void on_lost(void *ctx, void *msg, struct link_msg *m)
{
	struct launcher_lost *lost = msg;
	struct session *s = found_session(ctx, lost->session_id);
	struct err err = {0};

	if (s == NULL)
		return;
	if (m->nfds > 0 && !s->unclaimed &&
	    session_open_rings(s, &lost->rings, m->fd, m->nfds, &err) < 0)
		log_error("the journal of a dead session cannot be read", "session_id", s->id,
			  "error", err.message);
	session_over(s, lost->reason != NULL ? lost->reason : "its warden was gone");
}

static void on_found_all(void *ctx, void *msg, struct link_msg *m)
{
	struct sessions *ss = ctx;
	struct session *s;

	ss->found_all = true;
	TAILQ_FOREACH (s, &ss->all, all)
		if (!session_is_linked(s) && s->phase == SESSION_UNSETTLED)
			session_over(s,
				     "the session's processes were gone when the server started");
	sessions_check_ready(ss);
}

static void on_gone(void *ctx, void *msg, struct link_msg *m)
{
	struct sessions *ss = ctx;
	struct launcher_gone *gone = msg;
	struct session *s = sessions_find(ss, gone->session_id);

	if (s == NULL || session_is_over(s))
		return;
	if (s->hint == NULL)
		s->hint = mem_strdup(gone->reason);
	session_ref(s);
	session_out_of_memory(s, gone->oom_kills);
	warden_read(s); /* messages that it sent before it ended */
	session_over(s, "its warden ended");
	session_unref(s);
}

int sessions_on_launcher(struct sessions *ss, struct link_msg *m, struct err *err)
{
	static const struct peer_row rows[] = {
		{MSG_launcher_created, session_on_created},
		{MSG_launcher_refused, session_on_refused},
		{MSG_launcher_found, on_found},
		{MSG_launcher_lost, on_lost},
		{MSG_launcher_found_all, on_found_all},
		{MSG_launcher_gone, on_gone},
		{MSG_launcher_policies, policies_on_launcher},
		{MSG_launcher_limited, session_on_limited},
		{MSG_launcher_trimmed, homes_on_launcher},
	};
	static const struct peer_kind kind = {.rows = rows, .n = ARRAY_LEN(rows)};

	return peer_dispatch(&kind, ss, m, err);
}

int session_get(struct sessions *ss, const struct caller *who, const char *id, struct session **out,
		struct err *err)
{
	struct session *s = sessions_find(ss, id);

	if (s == NULL && id_valid(id)) {
		const int r = rows_session_load(ss, id, &s, err);

		if (r < 0 && r != -E_SESSION_NOT_FOUND)
			return r;
		if (r == 0)
			borrow(ss, s, NULL);
	}
	if (s == NULL || s->unclaimed || !session_visible(who, s->agent_id))
		return err_set(err, E_SESSION_NOT_FOUND, id, "no session '%.64s'", id);
	*out = s;
	return 0;
}
