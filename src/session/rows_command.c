// SPDX-License-Identifier: Apache-2.0
/* Rows of commands. */
#include "base/log.h"
#include "base/proc.h"
#include "session/command_state.h"
#include "session/db_row.h"
#include "session/rows.h"

/* ---- writing ---- */

/* The part of a row that never changes; its last column is n. */
#define FIRST_COLUMNS                                                                           \
	"agent_id, id, session_id, idempotency_key, body_hash, created_us, max_output, detach," \
	" stdout_file, stderr_file, n"
#define LAST_COLUMNS                                                                        \
	"state, request, result, started_us, finished_us, exit_code, signal, stdout_bytes," \
	" stderr_bytes, stdout_lines, stderr_lines"

static void put_first(struct db_row *r, const struct command *c)
{
	put_text(r, c->s->agent_id);
	put_text(r, c->id);
	put_text(r, c->s->id);
	put_text(r, c->idempotency_key);
	put_blob(r, c->idempotency_key != NULL ? c->body_hash : NULL, sizeof(c->body_hash));
	put_int(r, c->created_us);
	put_int(r, c->max_output);
	put_int(r, c->detach);
	put_text(r, c->file[1].name);
	put_text(r, c->file[2].name);
	put_int(r, c->n);
}

void rows_command_insert(struct command *c)
{
	struct db_row r =
		row_write(c->s->ss, "INSERT INTO commands(" FIRST_COLUMNS ", state, request)"
				    " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)");

	put_first(&r, c);
	put_text(&r, command_state_name(c->state));
	put_text(&r, c->request);
	c->insert_number = row_run(&r);
}

int rows_command_free(struct session *s, const char *id, struct err *err)
{
	struct db_row r = row_read(s->ss, "SELECT 1 FROM commands WHERE agent_id=? AND id=?");
	int rc;

	put_text(&r, s->agent_id);
	put_text(&r, id);
	rc = row_next(&r, err);
	sqlite3_reset(r.stmt);
	if (rc > 0)
		rc = err_set(err, E_CONFLICT, id, "there is a command '%s' already", id);
	return rc;
}

static void put_last(struct db_row *r, const struct command *c)
{
	cleanup_buf struct buf result = {0};

	outcome_format(&c->out, &result);
	put_text(r, command_state_name(c->state));
	put_text(r, c->request);
	put_text(r, result.data);
	put_int(r, c->started_us);
	put_int(r, c->finished_us);
	if (c->exit_code >= 0)
		put_int(r, c->exit_code);
	else
		put_null(r);
	put_text(r, proc_signal_name(c->signal));
	put_int(r, (int64_t)c->bytes[1]);
	put_int(r, (int64_t)c->bytes[2]);
	put_int(r, (int64_t)c->lines[1]);
	put_int(r, (int64_t)c->lines[2]);
}

