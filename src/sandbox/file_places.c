// SPDX-License-Identifier: Apache-2.0
/* Describes the view of a session: its places, and which operations on files the kernel does there.
 * Where that is not certain, an operation counts as done. */
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/inside.h"
#include "sandbox/landlock.h"
#include <fcntl.h>
#include <sys/stat.h>

#define WORKSPACE "/" INSIDE_WORKSPACE
#define LOOK (FILE_OP(read) | FILE_OP(open) | FILE_OP(stat) | FILE_OP(list))
/* Landlock has no rights for these. */
#define FREE (FILE_OP(stat) | FILE_OP(chmod) | FILE_OP(chown))

static const struct {
	uint32_t ops; /* that the kind of place lets through */
	bool alone;
} kinds[] = {
	[PLACE_WRITABLE] = {FILE_OPS, false},
	[PLACE_READ_ONLY] = {LOOK | FILE_OP(execute), false},
	[PLACE_DEVICE] = {FILE_OP(read) | FILE_OP(write) | FILE_OP(open) | FILE_OP(stat), true},
	[PLACE_TERMINALS] = {LOOK | FILE_OP(write) | FILE_OP(chmod) | FILE_OP(chown), false},
	[PLACE_PROC] = {LOOK | FILE_OP(write), false},
	[PLACE_DIRECTORY] = {FILE_OP(stat) | FILE_OP(list), true},
	[PLACE_LINK] = {FILE_OP(stat) | FILE_OP(read), true},
};

/* What each right of Landlock lets through. A rename or a link within one directory does not need
 * LANDLOCK_MOVE; the new name needs MAKE or, if the file is a symbolic link, SYMLINK. */
static uint32_t let_through(unsigned access)
{
	static const struct {
		unsigned access;
		uint32_t ops;
	} rows[] = {
		{LANDLOCK_READ, LOOK},
		{LANDLOCK_LIST, FILE_OP(list)},
		{LANDLOCK_CHANGE, FILE_OP(write) | FILE_OP(open)},
		{LANDLOCK_EXEC, FILE_OP(execute) | FILE_OP(open)},
		{LANDLOCK_TRUNCATE, FILE_OP(truncate)},
		{LANDLOCK_MAKE, FILE_OP(create) | FILE_OP(link)},
		{LANDLOCK_SYMLINK, FILE_OP(create) | FILE_OP(link) | FILE_OP(symlink)},
		{LANDLOCK_REMOVE, FILE_OP(delete)},
	};
	uint32_t ops = FREE;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if ((access & rows[i].access) != 0)
			ops |= rows[i].ops;
	if ((ops & FILE_OP(delete)) != 0 && (ops & FILE_OP(create)) != 0)
		ops |= FILE_OP(rename);
	return landlock_abi() < LANDLOCK_TRUNCATE_ABI ? ops | FILE_OP(truncate) : ops;
}

static void add(struct file_view *v, const char *path, enum place_kind kind, unsigned access,
		const char *canonical)
{
	const uint32_t ops = kinds[kind].ops, through = let_through(access);

	file_view_add(v, &(struct file_place){.path = path,
					      .canonical = canonical,
					      .alone = kinds[kind].alone,
					      .open = ops & through,
					      .landlock = ops & ~through,
					      .rest = HOLDER_MOUNT});
}

void places_add(struct file_view *files, const char *path, enum place_kind kind, unsigned access)
{
	add(files, path, kind, access, NULL);
}

/* Something covers the path: only the cover itself can be seen. */
static void add_cover(struct file_view *v, const char *path, const char *canonical)
{
	struct file_place p = {.path = path, .canonical = canonical, .rest = HOLDER_VIEW};

	file_view_add(v, &p);
	p.alone = true;
	p.open = FILE_OP(stat);
	file_view_add(v, &p);
}

/* ---- a session with namespaces ---- */

struct description {
	const struct inside *in;
	const struct landlock_rule *rules; /* NULL: without Landlock */
	size_t nrules;
	struct file_view *view;
};

/* The rules of all directories above a file add up. */
static unsigned access_at(const struct description *d, const char *path)
{
	unsigned access = d->rules == NULL ? LANDLOCK_ALL : 0;

	for (size_t i = 0; d->rules != NULL && i < d->nrules; i++)
		if (path_within(path, d->rules[i].path))
			access |= d->rules[i].access;
	return access;
}

