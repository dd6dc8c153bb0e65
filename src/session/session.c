// SPDX-License-Identifier: Apache-2.0
/* A session's life: states, the orderly stop, the end. Creation is in create.c, changes in patch.c.
 */
#include "base/log.h"
#include "model/workspace_names.h"
#include "session/command_events.h"
#include "session/drain.h"
#include "session/homes.h"
#include "session/rows.h"
#include "session/sessions.h"
#include "session/trash_entries.h"
#include <signal.h>

/* A caller that waits for a session's end. */
struct end_waiter {
	STAILQ_ENTRY(end_waiter) next;
	session_done_fn *done;
	void *arg;
};

const char *const session_state_names[] = {
	[SESSION_CREATING] = "creating", [SESSION_READY] = "ready",	[SESSION_BUSY] = "busy",
	[SESSION_STOPPING] = "stopping", [SESSION_STOPPED] = "stopped", [SESSION_FAILED] = "failed",
};

struct session *session_new(struct sessions *ss, const char *id, const char *agent_id)
{
	struct session *s = mem_new(struct session);

	s->ss = ss;
	s->refs = 1;
	memcpy(s->id, id, strnlen(id, ID_MAX));
	memcpy(s->agent_id, agent_id, strnlen(agent_id, ID_MAX));
	s->next_n = 1;
	s->proof_fd = -1;
	s->warden = PEER_CLOSED;
	s->spare[1] = s->spare[2] = NO_FILE;
	wall_report_init(&s->walls);
	TAILQ_INIT(&s->commands);
	STAILQ_INIT(&s->patches);
	STAILQ_INIT(&s->waiters);
	STAILQ_INIT(&s->restores);
	return s;
}

struct session *session_ref(struct session *s)
{
	s->refs++;
	return s;
}

void session_unref(struct session *s)
{
	struct end_waiter *w;

	if (--s->refs > 0)
		return;
	peer_close(&s->warden);
	session_close_rings(s);
	watch_free(s->timer);
	watch_free(s->bell);
	while ((w = STAILQ_FIRST(&s->waiters)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->waiters, next);
		free(w);
	}
	session_request_done(&s->config);
	strv_done(&s->capped);
	strv_done(&s->acks);
	strv_done(&s->env);
	session_forget_proof(s);
	free(s->workspace);
	free(s->home);
	free(s->policy_name);
	free(s->policy_version);
	free(s->cwd);
	free(s->failure);
	free(s->hint);
	free(s->refusal);
	free(s->end_reason);
	free(s);
}

const char *session_id(const struct session *s)
{
	return s->id;
}

bool session_ended(const struct session *s)
{
	return s->state == SESSION_STOPPED || s->state == SESSION_FAILED;
}

bool session_is_idle(const struct session *s)
{
	const struct command *c;

	TAILQ_FOREACH (c, &s->commands, next)
		if (c->phase != COMMAND_OVER)
			return false;
	return true;
}

bool session_same_dir(const struct session *s, const char *a, const char *b)
{
	char *pair[] = {s->workspace, (char *)WORKSPACE_CANONICAL};
	const struct workspace_names names = {.shown = {pair, ARRAY_LEN(pair)}};
	cleanup_free char *x = workspace_canonical(&names, a), *y = workspace_canonical(&names, b);

	return strcmp(x != NULL ? x : a, y != NULL ? y : b) == 0;
}

int session_within_reach(const struct session *s, struct err *err)
{
	if (session_ended(s) || session_is_over(s) || s->state == SESSION_STOPPING)
		return err_set(err, E_SESSION_STOPPED, s->id, "session '%s' has %s%s%s", s->id,
			       s->failure != NULL ? "failed" : "ended",
			       s->failure != NULL ? ": " : "",
			       s->failure != NULL ? s->failure : "");
	if (s->phase != SESSION_SETTLED || s->ss->stopping)
		return err_set(err, E_UNAVAILABLE, s->id, "session '%s' is not within reach now",
			       s->id);
	return 0;
}

static void put_event(struct session *s, struct event *e, const char *reason)
{
	e->session_id = s->id;
	e->agent_id = s->agent_id;
	e->request_id = s->request_id[0] != '\0' ? s->request_id : NULL;
	e->count = e->count > 0 ? e->count : 1;
	e->reason = event_lend(reason);
	store_event(s->ss->deps.store, e, NULL, 0);
}

void session_event(struct session *s, enum event_type type, const char *reason)
{
	struct event e = {.type = type};

	put_event(s, &e, reason);
}

