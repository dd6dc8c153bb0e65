// SPDX-License-Identifier: Apache-2.0
/* The index of a trash. A record is a length of four bytes and a struct trash_entry, packed by its
 * table of fields: names with any bytes cannot look like anything else. */
#include "trash/trash_index.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "model/workspace_names.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define ROW(kind, name, max) FIELD(struct trash_entry, kind, name, max)
static const struct field rows[] = {
	ROW(FIELD_U64, id, 0),
	ROW(FIELD_U32, gone, 0),
	ROW(FIELD_U32, mode, 0),
	ROW(FIELD_U64, size, 0),
	ROW(FIELD_U64, atime_us, 0),
	ROW(FIELD_U64, mtime_us, 0),
	ROW(FIELD_STR, path, PATH_MAX),
	ROW(FIELD_STR, real_path, PATH_MAX),
	ROW(FIELD_STR, command_id, ID_MAX),
	ROW(FIELD_STR, tree, PATH_MAX),
};
#define RECORD_MAX (3 * PATH_MAX + 1024)
static const struct fields entry_fields = {"trash entry", sizeof(struct trash_entry), rows,
					   ARRAY_LEN(rows)};

void trash_entry_done(struct trash_entry *e)
{
	fields_done(&entry_fields, e);
}

void trash_list_done(struct trash_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		trash_entry_done(&l->v[i]);
	free(l->v);
	*l = (struct trash_list){0};
}

void trash_name(char out[TRASH_NAME], uint64_t id)
{
	snprintf(out, TRASH_NAME, "%" PRIu64, id);
}

/* A path that names something below the directory that it begins with. */
static bool is_plain(const char *path)
{
	while (*path == '/') {
		const size_t n = strcspn(path + 1, "/");

		if (n == 0 || (n == 1 && path[1] == '.') ||
		    (n == 2 && path[1] == '.' && path[2] == '.'))
			return false;
		path += n + 1;
	}
	return *path == '\0';
}

const char *trash_entry_below(const struct trash_entry *e)
{
	const char *tree = e->tree != NULL ? e->tree : WORKSPACE_CANONICAL, *below;
	size_t real, len;

	if (e->path == NULL || e->real_path == NULL || !path_within(e->path, tree) ||
	    !is_plain(e->path) || !is_plain(e->real_path))
		return NULL;
	below = e->path + strlen(tree);
	if (*below == '\0')
		return NULL;
	real = strlen(e->real_path);
	len = strlen(below);
	return real >= len && strcmp(e->real_path + real - len, below) == 0 ? below + 1 : NULL;
}

/* ---- writing ---- */

int trash_append(int dir, const struct trash_entry *e, off_t *at)
{
	cleanup_buf struct buf record = {0};
	cleanup_fd int fd =
		openat(dir, TRASH_INDEX,
		       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0640);
	uint32_t len = 0;
	struct stat st;
	int r = 0;

	if (fd == -1 || flock(fd, LOCK_EX) < 0 || fstat(fd, &st) < 0)
		return -errno;
	buf_add(&record, &len, sizeof(len));
	fields_pack(&entry_fields, e, &record);
	len = (uint32_t)(record.len - sizeof(len));
	memcpy(record.data, &len, sizeof(len));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size + record.len > TRASH_INDEX_MAX)
		return -EFBIG;
	/* whatever the umask of the process is */
	if (st.st_size == 0 && fchmod(fd, 0640) < 0)
		return -errno;
	if (fdio_write_all(fd, record.data, record.len) < 0) {
		r = -errno;
		if (ftruncate(fd, st.st_size) < 0)
			return -EIO;
	}
	if (at != NULL)
		*at = st.st_size;
	return r;
}

/* ---- reading ---- */

static int by_id(const void *a, const void *b)
{
	const struct trash_entry *one = a, *two = b;

	return one->id != two->id ? (one->id < two->id ? -1 : 1)
				  : (int)(one->gone != 0) - (int)(two->gone != 0);
}

const struct trash_entry *trash_find(const struct trash_list *l, uint64_t id)
{
	const struct trash_entry key = {.id = id};

	return l->n > 0 ? bsearch(&key, l->v, l->n, sizeof(*l->v), by_id) : NULL;
}

/* Leaves the entries that have not ended. */
static void drop_ended(struct trash_list *l)
{
	size_t kept = 0;

	qsort(l->v, l->n, sizeof(*l->v), by_id);
	for (size_t i = 0; i < l->n; i++) {
		struct trash_entry *e = &l->v[i];
		const bool ended = e->gone != 0 || (i + 1 < l->n && e[1].id == e->id);

		if (ended || trash_entry_below(e) == NULL)
			trash_entry_done(e);
		else
			l->v[kept++] = *e;
	}
	l->n = kept;
}

int trash_parse(const void *bytes, size_t left, uint64_t since, struct trash_list *out,
		struct err *err)
{
	const char *at = bytes;

	while (left > 0) {
		struct trash_entry e;
		uint32_t len = 0;
		int r;

		if (left >= sizeof(len))
			memcpy(&len, at, sizeof(len));
		if (left < sizeof(len) || len > left - sizeof(len))
			break; /* a writer was ended in the middle */
		r = fields_unpack(&entry_fields, at + sizeof(len), len, true, &e, err);
		if (r < 0)
			return r;
		at += sizeof(len) + len;
		left -= sizeof(len) + len;
		if (e.id < since) {
			trash_entry_done(&e);
			continue;
		}
		out->v = mem_grow(out->v, out->n, sizeof(*out->v));
		out->v[out->n++] = e;
	}
	if (out->n > 0)
		drop_ended(out);
	return 0;
}

/* at < 0: the whole index. */
static int load(int dir, off_t at, uint64_t since, struct trash_list *out, struct err *err)
{
	cleanup_fd int fd =
		openat(dir, TRASH_INDEX, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	cleanup_buf struct buf text = {0};
	cleanup_trash_list struct trash_list list = {0};
	char record[RECORD_MAX];
	ssize_t n = 0;
	struct stat st;
	uint32_t len;
	int r = 0;

	*out = (struct trash_list){0};
	if (fd == -1 && errno == ENOENT)
		return 0;
	if (fd == -1 || fstat(fd, &st) < 0)
		return err_errno(err, E_UNAVAILABLE, TRASH_INDEX, "cannot read the trash");
	if (!S_ISREG(st.st_mode))
		return err_set(err, E_BAD_REQUEST, TRASH_INDEX, "not the index of a trash");
	if (at < 0) {
		r = fdio_load(fd, TRASH_INDEX_MAX, &text, err);
	} else if ((n = pread(fd, record, sizeof(record), at)) > (ssize_t)sizeof(len)) {
		memcpy(&len, record, sizeof(len));
		buf_add(&text, record,
			len < (size_t)n - sizeof(len) ? sizeof(len) + len : (size_t)n);
	}
	if (r == 0)
		r = trash_parse(text.data, text.len, since, &list, err);
	if (r < 0)
		return r;
	*out = list;
	list = (struct trash_list){0};
	return 0;
}

int trash_load(int dir, uint64_t since, struct trash_list *out, struct err *err)
{
	return load(dir, -1, since, out, err);
}

int trash_load_at(int dir, off_t at, struct trash_list *out, struct err *err)
{
	return load(dir, at, 0, out, err);
}
