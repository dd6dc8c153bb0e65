// SPDX-License-Identifier: Apache-2.0
/* What the store knows about one command: the lists of an answer, its network summary, its traces
 * after a restart. */
#include "base/log.h"
#include "base/proc.h"
#include "session/internal.h"

#define DENIED_MAX 1000 /* refused ones that a list is searched past */
#define SUMMARY_MAX 10000
#define DESTINATIONS_MAX 100

static uint64_t types_of(enum event_class class)
{
	uint64_t types = 0;

	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (event_class((enum event_type)t) == class)
			types |= UINT64_C(1) << t;
	return types;
}

static const struct list_row {
	const char *key, *total;
	enum event_class class;
	size_t offset; /* in struct outcome */
} list_rows[SEEN_KINDS] = {
	[SEEN_FILE] = {"file_operations", "file", EVENT_CLASS_FILE, offsetof(struct outcome, file)},
	[SEEN_NETWORK] = {"network_operations", "network", EVENT_CLASS_NETWORK,
			  offsetof(struct outcome, network)},
	[SEEN_EXEC] = {"exec_operations", "exec", EVENT_CLASS_EXEC, offsetof(struct outcome, exec)},
	[SEEN_BLOCKED] = {"blocked_operations", "blocked", EVENT_CLASS_OTHER,
			  offsetof(struct outcome, blocked)},
};

static int64_t total_of(const struct command *c, enum seen kind)
{
	return *(const int64_t *)((const char *)&c->out + list_rows[kind].offset);
}

static void run(struct command *c, struct event_query *q, store_row_fn *fn, void *arg,
		uint64_t *total)
{
	struct err err = {0};

	q->session_id = c->s->id;
	q->command_id = c->id;
	if (store_query(c->s->ss->deps.store, q, fn, arg, total, &err) < 0)
		log_error("events not read", "command_id", c->id, "error", err.message);
}

/* ---- lists ---- */

struct list {
	struct jw *w;
	bool blocked;
	unsigned n;
};

/* The decision itself stands behind a comma; that of its `policy` part behind a brace. */
static bool is_denied(const char *json, size_t len)
{
	static const char text[] = ",\"decision\":\"deny\"";

	return memmem(json, len, text, sizeof(text) - 1) != NULL;
}

static void list_event(uint64_t seq, const char *json, size_t len, void *arg)
{
	struct list *l = arg;

	if (l->n >= LISTED_MAX || (!l->blocked && is_denied(json, len)))
		return;
	jw_raw(l->w, json, len);
	l->n++;
}

/* All that the list would hold was seen by this object, none of it twice. */
static bool in_memory(const struct command *c, enum seen kind)
{
	const int64_t total = total_of(c, kind);

	return !c->recovered &&
	       c->listed_events[kind].n == (total < LISTED_MAX ? total : LISTED_MAX);
}

static bool format_events(struct command *c, enum seen kind, struct jw *w)
{
	struct list l = {.w = w, .blocked = kind == SEEN_BLOCKED};
	struct event_query q = {.limit = LISTED_MAX};
	const int64_t total = total_of(c, kind);

	if (l.blocked)
		q.decision = "deny";
	else
		q.types = types_of(list_rows[kind].class);
	if (!l.blocked && c->out.blocked > 0)
		q.limit += DENIED_MAX;
	jw_key(w, list_rows[kind].key);
	jw_arr(w);
	if (in_memory(c, kind)) {
		if (c->listed_events[kind].n > 0)
			jw_raw(w, c->listed_events[kind].json.data,
			       c->listed_events[kind].json.len);
		l.n = c->listed_events[kind].n;
	} else if (total > 0) {
		run(c, &q, list_event, &l, NULL);
	}
	jw_arr_end(w);
	return total > l.n;
}

/* ---- network ---- */

static int64_t number_at(const json_t *doc, const char *part, const char *key)
{
	return json_integer_value(json_object_get(json_object_get(doc, part), key));
}

static void add_destination(struct network_summary *sum, const json_t *doc)
{
	const json_t *to = json_object_get(doc, "connection");
	const char *addr = json_string_value(json_object_get(to, "remote_addr"));
	cleanup_free char *text = NULL;

	if (addr == NULL || sum->destinations.n >= DESTINATIONS_MAX)
		return;
	text = mem_printf(strchr(addr, ':') != NULL ? "[%s]:%lld" : "%s:%lld", addr,
			  (long long)json_integer_value(json_object_get(to, "remote_port")));
	strv_add_new(&sum->destinations, text);
}

