// SPDX-License-Identifier: Apache-2.0
/* base/process_tree.h - everything that a process and its descendants started, by pidfd.
 *
 * A tree that forks while it is killed is first stopped: SIGSTOP to every descendant, again and
 * again until no new one appears; then SIGKILL to all. A pid is signalled only through a pidfd,
 * and only if its process was seen below the leader after the pidfd was opened. */
#pragma once
#include "base/fields.h"
#include <sys/types.h>

/* A leader by pid and pidfd: its tree counts only if the leader lives after the tree was read. */
struct tree_root {
	pid_t pid;
	int pidfd;
};
/* One round, to be repeated until the leader reports an empty tree. Returns how many processes
 * there were. */
size_t tree_kill_round(const struct tree_root *leader);
/* One signal to every descendant, once. */
void tree_signal(const struct tree_root *leader, int sig);
/* Adds "WORD PID text" for each living descendant, PID as in its own namespace. */
void tree_list(const struct tree_root *leader, const char *word, struct strv *out);
/* From now on the kernel reaps the processes below the calling one: the zombies of a fork bomb
 * would slow down tree_end_own and take all process ids of the machine. */
void tree_leave_dead(void);
/* Waits until nothing below the calling process lives. False: something still does. */
bool tree_await_own(int limit_ms);
/* Ends everything below the calling process, a subreaper that starts nothing meanwhile. One child
 * that cannot be signalled may be left out (0: none). False: something still lives after limit_ms.
 */
bool tree_end_own(int limit_ms, pid_t except);
