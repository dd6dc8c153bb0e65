// SPDX-License-Identifier: Apache-2.0
#include "acmd/acmd.h"
#include "base/fdio.h"
#include "base/mem.h"
#include "base/path.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define MOUNTS_MAX (16 << 20) /* bytes of /proc/self/mounts */

struct mount_row {
	char *point, *source, *type;
	dev_t dev;
	bool read_only, shown;
};
struct mounts {
	struct mount_row *v;
	size_t n;
};

/* The next word of a line, with \\NNN (octal) as the byte that it stands for. */
static char *take_word(char **line)
{
	char *word = strsep(line, " "), *to = word;

	for (const char *p = word; p != NULL && *p != '\0'; to++) {
		const bool octal = p[0] == '\\' && strspn(p + 1, "01234567") >= 3;

		*to = octal ? (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0')) : *p;
		p += octal ? 4 : 1;
	}
	if (to != NULL)
		*to = '\0';
	return word;
}

/* Rows point into text. */
static void load(struct buf *text, struct mounts *m)
{
	char *rest, *line;

	if (fdio_load_path("/proc/self/mounts", MOUNTS_MAX, text, NULL) < 0)
		return;
	for (rest = text->data; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
		struct mount_row row = {.source = take_word(&line)};

		row.point = take_word(&line);
		row.type = take_word(&line);
		if (row.type == NULL)
			continue;
		m->v = mem_grow(m->v, m->n, sizeof(*m->v));
		m->v[m->n++] = row;
	}
}

/* Several mounts may show one file system: a writable one is chosen, then the shortest path. */
static void choose(struct mounts *m)
{
	for (size_t i = 0; i < m->n; i++) {
		struct mount_row *row = &m->v[i];
		struct statvfs fs;
		struct stat st;

		if (stat(row->point, &st) < 0 || statvfs(row->point, &fs) < 0 || fs.f_blocks == 0)
			continue;
		row->dev = st.st_dev;
		row->read_only = (fs.f_flag & ST_RDONLY) != 0;
		row->shown = true;
		for (size_t k = 0; k < i && row->shown; k++) {
			struct mount_row *other = &m->v[k];

			if (!other->shown || other->dev != row->dev)
				continue;
			other->shown = other->read_only != row->read_only
					       ? row->read_only
					       : strlen(other->point) < strlen(row->point);
			row->shown = !other->shown;
		}
	}
}

static void add_row(struct acmd *a, const char *path, const struct mount_row *row)
{
	struct statvfs fs;

	if (acmd_turn(a) != ACMD_TAKE)
		return;
	if (statvfs(path, &fs) < 0) {
		acmd_failed(a, path, errno);
		return;
	}
	jw_obj(&a->w);
	acmd_path(a, path);
	if (row != NULL) {
		acmd_name(a, "mount_point", row->point, strlen(row->point));
		acmd_name(a, "source", row->source, strlen(row->source));
		jw_kstr(&a->w, "type", row->type);
	}
	jw_kuint(&a->w, "size", acmd_bytes(fs.f_blocks, fs.f_frsize));
	jw_kuint(&a->w, "used",
		 fs.f_blocks > fs.f_bfree ? acmd_bytes(fs.f_blocks - fs.f_bfree, fs.f_frsize) : 0);
	jw_kuint(&a->w, "available", acmd_bytes(fs.f_bavail, fs.f_frsize));
	jw_kuint(&a->w, "inodes", fs.f_files);
	jw_kuint(&a->w, "inodes_used", fs.f_files > fs.f_ffree ? fs.f_files - fs.f_ffree : 0);
	jw_kbool(&a->w, "read_only", (fs.f_flag & ST_RDONLY) != 0);
	jw_obj_end(&a->w);
}

int adf_run(struct acmd *a)
{
	struct mounts m = {0};
	struct statvfs fs;
	struct buf text = {0};

	if (a->n == 1 && statvfs(a->operand[0], &fs) < 0)
		return acmd_refuse(a, a->operand[0], errno);
	load(&text, &m);
	jw_obj(&a->w);
	jw_karr(&a->w, "filesystems");
	for (size_t i = 0; i < a->n; i++) {
		cleanup_free char *real = realpath(a->operand[i], NULL);
		const struct mount_row *best = NULL;

		/* The last of the mounts at the longest path. */
		for (size_t k = 0; real != NULL && k < m.n; k++)
			if (path_within(real, m.v[k].point) &&
			    (best == NULL || strlen(m.v[k].point) >= strlen(best->point)))
				best = &m.v[k];
		add_row(a, a->operand[i], best);
	}
	if (a->n == 0)
		choose(&m);
	for (size_t i = 0; i < m.n; i++)
		if (m.v[i].shown)
			add_row(a, m.v[i].point, &m.v[i]);
	buf_done(&text);
	free(m.v);
	jw_arr_end(&a->w);
	return acmd_finish(a);
}
