// SPDX-License-Identifier: Apache-2.0
/* The rows of sessions and of commands: one table of columns for each. */
#include "session/rows.h"
#include "base/proc.h"
#include "session/command_state.h"
#include "session/db_row.h"
#include "session/session_env.h"
#include "session/sessions.h"

#define NAME(column, kind, member) ", " #column
#define MARK(column, kind, member) ", ?"
#define EXCLUDED(column, kind, member) ", excluded." #column

/* ---- columns of a session ---- */

/* The last state stands for a name that this version does not know. */
static int state_by_name(const char *const names[], int last, const char *name)
{
	int state = 0;

	while (state < last && strcmp(names[state], name) != 0)
		state++;
	return state;
}

/* A row does not have busy: a session is busy while one of its commands runs. */
static void format_session_state(const void *member, struct buf *out)
{
	const enum session_state state = *(const enum session_state *)member;

	buf_adds(out, session_state_names[state == SESSION_BUSY ? SESSION_READY : state]);
}

static int parse_session_state(const char *text, void *member, struct err *err)
{
	*(enum session_state *)member = state_by_name(session_state_names, SESSION_FAILED, text);
	return 0;
}

static void format_env(const void *member, struct buf *out)
{
	env_format(member, &JW(out));
}

static void format_config(const void *member, struct buf *out)
{
	session_request_format(member, &JW(out));
}

static int parse_config(const char *text, void *member, struct err *err)
{
	json_t *doc = NULL;
	int r = json_parse(text, strlen(text), &doc, err);

	if (r == 0)
		r = session_request_read(doc, member, err);
	json_decref(doc);
	return r;
}

static void format_walls(const void *member, struct buf *out)
{
	struct strv list = {0};

	wall_pack(member, &list);
	column_lines.format(&list, out);
	strv_done(&list);
}

static int parse_walls(const char *text, void *member, struct err *err)
{
	struct strv list = {0};
	int r;

	column_lines.parse(text, &list, err);
	r = wall_unpack(member, &list, err);
	strv_done(&list);
	return r;
}

static const struct column_kind column_session_state = {format_session_state, parse_session_state},
				column_env = {format_env, env_parse},
				column_config = {format_config, parse_config},
				column_walls = {format_walls, parse_walls};

/* clang-format off */
/* column, kind, member. The first list changes with every command. */
#define SESSION_OFTEN(X) \
	X(last_activity_us, int, last_activity_us) \
	X(active_boot_us, int, active_boot_us) \
	X(ended_us, int, ended_us) \
	X(cwd, text, cwd) \
	X(failure, text, failure) \
	X(command_count, int, totals.command_count) \
	X(file_ops, int, totals.file_ops) \
	X(net_ops, int, totals.net_ops) \
	X(bytes_read, int, totals.bytes_read) \
	X(bytes_written, int, totals.bytes_written)
#define SESSION_RARELY(X) \
	X(agent_id, id, agent_id) \
	X(owner_uid, int, owner_uid) \
	X(created_us, int, created_us) \
	X(created_boot_us, int, created_boot_us) \
	X(workspace, text, workspace) \
	X(policy_name, text, policy_name) \
	X(policy_version, text, policy_version) \
	X(env, env, env) \
	X(config, config, config) \
	X(walls, walls, walls) \
	X(capped, lines, capped) \
	X(home, text, home)
/* clang-format on */
#define SESSION(column, kind, member) {&column_##kind, offsetof(struct session, member)},
#define OFTEN_NAMES "state" SESSION_OFTEN(NAME)
#define OFTEN_MARKS "?" SESSION_OFTEN(MARK)
#define SESSION_NAMES OFTEN_NAMES SESSION_RARELY(NAME)
#define SESSION_MARKS OFTEN_MARKS SESSION_RARELY(MARK)
#define SESSION_NEW "excluded.state" SESSION_OFTEN(EXCLUDED) SESSION_RARELY(EXCLUDED)

static const struct column session_often[] = {SESSION(state, session_state, state)
						      SESSION_OFTEN(SESSION)};
static const struct column session_rarely[] = {SESSION_RARELY(SESSION)};

/* ---- sessions ---- */

void rows_session_write(struct session *s)
{
	struct store *store = s->ss->deps.store;

	store_take_back(store, s->save_number);
	store_put(store, "INSERT INTO sessions(id, " SESSION_NAMES ") VALUES(?, " SESSION_MARKS
			 ") ON CONFLICT(id) DO UPDATE SET (" SESSION_NAMES ") = (" SESSION_NEW ")");
	store_put_text(store, s->id);
	columns_put(store, session_often, ARRAY_LEN(session_often), s);
	columns_put(store, session_rarely, ARRAY_LEN(session_rarely), s);
	store_put_end(store);
	s->saved_totals = s->totals;
	s->env_dirty = false;
}

