// SPDX-License-Identifier: Apache-2.0
/* One record per exec, and one per command where a shell tries directory after directory. */
#include "exec/exec_thread.h"
#include <stdio.h>
#include <string.h>

static const char *last_part(const char *path)
{
	const char *slash = path != NULL ? strrchr(path, '/') : NULL;

	return slash != NULL ? slash + 1 : path != NULL ? path : "";
}

static struct past_refusal *find_refusal(struct exec_control *c, pid_t pid)
{
	for (size_t i = 0; i < FOLD_PIDS; i++)
		if (c->refused[i].pid == pid)
			return &c->refused[i];
	return NULL;
}

/* A shell goes on with the next directory of PATH after a refusal: true if this is such a one. */
static bool repeats_refusal(struct exec_control *c, const struct exec_case *k)
{
	struct past_refusal *r = find_refusal(c, k->pid);
	const char *name = last_part(k->path);

	if (r != NULL && strncmp(r->name, name, FOLD_NAME - 1) == 0)
		return true;
	if (r == NULL)
		r = &c->refused[c->next_refused++ % FOLD_PIDS];
	r->pid = k->pid;
	snprintf(r->name, sizeof(r->name), "%s", name);
	return false;
}

static void forget_refusal(struct exec_control *c, pid_t pid)
{
	struct past_refusal *r = find_refusal(c, pid);

	if (r != NULL)
		r->pid = 0;
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
	if (outcome != GATE_REFUSED)
		forget_refusal(c, k->pid);
	else if (repeats_refusal(c, k))
		return;
	if (k->helper)
		return;
	commands_note(c, k, outcome, request_id);
	k->gate.request_id = request_id[0] != '\0' ? request_id : NULL;
	gate_settle(c->setup.gate, &k->gate, &report);
}
