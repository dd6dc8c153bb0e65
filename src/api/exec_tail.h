// SPDX-License-Identifier: Apache-2.0
/* api/exec_tail.h - a command whose output is given while it runs, at the reader's pace (SSE and
 * stdio stream).
 *
 * Output is read from the file by offset, so a slow reader costs no memory; it goes on after the
 * command has ended. */
#pragma once
#include "api/handlers.h"

#define TAIL_CHUNK (32 * 1024)

struct exec_tail {
	struct call *call;
	struct command *live; /* while it runs; NULL afterwards */
	char id[ID_MAX + 1];
	uint64_t sent[3]; /* by stream number */
	bool begun;	  /* the answer's head was sent */
	bool done;	  /* result holds the answer */
	struct buf result;
};
/* Reads up to max bytes behind what was sent of stream 1 or 2 and counts them as sent; out gets
 * nothing when there is none now. whole: while the command runs, the first bytes of a character
 * wait for the rest. */
int exec_tail_read(struct exec_tail *t, int stream, size_t max, bool whole, struct buf *out,
		   struct err *err);
/* Keeps the answer: called from the observer's done. */
void exec_tail_finish(struct exec_tail *t, struct command *c);
void exec_tail_done(struct exec_tail *t, bool gone);