void rows_session_save(struct session *s)
{
	struct store *store = s->ss->deps.store;

	store_take_back(store, s->save_number);
	store_put(store, "UPDATE sessions SET (" OFTEN_NAMES ") = (" OFTEN_MARKS ") WHERE id=?");
	columns_put(store, session_often, ARRAY_LEN(session_often), s);
	store_put_text(store, s->id);
	s->save_number = store_put_end(store);
	s->saved_totals = s->totals;
}

void rows_session_delete(struct session *s)
{
	store_put(s->ss->deps.store, "DELETE FROM sessions WHERE id=?");
	store_put_text(s->ss->deps.store, s->id);
	store_put_end(s->ss->deps.store);
}

int rows_session_free(struct sessions *ss, const char *id, struct err *err)
{
	struct db_row r = row_read(ss->deps.store, "SELECT 1 FROM sessions WHERE id=?");
	int rc;

	row_bind_text(&r, id);
	rc = row_next(&r, err);
	sqlite3_reset(r.stmt);
	return rc > 0 ? session_id_taken(id, err) : rc;
}

#define SELECT_SESSIONS "SELECT id, rowid, " SESSION_NAMES " FROM sessions "

static struct session *read_session(struct sessions *ss, struct db_row *r)
{
	struct session *s = session_new(ss, row_text(r), "");

	s->oom_kills = UINT64_MAX;
	s->rowid = row_int(r);
	columns_get(r, session_often, ARRAY_LEN(session_often), s);
	columns_get(r, session_rarely, ARRAY_LEN(session_rarely), s);
	if (s->created_boot_us == 0) { /* a row of an earlier version */
		const int64_t ahead = sessions_now(ss) - sessions_boot(ss);

		s->created_boot_us = s->created_us - ahead;
		s->active_boot_us = s->last_activity_us - ahead;
	}
	s->saved_totals = s->totals;
	return s;
}

/* Collected first: fn may run statements of its own, also this one. */
static int each_session(struct sessions *ss, struct db_row *r, rows_session_fn *fn, void *arg,
			struct err *err)
{
	struct session_list found = TAILQ_HEAD_INITIALIZER(found);
	struct session *s;
	int rc;

	while ((rc = row_next(r, err)) > 0) {
		s = read_session(ss, r);
		TAILQ_INSERT_TAIL(&found, s, all);
	}
	while ((s = TAILQ_FIRST(&found)) != NULL) {
		TAILQ_REMOVE(&found, s, all);
		fn(s, arg);
	}
	return rc;
}

static void take_one(struct session *s, void *arg)
{
	*(struct session **)arg = s;
}

int rows_session_load(struct sessions *ss, const char *id, struct session **out, struct err *err)
{
	struct db_row r = row_read(ss->deps.store, SELECT_SESSIONS "WHERE id=?");
	struct session *s = NULL;
	int rc;

	row_bind_text(&r, id);
	rc = each_session(ss, &r, take_one, &s, err);
	if (rc < 0)
		return rc;
	if (s == NULL)
		return err_set(err, E_SESSION_NOT_FOUND, id, "no session '%s'", id);
	*out = s;
	return 0;
}

int rows_sessions_live(struct sessions *ss, rows_session_fn *fn, void *arg, struct err *err)
{
	struct db_row r = row_read(ss->deps.store,
				   SELECT_SESSIONS "WHERE state NOT IN ('stopped', 'failed')");

	return each_session(ss, &r, fn, arg, err);
}

int rows_sessions_page(struct sessions *ss, const char *agent_id, const struct rows_page *p,
		       rows_session_fn *fn, void *arg, struct err *err)
{
	struct db_row r = row_read(ss->deps.store, agent_id != NULL ? SELECT_SESSIONS
							   "WHERE agent_id=? AND rowid>?"
							   " ORDER BY rowid LIMIT ?"
								    : SELECT_SESSIONS
							   "WHERE rowid>? ORDER BY rowid LIMIT ?");

	if (agent_id != NULL)
		row_bind_text(&r, agent_id);
	row_bind_int(&r, p->after);
	row_bind_int(&r, p->limit);
	return each_session(ss, &r, fn, arg, err);
}

/* ---- columns of a command ---- */

static void format_command_state(const void *member, struct buf *out)
{
	buf_adds(out, command_state_names[*(const enum command_state *)member]);
}

static int parse_command_state(const char *text, void *member, struct err *err)
{
	*(enum command_state *)member = state_by_name(command_state_names, COMMAND_LOST, text);
	return 0;
}

static void format_signal(const void *member, struct buf *out)
{
	const char *name = proc_signal_name(*(const int *)member);

	if (name != NULL)
		buf_adds(out, name);
}

