// SPDX-License-Identifier: Apache-2.0
/* warden/limits.h - tells when the session's limits are hit.
 *
 * The warden may not open the cgroup's files; it was given them open. They are read when the kernel
 * says that something has grown, and at the start and the end of each command. What has grown since
 * is one event a counter. */
#pragma once
#include "base/err.h"
#include "sandbox/cgroup.h"

struct warden;
struct run;
struct watch;

struct limits {
	struct cgroup_files files;
	struct cgroup_counters seen;
	struct watch *event, *notify;
};
/* From the arguments of the process. */
int limits_open(struct warden *w, struct err *err);
void limits_close(struct warden *w);
/* Reads the counters and records what has grown. Costs nothing without limits. */
void limits_look(struct warden *w);
/* What a command met since it started, for people: an OOM kill, forks that failed. NULL: nothing
 * that could have ended it. Owned by the caller. */
char *limits_met(const struct run *r);
