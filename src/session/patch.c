// SPDX-License-Identifier: Apache-2.0
/* PATCH: what a client may change in a living session. Limits only become narrower. A wider one is
 * left out and shown as capped.
 *
 * A session works on one patch at a time, step by step, so that a refusal changes nothing. First
 * the warden tries the working directory, then the launcher changes the limits (or refuses,
 * and the directory is set back), then the warden gets the changes that cannot be refused. */
#include "base/path.h"
#include "session/drain.h"
#include "session/rows.h"
#include "session/session_policies.h"
#include "session/sessions.h"

struct patch {
	STAILQ_ENTRY(patch) next;
	enum patch_step { STEP_DIRECTORY, STEP_LIMITS, STEP_REST, STEP_UNDO } step;
	struct session *s; /* counted */
	struct session_request request;
	uint64_t optional;  /* 1 << WALL_…: of limits that were given as a share */
	struct strv walls;  /* of the limits that the launcher has changed */
	struct strv capped; /* fields that the request wanted wider */
	char *dir;	    /* that the request names, absolute; NULL: none */
	char *old_cwd;	    /* before this patch changed it; else NULL */
	struct err refusal; /* the launcher's */
	char request_id[ID_MAX + 1];
	session_done_fn *done;
	void *arg;
};

static void begin(struct patch *p);

static void patch_free(struct patch *p)
{
	session_request_done(&p->request);
	strv_done(&p->walls);
	strv_done(&p->capped);
	free(p->dir);
	free(p->old_cwd);
	session_unref(p->s);
	free(p);
}

/* Takes the patch out of the queue, and begins with the next one. */
static void leave(struct patch *p)
{
	struct session *s = p->s;

	STAILQ_REMOVE_HEAD(&s->patches, next);
	if (!STAILQ_EMPTY(&s->patches))
		begin(STAILQ_FIRST(&s->patches));
}

static void refuse(struct patch *p, const struct err *why)
{
	leave(p);
	p->done(why, NULL, p->arg);
	patch_free(p);
}

static void send_warden(struct patch *p, enum patch_step step, struct warden_patch *m)
{
	m->command_timeout_ms = (uint64_t)p->s->config.limits.value[LIMIT_command_timeout];
	m->max_file_ops = (uint64_t)p->s->config.limits.value[LIMIT_max_file_ops];
	m->max_disk_mb = (uint64_t)p->s->config.limits.value[LIMIT_max_disk_mb];
	p->step = step;
	p->s->expects = EXPECT_PATCH;
	warden_send(p->s, MSG_warden_patch, m);
}

static void send_rest(struct patch *p)
{
	struct session *s = p->s;

	limits_narrow(&s->config.limits, &p->request.limits);
	limits_add_swap(&s->config.limits, &s->ss->deps.config->limits);
	send_warden(p, STEP_REST,
		    &(struct warden_patch){.set = p->request.environment,
					   .unset = p->request.unset,
					   .walls = p->walls});
}

/* Asks the launcher for the limits that it enforces. */
static void send_limits(struct patch *p)
{
	struct session *s = p->s;
	struct launcher_limit m = {.session_id = s->id, .optional = p->optional};
	enum link_status status;
	struct err err = {0};
	bool any = false;

	limits_drop_wider(&p->request.limits, &s->config.limits, &p->capped);
	for (unsigned i = 0; i < LIMITS; i++)
		any |= limits_has(&p->request.limits, i) && (limit_rows[i].by == LIMIT_BY_CGROUP ||
							     limit_rows[i].by == LIMIT_BY_SCRATCH);
	if (!any) {
		send_rest(p);
		return;
	}
	p->step = STEP_LIMITS;
	msg_put_limits(&p->request.limits, m.old_limits, &m.limits);
	status = peer_send(s->ss->deps.launcher, MSG_launcher_limit, 0, &m, NULL, 0, &err);
	strv_done(&m.limits);
	if (status != LINK_OK)
		refuse(p, &err);
}

static void begin(struct patch *p)
{
	if (p->request.working_dir == NULL) {
		send_limits(p);
		return;
	}
	p->dir = path_clean(p->s->cwd, p->request.working_dir);
	send_warden(p, STEP_DIRECTORY, &(struct warden_patch){.cwd = p->dir});
}

