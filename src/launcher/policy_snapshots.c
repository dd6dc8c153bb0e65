// SPDX-License-Identifier: Apache-2.0
/* Policies by name. agentsh-check compiles a policy from root-owned files when a session first asks
 * for it. The launcher keeps it as a sealed snapshot that wardens map. A reload compiles the
 * policies in use again; if a file is broken by then, the old snapshot stays. A session keeps the
 * snapshot that it began with. The API child is told of every policy that was read. */
#include "base/log.h"
#include "base/mem.h"
#include "launcher/launcher_state.h"
#include <sys/stat.h>

/* A message has room for so much. */
#define TOLD_MAX 256
#define FAILED_MAX 100

struct snapshot {
	SLIST_ENTRY(snapshot) next;
	struct checked is; /* its name is of this server's own */
};

static struct checked *find(const struct snapshots *list, const char *name)
{
	struct snapshot *s;

	SLIST_FOREACH (s, list, next)
		if (strcmp(s->is.is.name, name) == 0)
			return &s->is;
	return NULL;
}

struct checked *policies_find(const struct launcher *l, const char *name)
{
	return find(&l->policies, name);
}

/* Takes what c has. */
static struct checked *add(struct snapshots *list, struct checked *c)
{
	struct snapshot *s = mem_new(struct snapshot);

	s->is = *c;
	*c = (struct checked){.fd = -1};
	SLIST_INSERT_HEAD(list, s, next);
	return &s->is;
}

static void forget(struct snapshots *list)
{
	struct snapshot *s;

	while ((s = SLIST_FIRST(list)) != NULL) {
		SLIST_REMOVE_HEAD(list, next);
		checked_done(&s->is);
		free(s);
	}
}

/* ---- questions for agentsh-check ---- */

static void add_file(const struct policy_dirs *dirs, bool set, const char *name,
		     struct check_ask *ask, struct buf *length, struct buf *text)
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
	const struct strv *const shown[] = {&c->passthrough_paths, &c->monitored_paths,
					    &c->read_only_paths};
	cleanup_buf struct buf length = {0}, text = {0};
	struct policy_dirs dirs;
	struct strv sets = {0};

	policy_dirs_init(&dirs, c->policy_dir);
	if (texts)
		policy_list(&dirs, true, &sets);
	for (size_t i = 0; i < names->n; i++)
		add_file(&dirs, false, names->v[i], ask, &length, &text);
	for (size_t i = 0; i < sets.n; i++)
		add_file(&dirs, true, sets.v[i], ask, &length, &text);
	strv_done(&sets);
	policy_dirs_done(&dirs);
	ask->policies = (uint32_t)names->n;
	ask->shadow = strcmp(c->approvals_mode, "shadow") == 0;
	bytes_set(&ask->length, length.data, length.len);
	bytes_set(&ask->text, text.data, text.len);
	for (const char *const *at = sandbox_places; ask->workspace == NULL && *at != NULL; at++)
		strv_add(&ask->places, *at);
	for (size_t i = 0; i < ARRAY_LEN(shown); i++)
		for (size_t k = 0; k < shown[i]->n; k++)
			strv_add_new(&ask->places, shown[i]->v[k]);
}

/* ---- told ---- */

/* Changes when a file of a policy or of a set is written or replaced. */
static uint64_t stamp_of(const struct policy_dirs *dirs)
{
	const uint64_t prime = UINT64_C(1099511628211);
	uint64_t stamp = 1;

	for (int set = 0; set < 2; set++) {
		struct strv names = {0};

		policy_list(dirs, set != 0, &names);
		for (size_t i = 0; i < names.n; i++) {
			cleanup_free char *file = policy_find_file(dirs, set != 0, names.v[i]);
			struct stat st = {0};

			if (file != NULL && stat(file, &st) == 0)
				stamp = (stamp ^ (uint64_t)st.st_ino ^
					 (uint64_t)st.st_ctim.tv_nsec << 32) *
					prime;
			stamp = (stamp ^ (uint64_t)st.st_size ^ (uint64_t)st.st_ctim.tv_sec << 24) *
				prime;
		}
		strv_done(&names);
	}
	return stamp;
}

/* Which there are, by their files, with what is known of them. */
static void tell(struct launcher *l, struct launcher_policies *m)
{
	struct policy_dirs dirs;

	policy_dirs_init(&dirs, l->settings.config.policy_dir);
	policy_list(&dirs, false, &m->name);
	policy_dirs_done(&dirs);
	while (m->name.n > TOLD_MAX)
		free(m->name.v[--m->name.n]);
	for (size_t i = 0; i < m->name.n; i++) {
		const struct checked *c = find(&l->policies, m->name.v[i]);

		if (c == NULL && m->ticket != 0)
			c = find(&l->unused, m->name.v[i]);
		strv_add(&m->version, c != NULL && c->is.version != NULL ? c->is.version : "");
		strv_add(&m->description,
			 c != NULL && c->is.description != NULL ? c->is.description : "");
	}
	api_link_post(l, MSG_launcher_policies, 0, m, NULL, 0);
}

static void log_warnings(const struct checked *c)
{
	if (c->is.report != NULL)
		log_warn("policy", "name", c->is.name, "report", c->is.report);
}

