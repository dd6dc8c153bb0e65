// SPDX-License-Identifier: Apache-2.0
/* PATCH: what a client may change in a living session. Limits only become narrower; what would be
 * wider stays as it is and is shown as capped.
 *
 * Step by step, so that a refusal changes nothing: the working directory is tried by the warden,
 * the limits are changed by the launcher (which puts them back if one fails, and then the directory
 * is set back), and then comes what cannot be refused. */
#include "session/patch.h"
#include "session/rows.h"
#include "session/session_policies.h"
#include "session/sessions.h"
#include "session/warden_link.h"

/* A PATCH under way. The working directory is tried first, alone, so that a bad one changes
 * nothing. */
struct patch {
	STAILQ_ENTRY(patch) next; /* while the launcher is asked */
	struct session_request request;
	uint64_t optional;   /* 1 << WALL_…: of limits that were given as a share */
	struct strv walls;   /* of the limits that the launcher has changed */
	struct strv capped;  /* fields that the request wanted wider */
	char *old_cwd;	     /* before this patch changed it; else NULL */
	struct err *refusal; /* the launcher's */
	char request_id[ID_MAX + 1];
	session_done_fn *done;
	void *arg;
};

static void patch_free(struct patch *p)
{
	session_request_done(&p->request);
	strv_done(&p->walls);
	strv_done(&p->capped);
	free(p->old_cwd);
	free(p->refusal);
	free(p);
}

static struct patch *patch_new(const struct session_request *request, const struct caller *who,
			       session_done_fn *done, void *arg)
{
	struct patch *p = mem_new(struct patch);

	p->request.limits = request->limits;
	p->request.working_dir = mem_strdup(request->working_dir);
	p->request.has_environment = request->has_environment;
	strv_copy(&p->request.environment, &request->environment);
	request_env_strip(&p->request.environment);
	strv_copy(&p->request.unset, &request->unset);
	memcpy(p->request_id, who->request_id, sizeof(p->request_id));
	p->done = done;
	p->arg = arg;
	return p;
}

/* Removes "." and ".." by their letters; base stands before a relative path. */
static char *clean(const char *base, const char *path)
{
	struct buf out = {0};
	cleanup_free char *whole =
		path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", base, path);
	char *save = NULL;

	for (char *part = strtok_r(whole, "/", &save); part != NULL;
	     part = strtok_r(NULL, "/", &save)) {
		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") != 0) {
			buf_addf(&out, "/%s", part);
			continue;
		}
		while (out.len > 0 && out.data[--out.len] != '/')
			;
		if (out.data != NULL)
			out.data[out.len] = '\0';
	}
	if (out.len == 0)
		buf_adds(&out, "/");
	return buf_take(&out);
}

static void send_rest(struct session *s, struct patch *p)
{
	struct warden_patch m = {.set = p->request.environment,
				 .unset = p->request.unset,
				 .command_timeout_ms =
					 (uint64_t)s->config.limits.value[LIMIT_command_timeout],
				 .walls = p->walls};

	warden_send(s, MSG_warden_patch, &m);
	warden_expect(s, EXPECT_PATCH, p);
}

/* Another PATCH may have come first. */
static void apply_limits(struct session *s, const struct session_request *patch)
{
	limits_narrow(&s->config.limits, &patch->limits);
	limits_add_swap(&s->config.limits, &s->ss->deps.config->limits);
}

static void refuse(struct patch *p, const struct err *why)
{
	p->done(why, NULL, p->arg);
	patch_free(p);
}

/* Asks the launcher for what it holds; true: its answer is to be waited for. */
static bool ask_launcher(struct session *s, struct patch *p, struct err *err)
{
	struct launcher_limit m = {.session_id = s->id, .optional = p->optional};
	bool any = false;

	for (unsigned i = 0; i < LIMITS; i++)
		any |= limits_has(&p->request.limits, i) && (limit_rows[i].by == LIMIT_BY_CGROUP ||
							     limit_rows[i].by == LIMIT_BY_SCRATCH);
	msg_put_limits(&p->request.limits, m.old_limits, &m.limits);
	any = any &&
	      peer_send(s->ss->deps.launcher, MSG_launcher_limit, 0, &m, NULL, 0, err) == LINK_OK;
	strv_done(&m.limits);
	return any;
}

