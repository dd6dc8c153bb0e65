// SPDX-License-Identifier: Apache-2.0
#include "gate/file_grant.h"
#include <string.h>

void file_grant_name(struct file_grant *g, const char *path, const char *to)
{
	/* with its NUL, so that no other pair of paths has the same bytes */
	hash_sha256(g->paths, path, strlen(path) + 1, to, to != NULL ? strlen(to) + 1 : 0);
}

bool file_grant_covers(const struct file_grant *have, const struct file_grant *need)
{
	return (need->ops & ~have->ops) == 0 && (need->to_ops & ~have->to_ops) == 0 &&
	       memcmp(have->paths, need->paths, sizeof(need->paths)) == 0;
}
