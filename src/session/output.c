// SPDX-License-Identifier: Apache-2.0
/* What a command wrote: read from its files by offset, while it runs and afterwards. */
#include "base/fdio.h"
#include "session/internal.h"
#include "terminal/stream.h"
#include <sys/stat.h>

#define PAGE_MAX (10 * 1024 * 1024)
#define COUNT_CHUNK (64 * 1024)

static uint64_t kept_of(const struct command *c, int stream)
{
	return (uint64_t)(stream == 1 ? c->out.stdout_kept : c->out.stderr_kept);
}

static int try_open(struct command *c, int stream)
{
	return stream_file_open(c->s->ss->deps.output_dir, c->s->id, c->file[stream].name, stream,
				NULL, &c->read_fd[stream]);
}

/* What cannot be opened although it is there: for want of descriptors, of which some only wait. */
static int open_file(struct command *c, int stream)
{
	if (c->read_fd[stream] == -1 && try_open(c, stream) == -E_UNAVAILABLE) {
		spares_drop(c->s->ss);
		try_open(c, stream);
	}
	return c->read_fd[stream];
}

/* -1: there is none (never made, swept, or empty and another command's now). */
static int file_of(struct command *c, int stream)
{
	return command_is_over(c) && kept_of(c, stream) == 0 ? -1 : open_file(c, stream);
}

static uint64_t size_of(int fd)
{
	struct stat st;

	return fd != -1 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static uint64_t count_lines(struct command *c, int stream, int fd)
{
	char *chunk = mem_alloc(COUNT_CHUNK);
	ssize_t n;

	while (fd != -1 && (n = fdio_pread_full(fd, chunk, COUNT_CHUNK, c->counted[stream])) > 0) {
		for (ssize_t i = 0; i < n; i++)
			c->counted_lines[stream] += chunk[i] == '\n';
		c->counted[stream] += (uint64_t)n;
		c->open_line[stream] = chunk[n - 1] != '\n';
	}
	free(chunk);
	return c->counted_lines[stream] + c->open_line[stream];
}

void command_measure(struct command *c)
{
	for (int i = 1; i <= 2; i++) {
		const int fd = open_file(c, i);

		c->bytes[i] = size_of(fd);
		c->lines[i] = count_lines(c, i, fd);
	}
	c->out.stdout_kept = (int64_t)c->bytes[1];
	c->out.stderr_kept = (int64_t)c->bytes[2];
}

uint64_t command_kept(struct command *c, int stream)
{
	return command_is_over(c) ? kept_of(c, stream) : size_of(file_of(c, stream));
}

uint64_t command_bytes(struct command *c, int stream)
{
	return command_is_over(c) ? c->bytes[stream] : size_of(file_of(c, stream));
}

uint64_t command_lines(struct command *c, int stream)
{
	return command_is_over(c) ? c->lines[stream] : count_lines(c, stream, file_of(c, stream));
}

uint64_t command_output_total(const struct command *c, int stream)
{
	/* opening its file changes nothing that a caller can see */
	return command_kept((struct command *)c, stream);
}

bool command_read(struct command *c, int stream, uint64_t offset, size_t limit, struct buf *out,
		  struct stream_page *page)
{
	const int fd = file_of(c, stream);

	*page = (struct stream_page){.offset = offset, .next = offset};
	if (fd == -1)
		return false;
	buf_reserve(out, limit);
	if (stream_read(fd, offset, limit, command_is_over(c), out->data + out->len, page, NULL) <
	    0)
		return false;
	out->len += page->len;
	out->data[out->len] = '\0';
	return true;
}

static void format_page(struct command *c, int stream, const struct stream_page *page,
			const struct buf *data, struct jw *w)
{
	const bool over = command_is_over(c);
	const char *encoding;

	jw_obj(w);
	jw_kstr(w, "command_id", c->id);
	jw_kstr(w, "stream", stream == 1 ? "stdout" : "stderr");
	jw_kint(w, "offset", (int64_t)page->offset);
	jw_key(w, "data");
	encoding = jw_data(w, data->data != NULL ? data->data : "", data->len);
	jw_kstr(w, "encoding", encoding);
	jw_key(w, "total_bytes");
	jw_uint(w, command_bytes(c, stream));
	jw_key(w, "total_lines");
	jw_uint(w, command_lines(c, stream));
	jw_kint(w, "next_offset", (int64_t)page->next);
	jw_kbool(w, "complete", over);
	jw_kbool(w, "has_more", page->has_more);
	jw_obj_end(w);
}

int command_output(struct command *c, int stream, uint64_t offset, uint64_t limit, struct jw *w,
		   struct buf *raw, struct err *err)
{
	cleanup_buf struct buf own = {0};
	struct buf *out = raw != NULL ? raw : &own;
	struct stream_page page;

	if (stream != 1 && stream != 2)
		return err_set(err, E_BAD_REQUEST, c->id, "no stream %d", stream);
	if (limit > PAGE_MAX)
		limit = PAGE_MAX;
	if (!command_read(c, stream, offset, (size_t)limit, out, &page)) {
		if (command_kept(c, stream) > 0)
			return err_set(err, E_NOT_FOUND, c->id,
				       "the output of '%s' is kept no longer", c->id);
		page.has_more = !command_is_over(c);
	}
	if (raw == NULL)
		format_page(c, stream, &page, out, w);
	return 0;
}
