// SPDX-License-Identifier: Apache-2.0
/* What the API child is told: marks on the objects become messages, as far as the socket takes
 * them. */
#include "base/log.h"
#include "base/mem.h"
#include "warden/core.h"

struct refused_command {
	STAILQ_ENTRY(refused_command) next;
	char *command_id;
	uint32_t req;
	struct err err;
};

/* What can never be sent is logged and counts as sent: one broken message must not stop the others.
 */
static enum link_status send_message(struct warden *w, enum msg_type type, uint32_t req,
				     const void *obj)
{
	struct server_link *a = &w->api;
	struct err err = {0};
	const enum link_status status = link_send(&a->peer.link, type, req, obj, NULL, 0, &err);

	if (status == LINK_FULL)
		peer_await_room(&a->peer);
	if (status == LINK_EOF)
		server_link_hang_up(w);
	if (status != LINK_BROKEN)
		return status;
	log_error("a message cannot be sent", "reason", err.message);
	return LINK_OK;
}

static enum link_status send_state(struct warden *w, uint32_t req)
{
	struct warden_state m = {.version = LINK_VERSION,
				 .fresh = w->fresh,
				 .session_id = (char *)w->args->session_id,
				 .cwd = w->memory.cwd,
				 .env = w->memory.env,
				 .aliases = w->memory.aliases,
				 .dir_stack = w->memory.dirs,
				 .walls = w->walls,
				 .commands = w->commands.started,
				 .last_exit = w->memory.last_exit,
				 .ring_pos = recorder_head(&w->recorder),
				 .execs = commands_exec_counts(&w->commands)};

	return send_message(w, MSG_warden_state, req, &m);
}

static enum link_status send_progress(struct warden *w, struct run *r)
{
	enum link_status s = LINK_OK;

	if (r->tell_started) {
		struct warden_started m = {r->ask.command_id, (uint32_t)r->pid,
					   (uint64_t)r->wall_us};

		s = send_message(w, MSG_warden_started, r->req, &m);
		r->tell_started = s != LINK_OK;
	}
	if (s == LINK_OK && r->tell_output && r->phase < RUN_KEPT) {
		const struct stream *out = &r->out[0].stream, *errors = &r->out[1].stream;
		struct warden_output m = {
			.command_id = r->ask.command_id,
			.stdout_bytes = out->bytes,
			.stderr_bytes = errors->bytes,
			.stdout_kept = out->kept,
			.stderr_kept = errors->kept,
			.stdout_from = out->from,
			.stderr_from = errors->from,
			.stdout_lines = stream_lines(out),
			.stderr_lines = stream_lines(errors),
		};

		s = send_message(w, MSG_warden_output, r->req, &m);
		r->tell_output = s != LINK_OK;
	}
	if (s == LINK_OK && r->tell_taken) {
		struct warden_taken m = {r->ask.command_id, r->in.taken};

		s = send_message(w, MSG_warden_taken, r->req, &m);
		r->tell_taken = s != LINK_OK;
	}
	return s;
}

static enum link_status send_result(struct warden *w, struct result *k)
{
	enum link_status s;

	ring_heads_look(&w->heads); /* what the command did is before them */
	ring_heads_format(&w->heads, &k->msg.ring_ends);
	s = send_message(w, MSG_warden_result, k->req, &k->msg);
	if (s == LINK_OK) {
		k->told = true;
		recorder_rung(&w->recorder, k->msg.ring_end); /* it makes the reader read */
		ring_heads_rung(&w->heads);
	}
	return s;
}

static void drop_refusal(struct server_link *a)
{
	struct refused_command *r = STAILQ_FIRST(&a->refusals);

	STAILQ_REMOVE_HEAD(&a->refusals, next);
	a->nrefusals--;
	free(r->command_id);
	free(r);
}

static enum link_status send_refusals(struct warden *w)
{
	struct server_link *a = &w->api;
	enum link_status s = LINK_OK;
	const struct refused_command *r;

