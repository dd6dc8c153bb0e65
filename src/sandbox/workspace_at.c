// SPDX-License-Identifier: Apache-2.0
/* Where the session sees its workspace: at /workspace and at its real path.
 *
 * The tree is placed at /workspace. Once the covers are in it, it is cloned to its real path, so
 * that both show the same. The lists may show the workspace, or a part of it, by further paths;
 * clones cover those too, because rules and covers hold only for what goes through the tree.
 *
 * The session can rename no directory above a clone: it lies in the read-only root, in a read-only
 * tmpfs of its own, or is a mount itself. So a path that the kernel has resolved leads through a
 * clone if, and only if, it begins with the clone's path. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#define WORKSPACE "/" INSIDE_WORKSPACE

static const char *const holder_options[] = {"mode", "0755", "size", "1m", NULL};
static const struct mnt_fs holder_fs = {"tmpfs", holder_options,
					MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};

const char *inside_workspace_path(const struct inside *in)
{
	return in->shown.n > 0 ? in->shown.v[0] : WORKSPACE;
}

static void record(struct inside *in, const char *path, const char *canonical)
{
	strv_add(&in->shown, path);
	strv_add(&in->shown, canonical);
}

/* ---- where ---- */

/* The first of these places that contains a path, or NULL. */
static const char *place_of(const char *path, const char *const *places)
{
	for (; *places != NULL; places++)
		if (path_within(path, *places))
			return *places;
	return NULL;
}

/* Whether the path is a place of the session's own, or contains one. */
static bool is_taken(const char *path)
{
	static const char *const ours[] = {"/etc", "/proc", "/run/agentsh"};

	for (const char *const *own = sandbox_places; *own != NULL; own++)
		if (path_within(*own, path))
			return true;
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (path_overlap(path, ours[i]))
			return true;
	return path_within("/dev", path) ||
	       (path_within(path, "/dev") && !path_within(path, "/dev/shm"));
}

static bool in_list(const struct sandbox_plan *p, const char *path)
{
	const struct strv *const lists[] = {&p->read_only_paths, &p->passthrough_paths,
					    &p->monitored_paths};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			if (!path_within(lists[i]->v[k], WORKSPACE) &&
			    path_within(path, lists[i]->v[k]))
				return true;
	return false;
}

/* Whether Landlock gives rights at the path that the policy takes from the workspace: rules of the
 * directories above a file add up. A file server refuses them by itself. */
static bool regains(const struct sandbox_plan *p, const char *path)
{
	return !sandbox_serves(p, WORKSPACE) && inside_withheld(p, WORKSPACE) != 0 &&
	       (in_list(p, path) || place_of(path, sandbox_places + 1) != NULL ||
		place_of(path, inside_readable) != NULL);
}

int inside_choose_paths(struct inside *in, struct err *err)
{
	const struct sandbox_plan *p = &in->plan;
	const struct strv *served = &p->served;
	const char *real = p->real_path;
	const bool only_real = p->workspace_at == SANDBOX_AT_REAL;
	const bool taken = real != NULL && is_taken(real);
	/* In a tree that is served the workspace is seen anyway. */
	const bool alone = real == NULL || strcmp(real, WORKSPACE) == 0 ||
			   (p->workspace_at == SANDBOX_AT_WORKSPACE && !sandbox_serves(p, real));

	if (only_real && !alone && (taken || regains(p, real)))
		return err_set(err, E_ENFORCEMENT, real,
			       "sandbox.workspace_at is real, but %s is %s; choose another "
			       "workspace, or set sandbox.workspace_at to workspace",
			       real,
			       taken ? "a place of the session's own"
				     : "in a place where the session has rights that its policy "
				       "denies in the workspace");
	/* Both paths would be one below the other. */
	if (alone || (!only_real && !path_within(real, WORKSPACE)))
		record(in, WORKSPACE, WORKSPACE);
	if (!alone && !taken && !regains(p, real))
		record(in, real, WORKSPACE);
	for (size_t i = 0; i + 1 < served->n; i += 2)
		if (!path_within(served->v[i], WORKSPACE))
			record(in, served->v[i], served->v[i]);
	return 0;
}

/* ---- mount points ---- */

/* A read-only tmpfs at the first component below a writable place, with the rest of the path. */
static int make_holder(const struct inside *in, const char *place, const char *path,
		       struct err *err)
{
	const char *first = path + strlen(place) + 1;
	const size_t len = strcspn(first, "/");
	cleanup_free char *at = mem_strndup(path, (size_t)(first - path) + len);
	cleanup_fd int fs = -1;
	int r = mnt_make_point(in->tree_fd, in->root_fd, at + 1, err);

