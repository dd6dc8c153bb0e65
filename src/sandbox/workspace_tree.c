// SPDX-License-Identifier: Apache-2.0
/* The launcher turns a path that a client named into a tree that init can mount, and maps the
 * owners of its files. It checks the directory that it opened, so that a path that changes in
 * between gains nothing. */
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/mnt.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define GROUPS_MAX 65536
#define STACK_BYTES (16 * 1024)
#define LAST_ID UINT32_C(4294967294) /* the next number means "no id" */

/* A workspace may neither contain these nor lie in them. */
static const char *const refused[] = {"/proc", "/sys", "/dev", "/run/agentsh"};
#define SHARED_MEMORY "/dev/shm" /* has plain files, although it is below /dev */

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
	const enum err_code code = errno == ENOENT			? E_NOT_FOUND
				   : errno == EACCES || errno == EPERM	? E_FORBIDDEN
				   : errno == ENOTDIR || errno == ELOOP ? E_BAD_REQUEST
				   : errno == ENAMETOOLONG		? E_BAD_REQUEST
									: E_INTERNAL;

	return err_errno(err, code, path, "workspace %s", path);
}

int open_as_caller(const struct sandbox_workspace_ask *ask, bool privileged, const char *path,
		   int flags, int *out, struct err *err)
{
	struct eyes eyes = {0};
	int fd, errnum, r;

	if (privileged) {
		r = eyes_borrow(&eyes, ask->uid, ask->gid, err);
		if (r < 0)
			return r;
	}
	fd = open(path, flags | O_CLOEXEC);
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
		return open_error(path, err);
	*out = fd;
	return 0;
}

static int open_dir(const struct sandbox_workspace_ask *ask, bool privileged, int *out,
		    struct err *err)
{
	if (ask->path == NULL || ask->path[0] != '/')
		return err_set(err, E_BAD_REQUEST, ask->path,
			       "workspace '%s' is not an absolute path",
			       ask->path != NULL ? ask->path : "");
	return open_as_caller(ask, privileged, ask->path, O_PATH | O_DIRECTORY, out, err);
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

/* ---- idmapped mounts: two ids change places, all others stay ---- */

static void line(struct buf *out, uint32_t from, uint32_t to, uint64_t count)
{
	if (count > 0)
		buf_addf(out, "%u %u %llu\n", from, to, (unsigned long long)count);
}

void idmap_format(struct buf *out, uint32_t a, uint32_t b)
{
	const uint32_t low = a < b ? a : b, high = a < b ? b : a;

	line(out, 0, 0, low);
	if (low != high) {
		line(out, low, high, 1);
		line(out, low + 1, low + 1, high - low - 1);
	}
	line(out, high, low, 1);
	line(out, high + 1, high + 1, LAST_ID - high);
}

/* A namespace exists while a process or a descriptor holds it. A child sleeps in it until the
 * launcher has written its maps and opened it. The child shares the launcher's memory, so that a
 * large launcher is not copied. It touches only its stack, and dies with the launcher. */
static int sleeper(void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	for (;;)
		pause();
	return 0;
}

static int write_map(pid_t pid, const char *name, uint32_t a, uint32_t b, struct err *err)
{
	cleanup_buf struct buf text = {0};
	cleanup_fd int fd = -1;
	char path[64];

	idmap_format(&text, a, b);
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd == -1 || fdio_write_all(fd, text.data, text.len) < 0)
		return err_errno(err, E_ENFORCEMENT, name,
				 "cannot write the %s of an idmapped mount", name);
	return 0;
}

int sandbox_idmap(const struct idmap *m, int *userns, struct err *err)
{
	cleanup_free char *stack = mem_alloc(STACK_BYTES);
	cleanup_fd int fd = -1;
	sigset_t all, old;
	char path[64];
	pid_t pid;
	int r;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = clone(sleeper, stack + STACK_BYTES, CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid == -1 && mnt_chrooted("uid", err))
		return -E_ENFORCEMENT;
	if (pid == -1)
		return err_errno(err, E_ENFORCEMENT, "uid",
				 "the workspace's owners cannot be mapped without a user namespace "
				 "(raise user.max_user_namespaces, or list uid in "
				 "sandbox.allow_unenforced): clone(CLONE_NEWUSER)");
	r = write_map(pid, "uid_map", m->disk_uid, m->shown_uid, err);
	if (r == 0)
		r = write_map(pid, "gid_map", m->disk_gid, m->shown_gid, err);
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	if (r == 0 && (fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		r = err_errno(err, E_ENFORCEMENT, path, "open(%s)", path);
	if (r == 0)
		*userns = take_fd(fd);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) == -1 && errno == EINTR)
		;
	return r;
}

static bool maps(const char *path, struct mount_attr *attr)
{
	cleanup_fd int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return tree == -1 || mount_setattr(tree, "", AT_EMPTY_PATH, attr, sizeof(*attr)) == 0;
}

/* The type of the first file system at or below a path that cannot be mapped. */
static void find_unmapped(const char *real, struct mount_attr *attr, char out[SANDBOX_FS])
{
	cleanup_buf struct buf text = {0};
	struct mnt_line line;
	char *next;
	size_t longest = 0;

	snprintf(out, SANDBOX_FS, "unknown");
	if (fdio_load_path("/proc/self/mountinfo", MNT_LIST_MAX, &text, NULL) < 0)
		return;
	for (next = text.data; mnt_next(&next, &line);) {
		if (path_within(real, line.point) && strlen(line.point) >= longest) {
			longest = strlen(line.point);
			snprintf(out, SANDBOX_FS, "%s", line.type);
		} else if (path_within(line.point, real) && maps(real, attr) &&
			   !maps(line.point, attr)) {
			snprintf(out, SANDBOX_FS, "%s", line.type);
			return;
		}
	}
}

int idmap_tree(int tree, int userns, const char *real, char *fs, struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
	char type[SANDBOX_FS];
	int errnum;

	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) == 0)
		return 0;
	errnum = errno;
	find_unmapped(real, &attr, type);
	if (fs != NULL)
		memcpy(fs, type, sizeof(type));
	errno = errnum;
	return err_errno(err, E_ENFORCEMENT, "uid",
			 "the owners of %s cannot be mapped (its file system, %s, has no idmapped "
			 "mounts; use another one, or list uid in sandbox.allow_unenforced)",
			 real, type);
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
	if (ask->backing != NULL)
		mem_replace(ask->backing, mnt_origin(dir, name));
	/* The repository has proven itself for a workspace of this path. */
	if (ask->repository != NULL && *ask->repository != -1 &&
	    strcmp(plan->real_path, name) != 0) {
		close(*ask->repository);
		*ask->repository = -1;
	}
	if (r == 0 && privileged)
		r = clone_tree(dir, plan, ask, name, tree_fd, err);
	else if (r == 0)
		*tree_fd = take_fd(dir);
	if (r == 0)
		*real = mem_strdup(name);
	return r;
}
