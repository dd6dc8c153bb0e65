// SPDX-License-Identifier: Apache-2.0
/* api/exec_tail.h - a command whose output is given while it runs, at the reader's pace (SSE and
 * stdio stream).
 *
 * Output is read from the file by offset, so a slow reader costs no memory; it goes on after the
 * command has ended. What cannot be given is passed over and named in the result. */
#pragma once
#include "api/handlers.h"

#define TAIL_CHUNK (32 * 1024)

struct exec_tail {
	struct call *call;
	struct command *live;  /* while it runs; NULL afterwards */
	struct command *ended; /* afterwards, owned; NULL: it was refused */
	char id[ID_MAX + 1];
	uint64_t sent[3];  /* by stream number */
	bool broken[3];	   /* it cannot be read any more */
	struct err unread; /* why a stream is broken; its code is E_OK if none is */
	int gap_stream;	   /* of the first part that was dropped; 0: none was */
	uint64_t gap_from, gap_to;
	bool begun;	   /* the answer's head was sent */
	bool done;	   /* exec_tail_result tells the answer */
	struct buf result; /* of one that was refused */
};
/* Reads up to max bytes behind what was sent of stream 1 or 2 and counts them as sent; out gets
 * nothing when there is none now. whole: while the command runs, the first bytes of a character
 * wait for the rest. */
void exec_tail_read(struct exec_tail *t, int stream, size_t max, bool whole, struct buf *out);
/* Whether all that the command wrote has been sent; only after exec_tail_finish. */
bool exec_tail_all_sent(struct exec_tail *t);
/* Keeps the command for its answer: called from the observer's done, with one of both. */
void exec_tail_finish(struct exec_tail *t, const struct err *err, struct command *c);
const struct buf *exec_tail_result(struct exec_tail *t); /* borrowed */
void exec_tail_done(struct exec_tail *t, bool gone);
