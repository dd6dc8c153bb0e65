// SPDX-License-Identifier: Apache-2.0
/* Attributes, links' targets, extended attributes, the file system's numbers. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include "fs/host_changes.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

int op_getattr(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_getattr_in *in = q->arg;
	struct fs_handle *h = in->getattr_flags & FUSE_GETATTR_FH ? handle_get(fs, in->fh) : NULL;
	struct statx st;
	int result = 0;

	if (h == NULL)
		result = backing_stat(fs, q->node, &st);
	else if (statx(h->fd, "", AT_EMPTY_PATH, BACKING_STATX, &st) < 0)
		result = -errno;
	if (result == 0) {
		fs_answer_attributes(fs, q->node, &st, r);
		host_changes_seen(fs, q->node, &((struct fuse_attr_out *)r->out)->attr);
	}
	return result;
}

static struct timespec time_of(uint32_t valid, uint32_t set, uint32_t now, uint64_t sec,
			       uint32_t nsec)
{
	struct timespec t = {.tv_sec = (time_t)sec, .tv_nsec = nsec};

	if (valid & now)
		t.tv_nsec = UTIME_NOW;
	else if (!(valid & set))
		t.tv_nsec = UTIME_OMIT;
	return t;
}

/* fchmodat2 is of Linux 6.6; before it /proc is the only way to an O_PATH descriptor. */
static int change_mode(int fd, mode_t mode)
{
#ifdef SYS_fchmodat2
	if (syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOSYS)
		return -1;
#endif
	char path[BACKING_PROC_PATH];

	backing_proc_path(path, fd);
	return chmod(path, mode);
}

static int change_size(struct fs *fs, const struct fs_request *q, const struct fuse_setattr_in *in)
{
	struct fs_handle *h = in->valid & FATTR_FH ? handle_get(fs, in->fh) : NULL;
	const bool kill = (in->valid & FATTR_KILL_SUIDGID) != 0;
	cleanup_fd int own = h == NULL ? backing_open(fs, q->node, O_WRONLY | fs_wait_flag(q)) : -1;
	int result;

	if (h == NULL && own < 0)
		return own;
	caller_drop_fsetid(fs, kill);
	result = ftruncate(h != NULL ? h->fd : own, (off_t)in->size) < 0 ? -errno : 0;
	caller_keep_fsetid(fs, kill);
	return result;
}

int op_setattr(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_setattr_in *in = q->arg;
	const uint32_t times = FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW;
	const struct timespec when[2] = {
		time_of(in->valid, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
		time_of(in->valid, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec),
	};
	cleanup_fd int fd = backing_open(fs, q->node, O_PATH | O_NOFOLLOW);
	struct statx st;
	int result = 0;

	if (fd < 0)
		return fd;
	/* chown(-1, -1) changes ctime and takes the set-user-id bit; the kernel sends it with
	 * nothing valid. */
	if (in->valid & (FATTR_UID | FATTR_GID) || !(in->valid & (FATTR_MODE | FATTR_SIZE | times)))
		if (fchownat(fd, "", in->valid & FATTR_UID ? in->uid : (uid_t)-1,
			     in->valid & FATTR_GID ? in->gid : (gid_t)-1, AT_EMPTY_PATH) < 0)
			return -errno;
	if (in->valid & FATTR_MODE && change_mode(fd, in->mode & 07777) < 0)
		return -errno;
	if (in->valid & FATTR_SIZE)
		result = change_size(fs, q, in);
	if (result == 0 && in->valid & times && utimensat(fd, "", when, AT_EMPTY_PATH) < 0)
		result = -errno;
	if (result == 0 && statx(fd, "", AT_EMPTY_PATH, BACKING_STATX, &st) < 0)
		result = -errno;
	if (result == 0)
		fs_answer_attributes(fs, q->node, &st, r);
	return result;
}

int op_readlink(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	cleanup_fd int fd = backing_open(fs, q->node, O_PATH | O_NOFOLLOW);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = readlinkat(fd, "", r->out, r->size < PATH_MAX ? r->size : PATH_MAX);
	if (n < 0)
		return -errno;
	r->len = (size_t)n;
	return 0;
}

int op_access(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_access_in *in = q->arg;
	cleanup_fd int fd = backing_open(fs, q->node, O_PATH | O_NOFOLLOW);

	if (fd < 0)
		return fd;
	return syscall(SYS_faccessat2, fd, "", in->mask & 7, AT_EMPTY_PATH | AT_EACCESS) < 0
		       ? -errno
		       : 0;
}

int op_statfs(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	struct fuse_statfs_out *out = reply_room(r, sizeof(*out));
	cleanup_fd int fd = backing_open(fs, q->node, O_PATH | O_NOFOLLOW);
	const uint64_t left = space_left(fs->space);
	struct statvfs v;

	if (fstatvfs(fd >= 0 ? fd : fs->tree[0].root, &v) < 0)
		return -errno;
	if (v.f_frsize > 0 && v.f_bavail > left / v.f_frsize)
		v.f_bavail = left / v.f_frsize;
	out->st = (struct fuse_kstatfs){.blocks = v.f_blocks,
					.bfree = v.f_bfree,
					.bavail = v.f_bavail,
					.files = v.f_files,
					.ffree = v.f_ffree,
					.bsize = (uint32_t)v.f_bsize,
					.namelen = (uint32_t)v.f_namemax,
					.frsize = (uint32_t)v.f_frsize};
	return 0;
}

/* ---- extended attributes; fgetxattr and the like refuse an O_PATH descriptor ---- */

/* A path that leads to the node's object while *fd is open; 0 or -errno. */
static int path_of(struct fs *fs, uint64_t node, char path[BACKING_PROC_PATH], int *fd)
{
	*fd = backing_open(fs, node, O_PATH | O_NOFOLLOW);
	if (*fd >= 0)
		backing_proc_path(path, *fd);
	return *fd < 0 ? *fd : 0;
}

int op_setxattr(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_setxattr_in *in = q->arg;
	char path[BACKING_PROC_PATH];
	cleanup_fd int fd = -1;
	int result = path_of(fs, q->node, path, &fd);

	if (result == 0 && setxattr(path, q->name[0], q->data, q->data_len, (int)in->flags) < 0)
		result = -errno;
	return result;
}

int op_removexattr(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	char path[BACKING_PROC_PATH];
	cleanup_fd int fd = -1;
	int result = path_of(fs, q->node, path, &fd);

	if (result == 0 && removexattr(path, q->name[0]) < 0)
		result = -errno;
	return result;
}

/* Size 0 asks how much room is needed. name NULL: the list of names. */
static int read_xattr(struct fs *fs, const struct fs_request *q, const char *name,
		      struct fs_reply *r)
{
	const struct fuse_getxattr_in *in = q->arg;
	const size_t size = in->size < r->size ? in->size : r->size;
	char path[BACKING_PROC_PATH];
	cleanup_fd int fd = -1;
	ssize_t n;
	int result = path_of(fs, q->node, path, &fd);

	if (result < 0)
		return result;
	n = name != NULL ? getxattr(path, name, r->out, size) : listxattr(path, r->out, size);
	if (n < 0)
		return -errno;
	r->len = (size_t)n;
	if (in->size == 0) {
		struct fuse_getxattr_out *out = reply_room(r, sizeof(*out));

		out->size = (uint32_t)n;
	}
	return 0;
}

int op_getxattr(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return read_xattr(fs, q, q->name[0], r);
}

int op_listxattr(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	return read_xattr(fs, q, NULL, r);
}
