// SPDX-License-Identifier: Apache-2.0
/* session/rows.h - the rows of sessions and of commands. */
#pragma once
#include "session/session.h"

struct rows_page {
	int64_t after;
	unsigned limit;
};

void rows_session_write(struct session *s); /* the whole row, also a new one */
void rows_session_save(struct session *s);  /* only state, times, cwd, totals, failure */
void rows_session_delete(struct session *s);
int rows_session_free(struct sessions *ss, const char *id, struct err *err); /* E_CONFLICT */
int rows_session_load(struct sessions *ss, const char *id, struct session **out, struct err *err);
typedef void rows_session_fn(struct session *s, void *arg); /* s: a reference */
int rows_sessions_live(struct sessions *ss, rows_session_fn *fn, void *arg, struct err *err);
/* agent_id NULL: of all agents. In the order of rowid. */
int rows_sessions_page(struct sessions *ss, const char *agent_id, const struct rows_page *p,
		       rows_session_fn *fn, void *arg, struct err *err);

void rows_command_insert(struct command *c);
void rows_command_save(struct command *c);
int rows_command_free(struct session *s, const char *id, struct err *err); /* E_CONFLICT */
/* E_NOT_FOUND. *out is a reference: the living command, or one made from its row. agent_id NULL:
 * any agent's. */
int rows_command_load(struct sessions *ss, const char *agent_id, const char *id,
		      struct command **out, struct err *err);
/* The same by an Idempotency-Key of the session's agent. A key past its age is removed from its row
 * and not found. */
int rows_command_by_key(struct session *s, const char *key, struct command **out, struct err *err);
typedef void rows_command_fn(struct command *c, void *arg); /* c: a reference */
int rows_commands_open(struct session *s, rows_command_fn *fn, void *arg, struct err *err);
/* In the order of n. */
int rows_commands_page(struct session *s, const struct rows_page *p, rows_command_fn *fn, void *arg,
		       struct err *err);
int rows_last_n(struct session *s, int64_t *out, struct err *err); /* 0 before the first command */
