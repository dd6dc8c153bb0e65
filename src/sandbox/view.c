// SPDX-License-Identifier: Apache-2.0
/* The file-system lists of the configuration: which of the host's paths a session sees, and how.
 *
 * Listed paths are bound at their own names, parents first. A path is checked by its real path, so
 * that neither a link nor `..` shows the host's /proc, /sys or /dev. Blocked paths are covered once
 * the view is complete, so that they are resolved as the session resolves them. /workspace is the
 * workspace, not the host's directory of that name. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include "sandbox/toolchains.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>

#define WORKSPACE "/" INSIDE_WORKSPACE
#define WRITABLE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* A list may show neither these nor a directory that contains them. */
static const char *const refused[] = {"/proc", "/sys", "/dev", "/run/agentsh"};
/* Read-only in every list: the host itself runs on them. */
static const char *const system_dirs[] = {"/usr",   "/bin",    "/sbin", "/lib", "/lib32",
					  "/lib64", "/libx32", "/boot", "/etc"};
/* File systems that show the machine, wherever they are mounted. */
static const char *const machine_fs[] = {"proc",   "sysfs",    "devtmpfs", "devpts",
					 "cgroup", "cgroup2",  "debugfs",  "tracefs",
					 "bpf",	   "configfs", "efivarfs", "securityfs"};

struct view_entry {
	const char *path; /* borrowed from the plan */
	uint64_t attr;
	bool toolchain;
	bool link_only; /* not shown unless another entry shows its target */
};
struct view {
	struct view_entry *entry; /* owned */
	size_t n;
	const struct sandbox_plan *plan;
};

static bool within_any(const char *path, const char *const *dirs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (path_within(path, dirs[i]))
			return true;
	return false;
}

bool inside_is_system(const char *path)
{
	return within_any(path, system_dirs, ARRAY_LEN(system_dirs));
}

/* Distributions mount no kernel file system here; anywhere else the mounts are checked. */
static bool is_plain(const char *path)
{
	return path_within(path, "/opt") || (inside_is_system(path) && !path_within(path, "/boot"));
}

/* ---- what may be shown ---- */

static int refuse(const char *path, const char *real, struct err *err)
{
	return err_set(
		err, E_ENFORCEMENT, path,
		"the file-system lists must not show %s: it leads to %s, which is the machine's "
		"or the server's own",
		path, real);
}

/* A bind of a path shows everything that is mounted below it. */
static int check_mounts(const char *path, const char *real, struct err *err)
{
	cleanup_buf struct buf text = {0};
	struct mnt_line line;
	char *next;
	int r = fdio_load_path("/proc/self/mountinfo", MNT_LIST_MAX, &text, err);

	if (r < 0)
		return r;
	for (next = text.data; mnt_next(&next, &line);)
		for (size_t i = 0; i < ARRAY_LEN(machine_fs); i++)
			if (strcmp(line.type, machine_fs[i]) == 0 && path_within(line.point, real))
				return refuse(path, line.point, err);
	return 0;
}

int inside_may_show(const struct sandbox_plan *plan, const char *path, const char *real,
		    struct err *err)
{
	const struct strv *own = &plan->kept_out;

	if (path_within("/" INSIDE_HOME, path))
		return err_set(
			err, E_ENFORCEMENT, path,
			"the file-system lists must not show %s: the home of sessions is in it",
			path);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		if (path_overlap(real, refused[i]))
			return refuse(path, real, err);
	if (is_plain(real))
		return 0;
	for (size_t i = 0; i < own->n; i++) {
		cleanup_free char *dir = realpath(own->v[i], NULL);

		if (dir != NULL && path_overlap(real, dir))
			return refuse(path, dir, err);
	}
	return check_mounts(path, real, err);
}

/* ---- binds ---- */

/* An earlier bind may have put a link there: it is followed inside the new root only. */
static int put(int root, int tree, const char *path, struct err *err)
{
	cleanup_fd int at = -1;
	int r = mnt_make_point(tree, root, path + 1, err);

	if (r < 0)
		return r;
	at = fdio_openat2(root, path + 1, O_PATH, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	if (at == -1)
		return err_errno(err, E_ENFORCEMENT, path, "openat2(%s)", path);
	return mnt_cover(tree, at, path, err);
}

/* libc resolves the path, because the kernel would take a `..` that ends at "/" into the new root,
 * which is mounted there. The opened file is asked for its name, so that a link that changes in
 * between gains nothing. */
int inside_resolve(const char *path, char *real, int *fd, struct err *err)
{
	*fd = realpath(path, real) != NULL ? open(real, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (*fd == -1 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	return mnt_name(*fd, real) > 0
		       ? 0
		       : err_errno(err, E_ENFORCEMENT, path, "cannot open %s", path);
}

static void add(struct view *v, const struct strv *paths, uint64_t attr)
{
	v->entry = mem_resize(v->entry, v->n + paths->n, sizeof(*v->entry));
	for (size_t i = 0; i < paths->n; i++) {
		const char *path = paths->v[i];

		if (!path_within(path, WORKSPACE))
			v->entry[v->n++] =
				(struct view_entry){path, inside_is_system(path) ? MNT_SHUT : attr,
						    paths == &v->plan->toolchains};
	}
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct view_entry *)a)->path, ((const struct view_entry *)b)->path);
}

