// SPDX-License-Identifier: Apache-2.0
/* cgroup/cgroup_version.h - what cgroup.c asks of v1 and v2; private to this folder. */
#pragma once
#include "base/buf.h"
#include "cgroup/cgroup.h"

enum cgroup_kind { CGROUP_NOW, CGROUP_HIT = 1, CGROUP_USE = 2, CGROUP_PEAK = 4 };
/* Where a counter stands in a control file. */
struct cgroup_counter {
	enum cgroup_controller controller;
	enum cgroup_kind kind;
	const char *file;
	const char *key; /* text before each number, at the start of a word; all are added. NULL:
			    the file is one number */
	size_t offset;	 /* in struct cgroup_counters */
	uint64_t divisor;
};
struct cgroup_version {
	const char *controller[CGROUP_CONTROLLERS]; /* its name; NULL: does not exist */
	/* Sets the limits that were asked for and writes the wall's entry. dir: the session's
	 * group.
	 */
	void (*limit[CGROUP_CONTROLLERS])(int dir, const struct cgroup_ask *ask,
					  struct wall_report *walls);
	/* What holds the group now, of these controllers. */
	void (*limits)(int dir, unsigned controllers, dev_t disk, struct limits *out);
	const struct cgroup_counter *counters;
	size_t ncounters;
	/* Opens what tells of a controller's hits. 0 or -1/errno. */
	int (*watch)(int dir, unsigned controllers, struct cgroup_files *f);
};
extern const struct cgroup_version cgroup_v1, cgroup_v2;

#define CGROUP_NO_LIMIT UINT64_MAX
#define CGROUP_MB(mb) ((unsigned long long)(mb) << 20)
/* Whether a limit of this controller is asked for. */
bool cgroup_limits(const struct limits *l, enum cgroup_controller c);
/* The period of max_cpu_percent, or the kernel's own. */
static inline long long cgroup_period(const struct limits *l)
{
	return l->value[LIMIT_cpu_period_us] != 0 ? l->value[LIMIT_cpu_period_us] : 100000;
}
/* Writes down what a control file says, in units of 1 << bits, rounded up. */
void cgroup_found(struct limits *l, enum limit i, uint64_t value, unsigned bits);
/* Adds the counter of one row to *out, from the text of its file. */
void cgroup_count(const struct cgroup_counter *row, const char *text, struct cgroup_counters *out);
/* One write to a control file. 0 or -1/errno. */
int cgroup_write(int dir, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* A control file's text; empty and -1 if it cannot be read. */
int cgroup_load(int dir, const char *file, struct buf *out);
/* The number of a control file; what means no limit, or cannot be read, is CGROUP_NO_LIMIT. */
uint64_t cgroup_number(int dir, const char *file);
/* The same of a quota: part of one CPU, as it was asked for. The quota was rounded down. */
void cgroup_found_cpu(struct limits *l, uint64_t quota_us, uint64_t period_us);
/* The rest of the line that begins with this disk's number, in a text of one line a disk; NULL. */
const char *cgroup_disk_line(const char *text, dev_t disk);
/* pids.max is the same in both versions; note stands at the end of the wall's entry. */
void cgroup_limit_pids(int dir, const struct cgroup_ask *ask, struct wall_report *walls,
		       const char *note);
/* inotify of one control file. 0 or -1/errno. */
int cgroup_notify(struct cgroup_files *f, int dir, const char *file);
/* Writes the entry of a limit that could not be set: the file and errno. */
void cgroup_refused(struct wall_report *walls, enum wall wall, const char *file);
/* The session's group in one tree; -1/errno. */
int cgroup_group(const struct cgroup_host *host, size_t tree, const char *id);
/* Our own group by the text of /proc/self/cgroup, whose lines are "number:controllers:path"; NULL
 * means v2, which has no controllers there. "/" where there is none, or it lies outside of our
 * namespace. The caller frees it. */
char *cgroup_own_path(const char *text, const char *controller);