static int parse_signal(const char *text, void *member, struct err *err)
{
	*(int *)member = proc_signal_by_name(text);
	return 0;
}

static const struct column_kind column_command_state = {format_command_state, parse_command_state},
				column_outcome = {outcome_format, outcome_parse},
				column_signal = {format_signal, parse_signal};

/* clang-format off */
/* column, kind, member. The first list never changes. */
#define COMMAND_FIRST(X) \
	X(idempotency_key, text, idempotency_key) \
	X(created_us, int, created_us) \
	X(max_output, int, max_output) \
	X(detach, int, detach) \
	X(stdout_file, id, file[1].name) \
	X(stderr_file, id, file[2].name) \
	X(n, int, n)
#define COMMAND_LAST(X) \
	X(result, outcome, out) \
	X(started_us, int, started_us) \
	X(finished_us, int, finished_us) \
	X(exit_code, int, exit_code) \
	X(signal, signal, signal) \
	X(stdout_bytes, int, out.extent[1].bytes) \
	X(stderr_bytes, int, out.extent[2].bytes) \
	X(stdout_lines, int, lines[1]) \
	X(stderr_lines, int, lines[2])
/* clang-format on */
#define COMMAND(column, kind, member) {&column_##kind, offsetof(struct command, member)},
#define FIRST_NAMES "id, session_id, body_hash" COMMAND_FIRST(NAME)
#define FIRST_MARKS "?, ?, ?" COMMAND_FIRST(MARK)
#define LAST_NAMES "state, request" COMMAND_LAST(NAME)
#define LAST_MARKS "?, ?" COMMAND_LAST(MARK)

static const struct column command_first[] = {COMMAND_FIRST(COMMAND)};
/* Only the first two are known before the end. */
static const struct column command_last[] = {
	COMMAND(state, command_state, state) COMMAND(request, text, request) COMMAND_LAST(COMMAND)};

/* ---- commands ---- */

static void put_first(struct store *store, const struct command *c)
{
	store_put_text(store, c->s->agent_id);
	store_put_text(store, c->id);
	store_put_text(store, c->s->id);
	store_put_blob(store, c->idempotency_key != NULL ? c->body_hash : NULL,
		       sizeof(c->body_hash));
	columns_put(store, command_first, ARRAY_LEN(command_first), c);
}

void rows_command_insert(struct command *c)
{
	struct store *store = c->s->ss->deps.store;

	store_put(store, "INSERT INTO commands(agent_id, " FIRST_NAMES ", state, request)"
			 " VALUES(?, " FIRST_MARKS ", ?, ?)");
	put_first(store, c);
	columns_put(store, command_last, 2, c);
	c->insert_number = store_put_end(store);
}

void rows_command_save(struct command *c)
{
	struct store *store = c->s->ss->deps.store;

	if (store_take_back(store, c->insert_number)) {
		store_put(store, "REPLACE INTO commands(agent_id, " FIRST_NAMES ", " LAST_NAMES
				 ") VALUES(?, " FIRST_MARKS ", " LAST_MARKS ")");
		put_first(store, c);
		columns_put(store, command_last, ARRAY_LEN(command_last), c);
		c->insert_number = store_put_end(store);
		return;
	}
	store_put(store, "UPDATE commands SET (" LAST_NAMES ") = (" LAST_MARKS
			 ") WHERE agent_id=? AND id=?");
	columns_put(store, command_last, ARRAY_LEN(command_last), c);
	store_put_text(store, c->s->agent_id);
	store_put_text(store, c->id);
	store_put_end(store);
}

int rows_command_free(struct session *s, const char *id, struct err *err)
{
	struct db_row r =
		row_read(s->ss->deps.store, "SELECT 1 FROM commands WHERE agent_id=? AND id=?");
	int rc;

	row_bind_text(&r, s->agent_id);
	row_bind_text(&r, id);
	rc = row_next(&r, err);
	sqlite3_reset(r.stmt);
	if (rc > 0)
		rc = err_set(err, E_CONFLICT, id, "there is a command '%s' already", id);
	return rc;
}

#define SELECT_COMMANDS "SELECT " FIRST_NAMES ", " LAST_NAMES " FROM commands "

/* The row under r as a command of s; a reference. */
static struct command *read_command(struct session *s, struct db_row *r)
{
	const char *id = (const char *)sqlite3_column_text(r->stmt, 0);
	struct command *c = command_find(s, id);

	if (c != NULL)
		return command_ref(c);
	c = command_new(s, id);
	if (sqlite3_column_bytes(r->stmt, 2) == sizeof(c->body_hash))
		memcpy(c->body_hash, sqlite3_column_blob(r->stmt, 2), sizeof(c->body_hash));
	r->next = 3;
	columns_get(r, command_first, ARRAY_LEN(command_first), c);
	columns_get(r, command_last, ARRAY_LEN(command_last), c);
	for (int i = 1; i <= 2; i++) {
		c->out.extent[i].from = c->out.extent[i].bytes;
		if (c->file[i].name[0] == '\0') /* an earlier version used the command's name */
			memcpy(c->file[i].name, c->id, sizeof(c->id));
	}
	return c;
}

