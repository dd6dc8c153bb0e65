// SPDX-License-Identifier: Apache-2.0
/* Rows of sessions. */
#include "session/rows.h"
#include "base/log.h"
#include "session/db_row.h"
#include "session/session_env.h"

int rows_cursor_parse(const char *cursor, int64_t *after, struct err *err)
{
	char *end;

	if (cursor == NULL || cursor[0] == '\0')
		return 0;
	if (strspn(cursor, "0123456789") == strlen(cursor) && strlen(cursor) < 19) {
		*after = strtoll(cursor, &end, 10);
		return 0;
	}
	err_detail(err, "cursor", "not a cursor of ours: '%.32s'", cursor);
	return err_from_details(err, NULL);
}

/* ---- writing ---- */

static char *join(const struct strv *list)
{
	struct buf b = {0};

	for (size_t i = 0; i < list->n; i++)
		buf_addf(&b, "%s%s", i > 0 ? "\n" : "", list->v[i]);
	return buf_take(&b);
}

static char *env_text(const struct strv *env)
{
	struct buf b = {0};
	struct jw w = JW(&b);

	env_format(env, &w);
	return buf_take(&b);
}

static char *config_text(const struct session_request *config)
{
	struct buf b = {0};
	struct jw w = JW(&b);

	session_request_format(config, &w);
	return buf_take(&b);
}

void rows_session_insert(struct session *s)
{
	struct db_row r =
		row_write(s->ss, "INSERT INTO sessions(id, agent_id, owner_uid, state, created_us,"
				 " last_activity_us, workspace, policy_name, cwd, env, config,"
				 " created_boot_us, active_boot_us,"
				 " command_count, file_ops, net_ops, bytes_read, bytes_written)"
				 " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,0,0,0,0,0)");
	cleanup_free char *env = env_text(&s->env), *config = config_text(&s->config);

	put_text(&r, s->id);
	put_text(&r, s->agent_id);
	put_int(&r, s->owner_uid);
	put_text(&r, session_state_name(s->state));
	put_int(&r, s->created_us);
	put_int(&r, s->last_activity_us);
	put_text(&r, s->workspace);
	put_text(&r, s->policy_name);
	put_text(&r, s->cwd);
	put_text(&r, env);
	put_text(&r, config);
	put_int(&r, s->created_boot_us);
	put_int(&r, s->active_boot_us);
	row_run(&r);
}

int rows_session_free(struct sessions *ss, const char *id, struct err *err)
{
	struct db_row r = row_read(ss, "SELECT 1 FROM sessions WHERE id=?");
	int rc;

	put_text(&r, id);
	rc = row_next(&r, err);
	sqlite3_reset(r.stmt);
	if (rc > 0)
		rc = session_id_taken(id, err);
	return rc;
}

void rows_session_save(struct session *s)
{
	/* busy is seen by a running command, not by the row */
	const enum session_state state = s->state == SESSION_BUSY ? SESSION_READY : s->state;
	struct db_row r;

	store_take_back(s->ss->deps.store, s->save_number);
	r = row_write(s->ss, "UPDATE sessions SET state=?, last_activity_us=?, active_boot_us=?,"
			     " ended_us=?, cwd=?,"
			     " failure=?, command_count=?, file_ops=?, net_ops=?, bytes_read=?,"
			     " bytes_written=? WHERE id=?");
	put_text(&r, session_state_name(state));
	put_int(&r, s->last_activity_us);
	put_int(&r, s->active_boot_us);
	put_int(&r, s->ended_us);
	put_text(&r, s->cwd);
	put_text(&r, s->failure);
	put_int(&r, s->totals.command_count);
	put_int(&r, s->totals.file_ops);
	put_int(&r, s->totals.net_ops);
	put_int(&r, s->totals.bytes_read);
	put_int(&r, s->totals.bytes_written);
	put_text(&r, s->id);
	s->save_number = row_run(&r);
	s->saved_totals = s->totals;
}

void rows_session_save_env(struct session *s)
{
	struct db_row r = row_write(s->ss, "UPDATE sessions SET env=? WHERE id=?");
	cleanup_free char *env = env_text(&s->env);

	put_text(&r, env);
	put_text(&r, s->id);
	row_run(&r);
}

void rows_session_save_config(struct session *s)
{
	struct db_row r = row_write(s->ss, "UPDATE sessions SET config=?, walls=?, policy_name=?,"
					   " policy_version=?, workspace=?, owner_uid=?, capped=?"
					   " WHERE id=?");
	cleanup_free char *config = config_text(&s->config), *capped = join(&s->capped);
	cleanup_free char *walls = NULL;
	struct strv list = {0};

	wall_pack(&s->walls, &list);
	walls = join(&list);
	strv_done(&list);
	put_text(&r, config);
	put_text(&r, walls);
	put_text(&r, s->policy_name);
	put_text(&r, s->policy_version);
	put_text(&r, s->workspace);
	put_int(&r, s->owner_uid);
	put_text(&r, capped);
	put_text(&r, s->id);
	row_run(&r);
}

