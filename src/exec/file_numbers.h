// SPDX-License-Identifier: Apache-2.0
/* exec/file_numbers.h - whether stat tells the numbers that the kernel itself has of a file;
 * private to this folder. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Devices of mounts that were looked up; one thread's. */
#define MOUNTS_KNOWN 16
struct mount_devices {
	struct mount_device {
		int mount; /* 0: free */
		dev_t dev;
	} known[MOUNTS_KNOWN];
	unsigned next;
};
/* The device of stat is another one in a subvolume of btrfs, and both numbers may be others on an
 * overlayfs whose layers are on several file systems. fd: open file with these numbers; tid: a
 * thread in the mount namespace that it was opened in. */
bool file_numbers_compare(struct mount_devices *m, int fd, dev_t dev, ino_t ino, pid_t tid);
