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

/* Of places as mnt_origin writes them. */
static bool lies_in(const char *origin, const char *dir)
{
	const char *a = origin != NULL ? strchr(origin, ' ') : NULL;
	const char *b = dir != NULL ? strchr(dir, ' ') : NULL;

	return a != NULL && b != NULL && a - origin == b - dir &&
	       memcmp(origin, dir, (size_t)(a - origin)) == 0 && path_within(a + 1, b + 1);
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
	int r = open_monitored(p, path, view, &fd, &origin, err);

	if (r < 0 || fd == -1)
		return r;
	if (fstat(fd, &st) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "fstat(%s)", path);
	/* A file is shown as it is. A part of the workspace is covered by it. */
	if (!S_ISDIR(st.st_mode) || lies_in(origin, p->backing)) {
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

int sandbox_serve(struct sandbox_plan *plan, struct sandbox_trees *view, struct sandbox_trees *out,
		  struct err *err)
{
	cleanup_strv struct strv paths = {0};
	int r = 0;

	if (!plan->fuse)
		return 0;
	strv_add(&plan->served, WORKSPACE);
	strv_add(&plan->served, plan->backing != NULL ? plan->backing : "");
	strv_copy(&paths, &plan->monitored_paths);
	if (paths.n > 0)
		qsort(paths.v, paths.n, sizeof(*paths.v), by_path); /* a directory comes first */
	for (size_t i = 0; r == 0 && i < paths.n; i++)
		if (!sandbox_serves(plan, paths.v[i]) && !inside_is_system(paths.v[i]))
			r = serve(plan, paths.v[i], view, out, err);
	/* What lies in a tree belongs to it, whatever list has it. */
	for (size_t i = 0; view != NULL && i < view->n && 2 * i < plan->late.n; i++)
		if (view->fd[i] != -1 && sandbox_serves(plan, plan->late.v[2 * i]))
			close(take_fd(view->fd[i]));
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
	if (r == 0) {
		mem_cleanup_fd(&in->tree_fd);
		in->tree_fd = take_fd(in->served.fd[0]);
	}
	return r;
}

int inside_served(struct inside *in, struct err *err)
{
	const struct strv *served = &in->plan.served;
	int r = 0;

	for (size_t i = 1; r == 0 && i < in->served.n; i++) {
		/* Where a list shows the directory above it, the session could rename that. */
		r = inside_hold_above(&in->plan, served->v[2 * i], err);
		if (r == 0)
			r = inside_put(in, in->served.fd[i], served->v[2 * i], err);
	}
	return r;
}
