// SPDX-License-Identifier: Apache-2.0
/* Rules about whole directory trees, for walls that can shut only a whole directory. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

#define BELOW "/**"

bool policy_denies_tree(const struct policy *p, enum op_file op, const char *dir)
{
	const struct snapshot_class *c = &p->head->class[OP_FILE];
	cleanup_free char *tree = mem_alloc(2 * strlen(dir) + sizeof(BELOW));

	glob_escape(strcmp(dir, "/") == 0 ? "" : dir, tree);
	strcat(tree, BELOW);
	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_FILE, i);
		bool covers = false, meets = false;

		if ((r->bits & 1U << op) == 0)
			continue;
		for (uint32_t k = 0; k < r->subject.n; k++) {
			const char *pattern = snapshot_pattern(p, r->subject.at + k);

			covers |= glob_path_covers(pattern, tree);
			meets |= glob_path_overlaps(pattern, tree);
		}

		if (meets && policy_permits(p, (enum decision)r->decision))
			return false;
		if (covers)
			return true;
	}
	return false;
}
