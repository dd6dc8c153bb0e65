// SPDX-License-Identifier: Apache-2.0
/* From a session's ring into the store. (ring, position) is unique there, so what is read twice
 * after a crash is stored, counted and shown once. */
#include "base/log.h"
#include "base/proc.h"
#include "session/internal.h"
#include <fcntl.h>

#define DRAIN_STEP 1024
#define DRAIN_TURN 8192 /* records of a bell; the rest waits for the next turn */

int session_open_ring(struct session *s, int fd[2], struct err *err)
{
	s->ring_fd = take_fd(fd[0]);
	s->ack_fd = take_fd(fd[1]);
	return journal_reader_open(s->ring_fd, s->ack_fd, s->id, &s->ring, err);
}

struct draining {
	struct session *s;
	struct command *c; /* of the last event */
};

/* What the journal tells about a command's life counts even if it was stored before. */
static void note(struct command *c, const struct event *e)
{
	switch (e->type) {
	case EVENT_command_started:
		if (c->started_us == 0)
			c->started_us = (int64_t)e->time_us;
		break;
	case EVENT_command_finished:
	case EVENT_command_killed:
	case EVENT_command_timeout:
		c->end_event = true;
		if (e->has_exit == 0)
			break;
		c->exit_code = e->exit_code;
		c->signal = e->signal != NULL ? proc_signal_by_name(e->signal) : 0;
		c->out.duration_us = (int64_t)e->duration_us;
		break;
	default:
		break;
	}
}

static enum seen seen_as(const struct event *e)
{
	static const enum seen by_class[] = {[EVENT_CLASS_OTHER] = SEEN_KINDS,
					     [EVENT_CLASS_FILE] = SEEN_FILE,
					     [EVENT_CLASS_NETWORK] = SEEN_NETWORK,
					     [EVENT_CLASS_EXEC] = SEEN_EXEC};

	if (e->decision != NULL && strcmp(e->decision, "deny") == 0)
		return SEEN_BLOCKED;
	return by_class[event_class((enum event_type)e->type)];
}

/* Spares the answer a query. */
static void list(struct command *c, enum seen kind, const struct buf *json)
{
	struct buf *out = &c->listed_events[kind].json;

	if (c->listed_events[kind].n + 1 != c->seen[kind] || c->seen[kind] > LISTED_MAX ||
	    out->len + json->len > LISTED_BYTES)
		return;
	if (out->len > 0)
		buf_addc(out, ',');
	buf_add(out, json->data, json->len);
	c->listed_events[kind].n++;
}

static void count(struct session *s, struct command *c, const struct event *e)
{
	const int64_t n = e->count > 0 ? e->count : 1;
	const enum event_class class = event_class((enum event_type)e->type);
	const enum seen seen = seen_as(e);

	if (class == EVENT_CLASS_FILE)
		s->totals.file_ops += n;
	if (class == EVENT_CLASS_NETWORK)
		s->totals.net_ops += n;
	if (e->type == EVENT_file_read)
		s->totals.bytes_read += (int64_t)e->op_bytes;
	if (e->type == EVENT_file_write)
		s->totals.bytes_written += (int64_t)e->op_bytes;
	if (c != NULL && seen < SEEN_KINDS) {
		c->seen[seen]++;
		list(c, seen, store_last_json(s->ss->deps.store));
	}
}

/* Whose session and agent an event is, is not the warden's to say. */
static void on_event(const struct event *e, uint64_t pos, void *arg)
{
	struct draining *d = arg;
	struct session *s = d->s;
	struct store *store = s->ss->deps.store;
	const uint64_t last = store_last_seq(store);
	struct event own = *e;
	struct err err = {0};

	own.session_id = s->id;
	own.agent_id = s->agent_id;
	if (store_event(store, &own, s->id, pos, &err) < 0)
		return; /* fails the turn: drained() is told */
	if (e->command_id == NULL)
		d->c = NULL;
	else if (d->c == NULL || strcmp(d->c->id, e->command_id) != 0)
		d->c = command_find(s, e->command_id);
	if (d->c != NULL && !d->c->over)
		note(d->c, e);
	if (own.seq > last)
		count(s, d->c, e);
}

/* Starts over at the acknowledged position. */
static void rewind_ring(struct session *s)
{
	int fd[2] = {fcntl(s->ring_fd, F_DUPFD_CLOEXEC, 3), fcntl(s->ack_fd, F_DUPFD_CLOEXEC, 3)};
	struct command *c;
	struct err err = {0};

	journal_reader_close(take(s->ring));
	if (session_open_ring(s, fd, &err) < 0)
		log_error("the journal cannot be opened again", "session_id", s->id, "error",
			  err.message);
	s->totals = s->committed;
	TAILQ_FOREACH (c, &s->commands, next)
		c->recovered = true;
}

/* What one reading waits for: the commit of its own turn. A waiter before it may read again, into
 * the next turn; those records are not acknowledged by this one. */
struct reading {
	struct session *s;
	uint64_t pos; /* behind its last record */
};

static void drained(const struct err *err, void *arg)
{
	struct reading *reading = arg;
	struct session *s = reading->s;

	if (s->ring != NULL && err != NULL) {
		rewind_ring(s);
		s->redrain = true;
		if (!s->ss->freeing)
			sessions_retry_later(s->ss);
	} else if (s->ring != NULL) {
		s->committed = s->totals;
		if (reading->pos <= journal_reader_pos(s->ring)) /* not after a rewind */
			journal_ack_to(s->ring, reading->pos);
	}
	session_unref(s);
	free(reading);
}

static void broken(struct session *s, const struct err *err)
{
	log_error("a journal is broken", "session_id", s->id, "error", err->message);
	journal_reader_close(take(s->ring));
	session_event(s, EVENT_events_dropped, err->message);
	session_over(s, "its journal is broken");
}

/* Reads at most max records; returns how many, or -1 when the ring is broken. */
static int drain_some(struct session *s, unsigned max)
{
	struct draining d = {.s = s};
	struct err err = {0};
	unsigned total = 0;
	int n;

	do {
		n = journal_drain(s->ring, DRAIN_STEP, on_event, &d, &err);
		if (n > 0)
			total += (unsigned)n;
	} while (n == DRAIN_STEP && total < max);
	if (total > 0) {
		struct reading *reading = mem_new(struct reading);

		*reading = (struct reading){session_ref(s), journal_reader_pos(s->ring)};
		store_after(s->ss->deps.store, drained, reading);
	}
	if (n < 0)
		broken(s, &err);
	return n < 0 ? -1 : (int)total;
}

void session_drain(struct session *s, uint64_t until)
{
	if (s->ring != NULL && journal_reader_pos(s->ring) < until)
		drain_some(s, UINT32_MAX);
}

void session_redrain(struct session *s)
{
	if (!s->redrain)
		return;
	s->redrain = false;
	session_drain(s, UINT64_MAX);
}

static void on_bell(void *arg)
{
	struct session *s = arg;
	int n;

	s->bell_pending = false;
	if (s->ring == NULL || s->over)
		return;
	n = drain_some(s, DRAIN_TURN);
	if (n > 0 && memcmp(&s->totals, &s->committed, sizeof(s->totals)) != 0)
		rows_session_save(s);
	if (n >= DRAIN_TURN) {
		s->bell_pending = true;
		watch_after(s->bell, 0);
	}
}

void session_bell(struct session *s)
{
	if (s->bell_pending)
		return;
	if (s->bell == NULL)
		s->bell = watch_timer(s->ss->deps.base, on_bell, s);
	s->bell_pending = true;
	watch_after(s->bell, BELL_MS);
}
