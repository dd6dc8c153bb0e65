// SPDX-License-Identifier: Apache-2.0
/* sandbox/as_user.h - a child of the launcher looks at what a user has, with the user's ids. */
#pragma once
#include "base/buf.h"
#include "base/fdio.h"
#include <stdbool.h>

/* What the child tells: text, and descriptors of what it has opened. */
struct findings {
	struct buf text;      /* owned */
	int fd[FDIO_MAX_FDS]; /* owned; -1: taken */
	size_t n;
};
#define FINDINGS_MAX (32 * 1024) /* bytes of text */

struct as_user {
	uint32_t uid, gid;
	bool drop; /* take these ids and drop every capability; else look as the process itself */
	void (*look)(void *arg, struct findings *f); /* in the child, which then ends */
	void *arg;
};
/* For half a second at most, because a file system may not answer. False: the child did not
 * answer. */
bool as_user_look(const struct as_user *who, struct findings *out);
void findings_done(struct findings *f);