static void list(struct view *v, const struct sandbox_plan *p)
{
	*v = (struct view){.plan = p};
	add(v, &p->read_only_paths, MNT_SHUT);
	add(v, &p->passthrough_paths, WRITABLE);
	add(v, &p->monitored_paths, WRITABLE);
	add(v, &p->toolchains, MNT_SHUT);
	if (v->n > 0)
		qsort(v->entry, v->n, sizeof(*v->entry), by_path);
}

/* Whether an entry comes as a tree with the assignment: with a server of root, a toolchain, a
 * writable path and every path below it. */
static bool is_late(const struct view *v, size_t i)
{
	if (v->plan->privileged && v->entry[i].toolchain)
		return true;
	for (size_t k = 0; v->plan->privileged && k < v->n; k++)
		if (v->entry[k].attr == WRITABLE && path_within(v->entry[i].path, v->entry[k].path))
			return true;
	return false;
}

/* Clones the tree of an entry that was opened, unless tree is NULL. *tree stays -1 if there is
 * nothing to bind: the path does not exist, or (*link) another entry shows its target, real. */
static int open_entry(const struct view *v, size_t i, int fd, const char *real, int *tree,
		      bool *link, struct err *err)
{
	const struct view_entry *e = &v->entry[i];
	int r;

	*link = false;
	/* A toolchain that has moved since it was found is left out. */
	if (fd == -1 || (e->toolchain && strcmp(real, e->path) != 0))
		return 0;
	r = inside_may_show(v->plan, e->path, real, err);
	for (size_t k = 0; r == 0 && !*link && k < v->n; k++)
		*link = k != i && strcmp(real, e->path) != 0 && path_within(real, v->entry[k].path);
	if (r < 0 || *link || tree == NULL)
		return r;
	r = mnt_clone(fd, "", tree, err);
	return r < 0 ? r : mnt_set(*tree, e->attr, e->path, err);
}

static bool is_repository(const struct view *v, size_t i)
{
	return v->plan->repository != NULL && strcmp(v->entry[i].path, v->plan->repository) == 0;
}

static int show(const struct view *v, size_t i, int root, struct err *err)
{
	const struct view_entry *e = &v->entry[i];
	cleanup_buf struct buf target = {0};
	cleanup_fd int tree = -1, fd = -1;
	char real[PATH_MAX];
	bool link = false;
	int r = inside_resolve(e->path, real, &fd, err);

	if (r == 0 && is_repository(v, i) &&
	    (fd == -1 || strcmp(real, e->path) != 0 || !repository_is_proven(v->plan, fd)))
		return 0;
	if (r == 0)
		r = open_entry(v, i, fd, real, e->link_only || is_late(v, i) ? NULL : &tree, &link,
			       err);
	if (r == 0 && link) {
		/* Relative, so that it means the same before and after the pivot. */
		for (const char *s = strchr(e->path + 1, '/'); s != NULL; s = strchr(s + 1, '/'))
			buf_addf(&target, "../");
		buf_addf(&target, "%s", real + 1);
		r = mnt_make_parents(root, e->path + 1, err);
		if (r == 0 && symlinkat(target.data, root, e->path + 1) < 0 && errno != EEXIST)
			r = err_errno(err, E_ENFORCEMENT, e->path, "symlinkat(%s)", e->path);
	}
	return r < 0 || tree == -1 ? r : put(root, tree, e->path, err);
}

static bool is_wide(const char *path)
{
	return strcmp(path, "/var") == 0;
}

