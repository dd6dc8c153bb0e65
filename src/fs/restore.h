// SPDX-License-Identifier: Apache-2.0
/* fs/restore.h - puts files of the session's trash back into the tree, for a client.
 *
 * Each runs on a thread of its own, because a copy takes time. */
#pragma once
#include "base/err.h"
#include <stdint.h>

struct fs;
struct restores;
struct restored {
	uint64_t entry;
	uint32_t req; /* of the one who asks */
	struct err err;
};

/* wake: any thread; restores_next has something. */
struct restores *restores_new(struct fs *fs, void (*wake)(void *arg), void *arg);
/* The policy decides whether the path may be made, and the file server records it. */
void restore_start(struct restores *r, uint64_t entry, uint32_t req);
/* The next one that is over. */
bool restores_next(struct restores *r, struct restored *out);
void restores_free(struct restores *r); /* waits for those that run; NULL is fine */
