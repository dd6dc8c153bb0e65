// SPDX-License-Identifier: Apache-2.0
/* bpf/exec_sessions.h - the sessions whose execs the kernel checks (exec_layout.h) and whose files
 * it counts (file_layout.h).
 *
 * agentsh-bpf loads the programs for a server and ends. The launcher holds them, and a stub adds
 * its session. The session's warden holds the link of the exec check and its own session's map, its
 * file server the link and the session's maps of file_calls. Nothing is pinned: the kernel removes
 * a program with the last process that holds its link, however that process ends. */
#pragma once
#include "base/err.h"
#include "bpf/exec_layout.h"
#include <sys/types.h>

/* What a server holds. A map has an entry for each session. As long as a process holds a link, its
 * program is attached. */
enum check_fd {
	CHECK_SESSIONS, /* map of exec_check */
	CHECK_LINK,	/* its link */
	CHECK_SLOTS,	/* maps of file_calls */
	CHECK_RINGS,
	CHECK_FILES, /* its link */
	CHECK_FDS
};
#define CHECK_EXECS CHECK_SLOTS /* so many without file_calls */
struct exec_check {
	int fd[CHECK_FDS]; /* -1: none */
	unsigned ended;	   /* sessions since the last sweep */
	bool sweep;	   /* the next one that is added sweeps first */
};
#define EXEC_CHECK_NONE ((struct exec_check){.fd = {-1, -1, -1, -1, -1}})
void exec_check_close(struct exec_check *check);

/* What a session gets; -1: none. */
enum session_fd {
	SESSION_FD_WANTS, /* for the warden */
	SESSION_FD_SLOTS, /* for the file server: these two, and the link of file_calls */
	SESSION_FD_RING,
	SESSION_FD_LINK,
	SESSION_FDS
};
/* For the stub, which started init in a PID namespace of its own: from now on the kernel kills
 * every process of the namespace, except for init, that executes a program without a want. files:
 * file_calls looks at the session, too, if the server has loaded it. The caller owns the maps; the
 * link stays the server's. Needs CAP_BPF. Waits until every processor sees the change: some 10 to
 * 30 ms for each map. */
int exec_sessions_add(const struct exec_check *check, pid_t init, bool files, int fd[SESSION_FDS],
		      struct err *err);
/* Removes at most 256 entries of namespaces that have gone from each map; waits as long, once for
 * each map. An entry is never removed while a process of its session may still live. */
void exec_sessions_sweep(const struct exec_check *check);
/* For the launcher, before it forks a stub: whether that one is to sweep. idle: no client waits for
 * it, or none can be had that no client waits for. Another one sweeps only if no such stub has come
 * for long. alive: sessions that have not ended. So there are never many more entries than
 * sessions. */
void exec_sessions_plan(struct exec_check *check, bool idle, size_t alive);
