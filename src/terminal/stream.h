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

/* The files of one command below a directory: DIR/SESSION/COMMAND.out and .err, 0600. */
int stream_files_create(int dir_fd, const char *session, const char *command, int fd[2],
			struct err *err); /* O_WRONLY|O_APPEND; E_CONFLICT if there */
/* Gives an empty file, which one command did not need, to another; which: 1 stdout, 2 stderr.
 * false: it stays where it is. */
bool stream_file_pass(int dir_fd, const char *session, const char *from, const char *to, int which);
/* One file alone, else as stream_files_create. -1/errno. */
int stream_file_create(int dir_fd, const char *session, const char *command, int which);
int stream_file_open(int dir_fd, const char *session, const char *command, int which,
		     struct err *err,
		     int *fd); /* which: 1 stdout, 2 stderr; O_RDONLY; E_NOT_FOUND */
void stream_files_remove(int dir_fd, const char *session, const char *command);
/* Removes the oldest commands' files until at most quota bytes are left and none is older than
 * max_age_ms; skips what `keep` says is running. Returns bytes removed. */
typedef bool stream_keep_fn(const char *session, const char *command, void *arg);
uint64_t stream_sweep(int dir_fd, uint64_t quota, int64_t max_age_ms, int64_t now_wall_us,
		      stream_keep_fn *keep, void *arg);
