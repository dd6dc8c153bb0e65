// SPDX-License-Identifier: Apache-2.0
/* cgroup/cgroup.h - what all processes of a session may use together: memory, swap, CPU, processes,
 * disk bandwidth.
 *
 * Runs in the launcher, privileged, one thread. A host has one cgroup v2 tree, or several v1 trees
 * with a controller or two each, or both (hybrid); each controller is used where it is. A session's
 * group has the name "session-ID" in every tree, below "agentsh" in the server's own group, so that
 * the server's limits hold for its sessions too. This module keeps no state: a launcher that was
 * started anew in the same place finds a group by its id. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "model/limits.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_controller {
	CGROUP_MEMORY,
	CGROUP_CPU,
	CGROUP_CPUACCT, /* v1: counts what v2's cpu counts */
	CGROUP_PIDS,
	CGROUP_IO,
	CGROUP_CONTROLLERS
};

#define CGROUP_TREES (CGROUP_CONTROLLERS + 1)
#define CGROUP_WHY 100
struct cgroup_host {
	size_t n;
	struct {
		int dir; /* owned; the group of all sessions */
		bool v2;
		unsigned controllers; /* 1 << CGROUP_… */
	} tree[CGROUP_TREES];
	unsigned weight; /* of the group of all sessions, in processes; 0: not set yet */
	char why[CGROUP_CONTROLLERS][CGROUP_WHY]; /* a controller that no tree has: the reason */
};
/* Finds the trees and makes the group of all sessions in each. parent: a path from the trees'
 * roots; "" or NULL: the server's own group. A v2 group cannot have both processes and limited
 * children: if this process is alone in its group it moves to "agentsh-server" below it, else the
 * group above is used. Never fails: why has the reason for each missing controller. */
void cgroup_host_open(struct cgroup_host *host, const char *parent);
void cgroup_host_close(struct cgroup_host *host);
/* Removes the group of all sessions where it is empty; another server that shares it makes it
 * again. */
void cgroup_host_remove(struct cgroup_host *host);
/* Whether the group of all sessions still exists in every tree; else open it anew. */
bool cgroup_host_alive(const struct cgroup_host *host);
/* Where CPU time is scarce, all sessions together get as much as one process for each session, at
 * most four. With the weight of one process for all, a command of 32 clients waits too long. */
void cgroup_weigh(struct cgroup_host *host, size_t sessions);

struct cgroup_ask {
	const char *id;
	struct limits limits; /* only those of control groups are looked at */
	dev_t io_device;      /* st_dev of the workspace */
	uint64_t required;    /* 1 << WALL_…: must be up, or partial */
	bool swap;	      /* memory_limit is up only if swap is limited, too */
	bool undo;	      /* removes every limit that limits does not have */
};
/* Makes the session's group with its limits and writes the entries memory_limit, cpu_limit,
 * pids_limit and io_limit of the limits that were asked for. E_ENFORCEMENT names a required wall
 * that cannot be raised; the group is removed then. */
int cgroup_create(const struct cgroup_host *host, const struct cgroup_ask *ask,
		  struct wall_report *walls, struct err *err);
/* The same for a group that was made before and may have processes; it stays also on failure. */
int cgroup_limit(const struct cgroup_host *host, const struct cgroup_ask *ask,
		 struct wall_report *walls, struct err *err);
/* The limits of a group now, read from the kernel's files, with those of this disk. E_NOT_FOUND:
 * the group does not exist. */
int cgroup_limits_get(const struct cgroup_host *host, const char *id, dev_t io_device,
		      struct limits *l, struct err *err);
/* Bytes of memory that the kernel lets all sessions have together; UINT64_MAX: no limit. */
uint64_t cgroup_memory(const struct cgroup_host *host);
/* cgroup_limit for a group with running commands: sets all limits or none. E_CONFLICT: more memory
 * is in use than the limit would be; E_ENFORCEMENT as there. Either names the wall, and the limits
 * are as before. */
