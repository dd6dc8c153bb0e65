// SPDX-License-Identifier: Apache-2.0
/* A command's way to its warden: submitted, its row written, queued, sent. */
#include "base/line.h"
#include "session/command_state.h"
#include "session/rows.h"
#include "session/session_policies.h"
#include "session/sessions.h"
#include <inttypes.h>

static void fill_exec(struct command *c, const struct command_ask *ask, const struct caller *who)
{
	const struct exec_request *request = ask->request;
	const int64_t most = c->s->config.limits.value[LIMIT_command_timeout];
	struct warden_exec *x = &c->exec;

	x->command_id = mem_strdup(c->id);
	x->request_id = who->request_id[0] != '\0' ? mem_strdup(who->request_id) : NULL;
	x->script = mem_strdup(request->script);
	x->argv0 = mem_strdup(request->argv0);
	x->cwd = mem_strdup(request->working_dir);
	if (request->command != NULL) {
		const struct strv *args = &request->args;

		/* One allocation: arguments may be tens of thousands. */
		x->argv.n = args->n + 1;
		x->argv.v = mem_alloc((args->n + 2) * sizeof(*x->argv.v));
		x->argv.v[0] = mem_strdup(request->command);
		for (size_t i = 0; i < args->n; i++)
			x->argv.v[i + 1] = mem_strdup(args->v[i]);
	}
	strv_copy(&x->env, &request->env);
	request_env_strip(&x->env);
	bytes_set(&x->stdin_data, request->stdin_data.data, request->stdin_data.len);
	x->timeout_ms =
		(uint64_t)(request->timeout_ms == 0 || (most != 0 && most < request->timeout_ms)
				   ? most
				   : request->timeout_ms);
	x->stdin_open = ask->stdin_open;
	x->flow = ask->flow;
}

/* ---- submitted ---- */

unsigned session_waiting(const struct session *s)
{
	const struct command *c;
	unsigned n = 0;

	TAILQ_FOREACH (c, &s->commands, next)
		n += c->phase != COMMAND_OVER && c != s->running;
	return n;
}

static int may_run(struct session *s, const struct caller *who, const struct exec_request *request,
		   struct err *err)
{
	const struct config *config = s->ss->deps.config;

	if (session_within_reach(s, err) < 0)
		return -(int)err->code;
	if (store_failing(s->ss->deps.store, err) < 0)
		return -(int)err->code;
	if (session_used_up(s, err) != NULL)
		return -(int)err->code;
	if (session_policy_env(s, &request->env, who->request_id, err) < 0)
		return -(int)err->code;
	if (s->running == NULL)
		return 0;
	if (!request->queue)
		return err_set(err, E_SESSION_BUSY, s->id, "session '%s' runs '%s'", s->id,
			       s->running->id);
	if (session_waiting(s) >= config->max_queue)
		return err_set(err, E_RESOURCE_LIMIT, s->id,
			       "%u commands wait in session '%s' already (max_queue)",
			       session_waiting(s), s->id);
	return 0;
}

static void occupy(struct command *c)
{
	struct session *s = c->s;

	s->running = c;
	if (s->state == SESSION_READY)
		session_set_state(s, SESSION_BUSY, NULL);
}

static void send_command(struct command *c)
{
	struct session *s = c->s;
	struct err err = {0}, why = {0};
	cleanup_free char *dir = c->exec.cwd != NULL ? command_directory(s, c->exec.cwd) : NULL;
	const int files[2] = {c->file[1].fd, c->file[2].fd};
	enum link_status status;

	if (dir != NULL) {
		mem_replace(&c->exec.cwd, take(dir));
	}
	c->exec.acks = s->acks;
	s->acks = (struct strv){0};
	status = peer_send(&s->warden, MSG_warden_exec, 0, &c->exec, files, 2, &err);
	if (status == LINK_BROKEN && s->warden.link.state == LINK_ENDING)
		err_set(&why, E_SESSION_STOPPED, s->id, "session '%s' is ending", s->id);
	else if (status == LINK_BROKEN && msg_oversized(msg_row(MSG_warden_exec), &c->exec) != NULL)
		err_set(&why, E_TOO_LARGE, c->id, "the command is too large: %s", err.message);
	else if (status == LINK_BROKEN || status == LINK_FULL)
		err_set(&why, E_UNAVAILABLE, c->id, "the command cannot be sent: %s", err.message);
	if (why.code != E_OK) {
		command_end(c, COMMAND_FINISHED, &why, true);
		return;
	}
	/* The reader of the link notices a lost link and ends the session. */
	c->phase = COMMAND_SENT;
	msg_done(MSG_warden_exec, &c->exec);
	command_send_early(c);
}

static void submitted(void *arg)
{
	struct command *c = arg;

	if (!c->s->ss->freeing && c->phase != COMMAND_OVER) {
		c->phase = COMMAND_COMMITTED;
		if (c->s->running == c)
			send_command(c);
		if (c->detach && c->phase != COMMAND_OVER)
			command_tell_done(c);
	}
	command_unref(c);
}

