// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/server_layout.h - facts about the server that the network and file programs use. The loader
 * writes it into the section SERVER_FACTS before the kernel takes the programs. */
#pragma once
#include <linux/types.h>

#define SERVER_FACTS ".rodata.server"
struct server_facts {
	__u32 pid_namespace;	   /* inode number of the server's /proc/self/ns/pid */
	__u32 uid_first, uid_last; /* of sessions, for file_calls */
	__u32 fuse_file_handle;	   /* offset of fh in the kernel's fuse_file; 0: not found */
};
