// SPDX-License-Identifier: Apache-2.0
/* /proc of the session's PID namespace. A process sees only processes that it may trace, so neither
 * init nor the leaders. Files that change the machine are read-only; files that show its internals
 * are covered.
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

enum treatment { SHUT, HIDE_FILE, HIDE_DIR };

static const struct {
	const char *path;
	enum treatment how;
} machine[] = {
	{"proc/sys", SHUT},
	{"proc/bus", SHUT},
	{"proc/fs", SHUT},
	{"proc/irq", SHUT},
	{"proc/kcore", HIDE_FILE},
	{"proc/keys", HIDE_FILE},
	{"proc/sysrq-trigger", HIDE_FILE},
	{"proc/timer_list", HIDE_FILE},
	{"proc/latency_stats", HIDE_FILE},
	{"proc/sched_debug", HIDE_FILE},
	{"proc/scsi", HIDE_DIR},
	{"proc/acpi", HIDE_DIR},
};
static const char *const options[] = {"hidepid", "invisible", NULL};

int inside_proc(struct inside *in, struct err *err)
{
	static const char *const covers[] = {
		[HIDE_FILE] = INSIDE_VOID_FILE, [HIDE_DIR] = INSIDE_VOID_DIR};
	const struct mnt_bind host = {AT_FDCWD, "/proc", in->root_fd, "proc", MNT_SHUT};
	const struct mnt_fs fs = {"proc", options,
				  MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	cleanup_fd int fd = -1;
	int r = mnt_make(&fs, &fd, err);

	/* Where the configuration lets the wall be missing, the host's /proc is better than none.
	 */
	if (r < 0 && plan_may_lack(&in->plan, WALL_pid_namespace)) {
		r = mnt_bind(&host, err);
		if (r == 0)
			wall_set(&in->walls, WALL_pid_namespace, WALL_PARTIAL,
				 "no /proc of its own: the host's processes can be seen");
		return r;
	}
	if (r == 0)
		r = mnt_place(fd, in->root_fd, "proc", err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(machine); i++) {
		const char *path = machine[i].path;
		const struct mnt_bind bind = {
			in->root_fd, machine[i].how == SHUT ? path : covers[machine[i].how],
			in->root_fd, path, MNT_SHUT | MOUNT_ATTR_NOEXEC};

		if (faccessat(in->root_fd, path, F_OK, 0) == 0 || errno != ENOENT)
			r = mnt_bind(&bind, err);
	}
	if (r == 0)
		wall_set(&in->walls, WALL_pid_namespace, WALL_UP,
			 "own processes; /proc hides init and the machine, /proc/sys read-only");
	return r;
}
