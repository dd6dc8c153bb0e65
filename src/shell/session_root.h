// SPDX-License-Identifier: Apache-2.0
/* shell/session_root.h - the session's file tree seen from outside: every path is resolved below
 * init's root directory (openat2 RESOLVE_IN_ROOT), so that a symbolic link inside cannot lead out.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* path, below cwd if it is relative. Owned by the caller. */
char *root_join(const char *cwd, const char *path);
/* 0 if path (absolute, as inside) is a directory that may be entered, else errno. */
int root_dir(int root_fd, const char *path);
/* The path without symbolic links; NULL/errno. Owned by the caller. */
char *root_real(int root_fd, const char *path);
/* A question about a directory that a shell is to enter, and its answer. */
struct root_enter {
	char *whole, *logical; /* with its `..`, and without; both owned, NULL: not asked */
	bool physical;	       /* its real path is wanted, too */
	bool answered;
	int errnum;
	char *real; /* owned */
};
void root_enter(int root_fd, struct root_enter *ask); /* answers it */
void root_enter_done(struct root_enter *ask);
bool root_executable(int root_fd, const char *path); /* a regular file with an x bit for us */
/* Opens for reading; -1/errno. */
int root_open(int root_fd, const char *path);
/* The home directory of a user by the session's /etc/passwd, or NULL. Owned by the caller. */
char *root_home_of(int root_fd, const char *user, size_t len);
