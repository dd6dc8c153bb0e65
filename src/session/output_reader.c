// SPDX-License-Identifier: Apache-2.0
/* What a command wrote: read from its files by offset, while it runs and afterwards. */
#include "base/fdio.h"
#include "session/command_state.h"
#include "session/sessions.h"
#include <sys/stat.h>

#define PAGE_MAX (10 * 1024 * 1024)
#define COUNT_CHUNK (64 * 1024)

/* If descriptors have run out, closes the spare files and tries again. */
static int open_file(struct command *c, int stream, struct err *err)
{
	struct sessions *ss = c->s->ss;
	int r = 0;

	for (int i = 0; i < 2 && c->read_fd[stream] == -1; i++) {
		r = stream_file_open(ss->deps.output_dir, c->s->id, c->file[stream].name, stream,
				     err, &c->read_fd[stream]);
		if (r != -E_UNAVAILABLE)
			break;
		spares_drop(ss);
	}
	return r;
}

/* -1: no file (never made, swept, or empty and in use for another command). */
static int file_of(struct command *c, int stream)
{
	if (!command_is_over(c) || c->out.extent[stream].kept > 0)
		open_file(c, stream, NULL);
	return c->read_fd[stream];
}

/* The size of a file that holds all output is the number of bytes. It may grow after the command's
 * end. */
static struct stream_extent extent_of(struct command *c, int stream)
{
	struct stream_extent x = c->out.extent[stream];
	struct stat st;
	uint64_t size;
	int fd;

	if (x.bytes > x.kept)
		return x;
	fd = file_of(c, stream);
	size = fd != -1 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	x.bytes = x.kept = x.from = size > x.kept ? size : x.kept;
	return x;
}

static uint64_t count_lines(struct command *c, int stream, uint64_t end)
{
	const int fd = file_of(c, stream);
	char *chunk = mem_alloc(COUNT_CHUNK);
	uint64_t *at = &c->counted[stream];

	while (fd != -1 && *at < end) {
		const uint64_t left = end - *at;
		const size_t part = left < COUNT_CHUNK ? (size_t)left : COUNT_CHUNK;
		const ssize_t n = fdio_pread_full(fd, chunk, part, *at);

		if (n <= 0)
			break;
		c->counted_lines[stream] += stream_newlines(chunk, (size_t)n);
		*at += (uint64_t)n;
		c->open_line[stream] = chunk[n - 1] != '\n';
	}
	free(chunk);
	return c->counted_lines[stream] + c->open_line[stream];
}

static uint64_t lines_of(struct command *c, int stream, const struct stream_extent *x)
{
	return x->bytes > x->kept ? c->lines[stream] : count_lines(c, stream, x->kept);
}

void command_measure(struct command *c)
{
	const uint64_t quota = (uint64_t)c->s->ss->deps.config->output_command_quota;

	for (int i = 1; i <= 2; i++) {
		struct stream_extent x;

		open_file(c, i, NULL);
		x = extent_of(c, i);
		if (x.bytes == x.kept &&
		    x.kept > quota) /* the rest is a ring without a known position */
			x.bytes = x.kept = x.from = quota;
		c->lines[i] = lines_of(c, i, &x);
		c->out.extent[i] = x;
	}
}

uint64_t command_kept(struct command *c, int stream)
{
	return command_is_over(c) ? c->out.extent[stream].kept : extent_of(c, stream).kept;
}

uint64_t command_bytes(struct command *c, int stream)
{
	return command_is_over(c) ? c->out.extent[stream].bytes : extent_of(c, stream).bytes;
}

uint64_t command_lines(struct command *c, int stream)
{
	struct stream_extent x;

	if (command_is_over(c))
		return c->lines[stream];
	x = extent_of(c, stream);
	return lines_of(c, stream, &x);
}

/* Appends a page to out. The ring is only for a reader that follows the command. */
static int read_page(struct command *c, int stream, bool follows, size_t limit, struct buf *out,
		     struct stream_page *page, struct err *err)
{
	/* A reader that is behind what the warden has reported needs no look at the file's size. */
	const bool behind = follows && page->offset < c->out.extent[stream].bytes;
	struct stream_extent x = behind ? c->out.extent[stream] : extent_of(c, stream);
	int r;

	if (!follows)
		x.bytes = x.from = x.kept;
	page->next = page->offset;
	page->has_more = !command_is_over(c);
	if (x.bytes == 0)
		return 0;
	r = open_file(c, stream, err);
	if (r == -E_NOT_FOUND && x.kept > 0)
		return err_set(err, E_NOT_FOUND, c->id, "the output of '%s' is kept no longer",
			       c->id);
	if (r < 0 && x.kept > 0)
		return r;
	buf_reserve(out, limit);
	r = stream_read(c->read_fd[stream], &x, page->offset, limit,
			(command_is_over(c) ? STREAM_COMPLETE : 0) | (follows ? STREAM_RAW : 0),
			out->data + out->len, page, err);
	if (r < 0)
		return r;
	out->len += page->len;
	out->data[out->len] = '\0';
	return 0;
}

int command_read_first(struct command *c, int stream, size_t limit, struct buf *out, uint64_t *next,
		       struct err *err)
{
	struct stream_page page = {0};
	const int r = read_page(c, stream, false, limit, out, &page, err);

	*next = page.next;
	return r == -E_NOT_FOUND ? 0 : r;
}

int command_follow(struct command *c, int stream, uint64_t offset, size_t limit, struct buf *out,
		   uint64_t *next, struct err *err)
{
	struct stream_page page = {.offset = offset};
	const int r = read_page(c, stream, true, limit, out, &page, err);

	if (r == 0)
		*next = page.next;
	return r;
}

int command_file(struct command *c, int stream, uint64_t offset, size_t *n)
{
	const uint64_t kept = c->out.extent[stream].kept;
	struct stat st;

	if (offset >= kept || open_file(c, stream, NULL) < 0 ||
	    fstat(c->read_fd[stream], &st) < 0 || (uint64_t)st.st_size < kept)
		return -1;
	if (*n > kept - offset)
		*n = (size_t)(kept - offset);
	return c->read_fd[stream];
}

int command_output(struct command *c, int stream, uint64_t offset, uint64_t limit, struct jw *w,
		   struct err *err)
{
	cleanup_buf struct buf data = {0};
	struct stream_page page = {.offset = offset};
	const char *encoding;
	int r;

	if (stream != 1 && stream != 2)
		return err_set(err, E_BAD_REQUEST, c->id, "no stream %d", stream);
	r = read_page(c, stream, false, limit < PAGE_MAX ? (size_t)limit : PAGE_MAX, &data, &page,
		      err);
	if (r < 0)
		return r;
	jw_obj(w);
	jw_kstr(w, "command_id", c->id);
	jw_kstr(w, "stream", stream == 1 ? "stdout" : "stderr");
	jw_kint(w, "offset", (int64_t)page.offset);
	jw_key(w, "data");
	encoding = jw_data(w, data.data != NULL ? data.data : "", data.len);
	jw_kstr(w, "encoding", encoding);
	jw_kuint(w, "total_bytes", command_bytes(c, stream));
	jw_kuint(w, "total_lines", command_lines(c, stream));
	jw_kuint(w, "kept_bytes", command_kept(c, stream));
	jw_kint(w, "next_offset", (int64_t)page.next);
	jw_kbool(w, "complete", command_is_over(c));
	jw_kbool(w, "has_more", page.has_more);
	jw_obj_end(w);
	return 0;
}
