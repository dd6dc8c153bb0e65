// SPDX-License-Identifier: Apache-2.0
/* /dev: six harmless devices, the session's own terminals, the usual links. /dev is part of the
 * root's tmpfs, which becomes read-only (a device on a read-only mount can still be written to). */
#include "base/mem.h"
#include "sandbox/inside.h"
#include "sandbox/mnt.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

const struct inside_device inside_devices[] = {
	{"/dev/null", 1, 3},
	{"/dev/zero", 1, 5},
	{"/dev/full", 1, 7},
	{"/dev/random", 1, 8},
	{"/dev/urandom", 1, 9},
	{"/dev/tty", 5, 0},
	{0},
};
static const struct {
	const char *target, *path;
} links[] = {
	{"/proc/self/fd", "dev/fd"},	   {"/proc/self/fd/0", "dev/stdin"},
	{"/proc/self/fd/1", "dev/stdout"}, {"/proc/self/fd/2", "dev/stderr"},
	{"pts/ptmx", "dev/ptmx"},
};
/* All sessions share the 4,096 terminals of the kernel (kernel.pty.max). */
static const char *const pts_options[] = {"mode", "0600", "ptmxmode", "0666", "max", "64", NULL};

/* Makes a device node where root may; else binds the host's device. */
static int make_node(const struct inside *in, const struct inside_device *node, struct err *err)
{
	const char *at = node->path + 1;
	const dev_t dev = makedev(node->major, node->minor);
	const struct mnt_bind bind = {AT_FDCWD, node->path, in->root_fd, at,
				      MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};

	if (inside_by_root(in) && mknodat(in->root_fd, at, S_IFCHR | 0666, dev) == 0)
		return 0;
	if (mknodat(in->root_fd, at, S_IFREG | 0666, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, at, "mknodat(/%s)", at);
	return mnt_bind(&bind, err);
}

int inside_take_stdio(int null, struct err *err)
{
	for (int i = 0; i <= STDERR_FILENO; i++)
		if (null == -1 || dup2(null, i) == -1)
			return err_errno(err, E_ENFORCEMENT, "/dev/null", "cannot use /dev/null");
	return 0;
}

int inside_dev(struct inside *in, struct err *err)
{
	/* Every mount of devpts is an instance of its own (Linux 4.7). */
	const struct mnt_fs fs = {"devpts", pts_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
	cleanup_fd int pts = -1, null = -1;
	int r = 0;

	for (const struct inside_device *d = inside_devices; r == 0 && d->path != NULL; d++)
		r = make_node(in, d, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].target, in->root_fd, links[i].path) < 0)
			r = err_errno(err, E_ENFORCEMENT, links[i].path, "symlinkat(/%s)",
				      links[i].path);
	if (r == 0)
		r = mnt_make(&fs, &pts, err);
	if (r == 0)
		r = mnt_place(pts, in->root_fd, "dev/pts", err);
	if (r < 0)
		return r;
	null = openat(in->root_fd, "dev/null", O_RDWR | O_CLOEXEC);
	return inside_take_stdio(null, err);
}
