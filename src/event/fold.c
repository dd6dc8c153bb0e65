// SPDX-License-Identifier: Apache-2.0
#include "event/fold.h"
#include "base/fnv.h"
#include "base/mem.h"

#define SLOTS 64 /* kinds of events that are remembered at a time */

struct fold_slot {
	struct buf key;	  /* what equal events have; empty: a free slot */
	struct buf event; /* packed: the first that was gathered */
	int64_t seen_us;  /* the last one of its kind */
	int64_t due_us;
	uint32_t count; /* gathered */
	uint32_t has;	/* enum event_has */
	uint64_t bytes, latency_us, size_after;
};

struct fold {
	struct recorder *recorder;
	const struct clock *clock;
	pthread_mutex_t lock; /* of what follows */
	unsigned size;
	int64_t delay_us;
	struct fold_slot slot[SLOTS];
	struct buf key; /* of the event at hand */
};

struct fold *fold_new(struct recorder *r, const struct clock *clock)
{
	struct fold *f = mem_new(struct fold);

	f->recorder = r;
	f->clock = clock;
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

static void make_key(const struct event *e, struct buf *out)
{
	const uint32_t numbers[] = {e->type, e->pid, e->op_error};
	const char *const texts[] = {
		e->command_id,	  e->path,	 e->real_path,	 e->op_to,
		e->op_flags,	  e->decision,	 e->policy_rule, e->policy_decision,
		e->denied_reason, e->approval_id};

	out->len = 0;
	buf_add(out, numbers, sizeof(numbers));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = texts[i] != NULL ? texts[i] : "";

		buf_add(out, text, strlen(text) + 1);
	}
}

/* With the lock. */
static void record(struct fold *f, struct fold_slot *s)
{
	struct event e;

	if (s->count == 0)
		return;
	ensure(event_unpack(s->event.data, s->event.len, &e, NULL) == 0);
	e.count = s->count;
	e.op_has = s->has;
	e.op_bytes = s->has & EVENT_HAS_BYTES ? s->bytes : 0;
	e.op_offset = s->has & EVENT_HAS_OFFSET ? e.op_offset : 0;
	e.latency_us = s->latency_us;
	e.size_after = s->size_after;
	recorder_event(f->recorder, &e, NULL, NULL);
	event_done(&e);
	s->count = 0;
}

static void gather(struct fold *f, struct fold_slot *s, const struct event *e, int64_t now)
{
	if (s->count == 0) {
		s->event.len = 0;
		event_pack(e, &s->event);
		s->has = e->op_has;
		s->bytes = s->latency_us = 0;
		s->due_us = now + f->delay_us;
	}
	/* a sum is known if every part is; no place is that of several */
	s->has &= e->op_has | EVENT_MAPPED;
	s->has |= e->op_has & EVENT_MAPPED;
	if (s->count > 0)
		s->has &= ~(uint32_t)EVENT_HAS_OFFSET;
	s->count += e->count > 0 ? e->count : 1;
	s->bytes += e->op_bytes;
	s->size_after = e->size_after;
	if (e->latency_us > s->latency_us)
		s->latency_us = e->latency_us;
	s->seen_us = now;
	if (s->count >= f->size)
		record(f, s);
}

bool fold_event(struct fold *f, const struct event *e)
{
	const int64_t now = clock_mono_us(f->clock);
	struct fold_slot *s;
	bool waits = false;

	pthread_mutex_lock(&f->lock);
	if (f->size <= 1 || event_class((enum event_type)e->type) == EVENT_CLASS_OTHER) {
		recorder_event(f->recorder, e, NULL, NULL);
		pthread_mutex_unlock(&f->lock);
		return false;
	}
	make_key(e, &f->key);
	s = &f->slot[fnv32(FNV32, f->key.data, f->key.len) % SLOTS];
	if (s->key.len == f->key.len && memcmp(s->key.data, f->key.data, f->key.len) == 0 &&
	    now - s->seen_us <= f->delay_us) {
		gather(f, s, e, now);
		waits = s->count > 0;
	} else {
		record(f, s);
		s->key.len = 0;
		buf_add(&s->key, f->key.data, f->key.len);
		s->seen_us = now;
		recorder_event(f->recorder, e, NULL, NULL);
	}
	pthread_mutex_unlock(&f->lock);
	return waits;
}

int64_t fold_flush(struct fold *f, bool all)
{
	const int64_t now = clock_mono_us(f->clock);
	int64_t next = -1;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < SLOTS; i++) {
		struct fold_slot *s = &f->slot[i];

		if (all || s->due_us <= now)
			record(f, s);
		if (s->count > 0 && (next < 0 || s->due_us < next))
			next = s->due_us;
	}
	pthread_mutex_unlock(&f->lock);
	return next;
}

void fold_set(struct fold *f, unsigned size, int64_t delay_us)
{
	fold_flush(f, true);
	pthread_mutex_lock(&f->lock);
	f->size = size;
	f->delay_us = delay_us;
	pthread_mutex_unlock(&f->lock);
}

void fold_free(struct fold *f)
{
	if (f == NULL)
		return;
	fold_flush(f, true);
	for (size_t i = 0; i < SLOTS; i++) {
		buf_done(&f->slot[i].key);
		buf_done(&f->slot[i].event);
	}
	buf_done(&f->key);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
