// SPDX-License-Identifier: Apache-2.0
/* sandbox/scratch.h - the bound of a living session's scratch file system, from outside. Runs in
 * the launcher; only root's may. */
#pragma once
#include "base/err.h"
#include "model/wall.h"
#include <stdint.h>
#include <sys/types.h>

#define SCRATCH_MB 1024 /* that a session has without a limit of its own, and at most */
#define SCRATCH_WORKSPACE "workspace" /* in the root of a session */

/* The root of the session whose init this is, O_PATH; -1/errno, also while that is the host's. */
int scratch_root(pid_t init);
/* Its bound now, in bytes. 0 or -code. */
int scratch_get(int root, uint64_t *bytes, struct err *err);
/* Sets it and writes the entry of disk_limit. E_CONFLICT: more is in use; E_ENFORCEMENT. */
int scratch_set(int root, uint64_t bytes, struct wall_report *walls, struct err *err);
/* The same as far as what is in use allows; nothing if it is not above that. */
int scratch_lower(int root, uint64_t bytes, struct wall_report *walls, struct err *err);
