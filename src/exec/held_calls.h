// SPDX-License-Identifier: Apache-2.0
/* exec/held_calls.h - calls that change a directory of the workspace, or attributes by a path, wait
 * here for an approver, because the kernel locks the directory or the file while it waits for the
 * file system.
 *
 * The listener thread finds the canonical paths of a call, asks the gate, and writes a grant into
 * the actor table before it lets the call go. agentsh-fs denies a change without a grant, so it has
 * no effect if the caller changes its memory, a link or a directory meanwhile. The next call of the
 * thread takes its grant away. A call goes on at once if no approver has to be asked about it, or
 * if its path is not found: agentsh-fs decides it. */
#pragma once
#include "gate/gate.h"
#include "listener/listener.h"
#include "model/workspace_names.h"

struct walker;
struct held_calls;
struct held_setup { /* all is borrowed */
	struct gate *gate;
	struct actor_table *actors;
	int root; /* of every caller */
	const struct workspace_names *names;
	struct walker *walker; /* makes the calls that may hang */
};
struct held_calls *held_calls_new(const struct held_setup *s);
struct listener_handler held_calls_handler(struct held_calls *h);
void held_calls_free(struct held_calls *h); /* when the listener has stopped; NULL is fine */
/* Whether a session with this policy needs them. */
bool held_calls_needed(const struct policy *p);
