// SPDX-License-Identifier: Apache-2.0
/* Policies by name: compiled from root-owned files when a session first asks, kept as sealed
 * snapshots that wardens map. A reload compiles what is in use anew; a file that is broken by then
 * leaves the old snapshot in place. Sessions keep the one that they began with. The API child is
 * told of everything that was read. */
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "launcher/launcher_state.h"
#include "sandbox/landlock.h"
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A message has room for so much. */
#define TOLD_MAX 256
#define DESCRIPTION_TOLD 200
#define FAILED_MAX 100

struct snapshot {
	SLIST_ENTRY(snapshot) next;
	struct policy_ref ref; /* its descriptor is owned */
	char *name, *description;
};

/* What a list tells of a policy that no session has used. */
struct unused {
	SLIST_ENTRY(unused) next;
	uint64_t stamp; /* of its file and of all sets */
	char *name, *version, *description;
};

static struct policy_options options(const struct launcher *l)
{
	return (struct policy_options){
		.shadow = strcmp(l->settings.config.approvals_mode, "shadow") == 0};
}

/* The snapshot's own facts, and the bytes behind a descriptor that nobody can write to. */
static int seal(const struct buf *bytes, struct snapshot *s, struct err *err)
{
	struct policy_ref *ref = &s->ref;
	struct policy *p;
	int r = policy_open(bytes->data, bytes->len, &p, err);

	if (r < 0)
		return r;
	ref->fd = fdio_sealed("agentsh-policy", bytes->data, bytes->len);
	if (ref->fd == -1) {
		policy_close(p);
		return err_errno(err, E_UNAVAILABLE, NULL, "memfd_create");
	}
	snprintf(ref->version, sizeof(ref->version), "%s", policy_version(p));
	ref->file_rules = policy_restricts(p, OP_FILE);
	ref->limits = *policy_limits(p);
	free(s->description);
	s->description = mem_strdup(policy_description(p));
	policy_close(p);
	return 0;
}

static int compile_with(const struct launcher *l, const char *name, const struct policy_options *o,
			struct snapshot *s, struct err *err)
{
	cleanup_buf struct buf bytes = {0}, report = {0};
	struct policy_dirs dirs;
	int r;

	policy_dirs_init(&dirs, l->settings.config.policy_dir);
	r = policy_load(&dirs, name, o, &report, &bytes, err);
	policy_dirs_done(&dirs);
	if (report.len > 0)
		log_warn("policy", "name", name, "report", report.data);
	return r < 0 ? r : seal(&bytes, s, err);
}

static int compile(const struct launcher *l, const char *name, struct snapshot *s, struct err *err)
{
	const struct policy_options o = options(l);

	return compile_with(l, name, &o, s, err);
}

int policies_place(const struct launcher *l, const char *workspace, const char *home,
		   struct policy_ref *ref, struct err *err)
{
	struct policy_options o = options(l);
	struct snapshot s = {.ref = {.name = ref->name, .fd = -1}};
	int r;

	o.workspace = workspace;
	o.home = home;
	r = compile_with(l, ref->name, &o, &s, err);
	free(s.description);
	if (r == 0)
		*ref = s.ref;
	return r;
}

/* ---- told ---- */

