// SPDX-License-Identifier: Apache-2.0
/* Operations that another process of the session has asked for, and that wait in the warden's gate:
 * so one cap and one approver are for all. */
#include "base/mem.h"
#include "warden/core.h"
#include <stdio.h>

struct held_operation {
	LIST_ENTRY(held_operation) next;
	struct process_beside *p;
	struct process_hold m;
	struct op op;
	struct gate_case k;
};

static void drop(struct held_operation *h)
{
	LIST_REMOVE(h, next);
	msg_done(MSG_process_hold, &h->m);
	free(h);
}

static void answer(struct held_operation *h)
{
	/* What this gate has decided by itself was not for the approver. */
	const enum gate_why why = h->k.why != GATE_WHY_POLICY ? h->k.why : GATE_WHY_UNASKED;
	const struct process_held m = {
		.id = h->m.id,
		.why = h->k.answered && verdict_allows(&h->k.verdict) ? GATE_WHY_POLICY : why,
		.approval_id = h->k.approval_id};

	process_send(h->p, MSG_process_held, 0, &m, -1);
	drop(h);
}

static void resume(struct gate_case *k, void *arg)
{
	answer(arg);
}

/* The process may not have found it in the actor table. */
static void find_actor(struct held_operation *h)
{
	const struct actor_query q = {
		.id = (pid_t)h->m.tid, .asked_us = (int64_t)h->m.asked_us, .process = true};
	struct actor *out = &h->k.actor;

	if (h->m.command_id == NULL || h->m.command_id[0] == '\0') {
		process_actor_find(h->p, &q, out);
		return;
	}
	snprintf(out->command_id, sizeof(out->command_id), "%s", h->m.command_id);
	out->pid = (pid_t)h->m.tid;
}

void on_hold(void *ctx, void *msg, struct link_msg *m)
{
	struct process_beside *p = ctx;
	struct warden *w = p->w;
	struct held_operation *h = mem_new(struct held_operation);
	const struct gate_waiter waiter = {&w->commands.asker, resume, h};

	h->p = p;
	h->m = *(struct process_hold *)msg;
	*(struct process_hold *)msg = (struct process_hold){0};
	h->op = (struct op){
		.class = OP_FILE,
		.file = {(enum op_file)(h->m.op % OP_FILES), h->m.path != NULL ? h->m.path : ""}};
	h->k = (struct gate_case){.op = &h->op, .to = h->m.to, .also = h->m.also};
	LIST_INSERT_HEAD(&w->processes.held, h, next);
	find_actor(h);
	if (gate_ask(w->commands.gate, &h->k, &waiter) != GATE_PENDING)
		answer(h);
}

void on_unhold(void *ctx, void *msg, struct link_msg *m)
{
	struct process_beside *p = ctx;
	const struct process_held *held = msg;
	struct held_operation *h;

	LIST_FOREACH (h, &p->w->processes.held, next)
		if (h->p == p && h->m.id == held->id)
			break;
	if (h != NULL && gate_gone(p->w->commands.gate, &h->k))
		drop(h);
}

void holds_drop(struct warden *w, const struct process_beside *p)
{
	struct held_operation *h, *next;

	for (h = LIST_FIRST(&w->processes.held); h != NULL; h = next) {
		next = LIST_NEXT(h, next);
		if (p != NULL && h->p != p)
			continue;
		gate_gone(w->commands.gate, &h->k);
		drop(h);
	}
}
