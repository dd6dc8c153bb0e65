// SPDX-License-Identifier: Apache-2.0
/* exec/stream: messages stdout, stderr, event, and at the end result. */
#include "api/exec_tail.h"
#include "base/mem.h"
#include <stdio.h>

static void tail_left(struct call *call, bool gone)
{
	exec_tail_done(call->work, gone);
	free(call->work);
}

static bool can_send(void *arg)
{
	struct exec_tail *t = arg;

	return t->call->begun && call_has_room(t->call);
}

static void emit(uint64_t seq, enum event_type type, const char *json, size_t len, void *arg)
{
	struct exec_tail *t = arg;

	call_send(t->call, CALL_EVENT, seq, json, len);
}

static const struct call_stream stream = {.room = exec_tail_room};

static void on_started(struct command *c, void *arg)
{
	exec_tail_begin(arg);
	exec_tail_pump(arg);
}

void exec_stream_run(struct call *call, struct exec_call *r)
{
	const uint64_t last = store_last_seq(call->api->store);
	struct exec_tail *t;

	if (r->request.detach) {
		struct err err = {0};

		err_set(&err, E_BAD_REQUEST, "detach",
			"a stream has no detach: it ends with the command");
		call_fail(call, &err);
		return;
	}
	/* The id is chosen here, so that the command's events can be followed from the first. */
	if (r->request.command_id == NULL) {
		char id[ID_MAX + 1];

		id_make(id, "cmd");
		r->request.command_id = mem_strdup(id);
	}
	t = mem_new(struct exec_tail);
	*t = (struct exec_tail){.call = call,
				.stream = &stream,
				.whole = true,
				.allowed = {0, UINT64_MAX, UINT64_MAX}};
	snprintf(t->id, sizeof(t->id), "%s", r->request.command_id);
	call->work = t;
	call->work_free = tail_left;
	t->feed = event_feed_open(
		call->api->store, &(struct event_query){.command_id = t->id}, last,
		&(struct event_feed_ops){emit, can_send, exec_tail_pump, call->who.agent_id, t});
	command_submit(call->session, &call->who,
		       &(struct command_ask){.request = &r->request,
					     .idempotency_key = r->key,
					     .body_hash = r->hash},
		       &(struct command_observer){.started = on_started,
						  .output = exec_tail_output,
						  .done = exec_tail_finish,
						  .arg = t},
		       &t->live);
}

void api_exec_stream(struct call *call)
{
	struct exec_call r;
	struct err err = {0};

	if (exec_call_read(call, &r, &err) < 0)
		call_fail(call, &err);
	else
		exec_stream_run(call, &r);
	exec_call_done(&r);
}
