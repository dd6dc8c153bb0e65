// SPDX-License-Identifier: Apache-2.0
/* base/proc.h - other processes, by pidfd and /proc. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include <stdint.h>
#include <sys/types.h>

int proc_pidfd(pid_t pid);		   /* pidfd_open; -1/errno */
int proc_pidfd_signal(int pidfd, int sig); /* 0 or -1/errno */
pid_t proc_pidfd_pid(int pidfd); /* pid in our namespace from fdinfo; -1 gone or outside */
pid_t proc_ppid(pid_t pid);	 /* -1 if gone */
/* A part of /proc/PID/stat. Times are in clock ticks. */
struct proc_stat {
	char state, name[64];
	int ppid, threads;
	unsigned long flags;
	bool killed;	     /* SIGKILL is pending */
	uint64_t cpu, start; /* used; since boot */
	int64_t pages;	     /* resident */
};
int proc_stat(pid_t pid, struct proc_stat *out); /* 0, or -1 if gone */
/* The number behind a key at the start of a line of a /proc file; -1 without it. */
long proc_number(const char *path, const char *key);
/* Parent and start time of a process or a thread. The start time is in clock ticks since boot; a
 * pid and its start time name one process for ever. */
struct proc_origin {
	pid_t ppid;
	uint64_t start;
};
int proc_origin(pid_t pid, struct proc_origin *out); /* 0, or -1 if gone */
/* The process that a thread belongs to, and its parent. */
struct proc_ids {
	pid_t pid, ppid;
};
int proc_ids(pid_t tid, struct proc_ids *out); /* 0, or -1 if gone */
bool proc_chrooted(void);		       /* our root is not that of our mount namespace */
/* Not for a zombie. A main thread that has ended while other threads run shows as one, and the
 * process is alive. */
bool proc_alive(pid_t pid);
/* Whether a process of the machine other than zombies has the real user id. */
bool proc_uid_lives(uint32_t uid);
bool proc_ending(pid_t pid);			  /* on its way out, dead or gone */
int proc_exe_is(pid_t pid, dev_t dev, ino_t ino); /* 1 yes, 0 no, -1/errno */
/* All living (not zombie) descendants of root, root excluded, by /proc/PID/task/TID/children; in a
 * storm of forks as many as a second shows. Returns the count; *out is malloc'ed by it (free). */
size_t proc_descendants(pid_t root, pid_t **out);
/* All children, zombies too; the same otherwise. */
size_t proc_children(pid_t pid, pid_t **out);
/* argv[0]-style one-line text of a process for people; "" if gone. */
void proc_cmdline(pid_t pid, char *out, size_t n);
/* Absolute path of the directory of the running program (no trailing slash); aborts if /proc is
 * missing. */
const char *proc_self_dir(void);
/* Finds a sibling program: beside ours, else in AGENTSH_LIBEXECDIR. E_UNAVAILABLE with both places
 * named. */
int proc_sibling(const char *name, char **path, struct err *err);
const char *proc_signal_name(int sig);	/* "KILL"; NULL if unknown */
int proc_signal_by_name(const char *s); /* "TERM", "SIGTERM", "15"; -1 if unknown */
