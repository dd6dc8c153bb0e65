// SPDX-License-Identifier: Apache-2.0
/* exec/program_cache.h - remembers programs that the session cannot change, so that one statx shows
 * whether the machine has replaced them. All others are resolved each time; private to this folder.
 */
#pragma once
#include "exec/file_numbers.h"
#include "exec/image.h"
#include <sys/stat.h>

#define PROGRAM_CACHE_MAX 64

struct exec_looker {
	int root;		   /* borrowed */
	bool lent;		   /* to a walk: no close() of its images hangs */
	struct exec_looker *spare; /* to be lent; owned */
	bool for_kernel;	   /* images say whether their numbers are the kernel's own */
	struct mount_devices mounts;
	struct immutable_paths names;
	const struct workspace_names *workspace; /* or NULL; borrowed */
	struct known {
		char *path, *resolved; /* owned; path is as it was asked for; NULL: free */
		bool plain;	       /* nothing in the path begins at a root or leads out of it */
		bool comparable;       /* see struct image */
		struct statx mark;     /* of the file, without its access time */
	} known[PROGRAM_CACHE_MAX];    /* no scripts */
};
/* As image_resolve, for the looker's root; or EXEC_FAR. */
int program_cache_resolve(struct exec_looker *l, const struct image_name *name,
			  const struct args *args, struct image *out);
