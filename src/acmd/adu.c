// SPDX-License-Identifier: Apache-2.0
/* Sums are passed up when the walk leaves a directory, so that only those of the directories above
 * the current one are kept. A file with several links counts once. */
#include "acmd/acmd.h"
#include "acmd/walk.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define LINKS_MAX (1 << 20) /* files with several links that are remembered; a power of two */

struct sum {
	uint64_t size, disk, files;
};
struct links {
	struct link_id {
		ino_t ino; /* 0: free */
		dev_t dev;
	} * slot; /* open addressing, at most half full */
	size_t n, room;
};

/* Whether the file was not seen before. When the memory for files is full, each one counts as new.
 */
static bool remember(struct links *l, const struct stat *st)
{
	if (l->n * 2 >= l->room && l->room < (size_t)LINKS_MAX * 2) {
		struct links bigger = {.room = l->room > 0 ? l->room * 2 : 1024};

		bigger.slot = mem_alloc(bigger.room * sizeof(*bigger.slot));
		for (size_t i = 0; i < l->room; i++)
			if (l->slot[i].ino != 0)
				remember(&bigger, &(struct stat){.st_ino = l->slot[i].ino,
								 .st_dev = l->slot[i].dev});
		free(l->slot);
		*l = bigger;
	}
	for (size_t i = (size_t)(st->st_ino * UINT64_C(0x9e3779b97f4a7c15) >> 20);; i++) {
		struct link_id *s = &l->slot[i % l->room];

		if (s->ino == st->st_ino && s->dev == st->st_dev)
			return false;
		if (s->ino != 0)
			continue;
		if (l->n < LINKS_MAX) {
			*s = (struct link_id){st->st_ino, st->st_dev};
			l->n++;
		}
		return true;
	}
}

static void add(struct sum *to, const struct stat *st, struct links *links)
{
	if (!S_ISDIR(st->st_mode) && st->st_nlink > 1 && !remember(links, st))
		return;
	if (S_ISREG(st->st_mode) && st->st_size > 0)
		acmd_sum(&to->size, (uint64_t)st->st_size);
	acmd_sum(&to->disk, acmd_disk(st));
	to->files++;
}

static void write_sum(struct acmd *a, const struct sum *s)
{
	jw_kuint(&a->w, "size", s->size);
	jw_kuint(&a->w, "disk", s->disk);
	jw_kuint(&a->w, "files", s->files);
}

int adu_run(struct acmd *a)
{
	struct tree_walk w = {.depth_max = UINT64_MAX, .hidden = true};
	struct links links = {0};
	struct walk_entry e;
	const char *path;
	const int r = acmd_start(a, &w, &path);
	enum walk_step step;
	struct sum *sum; /* by depth */
	struct stat st;

	if ((r != 0 && r != ENOTDIR) || fstatat(AT_FDCWD, path, &st, 0) < 0) {
		walk_close(&w);
		return acmd_refuse(a, path, r != 0 && r != ENOTDIR ? r : errno);
	}
	sum = mem_grow(NULL, 0, sizeof(*sum));
	sum[0] = (struct sum){0};
	add(&sum[0], &st, &links);
	jw_obj(&a->w);
	acmd_name(a, "path", path, strlen(path));
	jw_karr(&a->w, "entries");
	while (!a->broken && (step = walk_next(&w, &e)) != WALK_END) {
		if (step == WALK_ENTRY && fstatat(e.dir, e.name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			acmd_failed(a, e.path, errno);
			st = (struct stat){.st_mode = e.type, .st_nlink = 1};
		}
		if (step == WALK_ENTRY && !S_ISDIR(e.type)) {
			add(&sum[e.depth - 1], &st, &links);
		} else if (step == WALK_ENTRY) {
			sum = mem_grow(sum, e.depth, sizeof(*sum));
			sum[e.depth] = (struct sum){0};
			add(&sum[e.depth], &st, &links);
		} else if (step == WALK_FAILED) {
			acmd_failed(a, e.path, e.errnum);
		} else {
			struct sum *above = &sum[e.depth - 1], *s = &sum[e.depth];

			/* All is counted, also behind the last element of this answer. */
			if (e.depth <= a->o.depth && acmd_turn(a) == ACMD_TAKE) {
				jw_obj(&a->w);
				acmd_path(a, e.path);
				write_sum(a, s);
				jw_obj_end(&a->w);
			}
			acmd_sum(&above->size, s->size);
			acmd_sum(&above->disk, s->disk);
			above->files += s->files;
		}
	}
	walk_close(&w);
	jw_arr_end(&a->w);
	jw_kobj(&a->w, "total");
	write_sum(a, &sum[0]);
	jw_obj_end(&a->w);
	free(links.slot);
	free(sum);
	return acmd_finish(a);
}
