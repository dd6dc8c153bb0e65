// SPDX-License-Identifier: Apache-2.0
/* command/limit_counters.h - records when the session reaches its limits.
 *
 * The warden may not open the cgroup's files; it gets them open at its start. It reads the files of
 * limiting controllers when the kernel reports a change, at the end of each command, and before a
 * command if processes were left running. Each counter that has grown makes one event.
 *
 * The kernel has no counter for writes that fail because the scratch space is full. Where that
 * space is limited, the warden reads its free part each second of a command and at its end. */
#pragma once
#include "base/err.h"
#include "cgroup/cgroup.h"
#include <stdbool.h>

struct commands;
struct process_limit;
struct run;
struct warden_result;
struct watch;

/* The use of resources when a command turned out not to be brief. */
struct limits_use {
	bool begun;
	bool peak; /* the peak of memory was reset for it */
	struct cgroup_counters at;
	uint64_t own_cpu_us; /* of this process, which is in the group, too */
};

struct limit_counters {
	struct cgroup_files files;
	unsigned controllers; /* 1 << CGROUP_…: those that are limited */
	struct cgroup_counters seen;
	bool looked; /* seen was read at a command's end */
	struct watch *event, *notify;
	int scratch_fd;	     /* in the limited file system; -1: not opened, or without a limit */
	uint64_t scratch_mb; /* its size, when it was seen full */
	struct watch *tick;
};
/* counters and walls: the process's arguments of these names. */
int limits_open(struct commands *cs, const struct strv *counters, const struct strv *walls,
		struct err *err);
void limits_close(struct commands *cs);
/* Watches the scratch space of the session's root, if it has a size of its own. */
void limits_watch_scratch(struct commands *cs);
/* The session's limits have become narrower, or are new: these are its walls now. */
void limits_changed(struct commands *cs, const struct wall_report *walls);
/* Reads the counters and records what has grown; looks at the scratch space for the command that
 * runs. Costs nothing without limits. */
void limits_look(struct commands *cs);
/* The same before a command, unless nothing ran since the end of the last one. */
void limits_before(struct commands *cs);
/* A command has met a limit that another process of the session counts. It is ended, or the limit
 * is the reason if it fails. */
void limits_reached(struct commands *cs, const struct process_limit *m);
/* A command is not brief: its use of resources is counted from now on, where there is a cgroup. */
void limits_begin(struct run *r);
/* Raises m's cpu_us, maxrss_kb, read_bytes and write_bytes, which are sums over waited-for
 * processes, to what the group has seen: also processes without a wait, and memory of several at
 * once. Only for a command that was not brief, while no earlier one is kept. */
void limits_measure(struct run *r, struct warden_result *m);
/* A message about the limit that a command reached: an OOM kill, forks that failed or, if it
 * failed, a full scratch space. NULL: none that could have ended it. Owned by the caller. */
char *limits_met(const struct run *r);
