// SPDX-License-Identifier: Apache-2.0
/* sandbox/idmap.h - the user namespace of an idmapped mount: two ids change places, all others
 * stay; private to this folder. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "sandbox/sandbox.h"
#include <stdint.h>

/* Lines for /proc/PID/uid_map: every id to itself, but a to b and b to a. */
void idmap_format(struct buf *out, uint32_t a, uint32_t b);
/* Maps the owners of a detached tree by the namespace of sandbox_idmap. real is where it comes
 * from. E_ENFORCEMENT "uid" with the type of its file system, which also goes to fs unless that is
 * NULL. */
#define IDMAP_FS SANDBOX_FS
int idmap_tree(int tree, int userns, const char *real, char fs[IDMAP_FS], struct err *err);
