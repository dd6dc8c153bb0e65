// SPDX-License-Identifier: Apache-2.0
/* Open files: data, sizes, copies. */
#include "base/mem.h"
#include "fs/fs_state.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define OPEN_FOR_EXEC 0x20U /* the kernel's FMODE_EXEC: the open of an execve */

/* O_APPEND is a flag of each write, because the kernel may write pages of a mapping through any
 * open file. O_DIRECT stays with the kernel: the bytes come in a buffer of ours. */
int fs_backing_flags(const struct fs *fs, uint32_t flags)
{
	/* with a write-back cache the kernel reads the rest of a page that it writes */
	if (fs->features & FUSE_WRITEBACK_CACHE && (flags & O_ACCMODE) == O_WRONLY)
		flags ^= O_WRONLY | O_RDWR;
	return (int)flags & (O_ACCMODE | O_DSYNC | O_SYNC | O_NOATIME);
}

int fs_wait_flag(const struct fs_request *q)
{
	return q->may_wait ? 0 : O_NONBLOCK;
}

bool fs_is_queue_thread(const struct fs *fs, const struct fs_request *q)
{
	return !q->may_wait && (fs->features & FUSE_OVER_IO_URING) != 0;
}

/* With FUSE_ATOMIC_O_TRUNC the kernel lets the server truncate before it looks whether a process
 * executes the file. An open for writing it has refused before; O_RDONLY | O_TRUNC comes here. */
static int truncate_read_only(struct fs *fs, const struct fs_request *q)
{
	cleanup_fd int fd = backing_open(fs, q->node, O_WRONLY | fs_wait_flag(q));
	const struct fs_handle *h = NULL;
	struct node *n;

	if (fd < 0)
		return fd;
	pthread_mutex_lock(&fs->lock);
	n = node_get(fs->nodes, q->node);
	for (h = n != NULL ? n->handles : NULL; h != NULL && !h->executed; h = h->next)
		;
	pthread_mutex_unlock(&fs->lock);
	if (h != NULL)
		return -ETXTBSY;
	return ftruncate(fd, 0) < 0 ? -errno : 0;
}

int op_open(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_open_in *in = q->arg;
	const bool kill = (in->open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
	struct fs_open_out *out = reply_room(r, sizeof(*out));
	int fd = backing_open(fs, q->node, fs_backing_flags(fs, in->flags) | fs_wait_flag(q));
	int result = 0;
	struct fs_opened o;

	if (fd == -EACCES && (in->flags & O_ACCMODE) == O_WRONLY) /* it may not be read */
		fd = backing_open(fs, q->node, O_WRONLY | fs_wait_flag(q));
	if (fd < 0)
		return fd;
	if (in->flags & O_TRUNC) {
		caller_drop_fsetid(fs, kill);
		if ((in->flags & O_ACCMODE) == O_RDONLY)
			result = truncate_read_only(fs, q);
		else
			result = ftruncate(fd, 0) < 0 ? -errno : 0;
		caller_keep_fsetid(fs, kill);
	}
	if (result < 0) {
		close(fd);
		return result;
	}
	o = (struct fs_opened){.fd = fd, .flags = in->flags, .executed = in->flags & OPEN_FOR_EXEC};
	return handle_new(fs, q->node, &o, out);
}

int op_read(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_read_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);
	const size_t size = in->size < r->size ? in->size : r->size;
	ssize_t n;

	if (h == NULL)
		return -EBADF;
	while (r->len < size) { /* a short answer would mean the end of the file */
		n = pread(h->fd, (char *)r->out + r->len, size - r->len,
			  (off_t)(in->offset + r->len));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && r->len == 0)
			return -errno;
		if (n <= 0)
			break;
		r->len += (size_t)n;
	}
	return 0;
}

