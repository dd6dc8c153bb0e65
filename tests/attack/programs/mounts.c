// SPDX-License-Identifier: Apache-2.0
/* Namespaces and mounts, by the old calls and the new ones. What an attack needs beforehand is
 * tried too and may fail: the call that it is about then still has to be refused. */
#include "attack.h"
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif
#define OLD_MS_BIND 4096
#define OLD_MNT_DETACH 2

int mount(const char *source, const char *target, const char *type, unsigned long flags,
	  const void *data);
int umount2(const char *target, int flags);

static int new_mount(void)
{
	return outcome(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int remount_writable(void)
{
	mount("/usr", "/usr", NULL, OLD_MS_BIND, NULL);
	return outcome(mount(NULL, "/usr", NULL, MS_REMOUNT | OLD_MS_BIND, NULL));
}

static int uncover(void)
{
	return outcome(umount2("/proc", OLD_MNT_DETACH));
}

static int change_root_mount(void)
{
	mount("none", "/tmp", "tmpfs", 0, NULL);
	if (chdir("/tmp") < 0)
		return BROKEN;
	return outcome(syscall(SYS_pivot_root, ".", "."));
}

static int change_root(void)
{
	return outcome(chroot("/tmp"));
}

static int clone_tree(int flags)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, "/tmp",
			    (unsigned)flags | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

static int take_tree(void)
{
	return outcome(clone_tree(0));
}

static int take_tree_writable(void)
{
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};

	return outcome(syscall(SYS_open_tree_attr, AT_FDCWD, "/usr",
			       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC, &attr, sizeof(attr)));
}

static int place_tree(void)
{
	const int tree = clone_tree(0);

	return outcome(
		syscall(SYS_move_mount, tree, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH));
}

static int new_filesystem(void)
{
	return outcome(syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC));
}

static int configure_filesystem(void)
{
	const long fs = syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	return outcome(syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0));
}

static int mount_filesystem(void)
{
	const long fs = syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	return outcome(syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0));
}

static int pick_filesystem(void)
{
	return outcome(syscall(SYS_fspick, AT_FDCWD, "/", FSPICK_CLOEXEC));
}

static int make_writable(void)
{
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};

	mount("/usr", "/usr", NULL, OLD_MS_BIND, NULL);
	return outcome(syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, &attr, sizeof(attr)));
}

static int new_user_namespace(void)
{
	return outcome(unshare(CLONE_NEWUSER));
}

static int new_mount_namespace(void)
{
	return outcome(unshare(CLONE_NEWNS));
}

static int new_time_namespace(void)
{
	return outcome(unshare(CLONE_NEWTIME));
}

static int clone_user_namespace(void)
{
	const long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	return outcome(pid);
}

static int clone3_user_namespace(void)
{
	struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
	const long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		_exit(0);
	return outcome(pid);
}

static int enter_namespace(void)
{
	const int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);

	if (fd == -1)
		return BROKEN;
	return outcome(setns(fd, CLONE_NEWUTS));
}

/* Namespaces of a process by its pidfd, without /proc. */
static int enter_by_pidfd(void)
{
	const long fd = syscall(SYS_pidfd_open, getpid(), 0);

	if (fd == -1)
		return BROKEN;
	return outcome(setns((int)fd, CLONE_NEWUTS | CLONE_NEWIPC));
}

/* The agent that the kernel runs as root on the host when a cgroup is empty. */
static int release_agent(void)
{
	const char *at = "/tmp/agentsh-attack-cgroup";
	char path[128];

	mkdir(at, 0700);
	if (mount("cgroup", at, "cgroup", 0, place("CGROUP_V1")) < 0)
		return errno;
	snprintf(path, sizeof(path), "%s/release_agent", at);
	return try_open(path, O_WRONLY);
}

const struct attack mount_attacks[] = {
	{"mount", new_mount},
	{"remount_writable", remount_writable},
	{"umount", uncover},
	{"pivot_root", change_root_mount},
	{"chroot", change_root},
	{"open_tree", take_tree},
	{"open_tree_attr", take_tree_writable},
	{"move_mount", place_tree},
	{"fsopen", new_filesystem},
	{"fsconfig", configure_filesystem},
	{"fsmount", mount_filesystem},
	{"fspick", pick_filesystem},
	{"mount_setattr", make_writable},
	{"unshare_user", new_user_namespace},
	{"unshare_mount", new_mount_namespace},
	{"unshare_time", new_time_namespace},
	{"clone_user", clone_user_namespace},
	{"clone3_user", clone3_user_namespace},
	{"setns", enter_namespace},
	{"setns_pidfd", enter_by_pidfd},
	{"release_agent", release_agent},
	{0},
};
