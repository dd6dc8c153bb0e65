// SPDX-License-Identifier: Apache-2.0
/* warden/bare_session.h - what a session without namespaces needs of its warden.
 *
 * It sees the machine's own tree: the workspace at its real path, a home and a tmp that the
 * launcher made. No socket can be found by a path from inside, so our program that tells of a
 * shell's state is given a connected one when it asks for any (listener thread), and the loop gets
 * the other end. What init leaves behind when it dies falls to the warden, which ends it. */
#pragma once
#include "base/err.h"
#include "link/msg.h"
#include <sys/types.h>

struct shell_memory;
struct warden;
struct bare {
	char *workspace, *home, *tmp;
	char *program; /* that tells of a shell's state, by its real path */
	char *capture; /* the same as a word of a shell */
	struct strv writable;
	int taken; /* the loop's: a descriptor and its pid come with each datagram; moved away */
	int given; /* the listener thread's end of it */
	dev_t dev; /* of the program */
	ino_t ino;
};
/* *out is NULL if the session has namespaces. program_fd: that tells of a shell's state. */
int bare_open(struct init_ready *ready, int program_fd, struct bare **out, struct err *err);
void bare_close(struct bare *b); /* NULL is fine */
/* A directory that is named as it would be with namespaces: the machine's. Owned by the caller. */
char *bare_directory(const struct bare *b, const char *path);
/* Where the session's home and temporary files are, unless it was told otherwise. */
void bare_settle(const struct bare *b, struct shell_memory *m);
/* For execs_setup; arg is the warden. */
int bare_state_socket(void *arg, pid_t tid);
/* init is dead: ends all that it has left. */
void bare_end(const struct bare *b);
