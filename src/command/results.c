// SPDX-License-Identifier: Apache-2.0
#include "command/results.h"
#include "base/mem.h"

void results_init(struct results *rs)
{
	*rs = (struct results){0};
	TAILQ_INIT(&rs->list);
}

static void drop(struct results *rs, struct result *r)
{
	TAILQ_REMOVE(&rs->list, r, next);
	rs->n--;
	rs->refusals -= r->refusal != NULL;
	free(r->refusal);
	msg_done(MSG_warden_result, &r->msg);
	free(r);
}

void results_done(struct results *rs)
{
	struct result *r;

	while ((r = TAILQ_FIRST(&rs->list)) != NULL)
		drop(rs, r);
}

struct result *results_add(struct results *rs, struct warden_result *msg)
{
	struct result *r = mem_new(struct result);

	r->msg = *msg;
	*msg = (struct warden_result){0};
	TAILQ_INSERT_TAIL(&rs->list, r, next);
	rs->n++;
	return r;
}

static void update(struct result *r)
{
	r->ready = r->recorded && r->unsettled == 0;
}

void result_recorded(struct result *r, uint64_t ring_end)
{
	r->msg.ring_end = ring_end;
	r->recorded = true;
	update(r);
}

void result_settled(struct result *r, struct process_settled *m)
{
	if (r->unsettled == 0)
		return; /* too late */
	r->unsettled--;
	if (m->fuse.requests > 0)
		r->msg.fuse = m->fuse;
	if (m->failed_path != NULL && r->msg.failed_path == NULL) {
		r->msg.failed_errno = m->failed_errno;
		r->msg.failed_path = take(m->failed_path);
		if (r->msg.error_code == NULL) {
			r->msg.similar = m->similar;
			m->similar = (struct strv){0};
		}
	}
	update(r);
}

void result_limited(struct result *r, const char *message)
{
	if (r->unsettled == 0 || r->refusal != NULL || r->msg.error_code != NULL ||
	    r->msg.exit_code == 0)
		return;
	r->msg.error_code = mem_strdup(err_row(E_RESOURCE_LIMIT)->name);
	r->msg.error_message = mem_strdup(message);
}

bool results_unsettled(const struct results *rs)
{
	const struct result *r;

	TAILQ_FOREACH (r, &rs->list, next)
		if (r->unsettled > 0)
			return true;
	return false;
}

void results_settle_all(struct results *rs)
{
	struct result *r;

	TAILQ_FOREACH (r, &rs->list, next)
		if (r->unsettled > 0) {
			r->unsettled = 0;
			update(r);
		}
}

struct result *results_find(struct results *rs, const char *command_id)
{
	struct result *r;

	TAILQ_FOREACH (r, &rs->list, next)
		if (r->refusal == NULL && strcmp(r->msg.command_id, command_id) == 0)
			return r;
	return NULL;
}

/* The API process cannot have stored a result that was not sent. */
void results_ack(struct results *rs, const struct strv *command_ids)
{
	for (size_t i = 0; i < command_ids->n; i++) {
		struct result *r = results_find(rs, command_ids->v[i]);

		if (r != NULL && r->told)
			drop(rs, r);
	}
}

void results_refuse(struct results *rs, const char *command_id, uint32_t req, const struct err *err)
{
	struct warden_result msg = {.command_id = mem_strdup(command_id)};
	struct result *r = results_add(rs, &msg);

	r->refusal = mem_dup(err, sizeof(*err));
	r->req = req;
	r->ready = true;
	rs->refusals++;
}

struct result *results_next(struct results *rs)
{
	struct result *r;

	TAILQ_FOREACH (r, &rs->list, next)
		if (r->ready ? !r->told : r->tell_started)
			return r;
	return NULL;
}

void results_told(struct results *rs, struct result *r)
{
	r->told = r->ready;
	r->tell_started = false;
	if (r->refusal != NULL)
		drop(rs, r);
}

void results_unlinked(struct results *rs)
{
	struct result *r, *next;

	for (r = TAILQ_FIRST(&rs->list); r != NULL; r = next) {
		next = TAILQ_NEXT(r, next);
		if (r->refusal != NULL)
			drop(rs, r);
	}
}

void results_tell_again(struct results *rs)
{
	struct result *r;

	TAILQ_FOREACH (r, &rs->list, next) {
		r->told = false;
		r->tell_started = true;
		r->req = 0;
	}
}

bool results_full(const struct results *rs)
{
	return rs->n - rs->refusals >= RESULTS_MAX;
}
