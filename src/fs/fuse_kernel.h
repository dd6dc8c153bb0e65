// SPDX-License-Identifier: Apache-2.0
/* fs/fuse_kernel.h - the kernel's FUSE protocol: <linux/fuse.h>, and what an older copy of it
 * lacks.
 *
 * The build must not depend on the age of the header (Debian's is 7.38). Numbers of the protocol
 * never change, so they are named here where the header has no name for them. */
#pragma once
#include <linux/fuse.h>
#include <stddef.h>
#include <sys/ioctl.h>

#define FUSE_OLDEST_MINOR 31 /* Linux 5.6, the first with openat2 */
#define FUSE_NEWEST_MINOR 45 /* what this room knows */

/* enum members of newer headers: names of our own, because a macro cannot see an enum */
enum {
	FS_OP_STATX = 52,	       /* 7.39 */
	FS_OP_COPY_FILE_RANGE_64 = 53, /* 7.45 */
	FS_EXT_GROUPS = 32,	       /* 7.38 and later headers */
};

/* INIT flags; bits 32 to 63 travel in flags2 */
#ifndef FUSE_CREATE_SUPP_GROUP
#define FUSE_CREATE_SUPP_GROUP (1ULL << 34)
#endif
#ifndef FUSE_DIRECT_IO_ALLOW_MMAP
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36)
#endif
#ifndef FUSE_PASSTHROUGH
#define FUSE_PASSTHROUGH (1ULL << 37)
#endif
#ifndef FUSE_NO_EXPORT_SUPPORT
#define FUSE_NO_EXPORT_SUPPORT (1ULL << 38)
#endif
#ifndef FUSE_HAS_RESEND
#define FUSE_HAS_RESEND (1ULL << 39)
#endif
#ifndef FUSE_ALLOW_IDMAP
#define FUSE_ALLOW_IDMAP (1ULL << 40)
#endif
#ifndef FUSE_OVER_IO_URING
#define FUSE_OVER_IO_URING (1ULL << 41)
#endif
#ifndef FUSE_REQUEST_TIMEOUT
#define FUSE_REQUEST_TIMEOUT (1ULL << 42)
#endif

/* Answer of OPEN and CREATE: the kernel serves reads and writes from a backing file. */
#ifndef FOPEN_PASSTHROUGH
#define FOPEN_PASSTHROUGH (1 << 7)
#endif

/* The answer to OPEN as of 7.40; older headers call the last part padding. */
struct fs_open_out {
	uint64_t fh;
	uint32_t open_flags;
	int32_t backing_id; /* with FOPEN_PASSTHROUGH */
};

/* ioctls of /dev/fuse, of 7.40: a file gets a number by which the kernel reads and writes it */
struct fs_backing_map {
	int32_t fd;
	uint32_t flags; /* 0 */
	uint64_t padding;
};
#define FS_BACKING_OPEN _IOW(229, 1, struct fs_backing_map)
#define FS_BACKING_CLOSE _IOW(229, 2, uint32_t)

/* FUSE over io_uring, of 7.42: the buffer of an entry, and the command in a submission */
struct fs_uring_entry_io {
	uint64_t flags, commit_id;
	uint32_t payload_size, padding;
	uint64_t reserved;
};
struct fs_uring_headers {
	uint8_t in_out[128]; /* struct fuse_in_header, then struct fuse_out_header */
	uint8_t fixed[128];
	struct fs_uring_entry_io io;
};
struct fs_uring_command {
	uint64_t flags, commit_id;
	uint16_t queue;
	uint8_t padding[6];
};
enum { FS_URING_REGISTER = 1, FS_URING_COMMIT_AND_FETCH };

/* The answer to INIT as of 7.41; older headers call the last part unused. */
struct fs_init_out {
	uint32_t major, minor;
	uint32_t max_readahead;
	uint32_t flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write;
	uint32_t time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2;
	uint32_t max_stack_depth; /* 7.40 */
	uint16_t request_timeout; /* 7.43 */
	uint16_t unused[11];
};

/* One extension behind the names of CREATE, MKDIR, MKNOD, SYMLINK and TMPFILE. */
struct fs_ext_header {
	uint32_t size; /* with this header, padded to 8 */
	uint32_t type;
};

struct fs_statx_in { /* FS_OP_STATX */
	uint32_t getattr_flags, reserved;
	uint64_t fh;
	uint32_t sx_flags, sx_mask;
};

struct fs_copy_file_range_out { /* the answer of FS_OP_COPY_FILE_RANGE_64 */
	uint64_t bytes_copied;
};

_Static_assert(FUSE_KERNEL_VERSION == 7, "the protocol's major version");
_Static_assert(sizeof(struct fuse_in_header) == 40, "in_header");
_Static_assert(sizeof(struct fuse_out_header) == 16, "out_header");
_Static_assert(sizeof(struct fuse_init_in) == 64, "init_in");
_Static_assert(sizeof(struct fuse_init_out) == sizeof(struct fs_init_out), "init_out");
_Static_assert(offsetof(struct fuse_init_out, flags2) == offsetof(struct fs_init_out, flags2),
	       "init_out.flags2");
_Static_assert(sizeof(struct fs_init_out) == 64, "init_out");
_Static_assert(sizeof(struct fuse_write_in) == 40, "write_in");
_Static_assert(sizeof(struct fuse_setxattr_in) == 16, "setxattr_in with FUSE_SETXATTR_EXT");
_Static_assert(sizeof(struct fuse_setattr_in) == 88, "setattr_in");
_Static_assert(sizeof(struct fuse_entry_out) == 128, "entry_out");
_Static_assert(sizeof(struct fs_statx_in) == 24, "statx_in");
_Static_assert(sizeof(struct fs_open_out) == sizeof(struct fuse_open_out), "open_out");
_Static_assert(sizeof(struct fs_uring_headers) == 288, "uring_req_header");
_Static_assert(sizeof(struct fs_uring_command) == 24, "uring_cmd_req");
