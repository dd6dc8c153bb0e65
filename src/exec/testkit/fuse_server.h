// SPDX-License-Identifier: Apache-2.0
/* exec/testkit/fuse_server.h - a FUSE file system of one directory with a few programs, without a
 * library. */
#pragma once
#include <stddef.h>

struct fuse_file {
	const char *name;
	const char *from; /* its contents are this file's */
};
/* Mounts it and starts its process, which ends with the caller. The files are executable, and can
 * be renamed. 0 or -1/errno. */
int fuse_server_start(const char *where, const struct fuse_file *files, size_t n);