void session_patch(struct session *s, const struct caller *who, const struct session_request *patch,
		   session_done_fn *done, void *arg)
{
	struct err err = {0};
	struct patch *p;
	int r = session_within_reach(s, &err);

	if (r == 0)
		r = limits_enforceable(&patch->limits, session_ring_named(s, "fs"), &err);
	if (r == 0)
		r = session_policy_env(s, &patch->environment, who->request_id, &err);
	if (r < 0) {
		done(&err, NULL, arg);
		return;
	}
	p = mem_new(struct patch);
	p->s = session_ref(s);
	p->request.limits = patch->limits;
	p->request.working_dir = mem_strdup(patch->working_dir);
	strv_copy(&p->request.environment, &patch->environment);
	request_env_strip(&p->request.environment);
	strv_copy(&p->request.unset, &patch->unset);
	memcpy(p->request_id, who->request_id, sizeof(p->request_id));
	p->done = done;
	p->arg = arg;
	limits_resolve(&p->request.limits, s->ss->deps.share_mb);
	p->optional = limits_walls(&p->request.limits) & ~limits_walls(&patch->limits);
	STAILQ_INSERT_TAIL(&s->patches, p, next);
	if (STAILQ_FIRST(&s->patches) == p)
		begin(p);
}

void session_on_limited(void *ctx, void *msg, struct link_msg *m)
{
	struct launcher_limited *limited = msg;
	struct session *s = sessions_find(ctx, limited->session_id);
	struct patch *p = s != NULL ? STAILQ_FIRST(&s->patches) : NULL;

	if (p == NULL || p->step != STEP_LIMITS)
		return;
	if (limited->code == NULL) {
		session_take_walls(s, &limited->walls);
		p->walls = limited->walls;
		limited->walls = (struct strv){0};
		send_rest(p);
		return;
	}
	err_set(&p->refusal, err_code_by_name(limited->code), limited->subject, "%s",
		limited->message != NULL ? limited->message : "the launcher refused it");
	if (p->old_cwd != NULL && session_is_linked(s))
		send_warden(p, STEP_UNDO, &(struct warden_patch){.cwd = p->old_cwd});
	else
		refuse(p, &p->refusal);
}

/* ---- the warden's answers ---- */

static void committed(void *arg)
{
	struct patch *p = arg;

	if (!p->s->ss->freeing)
		p->done(NULL, p->s, p->arg);
	patch_free(p);
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

static void record(struct patch *p)
{
	struct session *s = p->s;
	cleanup_buf struct buf changes = {0};

	for (size_t i = 0; i < p->capped.n; i++)
		strv_add_new(&s->capped, p->capped.v[i]);
	session_is_active(s);
	memcpy(s->request_id, p->request_id, sizeof(s->request_id));
	format_changes(p, &changes);
	session_event(s, EVENT_session_updated, changes.data);
	s->request_id[0] = '\0';
	session_take_walls(s, &(struct strv){0});
	rows_session_write(s);
	store_after(s->ss->deps.store, committed, p);
	leave(p);
}

void session_patched(struct session *s, const char *old_cwd)
{
	struct patch *p = STAILQ_FIRST(&s->patches);
	struct err err = {0};

	if (p->step == STEP_REST) {
		record(p);
	} else if (p->step == STEP_UNDO) {
		refuse(p, &p->refusal);
	} else if (!session_same_dir(s, s->cwd, p->dir) && strcmp(s->cwd, old_cwd) == 0) {
		/* A warden that cannot go there stays where it was. */
		err_detail(&err, "working_dir", "not a directory in the session: '%.100s'",
			   p->request.working_dir);
		err_from_details(&err, s->id);
		refuse(p, &err);
	} else {
		p->old_cwd = mem_strdup(old_cwd);
		send_limits(p);
	}
}

void session_patches_fail(struct session *s)
{
	struct patch *p;
	struct err err = {0};

	err_set(&err, E_SESSION_STOPPED, s->id, "session '%s' ended meanwhile", s->id);
	while ((p = STAILQ_FIRST(&s->patches)) != NULL) {
		STAILQ_REMOVE_HEAD(&s->patches, next);
		if (!s->ss->freeing)
			p->done(&err, NULL, p->arg);
		patch_free(p);
	}
}
