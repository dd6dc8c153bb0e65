// SPDX-License-Identifier: Apache-2.0
/* gate/file_grant.h - what an approver has allowed: operations at a path, or at two. */
#pragma once
#include "base/hash.h"
#include "base/id.h"
#include <stdbool.h>
#include <stdint.h>

struct file_grant {
	uint32_t ops, to_ops; /* bits 1 << OP_FILE_… at the first and at the second path */
	uint8_t paths[HASH_LEN];
	/* not of what is needed */
	char approval_id[ID_MAX + 1];
	uint64_t serial; /* no other grant of the session has it */
};

/* The hash of the paths; to may be NULL. */
void file_grant_name(struct file_grant *g, const char *path, const char *to);
/* Whether `have` allows all of `need`. */
bool file_grant_covers(const struct file_grant *have, const struct file_grant *need);
