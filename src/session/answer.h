// SPDX-License-Identifier: Apache-2.0
/* session/answer.h - parts of the answer about a command. */
#pragma once
#include "base/json.h"
#include "session/command_state.h"

/* answer_error.c */
/* A command that failed after a denial: the last denial becomes its error. */
void answer_blame(struct command *c);
/* The value of `error`: the command's error, and what this answer could not read (or NULL). */
void answer_error(struct command *c, const struct err *unread, struct jw *w);

/* answer_events.c */
void answer_network(const struct network_summary *sum, struct jw *w); /* `network_summary` */
void answer_events(struct command *c, struct jw *w);		      /* the value of `events` */
struct event_query answer_list_query(enum seen kind);		      /* for one of its lists */
