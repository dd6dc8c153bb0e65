// SPDX-License-Identifier: Apache-2.0
#include "check/withheld.h"
#include "base/mem.h"
#include "base/path.h"
#include "sandbox/landlock.h"
#include <string.h>

/* A right is withheld where the policy denies all of its operations. */
static const struct right {
	enum landlock_access access;
	enum op_file op[2];
	size_t n;
} rights[] = {
	{LANDLOCK_READ, {OP_FILE_read}, 1},
	{LANDLOCK_EXEC, {OP_FILE_execute}, 1},
	{LANDLOCK_CHANGE, {OP_FILE_write}, 1},
	{LANDLOCK_TRUNCATE, {OP_FILE_truncate}, 1},
	{LANDLOCK_MAKE, {OP_FILE_create}, 1},
	{LANDLOCK_REMOVE, {OP_FILE_delete}, 1},
	{LANDLOCK_SYMLINK, {OP_FILE_symlink}, 1},
	{LANDLOCK_MOVE, {OP_FILE_rename, OP_FILE_link}, 2},
};

static bool denies(const struct policy *p, const struct right *w, const char *place)
{
	for (size_t i = 0; i < w->n; i++)
		if (!policy_denies_tree(p, w->op[i], place))
			return false;
	return true;
}

/* A right to a directory holds for all below it. So a place keeps a right that a place inside it
 * keeps. */
static bool can_be_shut(const struct policy *p, const struct right *w, const struct strv *places,
			const char *place)
{
	if (!denies(p, w, place))
		return false;
	for (size_t i = 0; i < places->n; i++)
		if (path_within(place, places->v[i]) && !denies(p, w, places->v[i]))
			return false;
	return true;
}

void withheld_find(const struct policy *p, const struct strv *places, struct strv *out)
{
	for (size_t i = 0; i < places->n; i++) {
		const char *place = places->v[i];
		unsigned access = 0;

		for (size_t k = 0; k < ARRAY_LEN(rights); k++)
			if (can_be_shut(p, &rights[k], places, place))
				access |= rights[k].access;
		/* a session may read all of its devices */
		if (access != 0 && !path_within(place, "/dev")) {
			cleanup_free char *text = mem_printf("%u %s", access, place);

			strv_add(out, text);
		}
	}
}
