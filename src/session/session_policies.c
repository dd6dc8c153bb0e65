// SPDX-License-Identifier: Apache-2.0
/* The policies of sessions. The database has each snapshot by its version, so that a session keeps
 * the policy that it began with when files change and the server restarts. The last opened ones
 * stay open; no caller keeps one beyond a call. */
#include "session/session_policies.h"
#include "base/fdio.h"
#include "base/log.h"
#include "policy/policy.h"
#include "session/db_row.h"
#include "session/sessions.h"
#include <sys/stat.h>

#define ALTERNATIVES_LEN 600 /* of an error with 1024 bytes for the denial */
#define SNAPSHOT_MAX ((size_t)64 * 1024 * 1024)

struct pinned {
	struct policy *p;
	void *bytes;
	size_t len;
	bool saved;
};

static void pinned_free(struct pinned *pin)
{
	if (pin == NULL)
		return;
	policy_close(pin->p);
	free(pin->bytes);
	free(pin);
}

/* Takes the bytes. */
static int pin(struct sessions *ss, void *bytes, size_t len, struct pinned **out, struct err *err)
{
	struct pinned **place = &ss->policy[ss->next_policy];
	struct policy *p;
	const int r = policy_open(bytes, len, &p, err);

	if (r < 0) {
		free(bytes);
		return r;
	}
	pinned_free(*place);
	*place = *out = mem_new(struct pinned);
	**out = (struct pinned){.p = p, .bytes = bytes, .len = len};
	ss->next_policy = (ss->next_policy + 1) % OPEN_POLICIES;
	return 0;
}

static struct pinned *load(struct sessions *ss, const char *version)
{
	struct db_row r = row_read(ss->deps.store, "SELECT snapshot FROM policies WHERE version=?");
	struct pinned *found = NULL;
	struct err err = {0};
	int rc;

	row_bind_text(&r, version);
	rc = row_next(&r, &err);
	if (rc > 0) {
		const size_t len = (size_t)sqlite3_column_bytes(r.stmt, 0);

		rc = pin(ss, mem_dup(sqlite3_column_blob(r.stmt, 0), len), len, &found, &err);
		if (rc == 0)
			found->saved = true;
		sqlite3_reset(r.stmt);
	}
	if (rc < 0)
		log_error("a policy cannot be read", "version", version, "error", err.message);
	return found;
}

static struct pinned *find(struct session *s)
{
	struct pinned *const *policy = s->ss->policy;

	if (s->policy_version == NULL)
		return NULL;
	for (size_t i = 0; i < OPEN_POLICIES; i++)
		if (policy[i] != NULL &&
		    strcmp(policy_version(policy[i]->p), s->policy_version) == 0)
			return policy[i];
	return load(s->ss, s->policy_version);
}

const struct policy *session_policy(struct session *s)
{
	const struct pinned *pin = find(s);

	return pin != NULL ? pin->p : NULL;
}

int session_policy_take(struct session *s, int fd, struct err *err)
{
	struct pinned *pinned;
	struct stat st;
	void *bytes;
	int r;

	if (find(s) != NULL)
		return 0;
	if (s->policy_version == NULL || fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 ||
	    (size_t)st.st_size > SNAPSHOT_MAX)
		return err_set(err, E_INTERNAL, s->id, "its policy is missing");
	bytes = mem_alloc((size_t)st.st_size);
	if (fdio_pread_full(fd, bytes, (size_t)st.st_size, 0) != st.st_size) {
		free(bytes);
		return err_errno(err, E_INTERNAL, s->id, "its policy cannot be read");
	}
	r = pin(s->ss, bytes, (size_t)st.st_size, &pinned, err);
	if (r == 0 && strcmp(policy_version(pinned->p), s->policy_version) != 0)
		r = err_set(err, E_INTERNAL, s->id, "its policy is another one");
	return r;
}

void session_policy_save(struct session *s)
{
	struct pinned *pin = find(s);
	struct store *store = s->ss->deps.store;

	if (pin == NULL || pin->saved)
		return;
	pin->saved = true;
	store_put(store, "INSERT OR IGNORE INTO policies(version, name, snapshot) VALUES(?,?,?)");
	store_put_text(store, s->policy_version);
	store_put_text(store, s->policy_name);
	store_put_blob(store, pin->bytes, pin->len);
	store_put_end(store);
}

void policy_violation(struct session *s, const char *request_id, const struct err *why)
{
	static const char deny[] = "deny";
	struct event e = {.type = EVENT_policy_violation,
			  .count = 1,
			  .session_id = s->state != SESSION_CREATING ? s->id : NULL,
			  .agent_id = s->agent_id,
			  .request_id = event_lend(request_id[0] != '\0' ? request_id : NULL),
			  .decision = event_lend(deny),
			  .policy_name = s->policy_name,
			  .policy_decision = event_lend(deny),
			  .policy_effective = event_lend(deny),
			  .policy_version = s->policy_version,
			  .reason = event_lend(why->message)};
	struct denial d;

	denial_unpack(why->denial, &d);
	e.policy_rule = d.rule;
	e.denied_reason = d.reason;
	e.denied_op = d.operation;
	e.denied_target = d.target;
	e.denied_final = d.final;
	e.alternatives = d.alternatives;
	store_event(s->ss->deps.store, &e, NULL, 0);
	denial_done(&d);
}

