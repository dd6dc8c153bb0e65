// SPDX-License-Identifier: Apache-2.0
/* session/recall.h - the events of a command, read again from the store. */
#pragma once
#include "base/json.h"
#include "session/session.h"

/* Logs a failure; the answer is then empty. */
void command_query(struct command *c, struct event_query *q, store_row_fn *fn, void *arg,
		   uint64_t *total);
void command_recall_life(struct command *c);		 /* start and end */
void command_recall_operations(struct command *c);	 /* c->out.ops and c->denial */
void denial_lend(const json_t *policy, struct event *e); /* e owns the alternatives */
