// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/exec_layout.h - what exec_check.bpf.c and the processes of a server share.
 *
 * The map `sessions` of a server has one entry for each session: the session's own map of wants.
 * A want is what the warden decided about one exec. The warden writes it before it lets the system
 * call go. The kernel program compares it with the program that was loaded, and removes it.
 *
 * The key of a want is the process id as the warden sees it. Key 0 has the session's record. */
#pragma once
#include <linux/types.h>

#define EXEC_SESSIONS_MAX 8192
#define EXEC_WANTS_MAX 128
#define EXEC_PATH_MAX 128 /* longer paths are cut */
/* The kernel program hashes at most this much of argv. A longer argv does not compare equal. */
#define EXEC_ARGV_CHUNK 64
#define EXEC_ARGV_MAX (32768 * EXEC_ARGV_CHUNK)

/* A session, by its PID namespace. The number of a namespace is given out again as soon as the
 * namespace has gone. The number together with init's process id makes an old entry harmless. */
struct exec_session_key {
	__u32 pid_namespace; /* inode number of /proc/INIT/ns/pid */
	__u32 init;	     /* the session's process 1, as the server sees it */
};

enum exec_state {
	EXEC_COMPARE = 1, /* compare, and kill a process whose program is another one */
	EXEC_PASS,	  /* let any program run: the warden made it, from its own memory */
	EXEC_STOPS,	  /* let any program run if it is traced: the warden compares it then */
	EXEC_MISMATCHED,  /* the kernel program has killed the process */
};

/* A program as the kernel loads it: of a script, its interpreter. */
struct exec_program {
	__u64 ino;
	__u32 dev; /* as the kernel has it: EXEC_DEV */
	__u32 unused;
	__u64 argv_len; /* with the final zero byte of each argument */
};
/* Device number from major and minor, as in the kernel's s_dev. */
#define EXEC_DEV(major, minor) ((__u32)(major) << 20 | (__u32)(minor))

struct exec_want {
	__u32 state; /* enum exec_state */
	__u32 unused;
	struct exec_program decided;
	__u64 hash_key[2]; /* random: the session cannot choose an argv with the same hash */
	__u64 argv_hash;   /* SipHash-2-4 of argv, see siphash.h */
	/* Only of EXEC_MISMATCHED. */
	struct exec_program loaded;
	char decided_path[EXEC_PATH_MAX]; /* empty: the warden wrote no want */
	char loaded_path[EXEC_PATH_MAX];
};

struct exec_record {
	__u64 done;	  /* programs that were those of their EXEC_COMPARE */
	__u64 mismatched; /* processes that it has killed */
	__u64 unchecked;  /* not 0: the session has no exec policy, and every program may run */
};

union exec_entry {
	struct exec_want want;
	struct exec_record record; /* of key 0 */
};
