// SPDX-License-Identifier: Apache-2.0
/* bpf/fuse_file.h - a FUSE mount with one file, for `agentsh doctor` and tests of the byte counter.
 *
 * The file FUSE_FILE_NAME reads as zeros, and what is written to it is forgotten. The first open
 * gets file handle 1, the next one 2, and so on. */
#pragma once
#include "base/err.h"
#include <sys/types.h>

#define FUSE_FILE_NAME "f"
#define FUSE_FILE_SIZE (1024 * 1024)

/* Mounts over the directory, in the caller's mount namespace, and forks the process that serves it.
 * *pid: the caller waits for it after it has unmounted. */
int fuse_file_mount(const char *dir, pid_t *pid, struct err *err);
