// SPDX-License-Identifier: Apache-2.0
/* api/exec_tail.h - a command that is followed by a stream of its output, at the reader's pace, and
 * at the end by its result.
 *
 * Output is read from the file by offset, so a slow reader costs no memory; reading goes on after
 * the command has ended. What cannot be read is passed over and named in the result. */
#pragma once
#include "api/event_feed.h"
#include "api/handlers.h"

#define TAIL_CHUNK (32 * 1024)

struct exec_tail {
	struct call *call;
	const struct call_stream *stream; /* begun when the command starts */
	struct event_feed *feed;	  /* of the command's events, or NULL */
	struct command *live;		  /* while it runs; NULL afterwards */
	struct command *ended;		  /* afterwards, owned; NULL: it was refused */
	char id[ID_MAX + 1];
	bool whole;	     /* while the command runs, no character is cut */
	uint64_t allowed[3]; /* bytes that the reader takes in all, by stream number */
	uint64_t sent[3];
	bool broken[3];	   /* it cannot be read any more */
	struct err unread; /* why a stream is broken; its code is E_OK if none is */
	int gap_stream;	   /* of the first part that was dropped; 0: none was */
	uint64_t gap_from, gap_to;
	bool done;	   /* exec_tail_result tells the answer */
	struct buf result; /* of one that was refused */
};
/* Reads up to max bytes behind what was sent of stream 1 or 2 and counts them as sent; out gets
 * nothing when there is none now. */
void exec_tail_read(struct exec_tail *t, int stream, size_t max, struct buf *out);
/* Begins the stream if it has not begun. */
void exec_tail_begin(struct exec_tail *t);
/* Sends what there is room for. Behind the result the call ends, and with it t. */
void exec_tail_pump(void *tail);
/* The same for an observer's `output` and a stream's `room`, of a call that has it as its work. */
void exec_tail_output(struct command *c, void *tail);
void exec_tail_room(struct call *call);
/* The observer's `done`: answers the call if the stream has not begun, else goes on to the end. */
void exec_tail_finish(const struct err *err, struct command *c, void *tail);
const struct buf *exec_tail_result(struct exec_tail *t); /* borrowed */
void exec_tail_done(struct exec_tail *t, bool gone);