int op_write(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_write_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);
	const bool kill = (in->write_flags & FUSE_WRITE_KILL_SUIDGID) != 0;
	/* pages of a mapping belong where they are, whatever file they come through */
	const bool append = (in->flags & O_APPEND) && !(in->write_flags & FUSE_WRITE_CACHE);
	struct fuse_write_out *out = reply_room(r, sizeof(*out));
	const struct iovec data = {(void *)q->data, q->data_len};
	ssize_t n;
	int result;

	if (h == NULL)
		return -EBADF;
	caller_drop_fsetid(fs, kill);
	do
		n = pwritev2(h->fd, &data, 1, (off_t)in->offset, append ? RWF_APPEND : 0);
	while (n < 0 && errno == EINTR);
	result = n < 0 ? -errno : 0;
	caller_keep_fsetid(fs, kill);
	out->size = n < 0 ? 0 : (uint32_t)n;
	return result;
}

/* One of possibly many descriptors of the file was closed. What a network file system could not
 * write is reported now. */
int op_flush(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_flush_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);
	int copy;

	if (h == NULL)
		return -EBADF;
	locks_flush(fs, q->node, in->lock_owner);
	copy = fcntl(h->fd, F_DUPFD_CLOEXEC, 3);
	return copy >= 0 && close(copy) < 0 && errno != EINTR ? -errno : 0;
}

int op_release(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_release_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);

	/* a backing id may keep the file open */
	if (h != NULL && (in->release_flags & FUSE_RELEASE_FLOCK_UNLOCK))
		flock(h->fd, LOCK_UN);
	locks_release(fs, in->fh);
	return handle_release(fs, in->fh);
}

int op_fsync(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_fsync_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);

	if (h == NULL)
		return -EBADF;
	if (fs_is_queue_thread(fs, q))
		return FS_MUST_WAIT;
	return (in->fsync_flags & FUSE_FSYNC_FDATASYNC ? fdatasync(h->fd) : fsync(h->fd)) < 0
		       ? -errno
		       : 0;
}

int op_fallocate(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_fallocate_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);
	const bool kill = q->uid != 0;
	int result;

	if (h == NULL)
		return -EBADF;
	caller_drop_fsetid(fs, kill);
	do
		result = fallocate(h->fd, (int)in->mode, (off_t)in->offset, (off_t)in->length) < 0
				 ? -errno
				 : 0;
	while (result == -EINTR);
	caller_keep_fsetid(fs, kill);
	return result;
}

int op_lseek(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_lseek_in *in = q->arg;
	struct fs_handle *h = handle_get(fs, in->fh);
	struct fuse_lseek_out *out = reply_room(r, sizeof(*out));
	off_t to;

	if (h == NULL)
		return -EBADF;
	/* nothing else uses the position of the descriptor */
	to = lseek(h->fd, (off_t)in->offset, (int)in->whence);
	out->offset = (uint64_t)to;
	return to < 0 ? -errno : 0;
}

int op_copy_file_range(struct fs *fs, const struct fs_request *q, struct fs_reply *r)
{
	const struct fuse_copy_file_range_in *in = q->arg;
	struct fs_handle *from = handle_get(fs, in->fh_in), *to = handle_get(fs, in->fh_out);
	off_t off_in = (off_t)in->off_in, off_out = (off_t)in->off_out;
	const bool kill = q->uid != 0;
	ssize_t n;
	int result;

	if (from == NULL || to == NULL)
		return -EBADF;
	caller_drop_fsetid(fs, kill);
	n = copy_file_range(from->fd, &off_in, to->fd, &off_out,
			    in->len < FS_COPY_MAX ? in->len : FS_COPY_MAX, 0);
	result = n < 0 ? -errno : 0;
	caller_keep_fsetid(fs, kill);
	if (result < 0)
		return result;
	if (q->opcode == FS_OP_COPY_FILE_RANGE_64) {
		struct fs_copy_file_range_out *out = reply_room(r, sizeof(*out));

		out->bytes_copied = (uint64_t)n;
	} else {
		struct fuse_write_out *out = reply_room(r, sizeof(*out));

		out->size = (uint32_t)n;
	}
	return 0;
}
