// SPDX-License-Identifier: Apache-2.0
/* sandbox/mnt.h - the new mount API in a few calls; private to this folder.
 *
 * A mount is made or cloned detached, gets its attributes while nobody can see it, and is then put
 * in its place. Errors are E_ENFORCEMENT and name the call and the path; whoever calls adds the
 * wall. Linux 5.12 is the oldest that works. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/mount.h>

#define MNT_SHUT (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

struct mnt_fs {
	const char *type;
	const char *const *options; /* key, value, key, value … NULL */
	unsigned attr;		    /* MOUNT_ATTR_… */
};
/* A new file system of its own, detached. */
int mnt_make(const struct mnt_fs *fs, int *fd, struct err *err);
/* A detached copy of what is mounted at path below dir, with all that is mounted below it. An empty
 * path means dir itself. */
int mnt_clone(int dir, const char *path, int *fd, struct err *err);
/* Adds attributes to a mount and everything below it, and makes it private. name is for the error.
 */
int mnt_set(int fd, uint64_t attr, const char *name, struct err *err);
/* Attaches a detached mount at path below root. */
int mnt_place(int fd, int root, const char *path, struct err *err);
/* Attaches a detached mount on top of what an O_PATH descriptor names. name is for the error. */
int mnt_cover(int fd, int at, const char *name, struct err *err);

/* Clone, set and place in one. */
struct mnt_bind {
	int from_dir;
	const char *from;
	int root;
	const char *at;
	uint64_t attr;
};
int mnt_bind(const struct mnt_bind *b, struct err *err);
/* The same where the place may not be there yet: it is made, a directory or a file as what is
 * shown. What does not exist or cannot be reached is left out. With attr 0 nothing is set. */
int mnt_show(const struct mnt_bind *b, struct err *err);
/* Cuts one line of /proc/self/mountinfo into its mount point and, behind " - ", its type. */
bool mnt_cut(char *line, char **point, char **type);
#define MNT_LIST_MAX (16 << 20)
/* Whether a call for a namespace or a mount has failed (errno) because the server runs in a chroot;
 * err says so then (E_ENFORCEMENT), and is untouched else. */
bool mnt_chrooted(const char *subject, struct err *err);
