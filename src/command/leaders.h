// SPDX-License-Identifier: Apache-2.0
/* command/leaders.h - the session's leaders, each with a link of its own: at work for one command,
 * or idle.
 *
 * An idle leader starts the next command without a fork and without init. A few stay idle; the
 * others exit when the warden closes their link. Only the leader has the other end of its link:
 * while that is open, its pid cannot be reused. */
#pragma once
#include "gate/actor.h"
#include "link/link.h"
#include <sys/queue.h>

struct run;
struct commands;
struct watch;

#define LEADER_FDS 4

struct leader {
	LIST_ENTRY(leader) next; /* while it is idle */
	struct commands *cs;
	struct run *run; /* NULL: it is idle */
	struct link link;
	struct watch *watch;
	struct actor_leader id; /* in our PID namespace, from its first messages */
};
LIST_HEAD(leader_list, leader);

/* Hands the command to an idle leader, or through init to a new one; r->leader and ask->key are
 * set. fd: stdin, stdout, stderr and the program or -1, borrowed. */
int leader_ask(struct run *r, struct init_spawn *ask, const int fd[LEADER_FDS], struct err *err);
/* Its command has left no process: the leader becomes idle, or exits. NULL is fine. */
void leader_rest(struct leader *l);
void leader_free(struct leader *l); /* closes its link; NULL is fine */
void leaders_free_idle(struct commands *cs);
bool leader_alive(const struct leader *l);
/* After init has ended all that runs: handles the messages that are left. False: it is dead. */
bool leader_settle(struct leader *l);
