// SPDX-License-Identifier: Apache-2.0
/* exec/attributes.h - chmod and utime, made in the caller's place; private to this folder.
 *
 * Landlock does not hold them, and a file that may only be read may be the user's own, so the
 * filter of a session without namespaces sends them here; that of any other session sends a chmod
 * with the set-group-ID bit, which only a directory gets. The path or descriptor is looked up once,
 * the file that it led to is judged and changed: what the caller does to its memory meanwhile has
 * no effect. Listener thread only. */
#pragma once
#include "base/fields.h"
#include "listener/listener.h"

struct attributes {
	/* The callers' root, if they have one that is theirs: paths are looked up in it, and all
	 * that they name there may be changed that their uid, which is ours, may change. Else -1,
	 * and EPERM for a file that lies in none of the trees. */
	int root;
	const struct strv *trees; /* real paths, borrowed; NULL: none */
	struct walker *walker;	  /* makes the calls that may hang; NULL: none does. Borrowed. */
};
/* a is borrowed. */
struct listener_handler attributes_handler(const struct attributes *a);