	if (r < 0 || first[len] == '\0')
		return r;
	r = mnt_make(&holder_fs, &fs, err);
	if (r == 0)
		r = mnt_place(fs, in->root_fd, at + 1, err);
	if (r == 0)
		r = mnt_make_point(in->tree_fd, fs, first + len + 1, err);
	return r < 0 ? r : mnt_set(fs, MOUNT_ATTR_RDONLY, at, err);
}

/* Opens the directory at which the workspace is to be mounted, and makes it where it is missing. */
static int open_point(const struct inside *in, const char *path, int *at, struct err *err)
{
	const char *place = place_of(path, sandbox_places + 1);
	int r;

	if (in_list(&in->plan, path))
		r = inside_hold_above(&in->plan, path, err);
	else if (place != NULL)
		r = make_holder(in, place, path, err);
	else
		r = mnt_make_point(in->tree_fd, in->root_fd, path + 1, err);
	if (r < 0)
		return r;
	*at = fdio_openat2(in->root_fd, path + 1, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	return *at != -1 ? 0 : err_errno(err, E_ENFORCEMENT, path, "openat2(%s)", path);
}

/* ---- other ways ---- */

/* A path by which a mount shows the workspace or a part of it. */
struct other_way {
	char *path, *canonical; /* owned */
	dev_t dev;
	ino_t ino;
};
struct other_ways {
	struct other_way *way; /* owned */
	size_t n;
};

/* What other ways lead to: a canonical path, and where it is on its disk, by mnt_origin. */
struct way_target {
	const char *canonical, *origin, *at; /* at: the path in origin */
};

/* Adds a mount if its path leads to it: another mount may lie on top. */
static void add_way(struct other_ways *w, const struct mnt_line *line, const struct way_target *t)
{
	char *path = path_swap(t->at, line->root, line->point);
	char *canonical = path != NULL ? mem_strdup(t->canonical)
				       : path_swap(line->root, t->at, t->canonical);
	struct stat st;

	if (path == NULL && canonical != NULL)
		path = mem_strdup(line->point);
	if (path != NULL && !path_within(path, CAPTURE_DIR)) {
		cleanup_fd int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (fd != -1 && mnt_id(fd) == line->id && fstat(fd, &st) == 0) {
			w->way = mem_resize(w->way, w->n + 1, sizeof(*w->way));
			w->way[w->n++] = (struct other_way){path, canonical, st.st_dev, st.st_ino};
			return;
		}
	}
	free(path);
	free(canonical);
}

/* A tree that is served shows its directory as a mount does. */
static void add_served_way(struct other_ways *w, char *const served[2], const struct way_target *t)
{
	cleanup_fd int fd = open(served[0], O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd != -1 && strncmp(served[1], t->origin, (size_t)(t->at - t->origin)) == 0)
		add_way(w,
			&(struct mnt_line){.id = mnt_id(fd),
					   .root = strchr(served[1], ' ') + 1,
					   .point = served[0]},
			t);
}

static int add_ways(const struct sandbox_plan *p, const struct way_target *t,
		    struct other_ways *out, struct err *err)
{
	const size_t disk = (size_t)(t->at - t->origin);
	/* A tree that is served may have the workspace in it: what is in both is the workspace's */
	const char *own = strcmp(t->canonical, WORKSPACE) != 0 && p->backing != NULL &&
					  strncmp(p->backing, t->origin, disk) == 0 &&
					  path_within(p->backing + disk, t->at)
				  ? p->backing + disk
				  : NULL;
	cleanup_buf struct buf text = {0};
	struct mnt_line line;
	char *next;
	int r = fdio_load_path("/proc/self/mountinfo", MNT_LIST_MAX, &text, err);

	if (r < 0)
		return r;
	for (next = text.data; mnt_next(&next, &line);)
		if (strlen(line.dev) + 1 == disk &&
		    strncmp(line.dev, t->origin, strlen(line.dev)) == 0 &&
		    (own == NULL || !path_within(line.root, own)))
			add_way(out, &line, t);
	for (size_t i = 0; i + 1 < p->served.n; i += 2)
		if (!path_within(p->served.v[i], WORKSPACE))
			add_served_way(out, p->served.v + i, t);
	return 0;
}

/* Those of trees that are served; below: also of those in the workspace. */
static int find_served_ways(const struct sandbox_plan *p, bool below, struct other_ways *out,
			    struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i + 1 < p->served.n; i += 2) {
		const char *path = p->served.v[i], *origin = p->served.v[i + 1];
		const char *space = strchr(origin, ' ');

		if (space != NULL && (below || !path_within(path, WORKSPACE)))
			r = add_ways(p, &(struct way_target){path, origin, space + 1}, out, err);
	}
	return r;
}