int cgroup_change(const struct cgroup_host *host, const struct cgroup_ask *ask,
		  struct wall_report *walls, struct err *err);
/* Moves a process (0: the caller); processes that it starts later are in the group too. */
int cgroup_join(const struct cgroup_host *host, const char *id, pid_t pid, struct err *err);
/* As fork, and the child starts in the group: a join waits for the kernel's grace period, this
 * does not. Only if the session's group is one group, of v2; else ENOTSUP. */
pid_t cgroup_fork(const struct cgroup_host *host, const char *id);

struct cgroup_counters {
	uint64_t memory_bytes, memory_peak_bytes;
	uint64_t memory_hits; /* times that it would have gone over the limit; v1: not on every
				 kernel */
	uint64_t oom_kills;
	uint64_t pids_hits; /* forks that failed */
	uint64_t cpu_us, throttled;
	uint64_t io_read_bytes, io_write_bytes;
};
/* A counter without a controller is 0. E_NOT_FOUND. */
int cgroup_read(const struct cgroup_host *host, const char *id, struct cgroup_counters *out,
		struct err *err);
/* SIGKILL to all at once, by v2's cgroup.kill. E_UNAVAILABLE if the kernel does not have it. */
int cgroup_kill(const struct cgroup_host *host, const char *id, struct err *err);
/* Removes the group from every tree, waiting up to timeout_ms (0: not at all) for its processes to
 * end. A group that is not there is fine. E_UNAVAILABLE: it still has processes. */
int cgroup_remove(const struct cgroup_host *host, const char *id, int timeout_ms, struct err *err);

/* Whether the group exists and has no process in any tree. */
bool cgroup_empty(const struct cgroup_host *host, const char *id);

/* Adds the ids of all groups that begin with prefix; some may come more than once. */
void cgroup_list(const struct cgroup_host *host, const char *prefix, struct strv *ids);

/* The open files of the counters, for a process that may not open them, and two descriptors that
 * become readable when a hit may have been counted. Descriptors are owned. */
#define CGROUP_FILES 16
struct cgroup_files {
	size_t n;
	struct {
		int fd;
		const struct cgroup_counter *row; /* the first of its file */
	} file[CGROUP_FILES];
	/* To be polled and read empty; -1: none. v1 reports the limit of processes on some kernels
	 * only: compare the counters at a command's end, too. */
	int event, notify;
};
#define CGROUP_FILES_NONE ((struct cgroup_files){.event = -1, .notify = -1})
/* Of every controller that the group has. A file that cannot be opened is left out. */
void cgroup_files_open(const struct cgroup_host *host, const char *id, struct cgroup_files *out);
void cgroup_files_close(struct cgroup_files *f);
/* "NUMBER NAME" of each, for an argument list; they stay open at the next exec. */
void cgroup_files_format(const struct cgroup_files *f, struct strv *out);
/* Adds one of them and owns the descriptor, which is closed at exec. E_BAD_REQUEST. */
int cgroup_files_parse(struct cgroup_files *f, const char *text, struct err *err);
/* Only hits, of these controllers (1 << CGROUP_…): memory_hits, oom_kills, pids_hits, throttled. */
void cgroup_files_read(const struct cgroup_files *f, unsigned controllers,
		       struct cgroup_counters *out);
/* Only resources that were used: cpu_us, io_read_bytes, io_write_bytes, memory_peak_bytes. */
void cgroup_files_use(const struct cgroup_files *f, struct cgroup_counters *out);
/* Starts a new measurement of the peak (v1; v2 since Linux 6.12). 0, or -1 where the kernel
 * cannot. */
int cgroup_files_reset_peak(const struct cgroup_files *f);
/* 1 << CGROUP_… of the limits that are up, or partly, in a report. */
unsigned cgroup_limited(const struct wall_report *walls);
