// SPDX-License-Identifier: Apache-2.0
/* What the store's events say about a command that an earlier API process began: this one did not
 * see those events in the journal, so it reads them from their rows. */
#include "session/recall.h"
#include "base/log.h"
#include "session/answer.h"
#include "session/drain.h"
#include "session/sessions.h"

#define SUMMARY_MAX 10000

void command_query(struct command *c, struct event_query *q, store_row_fn *fn, void *arg,
		   uint64_t *total)
{
	struct err err = {0};

	q->session_id = c->s->id;
	q->command_id = c->id;
	if (store_query(c->s->ss->deps.store, q, fn, arg, total, &err) < 0)
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

void denial_lend(const json_t *policy, struct event *e)
{
	const json_t *item;
	size_t i;

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
	command_note_fn *note;
};

/* The members that the notes look at; the document lends its strings. */
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
	denial_lend(json_object_get(doc, "policy"), &e);
	r->note(r->c, &e);
	strv_done(&e.alternatives);
	json_decref(doc);
}

static void no_row(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
}

void command_recall_life(struct command *c)
{
	struct event_query q = {.types = UINT64_C(1) << EVENT_command_started |
					 UINT64_C(1) << EVENT_command_finished |
					 UINT64_C(1) << EVENT_command_killed |
					 UINT64_C(1) << EVENT_command_timeout,
				.limit = 16};

	command_query(c, &q, note_row, &(struct recalling){c, command_note_life}, NULL);
}

void command_recall_operations(struct command *c)
{
	struct event_query net = {.types = event_types_of(EVENT_CLASS_NETWORK),
				  .limit = SUMMARY_MAX};
	struct event_query denied = {.decision = "deny", .limit = 1, .newest_first = true};

	for (enum seen kind = 0; kind < SEEN_KINDS; kind++) {
		struct event_query q = answer_list_query(kind);
		uint64_t total = 0;

		q.limit = 1;
		command_query(c, &q, no_row, NULL, &total);
		c->out.ops.seen[kind] = (int64_t)total;
	}
	strv_done(&c->out.ops.net.destinations);
	c->out.ops.net = (struct network_summary){0};
	command_query(c, &net, note_row, &(struct recalling){c, command_note_network}, NULL);
	command_query(c, &denied, note_row, &(struct recalling){c, command_note_denial}, NULL);
}
