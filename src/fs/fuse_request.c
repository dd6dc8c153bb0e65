// SPDX-License-Identifier: Apache-2.0
#include "fs/fuse_request.h"
#include "base/mem.h"
#include <errno.h>
#include <limits.h>
#include <linux/xattr.h>

enum name_kind {
	NAME_NONE,
	NAME_ENTRY,   /* of a directory */
	NAME_TARGET,  /* of a symbolic link */
	NAME_XATTR,   /* an attribute's name */
	NAME_IGNORED, /* the kernel sends "/" */
};

struct opcode_row {
	const char *name;
	uint8_t fixed; /* bytes of the fixed part */
	uint8_t names[2];
	bool data;	 /* more bytes follow, as many as size_at says */
	uint8_t size_at; /* where in the fixed part: uint32_t, a count of units */
	uint8_t unit;
	bool unanswered;
};

#define ROW(op, in, ...) [FUSE_##op] = {.name = #op, .fixed = sizeof(struct fuse_##in), __VA_ARGS__}
#define ROW_BARE(op, ...) [FUSE_##op] = {.name = #op, __VA_ARGS__}
#define ROW_NEW(op, in) [FS_OP_##op] = {.name = #op, .fixed = sizeof(struct in)}
#define NAMES(...) .names = {__VA_ARGS__}
#define DATA(in, field, bytes) \
	.data = true, .size_at = offsetof(struct fuse_##in, field), .unit = (bytes)

/* What the kernel sends since 7.31. Opcodes without a row get ENOSYS: the kernel then stops asking
 * or falls back (SETUPMAPPING and REMOVEMAPPING belong to DAX, which is not negotiated). */
static const struct opcode_row rows[] = {
	ROW_BARE(LOOKUP, NAMES(NAME_ENTRY)),
	ROW(FORGET, forget_in, .unanswered = true),
	ROW(GETATTR, getattr_in),
	ROW(SETATTR, setattr_in),
	ROW_BARE(READLINK),
	ROW_BARE(SYMLINK, NAMES(NAME_ENTRY, NAME_TARGET)),
	ROW(MKNOD, mknod_in, NAMES(NAME_ENTRY)),
	ROW(MKDIR, mkdir_in, NAMES(NAME_ENTRY)),
	ROW_BARE(UNLINK, NAMES(NAME_ENTRY)),
	ROW_BARE(RMDIR, NAMES(NAME_ENTRY)),
	ROW(RENAME, rename_in, NAMES(NAME_ENTRY, NAME_ENTRY)),
	ROW(LINK, link_in, NAMES(NAME_ENTRY)),
	ROW(OPEN, open_in),
	ROW(READ, read_in),
	ROW(WRITE, write_in, DATA(write_in, size, 1)),
	ROW_BARE(STATFS),
	ROW(RELEASE, release_in),
	ROW(FSYNC, fsync_in),
	ROW(SETXATTR, setxattr_in, NAMES(NAME_XATTR), DATA(setxattr_in, size, 1)),
	ROW(GETXATTR, getxattr_in, NAMES(NAME_XATTR)),
	ROW(LISTXATTR, getxattr_in),
	ROW_BARE(REMOVEXATTR, NAMES(NAME_XATTR)),
	ROW(FLUSH, flush_in),
	ROW(INIT, init_in),
	ROW(OPENDIR, open_in),
	ROW(READDIR, read_in),
	ROW(RELEASEDIR, release_in),
	ROW(FSYNCDIR, fsync_in),
	ROW(GETLK, lk_in),
	ROW(SETLK, lk_in),
	ROW(SETLKW, lk_in),
	ROW(ACCESS, access_in),
	ROW(CREATE, create_in, NAMES(NAME_ENTRY)),
	ROW(INTERRUPT, interrupt_in, .unanswered = true),
	ROW(BMAP, bmap_in),
	ROW_BARE(DESTROY),
	ROW(IOCTL, ioctl_in, DATA(ioctl_in, in_size, 1)),
	ROW(POLL, poll_in),
	ROW(NOTIFY_REPLY, notify_retrieve_in, DATA(notify_retrieve_in, size, 1),
	    .unanswered = true),
	ROW(BATCH_FORGET, batch_forget_in,
	    DATA(batch_forget_in, count, sizeof(struct fuse_forget_one)), .unanswered = true),
	ROW(FALLOCATE, fallocate_in),
	ROW(READDIRPLUS, read_in),
	ROW(RENAME2, rename2_in, NAMES(NAME_ENTRY, NAME_ENTRY)),
	ROW(LSEEK, lseek_in),
	ROW(COPY_FILE_RANGE, copy_file_range_in),
	ROW(SYNCFS, syncfs_in),
	ROW(TMPFILE, create_in, NAMES(NAME_IGNORED)),
	ROW_NEW(STATX, fs_statx_in),
	ROW_NEW(COPY_FILE_RANGE_64, fuse_copy_file_range_in),
};

static const struct opcode_row *row_of(uint32_t opcode)
{
	return opcode < ARRAY_LEN(rows) && rows[opcode].name != NULL ? &rows[opcode] : NULL;
}

const char *fs_opcode_name(uint32_t opcode)
{
	const struct opcode_row *row = row_of(opcode);

	return row != NULL ? row->name : "?";
}

size_t fs_opcode_fixed(uint32_t opcode)
{
	const struct opcode_row *row = row_of(opcode);

	return row != NULL ? row->fixed : 0;
}

bool fs_opcode_answered(uint32_t opcode)
{
	const struct opcode_row *row = row_of(opcode);

	return row == NULL || !row->unanswered;
}

struct span {
	const uint8_t *at, *end;
};

static size_t left(const struct span *s)
{
	return (size_t)(s->end - s->at);
}

/* The kernel sends the old, short SETXATTR unless FUSE_SETXATTR_EXT was agreed on, and before 7.36
 * a short INIT: both are widened with zeroes, so that arg is always a whole struct. */
static int take_fixed(struct span *s, const struct opcode_row *row, uint64_t features,
		      struct fs_request *q)
{
	size_t n = row->fixed;

	if (q->opcode == FUSE_SETXATTR && (features & FUSE_SETXATTR_EXT) == 0)
		n = FUSE_COMPAT_SETXATTR_IN_SIZE;
	if (q->opcode == FUSE_INIT && left(s) < n)
		n = offsetof(struct fuse_init_in, flags2);
	if (left(s) < n)
		return -EINVAL;
	if (n < row->fixed) {
		memset(&q->widened, 0, sizeof(q->widened));
		memcpy(&q->widened, s->at, n);
		q->arg = &q->widened;
	} else if (n > 0) {
		q->arg = s->at;
	}
	s->at += n;
	return 0;
}

static int take_name(struct span *s, enum name_kind kind, const char **out)
{
	static const uint16_t longest[] = {
		[NAME_ENTRY] = NAME_MAX,
		[NAME_TARGET] = PATH_MAX - 1,
		[NAME_XATTR] = XATTR_NAME_MAX,
		[NAME_IGNORED] = NAME_MAX,
	};
	const char *name = (const char *)s->at;
	size_t n = strnlen(name, left(s));

	if (n == left(s) || n == 0)
		return -EINVAL;
	if (n > longest[kind])
		return -ENAMETOOLONG;
	if (kind == NAME_ENTRY &&
	    (memchr(name, '/', n) != NULL || strcmp(name, ".") == 0 || strcmp(name, "..") == 0))
		return -EINVAL;
	s->at += n + 1;
	*out = kind == NAME_IGNORED ? NULL : name;
	return 0;
}

/* Extensions stand at the end of the request. Only the group is of interest, and types that
 * are not known are skipped. */
static int take_extensions(struct span *s, size_t len, struct fs_request *q)
{
	struct span e;

	if (len > left(s))
		return -EINVAL;
	e = (struct span){s->end - len, s->end};
	s->end = e.at;
	while (left(&e) > 0) {
		struct fs_ext_header h;
		uint32_t group[2]; /* how many, always 1, and the group */

		if (left(&e) < sizeof(h))
			return -EINVAL;
		memcpy(&h, e.at, sizeof(h));
		if (h.size < sizeof(h) || h.size > left(&e) || h.size % 8 != 0)
			return -EINVAL;
		if (h.type == FS_EXT_GROUPS) {
			if (h.size < sizeof(h) + sizeof(group))
				return -EINVAL;
			memcpy(group, e.at + sizeof(h), sizeof(group));
			if (group[0] != 1)
				return -EINVAL;
			q->supplementary = group[1];
		}
		e.at += h.size;
	}
	return 0;
}

static int take_data(struct span *s, const struct opcode_row *row, struct fs_request *q)
{
	uint32_t count = 0;

	if (row->data && q->arg != NULL) {
		memcpy(&count, (const uint8_t *)q->arg + row->size_at, sizeof(count));
		q->data = s->at;
		q->data_len = left(s);
	}
	return (uint64_t)count * row->unit == left(s) ? 0 : -EINVAL;
}

int fs_request_parse(const void *bytes, size_t len, uint64_t features, struct fs_request *out)
{
	const struct fuse_in_header *h = bytes;
	struct span s = {(const uint8_t *)bytes + sizeof(*h), (const uint8_t *)bytes + len};
	const struct opcode_row *row;
	int r;

	out->opcode = 0;
	out->unique = 0;
	if (len < sizeof(*h))
		return -EINVAL;
	/* Not a compound literal: it would clear `widened` for every request. */
	out->opcode = h->opcode;
	out->unique = h->unique;
	out->node = h->nodeid;
	out->uid = h->uid;
	out->gid = h->gid;
	out->pid = (pid_t)h->pid;
	out->arg = NULL;
	out->name[0] = out->name[1] = NULL;
	out->data = NULL;
	out->data_len = 0;
	out->supplementary = (gid_t)-1;
	out->may_wait = out->answered = false;
	row = row_of(h->opcode);
	if (h->len != len)
		return -EINVAL;
	if (row == NULL)
		return -ENOSYS;
	if ((r = take_extensions(&s, (size_t)h->total_extlen * 8, out)) < 0 ||
	    (r = take_fixed(&s, row, features, out)) < 0)
		return r;
	for (size_t i = 0; i < 2 && row->names[i] != NAME_NONE; i++)
		if ((r = take_name(&s, row->names[i], &out->name[i])) < 0)
			return r;
	return take_data(&s, row, out);
}