/* Before the workspace is mounted. */
static int find_ways(const struct sandbox_plan *p, struct other_ways *out, struct err *err)
{
	const char *space = p->backing != NULL ? strchr(p->backing, ' ') : NULL;
	int r;

	if (p->real_path == NULL)
		return 0;
	if (space == NULL)
		return err_set(err, E_ENFORCEMENT, p->real_path,
			       "the mount of %s has no path in the server's view", p->real_path);
	r = add_ways(p, &(struct way_target){WORKSPACE, p->backing, space + 1}, out, err);
	return r < 0 ? r : find_served_ways(p, false, out, err);
}

/* Covers a way that is still visible with the same part of the tree. */
static int cover_way(struct inside *in, const struct other_way *w, struct err *err)
{
	const bool block = regains(&in->plan, w->path);
	cleanup_fd int at = -1, tree = -1;
	struct stat st;
	int r;

	for (size_t i = 0; i < in->shown.n; i += 2) {
		cleanup_free char *canonical =
			path_swap(w->path, in->shown.v[i], in->shown.v[i + 1]);

		if (canonical != NULL && strcmp(canonical, w->canonical) == 0)
			return 0;
	}
	if (stat(w->path, &st) < 0 || st.st_dev != w->dev || st.st_ino != w->ino)
		return 0;
	r = path_within(w->path, WORKSPACE) ? inside_hold_above(&in->plan, w->path, err) : 0;
	if (r == 0)
		r = open_point(in, w->path, &at, err);
	if (r == 0)
		r = mnt_clone(AT_FDCWD,
			      !block		    ? w->canonical
			      : S_ISDIR(st.st_mode) ? "/" INSIDE_VOID_DIR
						    : "/" INSIDE_VOID_FILE,
			      &tree, err);
	if (r == 0 && block)
		r = mnt_set(tree, MNT_SHUT, w->path, err);
	if (r == 0)
		r = mnt_cover(tree, at, w->path, err);
	if (r == 0 && !block)
		record(in, w->path, w->canonical);
	return r;
}

static int cover_ways(struct inside *in, const struct other_ways *ways, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ways->n; i++)
		r = cover_way(in, &ways->way[i], err);
	return r;
}

static void ways_done(struct other_ways *w)
{
	for (size_t i = 0; i < w->n; i++) {
		free(w->way[i].path);
		free(w->way[i].canonical);
	}
	free(w->way);
}

/* Mounts of the machine in a workspace that is not served. */
static int cover_ways_below(struct inside *in, struct err *err)
{
	struct other_ways ways = {0};
	int r = find_served_ways(&in->plan, true, &ways, err);

	if (r == 0)
		r = cover_ways(in, &ways, err);
	ways_done(&ways);
	return r;
}

/* ---- all of them ---- */

static int place(struct inside *in, int at, const struct other_ways *ways, struct err *err)
{
	const char *real = in->plan.real_path;
	const bool both = strcmp(in->shown.v[0], WORKSPACE) == 0;
	cleanup_fd int tree = -1;
	int r = mnt_place(in->tree_fd, in->root_fd, INSIDE_WORKSPACE, err);

	if (r == 0)
		r = inside_served(in, true, err);
	if (r == 0)
		r = inside_covers(in, err);
	if (r == 0 && !sandbox_serves(&in->plan, WORKSPACE))
		r = cover_ways_below(in, err);
	if (r == 0)
		r = cover_ways(in, ways, err);
	if (r < 0 || at == -1)
		return r;
	if (!both)
		return mnt_cover(in->tree_fd, at, real, err);
	r = mnt_clone(in->root_fd, INSIDE_WORKSPACE, &tree, err);
	return r < 0 ? r : mnt_cover(tree, at, real, err);
}

int inside_workspace(struct inside *in, struct err *err)
{
	const char *real = in->plan.real_path;
	struct other_ways ways = {0};
	cleanup_fd int at = -1;
	int r = inside_choose_paths(in, err);

	if (r == 0)
		r = inside_served(in, false, err);
	if (r == 0)
		r = find_ways(&in->plan, &ways, err);
	if (r == 0 && real != NULL && strcmp(real, WORKSPACE) != 0 &&
	    (strcmp(in->shown.v[0], real) == 0 ||
	     (in->shown.n > 2 && strcmp(in->shown.v[2], real) == 0 &&
	      strcmp(in->shown.v[3], WORKSPACE) == 0)))
		r = open_point(in, real, &at, err);
	if (r == 0)
		r = place(in, at, &ways, err);
	ways_done(&ways);
	return r;
}