int inside_view(struct inside *in, bool wide, struct err *err)
{
	struct view v;
	int r = 0;

	list(&v, &in->plan);
	/* Programs begin with names such as /bin/sh and /lib64/ld.so. Where these are links into
	 * /usr, a list has to name /usr alone. */
	v.entry = mem_resize(v.entry, v.n + ARRAY_LEN(system_dirs), sizeof(*v.entry));
	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		v.entry[v.n++] = (struct view_entry){.path = system_dirs[i], .link_only = true};
	for (size_t i = 0; r == 0 && i < v.n; i++)
		if (is_wide(v.entry[i].path) == wide && !sandbox_serves(&in->plan, v.entry[i].path))
			r = show(&v, i, in->root_fd, err);
	free(v.entry);
	return r;
}

/* ---- trees that come with the assignment ---- */

static bool may_show(const struct sandbox_plan *p, const char *path)
{
	const struct strv *const lists[] = {&p->read_only_paths, &p->passthrough_paths,
					    &p->monitored_paths, &p->kept_out};
	bool free = p->real_path == NULL || !path_overlap(path, p->real_path);

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			free &= !path_overlap(path, lists[i]->v[k]);
	return free && !path_overlap(path, "/" INSIDE_HOME) && !path_overlap(path, WORKSPACE);
}

/* *tree stays -1 if it cannot be shown. */
static void clone_toolchain(const struct toolchains *t, const char *path, int userns, int *tree)
{
	cleanup_fd int made = -1;
	size_t i = 0;

	while (strcmp(t->shown.v[i], path) != 0)
		i++;
	if (mnt_clone(t->fd[i], "", &made, NULL) == 0 && mnt_set(made, MNT_SHUT, path, NULL) == 0 &&
	    (userns == -1 || idmap_tree(made, userns, path, NULL, NULL) == 0))
		*tree = take_fd(made);
}

/* A tree that the launcher clones. *origin: see mnt_origin; owned by the caller. */
static int clone_late(const struct view *v, size_t i, const struct sandbox_workspace_ask *ask,
		      int *tree, char **origin, struct err *err)
{
	const struct view_entry *e = &v->entry[i];
	cleanup_fd int fd = -1;
	char real[PATH_MAX] = "";
	bool link;
	int r = 0;

	if (!is_repository(v, i)) {
		r = inside_resolve(e->path, real, &fd, err);
	} else if (*ask->repository != -1) { /* this very directory has proven itself */
		fd = fcntl(*ask->repository, F_DUPFD_CLOEXEC, 3);
		snprintf(real, sizeof(real), "%s", e->path);
	}
	if (r == 0)
		r = open_entry(v, i, fd, real, tree, &link, err);
	if (r == 0 && *tree != -1)
		*origin = mnt_origin(fd, real);
	if (r == 0 && *tree != -1 && v->plan->idmap && e->attr == WRITABLE)
		r = idmap_tree(*tree, ask->userns, real, ask->fs, err);
	return r;
}

int sandbox_view(struct sandbox_plan *plan, const struct sandbox_workspace_ask *ask,
		 const struct toolchains *tools, struct sandbox_trees *out, struct err *err)
{
	struct view v;
	int r = 0;

	strv_done(&plan->toolchains);
	strv_done(&plan->late);
	/* Not those that a list shows already, nor those that overlap with a place of another
	 * kind. */
	for (size_t i = 0; i < tools->shown.n; i++)
		if (may_show(plan, tools->shown.v[i]))
			strv_add(&plan->toolchains, tools->shown.v[i]);
	for (size_t i = 0; i < tools->hidden.n; i++)
		strv_add(&plan->blocked_inside, tools->hidden.v[i]);
	list(&v, plan);
	*out = (struct sandbox_trees){.fd = mem_resize(NULL, v.n, sizeof(*out->fd))};
	strv_copy(&out->env, &tools->env);
	for (size_t i = 0; r == 0 && i < v.n; i++) {
		int *tree = &out->fd[out->n];
		cleanup_free char *origin = NULL;

		if (!is_late(&v, i))
			continue;
		out->n++;
		*tree = -1;
		if (v.entry[i].toolchain)
			clone_toolchain(tools, v.entry[i].path,
					plan->idmap && ask->uid == plan->owner_uid ? ask->userns
										   : -1,
					tree);
		else
			r = clone_late(&v, i, ask, tree, &origin, err);
		strv_add(&plan->late, v.entry[i].path);
		strv_add(&plan->late, origin != NULL ? origin : "");
	}
	free(v.entry);
	if (r < 0)
		sandbox_trees_done(out);
	plan->trees = (uint32_t)out->n;
	return r;
}

