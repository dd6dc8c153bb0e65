// SPDX-License-Identifier: Apache-2.0
/* What agentsh-fs serves besides the workspace: which directories, and where init places them.
 *
 * The launcher has opened their trees as those of any writable list; here, in the main process,
 * some of them become the backing of agentsh-fs. init gets its one mount, of which each tree is a
 * directory, and places a clone of each. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define WORKSPACE "/" INSIDE_WORKSPACE

bool sandbox_serves(const struct sandbox_plan *plan, const char *path)
{
	for (size_t i = 0; i + 1 < plan->served.n; i += 2)
		if (path_within(path, plan->served.v[i]))
			return true;
	return false;
}

/* ---- which ---- */

/* Another list shows what the path leads to, which is a link in the session. */
static bool is_link(const struct sandbox_plan *p, const char *path, const char *real)
{
	const struct strv *const lists[] = {&p->read_only_paths, &p->passthrough_paths,
					    &p->monitored_paths};

	for (size_t i = 0; strcmp(real, path) != 0 && i < ARRAY_LEN(lists); i++)
		for (size_t k = 0; k < lists[i]->n; k++)
			if (path_within(real, lists[i]->v[k]) && strcmp(lists[i]->v[k], path) != 0)
				return true;
	return false;
}

/* The tree that the launcher has made, or with a normal user's server the directory; *fd stays -1
 * if the session does not see it as a directory of its own. */
static int open_monitored(const struct sandbox_plan *p, const char *path,
			  struct sandbox_trees *view, int *fd, char **origin, struct err *err)
{
	char real[PATH_MAX];
	int r = 0;

	for (size_t i = 0; p->privileged && view != NULL && i < view->n && 2 * i < p->late.n; i++)
		if (strcmp(p->late.v[2 * i], path) == 0) {
			*fd = take_fd(view->fd[i]);
			*origin = mem_strdup(p->late.v[2 * i + 1]);
			return 0;
		}
	if (p->privileged)
		return 0;
	r = inside_resolve(path, real, fd, err);
	if (r == 0 && *fd != -1)
		r = inside_may_show(p, path, real, err);
	if (r == 0 && *fd != -1 && is_link(p, path, real))
		close(take_fd(*fd));
	if (r == 0 && *fd != -1)
		*origin = mnt_origin(*fd, real);
	return r;
}

static int serve(struct sandbox_plan *p, const char *path, struct sandbox_trees *view,
		 struct sandbox_trees *out, struct err *err)
{
	cleanup_free char *origin = NULL;
	cleanup_fd int fd = -1;
	struct stat st;
	const bool repository = p->repository != NULL && strcmp(path, p->repository) == 0;
	/* The shipped policies know what git runs in a directory .git, and of no other name. */
	const bool known = !repository || strcmp(strrchr(path, '/'), "/.git") == 0;
	int r = known ? open_monitored(p, path, view, &fd, &origin, err) : 0;
	/* as mnt_origin writes them: the device and a path */
	const char *space = p->backing != NULL ? strchr(p->backing, ' ') : NULL;
	const size_t disk = space != NULL ? (size_t)(space + 1 - p->backing) : 0;

	if (r < 0 || fd == -1 || (repository && !p->privileged && !repository_is_proven(p, fd)))
		return r;
	if (fstat(fd, &st) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "fstat(%s)", path);
	/* A file is shown as it is. A part of the workspace is covered by it. */
	if (!S_ISDIR(st.st_mode) ||
	    (disk > 0 && origin != NULL && strncmp(origin, p->backing, disk) == 0 &&
	     path_within(origin + disk, p->backing + disk))) {
		for (size_t i = 0; view != NULL && 2 * i < p->late.n; i++)
			if (strcmp(p->late.v[2 * i], path) == 0)
				view->fd[i] = take_fd(fd);
		return 0;
	}
	strv_add(&p->served, path);
	strv_add(&p->served, origin != NULL ? origin : "");
	if (out != NULL)
		sandbox_trees_add(out, take_fd(fd));
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int cannot(const char *path, const char *why, struct err *err)
{
	return err_set(err, E_ENFORCEMENT, wall_name(WALL_file_rules),
		       "monitoring.hybrid.fuse_enforce has %s, and %s; take it out, or see that "
		       "each session has this directory",
		       path, why);
}

/* A directory of the workspace. It is the one that is mounted over: no link leads to it. */
static int enforce_below(struct sandbox_plan *p, const char *path, int workspace,
			 struct sandbox_trees *out, struct err *err)
{
	const char *backing = p->backing != NULL ? strchr(p->backing, ' ') : NULL;
	cleanup_free char *at = backing != NULL ? path_swap(path, WORKSPACE, backing + 1) : NULL;
	cleanup_free char *origin =
		at != NULL ? mem_printf("%.*s %s", (int)(backing - p->backing), p->backing, at)
			   : NULL;
	cleanup_fd int fd = -1;