	while (s == LINK_OK && (r = STAILQ_FIRST(&a->refusals)) != NULL) {
		const struct err *err = &r->err;
		struct warden_refused m = {.command_id = r->command_id,
					   .code = (char *)err_row(err->code)->name,
					   .subject = (char *)err->subject,
					   .policy = err->policy[0] != '\0' ? (char *)err->policy
									    : NULL,
					   .message = (char *)err->message};

		s = send_message(w, MSG_warden_refused, r->req, &m);
		if (s == LINK_OK)
			drop_refusal(a);
	}
	return s;
}

static enum link_status send_commands(struct warden *w)
{
	enum link_status s = LINK_OK;
	struct result *k;
	struct run *r;

	for (r = TAILQ_FIRST(&w->commands.runs); s == LINK_OK && r != NULL; r = TAILQ_NEXT(r, next))
		s = send_progress(w, r);
	while (s == LINK_OK && (k = results_next_unready(&w->commands.results)) != NULL) {
		struct warden_started m = {k->msg.command_id, 0, k->msg.started_us};

		s = send_message(w, MSG_warden_started, 0, &m);
		k->tell_started = s != LINK_OK;
	}
	while (s == LINK_OK && (k = results_next(&w->commands.results)) != NULL)
		s = send_result(w, k);
	return s;
}

/* States that answer a patch come behind everything that was marked before. */
static enum link_status send_patches(struct warden *w)
{
	struct server_link *a = &w->api;
	enum link_status s = LINK_OK;

	while (s == LINK_OK && a->patches > 0) {
		s = send_state(w, a->patch_req);
		a->patches -= s == LINK_OK;
	}
	return s;
}

/* One for all records that the reader has not been told of; the next when it has read those, and
 * when it is time. */
static enum link_status send_bell(struct warden *w)
{
	const struct msg_empty m = {0};
	uint64_t head;
	const enum recorder_bell bell = recorder_bell(&w->recorder, &head);
	const bool others = ring_heads_look(&w->heads);
	const bool due = w->recorder.urgent || w->phase != WARDEN_LIVE ||
			 clock_mono_us(w->clock) - w->api.rung_us >= BELL_MS * 1000;
	enum link_status s = LINK_OK;

	if (bell == RECORDER_BELL_NONE && !others)
		return LINK_OK;
	if ((bell == RECORDER_BELL_DUE || others) && due) {
		s = send_message(w, MSG_warden_bell, 0, &m);
		if (s == LINK_OK) {
			recorder_rung(&w->recorder, head);
			ring_heads_rung(&w->heads);
			w->api.rung_us = clock_mono_us(w->clock);
		}
	} else {
		watch_after(w->api.bell, BELL_MS);
	}
	return s;
}

bool server_link_flush(struct warden *w)
{
	static enum link_status (*const steps[])(struct warden *) = {send_refusals, send_commands,
								     send_patches, send_bell};
	const struct warden_failed failed = {w->failure};
	struct server_link *a = &w->api;
	enum link_status s = LINK_OK;

	if (a->peer.link.fd < 0)
		return true;
	if (a->greeted && a->tell_state) {
		s = send_state(w, a->state_req);
		a->tell_state = s != LINK_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(steps) && a->greeted && s == LINK_OK; i++)
		s = steps[i](w);
	if (s == LINK_OK && w->failure != NULL && !a->told_failure) {
		s = send_message(w, MSG_warden_failed, 0, &failed);
		a->told_failure = s == LINK_OK;
	}
	return s != LINK_FULL;
}

void server_link_refuse(void *warden, const char *command_id, uint32_t req, const struct err *err)
{
	struct warden *w = warden;
	struct refused_command *r = mem_new(struct refused_command);

	r->command_id = mem_strdup(command_id);
	r->req = req;
	r->err = *err;
	STAILQ_INSERT_TAIL(&w->api.refusals, r, next);
	w->api.nrefusals++;
}

void server_link_drop_refusals(struct server_link *a)
{
	while (!STAILQ_EMPTY(&a->refusals))
		drop_refusal(a);
}
