// SPDX-License-Identifier: Apache-2.0
/* Which file rules are held, and where not.
 *
 * A rule that lets operations go ahead needs nothing that holds it. Any other rule is held at a
 * path if the path is not in the view, or if each of its operations is refused there. So a rule is
 * not held where it is the first one that matches and an operation goes ahead all the same.
 *
 * The patterns are compared with each place of the view by what is left of them below it. What an
 * earlier rule matches, or another place inside the place has, is taken away only if it covers all
 * that is left. So a rule that is held may be said not to be; never the other way round. */
#include "base/mem.h"
#include "base/path.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

#define PLACES_SHOWN 3
#define EVERYTHING UINT32_MAX
#define UNKNOWN UINT64_MAX
#define KNOWN_OF(p) (2 * (size_t)(p)->head->part[PART_PATTERNS].n)

/* A place by the names that rules have for it. */
struct target {
	const struct policy *p;
	const struct file_view *view;
	const struct file_place *place;
	const char *name; /* canonical */
	const char *real; /* of rules that do not permit; may be NULL */
	uint64_t *known;  /* rest_below at this place, two for each pattern; or UNKNOWN */
	char real_room[POLICY_NAME_MAX];
};

static void aim(struct target *t, const struct file_place *place)
{
	t->place = place;
	t->name = place->canonical != NULL ? place->canonical : place->path;
	t->real = policy_real_name(t->p, t->name, t->real_room);
}

/* What is left of pattern i, which is the rule's, below the place. Each rule is compared with all
 * earlier ones at each place: without `known` this is most of a session's start. */
static uint64_t rest_below(const struct target *t, const struct snapshot_rule *r, uint32_t i)
{
	const bool other = t->real != NULL && rule_has_host_name(r);
	const char *pattern = snapshot_pattern(t->p, i);
	uint64_t *known = &t->known[2 * i + other];

	if (*known == UNKNOWN)
		*known = glob_rest(pattern, t->name) | (other ? glob_rest(pattern, t->real) : 0);
	return *known;
}

static bool matches_itself(const struct target *t, const struct snapshot_rule *r,
			   const char *pattern)
{
	return glob_match_path(pattern, t->name) ||
	       (t->real != NULL && rule_has_host_name(r) && glob_match_path(pattern, t->real));
}

/* Whether the rule matches all that `rest` matches below the place; rest NULL: the place itself. */
static bool takes(const struct target *t, const struct snapshot_rule *r, const char *rest)
{
	for (uint32_t k = 0; k < r->subject.n; k++) {
		const char *pattern = snapshot_pattern(t->p, r->subject.at + k);
		uint64_t below;

		if (rest == NULL) {
			if (matches_itself(t, r, pattern))
				return true;
			continue;
		}
		below = rest_below(t, r, r->subject.at + k);
		for (unsigned n = 0; n < GLOB_COMPONENTS && below >> n != 0; n++)
			if ((below >> n & 1) != 0 &&
			    glob_path_covers(glob_component(pattern, n), rest))
				return true;
	}
	return false;
}

/* Whether another place inside this one has all that `rest` matches. */
static bool lies_in_other(const struct target *t, const char *rest)
{
	const char *dir = t->place->path;
	char tree[2 * PATH_MAX + sizeof("/**")];

	for (size_t i = 0; i < t->view->n; i++) {
		const struct file_place *q = &t->view->place[i];

		if (!path_within(q->path, dir) || strcmp(q->path, dir) == 0 ||
		    strlen(q->path) >= PATH_MAX)
			continue;
		glob_escape(q->path + (strcmp(dir, "/") == 0 ? 1 : strlen(dir) + 1), tree);
		if (!q->alone)
			strcat(tree, "/**");
		if (glob_path_covers(tree, rest))
			return true;
	}
	return false;
}

/* The operations among ops that no earlier rule decides for all that `rest` matches. */
static uint32_t left_by_earlier(const struct target *t, uint32_t rule, const char *rest,
				uint32_t ops)
{
	for (uint32_t i = 0; i < rule && ops != 0; i++) {
		const struct snapshot_rule *r = snapshot_rule(t->p, OP_FILE, i);

		/* a rule for what existed leaves names that the session made (args_whole) */
		if ((r->bits & ops) != 0 && !r->args_whole && takes(t, r, rest))
			ops &= ~r->bits;
	}
	return ops;
}

