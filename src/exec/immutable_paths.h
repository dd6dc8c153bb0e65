// SPDX-License-Identifier: Apache-2.0
/* exec/immutable_paths.h - what no process of the session can change: its uid is ours, and neither
 * has capabilities; private to this folder. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

/* True if a process with our uid can neither write the file or directory nor change its mode. A
 * read-only mount is no proof: the same file may be writable at another place. */
bool immutable_file(int fd, const struct stat *st);

/* Names that were walked; one thread's. */
#define IMMUTABLE_PATHS 256
struct immutable_paths {
	char *name[IMMUTABLE_PATHS]; /* owned */
	dev_t shut; /* a root whose file system is read-only at every place; 0: none */
	/* The workspace's directory. The system may show it at another place too, with an owner
	 * who is not ours: modes say nothing of what is below it. */
	bool looked;
	dev_t work_dev;
	ino_t work_ino; /* 0: there is none */
};
void immutable_paths_done(struct immutable_paths *n);
/* True if an absolute path leads to the same file whenever it is looked up: every directory, link
 * and the file itself are fixed, none is the workspace's, or they lie in the root's own tmpfs and
 * no mount of that is writable: in a user namespace the session's root belongs to our uid. A true
 * answer stays true and is remembered. */
bool immutable_path(struct immutable_paths *n, int root, const char *path);
