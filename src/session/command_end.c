// SPDX-License-Identifier: Apache-2.0
/* Messages of the warden about a command, and the command's end: by its result, by a refusal, or
 * without either. The end is written with the events before it; when both are safe, the warden may
 * forget the command, and its observers get the answer. */
#include "base/denial.h"
#include "base/log.h"
#include "session/command_events.h"
#include "session/drain.h"
#include "session/rows.h"
#include "session/sessions.h"
#include "session/spare_files.h"

/* ---- observers ---- */

void command_tell_done(struct command *c)
{
	struct observer *o;

	command_ref(c);
	/* An observer may leave while another is called. */
	while ((o = TAILQ_FIRST(&c->observers)) != NULL) {
		TAILQ_REMOVE(&c->observers, o, next);
		if (o->o.done != NULL)
			o->o.done(c->refusal, c->refusal == NULL ? c : NULL, o->o.arg);
		free(o);
	}
	command_unref(c);
}

void command_tell_done_one(struct command *c, const void *arg)
{
	struct observer *o = command_observer_of(c, arg);

	if (o == NULL)
		return;
	TAILQ_REMOVE(&c->observers, o, next);
	if (o->o.done != NULL)
		o->o.done(NULL, c, o->o.arg);
	free(o);
}

static struct command *living(struct session *s, const char *id)
{
	struct command *c = command_find(s, id);

	return c != NULL && c->phase != COMMAND_OVER ? c : NULL;
}

/* In the next functions an observer may leave while it is called. */
static void started(struct command *c, uint64_t time_us)
{
	struct session *s = c->s;
	struct observer *o, *next;

	c->phase = COMMAND_SENT;
	if (s->running == NULL)
		s->running = c;
	if (s->state == SESSION_READY)
		session_set_state(s, SESSION_BUSY, NULL);
	if (c->state == COMMAND_RUNNING)
		return;
	c->state = COMMAND_RUNNING;
	c->started_us = (int64_t)time_us;
	metrics_add(s->ss->deps.metrics, METRIC_COMMANDS, 1);
	for (o = TAILQ_FIRST(&c->observers); o != NULL; o = next) {
		next = TAILQ_NEXT(o, next);
		if (o->o.started != NULL)
			o->o.started(c, o->o.arg);
	}
}

void command_on_started(void *ctx, void *msg, struct link_msg *link)
{
	const struct warden_started *m = msg;
	struct command *c = living(ctx, m->command_id);

	if (c != NULL)
		started(c, m->time_us);
}

/* A warden of the previous version keeps no ring of output, and reports sizes only at the end. */
static void take_extent(struct stream_extent *x, uint64_t bytes, uint64_t kept, uint64_t from)
{
	*x = (struct stream_extent){bytes, kept, from < kept || kept == 0 ? bytes : from};
}

void command_on_output(void *ctx, void *msg, struct link_msg *link)
{
	const struct warden_output *m = msg;
	struct command *c = living(ctx, m->command_id);
	struct observer *o, *next;

	if (c == NULL)
		return;
	if (m->stdout_kept > 0)
		take_extent(&c->out.extent[1], m->stdout_bytes, m->stdout_kept, m->stdout_from);
	if (m->stderr_kept > 0)
		take_extent(&c->out.extent[2], m->stderr_bytes, m->stderr_kept, m->stderr_from);
	c->lines[1] = m->stdout_lines;
	c->lines[2] = m->stderr_lines;
	for (o = TAILQ_FIRST(&c->observers); o != NULL; o = next) {
		next = TAILQ_NEXT(o, next);
		if (o->o.output != NULL)
			o->o.output(c, o->o.arg);
	}
}

void command_on_taken(void *ctx, void *msg, struct link_msg *link)
{
	const struct warden_taken *m = msg;
	struct command *c = living(ctx, m->command_id);
	struct observer *o, *next;

	for (o = c != NULL ? TAILQ_FIRST(&c->observers) : NULL; o != NULL; o = next) {
		next = TAILQ_NEXT(o, next);
		if (o->o.stdin_taken != NULL)
			o->o.stdin_taken(c, m->total, o->o.arg);
	}
}

/* ---- written ---- */

