// SPDX-License-Identifier: Apache-2.0
/* The size of a tmpfs can be changed while it is in use, by fspick(2) of any of its mount points.
 * The path leads through /proc/INIT/root; that root is read-only, so no command can put a link
 * there. */
#include "base/mem.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MB (UINT64_C(1) << 20)
#define ATTEMPTS 3
#define PLACE "tmp" /* one of the directories that share it */

int scratch_root(pid_t init)
{
	struct stat ours, theirs;
	cleanup_fd int root = -1;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/root", (int)init);
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root == -1 || fstat(root, &theirs) < 0 || stat("/", &ours) < 0)
		return -1;
	if (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino) {
		errno = EBUSY;
		return -1;
	}
	return take_fd(root);
}

/* -1/errno */
static int space_of(int root, struct statfs *out)
{
	cleanup_fd int dir = openat(root, PLACE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir == -1 ? -1 : fstatfs(dir, out);
}

static int read_space(int root, struct statfs *out, struct err *err)
{
	if (root == -1 || space_of(root, out) < 0)
		return err_errno(err, E_ENFORCEMENT, wall_name(WALL_disk_limit),
				 "%s: the session's scratch files cannot be reached (its space is "
				 "set when it is made)",
				 wall_name(WALL_disk_limit));
	return 0;
}

static uint64_t size_of(const struct statfs *fs)
{
	return (uint64_t)fs->f_blocks * (uint64_t)fs->f_bsize;
}

/* The space in use, rounded up. */
static uint64_t used_mb(const struct statfs *fs)
{
	return (((uint64_t)fs->f_blocks - (uint64_t)fs->f_bfree) * (uint64_t)fs->f_bsize + MB - 1) /
	       MB;
}

int scratch_get(int root, uint64_t *bytes, struct err *err)
{
	struct statfs fs;
	const int r = read_space(root, &fs, err);

	if (r == 0)
		*bytes = size_of(&fs);
	return r;
}

int scratch_set(int root, uint64_t bytes, struct wall_report *walls, struct err *err)
{
	const char *wall = wall_name(WALL_disk_limit);
	const unsigned long long mb = bytes >> 20;
	cleanup_fd int fd =
		(int)syscall(SYS_fspick, root, PLACE,
			     FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW | FSPICK_NO_AUTOMOUNT);
	struct statfs fs;
	char size[24];

	snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
	if (fd != -1 && syscall(SYS_fsconfig, fd, FSCONFIG_SET_STRING, "size", size, 0) == 0 &&
	    syscall(SYS_fsconfig, fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) == 0) {
		wall_set(walls, WALL_disk_limit, WALL_PARTIAL,
			 "%llu MB for /tmp, /var/tmp, /dev/shm and a home that is not kept, "
			 "together; the workspace is not limited",
			 mb);
		return 0;
	}
	if (errno != EINVAL || space_of(root, &fs) < 0)
		return err_errno(err, E_ENFORCEMENT, wall,
				 "%s: only a server of root can change the space of a running "
				 "session",
				 wall);
	return err_set(err, E_CONFLICT, wall,
		       "%s: %llu MB are in use, more than the %llu MB that were asked for", wall,
		       (unsigned long long)used_mb(&fs), mb);
}

int scratch_lower(int root, uint64_t bytes, struct wall_report *walls, struct err *err)
{
	int r = 0;

	/* A command may write more between the look and the change. */
	for (int i = 0; i < ATTEMPTS; i++) {
		struct statfs fs;
		uint64_t to;

		r = read_space(root, &fs, err);
		if (r < 0)
			return r;
		to = used_mb(&fs) * MB > bytes ? used_mb(&fs) * MB : bytes;
		if (to >= size_of(&fs))
			return 0;
		r = scratch_set(root, to, walls, err);
		if (r != -E_CONFLICT)
			break;
	}
	return r;
}