	if (out != NULL) {
		fd = fdio_openat2(workspace, path + strlen(WORKSPACE) + 1, O_PATH | O_DIRECTORY,
				  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
		if (fd == -1)
			return cannot(path,
				      errno == EXDEV ? "a mount of the machine leads to it"
						     : "the workspace has no such directory",
				      err);
		sandbox_trees_add(out, take_fd(fd));
	}
	strv_add(&p->served, path);
	strv_add(&p->served, origin != NULL ? origin : "");
	return 0;
}

/* Everything that a path of the list is in is served first. */
static int serve_all(struct sandbox_plan *p, const struct strv *paths, int workspace,
		     struct sandbox_trees *view, struct sandbox_trees *out, struct err *err)
{
	const bool enforced = p->enforced_paths.n > 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < paths->n; i++) {
		const char *path = paths->v[i];

		if (sandbox_serves(p, path) || inside_is_system(path))
			continue;
		r = path_within(path, WORKSPACE) ? enforce_below(p, path, workspace, out, err)
						 : serve(p, path, view, out, err);
		if (r == 0 && enforced && out != NULL && !sandbox_serves(p, path))
			r = cannot(path, "sessions see no such directory", err);
	}
	return r;
}

int sandbox_serve(struct sandbox_plan *plan, int workspace, struct sandbox_trees *view,
		  struct sandbox_trees *out, struct err *err)
{
	const bool enforced = plan->enforced_paths.n > 0;
	cleanup_strv struct strv paths = {0};
	int r;

	if (!plan->fuse && enforced && !wall_listed(&plan->unenforced, WALL_file_rules))
		return err_set(
			err, E_ENFORCEMENT, wall_name(WALL_file_rules),
			"monitoring.mode is hybrid, and this session can have no FUSE mount: "
			"load the fuse module or pass /dev/fuse into the container, or list "
			"file_rules in sandbox.allow_unenforced");
	if (!plan->fuse)
		return 0;
	strv_copy(&paths, enforced ? &plan->enforced_paths : &plan->monitored_paths);
	if (!enforced || strv_has(&paths, WORKSPACE)) {
		strv_add(&plan->served, WORKSPACE);
		strv_add(&plan->served, plan->backing != NULL ? plan->backing : "");
	}
	if (paths.n > 0)
		qsort(paths.v, paths.n, sizeof(*paths.v), by_path); /* a directory comes first */
	r = serve_all(plan, &paths, workspace, view, out, err);
	/* What lies in a tree belongs to it, whatever list has it. */
	for (size_t i = 0; view != NULL && i < view->n && 2 * i < plan->late.n; i++)
		if (view->fd[i] != -1 && sandbox_serves(plan, plan->late.v[2 * i]))
			close(take_fd(view->fd[i]));
	return r;
}

/* ---- mounts of the machine in trees ---- */

/* The path of an origin (mnt_origin) if it is on the disk of the mount, or NULL. */
static const char *on_disk(const char *origin, const struct mnt_line *line)
{
	const size_t len = strlen(line->dev);

	return strncmp(origin, line->dev, len) == 0 && origin[len] == ' ' ? origin + len + 1 : NULL;
}

/* Where the mount shows a part of tree `of` in tree `in`, which has this real path. Wherever the
 * root of the first tree is, it is known (NODE_ALIAS). */
static void add_double(const struct sandbox_plan *p, const struct mnt_line *line, size_t in,
		       size_t of, const char *real, struct strv *out)
{
	const char *to = on_disk(p->served.v[2 * of + 1], line);
	const char *own = on_disk(p->served.v[2 * in + 1], line);
	cleanup_free char *path = NULL, *name = NULL;

	/* the workspace in another tree: what is in both is the workspace's */
	if (to == NULL || strcmp(line->point, real) == 0 ||
	    (own != NULL && path_within(line->root, own) && path_within(own, to)))
		return;
	if (path_within(line->root, to) && strcmp(line->root, to) != 0)
		path = mem_strdup(line->point);
	else if (of != 0)
		path = path_swap(to, line->root, line->point);
	name = path != NULL ? path_swap(path, real, p->served.v[2 * in]) : NULL;
	if (name != NULL)
		strv_add(out, name);
}

int sandbox_doubles(const struct sandbox_plan *plan, const char *workspace, struct strv *out,
		    struct err *err)
{
	cleanup_buf struct buf text = {0};
	char real[PATH_MAX], *next;
	struct mnt_line line;
	int r = fdio_load_path("/proc/self/mountinfo", MNT_LIST_MAX, &text, err);