/* One row or none; *out is a reference. */
static int one(struct sessions *ss, struct session *own, struct db_row *r, struct command **out,
	       struct err *err)
{
	struct session *s = NULL;
	const int rc = row_next(r, err);

	if (rc < 0)
		return rc;
	if (rc > 0) {
		const char *id = (const char *)sqlite3_column_text(r->stmt, 1);

		/* Uses the caller's object, a living one, or one from the row. */
		s = own != NULL && strcmp(own->id, id) == 0 ? own : sessions_find(ss, id);
		if (s != NULL)
			session_ref(s);
		else
			rows_session_load(ss, id, &s, NULL);
	}
	if (s != NULL) {
		*out = read_command(s, r);
		session_unref(s);
	}
	sqlite3_reset(r->stmt);
	return s != NULL ? 0 : err_set(err, E_NOT_FOUND, NULL, "no such command");
}

int rows_command_load(struct sessions *ss, const char *agent_id, const char *id,
		      struct command **out, struct err *err)
{
	struct db_row r = row_read(ss->deps.store,
				   agent_id != NULL ? SELECT_COMMANDS "WHERE agent_id=? AND id=?"
						    : SELECT_COMMANDS
					   "WHERE id=? ORDER BY created_us DESC LIMIT 1");

	if (agent_id != NULL)
		row_bind_text(&r, agent_id);
	row_bind_text(&r, id);
	return one(ss, NULL, &r, out, err);
}

int rows_command_by_key(struct session *s, const char *key, struct command **out, struct err *err)
{
	const int64_t age_us = s->ss->deps.config->idempotency_age_ms * 1000;
	struct store *store = s->ss->deps.store;
	struct db_row r = row_read(store, SELECT_COMMANDS "WHERE agent_id=? AND idempotency_key=?");
	struct command *c = NULL;
	int rc;

	row_bind_text(&r, s->agent_id);
	row_bind_text(&r, key);
	rc = one(s->ss, s, &r, &c, err);
	if (rc < 0)
		return rc;
	ensure(c != NULL);
	if (!command_is_over(c) || sessions_now(s->ss) - c->created_us < age_us ||
	    !sessions_wall_is_steady(s->ss)) {
		*out = c;
		return 0;
	}
	store_put(store, "UPDATE commands SET idempotency_key=NULL WHERE agent_id=? AND id=?");
	store_put_text(store, c->s->agent_id);
	store_put_text(store, c->id);
	store_put_end(store);
	command_unref(c);
	return err_set(err, E_NOT_FOUND, key, "this Idempotency-Key is no longer kept");
}

/* Collected first: fn may run statements of its own. */
static int each_command(struct session *s, struct db_row *r, rows_command_fn *fn, void *arg,
			struct err *err)
{
	struct command **found = NULL;
	size_t n = 0;
	int rc;

	while ((rc = row_next(r, err)) > 0) {
		found = mem_resize(found, n + 1, sizeof(struct command *));
		found[n++] = read_command(s, r);
	}
	for (size_t i = 0; i < n; i++)
		fn(found[i], arg);
	free(found);
	return rc;
}

int rows_commands_open(struct session *s, rows_command_fn *fn, void *arg, struct err *err)
{
	struct db_row r = row_read(s->ss->deps.store,
				   SELECT_COMMANDS "WHERE session_id=? AND"
						   " state IN ('queued', 'running') ORDER BY n");

	row_bind_text(&r, s->id);
	return each_command(s, &r, fn, arg, err);
}

int rows_commands_page(struct session *s, const struct rows_page *p, rows_command_fn *fn, void *arg,
		       struct err *err)
{
	struct db_row r = row_read(s->ss->deps.store,
				   SELECT_COMMANDS "WHERE session_id=? AND n>? ORDER BY n LIMIT ?");

	row_bind_text(&r, s->id);
	row_bind_int(&r, p->after);
	row_bind_int(&r, p->limit);
	return each_command(s, &r, fn, arg, err);
}

int rows_last_n(struct session *s, int64_t *out, struct err *err)
{
	struct db_row r =
		row_read(s->ss->deps.store, "SELECT max(n) FROM commands WHERE session_id=?");
	int rc;

	row_bind_text(&r, s->id);
	rc = row_next(&r, err); /* one row, maybe of NULL */
	if (rc < 0)
		return rc;
	*out = row_int(&r);
	sqlite3_reset(r.stmt);
	return 0;
}
