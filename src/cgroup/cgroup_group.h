// SPDX-License-Identifier: Apache-2.0
/* cgroup/cgroup_group.h - the directory of a session's group and its control files; private to this
 * folder. */
#pragma once
#include "base/buf.h"
#include "cgroup/cgroup.h"

#define CGROUP_NO_LIMIT UINT64_MAX
#define CGROUP_OPEN_DIR (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* The session's group in one tree; -1/errno. */
int cgroup_group(const struct cgroup_host *host, size_t tree, const char *id);
/* The same, and makes it. */
int cgroup_make(const struct cgroup_host *host, size_t tree, const char *id);
/* One write to a control file. 0 or -1/errno. */
int cgroup_write(int dir, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A control file's text; empty and -1 if it cannot be read. */
int cgroup_load(int dir, const char *file, struct buf *out);
/* The wall that a controller's limits belong to. */
extern const enum wall cgroup_wall[CGROUP_CONTROLLERS];

/* The rest of the line that begins with this disk's number, in a text of one line a disk; NULL. */
const char *cgroup_disk_line(const char *text, dev_t disk);
/* The whole disk of a file system's device number; 0 for a file system without one (overlayfs,
 * btrfs, network). */
dev_t cgroup_disk(dev_t dev);
/* Our own group by the text of /proc/self/cgroup, with lines "number:controllers:path". controller
 * NULL means v2, which has no controllers there. "/" if no line has it, or it lies outside of our
 * namespace. The caller frees it. */
char *cgroup_own_path(const char *text, const char *controller);
