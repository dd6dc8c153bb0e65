// SPDX-License-Identifier: Apache-2.0
#include "acmd/acmd.h"
#include "acmd/walk.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>

static bool fits(const struct acmd_compare *c, int64_t v)
{
	const bool negative = v < 0;

	if (!c->given)
		return true;
	if (c->sign == 0)
		return !negative && (uint64_t)v == c->value;
	return c->sign < 0 ? negative || (uint64_t)v < c->value
			   : !negative && (uint64_t)v > c->value;
}

/* False if the answer has no room for more. */
static bool add_match(struct acmd *a, const struct walk_entry *e)
{
	const struct acmd_options *o = &a->o;
	enum acmd_turn turn;
	struct stat st;
	int64_t age;

	if ((o->name != NULL && fnmatch(o->name, e->name, 0) != 0) ||
	    (o->types != 0 && (o->types & 1u << (e->type >> 12)) == 0))
		return true;
	if (fstatat(e->dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		acmd_failed(a, e->path, errno);
		return true;
	}
	if (__builtin_sub_overflow(a->now_s, (int64_t)st.st_mtime, &age))
		age = st.st_mtime < 0 ? INT64_MAX : INT64_MIN;
	if (!fits(&o->size, st.st_size) || !fits(&o->age, age))
		return true;
	turn = acmd_turn(a);
	if (turn != ACMD_TAKE)
		return turn == ACMD_SKIP;
	jw_obj(&a->w);
	acmd_path(a, e->path);
	acmd_file(a, e->dir, e->name, &st, ACMD_BRIEF);
	jw_obj_end(&a->w);
	return true;
}

int afind_run(struct acmd *a)
{
	struct tree_walk w = {.depth_max = a->o.depth, .hidden = true};
	struct walk_entry e;
	const char *path;
	const int r = acmd_start(a, &w, &path);
	enum walk_step step;

	if (r != 0)
		return acmd_refuse(a, path, r);
	jw_obj(&a->w);
	acmd_name(a, "path", path, strlen(path));
	jw_karr(&a->w, "matches");
	while ((step = walk_next(&w, &e)) != WALK_END) {
		if (step == WALK_FAILED)
			acmd_failed(a, e.path, e.errnum);
		else if (step == WALK_ENTRY && !add_match(a, &e))
			break;
	}
	walk_close(&w);
	jw_arr_end(&a->w);
	return acmd_finish(a);
}
