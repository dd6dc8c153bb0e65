// SPDX-License-Identifier: Apache-2.0
#include "sandbox/mnt.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int mnt_make(const struct mnt_fs *fs, int *fd, struct err *err)
{
	cleanup_fd int context = fsopen(fs->type, FSOPEN_CLOEXEC);
	int made;

	if (context == -1)
		return err_errno(err, E_ENFORCEMENT, fs->type, "fsopen(%s)", fs->type);
	for (const char *const *o = fs->options; o != NULL && *o != NULL; o += 2)
		if (fsconfig(context, FSCONFIG_SET_STRING, o[0], o[1], 0) < 0)
			return err_errno(err, E_ENFORCEMENT, fs->type, "fsconfig(%s, %s=%s)",
					 fs->type, o[0], o[1]);
	if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, E_ENFORCEMENT, fs->type, "fsconfig(%s, create)", fs->type);
	made = fsmount(context, FSMOUNT_CLOEXEC, fs->attr);
	if (made == -1)
		return err_errno(err, E_ENFORCEMENT, fs->type, "fsmount(%s)", fs->type);
	*fd = made;
	return 0;
}

static int copy_tree(int dir, const char *path)
{
	return open_tree(dir, path,
			 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
				 (path[0] == '\0' ? AT_EMPTY_PATH : 0));
}

int mnt_clone(int dir, const char *path, int *fd, struct err *err)
{
	const int made = copy_tree(dir, path);

	if (made == -1)
		return err_errno(err, E_ENFORCEMENT, path, "open_tree(%s)", path);
	*fd = made;
	return 0;
}

int mnt_set(int fd, uint64_t attr, const char *name, struct err *err)
{
	struct mount_attr a = {.attr_set = attr, .propagation = MS_PRIVATE};

	if (mount_setattr(fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0)
		return err_errno(err, E_ENFORCEMENT, name, "mount_setattr(%s)", name);
	return 0;
}

int mnt_place(int fd, int root, const char *path, struct err *err)
{
	if (move_mount(fd, "", root, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "move_mount(/%s)", path);
	return 0;
}

int mnt_cover(int fd, int at, const char *name, struct err *err)
{
	if (move_mount(fd, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_errno(err, E_ENFORCEMENT, name, "move_mount(%s)", name);
	return 0;
}

int mnt_bind(const struct mnt_bind *b, struct err *err)
{
	cleanup_fd int fd = -1;
	int r = mnt_clone(b->from_dir, b->from, &fd, err);

	if (r == 0)
		r = mnt_set(fd, b->attr, b->from, err);
	if (r == 0)
		r = mnt_place(fd, b->root, b->at, err);
	return r;
}

int mnt_make_parents(int root, const char *path, struct err *err)
{
	for (const char *s = strchr(path, '/'); s != NULL; s = strchr(s + 1, '/')) {
		cleanup_free char *dir = mem_strndup(path, (size_t)(s - path));

		if (mkdirat(root, dir, 0755) < 0 && errno != EEXIST)
			return err_errno(err, E_ENFORCEMENT, path, "mkdirat(/%s)", dir);
	}
	return 0;
}

int mnt_make_point(int tree, int root, const char *at, struct err *err)
{
	struct stat st;
	int r = mnt_make_parents(root, at, err);

	if (r < 0)
		return r;
	if (fstat(tree, &st) < 0 ||
	    ((S_ISDIR(st.st_mode) ? mkdirat(root, at, 0755)
				  : mknodat(root, at, S_IFREG | 0444, 0)) < 0 &&
	     errno != EEXIST))
		return err_errno(err, E_ENFORCEMENT, at, "cannot make the mount point /%s", at);
	return 0;
}

int mnt_show(const struct mnt_bind *b, struct err *err)
{
	cleanup_fd int fd = copy_tree(b->from_dir, b->from);
	int r;

	if (fd == -1 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP))
		return 0;
	if (fd == -1)
		return err_errno(err, E_ENFORCEMENT, b->from, "open_tree(%s)", b->from);
	r = b->attr != 0 ? mnt_set(fd, b->attr, b->from, err) : 0;
	if (r == 0)
		r = mnt_make_point(fd, b->root, b->at, err);
	return r < 0 ? r : mnt_place(fd, b->root, b->at, err);
}

/* The kernel writes a blank, a tab, a newline and a backslash of a path as "\\" and three octal
 * digits. */
static void unescape(char *path)
{
	char *out = path;

	for (; *path != '\0'; path++)
		if (path[0] == '\\' && strspn(path + 1, "01234567") >= 3) {
			*out++ = (char)(((path[1] - '0') << 6) | ((path[2] - '0') << 3) |
					(path[3] - '0'));
			path += 3;
		} else {
			*out++ = *path;
		}
	*out = '\0';
}

bool mnt_next(char **text, struct mnt_line *out)
{
	while (*text != NULL && **text != '\0') {
		char *line = strsep(text, "\n"), *dash = strstr(line, " - ");

		out->id = strtoull(line, &line, 10);
		strsep(&line, " ");
		strsep(&line, " ");
		out->dev = strsep(&line, " ");
		out->root = strsep(&line, " ");
		out->point = strsep(&line, " ");
		if (dash == NULL || out->point == NULL || out->point > dash)
			continue;
		unescape(out->root);
		unescape(out->point);
		out->rest = dash + 3;
		out->type = strsep(&out->rest, " ");
		return true;
	}
	return false;
}

uint64_t mnt_id(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 ? st.stx_mnt_id : 0;
}

char *mnt_origin(int dir, const char *real)
{
	const uint64_t id = mnt_id(dir);
	cleanup_buf struct buf text = {0};
	struct mnt_line line;
	char *next;

	if (id == 0 || fdio_load_path("/proc/self/mountinfo", MNT_LIST_MAX, &text, NULL) < 0)
		return NULL;
	for (next = text.data; mnt_next(&next, &line);)
		if (line.id == id) {
			cleanup_free char *path = path_swap(real, line.point, line.root);

			return path != NULL ? mem_printf("%s %s", line.dev, path) : NULL;
		}
	return NULL;
}

ssize_t mnt_name(int fd, char real[PATH_MAX])
{
	char self[64];
	ssize_t n;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = fd == -1 ? -1 : readlink(self, real, PATH_MAX - 1);
	real[n > 0 ? n : 0] = '\0';
	return n;
}

bool mnt_chrooted(const char *subject, struct err *err)
{
	const int errnum = errno;
	const bool is = (errnum == EPERM || errnum == EINVAL) && proc_chrooted();

	errno = errnum;
	if (is)
		err_set(err, E_ENFORCEMENT, subject,
			"the server runs in a chroot, where the kernel makes no user namespace and "
			"no new root; start it outside, or in a container with a root of its own");
	return is;
}
