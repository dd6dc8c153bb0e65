// SPDX-License-Identifier: Apache-2.0
/* exec/program_cache.h - remembers programs that the session cannot change, so that one statx shows
 * whether the machine has replaced them. All others are resolved each time; private to this folder.
 */
#pragma once
#include "exec/image.h"
#include <sys/stat.h>

#define PROGRAM_CACHE_MAX 64

/* Differs between any two files. A change of mode or owner changes the time as well. */
struct program_cache_mark {
	uint64_t ino, size;
	uint32_t dev[2];
	struct statx_timestamp changed, written;
};
/* One thread's. */
struct program_cache {
	int root; /* borrowed; -1: each caller's own, and no program is remembered */
	struct immutable_paths names;
	struct known {
		char *path, *resolved; /* owned; path is absolute, as it was asked for; NULL: free
					*/
		bool plain;	       /* nothing in the path begins at a root or leads out of it */
		struct program_cache_mark mark;
	} known[PROGRAM_CACHE_MAX]; /* no scripts */
};
void program_cache_done(struct program_cache *k);
/* image_resolve_at below the root, or image_resolve without one. */
int program_cache_resolve(struct program_cache *k, const struct image_name *name,
			  const struct args *args, struct image *out);
