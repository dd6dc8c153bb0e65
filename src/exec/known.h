// SPDX-License-Identifier: Apache-2.0
/* exec/known.h - programs that nobody in the session can change, so that one look at the file says
 * whether the machine has got another meanwhile. All others are looked at anew each time; private
 * to this folder. */
#pragma once
#include "exec/image.h"
#include <sys/stat.h>

#define KNOWN_PROGRAMS 64

/* What would differ if a file was another. A change of mode or owner changes the time as well. */
struct known_mark {
	uint64_t ino, size;
	uint32_t dev[2];
	struct statx_timestamp changed, written;
};
/* One thread's. */
struct known_programs {
	int root; /* borrowed */
	struct fixed_names names;
	struct known {
		char *path, *resolved; /* owned; path is absolute, as it was asked for; NULL: free
					*/
		bool plain;	       /* nothing in the path begins at a root or leads out of it */
		struct known_mark mark;
	} known[KNOWN_PROGRAMS]; /* no scripts */
};
void known_done(struct known_programs *k);
/* image_resolve_at below the root. */
int known_resolve(struct known_programs *k, const struct image_name *name, const struct args *args,
		  struct image *out);
