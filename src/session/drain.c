// SPDX-License-Identifier: Apache-2.0
/* Reads a session's rings into the store. The store keeps the position, so that a record that is
 * read twice after a crash is stored, counted and shown once. The warden's ring is read up to the
 * end of a command, then the rings of the other processes, then the rest of the warden's: events
 * that other processes recorded for a command come between its start and its end. */
#include "session/drain.h"
#include "base/log.h"
#include "event/journal.h"
#include "event/ring_heads.h"
#include "session/command_events.h"
#include "session/rows.h"
#include "session/sessions.h"
#include <fcntl.h>

#define DRAIN_STEP 1024
#define DRAIN_TURN 8192 /* records of a bell; the rest waits for the next turn */

/* A launcher of the previous version sends no names: the only ring is the warden's. */
size_t session_ring_fds(const struct strv *names)
{
	return names->n > 0 ? 2 * names->n : 2;
}

int session_open_rings(struct session *s, const struct strv *names, int *fd, size_t nfds,
		       struct err *err)
{
	const size_t n = session_ring_fds(names) / 2;
	int rc;

	if (nfds < 2 * n)
		return err_set(err, E_BAD_REQUEST, s->id, "%zu rings come with %zu descriptors", n,
			       nfds);
	s->ring = mem_resize(s->ring, n, sizeof(*s->ring));
	while (s->nrings < n) {
		const size_t i = s->nrings++;
		struct session_ring *r = &s->ring[i];

		*r = (struct session_ring){.id = i > 0 ? mem_printf("%s/%s", s->id, names->v[i])
						       : mem_strdup(s->id)};
		if (s->state != SESSION_CREATING)
			r->end = store_ring_end(s->ss->deps.store, r->id);
		rc = journal_reader_open(take_fd(fd[2 * i]), take_fd(fd[2 * i + 1]), r->id,
					 &r->reader, err);
		if (rc < 0) {
			s->events_dropped = true;
			return rc;
		}
	}
	return 0;
}

bool session_ring_named(const struct session *s, const char *name)
{
	for (size_t i = 1; i < s->nrings; i++)
		if (strcmp(strchr(s->ring[i].id, '/') + 1, name) == 0)
			return true;
	return false;
}

void session_close_rings(struct session *s)
{
	for (size_t i = 0; i < s->nrings; i++) {
		journal_reader_close(s->ring[i].reader);
		free(s->ring[i].id);
	}
	free(s->ring);
}

struct draining {
	struct session *s;
	struct session_ring *ring;
	struct command *c; /* of the last event */
	bool stop_at_end;  /* before the event that ends a command */
};

static void count(struct session *s, const struct event *e)
{
	const int64_t n = e->count > 0 ? e->count : 1;
	const enum event_class class = event_class((enum event_type)e->type);

	if (class == EVENT_CLASS_FILE)
		s->totals.file_ops += n;
	if (class == EVENT_CLASS_NETWORK)
		s->totals.net_ops += n;
	if (e->type == EVENT_file_read)
		s->totals.bytes_read += (int64_t)e->op_bytes;
	if (e->type == EVENT_file_write)
		s->totals.bytes_written += (int64_t)e->op_bytes;
}

/* The server sets the session and the agent of an event: the warden must not choose them. */
static bool on_event(const struct event *e, uint64_t pos, void *arg)
{
	struct draining *d = arg;
	struct session *s = d->s;
	struct store *store = s->ss->deps.store;
	const bool stored = pos < d->ring->end;
	struct event own = *e;

	if (d->stop_at_end && (e->type == EVENT_command_finished ||
			       e->type == EVENT_command_killed || e->type == EVENT_command_timeout))
		return false;
	own.session_id = s->id;
	own.agent_id = s->agent_id;
	if (!stored)
		store_event(store, &own, d->ring->id, pos);
	s->events_dropped |= e->type == EVENT_events_dropped;
	if (e->counter != NULL && strcmp(e->counter, "oom_kills") == 0)
		s->oom_kills = e->value;
	if (e->command_id == NULL)
		d->c = NULL;
	else if (d->c == NULL || strcmp(d->c->id, e->command_id) != 0)
		d->c = command_find(s, e->command_id);
	if (!stored)
		count(s, e);
	if (d->c != NULL && d->c->phase != COMMAND_OVER)
		command_take_event(d->c, e, !stored);
	return true;
}

/* Sends the producers the positions and results that the database has now. What was read since we
 * began to wait comes with the next commit. */
