// SPDX-License-Identifier: Apache-2.0
/* The lists of a command's operations in its answer: the events as the store has them. */
#include "session/answer.h"
#include "session/recall.h"
#include "session/session_state.h"

static const struct list_row {
	const char *key, *total;
	enum event_class class;
} list_rows[SEEN_KINDS] = {
	[SEEN_FILE] = {"file_operations", "file", EVENT_CLASS_FILE},
	[SEEN_NETWORK] = {"network_operations", "network", EVENT_CLASS_NETWORK},
	[SEEN_EXEC] = {"exec_operations", "exec", EVENT_CLASS_EXEC},
	[SEEN_BLOCKED] = {"blocked_operations", "blocked", EVENT_CLASS_OTHER},
};

struct event_query answer_list_query(enum seen kind)
{
	struct event_query q = {.limit = LISTED_MAX};

	if (kind == SEEN_BLOCKED)
		q.decision = "deny";
	else
		q.types = event_types_of(list_rows[kind].class);
	q.without_denied = kind != SEEN_BLOCKED;
	return q;
}

struct list {
	struct jw *w;
	unsigned n;
};

static void list_event(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct list *l = arg;

	jw_raw(l->w, json, len);
	l->n++;
}

static bool format_events(struct command *c, enum seen kind, struct jw *w)
{
	struct list l = {.w = w};
	struct event_query q = answer_list_query(kind);
	const int64_t total = c->out.ops.seen[kind];

	jw_karr(w, list_rows[kind].key);
	/* All that the list would hold was seen by this object, none of it twice. */
	if (!c->recovered &&
	    c->listed_events[kind].n == (total < LISTED_MAX ? total : LISTED_MAX)) {
		if (c->listed_events[kind].n > 0)
			jw_raw(w, c->listed_events[kind].json.data,
			       c->listed_events[kind].json.len);
		l.n = c->listed_events[kind].n;
	} else if (total > 0) {
		command_query(c, &q, list_event, &l, NULL);
	}
	jw_arr_end(w);
	return total > l.n;
}

void answer_events(struct command *c, struct jw *w)
{
	cleanup_free char *query =
		mem_printf("/api/v1/sessions/%s/history?command_id=%s", c->s->id, c->id);
	bool truncated = false;

	jw_obj(w);
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++)
		truncated |= format_events(c, kind, w);
	jw_kobj(w, "totals");
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++)
		jw_kint(w, list_rows[kind].total, c->out.ops.seen[kind]);
	jw_obj_end(w);
	jw_kbool(w, "truncated", truncated);
	jw_kstr(w, "query", query);
	jw_obj_end(w);
}

void answer_network(const struct network_summary *sum, struct jw *w)
{
	jw_obj(w);
	jw_kint(w, "connections", sum->connections);
	jw_kint(w, "dns_queries", sum->dns_queries);
	jw_kint(w, "bytes_sent", sum->sent);
	jw_kint(w, "bytes_received", sum->received);
	jw_kint(w, "blocked_connections", sum->blocked);
	jw_kstrv(w, "unique_destinations", &sum->destinations);
	jw_obj_end(w);
}
