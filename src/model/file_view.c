// SPDX-License-Identifier: Apache-2.0
#include "model/file_view.h"
#include "base/mem.h"
#include "base/path.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *text;
} holders[HOLDERS] = {
	[HOLDER_NOTHING] = {"nothing", "by nothing"},
	[HOLDER_VIEW] = {"view", "by the view: the session does not see the path"},
	[HOLDER_SERVER] = {"agentsh-fs", "by agentsh-fs, the session's file server"},
	[HOLDER_MOUNT] = {"mount", "by the mount: nothing can be changed there"},
	[HOLDER_LANDLOCK] = {"landlock", "by Landlock"},
};

const char *file_holder_name(enum file_holder h)
{
	return holders[h].name;
}

const char *file_holder_text(enum file_holder h)
{
	return holders[h].text;
}

static void forget(struct file_place *p)
{
	free((char *)(uintptr_t)p->path);
	free((char *)(uintptr_t)p->canonical);
}

void file_view_done(struct file_view *v)
{
	for (size_t i = 0; i < v->n; i++)
		forget(&v->place[i]);
	free(v->place);
	*v = (struct file_view){0};
}

void file_view_add(struct file_view *v, const struct file_place *p)
{
	struct file_place made = *p;
	size_t i = 0;

	made.path = mem_strdup(p->path);
	made.canonical = p->canonical != NULL ? mem_strdup(p->canonical) : NULL;
	while (i < v->n &&
	       (v->place[i].alone != p->alone || strcmp(v->place[i].path, p->path) != 0))
		i++;
	if (i == v->n) {
		v->place = mem_resize(v->place, v->n + 1, sizeof(*v->place));
		v->n++;
	} else {
		forget(&v->place[i]);
	}
	v->place[i] = made;
}

const struct file_place *file_view_find(const struct file_view *v, const char *path)
{
	const struct file_place *best = NULL;

	for (size_t i = 0; i < v->n; i++) {
		const struct file_place *p = &v->place[i];

		if (p->alone ? strcmp(path, p->path) != 0 : !path_within(path, p->path))
			continue;
		if (best == NULL || p->alone || strlen(p->path) > strlen(best->path))
			best = p;
		if (p->alone)
			break;
	}
	return best;
}

enum file_holder file_view_holder(const struct file_view *v, enum op_file op, const char *path)
{
	const struct file_place *p = file_view_find(v, path);

	if (p == NULL)
		return HOLDER_VIEW;
	if (p->open >> op & 1)
		return HOLDER_NOTHING;
	return p->landlock >> op & 1 ? HOLDER_LANDLOCK : p->rest;
}

bool file_view_served(const struct file_view *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->place[i].rest == HOLDER_SERVER)
			return true;
	return false;
}

/* ---- messages: "REST ALONE OPEN LANDLOCK LENGTH PATH[CANONICAL]" ---- */

void file_view_pack(const struct file_view *v, struct strv *out)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct file_place *p = &v->place[i];

		strv_addf(out, "%d %d %u %u %zu %s%s", (int)p->rest, p->alone, p->open, p->landlock,
			  strlen(p->path), p->path, p->canonical != NULL ? p->canonical : "");
	}
}

int file_view_unpack(const struct strv *in, struct file_view *out, struct err *err)
{
	for (size_t i = 0; i < in->n; i++) {
		unsigned long number[5];
		char *at = in->v[i];
		size_t n = 0;

		while (n < ARRAY_LEN(number) && *at >= '0' && *at <= '9') {
			number[n++] = strtoul(at, &at, 10);
			at += *at == ' ';
		}
		if (n < ARRAY_LEN(number) || *at != '/' || number[4] > strlen(at) ||
		    (at[number[4]] != '\0' && at[number[4]] != '/') || number[0] >= HOLDERS ||
		    number[4] == 0 || ((number[2] | number[3]) & ~(unsigned long)FILE_OPS) != 0)
			return err_set(err, E_BAD_REQUEST, NULL, "not a place of a view");
		cleanup_free char *path = mem_strndup(at, number[4]);

		at += number[4];
		file_view_add(out, &(struct file_place){.path = path,
							.canonical = *at != '\0' ? at : NULL,
							.alone = number[1] != 0,
							.open = (uint32_t)number[2],
							.landlock = (uint32_t)number[3],
							.rest = (enum file_holder)number[0]});
	}
	return 0;
}
