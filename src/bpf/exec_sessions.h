// SPDX-License-Identifier: Apache-2.0
/* bpf/exec_sessions.h - the sessions whose execs the kernel checks (exec_layout.h).
 *
 * agentsh-bpf loads the check for a server and ends. The launcher holds it, a stub adds its
 * session, and the session's warden holds the link and its own session's map. Nothing is pinned:
 * the kernel removes the program with the last launcher and warden that hold it, however they end.
 */
#pragma once
#include "base/err.h"
#include "bpf/exec_layout.h"
#include <sys/types.h>

/* What a server holds of the check; descriptors, -1: none. */
struct exec_check {
	int sessions;	/* the map of all sessions */
	int link;	/* as long as a process holds it, the program checks */
	unsigned ended; /* sessions since the last sweep */
	bool sweep;	/* the next one that is added sweeps first */
};
#define EXEC_CHECK_NONE ((struct exec_check){.sessions = -1, .link = -1})
void exec_check_close(struct exec_check *check);

/* For the stub, which started init in a PID namespace of its own: from now on the kernel kills
 * every process of the namespace, except for init, that executes a program without a want. *wants
 * is the session's own map, for the warden; the caller owns it. Needs CAP_BPF. Waits until every
 * processor sees the change: some 10 to 30 ms. */
int exec_sessions_add(const struct exec_check *check, pid_t init, int *wants, struct err *err);
/* Removes at most 256 entries of namespaces that have gone; waits as long, once for all.
 * An entry is never removed while a process of its session may still live. */
void exec_sessions_sweep(int sessions);
/* For the launcher, before it forks a stub: whether that one is to sweep. idle: no client waits for
 * it, or none can be had that no client waits for. Another one sweeps only if no such stub has come
 * for long. alive: sessions that have not ended. So there are never many more entries than
 * sessions. */
void exec_sessions_plan(struct exec_check *check, bool idle, size_t alive);
