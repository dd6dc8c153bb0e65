// SPDX-License-Identifier: Apache-2.0
/* Events in the store: sequence, chain, row, the ends of their rings, sinks, and queries. */
#include "base/mem.h"
#include "event/query.h"
#include "event/schema.h"
#include "event/store_state.h"

int store_load_chain(struct store *s, struct err *err)
{
	sqlite3_stmt *stmt =
		store_stmt(s, "SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1");
	int rc = sqlite3_step(stmt);

	if (rc == SQLITE_ROW && sqlite3_column_bytes(stmt, 1) != HASH_LEN) {
		rc = err_set(err, E_UNAVAILABLE, s->path,
			     "cannot read the database '%s': the last event has no hash", s->path);
	} else if (rc == SQLITE_ROW) {
		s->chain.seq = (uint64_t)sqlite3_column_int64(stmt, 0);
		memcpy(s->chain.hash, sqlite3_column_blob(stmt, 1), HASH_LEN);
		rc = 0;
	} else {
		rc = rc == SQLITE_DONE ? 0 : schema_failed(s->db, s->path, "read", err);
	}
	sqlite3_reset(stmt);
	s->safe = s->chain.seq;
	return rc;
}

uint64_t store_last_seq(struct store *s)
{
	return s->safe;
}

void store_skip_to(struct store *s, uint64_t seq)
{
	const uint64_t lost = seq - s->chain.seq;
	struct event e = {.type = EVENT_events_dropped,
			  .count = lost < UINT32_MAX ? (uint32_t)lost : UINT32_MAX,
			  .reason = event_lend("lost before they were in the database")};

	s->safe = s->chain.seq = seq;
	store_event(s, &e, NULL, 0);
}

static void keep(struct store *s, const struct event *e)
{
	const char *const from[] = {e->session_id, e->command_id, e->decision};
	size_t bytes = s->json.len + 1;
	struct store_pending *p;
	char *at;

	for (size_t i = 0; i < ARRAY_LEN(from); i++)
		bytes += from[i] != NULL ? strlen(from[i]) + 1 : 0;
	p = mem_resize(NULL, sizeof(*p) + bytes, 1);
	at = (char *)(p + 1);
	p->event = (struct stored_event){.seq = e->seq,
					 .type = (enum event_type)e->type,
					 .count = e->count,
					 .json = memcpy(at, s->json.data, s->json.len + 1),
					 .len = s->json.len};
	at += s->json.len + 1;
	const char **const to[] = {&p->event.session_id, &p->event.command_id, &p->event.decision};
	for (size_t i = 0; i < ARRAY_LEN(to); i++)
		if (from[i] != NULL) {
			*to[i] = at;
			at = stpcpy(at, from[i]) + 1;
		}
	STAILQ_INSERT_TAIL(&s->pending, p, link);
}

