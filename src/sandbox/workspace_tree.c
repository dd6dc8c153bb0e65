// SPDX-License-Identifier: Apache-2.0
/* The launcher turns a path that a client named into a tree that init can mount. It checks the
 * directory that it opened, so that a path that changes in between gains nothing. */
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/idmap.h"
#include "sandbox/mnt.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define GROUPS_MAX 65536

/* A workspace may neither contain these nor lie in them. */
static const char *const refused[] = {"/proc", "/sys", "/dev", "/run/agentsh"};
#define SHARED_MEMORY "/dev/shm" /* plain files, though below /dev */

/* ---- with the caller's ids ---- */

struct eyes {
	gid_t *groups; /* owned; the launcher's, to be restored */
	int n;
	uid_t fsuid;
	gid_t fsgid;
};

/* Opens files with the caller's uid and primary gid only. System calls, not libc's wrappers, which
 * signal every thread. */
static int eyes_borrow(struct eyes *e, uint32_t uid, uint32_t gid, struct err *err)
{
	e->n = getgroups(0, NULL);
	if (e->n == -1 || e->n > GROUPS_MAX)
		return err_errno(err, E_INTERNAL, NULL, "getgroups");
	e->groups = mem_resize(NULL, (size_t)e->n, sizeof(*e->groups));
	e->n = getgroups(e->n, e->groups);
	if (e->n == -1 || syscall(SYS_setgroups, 0, NULL) < 0) {
		free(take(e->groups));
		return err_errno(err, E_INTERNAL, NULL, "setgroups");
	}
	e->fsgid = (gid_t)syscall(SYS_setfsgid, gid);
	e->fsuid = (uid_t)syscall(SYS_setfsuid, uid);
	return 0;
}

/* ---- opening and checking ---- */

static int open_error(const char *path, struct err *err)
{
	switch (errno) {
	case ENOENT:
		return err_errno(err, E_NOT_FOUND, path, "workspace %s", path);
	case EACCES:
	case EPERM:
		return err_errno(err, E_FORBIDDEN, path, "workspace %s", path);
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG:
		return err_errno(err, E_BAD_REQUEST, path, "workspace %s", path);
	default:
		return err_errno(err, E_INTERNAL, path, "workspace %s", path);
	}
}

static int open_dir(const struct sandbox_workspace_ask *ask, bool privileged, int *out,
		    struct err *err)
{
	struct eyes eyes = {0};
	int fd, errnum, r;

	if (ask->path == NULL || ask->path[0] != '/')
		return err_set(err, E_BAD_REQUEST, ask->path,
			       "workspace '%s' is not an absolute path",
			       ask->path != NULL ? ask->path : "");
	if (privileged) {
		r = eyes_borrow(&eyes, ask->uid, ask->gid, err);
		if (r < 0)
			return r;
	}
	fd = open(ask->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	errnum = errno;
	if (privileged) {
		syscall(SYS_setfsuid, eyes.fsuid);
		syscall(SYS_setfsgid, eyes.fsgid);
		r = (int)syscall(SYS_setgroups, (size_t)eyes.n, eyes.groups);
		free(eyes.groups);
		if (r < 0) {
			mem_cleanup_fd(&fd);
			return err_errno(err, E_UNAVAILABLE, NULL, "setgroups");
		}
	}
	errno = errnum;
	if (fd == -1)
		return open_error(ask->path, err);
	*out = fd;
	return 0;
}

static int check(int fd, const struct sandbox_workspace_ask *ask, const char *real, struct err *err)
{
	struct stat st;

	for (size_t i = 0; !path_within(real, SHARED_MEMORY) && i < ARRAY_LEN(refused); i++)
		if (path_overlap(real, refused[i]))
			return err_set(err, E_FORBIDDEN, real, "workspace %s %s %s", real,
				       path_within(real, refused[i]) ? "is in" : "contains",
				       refused[i]);
	if (fstat(fd, &st) < 0)
		return err_errno(err, E_INTERNAL, real, "fstat(%s)", real);
	if (st.st_nlink == 0)
		return err_set(err, E_NOT_FOUND, ask->path, "workspace %s has been removed",
			       ask->path);
	if (ask->uid == 0 || st.st_uid == ask->uid)
		return 0;
	for (size_t i = 0; ask->listed != NULL && i < ask->listed->n; i++) {
		cleanup_free char *dir = realpath(ask->listed->v[i], NULL);

		if (dir != NULL && path_within(real, dir))
			return 0;
	}
	return err_set(err, E_FORBIDDEN, real,
		       "workspace %s belongs to uid %u, not %u (sandbox.workspaces can list it)",
		       real, st.st_uid, ask->uid);
}

/* ---- the tree ---- */

static int clone_tree(int dir, const struct sandbox_plan *plan,
		      const struct sandbox_workspace_ask *ask, const char *real, int *out,
		      struct err *err)
{
	cleanup_fd int tree = -1;
	struct err why = {0};
	int r = mnt_clone(dir, "", &tree, &why);

	if (r == 0)
		r = mnt_set(tree, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, real, &why);
	if (r < 0)
		return err_set(
			err, E_ENFORCEMENT, wall_name(WALL_mount_namespace),
			"%s: %s; a server of root's needs CAP_SYS_ADMIN and no filter around "
			"it that refuses this, or run it as a normal user",
			wall_name(WALL_mount_namespace), why.message);
	if (plan->idmap)
		r = idmap_tree(tree, ask->userns, real, ask->fs, err);
	if (r == 0)
		*out = take_fd(tree);
	return r;
}

int sandbox_workspace(const struct sandbox_workspace_ask *ask, const struct sandbox_plan *plan,
		      int *tree_fd, char **real, struct err *err)
{
	const bool privileged = plan->privileged != 0;
	cleanup_fd int dir = -1;
	char name[PATH_MAX];
	ssize_t n;
	int r = open_dir(ask, privileged, &dir, err);

	if (r < 0)
		return r;
	n = mnt_name(dir, name);
	if (n == -1)
		return err_errno(err, E_INTERNAL, ask->path, "readlink(/proc/self/fd/%d)", dir);
	if (name[0] != '/' || n == PATH_MAX - 1)
		return err_set(err, E_INTERNAL, ask->path, "workspace %s cannot be named",
			       ask->path);
	r = check(dir, ask, name, err);
	if (r == 0 && privileged)
		r = clone_tree(dir, plan, ask, name, tree_fd, err);
	else if (r == 0)
		*tree_fd = take_fd(dir);
	if (r == 0)
		*real = mem_strdup(name);
	return r;
}
