// SPDX-License-Identifier: Apache-2.0
/* terminal/stream.h - the output of a command in a file, with offsets that only grow.
 *
 * The API child makes the file and gives the descriptor for writing to the warden. The warden
 * appends, and the API child reads with pread. The bytes survive the end of either process.
 *
 * The first `quota` bytes are kept at their own offsets. Behind them the file has a ring of
 * STREAM_RING bytes: while a reader is attached, later bytes go there, and the writer stays within
 * STREAM_WINDOW of the reader's position (warden/output_writer.c). Without a reader they are only
 * counted. The ring is larger than the window because the warden empties the pipe when a command
 * ends (up to 1 MiB, the default of fs.pipe-max-size), wherever the reader is. */
#pragma once
#include "base/err.h"
#include <stdint.h>

#define STREAM_WINDOW (UINT64_C(1) << 20)
#define STREAM_RING (2 * STREAM_WINDOW)

/* The writer (warden). */
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
uint64_t stream_newlines(const void *p, size_t n);

/* The reader (API child): the file has [0, kept), and in the ring [from, bytes) or the last
 * STREAM_RING bytes of that. */
struct stream_extent {
	uint64_t bytes, kept, from;
};
struct stream_page {
	uint64_t offset, total, next;
	size_t len;
	bool has_more;
};
enum {
	STREAM_COMPLETE = 1, /* the writer has ended */
	STREAM_RAW = 2,	     /* a page may end within a character */
};
/* Reads [offset, offset+limit). A page of text ends at the end of a character, but has at least one
 * byte, so that paging ends. If the bytes at the offset were dropped, the page is empty and `next`
 * is the first offset behind the gap. out has room for limit bytes. how: STREAM_* bits.
 * Fails with E_INTERNAL if the file cannot be read or is shorter than x says. */
int stream_read(int fd, const struct stream_extent *x, uint64_t offset, size_t limit, unsigned how,
		void *out, struct stream_page *page, struct err *err);

/* Files DIR/SESSION/NAME.out and .err, 0600; names are ids. which: 1 stdout, 2 stderr. */

/* Returns a descriptor for writing, or -1 and errno; the file must not exist. */
int stream_file_create(int dir_fd, const char *session, const char *name, int which);
/* Opens for reading. Fails with E_NOT_FOUND, E_UNAVAILABLE (too many descriptors) or E_INTERNAL. */
int stream_file_open(int dir_fd, const char *session, const char *name, int which, struct err *err,
		     int *fd);
void stream_file_remove(int dir_fd, const char *session, const char *name, int which);
/* Removes the oldest files until at most quota bytes are left and no file is older than max_age_ms;
 * skips files for which `keep` is true. Returns the number of bytes removed. */
typedef bool stream_keep_fn(const char *session, const char *name, void *arg);
uint64_t stream_sweep(int dir_fd, uint64_t quota, int64_t max_age_ms, int64_t now_wall_us,
		      stream_keep_fn *keep, void *arg);
