// SPDX-License-Identifier: Apache-2.0
/* /proc of our PID namespace, with everything that changes the machine read-only.
 *
 * In a user namespace the kernel mounts a new proc only where one is visible that nothing covers
 * (mount_too_revealing); container engines cover theirs. */
#include "base/mem.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include "sandbox/plan.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static const char *const read_only[] = {"proc/sys", "proc/sysrq-trigger", "proc/irq", "proc/bus",
					"proc/fs"};

static int shut_machine(int root, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(read_only); i++) {
		const struct mnt_bind bind = {root, read_only[i], root, read_only[i], MNT_SHUT};
		struct stat st;
		int r;

		if (fstatat(root, read_only[i], &st, 0) != 0 && errno == ENOENT)
			continue;
		r = mnt_bind(&bind, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Where the configuration lets the wall be missing, the host's /proc is better than none. */
static int borrow_proc(struct inside *in, struct err *err)
{
	const struct mnt_bind bind = {AT_FDCWD, "/proc", in->root_fd, "proc", MNT_SHUT};
	int r = mnt_bind(&bind, err);

	if (r == 0)
		wall_set(&in->walls, WALL_pid_namespace, WALL_PARTIAL,
			 "no /proc of its own: the host's processes can be seen");
	return r;
}

int inside_proc(struct inside *in, struct err *err)
{
	const struct mnt_fs fs = {"proc", NULL,
				  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	cleanup_fd int fd = -1;
	int r = mnt_make(&fs, &fd, err);

	if (r < 0 && plan_may_lack(&in->plan, WALL_pid_namespace))
		return borrow_proc(in, err);
	if (r == 0)
		r = mnt_place(fd, in->root_fd, "proc", err);
	if (r == 0)
		r = shut_machine(in->root_fd, err);
	if (r == 0)
		wall_set(&in->walls, WALL_pid_namespace, WALL_UP,
			 "own processes and /proc; /proc/sys read-only");
	return r;
}
