// SPDX-License-Identifier: Apache-2.0
/* Operations that wait for an approver. */
#include "base/clock.h"
#include "base/mem.h"
#include "gate/gate_state.h"

void gate_set_approver(struct gate *g, const struct gate_approver *a)
{
	g->approver = *a;
}

bool pending_add(struct gate *g, struct gate_case *k, const struct gate_waiter *waiter)
{
	struct pending *p;

	if (g->nwaiting >= GATE_PENDING_MAX)
		return false;
	p = mem_new(struct pending);
	p->k = k;
	p->waiter = *waiter;
	p->deadline_us = clock_mono_us(&clock_system) + g->approver.timeout_ms * 1000;
	k->id = ++g->last_id;
	TAILQ_INSERT_TAIL(&g->waiting, p, next);
	g->nwaiting++;
	g->approver.ask(g->approver.arg, g, k->id, k, p->deadline_us);
	g->setup.deadline(g->setup.arg);
	return true;
}

static void remove_pending(struct gate *g, struct pending *p)
{
	TAILQ_REMOVE(&g->waiting, p, next);
	g->nwaiting--;
	p->k->id = 0;
	free(p);
}

/* why: GATE_WHY_POLICY allows. With the lock. */
static void answer(struct gate *g, struct pending *p, enum gate_why why)
{
	if (why == GATE_WHY_POLICY)
		p->k->verdict.effective = DECISION_allow;
	else
		gate_refuse(p->k, why);
	p->answered = true;
	p->waiter.asker->wake(p->waiter.asker->arg);
}

void gate_answer(struct gate *g, uint64_t id, bool allow)
{
	struct pending *p;

	pthread_mutex_lock(&g->lock);
	TAILQ_FOREACH (p, &g->waiting, next)
		if (p->k->id == id && !p->answered)
			answer(g, p, allow ? GATE_WHY_POLICY : GATE_WHY_DISAPPROVED);
	pthread_mutex_unlock(&g->lock);
}

void gate_resume(struct gate *g, const struct gate_asker *asker)
{
	for (;;) {
		struct gate_waiter waiter;
		struct gate_case *k;
		struct pending *p;

		pthread_mutex_lock(&g->lock);
		TAILQ_FOREACH (p, &g->waiting, next)
			if (p->answered && p->waiter.asker == asker)
				break;
		if (p != NULL) {
			waiter = p->waiter;
			k = p->k;
			remove_pending(g, p);
		}
		pthread_mutex_unlock(&g->lock);
		if (p == NULL)
			return;
		waiter.resume(k, waiter.arg);
	}
}

void gate_gone(struct gate *g, struct gate_case *k)
{
	struct pending *p;

	pthread_mutex_lock(&g->lock);
	TAILQ_FOREACH (p, &g->waiting, next)
		if (p->k == k)
			break;
	if (p != NULL) {
		if (!p->answered)
			g->approver.cancel(g->approver.arg, k->id);
		gate_refuse(k, GATE_WHY_GONE);
		remove_pending(g, p);
	}
	pthread_mutex_unlock(&g->lock);
}

void gate_command_over(struct gate *g, const char *command_id)
{
	struct pending *p;

	pthread_mutex_lock(&g->lock);
	TAILQ_FOREACH (p, &g->waiting, next)
		if (!p->answered && strcmp(p->k->actor.command_id, command_id) == 0) {
			g->approver.cancel(g->approver.arg, p->k->id);
			answer(g, p, GATE_WHY_GONE);
		}
	pthread_mutex_unlock(&g->lock);
}

/* All wait for the same time: the first that was not answered is the next to be late. */
int64_t gate_next_deadline(struct gate *g)
{
	const struct pending *p;
	int64_t at = -1;

	pthread_mutex_lock(&g->lock);
	TAILQ_FOREACH (p, &g->waiting, next)
		if (!p->answered)
			break;
	if (p != NULL)
		at = p->deadline_us;
	pthread_mutex_unlock(&g->lock);
	return at;
}

void gate_expire(struct gate *g, int64_t now_us)
{
	struct pending *p;

	pthread_mutex_lock(&g->lock);
	TAILQ_FOREACH (p, &g->waiting, next)
		if (!p->answered && p->deadline_us <= now_us) {
			g->approver.cancel(g->approver.arg, p->k->id);
			answer(g, p, GATE_WHY_LATE);
		}
	pthread_mutex_unlock(&g->lock);
}
