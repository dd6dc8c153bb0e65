// SPDX-License-Identifier: Apache-2.0
/* The file is read once from its beginning: lines are counted, and the bytes that belong to the
 * answer are kept. */
#include "acmd/acmd.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define CONTENT_MAX (16 << 20)
#define COUNT_MAX (64 << 20) /* bytes beyond the answer in which lines are counted */

struct file_reading {
	const struct acmd_options *o;
	uint64_t at, line; /* of the next byte */
	size_t room;
	struct buf content;
	uint64_t from, first, last; /* byte and line of its first byte, line of its last */
	bool more;		    /* than there was room for */
	bool counted, whole;	    /* lines from the beginning; to the end */
	bool open_line;		    /* bytes follow the last newline */
};

/* n bytes of one line. */
static void keep(struct file_reading *r, const char *p, size_t n)
{
	const uint64_t skip = r->o->offset > r->at ? r->o->offset - r->at : 0;
	const size_t room = r->room - r->content.len;

	if (r->line < r->o->first || r->line > r->o->last || skip >= n)
		return;
	r->more |= n - skip > room;
	n = n - skip > room ? room : n - (size_t)skip;
	if (n == 0)
		return;
	if (r->content.len == 0) {
		r->from = r->at + skip;
		r->first = r->line;
	}
	r->last = r->line;
	buf_add(&r->content, p + skip, n);
}

/* 0 or an errno. */
static int read_content(struct file_reading *r, int fd)
{
	char piece[65536];
	ssize_t n;

	while ((n = read(fd, piece, sizeof(piece))) != 0) {
		if (n < 0 && errno != EINTR)
			return errno;
		for (ssize_t i = 0; i < n;) {
			const char *end = memchr(piece + i, '\n', (size_t)(n - i));
			const size_t len =
				end != NULL ? (size_t)(end - piece - i) + 1 : (size_t)(n - i);

			keep(r, piece + i, len);
			r->at += len;
			r->line += end != NULL;
			r->open_line = end == NULL;
			i += (ssize_t)len;
		}
		if (r->at >= COUNT_MAX && (r->more || r->line > r->o->last))
			return 0;
	}
	r->whole = true;
	return 0;
}

/* Writes as much as fits. */
static void write_content(struct acmd *a, struct file_reading *r)
{
	const size_t before = a->text.len;
	const struct jw w = a->w;
	size_t n = r->content.len;
	const char *encoding;

	for (;;) {
		/* A character that the answer would cut belongs to the next one. */
		const size_t cut = r->more ? json_text_cut(r->content.data, n) : n;
		size_t used;

		if (cut > 0 && json_is_text(r->content.data, cut))
			n = cut;
		jw_key(&a->w, "content");
		encoding = jw_data(&a->w, r->content.data, n);
		used = a->text.len - before;
		if (a->o.limited || used <= ACMD_ANSWER || n == 1)
			break;
		a->text.len = before;
		a->w = w;
		n = n * ACMD_ANSWER / used;
		n = n > 0 ? n : 1;
		r->more = true;
	}
	while (r->content.len > n) /* what is left out has lines of its own */
		if (r->content.data[--r->content.len - 1] == '\n')
			r->last--;
	jw_kstr(&a->w, "encoding", encoding);
	if (r->more)
		a->next = r->from + n;
}

int acat_run(struct acmd *a)
{
	const bool seeks = a->o.offset > COUNT_MAX && a->o.first == 1;
	struct file_reading r = {.o = &a->o, .line = 1, .room = ACMD_ANSWER, .counted = !seeks};
	cleanup_fd int fd = open(a->operand[0], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	int e = 0;

	if (fd == -1 || fstat(fd, &st) < 0)
		e = errno;
	else if (S_ISDIR(st.st_mode))
		e = EISDIR;
	else if (!S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		e = EINVAL;
	if (a->o.limited)
		r.room = a->o.limit < CONTENT_MAX ? (size_t)a->o.limit : CONTENT_MAX;
	if (e == 0 && seeks) {
		/* ext4 takes no offset beyond the largest file that it could have. */
		const bool beyond = S_ISREG(st.st_mode) && (int64_t)a->o.offset > st.st_size;

		r.at = a->o.offset;
		if (lseek(fd, beyond ? st.st_size : (off_t)a->o.offset, SEEK_SET) < 0)
			e = errno;
	}
	if (e == 0)
		e = read_content(&r, fd);
	if (e != 0) {
		buf_done(&r.content);
		return acmd_refuse(a, a->operand[0], e);
	}
	jw_obj(&a->w);
	acmd_path(a, a->operand[0]);
	jw_kuint(&a->w, "size", (uint64_t)st.st_size);
	jw_kuint(&a->w, "offset", r.content.len > 0 ? r.from : a->o.offset);
	write_content(a, &r);
	jw_key(&a->w, "lines");
	if (r.counted) {
		jw_obj(&a->w);
		jw_kuint(&a->w, "first", r.first);
		jw_kuint(&a->w, "last", r.last);
		jw_key(&a->w, "total");
		if (r.whole)
			jw_uint(&a->w, r.line - !r.open_line);
		else
			jw_null(&a->w);
		jw_obj_end(&a->w);
	} else {
		jw_null(&a->w);
	}
	buf_done(&r.content);
	return acmd_finish(a);
}
