// SPDX-License-Identifier: Apache-2.0
/* Rules about whole directory trees, for walls that know nothing smaller. */
#include "base/mem.h"
#include "policy/glob.h"
#include "policy/snapshot.h"

#define BELOW "/**"

/* How a rule's patterns stand to all of a tree. */
static void compare(const struct policy *p, const struct snapshot_rule *r, const char *tree,
		    bool *covers, bool *meets)
{
	*covers = *meets = false;
	for (uint32_t i = 0; i < r->subject.n; i++) {
		const char *pattern = snapshot_pattern(p, r->subject.at + i);

		*covers |= glob_path_covers(pattern, tree);
		*meets |= glob_path_overlaps(pattern, tree);
	}
}

bool policy_denies_tree(const struct policy *p, enum op_file op, const char *dir)
{
	const struct snapshot_class *c = &p->head->class[OP_FILE];
	cleanup_free char *tree = mem_alloc(2 * strlen(dir) + sizeof(BELOW));

	glob_escape(strcmp(dir, "/") == 0 ? "" : dir, tree);
	strcat(tree, BELOW);
	for (uint32_t i = 0; i < c->rules.n; i++) {
		const struct snapshot_rule *r = snapshot_rule(p, OP_FILE, i);
		bool covers, meets;

		if ((r->bits & 1U << op) == 0)
			continue;
		compare(p, r, tree, &covers, &meets);
		if (meets && policy_permits(p, (enum decision)r->decision))
			return false;
		if (covers)
			return true;
	}
	return false;
}
