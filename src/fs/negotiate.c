// SPDX-License-Identifier: Apache-2.0
#include "fs/negotiate.h"
#include "base/mem.h"
#include <stdio.h>

#define DEFAULT_BACKGROUND 64
#define FLAGS2_SHIFT 32

#define ROW(flag, minor, want, without)                                    \
	{                                                                  \
		FUSE_##flag, "FUSE_" #flag, minor, FS_WANT_##want, without \
	}
/* tools/gen_reference.py copies this table into docs/architecture/fs.md. */
static const struct fs_flag_row rows[] = {
	/* flag, since 7.x, wanted, what is done without it */
	ROW(ASYNC_READ, 6, ALWAYS, "one read of a file at a time; readahead waits for each"),
	ROW(POSIX_LOCKS, 7, ALWAYS,
	    "POSIX locks hold within the mount; the host does not see them"),
	ROW(FLOCK_LOCKS, 17, ALWAYS, "flock holds within the mount; the host does not see it"),
	ROW(ATOMIC_O_TRUNC, 7, ALWAYS, "the kernel sends SETATTR with size 0 after OPEN"),
	ROW(BIG_WRITES, 9, ALWAYS, "writes of one page"),
	ROW(AUTO_INVAL_DATA, 20, ALWAYS,
	    "cached data that the host has changed stay until the file is opened again"),
	ROW(EXPLICIT_INVAL_DATA, 30, OPTION,
	    "with AUTO_INVAL_DATA, which it replaces: a changed mtime drops cached data"),
	ROW(DO_READDIRPLUS, 21, ALWAYS, "READDIR, and a LOOKUP for each entry that is looked at"),
	ROW(READDIRPLUS_AUTO, 21, ALWAYS, "READDIRPLUS for every part of every listing"),
	ROW(ASYNC_DIO, 22, ALWAYS, "the parts of one direct read or write go one after the other"),
	ROW(PARALLEL_DIROPS, 25, ALWAYS, "one LOOKUP or READDIR in a directory at a time"),
	ROW(MAX_PAGES, 28, ALWAYS,
	    "reads and writes of 32 pages, which are 131072 bytes on most machines"),
	ROW(CACHE_SYMLINKS, 28, ALWAYS, "READLINK each time that a link is followed"),
	ROW(HANDLE_KILLPRIV_V2, 33, ALWAYS, "GETXATTR of security.capability before each write"),
	ROW(SETXATTR_EXT, 33, ALWAYS, "an ACL that is set does not clear the set-group-id bit"),
	ROW(INIT_EXT, 36, ALWAYS, "none of the flags below that need 7.36"),
	ROW(HAS_EXPIRE_ONLY, 38, ALWAYS, "a forgotten name also drops what is mounted on it"),
	ROW(WRITEBACK_CACHE, 23, OPTION, "writes go to the server before write() returns"),
	ROW(DONT_MASK, 12, OPTION,
	    "the kernel applies the umask, also below a directory with a default ACL"),
	ROW(POSIX_ACL, 26, OPTION, "ACLs are xattrs; the kernel does not check by them"),
	ROW(CREATE_SUPP_GROUP, 38, OPTION, "a creation carries the caller's uid and gid alone"),
	ROW(DIRECT_IO_ALLOW_MMAP, 39, OPTION,
	    "no shared mapping of a file that is opened for direct I/O"),
	ROW(PASSTHROUGH, 40, OPTION,
	    "READ and WRITE requests; the page cache is kept between opens"),
	ROW(ALLOW_IDMAP, 41, OPTION, "the mount cannot be idmapped"),
	ROW(OVER_IO_URING, 42, OPTION, "requests are read from and answered to /dev/fuse"),
	ROW(EXPORT_SUPPORT, 10, NEVER, "the mount cannot be exported by NFS"),
	ROW(NO_OPEN_SUPPORT, 23, NEVER, "each open is a request: policy decides it"),
	ROW(NO_OPENDIR_SUPPORT, 29, NEVER, "each opendir is a request: policy decides it"),
	ROW(SPLICE_READ, 14, NEVER, "read and write are one system call each"),
	ROW(HAS_IOCTL_DIR, 18, NEVER, "an ioctl on a directory fails with ENOTTY"),
	ROW(HANDLE_KILLPRIV, 26, NEVER, "HANDLE_KILLPRIV_V2 has the rules of a local file system"),
	ROW(SUBMOUNTS, 32, NEVER, "the server gives inodes of other devices numbers of its own"),
	ROW(SECURITY_CTX, 36, NEVER, "the backing file system labels new files by itself"),
};