static void saved(void *arg)
{
	struct command *c = arg;
	struct session *s = c->s;
	struct metrics *metrics = s->ss->deps.metrics;

	if (s->ss->freeing) {
		command_unref(c);
		return;
	}
	if (c->ack) {
		strv_add(&s->acks, c->id);
		session_ack_later(s);
	}
	metrics_add(metrics, METRIC_OUTPUT_BYTES, c->out.extent[1].kept + c->out.extent[2].kept);
	if (!c->out.refused)
		metrics_observe(metrics, METRIC_COMMAND_LATENCY,
				(double)(c->finished_us - c->created_us) / 1e6);
	command_list_drop(c);
	command_tell_done(c);
	spare_give(c);
	if (c->ends_session)
		session_begin_stop(s, SESSION_BY_REQUEST, c->request_id);
	command_unref(c);
}

static void save(struct command *c)
{
	struct session *s = c->s;

	if (s->running == c) {
		s->running = NULL;
		command_promote(s);
	}
	if (s->state == SESSION_BUSY && !session_is_over(s) && session_is_idle(s))
		session_set_state(s, SESSION_READY, NULL);
	session_is_active(s);
	/* Memory lacks the events that an earlier API process stored. */
	if (c->recovered)
		command_recall_operations(c);
	answer_blame(c);
	if (c->out.error_code != NULL && c->request_id[0] != '\0')
		c->out.request_id = mem_strdup(c->request_id);
	rows_command_save(c);
	(s->env_dirty ? rows_session_write : rows_session_save)(s);
	store_after(s->ss->deps.store, saved, command_ref(c));
}

/* ---- without a result ---- */

void command_refusal_from_row(struct command *c)
{
	if (!c->out.refused || c->refusal != NULL)
		return;
	c->refusal = mem_new(struct err);
	err_set(c->refusal, err_code_by_name(c->out.error_code),
		c->out.error_path != NULL ? c->out.error_path : c->id, "%s", c->out.error_message);
	denial_take(c->refusal, c->out.error_policy);
}

void command_end(struct command *c, enum command_state state, const struct err *why, bool refuse)
{
	struct session *s = c->s;
	const bool reached = c->phase >= COMMAND_UNKNOWN; /* its warden may have it */

	if (c->phase == COMMAND_OVER)
		return;
	command_ref(c);
	if (!reached)
		spare_give(c);
	c->phase = COMMAND_OVER;
	c->state = state;
	c->finished_us = sessions_now(s->ss);
	mem_replace(&c->out.error_code, mem_strdup(err_row(why->code)->name));
	mem_replace(&c->out.error_message, mem_strdup(why->message));
	mem_replace(&c->out.error_policy, why->denial[0] != '\0' ? mem_strdup(why->denial) : NULL);
	c->out.refused = refuse;
	if (refuse)
		c->refusal = mem_dup(why, sizeof(*why));
	if (reached)
		command_measure(c);
	mem_replace(&c->out.working_dir, mem_strdup(s->cwd));
	if (!c->end_event)
		command_event(c,
			      state == COMMAND_FINISHED ? EVENT_command_finished
							: EVENT_command_killed,
			      why->message);
	save(c);
	command_unref(c);
}

void command_on_refused(void *ctx, void *msg, struct link_msg *link)
{
	const struct warden_refused *m = msg;
	struct command *c = living(ctx, m->command_id);
	struct err why = {0};

	if (c == NULL)
		return;
	err_set(&why, m->code != NULL ? err_code_by_name(m->code) : E_INTERNAL, m->subject, "%s",
		m->message != NULL ? m->message : "the warden refused it");
	denial_take(&why, m->policy);
	mem_replace(&c->out.error_path, mem_strdup(m->subject));
	command_end(c, COMMAND_FINISHED, &why, true);
}

/* ---- by its result ---- */

static struct strv take_strv(struct strv *from)
{
	const struct strv v = *from;

	*from = (struct strv){0};
	return v;
}