/* The first of those that wait, until one has to be answered by the launcher: what is wider than
 * the one before is known only then. */
static void send_next(struct session *s)
{
	struct patch *p;

	while ((p = STAILQ_FIRST(&s->limiting)) != NULL) {
		struct err err = {0};

		limits_drop_wider(&p->request.limits, &s->config.limits, &p->capped);
		if (ask_launcher(s, p, &err))
			return;
		STAILQ_REMOVE_HEAD(&s->limiting, next);
		if (err.code != E_OK) {
			refuse(p, &err);
			continue;
		}
		apply_limits(s, &p->request);
		send_rest(s, p);
	}
}

static void send_limits(struct session *s, struct patch *p)
{
	const bool alone = STAILQ_EMPTY(&s->limiting);

	STAILQ_INSERT_TAIL(&s->limiting, p, next);
	if (alone)
		send_next(s);
}

static void send_first(struct session *s, struct patch *p)
{
	struct warden_patch m = {.command_timeout_ms =
					 (uint64_t)s->config.limits.value[LIMIT_command_timeout]};
	cleanup_free char *dir = NULL;

	if (p->request.working_dir == NULL) {
		send_limits(s, p);
		return;
	}
	dir = clean(s->cwd, p->request.working_dir);
	m.cwd = dir;
	warden_send(s, MSG_warden_patch, &m);
	warden_expect(s, EXPECT_CWD, p);
}

void session_patch(struct session *s, const struct caller *who, const struct session_request *patch,
		   session_done_fn *done, void *arg)
{
	struct err err = {0};
	struct patch *p;
	int r;

	if (session_ended(s) || s->state == SESSION_STOPPING)
		r = err_set(&err, E_SESSION_STOPPED, s->id, "session '%s' has ended", s->id);
	else if (s->phase != SESSION_SETTLED)
		r = err_set(&err, E_UNAVAILABLE, s->id, "session '%s' is not within reach now",
			    s->id);
	else if (limits_enforceable(&patch->limits, &err) < 0)
		r = -E_ENFORCEMENT;
	else
		r = session_policy_env(s, &patch->environment, who->request_id, &err);
	if (r < 0) {
		done(&err, NULL, arg);
		return;
	}
	p = patch_new(patch, who, done, arg);
	limits_resolve(&p->request.limits, s->ss->deps.share_mb);
	p->optional = limits_walls(&p->request.limits) & ~limits_walls(&patch->limits);
	send_first(s, p);
}

/* ---- the warden's answers ---- */

/* A warden that cannot go there stays where it was. */
static bool went(const struct session *s, const char *old_cwd, const char *asked)
{
	cleanup_free char *wanted = clean(old_cwd, asked);

	return strcmp(s->cwd, wanted) == 0 || strcmp(s->cwd, old_cwd) != 0;
}

/* ---- the launcher's answer ---- */

/* The directory was changed already: it is set back, and then the refusal is told. */
static void refuse_limits(struct session *s, struct patch *p, const struct launcher_limited *m)
{
	struct warden_patch back = {
		.cwd = p->old_cwd,
		.command_timeout_ms = (uint64_t)s->config.limits.value[LIMIT_command_timeout]};

	p->refusal = mem_new(struct err);
	err_set(p->refusal, err_code_by_name(m->code), m->subject, "%s",
		m->message != NULL ? m->message : "the launcher refused it");
	if (p->old_cwd == NULL || !session_is_linked(s)) {
		refuse(p, p->refusal);
		return;
	}
	warden_send(s, MSG_warden_patch, &back);
	warden_expect(s, EXPECT_UNDO, p);
}

