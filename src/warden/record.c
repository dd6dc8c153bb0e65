// SPDX-License-Identifier: Apache-2.0
#include "warden/record.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/verdict.h"

#define ROOM (4 * (EVENT_MAX + 64)) /* bytes for three events and the end of the ring */

struct parcel {
	STAILQ_ENTRY(parcel) next;
	struct buf packed;
	record_fn *done;
	void *arg;
};

int record_open(struct record *r, int ring_fd, int ack_fd, struct err *err)
{
	*r = (struct record){0};
	STAILQ_INIT(&r->waiting);
	pthread_mutex_init(&r->lock, NULL);
	return journal_open(ring_fd, ack_fd, &r->journal, err);
}

static void parcel_free(struct parcel *p)
{
	buf_done(&p->packed);
	free(p);
}

void record_close(struct record *r)
{
	struct parcel *p;

	if (r->journal == NULL)
		return;
	while ((p = STAILQ_FIRST(&r->waiting)) != NULL) {
		journal_count_drop(r->journal);
		STAILQ_REMOVE_HEAD(&r->waiting, next);
		parcel_free(p);
	}
	journal_close(r->journal);
	r->journal = NULL;
	pthread_mutex_destroy(&r->lock);
}

/* True once it is settled: appended, or given up. */
static bool append(struct record *r, const struct event *e, uint64_t *end)
{
	struct err err = {0};
	const int code = journal_append(r->journal, e, end, &err);

	if (code == 0)
		return true;
	if (code == -E_RATE_LIMITED && !r->drop)
		return false;
	if (code != -E_RATE_LIMITED)
		log_error("event not recorded", "reason", err.message);
	journal_count_drop(r->journal);
	*end = journal_head(r->journal);
	return true;
}

static void keep(struct record *r, const struct event *e, record_fn *done, void *arg)
{
	struct parcel *p = mem_new(struct parcel);

	event_pack(e, &p->packed);
	p->done = done;
	p->arg = arg;
	STAILQ_INSERT_TAIL(&r->waiting, p, next);
}

/* Programs that are let go are many, and nobody waits for the news. */
static bool is_urgent(const struct event *e)
{
	return e->type != EVENT_exec ||
	       (e->decision != NULL && strcmp(e->decision, decision_name(DECISION_deny)) == 0);
}

void record_event(struct record *r, const struct event *e, record_fn *done, void *arg)
{
	uint64_t end = 0;

	pthread_mutex_lock(&r->lock);
	if (is_urgent(e))
		r->urgent = true;
	if (!STAILQ_EMPTY(&r->waiting) || !append(r, e, &end))
		keep(r, e, done, arg);
	else if (done != NULL)
		done(end, arg);
	pthread_mutex_unlock(&r->lock);
}

static bool append_parcel(struct record *r, const struct parcel *p, uint64_t *end)
{
	struct event e;
	bool settled;

	ensure(event_unpack(p->packed.data, p->packed.len, &e, NULL) == 0);
	settled = append(r, &e, end);
	event_done(&e);
	return settled;
}

bool record_flush(struct record *r)
{
	struct parcel *p;
	uint64_t end = 0;

	pthread_mutex_lock(&r->lock);
	while ((p = STAILQ_FIRST(&r->waiting)) != NULL && append_parcel(r, p, &end)) {
		STAILQ_REMOVE_HEAD(&r->waiting, next);
		if (p->done != NULL)
			p->done(end, p->arg);
		parcel_free(p);
	}
	pthread_mutex_unlock(&r->lock);
	return p == NULL;
}

bool record_waits(struct record *r)
{
	bool waits;

	pthread_mutex_lock(&r->lock);
	waits = !STAILQ_EMPTY(&r->waiting);
	pthread_mutex_unlock(&r->lock);
	return waits;
}

uint64_t record_head(struct record *r)
{
	uint64_t head;

	pthread_mutex_lock(&r->lock);
	head = journal_head(r->journal);
	pthread_mutex_unlock(&r->lock);
	return head;
}

bool record_has_room(struct record *r)
{
	bool room;

	pthread_mutex_lock(&r->lock);
	room = r->drop || (STAILQ_EMPTY(&r->waiting) && journal_room(r->journal) >= ROOM);
	pthread_mutex_unlock(&r->lock);
	return room;
}

void record_forget(struct record *r, const void *arg)
{
	struct parcel *p;

	pthread_mutex_lock(&r->lock);
	STAILQ_FOREACH(p, &r->waiting, next)
	if (p->arg == arg)
		p->done = NULL;
	pthread_mutex_unlock(&r->lock);
}

static bool is_unread(const struct record *r)
{
	return journal_head(r->journal) > r->rung;
}

bool record_unread(struct record *r)
{
	bool unread;

	pthread_mutex_lock(&r->lock);
	unread = is_unread(r);
	pthread_mutex_unlock(&r->lock);
	return unread;
}

bool record_wants_bell(struct record *r)
{
	bool wants;

	pthread_mutex_lock(&r->lock);
	wants = is_unread(r) && journal_acked(r->journal) >= r->rung;
	pthread_mutex_unlock(&r->lock);
	return wants;
}

void record_bell_rung(struct record *r, uint64_t pos)
{
	pthread_mutex_lock(&r->lock);
	if (pos > r->rung)
		r->rung = pos;
	if (!is_unread(r))
		r->urgent = false;
	pthread_mutex_unlock(&r->lock);
}
