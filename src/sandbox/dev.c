// SPDX-License-Identifier: Apache-2.0
/* /dev: six harmless devices, terminals of our own, the usual links. Part of the root's tmpfs, so
 * it is read-only in the end (a device on a read-only mount can still be written to). */
#include "base/mem.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const struct {
	const char *path; /* on the host */
	unsigned major, minor;
} nodes[] = {
	{"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
	{"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
};
const char *const inside_devices[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
				      "/dev/urandom", "/dev/tty",  NULL};
static const struct {
	const char *target, *path;
} links[] = {
	{"/proc/self/fd", "dev/fd"},	   {"/proc/self/fd/0", "dev/stdin"},
	{"/proc/self/fd/1", "dev/stdout"}, {"/proc/self/fd/2", "dev/stderr"},
	{"pts/ptmx", "dev/ptmx"},
};
/* The kernel has 4,096 terminals for all (kernel.pty.max). */
static const char *const pts_options[] = {"mode", "0600", "ptmxmode", "0666", "max", "64", NULL};

/* A node where we may make one, else the host's own by a bind. */
static int make_node(const struct inside *in, size_t i, struct err *err)
{
	const char *at = nodes[i].path + 1;
	const dev_t dev = makedev(nodes[i].major, nodes[i].minor);
	const struct mnt_bind bind = {AT_FDCWD, nodes[i].path, in->root_fd, at,
				      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};

	if (inside_by_root(in) && mknodat(in->root_fd, at, S_IFCHR | 0666, dev) == 0)
		return 0;
	if (mknodat(in->root_fd, at, S_IFREG | 0666, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, at, "mknodat(/%s)", at);
	return mnt_bind(&bind, err);
}

/* Every mount of devpts is an instance of its own (Linux 4.7). */
static int mount_pts(const struct inside *in, struct err *err)
{
	const struct mnt_fs fs = {"devpts", pts_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
	cleanup_fd int fd = -1;
	int r = mnt_make(&fs, &fd, err);

	return r < 0 ? r : mnt_place(fd, in->root_fd, "dev/pts", err);
}

/* Nothing of ours may hold a descriptor of the host's any longer: not even a terminal. */
static int take_null(int root, struct err *err)
{
	cleanup_fd int fd = openat(root, "dev/null", O_RDWR | O_CLOEXEC);

	if (fd == -1)
		return err_errno(err, E_ENFORCEMENT, "/dev/null", "openat(/dev/null)");
	for (int i = 0; i <= STDERR_FILENO; i++)
		if (dup2(fd, i) == -1)
			return err_errno(err, E_ENFORCEMENT, "/dev/null", "dup2(%d)", i);
	return 0;
}

int inside_dev(struct inside *in, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(nodes); i++)
		r = make_node(in, i, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].target, in->root_fd, links[i].path) < 0)
			r = err_errno(err, E_ENFORCEMENT, links[i].path, "symlinkat(/%s)",
				      links[i].path);
	if (r == 0)
		r = mount_pts(in, err);
	return r < 0 ? r : take_null(in->root_fd, err);
}