void session_out_of_memory(struct session *s, uint64_t oom_kills)
{
	const enum wall_state limit = s->walls.wall[WALL_memory_limit].state;

	/* Without a limit the machine ran out of memory, not the session. */
	if (session_is_over(s) || s->unclaimed || oom_kills == 0 ||
	    (limit != WALL_UP && limit != WALL_PARTIAL))
		return;
	session_drain(s, NULL);
	if (session_is_over(s) || oom_kills <= s->oom_kills)
		return;
	mem_replace(
		&s->hint,
		mem_strdup("out of memory (memory_limit): the kernel killed the session's warden"));
	put_event(s,
		  &(struct event){.type = EVENT_resource_limit,
				  .command_id = s->running != NULL ? s->running->id : NULL,
				  .limit = event_lend(wall_name(WALL_memory_limit)),
				  .counter = event_lend("oom_kills"),
				  .value = oom_kills},
		  s->hint);
}

void session_set_state(struct session *s, enum session_state to, const char *reason)
{
	put_event(s,
		  &(struct event){.type = EVENT_session_state,
				  .state_from = event_lend(session_state_names[s->state]),
				  .state_to = event_lend(session_state_names[to])},
		  reason);
	s->state = to;
}

void session_after(struct session *s, uint64_t ms, watch_fn *fn)
{
	watch_free(s->timer);
	s->timer = watch_timer(s->ss->deps.loop, fn, s);
	watch_after(s->timer, ms);
}

struct when_safe {
	struct session *s; /* counted */
	session_fn *fn;
};

static void is_safe(void *arg)
{
	struct when_safe *w = arg;

	if (!w->s->ss->freeing)
		w->fn(w->s);
	session_unref(w->s);
	free(w);
}

void session_when_safe(struct session *s, session_fn *fn)
{
	const struct when_safe w = {session_ref(s), fn};

	store_after(s->ss->deps.store, is_safe, mem_dup(&w, sizeof(w)));
}

/* ---- the end ---- */

void session_tell_waiters(struct session *s, const struct err *err)
{
	struct end_waiter *w;

	while ((w = STAILQ_FIRST(&s->waiters)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->waiters, next);
		w->done(err, err == NULL ? s : NULL, w->arg);
		free(w);
	}
}

/* A failure is ignored: without its launcher the server ends, too. */
static void remove_remains(struct session *s)
{
	struct launcher_remove m = {.session_id = s->id};

	peer_send(s->ss->deps.launcher, MSG_launcher_remove, 0, &m, NULL, 0, NULL);
}

static void end_saved(struct session *s)
{
	struct sessions *ss = s->ss;
	const char *reason = s->failure != NULL ? s->failure : s->end_reason;

	log_info("session ended", "session_id", s->id, "state", session_state_names[s->state],
		 "reason", reason);
	metrics_observe(ss->deps.metrics, METRIC_SESSION_DURATION,
			(double)(s->ended_us - s->created_us) / 1e6);
	remove_remains(s);
	sessions_drop(s);
	home_left(s);
	trash_left(s);
	if (s->create_done != NULL)
		session_create_failed(s, reason);
	session_tell_waiters(s, NULL);
	sessions_check_ready(ss);
	sessions_check_stopped(ss);
}

void session_is_active(struct session *s)
{
	s->last_activity_us = sessions_now(s->ss);
	s->active_boot_us = sessions_boot(s->ss);
}

void command_end_unknown(struct command *c, const char *why)
{
	struct err err = {0};
	/* A journal with gaps cannot show that the command was not started. */
	const bool handed = c->started_us != 0 || c->s->nrings == 0 || c->s->events_dropped;

	if (!handed) {
		err_set(&err, E_UNAVAILABLE, c->id, "it was not started and will not be: %s", why);
		command_end(c, COMMAND_LOST, &err, false);
		return;
	}
	if (c->exit_code >= 0) { /* the journal has its end */
		err_set(&err, E_UNAVAILABLE, c->id, "%s", why);
	} else { /* the kernel ended it with its session */
		c->signal = SIGKILL;
		c->exit_code = 128 + SIGKILL;
		if (c->started_us != 0 && sessions_now(c->s->ss) > c->started_us)
			c->out.duration_us = sessions_now(c->s->ss) - c->started_us;
		err_set(&err, E_COMMAND_KILLED, c->id,
			"ended without a result; it may have run: %s", why);
	}
	command_end(c, COMMAND_KILLED, &err, false);
}