	for (next = text.data; r == 0 && mnt_next(&next, &line);)
		for (size_t in = 0; 2 * in < plan->served.n; in++) {
			const char *path = plan->served.v[2 * in];
			cleanup_free char *own = path_swap(path, WORKSPACE, workspace);

			if (own == NULL && realpath(path, real) == NULL)
				snprintf(real, sizeof(real), "%s", path);
			for (size_t of = 0; 2 * of < plan->served.n; of++)
				if (of != in)
					add_double(plan, &line, in, of, own != NULL ? own : real,
						   out);
		}
	return r;
}

/* ---- inside ---- */

static int clone_all(struct inside *in, int mount, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < in->plan.served.n / 2; i++) {
		char name[24];
		int fd;

		snprintf(name, sizeof(name), "%zu", i);
		r = mnt_clone(mount, name, &fd, err);
		if (r == 0)
			sandbox_trees_add(&in->served, fd);
	}
	return r;
}

int inside_open_served(struct inside *in, int mount, struct err *err)
{
	int r = clone_all(in, mount, err);

	/* Kernels before 6.15 clone only what is attached. */
	if (r < 0 && in->served.n == 0 &&
	    mnt_place(mount, in->root_fd, INSIDE_WORKSPACE, err) == 0) {
		r = clone_all(in, mount, err);
		if (r == 0 && umount2(WORKSPACE, MNT_DETACH) < 0)
			r = err_errno(err, E_ENFORCEMENT, WORKSPACE, "umount2(" WORKSPACE ")");
	}
	if (r == 0 && sandbox_serves(&in->plan, WORKSPACE)) {
		mem_cleanup_fd(&in->tree_fd);
		in->tree_fd = take_fd(in->served.fd[0]);
	}
	return r;
}

/* Numbers of inodes as agentsh-fs shows them have the device in the upper bits (node_number). */
#define INO_BITS 48

/* The directory that the tree is of; it cannot be another one that took its place meanwhile. */
static int cover_below(const struct inside *in, int tree, const char *path, struct err *err)
{
	cleanup_fd int at = fdio_openat2(in->root_fd, path + 1, O_PATH | O_DIRECTORY,
					 RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
	struct stat here, there;

	if (at == -1 || fstat(at, &here) < 0 || fstat(tree, &there) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "cannot open %s", path);
	if ((here.st_ino ^ there.st_ino) << (64 - INO_BITS) != 0)
		return err_set(err, E_ENFORCEMENT, path, "%s was replaced meanwhile", path);
	return mnt_cover(tree, at, path, err);
}

int inside_served(struct inside *in, bool below, struct err *err)
{
	const struct strv *served = &in->plan.served;
	int r = 0;

	for (size_t i = 0; r == 0 && i < in->served.n; i++) {
		const char *path = served->v[2 * i];

		if (in->served.fd[i] == -1 || path_within(path, WORKSPACE) != below)
			continue;
		/* Where a list shows the directory above it, the session could rename that. */
		r = inside_hold_above(&in->plan, path, err);
		if (r == 0)
			r = below ? cover_below(in, in->served.fd[i], path, err)
				  : inside_put(in, in->served.fd[i], path, err);
	}
	return r;
}
