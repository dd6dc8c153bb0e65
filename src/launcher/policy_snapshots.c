// SPDX-License-Identifier: Apache-2.0
/* Policies by name. agentsh-check compiles a policy from root-owned files when a session first asks
 * for it. The launcher keeps it as a sealed snapshot that wardens map. A reload compiles the
 * policies in use again; if a file is broken by then, the old snapshot stays. A session keeps the
 * snapshot that it began with. Every policy that was read is announced to the API child. */
#include "launcher/policy_snapshots.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include "policy/policy.h"

/* A message has room for so much. */
#define TOLD_MAX 256
#define TICKETS_MAX 64 /* the queue to the API child has room for so many long lists */
#define FAILED_MAX 100

struct snapshot {
	SLIST_ENTRY(snapshot) next;
	struct checked is; /* its name is of this server's own */
};

struct checked *policies_find(const struct launcher *l, const char *name)
{
	struct snapshot *s;

	SLIST_FOREACH (s, &l->policies, next)
		if (strcmp(s->is.is.name, name) == 0)
			return &s->is;
	return NULL;
}

/* ---- questions for agentsh-check ---- */

static void add_file(const struct strv *dirs, bool set, const char *name, struct check_ask *ask,
		     struct buf *length, struct buf *text)
{
	cleanup_free char *path = policy_find_file(dirs, set, name);
	cleanup_free char *unknown = path == NULL ? policy_unknown_name(dirs, name) : NULL;
	cleanup_free char *error = NULL;
	const size_t before = text->len;
	struct err err = {0};
	uint32_t len;

	if (path == NULL)
		err_set(&err, E_BAD_REQUEST, name, "%s", unknown);
	else
		policy_read(path, text, &err);
	if (err.code != E_OK) {
		text->len = before;
		error = mem_printf("%s %s", err_row(err.code)->name, err.message);
	}
	len = (uint32_t)(text->len - before);
	strv_add(&ask->name, name);
	strv_add(&ask->file, path != NULL ? path : name);
	strv_add(&ask->error, error != NULL ? error : "");
	buf_add(length, &len, sizeof(len));
}

void policies_question(const struct launcher *l, const struct strv *names, bool texts,
		       struct check_ask *ask)
{
	const struct config *c = &l->settings.config;
	cleanup_buf struct buf length = {0}, text = {0};
	struct strv dirs;
	struct strv sets = {0};

	policy_dirs_init(&dirs, c->policy_dir);
	if (texts)
		policy_list(&dirs, true, &sets);
	for (size_t i = 0; i < names->n; i++)
		add_file(&dirs, false, names->v[i], ask, &length, &text);
	for (size_t i = 0; i < sets.n; i++)
		add_file(&dirs, true, sets.v[i], ask, &length, &text);
	strv_done(&sets);
	strv_done(&dirs);
	ask->policies = (uint32_t)names->n;
	ask->shadow = strcmp(c->approvals_mode, "shadow") == 0;
	bytes_set(&ask->length, length.data, length.len);
	bytes_set(&ask->text, text.data, text.len);
	/* A session without namespaces has other places; its warden looks at them. */
	if (ask->workspace == NULL && !config_fuse(c) &&
	    !wall_listed(&c->allow_unenforced, WALL_file_rules))
		ask->mode = mem_strdup(c->monitoring_mode);
	for (const char *const *at = sandbox_places; ask->workspace == NULL && *at != NULL; at++)
		strv_add(&ask->places, *at);
	config_listed_paths(c, &ask->places, &ask->closed);
}

/* ---- announcements to the API child ---- */

/* The policies that have a file. */
static struct strv list_files(const struct launcher *l)
{
	struct strv dirs;
	struct strv names = {0};

	policy_dirs_init(&dirs, l->settings.config.policy_dir);
	policy_list(&dirs, false, &names);
	strv_done(&dirs);
	while (names.n > TOLD_MAX)
		free(names.v[--names.n]);
	return names;
}

/* Which policies there are, with what is known of those in use and of the n in got. */
static void announce(struct launcher *l, struct launcher_policies *m, const struct checked *got,
		     size_t n)
{
	m->name = list_files(l);
	for (size_t i = 0; i < m->name.n; i++) {
		const struct checked *c = policies_find(l, m->name.v[i]);

		for (size_t k = 0; c == NULL && k < n; k++)
			if (got[k].is.name != NULL && strcmp(got[k].is.name, m->name.v[i]) == 0)
				c = &got[k];
		strv_add(&m->version, c != NULL && c->is.version != NULL ? c->is.version : "");
		strv_add(&m->description,
			 c != NULL && c->is.description != NULL ? c->is.description : "");
	}
	api_link_post(l, MSG_launcher_policies, 0, m, NULL, 0);
}

/* Notices alone, such as a set that does not exist yet, do not need a warning. */
static void log_report(const struct checked *c)
{
	if (c->is.report == NULL)
		return;
	if (strstr(c->is.report, ": warning: ") != NULL)
		log_warn("policy", "name", c->is.name, "report", c->is.report);
	else
		log_info("policy", "name", c->is.name, "report", c->is.report);
}

struct checked *policies_add(struct launcher *l, struct checked *c)
{
	struct launcher_policies m = {0};
	struct snapshot *made = mem_new(struct snapshot);
	struct checked *s = &made->is;
	char **const once[] = {&s->is.code, &s->is.subject, &s->is.message, &s->is.denial};

