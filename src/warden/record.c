// SPDX-License-Identifier: Apache-2.0
#include "warden/record.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/verdict.h"

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

	r->urgent |= is_urgent(e);
	if (record_waits(r) || !append(r, e, &end))
		keep(r, e, done, arg);
	else if (done != NULL)
		done(end, arg);
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

	while ((p = STAILQ_FIRST(&r->waiting)) != NULL) {
		if (!append_parcel(r, p, &end))
			return false;
		STAILQ_REMOVE_HEAD(&r->waiting, next);
		if (p->done != NULL)
			p->done(end, p->arg);
		parcel_free(p);
	}
	return true;
}

bool record_waits(const struct record *r)
{
	return !STAILQ_EMPTY(&r->waiting);
}

void record_forget(struct record *r, const void *arg)
{
	struct parcel *p;

	STAILQ_FOREACH(p, &r->waiting, next)
	if (p->arg == arg)
		p->done = NULL;
}

bool record_unread(const struct record *r)
{
	return journal_head(r->journal) > r->rung;
}

bool record_wants_bell(const struct record *r)
{
	return record_unread(r) && journal_acked(r->journal) >= r->rung;
}

void record_bell_rung(struct record *r, uint64_t pos)
{
	if (pos > r->rung)
		r->rung = pos;
	if (!record_unread(r))
		r->urgent = false;
}
