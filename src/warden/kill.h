// SPDX-License-Identifier: Apache-2.0
/* warden/kill.h - everything that a leader's command started, by pidfd.
 *
 * A tree that forks while it is killed is first stopped: SIGSTOP to every descendant, again and
 * again until no new one appears; then SIGKILL to all. A pid is signalled only through a pidfd
 * whose process was seen below the leader after it was opened. */
#pragma once
#include "base/fields.h"
#include <sys/types.h>

/* A leader by pid and pidfd: its tree is believed only if it lives after the tree was read. */
struct kill_root {
	pid_t pid;
	int pidfd;
};
/* One round; to be repeated until the leader says that it is empty. Returns how many were there. */
size_t kill_round(const struct kill_root *leader);
/* One signal to every descendant, once. */
void kill_signal_tree(const struct kill_root *leader, int sig);
/* Adds "WORD PID text" for each living descendant, PID as inside the session. */
void kill_list(const struct kill_root *leader, const char *word, struct strv *out);
