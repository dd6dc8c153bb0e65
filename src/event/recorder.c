// SPDX-License-Identifier: Apache-2.0
#include "event/recorder.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/verdict.h"

#define ROOM (4 * (EVENT_MAX + 64)) /* bytes for three events and the end of the ring */

struct waiting_event {
	STAILQ_ENTRY(waiting_event) next;
	struct buf packed;
	recorder_fn *done;
	void *arg;
};

int recorder_open(struct recorder *r, int ring_fd, int ack_fd, struct err *err)
{
	*r = (struct recorder){0};
	STAILQ_INIT(&r->waiting);
	pthread_mutex_init(&r->lock, NULL);
	return journal_open(ring_fd, ack_fd, &r->journal, err);
}

static void drop_first(struct recorder *r)
{
	struct waiting_event *p = STAILQ_FIRST(&r->waiting);

	STAILQ_REMOVE_HEAD(&r->waiting, next);
	buf_done(&p->packed);
	free(p);
}

void recorder_close(struct recorder *r)
{
	if (r->journal == NULL)
		return;
	while (!STAILQ_EMPTY(&r->waiting)) {
		journal_count_drops(r->journal, 1);
		drop_first(r);
	}
	journal_close(r->journal);
	r->journal = NULL;
	pthread_mutex_destroy(&r->lock);
}

/* True once the event is appended (code 0) or given up. */
static bool settled(struct recorder *r, int code, const struct err *err, uint64_t *end)
{
	if (code == 0)
		return true;
	if (code == -E_RATE_LIMITED && !r->drop)
		return false;
	if (code != -E_RATE_LIMITED)
		log_error("event not recorded", "reason", err->message);
	journal_count_drops(r->journal, 1);
	*end = journal_head(r->journal);
	return true;
}

void recorder_event(struct recorder *r, const struct event *e, recorder_fn *done, void *arg)
{
	struct err err = {0};
	uint64_t end = 0;

	pthread_mutex_lock(&r->lock);
	/* Allowed execs are many; the bell need not ring for each at once. */
	if (e->type != EVENT_exec ||
	    (e->decision != NULL && strcmp(e->decision, decision_name(DECISION_deny)) == 0))
		r->urgent = true;
	if (STAILQ_EMPTY(&r->waiting) &&
	    settled(r, journal_append(r->journal, e, &end, &err), &err, &end)) {
		if (done != NULL)
			done(end, arg);
	} else {
		struct waiting_event *p = mem_new(struct waiting_event);

		event_pack(e, &p->packed);
		p->done = done;
		p->arg = arg;
		STAILQ_INSERT_TAIL(&r->waiting, p, next);
	}
	pthread_mutex_unlock(&r->lock);
}

bool recorder_flush(struct recorder *r)
{
	struct waiting_event *p;
	struct err err = {0};
	uint64_t end = 0;

	pthread_mutex_lock(&r->lock);
	while ((p = STAILQ_FIRST(&r->waiting)) != NULL &&
	       settled(r, journal_append_packed(r->journal, &p->packed, &end, &err), &err, &end)) {
		if (p->done != NULL)
			p->done(end, p->arg);
		drop_first(r);
	}
	pthread_mutex_unlock(&r->lock);
	return p == NULL;
}

void recorder_lost(struct recorder *r, uint64_t n)
{
	pthread_mutex_lock(&r->lock);
	journal_count_drops(r->journal, n);
	pthread_mutex_unlock(&r->lock);
}

uint64_t recorder_head(struct recorder *r)
{
	uint64_t head;

	pthread_mutex_lock(&r->lock);
	head = journal_head(r->journal);
	pthread_mutex_unlock(&r->lock);
	return head;
}

bool recorder_has_room(struct recorder *r)
{
	bool room;

	pthread_mutex_lock(&r->lock);
	room = r->drop || (STAILQ_EMPTY(&r->waiting) && journal_room(r->journal) >= ROOM);
	pthread_mutex_unlock(&r->lock);
	return room;
}

enum recorder_bell recorder_bell(struct recorder *r, uint64_t *head)
{
	enum recorder_bell bell = RECORDER_BELL_NONE;

	pthread_mutex_lock(&r->lock);
	*head = journal_head(r->journal);
	if (*head > r->rung)
		bell = journal_acked(r->journal) >= r->rung ? RECORDER_BELL_DUE
							    : RECORDER_BELL_LATER;
	pthread_mutex_unlock(&r->lock);
	return bell;
}

void recorder_rung(struct recorder *r, uint64_t pos)
{
	pthread_mutex_lock(&r->lock);
	if (pos > r->rung)
		r->rung = pos;
	if (journal_head(r->journal) <= r->rung)
		r->urgent = false;
	pthread_mutex_unlock(&r->lock);
}
