// SPDX-License-Identifier: Apache-2.0
/* command/output_writer.h - a command's pipes: its output goes to files, its stdin to it. */
#pragma once
#include "base/buf.h"
#include "base/loop.h"
#include "terminal/stream.h"

#define OUTPUT_FIRST_WINDOW (64 * 1024) /* what may be produced before the first window */
#define OUTPUT_UNREAD UINT64_MAX	/* the position of a reader that is not there */
#define INPUT_MAX (16 * 1024 * 1024)	/* that waits for the command */

struct output {
	int fd; /* our end of the pipe, owned; -1 once at its end */
	struct stream stream;
	struct watch *watch;
	bool wide;	  /* the pipe was made larger, as far as the user's limit allows */
	uint64_t allowed; /* bytes that may be produced; UINT64_MAX: any */
	uint64_t read;	  /* position of the slowest reader, or OUTPUT_UNREAD */
	watch_fn *on_data;
	void *arg;
};
/* Takes both descriptors. on_data is called when the totals have grown. */
void output_init(struct output *o, int pipe_fd, int file_fd, uint64_t quota);
void output_start(struct output *o, struct loop *loop, watch_fn *on_data, void *arg);
/* allowed never shrinks. Past the quota a command is held STREAM_WINDOW bytes ahead of read. */
void output_window(struct output *o, uint64_t allowed, uint64_t read);
/* From now on there is neither a window nor a reader. */
void output_unbind(struct output *o);
/* Takes what the pipe holds now, windows or not. */
void output_drain(struct output *o);
void output_done(struct output *o);

struct input {
	int fd; /* our end of the pipe, owned; -1 once closed */
	struct buf queue;
	size_t at;	/* of queue that is written */
	bool eof;	/* nothing follows */
	uint64_t taken; /* bytes written, or dropped because the pipe is closed */
	struct watch *watch;
	struct loop *loop;
	watch_fn *on_taken;
	void *arg;
};
void input_start(struct input *in, struct loop *loop, watch_fn *on_taken, void *arg);
/* E_TOO_LARGE past INPUT_MAX that wait. */
int input_add(struct input *in, const void *p, size_t n, bool eof, struct err *err);
void input_done(struct input *in);
