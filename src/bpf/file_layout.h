// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/file_layout.h - what file_calls.bpf.c and the processes of a server share.
 *
 * One program at sys_exit, loaded once for all sessions of a server, looks at the finished system
 * calls of sessions. It counts the bytes of each open file of the session's FUSE mount, also with
 * kernel passthrough, where agentsh-fs sees neither reads nor writes. And it records calls that
 * name paths, for directories that agentsh-fs does not serve. It decides nothing.
 *
 * outer map  the session's map                          who writes                 who reads
 * slots      ARRAY file_slot, BPF_F_MMAPABLE            the program, agentsh-fs    agentsh-fs
 * rings      RINGBUF of file_call                       the program                its owner
 *
 * The key of both (type HASH_OF_MAPS) is struct exec_session_key: see exec_layout.h. A session
 * without slots is not looked at; without a ring its calls are not recorded.
 *
 * Bytes: agentsh-fs gives the number of a slot as file handle when it answers OPEN. The program
 * finds the handle in the kernel's fuse_file and adds to the slot. agentsh-fs reads the totals at
 * RELEASE, after which it may use the slot again. Other handles are not counted. Calls: read,
 * write, pread, pwrite, their vector forms, sendfile, splice, copy_file_range. Blind: io_uring and
 * io_submit (a session's filter must refuse them), and what a program reads and writes by mmap:
 * there only `mapped` is set.
 *
 * Without a FUSE mount, and with count_opened, a file that is opened gets the slot that the address
 * of its struct file leads to. The record of the open names the slot, and has the numbers of the
 * file that had it before. Those are exact if that file had the same address, because it must be
 * closed then; else it may be open still, and is not counted any more.
 *
 * Paths: of a successful open, the path of the opened file in the caller's root; another thread
 * with the same descriptors may just have put another file in its place (dup2). Of all other
 * calls, the directory that they began from and the argument as it stood in memory when the call
 * ended: symbolic links and `..` are not resolved, and another thread may have changed it.
 * Therefore path_source stands in each record.
 *
 * A full ring: the record is lost and counted in file_record.dropped. */
#pragma once
#include <linux/types.h>

#define FILE_SESSIONS_MAX 8192
#define FILE_SLOTS_MAX 4096 /* with slot 0 */
#define FILE_RING_BYTES (256 * 1024)
#define FILE_PATH_MAX 4096

/* WRITE: shared, of a file that is open for writing. */
enum file_mapped { FILE_MAPPED_READ = 1, FILE_MAPPED_WRITE = 2 };

/* Slot 0: the session's record. */
struct file_record {
	/* Written by its owner. */
	__u32 fuse_dev; /* the FUSE mount as the kernel has it, EXEC_DEV(major, minor); 0: none */
	__u32 record;	/* enum file_wanted */
	/* Written by the program. */
	__u64 recorded, dropped;
	/* Written by its owner. 1: the bytes of opened files are counted, too, in sessions without
	 * a FUSE mount. */
	__u32 count_opened;
	/* The root of a mount: other calls that begin from a directory outside of it, and opens of
	 * files outside of it, are not recorded unless they are refused, or a path is not wholly
	 * known. root_ino 0: all are. */
	__u32 root_dev;
	__u64 root_ino;
};
/* Which calls are recorded, by their result. */
enum file_wanted {
	FILE_WANT_DONE = 1,    /* successful calls */
	FILE_WANT_REFUSED = 2, /* EACCES, EPERM, EROFS */
	FILE_WANT_FAILED = 4,  /* any other error */
	FILE_WANT_STAT = 8,    /* these results of FILE_STAT, too; its successful calls never are */
};
struct file_bytes {
	__u64 read, written;
	__u32 mapped; /* enum file_mapped */
	/* of an opened file without FUSE: */
	__u32 opens; /* of files that had the slot so far: which open the numbers belong to */
	__u64 file;  /* the kernel's struct file; it may be closed by now */
	__u64 ino;
};
struct file_slot {
	union {
		struct file_bytes bytes;
		struct file_record record; /* of slot 0 */
	};
};

enum file_operation {
	FILE_OPEN = 1,
	FILE_UNLINK, /* with AT_REMOVEDIR in flags: a directory */
	FILE_RENAME,
	FILE_LINK,
	FILE_SYMLINK, /* the second path is the text of the link */
	FILE_MKDIR,
	FILE_MKNOD,
	FILE_CHMOD,
	FILE_CHOWN,
	FILE_TRUNCATE,
	FILE_UTIMES,
	FILE_XATTR,
	FILE_STAT,
};

enum file_path_source { FILE_PATH_RESOLVED = 1, FILE_PATH_ARGUMENT };
enum file_cut {
	FILE_CUT_BASE = 1,     /* the beginning of a directory's path is missing */
	FILE_CUT_ARGUMENT = 2, /* an argument was cut */
	FILE_CUT_UNREAD = 4,   /* the first argument could not be read */
	FILE_CUT_UNREAD2 = 8,  /* the second one */
};

/* A record. The four texts follow it, one after the other, without zero bytes. */
struct file_call {
	__u64 time;	  /* CLOCK_BOOTTIME, ns */
	__u64 start;	  /* of the process: see net_layout.h */
	__u32 pid, tid;	  /* as the server sees them */
	__u32 top;	  /* the same of the ancestor that is a child of the session's process 1; 0:
			     too many processes are between them */
	__s32 result;	  /* what the call returned: >= 0 or -errno */
	__u32 flags;	  /* of open, unlink, rename and link in all their forms; else 0 */
	__u32 dev;	  /* of a successful open, else 0 */
	__u64 ino;	  /* the same */
	__u8 operation;	  /* enum file_operation */
	__u8 path_source; /* enum file_path_source */
	__u8 cut;	  /* enum file_cut */
	__u8 created;	  /* a successful open made the file */
	/* RESOLVED: base is the path. ARGUMENT: base is empty if the argument is absolute. */
	struct {
		__u16 base_len, argument_len;
	} path[2];  /* the second of rename, link and symlink */
	__u32 slot; /* of a counted open, else 0; its number of opens is before.opens + 1 */
	struct file_bytes before; /* of the file that had it; file 0: none */
	__u32 exact;		  /* 1: those numbers are all of them */
	__u32 unused;
};