static const struct snapshot *find(const struct launcher *l, const char *name)
{
	const struct snapshot *s;

	SLIST_FOREACH (s, &l->policies, next)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

/* Changes when a file is written or replaced. */
static uint64_t stamp_of(const struct policy_dirs *dirs, bool set, const char *name, uint64_t seed)
{
	cleanup_free char *file = policy_find_file(dirs, set, name);
	struct stat st = {0};
	const uint64_t prime = UINT64_C(1099511628211);

	if (file == NULL || stat(file, &st) < 0)
		return seed * prime;
	seed = (seed ^ (uint64_t)st.st_ino) * prime;
	seed = (seed ^ (uint64_t)st.st_size) * prime;
	seed = (seed ^ (uint64_t)st.st_ctim.tv_sec) * prime;
	return (seed ^ (uint64_t)st.st_ctim.tv_nsec) * prime;
}

static void unused_clear(struct unused *u)
{
	free(u->version);
	free(u->description);
	u->version = u->description = NULL;
}

/* A policy that no session has used: read for the list, and again when its file changes. One that
 * cannot be read has neither version nor description. */
static const struct unused *look_at(struct launcher *l, const struct policy_dirs *dirs,
				    const char *name, uint64_t sets)
{
	const uint64_t stamp = stamp_of(dirs, false, name, sets);
	const struct policy_options o = options(l);
	cleanup_buf struct buf bytes = {0};
	struct policy *p = NULL;
	struct unused *u;

	SLIST_FOREACH (u, &l->unused, next)
		if (strcmp(u->name, name) == 0)
			break;
	if (u != NULL && u->stamp == stamp)
		return u;
	if (u == NULL) {
		u = mem_new(struct unused);
		u->name = mem_strdup(name);
		SLIST_INSERT_HEAD(&l->unused, u, next);
	}
	unused_clear(u);
	u->stamp = stamp;
	if (policy_load(dirs, name, &o, NULL, &bytes, NULL) == 0 &&
	    policy_open(bytes.data, bytes.len, &p, NULL) == 0) {
		u->version = mem_strdup(policy_version(p));
		u->description = mem_strdup(policy_description(p));
	}
	policy_close(p);
	return u;
}

static void forget_unused(struct launcher *l)
{
	struct unused *u;

	while ((u = SLIST_FIRST(&l->unused)) != NULL) {
		SLIST_REMOVE_HEAD(&l->unused, next);
		unused_clear(u);
		free(u->name);
		free(u);
	}
}

/* Which there are, by their files; whole: with version and description of those that no session
 * has used. */
static void list(struct launcher *l, bool whole, struct launcher_policies *m)
{
	struct policy_dirs dirs;
	struct strv sets = {0};
	uint64_t stamp = 1;

	policy_dirs_init(&dirs, l->settings.config.policy_dir);
	policy_list(&dirs, false, &m->name);
	policy_list(&dirs, true, &sets);
	for (size_t i = 0; whole && i < sets.n; i++)
		stamp = stamp_of(&dirs, true, sets.v[i], stamp);
	while (m->name.n > TOLD_MAX)
		free(m->name.v[--m->name.n]);
	for (size_t i = 0; i < m->name.n; i++) {
		const struct snapshot *s = find(l, m->name.v[i]);
		const struct unused *u =
			s == NULL && whole ? look_at(l, &dirs, m->name.v[i], stamp) : NULL;
		const char *version = s != NULL ? s->ref.version : u != NULL ? u->version : NULL;
		const char *about = s != NULL ? s->description : u != NULL ? u->description : NULL;
		cleanup_free char *text = mem_strndup(about != NULL ? about : "", DESCRIPTION_TOLD);

		strv_add(&m->version, version != NULL ? version : "");
		strv_add(&m->description, text);
	}
	strv_done(&sets);
	policy_dirs_done(&dirs);
}

static void tell_loaded(struct launcher *l, const char *name)
{
	struct launcher_policies m = {0};

	list(l, false, &m);
	strv_add(&m.loaded, name);
	api_link_post(l, MSG_launcher_policies, 0, &m, NULL, 0);
}

int policies_find(struct launcher *l, const char *name, struct policy_ref *out, struct err *err)
{
	struct snapshot *s;
	int r;

	SLIST_FOREACH (s, &l->policies, next)
		if (strcmp(s->name, name) == 0) {
			*out = s->ref;
			return 0;
		}
	s = mem_new(struct snapshot);
	r = compile(l, name, s, err);
	if (r < 0) {
		free(s);
		return r;
	}
	s->name = mem_strdup(name);
	s->ref.name = s->name;
	SLIST_INSERT_HEAD(&l->policies, s, next);
	*out = s->ref;
	log_info("policy loaded", "name", name, "version", s->ref.version);
	tell_loaded(l, name);
	return 0;
}

static int open_snapshot(int fd, void **bytes, size_t *len, struct policy **out, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_errno(err, E_INTERNAL, NULL, "fstat");
	*len = (size_t)st.st_size;
	*bytes = mmap(NULL, *len, PROT_READ, MAP_SHARED, fd, 0);
	if (*bytes == MAP_FAILED)
		return err_errno(err, E_UNAVAILABLE, NULL, "cannot map a policy");
	r = policy_open(*bytes, *len, out, err);
	if (r < 0)
		munmap(*bytes, *len);
	return r;
}

int policies_cover(const struct policy_ref *ref, const struct launcher_create *ask, struct err *err)
{
	const struct session_request request = {.allowed_domains = ask->domains,
						.allowed_ports = ask->ports,
						.environment = ask->variables};
	struct policy *p;
	void *bytes = NULL;
	size_t len = 0;
	int r;

	if (ask->domains.n + ask->ports.n + ask->variables.n == 0)
		return 0;
	r = open_snapshot(ref->fd, &bytes, &len, &p, err);
	if (r < 0)
		return r;
	r = policy_covers(p, &request, err);
	policy_close(p);
	munmap(bytes, len);
	return r;
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

/* ---- places that are shut as a whole ---- */

/* All of these operations are needed for the right to be of no use to anybody. */
static const struct withheld {
	enum landlock_access access;
	enum op_file op[2];
	size_t n;
} rights[] = {
	{LANDLOCK_READ, {OP_FILE_read}, 1},
	{LANDLOCK_EXEC, {OP_FILE_execute}, 1},
	{LANDLOCK_CHANGE, {OP_FILE_write}, 1},
	{LANDLOCK_TRUNCATE, {OP_FILE_truncate}, 1},
	{LANDLOCK_MAKE, {OP_FILE_create}, 1},
	{LANDLOCK_REMOVE, {OP_FILE_delete}, 1},
	{LANDLOCK_SYMLINK, {OP_FILE_symlink}, 1},
	{LANDLOCK_MOVE, {OP_FILE_rename, OP_FILE_link}, 2},
};

static bool denies(const struct policy *p, const struct withheld *w, const char *place)
{
	for (size_t i = 0; i < w->n; i++)
		if (!policy_denies_tree(p, w->op[i], place))
			return false;
	return true;
}

/* A right to a directory is one to all below it: what lies in another place that keeps it keeps it,
 * too. */
static bool can_be_shut(const struct policy *p, const struct withheld *w, const struct strv *places,
			const char *place)
{
	if (!denies(p, w, place))
		return false;
	for (size_t i = 0; i < places->n; i++)
		if (path_within(place, places->v[i]) && !denies(p, w, places->v[i]))
			return false;
	return true;
}

static void withhold(const struct policy *p, const struct strv *places, struct strv *out)
{
	for (size_t i = 0; i < places->n; i++) {
		const char *place = places->v[i];
		unsigned access = 0;

		for (size_t k = 0; k < ARRAY_LEN(rights); k++)
			if (can_be_shut(p, &rights[k], places, place))
				access |= rights[k].access;
		/* devices are no files of anybody's, and all of them may be read */
		if (access != 0 && !path_within(place, "/dev")) {
			cleanup_free char *text = mem_printf("%u %s", access, place);

			strv_add(out, text);
		}
	}
}

static void add_places(struct strv *to, const struct strv *from)
{
	for (size_t i = 0; i < from->n; i++) {
		bool known = false;

		for (size_t k = 0; k < to->n; k++)
			known |= strcmp(to->v[k], from->v[i]) == 0;
		if (!known)
			strv_add(to, from->v[i]);
	}
}

/* Where the session may write because it is its own. */
static void add_own_places(const struct sandbox_plan *plan, struct strv *to)
{
	static const char *const own[] = {SANDBOX_BARE_HOME, SANDBOX_BARE_TMP};

	for (const char *const *at = sandbox_places; !plan->bare && *at != NULL; at++)
		strv_add(to, *at);
	if (plan->bare)
		strv_add(to, plan->workspace);
	for (size_t i = 0; plan->bare && i < ARRAY_LEN(own); i++) {
		cleanup_free char *path = mem_printf("%s/%s", plan->own_dir, own[i]);

		strv_add(to, path);
	}
}

int policies_shut(const struct policy_ref *ref, struct sandbox_plan *plan, struct err *err)
{
	struct strv places = {0};
	struct policy *p;
	void *bytes = NULL;
	size_t len = 0;
	int r;

	if (!ref->file_rules)
		return 0;
	r = open_snapshot(ref->fd, &bytes, &len, &p, err);
	if (r < 0)
		return r;
	add_own_places(plan, &places);
	add_places(&places, &plan->passthrough_paths);
	add_places(&places, &plan->monitored_paths);
	add_places(&places, &plan->read_only_paths);
	withhold(p, &places, &plan->withheld);
	strv_done(&places);
	policy_close(p);
	munmap(bytes, len);
	return 0;
}

/* ---- read again ---- */

static void reload_one(struct launcher *l, struct snapshot *s, struct launcher_policies *m)
{
	struct snapshot fresh = {.ref = {.name = s->name, .fd = -1}};
	struct err err = {0};

	if (compile(l, s->name, &fresh, &err) < 0) {
		log_error("a policy is broken; the old one stays", "name", s->name, "error",
			  err.message);
		if (m->failed.n < FAILED_MAX) {
			strv_add(&m->failed, s->name);
			strv_add(&m->why, err.message);
		}
	} else if (strcmp(fresh.ref.version, s->ref.version) == 0) {
		close(fresh.ref.fd);
	} else {
		log_info("policy loaded", "name", s->name, "version", fresh.ref.version);
		close(s->ref.fd);
		s->ref = fresh.ref;
		free(s->description);
		s->description = take(fresh.description);
		strv_add(&m->loaded, s->name);
	}
	free(fresh.description);
}

void policies_reload(struct launcher *l, uint32_t ticket)
{
	struct launcher_policies m = {.ticket = ticket};
	struct snapshot *s;

	forget_unused(l); /* what they are compiled with may be another */
	SLIST_FOREACH (s, &l->policies, next)
		reload_one(l, s, &m);
	if (ticket == 0 && m.loaded.n + m.failed.n == 0)
		return; /* nobody asked, and nothing is new */
	list(l, ticket != 0, &m);
	api_link_post(l, MSG_launcher_policies, 0, &m, NULL, 0);
}

void policies_ask(void *launcher, void *msg, struct link_msg *m)
{
	const struct launcher_ask *ask = msg;
	struct launcher_policies answer = {.ticket = ask->ticket};
	struct launcher *l = launcher;

	if (ask->reload != 0) {
		policies_reload(l, ask->ticket);
		return;
	}
	list(l, true, &answer);
	api_link_post(l, MSG_launcher_policies, 0, &answer, NULL, 0);
}

void policies_free(struct launcher *l)
{
	struct snapshot *s;

	forget_unused(l);
	while ((s = SLIST_FIRST(&l->policies)) != NULL) {
		SLIST_REMOVE_HEAD(&l->policies, next);
		close(s->ref.fd);
		free(s->name);
		free(s->description);
		free(s);
	}
}
