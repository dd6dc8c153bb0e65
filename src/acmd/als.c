// SPDX-License-Identifier: Apache-2.0
#include "acmd/acmd.h"
#include "acmd/walk.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

struct summary {
	uint64_t files, directories, others, size;
};

/* The summary counts all entries, also those that are not in this answer. */
static void add_entry(struct acmd *a, const struct walk_entry *e, struct summary *sum)
{
	const enum acmd_turn turn = acmd_turn(a);
	struct stat st;

	if (fstatat(e->dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		acmd_failed(a, e->path, errno);
		return;
	}
	sum->files += S_ISREG(st.st_mode);
	sum->directories += S_ISDIR(st.st_mode);
	sum->others += !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
	if (S_ISREG(st.st_mode) && st.st_size > 0)
		acmd_sum(&sum->size, (uint64_t)st.st_size);
	if (turn != ACMD_TAKE)
		return;
	jw_obj(&a->w);
	acmd_name(a, "name", e->path, strlen(e->path));
	acmd_file(a, e->dir, e->name, &st, a->o.long_form ? ACMD_WHOLE : ACMD_USUAL);
	jw_obj_end(&a->w);
}

int als_run(struct acmd *a)
{
	const bool deep = a->o.recursive || a->o.depth != UINT64_MAX;
	struct tree_walk w = {.depth_max = deep ? a->o.depth : 1, .hidden = a->o.all};
	struct walk_entry e = {.dir = AT_FDCWD};
	struct summary sum = {0};
	char cwd[PATH_MAX];
	const char *path;
	const int r = acmd_start(a, &w, &path);
	enum walk_step step;
	struct stat st;

	/* A link that leads nowhere is listed, too. */
	if (r != 0 && (lstat(path, &st) < 0 || S_ISDIR(st.st_mode)))
		return acmd_refuse(a, path, r);
	jw_obj(&a->w);
	if (getcwd(cwd, sizeof(cwd)) != NULL)
		acmd_name(a, "cwd", cwd, strlen(cwd));
	acmd_name(a, "path", path, strlen(path));
	jw_karr(&a->w, "entries");
	e.name = e.path = path;
	if (r != 0)
		add_entry(a, &e, &sum);
	while (!a->broken && (step = walk_next(&w, &e)) != WALK_END) {
		if (step == WALK_FAILED)
			acmd_failed(a, e.path, e.errnum);
		else if (step == WALK_ENTRY)
			add_entry(a, &e, &sum);
	}
	walk_close(&w);
	jw_arr_end(&a->w);
	jw_kobj(&a->w, "summary");
	jw_kuint(&a->w, "files", sum.files);
	jw_kuint(&a->w, "directories", sum.directories);
	jw_kuint(&a->w, "others", sum.others);
	jw_kuint(&a->w, "total_size", sum.size);
	jw_obj_end(&a->w);
	return acmd_finish(a);
}
