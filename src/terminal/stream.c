// SPDX-License-Identifier: Apache-2.0
#include "terminal/stream.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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

/* Where a byte lies in the file, and how many follow it there. */
static uint64_t place_of(uint64_t kept, uint64_t offset, uint64_t *contiguous)
{
	const uint64_t in_ring = offset >= kept ? (offset - kept) % STREAM_RING : 0;

	*contiguous = offset < kept ? kept - offset : STREAM_RING - in_ring;
	return offset < kept ? offset : kept + in_ring;
}

/* Whole writes as long as they succeed; what a failing disk took before is kept. Returns how many
 * bytes the file took. */
static size_t store(struct stream *s, const char *p, size_t n)
{
	size_t done = 0;

	while (done < n && s->failed == 0) {
		uint64_t contiguous;
		const uint64_t at = place_of(s->quota, s->bytes + done, &contiguous);
		const size_t part = n - done < contiguous ? n - done : (size_t)contiguous;
		const ssize_t r = TEMP_FAILURE_RETRY(pwrite(s->fd, p + done, part, (off_t)at));

		if (r == -1)
			s->failed = errno;
		else
			done += (size_t)r;
	}
	return done;
}

void stream_append(struct stream *s, const void *p, size_t n)
{
	const char *text = p;
	const uint64_t room = s->quota - s->kept;
	const size_t to_keep = n < room ? n : (size_t)room;
	uint64_t lines = 0;
	size_t stored;

	if (n == 0)
		return;
	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	s->lines += lines;
	s->open_line = text[n - 1] != '\n';
	stored = store(s, text, s->window ? n : to_keep);
	s->kept += stored < to_keep ? stored : to_keep;
	s->bytes += n;
	if (stored < n) /* the rest is gone, and with it the ring's use */
		s->from = s->bytes;
	else if (s->from < s->kept)
		s->from = s->kept;
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

/* n bytes, which may lie in pieces. */
static int read_pieces(int fd, uint64_t kept, uint64_t offset, size_t n, char *out, struct err *err)
{
	size_t done = 0;

	while (done < n) {
		uint64_t contiguous;
		const uint64_t at = place_of(kept, offset + done, &contiguous);
		const size_t part = n - done < contiguous ? n - done : (size_t)contiguous;
		const ssize_t r = fdio_pread_full(fd, out + done, part, at);
		struct stat st;

		if (r < 0)
			return err_errno(err, E_INTERNAL, NULL, "the output cannot be read");
		if ((size_t)r < part)
			return err_set(err, E_INTERNAL, NULL,
				       "the output's file is damaged: it ends at byte %" PRIu64
				       ", and %" PRIu64 " bytes were written to it",
				       fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0,
				       at + part > kept ? at + part : kept);
		done += part;
	}
	return 0;
}

int stream_read(int fd, const struct stream_extent *x, uint64_t offset, size_t limit, bool complete,
		void *out, struct stream_page *page, struct err *err)
{
	struct stream_page got = {.offset = offset, .next = offset};
	const uint64_t oldest = x->bytes > STREAM_RING ? x->bytes - STREAM_RING : 0;
	const uint64_t start = x->from > oldest ? x->from : oldest; /* of what the ring has */
	/* Where the bytes at this offset end: without a gap both parts are one. */
	const uint64_t end = offset < x->kept && start > x->kept ? x->kept : x->bytes;
	size_t n = 0;
	int r;

	got.total = x->bytes;
	if (offset >= x->kept && offset < start) {
		got.next = start < x->bytes ? start : x->bytes;
	} else if (offset < end) {
		n = end - offset < limit ? (size_t)(end - offset) : limit;
		r = read_pieces(fd, x->kept, offset, n, out, err);
		if (r < 0)
			return r;
		if (!complete || offset + n < end)
			n = cut(out, n);
		got.next = offset + n;
	}
	got.len = n;
	got.has_more = !complete || got.next < got.total;
	*page = got;
	return 0;
}
