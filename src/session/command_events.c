// SPDX-License-Identifier: Apache-2.0
/* What the events of a command say about it: as they come from the journal, or as the store has
 * them if an earlier API process began the command. */
#include "session/command_events.h"
#include "base/denial.h"
#include "base/log.h"
#include "base/proc.h"
#include "session/db_row.h"
#include "session/sessions.h"

#define LISTED_BYTES (256 * 1024) /* of listed events that are kept in memory */
#define DESTINATIONS_MAX 100
#define SUMMARY_MAX 10000
#define DENIAL_MAX (32 * 1024)

static void note_life(struct command *c, const struct event *e)
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

static int64_t count_of(const struct event *e)
{
	return e->count > 0 ? e->count : 1;
}

static bool is_denied(const struct event *e)
{
	return e->decision != NULL && strcmp(e->decision, "deny") == 0;
}

/* Its errno explains it better than a denial of no rule. */
static bool is_of_kernel(const struct event *e)
{
	return (e->op_has & EVENT_PATH_ARGUMENT) != 0 && e->policy_rule != NULL &&
	       strcmp(e->policy_rule, EVENT_KERNEL_RULE) == 0;
}

static void note_network(struct command *c, const struct event *e)
{
	struct network_summary *sum = &c->out.ops.net;
	const int64_t n = count_of(e);

	if (event_class((enum event_type)e->type) != EVENT_CLASS_NETWORK)
		return;
	sum->sent += (int64_t)e->bytes_sent;
	sum->received += (int64_t)e->bytes_received;
	if (e->type == EVENT_net_blocked || is_denied(e)) {
		sum->blocked += n;
	} else if (e->type == EVENT_dns_query) {
		sum->dns_queries += n;
	} else if (e->type == EVENT_net_connect) {
		sum->connections += n;
		if (e->remote_addr != NULL && sum->destinations.n < DESTINATIONS_MAX) {
			cleanup_free char *to = mem_printf(
				strchr(e->remote_addr, ':') != NULL ? "[%s]:%u" : "%s:%u",
				e->remote_addr, e->remote_port);

			strv_add_new(&sum->destinations, to);
		}
	}
}

static void note_denial(struct command *c, const struct event *e)
{
	const struct denial d = {.rule = e->policy_rule,
				 .reason = e->denied_reason,
				 .operation = e->denied_op,
				 .target = e->denied_target,
				 .final = e->denied_final != 0,
				 .approval_id = e->approval_id,
				 .error = e->denied_error,
				 .alternatives = e->alternatives};
	char packed[DENIAL_MAX];

	if (!is_denied(e) || is_of_kernel(e))
		return;
	packed[0] = '\0';
	if (d.rule != NULL && d.operation != NULL && d.target != NULL && d.reason != NULL)
		denial_pack(&d, packed, sizeof(packed));
	mem_replace(&c->denial, mem_strdup(packed));
}

static enum seen seen_as(const struct event *e)
{
	static const enum seen by_class[] = {[EVENT_CLASS_OTHER] = SEEN_KINDS,
					     [EVENT_CLASS_FILE] = SEEN_FILE,
					     [EVENT_CLASS_NETWORK] = SEEN_NETWORK,
					     [EVENT_CLASS_EXEC] = SEEN_EXEC};

	if (is_denied(e))
		return SEEN_BLOCKED;
	return by_class[event_class((enum event_type)e->type)];
}

/* Keeps the event for the answer, which then needs no query. before: operations so far. */
static void list(struct command *c, enum seen kind, const struct event *e, int64_t before)
{
	const struct buf *json = store_last_json(c->s->ss->deps.store);
	struct listed_events *l = &c->listed_events[kind];

	if (l->operations != before || l->n == LISTED_MAX || l->json.len + json->len > LISTED_BYTES)
		return;
	if (l->json.len > 0)
		buf_addc(&l->json, ',');
	buf_add(&l->json, json->data, json->len);
	l->n++;
	l->operations += count_of(e);
}

static void count(struct operations *ops, const struct event *e, int64_t n)
{
	const enum seen kind = seen_as(e);

	if (kind != SEEN_KINDS)
		ops->seen[kind] += n;
	if (e->type == EVENT_file_read)
		ops->file_read += (int64_t)e->op_bytes;
	if (e->type == EVENT_file_write)
		ops->file_written += (int64_t)e->op_bytes;
}

void command_take_event(struct command *c, const struct event *e, bool fresh)
{
	const enum seen seen = seen_as(e);

	note_life(c, e);
	if (!fresh || seen == SEEN_KINDS)
		return;
	list(c, seen, e, c->out.ops.seen[seen]);
	count(&c->out.ops, e, count_of(e));
	note_network(c, e);
	note_denial(c, e);
}

/* ---- from the store ---- */

struct event_query command_list_query(enum seen kind)
{
	static const enum event_class classes[] = {[SEEN_FILE] = EVENT_CLASS_FILE,
						   [SEEN_NETWORK] = EVENT_CLASS_NETWORK,
						   [SEEN_EXEC] = EVENT_CLASS_EXEC};
	struct event_query q = {.limit = LISTED_MAX};

