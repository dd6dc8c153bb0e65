// SPDX-License-Identifier: Apache-2.0
/* warden/session_place.h - where the session's directories and its state program are, and how its
 * shells report their state. Only this module distinguishes sessions with namespaces and without.
 *
 * A session without namespaces sees the machine's own tree: the workspace at its real path, and a
 * home and a tmp that the launcher made. It finds no socket by a path, so the listener thread gives
 * agentsh-state a connected socket when it asks for any, and the loop gets the other end. Processes
 * that init leaves when it dies become children of the warden, which ends them. */
#pragma once
#include "base/err.h"
#include "link/msg.h"
#include "model/workspace_names.h"
#include <sys/types.h>

struct capture_in_setup;
struct execs_setup;
struct link_msg;
struct shell_memory;
struct session_place {
	bool namespaces;
	struct workspace_names names; /* of the workspace */
	char *home, *tmp;	      /* NULL with namespaces, and before init is ready */
	char *program;		      /* agentsh-state, by the path that the session executes */
	char *capture;		      /* the same as a word of a shell */
	struct strv writable;
	int program_fd;
	/* Without namespaces: a socket pair of the listener thread and the loop. Each datagram
	 * brings a connection and the pid at its other end. */
	int given, taken;
};
#define SESSION_PLACE_NONE ((struct session_place){.program_fd = -1, .given = -1, .taken = -1})
/* From init's READY. On failure the place is to be closed, too. */
int place_open(struct session_place *p, struct init_ready *ready, struct link_msg *m,
	       struct err *err);
void place_close(struct session_place *p);
/* The workspace or a part of what is shown is served by a process (FUSE) that may stop answering.
 */
bool place_may_hang(const struct session_place *p, int root_fd);
/* Sets the session's home, TMPDIR unless it is set, and adds als and so on to PATH. */
void place_settle(const struct session_place *p, struct shell_memory *m);
/* How captures arrive, with the socket of init's READY. */
void place_captures(struct session_place *p, struct link_msg *m, struct capture_in_setup *out);
/* The calls that the session's filter sends to the listener thread besides execs. out->arg is the
 * warden. */
void place_execs(const struct session_place *p, struct execs_setup *out);
/* init is dead: ends the processes that it left. */
void place_end(const struct session_place *p);
