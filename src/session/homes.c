// SPDX-License-Identifier: Apache-2.0
/* Kept homes, which clients know as caches. The launcher has the directories; the rows say which
 * there are and who may see them. */
#include "session/homes.h"
#include "base/log.h"
#include "session/db_row.h"
#include "session/sessions.h"

#define MIB (UINT64_C(1) << 20)

struct home_row {
	char id[ID_MAX + 1], agent_id[ID_MAX + 1];
	char *workspace, *policy_name; /* owned */
	int64_t used_us, bytes;	       /* bytes -1: not known yet */
};
static const struct column columns[] = {
	{&column_id, offsetof(struct home_row, id)},
	{&column_id, offsetof(struct home_row, agent_id)},
	{&column_text, offsetof(struct home_row, workspace)},
	{&column_text, offsetof(struct home_row, policy_name)},
	{&column_int, offsetof(struct home_row, used_us)},
	{&column_int, offsetof(struct home_row, bytes)},
};
#define SELECT "SELECT id, agent_id, workspace, policy_name, used_us, bytes FROM homes "

static void home_row_done(struct home_row *h)
{
	free(h->workspace);
	free(h->policy_name);
}

static struct home_row read_home(struct db_row *r)
{
	struct home_row h = {.bytes = -1};

	r->next = 0;
	columns_get(r, columns, ARRAY_LEN(columns), &h);
	return h;
}

/* A session that is being made does not know its home yet: it may be any of its agent's. */
static const struct session *user_of(struct sessions *ss, const char *home, const char *agent_id)
{
	const struct session *s;

	TAILQ_FOREACH (s, &ss->all, all)
		if (s->state == SESSION_CREATING && s->home == NULL
			    ? strcmp(s->agent_id, agent_id) == 0
			    : s->home != NULL && strcmp(s->home, home) == 0)
			return s;
	return NULL;
}

static int ask_launcher(struct sessions *ss, const char *home, bool purge, struct err *err)
{
	const uint64_t mb = (uint64_t)ss->deps.config->home_max_mb;
	struct launcher_trim m = {
		.home = (char *)home, .keep_bytes = mb > 0 ? mb * MIB : UINT64_MAX, .purge = purge};

	return peer_send(ss->deps.launcher, MSG_launcher_trim, 0, &m, NULL, 0, err) == LINK_OK
		       ? 0
		       : -E_UNAVAILABLE;
}

/* ---- use ---- */

static void save_use(struct session *s)
{
	struct store *store = s->ss->deps.store;

	store_put(store, "INSERT INTO homes(id, agent_id, workspace, policy_name, used_us)"
			 " VALUES(?, ?, ?, ?, ?)"
			 " ON CONFLICT(id) DO UPDATE SET used_us=excluded.used_us");
	store_put_text(store, s->home);
	store_put_text(store, s->agent_id);
	store_put_text(store, s->workspace);
	store_put_text(store, s->policy_name);
	store_put_int(store, sessions_now(s->ss));
	store_put_end(store);
}

void home_used(struct session *s)
{
	if (s->home != NULL)
		save_use(s);
}

void home_left(struct session *s)
{
	if (s->home == NULL)
		return;
	save_use(s);
	/* Without its launcher the server ends, too. */
	if (user_of(s->ss, s->home, s->agent_id) == NULL)
		ask_launcher(s->ss, s->home, false, NULL);
}

/* ---- purge ---- */

struct home_waiter {
	STAILQ_ENTRY(home_waiter) next;
	char *home; /* owned */
	home_done_fn *done;
	void *arg;
};

static void answer(struct sessions *ss, struct home_waiter *w, const struct err *err)
{
	STAILQ_REMOVE(&ss->home_waiters, w, home_waiter, next);
	w->done(err, w->arg);
	free(w->home);
	free(w);
}

void homes_forget_waiters(struct sessions *ss)
{
	struct home_waiter *w;
	struct err err = {0};

	err_set(&err, E_UNAVAILABLE, NULL, "the server is stopping");
	while ((w = STAILQ_FIRST(&ss->home_waiters)) != NULL)
		answer(ss, w, &err);
}

