// SPDX-License-Identifier: Apache-2.0
/* warden/bare_session.h - the warden's part of a session without namespaces.
 *
 * The session sees the machine's own tree: the workspace at its real path, and a home and a tmp
 * that the launcher made. It finds no socket by a path, so the listener thread gives agentsh-state
 * a connected socket when it asks for any, and the loop gets the other end. Processes that init
 * leaves when it dies become children of the warden, which ends them. */
#pragma once
#include "base/err.h"
#include "link/msg.h"
#include <sys/types.h>

struct shell_memory;
struct warden;
struct bare {
	char *workspace, *home, *tmp;
	char *program; /* agentsh-state, by its real path */
	char *capture; /* the same as a word of a shell */
	struct strv writable;
	int taken; /* the loop's end: each datagram brings a descriptor and its pid; moved away */
	int given; /* the listener thread's end of it */
	dev_t dev; /* of the program */
	ino_t ino;
};
/* *out is NULL if the session has namespaces. program_fd: agentsh-state. */
int bare_open(struct init_ready *ready, int program_fd, struct bare **out, struct err *err);
void bare_close(struct bare *b); /* NULL is fine */
/* The machine's path of a directory that is named as with namespaces. Owned by the caller. */
char *bare_directory(const struct bare *b, const char *path);
/* Sets the session's home, and TMPDIR unless it is set. */
void bare_settle(const struct bare *b, struct shell_memory *m);
/* For execs_setup; arg is the warden. */
int bare_state_socket(void *arg, pid_t tid);
/* init is dead: ends the processes that it left. */
void bare_end(const struct bare *b);
