// SPDX-License-Identifier: Apache-2.0
/* terminal/stream.h - one byte store with monotonic offsets, backed by a file from the first byte.
 *
 * The API child makes the file and hands the writing descriptor to the warden; the warden appends,
 * the API child reads with pread. What is written survives the end of either.
 *
 * The first `quota` bytes are kept at their own offsets. Behind them the file has a ring of
 * STREAM_RING bytes: while a reader is attached, later bytes go there, and the writer stays within
 * STREAM_WINDOW of the reader's position (warden/output_writer.c). Without a reader they are only
 * counted. The ring is larger than the window because at a command's end the warden takes what the
 * pipe holds, up to 1 MiB (the default of fs.pipe-max-size), wherever the reader is. */
#pragma once
#include "base/err.h"
#include <stdint.h>
#include <sys/types.h>

#define STREAM_WINDOW (UINT64_C(1) << 20)
#define STREAM_RING (2 * STREAM_WINDOW)

/* Writer (warden). Plain data. */
struct stream {
	int fd;			     /* owned */
	uint64_t quota;		     /* bytes kept */
	uint64_t bytes, kept, lines; /* produced, in the file, newlines (+1 if the last line is
					open: stream_lines) */
	uint64_t from;		     /* past the quota, bytes from here on are in the ring */
	bool open_line;
	bool window; /* a reader is attached: bytes past the quota go into the ring */
	int failed;  /* errno of the first failed write (disk full): later bytes are only counted */
};
void stream_init(struct stream *s, int fd, uint64_t quota); /* takes fd */
void stream_done(struct stream *s);
void stream_append(struct stream *s, const void *p, size_t n);
uint64_t stream_lines(const struct stream *s);

/* Reader (API child). */
/* What the file holds: [0, kept), and in the ring [from, bytes) or the last STREAM_RING of that. */
struct stream_extent {
	uint64_t bytes, kept, from;
};
struct stream_page {
	uint64_t offset, total, next;
	size_t len;
	bool has_more;
};
/* Reads [offset, offset+limit) of what the file holds; text is cut at a character's boundary when
 * the whole page is text (but at least one byte is given, so paging ends). At an offset whose bytes
 * were dropped the page is empty and `next` is the first offset behind the gap. out must hold limit
 * bytes. complete: no more will be written. E_INTERNAL: the file cannot be read, or is shorter than
 * x says. */
int stream_read(int fd, const struct stream_extent *x, uint64_t offset, size_t limit, bool complete,
		void *out, struct stream_page *page, struct err *err);

/* Files below a directory: DIR/SESSION/NAME.out and .err, 0600; names are ids. which: 1 stdout, 2
 * stderr. */
int stream_file_create(int dir_fd, const char *session, const char *name,
		       int which); /* O_WRONLY, one that is there is refused. -1/errno */
int stream_file_open(
	int dir_fd, const char *session, const char *name, int which, struct err *err,
	int *fd); /* O_RDONLY; E_NOT_FOUND, E_UNAVAILABLE for want of descriptors, E_INTERNAL */
void stream_file_remove(int dir_fd, const char *session, const char *name, int which);
/* Removes the oldest files until at most quota bytes are left and none is older than
 * max_age_ms; skips what `keep` says is running. Returns bytes removed. */
typedef bool stream_keep_fn(const char *session, const char *name, void *arg);
uint64_t stream_sweep(int dir_fd, uint64_t quota, int64_t max_age_ms, int64_t now_wall_us,
		      stream_keep_fn *keep, void *arg);
