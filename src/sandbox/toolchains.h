// SPDX-License-Identifier: Apache-2.0
/* sandbox/toolchains.h - compilers and other tools that a user has in his home. */
#pragma once
#include "base/fdio.h"
#include "base/fields.h"

struct toolchains {
	struct strv names;
	struct strv shown;    /* paths to show read-only; may be files */
	int fd[FDIO_MAX_FDS]; /* owned; the same, opened */
	struct strv hidden;   /* below them: names that hold credentials */
	struct strv env;      /* PATH: only the directories to add */
};
struct toolchains_ask {
	uint32_t uid, gid; /* of the user */
	bool drop;	   /* look with these ids; else as the process itself */
};
/* Looks into the user's home by a child, for a short time. False: it did not answer. */
bool toolchains_find(const struct toolchains_ask *ask, struct toolchains *out);
void toolchains_done(struct toolchains *t);
