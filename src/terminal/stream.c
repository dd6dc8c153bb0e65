// SPDX-License-Identifier: Apache-2.0
#include "terminal/stream.h"
#include "base/fdio.h"
#include "base/json.h"
#include "base/mem.h"
#include <errno.h>
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

/* Returns the place of a byte in the file and how many bytes follow it there. */
static uint64_t place_of(uint64_t kept, uint64_t offset, uint64_t *contiguous)
{
	const uint64_t in_ring = offset >= kept ? (offset - kept) % STREAM_RING : 0;

	*contiguous = offset < kept ? kept - offset : STREAM_RING - in_ring;
	return offset < kept ? offset : kept + in_ring;
}

#define LANES 16
typedef uint8_t lanes __attribute__((vector_size(LANES)));

uint64_t stream_newlines(const void *p, size_t n)
{
	const char *at = p;
	uint64_t lines = 0;

	/* gcc -O2 does not make vectors of a loop over bytes. A lane counts to 255 at most. */
	while (n >= LANES) {
		const char *end = at + (n / LANES < 255 ? n / LANES : 255) * LANES;
		lanes found = {0}, some;

		n -= (size_t)(end - at);
		for (; at < end; at += LANES) {
			memcpy(&some, at, LANES);
			found -= (lanes)(some == '\n');
		}
		for (int i = 0; i < LANES; i++)
			lines += found[i];
	}
	while (n-- > 0)
		lines += *at++ == '\n';
	return lines;
}

void stream_append(struct stream *s, const void *p, size_t n)
{
	const char *text = p;
	const uint64_t room = s->quota - s->kept;
	const size_t to_keep = n < room ? n : (size_t)room;
	size_t stored = 0;

	if (n == 0)
		return;
	s->lines += stream_newlines(text, n);
	s->open_line = text[n - 1] != '\n';
	/* bytes that a failing disk took before its error are kept */
	while (stored < (s->window ? n : to_keep) && s->failed == 0) {
		const size_t left = (s->window ? n : to_keep) - stored;
		uint64_t contiguous;
		const uint64_t at = place_of(s->quota, s->bytes + stored, &contiguous);
		const size_t part = left < contiguous ? left : (size_t)contiguous;
		const ssize_t r = TEMP_FAILURE_RETRY(pwrite(s->fd, text + stored, part, (off_t)at));

		if (r == -1)
			s->failed = errno;
		else
			stored += (size_t)r;
	}

	s->kept += stored < to_keep ? stored : to_keep;
	s->bytes += n;
	if (stored < n) /* the rest is lost, so the ring has no bytes before it */
		s->from = s->bytes;
	else if (s->from < s->kept)
		s->from = s->kept;
}

uint64_t stream_lines(const struct stream *s)
{
	return s->lines + s->open_line;
}

/* Reads n bytes, which may lie in two places of the file. */
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
			return err_errno(err, E_INTERNAL, NULL, "cannot read the output");
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

int stream_read(int fd, const struct stream_extent *x, uint64_t offset, size_t limit, unsigned how,
		void *out, struct stream_page *page, struct err *err)
{
	struct stream_page got = {.offset = offset, .next = offset};
	const bool complete = (how & STREAM_COMPLETE) != 0;
	const uint64_t oldest = x->bytes > STREAM_RING ? x->bytes - STREAM_RING : 0;
	const uint64_t start = x->from > oldest ? x->from : oldest; /* of the bytes in the ring */
	/* The end of the bytes at this offset; without a gap both parts are one. */
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
		/* a character that is not complete is left for the next page */
		if ((how & STREAM_RAW) == 0 && (!complete || offset + n < end)) {
			const size_t whole = json_text_cut(out, n);

			n = whole > 0 && json_is_text(out, whole) ? whole : n;
		}
		got.next = offset + n;
	}
	got.len = n;
	got.has_more = !complete || got.next < got.total;
	*page = got;
	return 0;
}