void rows_session_delete(struct session *s)
{
	struct db_row r = row_write(s->ss, "DELETE FROM sessions WHERE id=?");

	put_text(&r, s->id);
	row_run(&r);
}

/* ---- reading ---- */

#define SESSION_COLUMNS                                                                            \
	"rowid, id, agent_id, owner_uid, state, created_us, last_activity_us, ended_us, "          \
	"workspace,"                                                                               \
	" policy_name, policy_version, cwd, env, config, walls, failure, command_count, file_ops," \
	" net_ops, bytes_read, bytes_written, capped, created_boot_us, active_boot_us"

static void split(const char *text, struct strv *list)
{
	cleanup_free char *copy = mem_strdup(text);
	char *save = NULL;

	for (char *line = strtok_r(copy, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		strv_add(list, line);
}

/* What a row's texts say; a text that cannot be read (an older or newer version's) is left out and
 * logged. */
static void read_texts(struct session *s, const char *env, const char *config, const char *walls)
{
	struct strv list = {0};
	json_t *doc = NULL;
	struct err err = {0};

	if (env != NULL)
		env_parse(env, &s->env, &err);
	if (config != NULL && err.code == E_OK &&
	    json_parse(config, strlen(config), &doc, &err) == 0)
		session_request_read(doc, &s->config, &err);
	json_decref(doc);
	if (walls != NULL && err.code == E_OK) {
		split(walls, &list);
		wall_unpack(&s->walls, &list, &err);
		strv_done(&list);
	}
	if (err.code != E_OK)
		log_error("a session's row is not understood", "session_id", s->id, "error",
			  err.message);
}

static struct session *read_session(struct sessions *ss, struct db_row *r, int64_t *rowid)
{
	struct session *s;
	const char *id, *env, *config, *walls, *capped;
	int state;

	*rowid = get_int(r);
	id = get_text(r);
	s = session_new(ss, id, get_text(r));
	s->oom_kills = UINT64_MAX;
	s->owner_uid = (uint32_t)get_int(r);
	state = session_state_by_name(get_text(r));
	s->state = state < 0 ? SESSION_FAILED : (enum session_state)state;
	s->created_us = get_int(r);
	s->last_activity_us = get_int(r);
	s->ended_us = get_int(r);
	s->workspace = mem_strdup(get_text(r));
	s->policy_name = mem_strdup(get_text(r));
	s->policy_version = mem_strdup(get_text(r));
	s->cwd = mem_strdup(get_text(r));
	env = get_text(r);
	config = get_text(r);
	walls = get_text(r);
	read_texts(s, env, config, walls);
	s->failure = mem_strdup(get_text(r));
	s->totals.command_count = get_int(r);
	s->totals.file_ops = get_int(r);
	s->totals.net_ops = get_int(r);
	s->totals.bytes_read = get_int(r);
	s->totals.bytes_written = get_int(r);
	capped = get_text(r);
	if (capped != NULL)
		split(capped, &s->capped);
	s->created_boot_us = get_int(r);
	s->active_boot_us = get_int(r);
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
	struct session_found {
		struct session *s;
		int64_t rowid;
	} *found = NULL;
	size_t n = 0;
	int rc;

	while ((rc = row_next(r, err)) > 0) {
		found = mem_resize(found, n + 1, sizeof(*found));
		found[n].s = read_session(ss, r, &found[n].rowid);
		n++;
	}
	for (size_t i = 0; i < n; i++)
		fn(found[i].s, found[i].rowid, arg);
	free(found);
	return rc;
}

static void take_one(struct session *s, int64_t rowid, void *arg)
{
	*(struct session **)arg = s;
}

int rows_session_load(struct sessions *ss, const char *id, struct session **out, struct err *err)
{
	struct db_row r = row_read(ss, "SELECT " SESSION_COLUMNS " FROM sessions WHERE id=?");
	struct session *s = NULL;
	int rc;

	put_text(&r, id);
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
	struct db_row r = row_read(ss, "SELECT " SESSION_COLUMNS
				       " FROM sessions WHERE state NOT IN ('stopped', 'failed')");

	return each_session(ss, &r, fn, arg, err);
}

int rows_sessions_page(struct sessions *ss, const struct rows_page *p, rows_session_fn *fn,
		       void *arg, struct err *err)
{
	struct db_row r;

	if (p->agent_id != NULL) {
		r = row_read(ss,
			     "SELECT " SESSION_COLUMNS
			     " FROM sessions WHERE agent_id=? AND rowid>? ORDER BY rowid LIMIT ?");
		put_text(&r, p->agent_id);
	} else {
		r = row_read(ss, "SELECT " SESSION_COLUMNS
				 " FROM sessions WHERE rowid>? ORDER BY rowid LIMIT ?");
	}
	put_int(&r, p->after);
	put_int(&r, p->limit);
	return each_session(ss, &r, fn, arg, err);
}
