// SPDX-License-Identifier: Apache-2.0
/* probe/probe.h - forbidden acts, tried one after the other.
 *
 * `agentsh doctor` copies the program into a throwaway session's workspace and runs it there, where
 * every act must fail, and once outside, where those that succeed prove that the failure inside is
 * a wall's doing. It uses libc alone and harms nothing where an act succeeds.
 *
 * usage: agentsh-probe GROUP [KEY=VALUE]...
 * Prints a line an act, "wall\toutcome\twhat was tried\twhat came back"; an act whose key is not
 * given is left out. */
#pragma once
#include <stddef.h>

#define PROBE_DETAIL 160
#define PROBE_SIGNAL "signal a process of the machine" /* the target knows whether it worked */
/* Acts that other walls refuse in a session without namespaces. */
#define PROBE_CANARY "open a file beside the workspace"
#define PROBE_TCP "connect to a port of the machine"
#define PROBE_ABSTRACT "connect to an abstract socket"
#define PROBE_SYSV "find a System V queue"
#define PROBE_POSIX "open a POSIX queue"
#define PROBE_DENIED 8
#define PROBE_EUID "euid" /* with this word, the status is 1 if the uids differ */

enum probe_outcome { PROBE_REFUSED, PROBE_DONE, PROBE_UNTRIED };

/* Targets that `agentsh doctor` made outside; NULL: it did not make it. */
struct probe_args {
	const char *canary;   /* a file outside of the session's view */
	const char *port;     /* a listener on the host's 127.0.0.1 */
	const char *abstract; /* a listener's abstract name */
	const char *pid;      /* a process of the host that waits for SIGURG */
	const char *key;      /* a System V queue */
	const char *queue;    /* a POSIX queue */
	const char *hostname;
	const char *mounts, *cgroup; /* links of /proc/self/ns/mnt and cgroup outside */
	const char *other;	     /* a uid that is not the session's */
	const char *set_uid; /* a copy of this program with another owner and the set-uid bit */
	const char *memory;  /* limits: MB, percent of one CPU, processes */
	const char *cpu;
	const char *pids;
	const char *denied[PROBE_DENIED]; /* programs that the policy denies */
};

/* Tries the act and writes the result. */
typedef enum probe_outcome probe_fn(const struct probe_args *a, char detail[PROBE_DETAIL]);
struct probe_act {
	const char *wall, *what;
	probe_fn *run;
	size_t need; /* offset of the argument that the act needs, or PROBE_ALWAYS */
};
#define PROBE_ALWAYS ((size_t)-1)

/* Ends with wall NULL. */
extern const struct probe_act probe_places[], probe_powers[], probe_calls[], probe_programs[],
	probe_limits[], probe_environment[];

/* PROBE_DONE for r >= 0, else PROBE_REFUSED with errno's name. */
enum probe_outcome probe_said(long r, char detail[PROBE_DETAIL]);
/* Runs fn in a child; fn returns 0 or an errno, or dies. */
enum probe_outcome probe_child(int (*fn)(const void *arg), const void *arg,
			       char detail[PROBE_DETAIL]);

/* The program; returns the exit status: 0, or 2 for a wrong usage. */
int probe_main(int argc, char **argv);
