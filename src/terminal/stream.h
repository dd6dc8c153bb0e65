// SPDX-License-Identifier: Apache-2.0
/* terminal/stream.h - one byte store with monotonic offsets, backed by a file from the first byte.
 *
 * The API child makes the file and hands the writing descriptor to the warden; the warden appends,
 * the API child reads with pread. What is written survives the end of either. Past the quota bytes
 * are counted, not kept. */
#pragma once
#include "base/err.h"
#include <stdint.h>
#include <sys/types.h>

/* Writer (warden). Plain data. */
struct stream {
	int fd;			     /* owned, O_APPEND */
	uint64_t quota;		     /* bytes kept */
	uint64_t bytes, kept, lines; /* produced, in the file, newlines (+1 if the last line is
					open: stream_lines) */
	bool open_line;
	int failed; /* errno of the first failed write (disk full): later bytes are only counted */
};
void stream_init(struct stream *s, int fd, uint64_t quota); /* takes fd */
void stream_done(struct stream *s);
void stream_append(struct stream *s, const void *p, size_t n);
uint64_t stream_lines(const struct stream *s);

/* Reader (API child). */
struct stream_page {
	uint64_t offset, total, next;
	size_t len;
	bool has_more;
};
/* Reads [offset, offset+limit) of what is kept; text is cut at a character's boundary when the
 * whole page is text (but at least one byte is given, so paging ends). out must hold limit bytes.
 * complete: no more will be written. */
int stream_read(int fd, uint64_t offset, size_t limit, bool complete, void *out,
		struct stream_page *page, struct err *err);

/* Files below a directory: DIR/SESSION/NAME.out and .err, 0600; names are ids. which: 1 stdout, 2
 * stderr. */
int stream_file_create(int dir_fd, const char *session, const char *name,
		       int which); /* O_WRONLY|O_APPEND, one that is there is refused. -1/errno */
int stream_file_open(int dir_fd, const char *session, const char *name, int which, struct err *err,
		     int *fd); /* O_RDONLY; E_NOT_FOUND */
void stream_file_remove(int dir_fd, const char *session, const char *name, int which);
/* Removes the oldest files until at most quota bytes are left and none is older than
 * max_age_ms; skips what `keep` says is running. Returns bytes removed. */
typedef bool stream_keep_fn(const char *session, const char *name, void *arg);
uint64_t stream_sweep(int dir_fd, uint64_t quota, int64_t max_age_ms, int64_t now_wall_us,
		      stream_keep_fn *keep, void *arg);
