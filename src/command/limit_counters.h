// SPDX-License-Identifier: Apache-2.0
/* command/limit_counters.h - tells when the session's limits are hit.
 *
 * The warden may not open the cgroup's files; it is given them open at its start. They are
 * read when the kernel says that something has grown, at the end of each command, and before
 * one if something was left running; those of controllers that limit nothing are not. What has
 * grown since is one event a counter.
 *
 * The kernel counts nothing when a write fails for want of scratch space: where that is limited,
 * its free part is looked at each second of a command and at its end. */
#pragma once
#include "base/err.h"
#include "cgroup/cgroup.h"
#include <stdbool.h>

struct commands;
struct run;
struct warden_result;
struct watch;

/* What was used when a command was seen to last. */
struct limits_use {
	bool begun;
	bool peak; /* that of the memory is its own */
	struct cgroup_counters at;
	uint64_t own_cpu_us; /* of this process, which is in the group, too */
};

struct limit_counters {
	struct cgroup_files files;
	unsigned controllers; /* 1 << CGROUP_…: those that are limited */
	struct cgroup_counters seen;
	bool looked; /* seen is what was at a command's end */
	struct watch *event, *notify;
	int scratch_fd;	     /* in the limited file system; -1: not opened, or there is no limit */
	uint64_t scratch_mb; /* its size, when it was seen full */
	struct watch *tick;
};
/* counters and walls: the process's arguments of these names. */
int limits_open(struct commands *cs, const struct strv *counters, const struct strv *walls,
		struct err *err);
void limits_close(struct commands *cs);
/* Once the session's root is there: its scratch space is watched, if it has a size of its own. */
void limits_watch_scratch(struct commands *cs);
/* The session's limits have become narrower, or are new: these are its walls now. */
void limits_changed(struct commands *cs, const struct wall_report *walls);
/* Reads the counters and records what has grown; looks at the scratch space for the command that
 * runs. Costs nothing without limits. */
void limits_look(struct commands *cs);
/* The same before a command, unless nothing ran since the end of the last one. */
void limits_before(struct commands *cs);
/* A command is not over at once: what it uses is counted from now on, where there is a cgroup. */
void limits_begin(struct run *r);
/* Raises m's cpu_us, maxrss_kb, read_bytes and write_bytes, which are the sum of what was waited
 * for, by what the group has seen besides: processes that nobody waited for, memory of several at
 * once. Only for a command that lasted, while nothing of an earlier one is kept. */
void limits_measure(struct run *r, struct warden_result *m);
/* What a command met since it started, for people: an OOM kill, forks that failed, and if it has
 * failed, scratch space that was full. NULL: nothing that could have ended it. Owned by the caller.
 */
char *limits_met(const struct run *r);