static void sum_event(uint64_t seq, const char *json, size_t len, void *arg)
{
	struct network_summary *sum = arg;
	json_t *doc = NULL;
	const char *type;
	int64_t n;

	if (json_parse(json, len, &doc, NULL) < 0)
		return;
	type = json_string_value(json_object_get(doc, "type"));
	n = json_integer_value(json_object_get(doc, "count"));
	sum->sent += number_at(doc, "connection", "bytes_sent");
	sum->received += number_at(doc, "connection", "bytes_received");
	if (strcmp(type, "net_blocked") == 0 || is_denied(json, len)) {
		sum->blocked += n;
	} else if (strcmp(type, "dns_query") == 0) {
		sum->dns_queries += n;
	} else if (strcmp(type, "net_connect") == 0) {
		sum->connections += n;
		add_destination(sum, doc);
	}
	json_decref(doc);
}

void network_summary_done(struct network_summary *sum)
{
	strv_done(&sum->destinations);
}

void answer_network(struct command *c, struct network_summary *sum)
{
	struct event_query q = {.types = types_of(EVENT_CLASS_NETWORK), .limit = SUMMARY_MAX};

	if (c->out.network + c->out.blocked > 0)
		run(c, &q, sum_event, sum, NULL);
}

/* ---- both ---- */

void answer_events(struct command *c, struct jw *w)
{
	cleanup_free char *query =
		mem_printf("/api/v1/sessions/%s/history?command_id=%s", c->s->id, c->id);
	bool truncated = false;

	jw_obj(w);
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++)
		truncated |= format_events(c, kind, w);
	jw_key(w, "totals");
	jw_obj(w);
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++)
		jw_kint(w, list_rows[kind].total, total_of(c, kind));
	jw_obj_end(w);
	jw_kbool(w, "truncated", truncated);
	jw_kstr(w, "query", query);
	jw_obj_end(w);
}

/* ---- after a restart ---- */

static void count_event(uint64_t seq, const char *json, size_t len, void *arg)
{
	uint64_t *denied = arg;

	*denied += is_denied(json, len);
}

void answer_count(struct command *c)
{
	for (enum seen kind = 0; kind < SEEN_KINDS; kind++) {
		struct event_query q = {.limit = UINT32_MAX};
		uint64_t total = 0, denied = 0;

		if (kind == SEEN_BLOCKED) {
			q.decision = "deny";
			q.limit = 1;
		} else {
			q.types = types_of(list_rows[kind].class);
		}
		run(c, &q, count_event, &denied, &total);
		c->seen[kind] = (int64_t)(kind == SEEN_BLOCKED ? total : total - denied);
	}
}

static void recall_event(uint64_t seq, const char *json, size_t len, void *arg)
{
	struct command *c = arg;
	const json_t *part;
	json_t *doc = NULL;
	const char *type, *time, *signal;
	int64_t us = 0;

	if (json_parse(json, len, &doc, NULL) < 0)
		return;
	type = json_string_value(json_object_get(doc, "type"));
	time = json_string_value(json_object_get(doc, "timestamp"));
	part = json_object_get(doc, "command");
	if (strcmp(type, "command_started") == 0) {
		if (clock_parse(time, &us) == 0)
			c->started_us = us;
	} else if (json_object_get(part, "exit_code") != NULL) {
		c->end_event = true;
		c->exit_code = json_integer_value(json_object_get(part, "exit_code"));
		signal = json_string_value(json_object_get(part, "signal"));
		c->signal = signal != NULL ? proc_signal_by_name(signal) : 0;
		c->out.duration_us =
			(int64_t)(json_number_value(json_object_get(part, "duration_ms")) * 1000);
	}
	json_decref(doc);
}

void answer_recall(struct command *c)
{
	struct event_query q = {.types = UINT64_C(1) << EVENT_command_started |
					 UINT64_C(1) << EVENT_command_finished |
					 UINT64_C(1) << EVENT_command_killed |
					 UINT64_C(1) << EVENT_command_timeout,
				.limit = 16};

	run(c, &q, recall_event, c, NULL);
}