void session_on_limited(struct session *s, struct launcher_limited *m)
{
	struct patch *p = STAILQ_FIRST(&s->limiting);

	if (p == NULL)
		return;
	STAILQ_REMOVE_HEAD(&s->limiting, next);
	session_ref(s);
	if (m->code != NULL) {
		refuse_limits(s, p, m);
	} else {
		session_take_walls(s, &m->walls);
		p->walls = m->walls;
		m->walls = (struct strv){0};
		apply_limits(s, &p->request);
		send_rest(s, p);
	}
	send_next(s);
	session_unref(s);
}

/* ---- the warden's last word ---- */

struct patched {
	struct session *s; /* counted */
	struct patch *p;
};

static void committed(void *arg)
{
	struct patched *done = arg;
	struct session *s = done->s;
	struct patch *p = done->p;

	if (!s->ss->freeing)
		p->done(NULL, s, p->arg);
	patch_free(p);
	free(done);
	session_unref(s);
}

/* "working_dir, environment.COLOUR, timeout": what was asked for and not capped. */
static void format_changes(const struct patch *p, struct buf *out)
{
	const struct session_request *w = &p->request;

	if (w->working_dir != NULL)
		buf_adds(out, "working_dir");
	for (size_t i = 0; i < w->environment.n; i++)
		buf_addf(out, "%senvironment.%.*s", out->len > 0 ? ", " : "",
			 (int)strcspn(w->environment.v[i], "="), w->environment.v[i]);
	for (size_t i = 0; i < w->unset.n; i++)
		buf_addf(out, "%senvironment.%s", out->len > 0 ? ", " : "", w->unset.v[i]);
	for (unsigned i = 0; i < LIMITS; i++)
		if (limits_has(&w->limits, i))
			buf_addf(out, "%s%s", out->len > 0 ? ", " : "", limit_rows[i].field);
}

static void record(struct session *s, struct patch *p)
{
	struct patched *done = mem_new(struct patched);
	cleanup_buf struct buf changes = {0};

	for (size_t i = 0; i < p->capped.n; i++)
		strv_add_new(&s->capped, p->capped.v[i]);
	*done = (struct patched){session_ref(s), p};
	session_is_active(s);
	memcpy(s->request_id, p->request_id, sizeof(s->request_id));
	format_changes(p, &changes);
	session_event(s, EVENT_session_updated, changes.data);
	s->request_id[0] = '\0';
	session_take_walls(s, &(struct strv){0});
	rows_session_write(s);
	store_after(s->ss->deps.store, committed, done);
}

void session_patched(struct session *s, struct expect *x, const char *old_cwd)
{
	struct patch *p = take(x->patch);
	struct err err = {0};

	if (x->kind == EXPECT_PATCH) {
		record(s, p);
	} else if (x->kind == EXPECT_UNDO) {
		refuse(p, p->refusal);
	} else if (!went(s, old_cwd, p->request.working_dir)) {
		err_detail(&err, "working_dir", "not a directory in the session: '%.100s'",
			   p->request.working_dir);
		err_from_details(&err, s->id);
		refuse(p, &err);
	} else {
		p->old_cwd = mem_strdup(old_cwd);
		send_limits(s, p);
	}
}

void session_patches_fail(struct session *s)
{
	struct expect *x;
	struct patch *p;
	struct err err = {0};

	err_set(&err, E_SESSION_STOPPED, s->id, "session '%s' ended meanwhile", s->id);
	while ((p = STAILQ_FIRST(&s->limiting)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->limiting, next);
		if (!s->ss->freeing)
			p->done(&err, NULL, p->arg);
		patch_free(p);
	}
	while ((x = STAILQ_FIRST(&s->expects)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->expects, next);
		if (x->patch != NULL && !s->ss->freeing)
			x->patch->done(&err, NULL, x->patch->arg);
		if (x->patch != NULL)
			patch_free(x->patch);
		free(x);
	}
}