void rows_command_finish(struct command *c)
{
	struct db_row r;

	if (store_take_back(c->s->ss->deps.store, c->insert_number)) {
		r = row_write(c->s->ss, "REPLACE INTO commands(" FIRST_COLUMNS ", " LAST_COLUMNS
					") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
		put_first(&r, c);
		put_last(&r, c);
	} else {
		r = row_write(c->s->ss, "UPDATE commands SET (" LAST_COLUMNS
					") = (?,?,?,?,?,?,?,?,?,?,?) WHERE agent_id=? AND id=?");
		put_last(&r, c);
		put_text(&r, c->s->agent_id);
		put_text(&r, c->id);
	}
	row_run(&r);
}

void rows_command_save_request(struct command *c)
{
	struct db_row r =
		row_write(c->s->ss, "UPDATE commands SET request=? WHERE agent_id=? AND id=?");

	put_text(&r, c->request);
	put_text(&r, c->s->agent_id);
	put_text(&r, c->id);
	row_run(&r);
}

/* ---- reading ---- */

#define COMMAND_COLUMNS                                                                            \
	"session_id, id, state, idempotency_key, body_hash, request, result, created_us, "         \
	"started_us,"                                                                              \
	" finished_us, exit_code, signal, stdout_bytes, stderr_bytes, stdout_lines, stderr_lines," \
	" max_output, detach, n, stdout_file, stderr_file"

/* Before they had names of their own they had the command's. */
static void read_file(struct output_file *f, const struct command *c, const char *name)
{
	if (name == NULL)
		name = c->id;
	memcpy(f->name, name, strnlen(name, ID_MAX));
}

/* The row under r as a command of s. */
static struct command *read_command(struct session *s, struct db_row *r)
{
	struct err err = {0};
	struct command *c;
	const char *text;
	const void *hash;
	int state;

	r->next = 1; /* behind session_id */
	c = command_new(s, get_text(r));
	state = command_state_by_name(get_text(r));
	c->state = state < 0 ? COMMAND_LOST : (enum command_state)state;
	c->idempotency_key = mem_strdup(get_text(r));
	hash = sqlite3_column_blob(r->stmt, r->next);
	if (sqlite3_column_bytes(r->stmt, r->next++) == sizeof(c->body_hash))
		memcpy(c->body_hash, hash, sizeof(c->body_hash));
	c->request = mem_strdup(get_text(r));
	text = get_text(r);
	if (text != NULL && outcome_parse(text, &c->out, &err) < 0)
		log_error("a command's row is not understood", "command_id", c->id, "error",
			  err.message);
	c->created_us = get_int(r);
	c->started_us = get_int(r);
	c->finished_us = get_int(r);
	if (sqlite3_column_type(r->stmt, r->next) != SQLITE_NULL)
		c->exit_code = sqlite3_column_int64(r->stmt, r->next); /* else -1, as it is new */
	r->next++;
	text = get_text(r);
	c->signal = text != NULL ? proc_signal_by_name(text) : 0;
	c->bytes[1] = (uint64_t)get_int(r);
	c->bytes[2] = (uint64_t)get_int(r);
	c->lines[1] = (uint64_t)get_int(r);
	c->lines[2] = (uint64_t)get_int(r);
	c->max_output = get_int(r);
	c->detach = get_int(r) != 0;
	c->n = get_int(r);
	read_file(&c->file[1], c, get_text(r));
	read_file(&c->file[2], c, get_text(r));
	return c;
}

/* One row or none; *out is a reference. */
static int one(struct sessions *ss, struct session *own, struct db_row *r, struct command **out,
	       struct err *err)
{
	struct command *c = NULL;
	struct session *s;
	int rc = row_next(r, err);

	if (rc > 0) {
		const char *id = get_text(r);

		/* The asker's own, a living one, or its row. */
		s = own != NULL && strcmp(own->id, id) == 0 ? own : sessions_find(ss, id);
		if (s != NULL)
			session_ref(s);
		else
			rows_session_load(ss, id, &s, NULL);
		if (s != NULL) {
			r->next = 1;
			c = command_find(s, get_text(r));
			c = c != NULL ? command_ref(c) : read_command(s, r);
			session_unref(s);
		}
		sqlite3_reset(r->stmt);
	}
	if (rc < 0)
		return rc;
	if (c == NULL)
		return err_set(err, E_NOT_FOUND, NULL, "no such command");
	*out = c;
	return 0;
}

int rows_command_load(struct sessions *ss, const char *agent_id, const char *id,
		      struct command **out, struct err *err)
{
	struct db_row r;

	if (agent_id != NULL) {
		r = row_read(ss,
			     "SELECT " COMMAND_COLUMNS " FROM commands WHERE agent_id=? AND id=?");
		put_text(&r, agent_id);
	} else {
		r = row_read(ss, "SELECT " COMMAND_COLUMNS
				 " FROM commands WHERE id=? ORDER BY created_us DESC LIMIT 1");
	}
	put_text(&r, id);
	return one(ss, NULL, &r, out, err);
}

int rows_command_by_key(struct session *s, const char *key, struct command **out, struct err *err)
{
	const int64_t age_us = s->ss->deps.config->idempotency_age_ms * 1000;
	struct db_row r = row_read(s->ss, "SELECT " COMMAND_COLUMNS
					  " FROM commands WHERE agent_id=? AND idempotency_key=?");
	struct command *c = NULL;
	int rc;

	put_text(&r, s->agent_id);
	put_text(&r, key);
	rc = one(s->ss, s, &r, &c, err);
	if (rc < 0)
		return rc;
	ensure(c != NULL);
	if (!command_is_over(c) || sessions_now(s->ss) - c->created_us < age_us ||
	    !sessions_wall_is_steady(s->ss)) {
		*out = c;
		return 0;
	}
	r = row_write(s->ss, "UPDATE commands SET idempotency_key=NULL WHERE agent_id=? AND id=?");
	put_text(&r, c->s->agent_id);
	put_text(&r, c->id);
	row_run(&r);
	command_unref(c);
	return err_set(err, E_NOT_FOUND, key, "this Idempotency-Key is no longer kept");
}

/* Collected first: fn may run statements of its own. */
static int each_command(struct session *s, struct db_row *r, rows_command_fn *fn, void *arg,
			struct err *err)
{
	struct command_found {
		struct command *c;
	} *found = NULL;
	size_t n = 0;
	int rc;

	while ((rc = row_next(r, err)) > 0) {
		struct command *live;

		r->next = 1;
		live = command_find(s, get_text(r));
		found = mem_resize(found, n + 1, sizeof(*found));
		found[n++].c = live != NULL ? command_ref(live) : read_command(s, r);
	}
	for (size_t i = 0; i < n; i++)
		fn(found[i].c, arg);
	free(found);
	return rc;
}

int rows_commands_open(struct session *s, rows_command_fn *fn, void *arg, struct err *err)
{
	struct db_row r =
		row_read(s->ss, "SELECT " COMMAND_COLUMNS " FROM commands WHERE session_id=? AND"
				" state IN ('queued', 'running') ORDER BY n");

	put_text(&r, s->id);
	return each_command(s, &r, fn, arg, err);
}

int rows_commands_page(struct session *s, int64_t after, unsigned limit, rows_command_fn *fn,
		       void *arg, struct err *err)
{
	struct db_row r =
		row_read(s->ss, "SELECT " COMMAND_COLUMNS
				" FROM commands WHERE session_id=? AND n>? ORDER BY n LIMIT ?");

	put_text(&r, s->id);
	put_int(&r, after);
	put_int(&r, limit);
	return each_command(s, &r, fn, arg, err);
}

int rows_last_n(struct session *s, int64_t *out, struct err *err)
{
	struct db_row r = row_read(s->ss, "SELECT max(n) FROM commands WHERE session_id=?");
	int rc;

	put_text(&r, s->id);
	rc = row_next(&r, err); /* there always is a row, of NULL perhaps */
	if (rc < 0)
		return rc;
	*out = get_int(&r);
	sqlite3_reset(r.stmt);
	return 0;
}