/* Ends a command because its session ends. */
static void end_command(struct command *c)
{
	struct session *s = c->s;
	cleanup_free char *reason = NULL;
	struct err why = {0};

	if (c->phase < COMMAND_UNKNOWN) {
		err_set(&why, E_SESSION_STOPPED, s->id,
			"session '%s' ended before it was started%s%s", s->id,
			s->failure != NULL ? ": " : "", s->failure != NULL ? s->failure : "");
		command_end(c, COMMAND_KILLED, &why, true);
		return;
	}
	if (c->recovered)
		command_recall_life(c);
	if (s->failure != NULL)
		reason = mem_printf("the session failed: %s", s->failure);
	command_end_unknown(c, reason != NULL ? reason : "the session ended");
}

void session_over(struct session *s, const char *why)
{
	struct event dropped = {.type = EVENT_events_dropped};
	struct command *c;

	if (session_is_over(s))
		return;
	session_ref(s);
	s->phase = SESSION_OVER;
	session_forget_proof(s);
	watch_stop(s->timer);
	peer_close(&s->warden);
	spare_drop(s);
	if (s->unclaimed) { /* it has no row to write */
		remove_remains(s);
		sessions_drop(s);
		session_unref(s);
		return;
	}
	session_drain(s, NULL);
	dropped.count = session_dropped(s);
	if (dropped.count > 0)
		put_event(s, &dropped, "the ring was full");
	if (s->state != SESSION_STOPPING)
		s->failure = mem_strdup(s->hint != NULL ? s->hint : why);
	s->ended_us = sessions_now(s->ss);
	sessions_count(s->ss);
	s->ss->trim_due = true;
	TAILQ_FOREACH (c, &s->commands, next)
		if (c->phase != COMMAND_OVER)
			end_command(c);
	session_patches_fail(s);
	session_restores_fail(s);
	why = s->failure != NULL ? s->failure : s->end_reason;
	session_set_state(s, s->failure != NULL ? SESSION_FAILED : SESSION_STOPPED, why);
	session_event(s, s->failure != NULL ? EVENT_session_failed : EVENT_session_destroyed, why);
	session_create_ends(s, why);
	rows_session_save(s);
	store_drop_rings(s->ss->deps.store, s->id);
	session_when_safe(s, end_saved);
	session_unref(s);
}

/* ---- the orderly stop ---- */

static void stop_overdue(void *arg)
{
	struct session *s = arg;

	log_warn("a warden does not end", "session_id", s->id);
	session_over(s, "its warden did not end in time");
}

void session_send_end(struct session *s)
{
	const int64_t grace_ms = s->ss->stopping ? s->ss->deps.config->stop_grace_ms : 0;
	struct warden_end m = {.reason = s->end_reason, .grace_ms = (uint64_t)grace_ms};

	if (session_is_over(s))
		return;
	warden_send(s, MSG_warden_end, &m);
	session_after(s, STOP_MS + grace_ms, stop_overdue);
}

void session_begin_stop(struct session *s, const char *reason, const char *request_id)
{
	struct command *c;

	if (s->end_reason != NULL || session_is_over(s))
		return;
	s->end_reason = mem_strdup(reason);
	if (s->state == SESSION_CREATING)
		return; /* create.c stops it when it is made */
	memcpy(s->request_id, request_id, strnlen(request_id, ID_MAX));
	session_set_state(s, SESSION_STOPPING, reason);
	TAILQ_FOREACH (c, &s->commands, next)
		if (c->phase < COMMAND_UNKNOWN)
			end_command(c);
	rows_session_save(s);
	session_when_safe(s, session_send_end);
}

void session_destroy(struct session *s, const struct caller *who, const char *reason,
		     session_done_fn *done, void *arg)
{
	struct end_waiter *w;
	struct err err = {0};

	if (session_ended(s) && !session_is_registered(s)) {
		done(NULL, s, arg);
		return;
	}
	if (!session_is_registered(s) ||
	    (s->phase == SESSION_UNSETTLED && s->state != SESSION_CREATING)) {
		err_set(&err, E_UNAVAILABLE, s->id, "session '%s' is not within reach yet", s->id);
		done(&err, NULL, arg);
		return;
	}
	w = mem_new(struct end_waiter);
	w->done = done;
	w->arg = arg;
	STAILQ_INSERT_TAIL(&s->waiters, w, next);
	session_begin_stop(s, reason, who->request_id);
}