static void take_result(struct command *c, struct warden_result *m)
{
	struct outcome *o = &c->out;
	const struct operations ops = o->ops;

	o->ops = (struct operations){0};
	outcome_done(o);
	c->state = m->signal != 0 || (m->error_code != NULL &&
				      (strcmp(m->error_code, "E_COMMAND_TIMEOUT") == 0 ||
				       strcmp(m->error_code, "E_COMMAND_KILLED") == 0))
			   ? COMMAND_KILLED
			   : COMMAND_FINISHED;
	c->exit_code = m->exit_code;
	c->signal = (int)m->signal;
	c->started_us = (int64_t)m->started_us;
	c->finished_us = (int64_t)m->finished_us;
	c->lines[1] = m->stdout_lines;
	c->lines[2] = m->stderr_lines;
	c->failed_errno = (int)m->failed_errno;
	mem_replace(&c->failed_path, take(m->failed_path));
	*o = (struct outcome){
		.error_code = take(m->error_code),
		.error_message = take(m->error_message),
		.error_path = take(m->error_path),
		.similar = take_strv(&m->similar),
		.working_dir = mem_strdup(m->cwd != NULL ? m->cwd : c->s->cwd),
		.capture = take(m->capture),
		.env_changed = take_strv(&m->env_changed),
		.background = take_strv(&m->background),
		.warnings = take_strv(&m->warnings),
		.duration_us = (int64_t)m->duration_us,
		.cpu_us = (int64_t)m->cpu_us,
		.maxrss_kb = (int64_t)m->maxrss_kb,
		.read_bytes = (int64_t)m->read_bytes,
		.write_bytes = (int64_t)m->write_bytes,
		.ops = ops,
	};
	take_extent(&o->extent[1], m->stdout_bytes, m->stdout_kept, m->stdout_from);
	take_extent(&o->extent[2], m->stderr_bytes, m->stderr_kept, m->stderr_from);
}

/* Lets the warden forget a result that the database has. */
static void forget(struct session *s, const char *id)
{
	strv_add(&s->acks, id);
	warden_send_acks(s);
}

/* The result of a command that is not in memory: stored before a crash and acknowledged only now,
 * or believed lost. */
static struct command *find_stored(struct session *s, const char *id)
{
	struct command *c = NULL;
	struct err err = {0};

	if (id == NULL)
		return NULL;
	if (rows_command_load(s->ss, s->agent_id, id, &c, &err) < 0) {
		log_warn("a result of an unknown command", "session_id", s->id, "command_id", id);
		forget(s, id);
		return NULL;
	}
	if (c->s != s || c->state != COMMAND_LOST) {
		forget(s, id);
		command_unref(c);
		return NULL;
	}
	log_warn("a command was not lost after all", "session_id", s->id, "command_id", id);
	c->recovered = true;
	c->phase = COMMAND_UNKNOWN;
	command_read_request(c);
	command_list_add(c);
	command_unref(c);
	return c;
}

void command_on_result(struct session *s, struct warden_result *m)
{
	struct command *c = command_find(s, m->command_id);
	bool env_changed;

	if (c == NULL)
		c = find_stored(s, m->command_id);
	if (c == NULL) {
		session_drain(s, m); /* after a result the warden does not ring the bell */
		return;
	}
	c->ack = true;
	if (c->phase == COMMAND_OVER)
		return;
	command_ref(c);
	/* For a short command the warden sends only the result. */
	if (c->state == COMMAND_QUEUED)
		started(c, m->started_us);
	session_drain(s, m);
	if (c->phase == COMMAND_OVER) { /* the journal is broken, and the session with it */
		command_unref(c);
		return;
	}
	env_changed = m->env_changed.n > 0;
	c->phase = COMMAND_OVER;
	if (m->capture != NULL && strncmp(m->capture, "refused", strlen("refused")) == 0) {
		log_warn("a shell's state was refused", "session_id", s->id, "command_id", c->id,
			 "reason", m->capture);
		metrics_add(s->ss->deps.metrics, METRIC_CAPTURES_REFUSED, 1);
	}
	take_result(c, m);
	if (m->cwd != NULL && (s->cwd == NULL || strcmp(s->cwd, m->cwd) != 0)) {
		mem_replace(&s->cwd, take(m->cwd));
	}
	if (env_changed) {
		strv_done(&s->env);
		s->env = take_strv(&m->env);
		s->env_dirty = true;
	}
	save(c);
	command_unref(c);
}
