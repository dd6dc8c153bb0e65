// SPDX-License-Identifier: Apache-2.0
#include "acmd/walk.h"
#include "base/mem.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct walk_level {
	DIR *dir;
	struct buf text; /* of each entry: d_type, name, NUL */
	char **name;	 /* into text, sorted; each points behind its d_type */
	size_t n, i;
	bool more;	 /* names follow that were not read */
	int errnum;	 /* why none follow */
	size_t path_len; /* of the path of the directory itself */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The next names of the directory. */
static void read_names(const struct tree_walk *w, struct walk_level *l)
{
	const size_t max = w->names_max > 0 ? w->names_max : WALK_NAMES_MAX;
	const struct dirent *e;
	char *p;

	buf_clear(&l->text);
	l->n = l->i = 0;
	for (l->more = true; l->text.len < max;) {
		const char *s;

		errno = 0;
		e = readdir(l->dir);
		if (e == NULL) {
			l->more = false;
			l->errnum = errno;
			break;
		}
		s = e->d_name;
		if (s[0] == '.' && (!w->hidden || s[1] == '\0' || strcmp(s, "..") == 0))
			continue;
		buf_addc(&l->text, (char)e->d_type);
		buf_add(&l->text, s, strlen(s) + 1);
		l->n++;
	}
	l->name = mem_resize(l->name, l->n + 1, sizeof(*l->name));
	p = l->text.data;
	for (size_t i = 0; i < l->n; i++) {
		l->name[i] = p + 1;
		p += 2 + strlen(p + 1);
	}
	qsort(l->name, l->n, sizeof(*l->name), by_name);
}

static void close_level(struct tree_walk *w)
{
	struct walk_level *l = &w->level[--w->depth];

	closedir(l->dir);
	buf_done(&l->text);
	free(l->name);
}

int walk_open(struct tree_walk *w, int fd)
{
	struct walk_level l = {.dir = fdopendir(fd), .path_len = w->path.len};
	int e;

	if (l.dir == NULL) {
		e = errno;
		close(fd);
		return e;
	}
	buf_reserve(&w->path, 1); /* the start has no path */
	read_names(w, &l);
	e = l.n == 0 ? l.errnum : 0;
	w->level = mem_grow(w->level, w->depth, sizeof(*w->level));
	w->level[w->depth++] = l;
	if (e != 0)
		close_level(w);
	return e;
}

/* All names were there. */
static enum walk_step end_level(struct tree_walk *w, struct walk_level *l, struct walk_entry *out)
{
	w->path.data[w->path.len] = '\0';
	out->path = w->path.data;
	out->depth = w->depth - 1;
	out->errnum = l->errnum;
	l->errnum = 0;
	if (out->errnum != 0)
		return WALK_FAILED;
	close_level(w);
	return w->depth > 0 ? WALK_LEAVE : WALK_END;
}

enum walk_step walk_next(struct tree_walk *w, struct walk_entry *out)
{
	struct walk_level *l;
	struct stat st;

	out->path = w->path.data;
	out->depth = w->depth;
	if (w->leave) {
		w->leave = false;
		return WALK_LEAVE;
	}
	if (w->descend) { /* into the directory of the last entry */
		int fd;

		l = &w->level[w->depth - 1];
		fd = openat(dirfd(l->dir), l->name[l->i - 1],
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		w->descend = false;
		out->errnum = fd == -1 ? errno : walk_open(w, fd);
		w->leave = out->errnum != 0;
		if (w->leave)
			return WALK_FAILED;
	}
	if (w->depth == 0)
		return WALK_END;
	l = &w->level[w->depth - 1];
	w->path.len = l->path_len;
	if (l->i == l->n && l->more)
		read_names(w, l);
	if (l->i == l->n)
		return end_level(w, l, out);
	out->dir = dirfd(l->dir);
	out->name = l->name[l->i++];
	out->type = DTTOIF((mode_t)(unsigned char)out->name[-1]);
	if (out->name[-1] == DT_UNKNOWN &&
	    fstatat(out->dir, out->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		out->type = st.st_mode & S_IFMT;
	out->depth = w->depth;
	if (l->path_len > 0)
		buf_addc(&w->path, '/');
	buf_adds(&w->path, out->name);
	out->path = w->path.data;
	w->descend = S_ISDIR(out->type) && w->depth < w->depth_max;
	return WALK_ENTRY;
}

void walk_close(struct tree_walk *w)
{
	while (w->depth > 0)
		close_level(w);
	free(w->level);
	buf_done(&w->path);
}
