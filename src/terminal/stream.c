// SPDX-License-Identifier: Apache-2.0
#include "terminal/stream.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

void stream_init(struct stream *s, int fd, uint64_t quota)
{
	*s = (struct stream){.fd = fd, .quota = quota};
}

void stream_done(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Whole writes as long as they succeed; what a failing disk took before is kept. */
static void store(struct stream *s, const char *p, size_t n)
{
	while (n > 0) {
		const ssize_t r = TEMP_FAILURE_RETRY(write(s->fd, p, n));

		if (r == -1) {
			s->failed = errno;
			return;
		}
		s->kept += (uint64_t)r;
		p += r;
		n -= (size_t)r;
	}
}

void stream_append(struct stream *s, const void *p, size_t n)
{
	const char *text = p;
	const uint64_t room = s->quota - s->kept;
	uint64_t lines = 0;

	if (n == 0)
		return;
	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	s->lines += lines;
	s->open_line = text[n - 1] != '\n';
	s->bytes += n;
	if (s->failed == 0)
		store(s, text, n < room ? n : (size_t)room);
}

uint64_t stream_lines(const struct stream *s)
{
	return s->lines + s->open_line;
}

/* How much of n bytes to give: a character that goes on behind them is left for the next page. */
static size_t cut(const void *p, size_t n)
{
	const size_t whole = json_text_cut(p, n);

	return whole > 0 && json_is_text(p, whole) ? whole : n;
}

int stream_read(int fd, uint64_t offset, size_t limit, bool complete, void *out,
		struct stream_page *page, struct err *err)
{
	struct stat st;
	struct stream_page got = {.offset = offset, .next = offset};
	ssize_t n = 0;

	if (fstat(fd, &st) < 0)
		return err_errno(err, E_INTERNAL, NULL, "cannot look at the output");
	got.total = (uint64_t)st.st_size;
	if (offset < got.total) {
		const uint64_t there = got.total - offset;

		n = fdio_pread_full(fd, out, there < limit ? (size_t)there : limit, offset);
	}
	if (n < 0)
		return err_errno(err, E_INTERNAL, NULL, "cannot read the output");
	got.len = (size_t)n;
	if (!complete || offset + got.len < got.total)
		got.len = cut(out, got.len);
	got.next = offset + got.len;
	got.has_more = !complete || got.next < got.total;
	*page = got;
	return 0;
}
