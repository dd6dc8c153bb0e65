// SPDX-License-Identifier: Apache-2.0
/* exec/immutable_paths.h - files and paths that no process of the session can change: it has our
 * uid and, as we, no capabilities; private to this folder. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

/* Names that were walked; one thread's. */
#define IMMUTABLE_PATHS 256
struct immutable_paths {
	char *name[IMMUTABLE_PATHS]; /* owned */
	dev_t shut; /* file system of a root, if all its mounts are read-only; 0: none */
	/* The workspace's directory. The system may mount it at another place too, with another
	 * owner: below it modes prove nothing. */
	const char *workspace; /* borrowed; NULL: /workspace */
	bool near;	       /* its file system, which it has for itself, is not asked */
	bool looked;
	dev_t work_dev;
	ino_t work_ino; /* 0: not found */
};
/* Whether the file is on the file system of the workspace, or that is not found. It is not asked.
 */
bool immutable_paths_far(struct immutable_paths *n, int root, int fd);
void immutable_paths_done(struct immutable_paths *n);
/* True if an absolute path always leads to the same file: the session can change neither the file
 * nor a directory or link on the way, and none is the workspace's; or they lie in the root's own
 * tmpfs without a writable mount (in a user namespace the root belongs to our uid). A true answer
 * stays true and is remembered. */
bool immutable_path(struct immutable_paths *n, int root, const char *path);
