// SPDX-License-Identifier: Apache-2.0
/* launcher/session_limits.h - the limits of a session. Private to launcher/. */
#pragma once
#include "link/link.h"
#include "model/wall.h"

/* Scratch files are the session's memory: where that is limited (by walls) they have half of it at
 * most, and at least 1 MB; else the kernel could not free the memory by killing a process. 0 MB:
 * not limited. */
void limits_share(int64_t memory_mb, struct wall_report *walls, uint32_t *scratch_mb);
/* 1 << WALL_…: what must be up. */
uint64_t limits_required(const struct launcher_create *ask);

/* launcher_limit: narrower limits for a living session. Fails only if the message cannot be read.
 */
void narrow_session(void *launcher, void *msg, struct link_msg *m);