/* The operations that pattern i of the rule decides in the place; EVERYTHING: of the default. */
static uint32_t decided(const struct target *t, uint32_t rule, const struct snapshot_rule *r,
			uint32_t i)
{
	const char *pattern = i == EVERYTHING ? "**" : snapshot_pattern(t->p, i);
	uint32_t ops = 0;
	uint64_t below;

	if (matches_itself(t, r, pattern))
		ops = left_by_earlier(t, rule, NULL, r->bits);
	if (t->place->alone)
		return ops;
	below = i == EVERYTHING ? glob_rest(pattern, t->name) : rest_below(t, r, i);
	for (unsigned n = 0; n < GLOB_COMPONENTS && below >> n != 0; n++) {
		const char *rest = glob_component(pattern, n);

		if ((below >> n & 1) != 0 && (r->bits & ~ops) != 0 && !lies_in_other(t, rest))
			ops |= left_by_earlier(t, rule, rest, r->bits & ~ops);
	}
	return ops;
}

/* known: as in struct target, for each place. */
static enum policy_held rule_held(const struct policy *p, uint32_t rule,
				  const struct file_view *view, uint64_t *known,
				  struct strv *places)
{
	const struct snapshot_class *c = &p->head->class[OP_FILE];
	const bool fallback = rule >= c->rules.n;
	/* The default is a rule for everything. */
	const struct snapshot_rule all = {.decision = (uint8_t)c->fallback, .bits = FILE_OPS};
	const struct snapshot_rule *r = fallback ? &all : snapshot_rule(p, OP_FILE, rule);
	struct target t = {.p = p, .view = view};
	bool held = false, open = false;

	/* what is done instead of a deletion needs the file server as well */
	if (policy_permits(p, r->decision) && r->decision != DECISION_soft_delete &&
	    r->decision != DECISION_redirect)
		return POLICY_HELD;
	for (size_t i = 0; i < view->n; i++) {
		uint32_t ops = 0;

		aim(&t, &view->place[i]);
		t.known = known + i * KNOWN_OF(p);
		if (fallback)
			ops = decided(&t, rule, r, EVERYTHING);
		for (uint32_t k = 0; !fallback && k < r->subject.n; k++)
			ops |= decided(&t, rule, r, r->subject.at + k);
		held |= (ops & ~t.place->open) != 0;
		if ((ops & t.place->open) == 0)
			continue;
		open = true;
		if (places != NULL)
			strv_add_new(places, t.place->path);
	}
	return !open ? POLICY_HELD : held ? POLICY_PARTLY_HELD : POLICY_NOT_HELD;
}

static uint64_t *nothing_known(const struct policy *p, const struct file_view *view)
{
	const size_t len = (view->n * KNOWN_OF(p) + 1) * sizeof(uint64_t);

	return memset(mem_alloc(len), 0xff, len);
}

enum policy_held policy_rule_held(const struct policy *p, uint32_t rule,
				  const struct file_view *view, struct strv *places)
{
	cleanup_free uint64_t *known = nothing_known(p, view);

	return rule_held(p, rule, view, known, places);
}

const char *policy_rule_name(const struct policy *p, uint32_t rule)
{
	return rule < p->head->class[OP_FILE].rules.n
		       ? snapshot_text(p, snapshot_rule(p, OP_FILE, rule)->name)
		       : "default";
}

void policy_hold(const struct policy *p, const struct file_view *view, struct policy_holds *out)
{
	const uint32_t n = p->head->class[OP_FILE].rules.n;
	cleanup_free uint64_t *known = nothing_known(p, view);

	*out = (struct policy_holds){.rules = n + 1, .first = n + 1, .first_unheld = n + 1};
	for (uint32_t i = 0; i <= n; i++) {
		const enum policy_held held = rule_held(p, i, view, known, &out->places);

		if (held == POLICY_HELD)
			continue;
		out->lacking++;
		if (out->first > n)
			out->first = i;
		if (held == POLICY_NOT_HELD && out->first_unheld > n)
			out->first_unheld = i;
	}
}

void policy_format_places(const struct strv *places, struct buf *out)
{
	for (size_t i = 0; i < places->n && i < PLACES_SHOWN; i++)
		buf_addf(out, "%s%s", i > 0 ? ", " : "", places->v[i]);
	if (places->n > PLACES_SHOWN)
		buf_addf(out, " and %zu more place%s", places->n - PLACES_SHOWN,
			 places->n > PLACES_SHOWN + 1 ? "s" : "");
}

void policy_format_lacking(const struct policy *p, const struct file_view *view, struct jw *w)
{
	const uint32_t n = p->head->class[OP_FILE].rules.n;

	jw_arr(w);
	for (uint32_t i = 0; i <= n; i++) {
		cleanup_strv struct strv places = {0};
		const enum policy_held held = policy_rule_held(p, i, view, &places);

		if (held == POLICY_HELD)
			continue;
		jw_obj(w);
		jw_kstr(w, "rule", policy_rule_name(p, i));
		jw_kbool(w, "partly_held", held == POLICY_PARTLY_HELD);
		jw_kstrv(w, "not_in", &places);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}