/* The places that a person knows come first: a message names the first few. */
static void add_own(const struct description *d)
{
	static const struct {
		const char *path;
		enum place_kind kind;
	} own[] = {
		{"/", PLACE_DIRECTORY},
		{"/etc", PLACE_DIRECTORY},
		{"/proc", PLACE_PROC},
		{"/dev", PLACE_READ_ONLY},
		{"/dev/pts", PLACE_TERMINALS},
		{"/run/agentsh", PLACE_READ_ONLY},
		{"/run/agentsh/bin", PLACE_READ_ONLY},
	};
	cleanup_strv struct strv etc = {0};

	for (const char *const *at = sandbox_places + 1; *at != NULL; at++)
		places_add(d->view, *at, PLACE_WRITABLE, access_at(d, *at));
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		places_add(d->view, own[i].path, own[i].kind, access_at(d, own[i].path));
	for (size_t i = 0; i < INSIDE_DEVICES; i++)
		places_add(d->view, inside_devices[i].path, PLACE_DEVICE,
			   access_at(d, inside_devices[i].path));
	inside_etc_paths(&etc);
	for (size_t i = 0; i < etc.n; i++)
		places_add(d->view, etc.v[i], PLACE_READ_ONLY, access_at(d, etc.v[i]));
}

static void add_lists(const struct description *d)
{
	const struct sandbox_plan *p = &d->in->plan;
	const struct {
		const struct strv *paths;
		enum place_kind kind;
	} lists[] = {{&p->read_only_paths, PLACE_READ_ONLY},
		     {&p->passthrough_paths, PLACE_WRITABLE},
		     {&p->monitored_paths, PLACE_WRITABLE},
		     {&p->toolchains, PLACE_READ_ONLY}};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i].paths->n; k++) {
			const char *path = lists[i].paths->v[k];
			struct stat st;

			if (path_within(path, WORKSPACE) || sandbox_serves(p, path) ||
			    lstat(path, &st) < 0)
				continue;
			places_add(d->view, path,
				   S_ISLNK(st.st_mode)	    ? PLACE_LINK
				   : inside_is_system(path) ? PLACE_READ_ONLY
							    : lists[i].kind,
				   access_at(d, path));
		}
}

/* By every path at which it is shown. A file server decides whatever is below. */
static void add_workspace(const struct description *d)
{
	const struct strv *shown = &d->in->shown;

	for (size_t i = 0; i + 1 < shown->n; i += 2) {
		const char *path = shown->v[i], *canonical = shown->v[i + 1];

		if (sandbox_serves(&d->in->plan, canonical))
			file_view_add(d->view, &(struct file_place){.path = shown->v[i],
								    .canonical = shown->v[i + 1],
								    .rest = HOLDER_SERVER});
		else
			add(d->view, path, PLACE_WRITABLE,
			    access_at(d, path) | access_at(d, shown->v[0]), canonical);
	}
}

/* What init has covered, or made read-only in the workspace. A name that does not exist yet is not
 * covered. */
static void add_covers(const struct description *d)
{
	const struct sandbox_plan *p = &d->in->plan;
	const struct strv *shown = &d->in->shown;
	const struct {
		const struct strv *paths;
		bool block;
	} lists[] = {{&p->read_only_paths, false},
		     {&p->shut_inside, false},
		     {&p->blocked_paths, true},
		     {&p->blocked_inside, true}};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i].paths->n; k++) {
			const char *path = lists[i].paths->v[k];
			const bool inside = path_within(path, WORKSPACE);
			struct stat st;

			if (sandbox_serves(p, path) || lstat(path, &st) < 0)
				continue;
			if (!inside && lists[i].block)
				add_cover(d->view, path, NULL);
			for (size_t n = 0; inside && n + 1 < shown->n; n += 2) {
				cleanup_free char *at =
					path_swap(path, shown->v[n + 1], shown->v[n]);

				if (at != NULL && lists[i].block)
					add_cover(d->view, at, path);
				else if (at != NULL)
					add(d->view, at, PLACE_READ_ONLY,
					    access_at(d, at) | access_at(d, shown->v[0]), path);
			}
		}
}

/* A directory above a place, which is in no place itself. */
static void add_above(struct file_view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		cleanup_free char *dir = mem_strdup(v->place[i].path);

		for (char *slash; (slash = strrchr(dir, '/')) != NULL && slash != dir;) {
			*slash = '\0';
			if (file_view_find(v, dir) == NULL)
				places_add(v, dir, PLACE_DIRECTORY, LANDLOCK_ALL);
		}
	}
}

void inside_describe(const struct inside *in, struct file_view *out)
{
	cleanup_free struct landlock_rule *rules = NULL;
	struct description d = {.in = in, .view = out};

	if (landlock_abi() > 0 && in->walls.wall[WALL_landlock].state != WALL_UNAVAILABLE) {
		d.nrules = inside_landlock_rules(in, &rules).nrules;
		d.rules = rules;
	}
	add_workspace(&d);
	add_own(&d);
	add_lists(&d);
	add_covers(&d);
	add_above(out);
}

void sandbox_file_view(const struct sandbox_plan *plan, struct file_view *out)
{
	struct inside in = {.plan = *plan};

	/* A session whose workspace can be shown nowhere is refused. */
	inside_choose_paths(&in, NULL);
	inside_describe(&in, out);
	strv_done(&in.shown);
}