int session_policy_env(struct session *s, const struct strv *env, const char *request_id,
		       struct err *err)
{
	const struct policy *p;
	int r;

	if (env->n == 0)
		return 0;
	p = session_policy(s);
	if (p == NULL)
		return err_set(err, E_UNAVAILABLE, s->id, "the policy of session '%s' is not known",
			       s->id);
	r = policy_narrow_env(p, env, err);
	if (r < 0)
		policy_violation(s, request_id, err);
	return r;
}

void denial_of_choice(const struct config *c, struct err *err)
{
	struct denial d = {
		.rule = mem_strdup("policies.selectable"),
		.reason = mem_strdup("the configuration does not let a session choose this policy"),
		.operation = mem_strdup("policy"),
		.target = mem_strdup(err->subject)};
	cleanup_buf struct buf text = {0};
	size_t shown = 0;

	buf_addf(&text, "policies %s", c->policy_default);
	for (; shown < c->policy_selectable.n && text.len < ALTERNATIVES_LEN; shown++)
		if (strcmp(c->policy_selectable.v[shown], c->policy_default) != 0)
			buf_addf(&text, ", %s", c->policy_selectable.v[shown]);
	if (shown < c->policy_selectable.n)
		buf_addf(&text, " and %zu more", c->policy_selectable.n - shown);
	strv_add(&d.alternatives, text.data);
	denial_pack(&d, err->denial, sizeof(err->denial));
	denial_done(&d);
}

void policies_close(struct sessions *ss)
{
	for (size_t i = 0; i < OPEN_POLICIES; i++)
		pinned_free(ss->policy[i]);
}

int session_policy_format(struct session *s, struct jw *w, struct err *err)
{
	const struct policy *p = session_policy(s);

	if (p == NULL)
		return err_set(err, E_NOT_FOUND, s->id, "the policy of session '%s' is not known",
			       s->id);
	jw_obj(w);
	jw_kstr(w, "session_id", s->id);
	jw_key(w, "policy");
	policy_format(p, NULL, w);
	jw_key(w, "config");
	session_request_format(&s->config, w);
	jw_kstrv(w, "capped", &s->capped);
	jw_obj_end(w);
	return 0;
}

/* ---- what the launcher has read ---- */

struct policies_waiter {
	STAILQ_ENTRY(policies_waiter) next;
	uint32_t ticket;
	policies_done_fn *done;
	void *arg;
};

void policies_ask(struct sessions *ss, bool reload, policies_done_fn *done, void *arg)
{
	struct policies_waiter *w = mem_new(struct policies_waiter);
	struct launcher_ask m = {.reload = reload};
	struct err err = {0};

	ss->last_ticket = ss->last_ticket == UINT32_MAX ? 1 : ss->last_ticket + 1;
	m.ticket = ss->last_ticket;
	*w = (struct policies_waiter){.ticket = m.ticket, .done = done, .arg = arg};
	STAILQ_INSERT_TAIL(&ss->policy_waiters, w, next);
	if (peer_send(ss->deps.launcher, MSG_launcher_ask, 0, &m, NULL, 0, &err) != LINK_OK) {
		STAILQ_REMOVE(&ss->policy_waiters, w, policies_waiter, next);
		free(w);
		done(&err, NULL, arg);
	}
}

void policies_forget_waiters(struct sessions *ss)
{
	struct policies_waiter *w;
	struct err err = {0};

	err_set(&err, E_UNAVAILABLE, NULL, "the server is stopping");
	while ((w = STAILQ_FIRST(&ss->policy_waiters)) != NULL) {
		STAILQ_REMOVE_HEAD(&ss->policy_waiters, next);
		w->done(&err, NULL, w->arg);
		free(w);
	}
}

static const char *version_of(const struct launcher_policies *m, const char *name)
{
	for (size_t i = 0; i < m->name.n && i < m->version.n; i++)
		if (strcmp(m->name.v[i], name) == 0 && m->version.v[i][0] != '\0')
			return m->version.v[i];
	return NULL;
}

static void policy_event(struct sessions *ss, const struct launcher_policies *m,
			 enum event_type type, const char *name, const char *reason)
{
	struct event e = {.type = type,
			  .count = 1,
			  .policy_name = event_lend(name),
			  .policy_version = event_lend(version_of(m, name)),
			  .reason = event_lend(reason)};

	store_event(ss->deps.store, &e, NULL, 0);
}

void policies_on_launcher(void *ctx, void *msg, struct link_msg *link)
{
	struct sessions *ss = ctx;
	const struct launcher_policies *m = msg;
	struct policies_waiter *w;

	for (size_t i = 0; i < m->loaded.n; i++)
		policy_event(ss, m, EVENT_policy_loaded, m->loaded.v[i], NULL);
	for (size_t i = 0; i < m->failed.n && i < m->why.n; i++)
		policy_event(ss, m, EVENT_policy_reload_failed, m->failed.v[i], m->why.v[i]);
	STAILQ_FOREACH(w, &ss->policy_waiters, next)
	if (w->ticket == m->ticket)
		break;
	if (w == NULL)
		return;
	STAILQ_REMOVE(&ss->policy_waiters, w, policies_waiter, next);
	w->done(NULL, m, w->arg);
	free(w);
}