static struct command *make(struct session *s, const struct caller *who,
			    const struct command_ask *ask)
{
	const struct exec_request *request = ask->request;
	char id[ID_MAX + 1] = "";
	struct command *c;

	if (request->command_id != NULL)
		memcpy(id, request->command_id, strnlen(request->command_id, ID_MAX));
	else
		id_make(id, "cmd");
	c = command_new(s, id);
	c->created_us = sessions_now(s->ss);
	c->max_output = request->max_output_bytes;
	c->detach = request->detach;
	c->ends_session = ask->ends_session;
	c->n = s->next_n;
	memcpy(c->request_id, who->request_id, sizeof(c->request_id));
	if (ask->idempotency_key != NULL) {
		c->idempotency_key = mem_strdup(ask->idempotency_key);
		memcpy(c->body_hash, ask->body_hash, sizeof(c->body_hash));
	}
	fill_exec(c, ask, who);
	c->line = line_of(&c->exec.argv, c->exec.script);
	command_request_format(c);
	return c;
}

static void tell_error(const struct command_observer *obs, const struct err *err)
{
	if (obs->done != NULL)
		obs->done(err, NULL, obs->arg);
}

/* True if a command has this Idempotency-Key: the observer got its answer, or will get it. */
static bool replay(struct session *s, const struct command_ask *ask,
		   const struct command_observer *obs, struct command **out)
{
	struct command *c;
	struct err err = {0};
	const int r = rows_command_by_key(s, ask->idempotency_key, &c, &err);

	if (r == -E_NOT_FOUND)
		return false;
	if (r < 0) {
		tell_error(obs, &err);
		return true;
	}
	if (c->s != s || memcmp(c->body_hash, ask->body_hash, sizeof(c->body_hash)) != 0) {
		err_set(&err, E_CONFLICT, ask->idempotency_key,
			"this Idempotency-Key was used for another request, command '%s'", c->id);
		tell_error(obs, &err);
	} else if (c->listed) {
		*out = c;
		command_add_observer(c, obs);
		command_tell_readers(c);
		if (c->state == COMMAND_RUNNING && obs->started != NULL)
			obs->started(c, obs->arg); /* a reader past the quota must read, or the
						      command waits */
		if (ask->request->detach && c->phase > COMMAND_SUBMITTED && c->phase < COMMAND_OVER)
			command_tell_done_one(c, obs->arg);
	} else {
		command_refusal_from_row(c);
		if (obs->done != NULL)
			obs->done(c->refusal, c->refusal == NULL ? c : NULL, obs->arg);
	}
	command_lend(c);
	return true;
}

void command_submit(struct session *s, const struct caller *who, const struct command_ask *ask,
		    const struct command_observer *obs, struct command **out)
{
	struct command *ignored, *c = NULL;
	struct err err = {0};
	int r;

	if (out == NULL)
		out = &ignored;
	*out = NULL;
	if (ask->idempotency_key != NULL && replay(s, ask, obs, out))
		return;
	r = may_run(s, who, ask->request, &err);
	if (r == 0) {
		c = make(s, who, ask);
		/* A failure leaves neither files nor a row. */
		r = ask->request->command_id != NULL ? rows_command_free(s, c->id, &err) : 0;
		if (r == 0)
			r = spare_take(s, c, &err);
		if (r == 0)
			rows_command_insert(c);
		else
			spare_give(c);
	}
	if (r < 0) {
		if (c != NULL)
			command_unref(c);
		/* The caller may be freed by the answer. */
		if (ask->ends_session)
			session_begin_stop(s, SESSION_BY_REQUEST, who->request_id);
		tell_error(obs, &err);
		return;
	}
	ensure(c != NULL);
	c->exec.report_output = obs->output != NULL;
	if (obs->output != NULL)
		c->told_read[1] = c->told_read[2] = 0;
	s->next_n++;
	s->totals.command_count++;
	session_is_active(s);
	command_list_add(c);
	command_add_observer(c, obs);
	command_event(c, EVENT_command_queued, NULL);
	if (s->running == NULL)
		occupy(c);
	*out = c;
	/* With detach, the commit is what the client waits for. */
	(c->detach ? store_after : store_before_sinks)(s->ss->deps.store, submitted, c);
}

void command_promote(struct session *s)
{
	cleanup_free char *cwd = NULL;
	struct command *c;

	if (s->running != NULL || session_is_over(s) || s->state == SESSION_STOPPING ||
	    s->ss->freeing)
		return;
	TAILQ_FOREACH (c, &s->commands, next)
		if (c->phase < COMMAND_UNKNOWN)
			break;
	if (c == NULL)
		return;
	occupy(c);
	cwd = command_directory(s, c->exec.cwd);
	if (strcmp(cwd, c->cwd) != 0) { /* the command before it left the session there */
		command_request_format(c);
		rows_command_save(c);
	}
	if (c->phase == COMMAND_COMMITTED)
		send_command(c);
}
