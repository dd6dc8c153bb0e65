// SPDX-License-Identifier: Apache-2.0
/* What each request needs of the policy. */
#include "base/mem.h"
#include "fs/watch.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define OPEN_FOR_EXEC 0x20U /* the kernel's FMODE_EXEC: the open of an execve */

typedef bool adjust_fn(const struct fs_request *q, struct watch_need *n);

struct watch_row {
	bool used;
	struct watch_need need;
	adjust_fn *adjust; /* by the arguments; false: needs no decision after all */
};

/* An exec reads the file in the kernel: it needs no `read`, like a native one. */
static unsigned open_ops(uint32_t flags)
{
	const unsigned mode = flags & O_ACCMODE;
	unsigned ops = WATCH_OP(open);

	if (flags & OPEN_FOR_EXEC)
		return ops | WATCH_OP(execute);
	if (mode != O_WRONLY)
		ops |= WATCH_OP(read);
	if (mode != O_RDONLY)
		ops |= WATCH_OP(write);
	return ops | (flags & O_TRUNC ? WATCH_OP(truncate) : 0);
}

static bool adjust_open(const struct fs_request *q, struct watch_need *n)
{
	const struct fuse_open_in *in = q->arg;

	n->ops = open_ops(in->flags);
	n->opens = true;
	n->flags = (int)in->flags;
	if (n->ops & WATCH_OP(execute))
		n->main = OP_FILE_execute;
	return true;
}

/* A new file has nothing to truncate. If the file exists by now, watch.c sees to it. */
static bool adjust_create(const struct fs_request *q, struct watch_need *n)
{
	const struct fuse_create_in *in = q->arg;

	n->ops |= open_ops(in->flags & ~(uint32_t)O_TRUNC);
	n->opens = true;
	n->flags = (int)in->flags | O_CREAT;
	return true;
}

/* The kernel itself asks by a handle, before it reads or appends. */
static bool adjust_getattr(const struct fs_request *q, struct watch_need *n)
{
	const struct fuse_getattr_in *in = q->arg;

	return !(in->getattr_flags & FUSE_GETATTR_FH);
}

static bool adjust_setattr(const struct fs_request *q, struct watch_need *n)
{
	static const struct {
		uint32_t valid;
		enum op_file op;
		uint32_t type;
	} parts[] = {
		{FATTR_SIZE, OP_FILE_truncate, EVENT_file_truncate},
		{FATTR_MODE, OP_FILE_chmod, EVENT_file_chmod},
		{FATTR_UID | FATTR_GID, OP_FILE_chown, EVENT_file_chown},
		{FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW, OP_FILE_write,
		 EVENT_file_write},
	};
	const struct fuse_setattr_in *in = q->arg;

	for (size_t i = ARRAY_LEN(parts); i-- > 0;)
		if (in->valid & parts[i].valid) {
			n->ops |= 1U << parts[i].op;
			n->main = parts[i].op;
			n->type = parts[i].type;
		}
	if (n->ops == 0) { /* chown(-1, -1) */
		n->ops = WATCH_OP(chown);
		n->main = OP_FILE_chown;
		n->type = EVENT_file_chown;
	}
	return true;
}

/* An ACL has the mode in it. */
static bool adjust_xattr(const struct fs_request *q, struct watch_need *n)
{
	if (strncmp(q->name[0], "system.posix_acl_", strlen("system.posix_acl_")) == 0)
		n->ops |= WATCH_OP(chmod);
	return true;
}

static bool adjust_access(const struct fs_request *q, struct watch_need *n)
{
	const struct fuse_access_in *in = q->arg;

	n->ops = (in->mask & R_OK ? WATCH_OP(read) : 0) | (in->mask & W_OK ? WATCH_OP(write) : 0) |
		 (in->mask & X_OK ? WATCH_OP(execute) : 0);
	if (n->ops == 0)
		n->ops = WATCH_OP(stat);
	return true;
}

#define OP WATCH_OP
#define NEED(where, operations, first, event_type, ...)    \
	.used = true, .need = {.names = WATCH_##where,     \
			       .ops = (operations),        \
			       .main = OP_FILE_##first,    \
			       .type = EVENT_##event_type, \
			       __VA_ARGS__}
/* Requests without a row need no decision beyond the one of their open file, or none at all. A
 * LOOKUP is refused only if the name is hidden or blocked: a denied `stat` is the error of GETATTR,
 * and what is below a directory without `stat` can still be reached. A new name needs `create`
 * whatever makes it. */
static const struct watch_row rows[] = {
	[FUSE_LOOKUP] = {NEED(ENTRY, 0, stat, file_stat)},
	[FUSE_GETATTR] = {NEED(NODE, OP(stat), stat, file_stat), adjust_getattr},
	[FUSE_SETATTR] = {NEED(NODE, 0, write, file_write), adjust_setattr},
	[FUSE_READLINK] = {NEED(NODE, OP(read), read, symlink_read)},
	[FUSE_SYMLINK] = {NEED(ENTRY, OP(symlink) | OP(create), symlink, symlink_create,
			       .makes = true)},
	[FUSE_MKNOD] = {NEED(ENTRY, OP(create), create, file_mknod, .makes = true)},
	[FUSE_MKDIR] = {NEED(ENTRY, OP(create), create, dir_create, .makes = true)},
	[FUSE_UNLINK] = {NEED(ENTRY, OP(delete), delete, file_delete)},
	[FUSE_RMDIR] = {NEED(ENTRY, OP(delete), delete, dir_delete)},
	[FUSE_RENAME] = {NEED(MOVE, OP(rename), rename, file_rename,
			      .to_ops = OP(rename) | OP(create))},
	[FUSE_RENAME2] = {NEED(MOVE, OP(rename), rename, file_rename,
			       .to_ops = OP(rename) | OP(create))},
	[FUSE_LINK] = {NEED(LINK, OP(link), link, file_link, .to_ops = OP(link) | OP(create))},
	[FUSE_OPEN] = {NEED(NODE, 0, open, file_open), adjust_open},
	[FUSE_SETXATTR] = {NEED(NODE, OP(write), write, file_xattr), adjust_xattr},
	[FUSE_REMOVEXATTR] = {NEED(NODE, OP(write), write, file_xattr), adjust_xattr},
	[FUSE_GETXATTR] = {NEED(NODE, OP(stat), stat, file_xattr, .event = WATCH_DENIALS)},
	[FUSE_LISTXATTR] = {NEED(NODE, OP(stat), stat, file_xattr, .event = WATCH_DENIALS)},
	[FUSE_OPENDIR] = {NEED(NODE, OP(list), list, dir_list)},
	[FUSE_ACCESS] = {NEED(NODE, 0, stat, file_stat, .event = WATCH_SILENT), adjust_access},
	[FUSE_CREATE] = {NEED(ENTRY, OP(create), create, file_create, .makes = true),
			 adjust_create},
	[FUSE_TMPFILE] = {NEED(ENTRY, OP(create), create, file_create, .makes = true),
			  adjust_create},
};

bool watch_need(const struct fs_request *q, struct watch_need *out)
{
	const struct watch_row *row = q->opcode < ARRAY_LEN(rows) ? &rows[q->opcode] : NULL;

	if (row == NULL || !row->used)
		return false;
	*out = row->need;
	return row->adjust == NULL || row->adjust(q, out);
}