	if (kind == SEEN_BLOCKED)
		q.decision = "deny";
	else
		q.types = event_types_of(classes[kind]);
	q.without_denied = kind != SEEN_BLOCKED;
	return q;
}

void command_query(struct command *c, struct event_query *q, store_row_fn *fn, void *arg)
{
	struct err err = {0};

	q->session_id = c->s->id;
	q->command_id = c->id;
	if (store_query(c->s->ss->deps.store, q, fn, arg, NULL, &err) < 0)
		log_error("events not read", "command_id", c->id, "error", err.message);
}

static char *text_at(const json_t *doc, const char *key)
{
	return event_lend(json_string_value(json_object_get(doc, key)));
}

static int64_t number_at(const json_t *doc, const char *key)
{
	return json_integer_value(json_object_get(doc, key));
}

static void lend_denial(const json_t *policy, struct event *e)
{
	const json_t *approval = json_object_get(policy, "approval"), *item;
	size_t i;

	e->approval_id = text_at(approval, "approval_id");
	e->denied_error = text_at(approval, "error");
	e->policy_rule = text_at(policy, "rule");
	e->denied_reason = text_at(policy, "reason");
	e->denied_op = text_at(policy, "operation");
	e->denied_target = text_at(policy, "target");
	e->denied_final = json_is_true(json_object_get(policy, "final"));
	json_array_foreach(json_object_get(policy, "alternatives"), i,
			   item) if (json_is_string(item))
		strv_add(&e->alternatives, json_string_value(item));
}

struct recalling {
	struct command *c;
	void (*note)(struct command *c, const struct event *e);
};

/* Reads the members that the notes use. The strings belong to the document. */
static void note_row(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	const struct recalling *r = arg;
	struct event e = {.type = type};
	const json_t *command, *connection;
	json_t *doc = NULL;
	int64_t time_us = 0;

	if (json_parse(json, len, &doc, NULL) < 0)
		return;
	command = json_object_get(doc, "command");
	connection = json_object_get(doc, "connection");
	clock_parse(text_at(doc, "timestamp"), &time_us);
	e.time_us = (uint64_t)time_us;
	e.count = (uint32_t)number_at(doc, "count");
	e.decision = text_at(doc, "decision");
	e.has_exit = json_object_get(command, "exit_code") != NULL;
	e.exit_code = (uint32_t)number_at(command, "exit_code");
	e.signal = text_at(command, "signal");
	e.duration_us =
		(uint64_t)(json_number_value(json_object_get(command, "duration_ms")) * 1000);
	e.remote_addr = text_at(connection, "remote_addr");
	e.remote_port = (uint32_t)number_at(connection, "remote_port");
	e.bytes_sent = (uint64_t)number_at(connection, "bytes_sent");
	e.bytes_received = (uint64_t)number_at(connection, "bytes_received");
	if (text_at(json_object_get(doc, "metadata"), "path_source") != NULL)
		e.op_has = EVENT_PATH_ARGUMENT;
	lend_denial(json_object_get(doc, "policy"), &e);
	r->note(r->c, &e);
	strv_done(&e.alternatives);
	json_decref(doc);
}

void command_recall_life(struct command *c)
{
	struct event_query q = {.types = UINT64_C(1) << EVENT_command_started |
					 UINT64_C(1) << EVENT_command_finished |
					 UINT64_C(1) << EVENT_command_killed |
					 UINT64_C(1) << EVENT_command_timeout,
				.limit = 16};

	command_query(c, &q, note_row, &(struct recalling){c, note_life});
}

/* The database adds up: a command may have had very many operations. */
static void recall_counts(struct command *c)
{
	struct db_row r = row_read(
		c->s->ss->deps.store,
		"SELECT type, decision, sum(coalesce(json_extract(body, '$.count'), 1)),"
		"  sum(json_extract(body, '$.operation.bytes'))"
		"  FROM events WHERE command_id = ? AND session_id = ? GROUP BY type, decision");
	struct err err = {0};
	int rc;

	row_bind_text(&r, c->id);
	row_bind_text(&r, c->s->id);
	while ((rc = row_next(&r, &err)) > 0) {
		const int type = event_type_by_name(row_text(&r));
		struct event e = {.type = type < 0 ? EVENT_unknown : (uint32_t)type,
				  .decision = event_lend(row_text(&r))};
		const int64_t n = row_int(&r);

		e.op_bytes = (uint64_t)row_int(&r);
		count(&c->out.ops, &e, n);
	}
	if (rc < 0)
		log_error("events not counted", "command_id", c->id, "error", err.message);
}

void command_recall_operations(struct command *c)
{
	struct event_query net = {.types = event_types_of(EVENT_CLASS_NETWORK),
				  .limit = SUMMARY_MAX};
	struct event_query denied = {.decision = "deny", .limit = 1, .newest_first = true};

	strv_done(&c->out.ops.net.destinations);
	c->out.ops = (struct operations){0};
	recall_counts(c);
	command_query(c, &net, note_row, &(struct recalling){c, note_network});
	command_query(c, &denied, note_row, &(struct recalling){c, note_denial});
}
