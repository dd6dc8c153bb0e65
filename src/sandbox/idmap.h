// SPDX-License-Identifier: Apache-2.0
/* sandbox/idmap.h - the user namespace of an idmapped mount: two ids change places, all others
 * stay; private to this folder. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <stdint.h>

struct idmap {
	uint32_t disk_uid, disk_gid;   /* as in the file system */
	uint32_t shown_uid, shown_gid; /* as the session's processes have it */
};
/* Lines for /proc/PID/uid_map: every id to itself, but a to b and b to a. */
void idmap_format(struct buf *out, uint32_t a, uint32_t b);
/* A descriptor for MOUNT_ATTR_IDMAP. Needs CAP_SETUID, CAP_SETGID and CAP_SETFCAP. E_ENFORCEMENT.
 */
int idmap_open(const struct idmap *m, int *userns, struct err *err);
/* The same, but kept here: *userns is borrowed until some other maps have been asked for. */
#define IDMAP_KEPT 8
int idmap_kept(const struct idmap *m, int *userns, struct err *err);