	*s = *c;
	*c = (struct checked){.fd = -1};
	SLIST_INSERT_HEAD(&l->policies, made, next);
	for (size_t i = 0; i < ARRAY_LEN(once); i++) /* they are about one request */
		free(take(*once[i]));
	log_report(s);
	log_info("policy loaded", "name", s->is.name, "version", s->is.version);
	strv_add(&m.loaded, s->is.name);
	announce(l, &m, NULL, 0);
	return s;
}

/* ---- chosen ---- */

int policies_selectable(const struct config *c, const char *name, struct err *err)
{
	if (c->policy_selectable.n == 0 || strcmp(name, c->policy_default) == 0 ||
	    strv_has(&c->policy_selectable, name))
		return 0;
	return err_set(err, E_POLICY_DENIED, name,
		       "policy: '%s' is not one of those that a session may choose "
		       "(policies.selectable)",
		       name);
}

int policies_check(const struct config *c, struct err *err)
{
	cleanup_free char *unknown = policy_unknown(c->policy_dir, &c->policy_selectable);
	cleanup_free char *problem = NULL;

	if (unknown == NULL)
		return 0;
	problem = mem_printf("policies.selectable: %s", unknown);
	return config_wrong(c, problem, err);
}

/* ---- read again ---- */

/* Reads the policies in use again (reload), and the others for lists (tickets). */
struct reading {
	struct check_job job;
	uint32_t ticket[TICKETS_MAX];
	size_t tickets;
	bool reload;
};

static bool reading_prepare(struct launcher *l, struct check_job *job, struct check_ask *ask,
			    int *snapshot)
{
	const struct reading *r = (const struct reading *)job;
	struct strv files = list_files(l), names = {0};
	const struct snapshot *s;
	bool any;

	SLIST_FOREACH (s, &l->policies, next)
		if (r->reload)
			strv_add(&names, s->is.is.name);
	for (size_t i = 0; r->tickets > 0 && i < files.n; i++)
		if (policies_find(l, files.v[i]) == NULL)
			strv_add(&names, files.v[i]);
	any = names.n > 0;
	if (any)
		policies_question(l, &names, true, ask);
	strv_done(&files);
	strv_done(&names);
	return any;
}

/* A policy in use was read again. */
static void replace(struct checked *old, struct checked *fresh, struct launcher_policies *m)
{
	log_report(fresh);
	if (fresh->fd == -1) {
		log_error("a policy is broken; the old one stays", "name", old->is.name, "error",
			  fresh->is.message);
		old->stale = true;
		if (m->failed.n < FAILED_MAX) {
			strv_add(&m->failed, old->is.name);
			strv_add(&m->why, fresh->is.message);
		}
		return;
	}
	if (strcmp(fresh->is.version, old->is.version) != 0) {
		log_info("policy loaded", "name", fresh->is.name, "version", fresh->is.version);
		strv_add(&m->loaded, fresh->is.name);
	}
	checked_done(old);
	*old = *fresh;
	*fresh = (struct checked){.fd = -1};
}

static void reading_done(struct launcher *l, struct check_job *job, struct checked *got, size_t n)
{
	struct reading *r = (struct reading *)job;
	struct launcher_policies m = {0};

	for (size_t i = 0; i < n; i++)
		if (policies_find(l, got[i].is.name) != NULL)
			replace(policies_find(l, got[i].is.name), &got[i], &m);
	/* Each announcement empties m. */
	for (size_t i = 0; i < r->tickets; i++) {
		m.ticket = r->ticket[i];
		announce(l, &m, got, n);
	}
	if (m.loaded.n + m.failed.n > 0) /* nothing was asked, but something is new */
		announce(l, &m, got, n);
	free(r);
}

/* A reading that has not begun answers later questions too: clients that ask for many lists hardly
 * delay a new session. */
static struct reading *waiting_reading(struct checks *cs)
{
	struct check_job *job;

	STAILQ_FOREACH(job, &cs->jobs, next)
	if (job->prepare == reading_prepare &&
	    (cs->got == NULL || job != STAILQ_FIRST(&cs->jobs)) &&
	    ((struct reading *)job)->tickets < TICKETS_MAX)
		return (struct reading *)job;
	return NULL;
}

void policies_ask(void *launcher, void *msg, struct link_msg *m)
{
	struct launcher *l = launcher;
	const struct launcher_ask *ask = msg;
	struct reading *waiting = waiting_reading(&l->checks);
	struct reading *r = waiting != NULL ? waiting : mem_new(struct reading);

	r->job.prepare = reading_prepare;
	r->job.done = reading_done;
	r->reload |= ask->reload != 0;
	if (ask->ticket != 0)
		r->ticket[r->tickets++] = ask->ticket;
	if (waiting == NULL)
		check_start(l, &r->job);
}

void policies_reload(struct launcher *l)
{
	policies_ask(l, &(struct launcher_ask){.reload = 1}, NULL);
}

void policies_free(struct launcher *l)
{
	struct snapshot *s;

	while ((s = SLIST_FIRST(&l->policies)) != NULL) {
		SLIST_REMOVE_HEAD(&l->policies, next);
		checked_done(&s->is);
		free(s);
	}
}