static void save_size(struct sessions *ss, const struct launcher_trimmed *m)
{
	struct store *store = ss->deps.store;

	store_put(store, m->purge ? "DELETE FROM homes WHERE id=?"
				  : "UPDATE homes SET bytes=? WHERE id=?");
	if (!m->purge)
		store_put_int(store, m->bytes < INT64_MAX ? (int64_t)m->bytes : INT64_MAX);
	store_put_text(store, m->home);
	store_put_end(store);
}

void homes_on_launcher(void *ctx, void *msg, struct link_msg *link)
{
	struct sessions *ss = ctx;
	const struct launcher_trimmed *m = msg;
	struct home_waiter *w, *next;
	struct err err = {0};

	if (m->home == NULL)
		return;
	if (m->problem == NULL)
		save_size(ss, m);
	else
		log_warn("a kept home is not trimmed", "home", m->home, "error", m->problem);
	if (m->problem != NULL)
		err_set(&err, E_UNAVAILABLE, m->home, "cache '%s': %s", m->home, m->problem);
	for (w = STAILQ_FIRST(&ss->home_waiters); m->purge && w != NULL; w = next) {
		next = STAILQ_NEXT(w, next);
		if (strcmp(w->home, m->home) == 0)
			answer(ss, w, m->problem != NULL ? &err : NULL);
	}
}

void home_purge(struct sessions *ss, const struct caller *who, const char *id, home_done_fn *done,
		void *arg)
{
	struct db_row r = row_read(ss->deps.store, SELECT "WHERE id=?");
	struct home_row h = {0};
	const struct session *user;
	struct home_waiter *w;
	struct err err = {0};
	int rc;

	row_bind_text(&r, id);
	rc = row_next(&r, &err);
	if (rc > 0) {
		h = read_home(&r);
		sqlite3_reset(r.stmt);
	}
	if (rc >= 0 && (rc == 0 || !session_visible(who, h.agent_id)))
		rc = err_set(&err, E_NOT_FOUND, id, "no cache '%.64s'", id);
	user = rc > 0 ? user_of(ss, id, h.agent_id) : NULL;
	home_row_done(&h);
	if (user != NULL)
		rc = err_set(&err, E_CONFLICT, id,
			     "cache '%s' is in use by session '%s'; end the session first", id,
			     user->id);
	if (rc > 0)
		rc = ask_launcher(ss, id, true, &err);
	if (rc < 0) {
		done(&err, arg);
		return;
	}
	w = mem_new(struct home_waiter);
	*w = (struct home_waiter){.home = mem_strdup(id), .done = done, .arg = arg};
	STAILQ_INSERT_TAIL(&ss->home_waiters, w, next);
}

/* ---- list ---- */

int home_list(struct sessions *ss, const struct caller *who, struct jw *w, struct err *err)
{
	struct db_row r = row_read(ss->deps.store, SELECT "ORDER BY used_us");
	int rc;

	jw_obj(w);
	jw_karr(w, "caches");
	while ((rc = row_next(&r, err)) > 0) {
		struct home_row h = read_home(&r);

		if (session_visible(who, h.agent_id)) {
			jw_obj(w);
			jw_kstr(w, "id", h.id);
			jw_kstr(w, "agent_id", h.agent_id);
			jw_kstr(w, "workspace", h.workspace);
			jw_kstr(w, "policy", h.policy_name);
			jw_ktime_us(w, "last_used", h.used_us);
			jw_key(w, "bytes");
			if (h.bytes >= 0)
				jw_int(w, h.bytes);
			else
				jw_null(w);
			jw_kbool(w, "in_use", user_of(ss, h.id, h.agent_id) != NULL);
			jw_obj_end(w);
		}
		home_row_done(&h);
	}
	jw_arr_end(w);
	jw_obj_end(w);
	return rc;
}