static void acknowledge(void *arg)
{
	struct session *s = arg;
	bool more = false;

	s->ack_due = false;
	for (size_t i = 0; i < s->nrings && !s->ss->freeing; i++) {
		struct session_ring *r = &s->ring[i];

		if (r->reader != NULL && r->acking > r->acked) {
			r->acked = r->acking;
			journal_ack_to(r->reader, r->acking);
		}
		more |= r->reader != NULL && r->end > r->acked;
	}
	warden_send_acks(s);
	if (more)
		session_ack_later(s);
	session_unref(s);
}

void session_ack_later(struct session *s)
{
	if (s->ack_due)
		return;
	s->ack_due = true;
	for (size_t i = 0; i < s->nrings; i++)
		s->ring[i].acking = s->ring[i].end;
	store_after_commit(s->ss->deps.store, acknowledge, session_ref(s));
}

/* Reads at most max records; returns how many, or -1 when the ring is broken. */
static int drain_some(struct session *s, struct session_ring *r, unsigned max, bool stop_at_end)
{
	struct draining d = {.s = s, .ring = r, .stop_at_end = stop_at_end};
	struct err err = {0};
	unsigned total = 0;
	int n;

	do {
		n = journal_drain(r->reader, DRAIN_STEP, on_event, &d, &err);
		if (n > 0)
			total += (unsigned)n;
	} while (n == DRAIN_STEP && total < max);
	if (journal_reader_pos(r->reader) > r->end) {
		r->end = journal_reader_pos(r->reader);
		store_take_back(s->ss->deps.store, r->number);
		r->number = store_put_ring_end(s->ss->deps.store, r->id, r->end);
	}
	if (total > 0)
		session_ack_later(s);
	if (n >= 0)
		return (int)total;
	log_error("a journal is broken", "session_id", s->id, "ring", r->id, "error", err.message);
	journal_reader_close(take(r->reader));
	s->events_dropped = true;
	session_event(s, EVENT_events_dropped, err.message);
	session_over(s, "its journal is broken");
	return -1;
}

uint32_t session_dropped(const struct session *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->nrings; i++)
		if (s->ring[i].reader != NULL)
			n += journal_reader_dropped(s->ring[i].reader);
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The rings in the order of reading: the warden's, the others, the warden's. A session with one
 * ring begins at 1. */
static struct session_ring *ring_at(struct session *s, size_t step)
{
	return &s->ring[step == 0 ? 0 : s->nrings - step];
}

void session_drain(struct session *s, const struct warden_result *result)
{
	for (size_t step = s->nrings > 1 ? 0 : 1; step <= s->nrings; step++) {
		struct session_ring *r = ring_at(s, step);
		const char *name = strchr(r->id, '/');
		uint64_t until = UINT64_MAX;

		if (result != NULL)
			until = name == NULL ? result->ring_end
					     : ring_heads_find(&result->ring_ends, name + 1);
		if (r->reader == NULL || journal_reader_pos(r->reader) >= until)
			continue;
		if (until != UINT64_MAX)
			journal_tell_head(r->reader, until);
		drain_some(s, r, UINT32_MAX, step == 0);
	}
}

static void ring_due(void *arg)
{
	struct session *s = arg;
	bool more = false;
	int total = 0;

	if (session_is_over(s))
		return;
	if (store_failing(s->ss->deps.store, NULL) < 0) { /* the ring keeps the records */
		session_on_bell(s, NULL, NULL);
		return;
	}
	for (size_t step = s->nrings > 1 ? 0 : 1; step <= s->nrings && !session_is_over(s);
	     step++) {
		struct session_ring *r = ring_at(s, step);
		const int n = r->reader != NULL ? drain_some(s, r, DRAIN_TURN, step == 0) : 0;

		total += n;
		more |= n >= DRAIN_TURN;
	}
	if (session_is_over(s))
		return;
	if (total > 0 && memcmp(&s->totals, &s->saved_totals, sizeof(s->totals)) != 0)
		rows_session_save(s);
	if (more)
		watch_after(s->bell, 0);
}

void session_on_bell(void *ctx, void *msg, struct link_msg *link)
{
	struct session *s = ctx;

	if (s->bell == NULL)
		s->bell = watch_timer(s->ss->deps.loop, ring_due, s);
	if (watch_due_us(s->bell) == 0)
		watch_after(s->bell, BELL_MS);
}