struct checked *policies_add(struct launcher *l, struct checked *c)
{
	struct launcher_policies m = {0};
	struct checked *s = add(&l->policies, c);
	char **const once[] = {&s->is.code, &s->is.subject, &s->is.message, &s->is.denial};

	for (size_t i = 0; i < ARRAY_LEN(once); i++) /* they are about one request */
		free(take(*once[i]));
	log_warnings(s);
	log_info("policy loaded", "name", s->is.name, "version", s->is.version);
	strv_add(&m.loaded, s->is.name);
	tell(l, &m);
	return s;
}

/* ---- chosen ---- */

/* As policy/policy_covers.c tells of what is beyond a policy; what does not fit is left out. */
static void format_choice(const struct config *c, const char *name, size_t shown, struct err *err)
{
	static char reason[] = "the configuration does not let a session choose this policy",
		    operation[] = "policy";
	struct denial d = {.rule = "policies.selectable",
			   .reason = reason,
			   .operation = operation,
			   .target = (char *)(uintptr_t)name};
	cleanup_buf struct buf b = {0}, text = {0};

	buf_addf(&text, "policies %s", c->policy_default);
	for (size_t i = 0; i < c->policy_selectable.n && i < shown; i++)
		if (strcmp(c->policy_selectable.v[i], c->policy_default) != 0)
			buf_addf(&text, ", %s", c->policy_selectable.v[i]);
	if (c->policy_selectable.n > shown)
		buf_addf(&text, " and %zu more", c->policy_selectable.n - shown);
	strv_add(&d.alternatives, text.data);
	denial_format(&d, &JW(&b));
	strv_done(&d.alternatives);
	if (b.len < sizeof(err->policy))
		memcpy(err->policy, b.data, b.len + 1);
	else if (shown > 0)
		format_choice(c, name, shown / 2, err);
}

int policies_selectable(const struct config *c, const char *name, struct err *err)
{
	if (c->policy_selectable.n == 0 || strcmp(name, c->policy_default) == 0 ||
	    strv_has(&c->policy_selectable, name))
		return 0;
	format_choice(c, name, c->policy_selectable.n, err);
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

/* Reads what is in use anew (reload), and what is not for a list (ticket). */
struct reading {
	struct check_job job;
	uint32_t ticket;
	bool reload;
	uint64_t stamp; /* of the list; 0: it is as it was */
};

static bool reading_prepare(struct launcher *l, struct check_job *job, struct check_ask *ask,
			    int *snapshot)
{
	struct reading *r = (struct reading *)job;
	struct policy_dirs dirs;
	struct strv list = {0}, names = {0};
	uint64_t stamp;
	bool any;

	policy_dirs_init(&dirs, l->settings.config.policy_dir);
	policy_list(&dirs, false, &list);
	stamp = stamp_of(&dirs);
	policy_dirs_done(&dirs);
	if (r->ticket != 0 && (r->reload || stamp != l->unused_stamp))
		r->stamp = stamp;
	if (r->reload) {
		const struct snapshot *s;

		SLIST_FOREACH (s, &l->policies, next)
			strv_add(&names, s->is.is.name);
	}
	for (size_t i = 0; r->stamp != 0 && i < list.n && i < TOLD_MAX; i++)
		if (find(&l->policies, list.v[i]) == NULL)
			strv_add(&names, list.v[i]);
	any = names.n > 0;
	if (any)
		policies_question(l, &names, true, ask);
	strv_done(&list);
	strv_done(&names);
	return any;
}

/* A policy in use was read again. */
static void replace(struct checked *old, struct checked *fresh, struct launcher_policies *m)
{
	log_warnings(fresh);
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
	const struct reading *r = (const struct reading *)job;
	struct launcher_policies m = {.ticket = r->ticket};

	if (r->reload || r->stamp != 0) {
		forget(&l->unused);
		l->unused_stamp = r->stamp;
	}
	for (size_t i = 0; i < n; i++) {
		struct checked *old = find(&l->policies, got[i].is.name);

		if (old != NULL) {
			replace(old, &got[i], &m);
		} else {
			mem_cleanup_fd(&got[i].fd);
			got[i].fd = -1;
			add(&l->unused, &got[i]);
		}
	}
	free(job);
	if (m.ticket + m.loaded.n + m.failed.n > 0) /* else nobody asked, and nothing is new */
		tell(l, &m);
}

static void reading_drop(struct check_job *job)
{
	free(job);
}

static void read_again(struct launcher *l, uint32_t ticket, bool reload)
{
	struct reading *r = mem_new(struct reading);

	r->job = (struct check_job){
		.prepare = reading_prepare, .done = reading_done, .drop = reading_drop};
	r->ticket = ticket;
	r->reload = reload;
	check_start(l, &r->job);
}

void policies_reload(struct launcher *l)
{
	read_again(l, 0, true);
}

void policies_ask(void *launcher, void *msg, struct link_msg *m)
{
	const struct launcher_ask *ask = msg;

	read_again(launcher, ask->ticket, ask->reload != 0);
}

void policies_free(struct launcher *l)
{
	forget(&l->policies);
	forget(&l->unused);
}
