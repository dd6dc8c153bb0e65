// SPDX-License-Identifier: Apache-2.0
/* A namespace exists while a process or a descriptor holds it. A child sleeps in it until the
 * launcher has written its maps and opened it. The child shares the launcher's memory, so that a
 * large launcher is not copied. It touches only its stack, and dies with the launcher. */
#include "sandbox/idmap.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/mnt.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define STACK_BYTES (16 * 1024)
#define LAST_ID UINT32_C(4294967294) /* the one above means "none" */

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

static int sleeper(void *arg)
{
	(void)arg;
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

/* ---- trees ---- */

static bool maps(int dir, const char *path, struct mount_attr *attr)
{
	cleanup_fd int tree = open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	return tree == -1 || mount_setattr(tree, "", AT_EMPTY_PATH, attr, sizeof(*attr)) == 0;
}

/* The type of the first file system at or below a path that cannot be mapped. */
static void find_unmapped(const char *real, struct mount_attr *attr, char out[IDMAP_FS])
{
	cleanup_buf struct buf text = {0};
	char *next, *point, *type;
	size_t longest = 0;

	snprintf(out, IDMAP_FS, "unknown");
	if (fdio_load_path("/proc/self/mountinfo", MNT_LIST_MAX, &text, NULL) < 0)
		return;
	for (next = text.data; mnt_next(&next, &point, &type);) {
		if (path_within(real, point) && strlen(point) >= longest) {
			longest = strlen(point);
			snprintf(out, IDMAP_FS, "%s", type);
		} else if (path_within(point, real) && maps(AT_FDCWD, real, attr) &&
			   !maps(AT_FDCWD, point, attr)) {
			snprintf(out, IDMAP_FS, "%s", type);
			return;
		}
	}
}

int idmap_tree(int tree, int userns, const char *real, char fs[IDMAP_FS], struct err *err)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns};
	char type[IDMAP_FS];
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
