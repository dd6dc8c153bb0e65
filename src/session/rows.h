// SPDX-License-Identifier: Apache-2.0
/* session/rows.h - the rows of sessions (rows.c) and of commands (rows_command.c). */
#pragma once
#include "session/session.h"

void rows_session_insert(struct session *s);
int rows_session_free(struct sessions *ss, const char *id, struct err *err); /* E_CONFLICT */
void rows_session_save(struct session *s); /* state, times, cwd, totals, failure */
void rows_session_save_env(struct session *s);
void rows_session_save_config(struct session *s); /* config, walls, policy, workspace, owner */
void rows_session_delete(struct session *s);
int rows_session_load(struct sessions *ss, const char *id, struct session **out, struct err *err);
typedef void rows_session_fn(struct session *s, int64_t rowid, void *arg); /* s: a reference */
int rows_sessions_live(struct sessions *ss, rows_session_fn *fn, void *arg, struct err *err);
struct rows_page {
	const char *agent_id; /* NULL: any */
	int64_t after;
	unsigned limit;
};
int rows_sessions_page(struct sessions *ss, const struct rows_page *p, rows_session_fn *fn,
		       void *arg, struct err *err);
/* NULL and "": the start */
int rows_cursor_parse(const char *cursor, int64_t *after, struct err *err);

void rows_command_insert(struct command *c);
int rows_command_free(struct session *s, const char *id, struct err *err); /* E_CONFLICT */
void rows_command_finish(struct command *c);
void rows_command_save_request(struct command *c);
/* E_NOT_FOUND. *out is a reference: the living command, or one made from its row. agent_id NULL:
 * any agent's. */
int rows_command_load(struct sessions *ss, const char *agent_id, const char *id,
		      struct command **out, struct err *err);
/* The same by an Idempotency-Key of the session's agent. A key past its age is removed from its row
 * and not found. */
int rows_command_by_key(struct session *s, const char *key, struct command **out, struct err *err);
typedef void rows_command_fn(struct command *c, void *arg); /* c: a reference */
int rows_commands_open(struct session *s, rows_command_fn *fn, void *arg, struct err *err);
int rows_commands_page(struct session *s, int64_t after, unsigned limit, rows_command_fn *fn,
		       void *arg, struct err *err);
int rows_last_n(struct session *s, int64_t *out, struct err *err); /* 0 before the first command */
