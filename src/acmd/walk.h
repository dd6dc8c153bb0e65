// SPDX-License-Identifier: Apache-2.0
/* acmd/walk.h - goes through a tree, each directory sorted by name, a directory before its
 * contents. Links are not followed. Each level keeps one descriptor and its names; of a directory
 * with more than WALK_NAMES_MAX bytes of names it keeps and sorts so many at a time. */
#pragma once
#include "base/buf.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct walk_level;
struct tree_walk {
	uint64_t depth_max; /* 1: only the directory's own entries */
	bool hidden;	    /* also names that begin with a dot */
	struct walk_level *level;
	size_t depth;	  /* levels that are open */
	struct buf path;  /* of the current entry, relative to the start */
	bool descend;	  /* the current entry is a directory to go into */
	bool leave;	  /* it could not be entered */
	size_t names_max; /* 0: WALK_NAMES_MAX; less for tests */
};
#define WALK_NAMES_MAX (16 << 20)

enum walk_step {
	WALK_END,
	WALK_ENTRY,
	WALK_FAILED, /* instead of entries of the directory of an earlier entry: errnum */
	WALK_LEAVE,  /* that directory has no more entries */
};
struct walk_entry {
	int dir;	  /* of the entry; borrowed until the next call */
	const char *name; /* in dir */
	const char *path; /* relative to the start */
	mode_t type;	  /* S_IFMT */
	size_t depth;	  /* 1: in the start itself; 0: the start failed */
	int errnum;
};

/* Reads the directory fd, which is taken. 0 or an errno. */
int walk_open(struct tree_walk *w, int fd);
enum walk_step walk_next(struct tree_walk *w, struct walk_entry *out);
void walk_close(struct tree_walk *w);