const struct fs_flag_row *fs_flag_rows(size_t *n)
{
	*n = ARRAY_LEN(rows);
	return rows;
}

static uint64_t agreed_flags(uint64_t offered, uint32_t minor, const struct fs_wanted *w)
{
	uint64_t flags = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct fs_flag_row *r = &rows[i];
		bool wanted = r->want == FS_WANT_ALWAYS ||
			      (r->want == FS_WANT_OPTION && (w->also & r->flag) != 0);

		if (wanted && minor >= r->minor && (w->never & r->flag) == 0)
			flags |= r->flag & offered;
	}
	if ((flags & FUSE_INIT_EXT) == 0)
		flags &= UINT32_MAX;
	/* Pairs of which the kernel ignores the second. */
	if ((flags & FUSE_EXPLICIT_INVAL_DATA) != 0)
		flags &= ~(uint64_t)FUSE_AUTO_INVAL_DATA;
	if ((flags & FUSE_WRITEBACK_CACHE) != 0)
		flags &= ~FUSE_PASSTHROUGH;
	/* After the answer to an open that truncates, the kernel sets its own size to 0 once more,
	 * and not under the same lock: what another process writes in between would be lost to it.
	 */
	if ((flags & FUSE_WRITEBACK_CACHE) != 0)
		flags &= ~(uint64_t)FUSE_ATOMIC_O_TRUNC;
	if ((flags & FUSE_DO_READDIRPLUS) == 0)
		flags &= ~(uint64_t)FUSE_READDIRPLUS_AUTO;
	return flags;
}

int fs_negotiate(const struct fuse_init_in *in, const struct fs_wanted *w, struct fs_init_out *out,
		 struct fs_features *features, struct err *err)
{
	uint64_t offered = in->flags;
	uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);
	uint16_t background = w->max_background != 0 ? w->max_background : DEFAULT_BACKGROUND;
	struct fs_features f;

	if (in->major > FUSE_KERNEL_VERSION) {
		*out = (struct fs_init_out){.major = FUSE_KERNEL_VERSION,
					    .minor = FUSE_NEWEST_MINOR};
		*features = (struct fs_features){0};
		return 0;
	}
	if (in->major < FUSE_KERNEL_VERSION || in->minor < FUSE_OLDEST_MINOR)
		return err_set(err, E_ENFORCEMENT, "fuse",
			       "this kernel speaks FUSE %u.%u; agentsh needs %u.%u (Linux 5.6)",
			       in->major, in->minor, FUSE_KERNEL_VERSION, FUSE_OLDEST_MINOR);
	f.minor = in->minor < FUSE_NEWEST_MINOR ? in->minor : FUSE_NEWEST_MINOR;
	if ((offered & FUSE_INIT_EXT) != 0)
		offered |= (uint64_t)in->flags2 << FLAGS2_SHIFT;
	f.flags = agreed_flags(offered, f.minor, w);
	f.max_write = (f.flags & FUSE_BIG_WRITES) == 0 ? page : FS_MAX_IO;
	f.max_readahead = in->max_readahead;
	if (w->max_readahead != 0 && w->max_readahead < f.max_readahead)
		f.max_readahead = w->max_readahead;
	*out = (struct fs_init_out){
		.major = FUSE_KERNEL_VERSION,
		.minor = f.minor,
		.max_readahead = f.max_readahead,
		.flags = (uint32_t)f.flags,
		.flags2 = (uint32_t)(f.flags >> FLAGS2_SHIFT),
		.max_background = background,
		.congestion_threshold = background - background / 4,
		.max_write = f.max_write,
		.time_gran = 1,
		.max_pages = (f.flags & FUSE_MAX_PAGES) != 0 ? (FS_MAX_IO + page - 1) / page : 0,
	};
	if ((f.flags & FUSE_PASSTHROUGH) != 0)
		out->max_stack_depth = w->max_stack_depth != 0 ? w->max_stack_depth : 1;
	*features = f;
	return 0;
}