void store_event(struct store *s, struct event *e, const char *ring, uint64_t pos)
{
	if (e->time_us == 0)
		e->time_us = (uint64_t)clock_wall_us(s->clock);
	e->seq = ++s->chain.seq;
	buf_clear(&s->json);
	event_format(e, &s->json);
	hash_sha256(s->chain.hash, s->chain.hash, HASH_LEN, s->json.data, s->json.len);
	store_put(s, "INSERT INTO events(seq, ring, pos, time_us, type, session_id, command_id, "
		     "agent_id, decision, policy_decision, path, domain, body, hash) "
		     "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
	store_put_int(s, (int64_t)e->seq);
	store_put_text(s, ring);
	if (ring != NULL)
		store_put_int(s, (int64_t)pos);
	else
		store_put_text(s, NULL);
	store_put_int(s, (int64_t)e->time_us);
	store_put_text(s, event_type_name((enum event_type)e->type));
	store_put_text(s, e->session_id);
	store_put_text(s, e->command_id);
	store_put_text(s, e->agent_id);
	store_put_text(s, e->decision);
	store_put_text(s, e->policy_decision);
	store_put_text(s, e->path != NULL ? e->path : e->exec_path);
	store_put_text(s, e->dns_domain != NULL ? e->dns_domain : e->tls_sni);
	store_put_text(s, s->json.data);
	store_put_blob(s, s->chain.hash, HASH_LEN);
	store_put_end(s);
	keep(s, e);
}

/* ---- rings ---- */

uint64_t store_ring_end(struct store *s, const char *ring)
{
	sqlite3_stmt *stmt = store_stmt(s, "SELECT pos FROM rings WHERE ring=?");
	uint64_t pos = 0;

	sqlite3_bind_text(stmt, 1, ring, -1, SQLITE_STATIC);
	if (sqlite3_step(stmt) == SQLITE_ROW)
		pos = (uint64_t)sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return pos;
}

uint64_t store_put_ring_end(struct store *s, const char *ring, uint64_t pos)
{
	store_put(s, "REPLACE INTO rings(ring, pos) VALUES(?, ?)");
	store_put_text(s, ring);
	store_put_int(s, (int64_t)pos);
	return store_put_end(s);
}

void store_drop_rings(struct store *s, const char *id)
{
	/* '0' follows '/'. */
	store_put(s,
		  "DELETE FROM rings WHERE ring = ?1 OR (ring > ?1 || '/' AND ring < ?1 || '0')");
	store_put_text(s, id);
	store_put_end(s);
}

const struct buf *store_last_json(const struct store *s)
{
	return &s->json;
}

void store_forget_events(struct pending_list *events)
{
	struct store_pending *p;

	while ((p = STAILQ_FIRST(events)) != NULL) {
		STAILQ_REMOVE_HEAD(events, link);
		free(p);
	}
}

static void sweep(struct store *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->nsinks; i++)
		if (s->sinks[i].fn != NULL || s->sinks[i].turn != NULL)
			s->sinks[kept++] = s->sinks[i];
	s->nsinks = kept;
}

/* A sink may add and remove sinks, itself too, so the places stay until all have been called. Added
 * sinks begin with the next turn. */
void store_deliver(struct store *s, struct pending_list *events)
{
	const size_t n = s->nsinks;
	struct store_pending *p;

	if (STAILQ_EMPTY(events))
		return;
	s->delivering++;
	for (p = STAILQ_FIRST(events); p != NULL; p = STAILQ_NEXT(p, link))
		for (size_t i = 0; i < n; i++)
			if (s->sinks[i].fn != NULL)
				s->sinks[i].fn(&p->event, s->sinks[i].arg);
	for (size_t i = 0; i < n; i++)
		if (s->sinks[i].turn != NULL)
			s->sinks[i].turn(s->sinks[i].arg);
	if (--s->delivering == 0)
		sweep(s);
	store_forget_events(events);
}

void store_add_sink(struct store *s, store_sink_fn *fn, store_turn_fn *turn, void *arg)
{
	s->sinks = mem_resize(s->sinks, s->nsinks + 1, sizeof(*s->sinks));
	s->sinks[s->nsinks++] = (struct sink){fn, turn, arg};
}

void store_remove_sink(struct store *s, store_sink_fn *fn, store_turn_fn *turn, void *arg)
{
	for (size_t i = 0; i < s->nsinks; i++)
		if (s->sinks[i].fn == fn && s->sinks[i].turn == turn && s->sinks[i].arg == arg) {
			s->sinks[i] = (struct sink){0};
			break;
		}
	if (s->delivering == 0)
		sweep(s);
}

int store_query(struct store *s, const struct event_query *q, store_row_fn *fn, void *arg,
		uint64_t *total, struct err *err)
{
	struct event_page page;
	int rc;

	store_apply(s);
	rc = query_run(s->db, q, NULL, total != NULL, fn, arg, &page, err);
	if (rc == 0 && total != NULL)
		*total = page.total;
	return rc;
}
