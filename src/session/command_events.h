// SPDX-License-Identifier: Apache-2.0
/* session/command_events.h - what the events of a command say about it. */
#pragma once
#include "session/command_state.h"

/* fresh: the store did not have the event. Start and end are taken also from one that it had. */
void command_take_event(struct command *c, const struct event *e, bool fresh);
struct event_query command_list_query(enum seen kind); /* one list of the answer */
/* Logs a failure; the answer is then empty. */
void command_query(struct command *c, struct event_query *q, store_row_fn *fn, void *arg);
void command_recall_life(struct command *c);	   /* start and end */
void command_recall_operations(struct command *c); /* c->out.ops and c->denial */
