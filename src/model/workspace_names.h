// SPDX-License-Identifier: Apache-2.0
/* model/workspace_names.h - the paths by which a session sees its workspace, and what else its file
 * server serves.
 *
 * Rules and events name a file of the workspace by its canonical path, /workspace/…, whatever path
 * a program used. No process of a session can rename a directory above one of the shown paths, so a
 * path that the kernel has resolved tells whether it leads through the workspace. */
#pragma once
#include "base/fields.h"

#define WORKSPACE_CANONICAL "/workspace"

struct workspace_names {
	struct strv shown; /* a path in the session's view, the canonical path of what it shows; …
			      The first path is the workspace's. */
	char *real;	   /* the workspace on the host; NULL: not known */
	/* Canonical paths of the directories of a file server, which holds the rules about files
	 * there. Each is in `shown`. */
	struct strv served;
};
void workspace_names_done(struct workspace_names *n);
/* The canonical path of a resolved one; NULL: it is outside, or canonical already. The caller frees
 * the result. */
char *workspace_canonical(const struct workspace_names *n, const char *path);
/* The directory of a file server that a canonical path is in; NULL: none. Borrowed. */
const char *workspace_served(const struct workspace_names *n, const char *path);
/* The path on the host of a canonical one. The caller frees the result. */
char *workspace_on_host(const struct workspace_names *n, const char *path);
/* Where the session sees a directory that a client names by any of the workspace's paths, the real
 * one included. The caller frees the result. */
char *workspace_seen(const struct workspace_names *n, const char *path);