int inside_put(const struct inside *in, int tree, const char *path, struct err *err)
{
	cleanup_fd int own = -1; /* /var/tmp of the session, which stays on top */
	int r = is_wide(path) ? mnt_clone(in->root_fd, "var/tmp", &own, err) : 0;

	if (r == 0)
		r = put(in->root_fd, tree, path, err);
	if (r == 0 && own != -1)
		r = mnt_place(own, in->root_fd, "var/tmp", err);
	return r;
}

int inside_view_late(struct inside *in, struct err *err)
{
	const struct sandbox_trees *t = &in->view;
	struct view v;
	size_t n = 0;
	int r = 0;

	list(&v, &in->plan);
	for (size_t i = 0; r == 0 && i < v.n; i++)
		if (is_late(&v, i) && n < t->n && t->fd[n++] != -1)
			r = inside_put(in, t->fd[n - 1], v.entry[i].path, err);
	free(v.entry);
	return r;
}

/* ---- covers, seen from inside ---- */

static bool is_in_list(const struct strv *list, const char *path)
{
	return !inside_is_system(path) && within_any(path, (const char *const *)list->v, list->n);
}

int inside_hold_above(const struct sandbox_plan *p, const char *path, struct err *err)
{
	cleanup_free char *real = realpath(path, NULL);
	int r = 0;

	for (char *end = real; r == 0 && end != NULL && (end = strchr(end + 1, '/')) != NULL;
	     *end = '/') {
		cleanup_fd int at = -1, tree = -1;
		struct statx st;

		*end = '\0';
		if (!path_within(real, WORKSPACE) && !is_in_list(&p->passthrough_paths, real) &&
		    !is_in_list(&p->monitored_paths, real))
			continue;
		at = open(real, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (at == -1 || statx(at, "", AT_EMPTY_PATH, 0, &st) < 0)
			return err_errno(err, E_ENFORCEMENT, real, "cannot open %s", real);
		if ((st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
			continue;
		r = mnt_clone(at, "", &tree, err);
		if (r == 0)
			r = mnt_cover(tree, at, real, err);
	}
	return r;
}

static int cover(const struct sandbox_plan *p, const char *path, bool block, struct err *err)
{
	int r = inside_hold_above(p, path, err);
	cleanup_fd int at = open(path, O_PATH | O_CLOEXEC), tree = -1;
	const char *from = path;
	struct stat st;

	if (r < 0)
		return r;
	if (at == -1 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
		return 0;
	if (at == -1 || fstat(at, &st) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "cannot open %s", path);
	if (block)
		from = S_ISDIR(st.st_mode) ? "/" INSIDE_VOID_DIR : "/" INSIDE_VOID_FILE;
	r = mnt_clone(AT_FDCWD, from, &tree, err);
	if (r == 0)
		r = mnt_set(tree, MNT_SHUT, path, err);
	return r < 0 ? r : mnt_cover(tree, at, path, err);
}

int inside_covers(struct inside *in, struct err *err)
{
	const struct {
		const struct strv *paths;
		bool block;
	} lists[] = {{&in->plan.read_only_paths, false},
		     {&in->plan.shut_inside, false},
		     {&in->plan.blocked_paths, true},
		     {&in->plan.blocked_inside, true},
		     {&in->plan.kept_out, true}};
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; r == 0 && k < lists[i].paths->n; k++) {
			const char *path = lists[i].paths->v[k];

			const bool served = sandbox_serves(&in->plan, path);
			cleanup_free char *real = served && !path_within(path, WORKSPACE)
							  ? realpath(path, NULL)
							  : NULL;

			/* The kernel drops a mount below a FUSE mount when the server answers with
			 * another node. So the server itself refuses what is covered elsewhere. It
			 * compares names: where a link leads to the path, a mount is better than
			 * nothing. */
			if (served && (real == NULL || strcmp(real, path) == 0))
				continue;
			/* Mounts outside of the workspace are read-only already. */
			if (lists[i].paths == &in->plan.read_only_paths &&
			    !path_within(path, WORKSPACE))
				continue;
			/* inside_may_show refuses the server's directories anywhere else. */
			if (lists[i].paths == &in->plan.kept_out && !is_plain(path))
				continue;
			r = cover(&in->plan, path, lists[i].block, err);
		}
	return r;
}

void sandbox_trees_add(struct sandbox_trees *t, int fd)
{
	t->fd = mem_resize(t->fd, t->n + 1, sizeof(*t->fd));
	t->fd[t->n++] = fd;
}

void sandbox_trees_done(struct sandbox_trees *t)
{
	for (size_t i = 0; i < t->n; i++)
		mem_cleanup_fd(&t->fd[i]);
	free(t->fd);
	strv_done(&t->env);
	*t = (struct sandbox_trees){0};
}
