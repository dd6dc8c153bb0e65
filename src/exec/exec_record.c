// SPDX-License-Identifier: Apache-2.0
/* One record per exec, and one per command where a shell tries directory after directory. */
#include "exec/exec_thread.h"
#include <stdio.h>
#include <string.h>

/* A shell goes on with the next directory of PATH after a refusal: true if this is such a one. */
static bool repeats_refusal(struct exec_control *c, const struct exec_case *k, bool refused)
{
	const char *name = exec_last_part(k->path != NULL ? k->path : "");
	struct past_refusal *r = c->refused;

	while (r < c->refused + FOLD_PIDS && r->pid != k->pid)
		r++;
	if (r == c->refused + FOLD_PIDS)
		r = refused ? &c->refused[c->next_refused++ % FOLD_PIDS] : NULL;
	else if (refused && strncmp(r->name, name, FOLD_NAME - 1) == 0)
		return true;
	if (r != NULL) {
		r->pid = refused ? k->pid : 0;
		snprintf(r->name, sizeof(r->name), "%s", name);
	}
	return false;
}

void record_case(struct exec_control *c, struct exec_case *k, enum gate_outcome outcome,
		 const char *ran)
{
	const struct gate_report report = {.outcome = outcome,
					   .latency_us = k->latency_us,
					   .cwd = k->cwd,
					   .argv = (const char *const *)k->args.v,
					   .argc = k->args.n,
					   .ran = ran};
	char request_id[ID_MAX + 1] = "";

	atomic_fetch_add_explicit(&c->count[outcome], 1, memory_order_relaxed);
	if (repeats_refusal(c, k, outcome == GATE_REFUSED) || k->helper)
		return;
	commands_note(c, k, outcome, request_id);
	k->gate.request_id = request_id[0] != '\0' ? request_id : NULL;
	gate_settle(c->setup.gate, &k->gate, &report);
}
