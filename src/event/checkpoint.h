// SPDX-License-Identifier: Apache-2.0
/* event/checkpoint.h - moves the WAL into the database file, in a thread with a connection of its
 * own.
 *
 * Checkpoints are passive: they take no lock that the writer needs. SQLite starts the WAL from its
 * beginning again when a checkpoint has caught up; a writer that never pauses can prevent that, so
 * past CHECKPOINT_HARD pages one checkpoint is made that lets the writer wait, for the frames
 * since the passive one before it. A power failure loses at most CHECKPOINT_AGE_S. */
#pragma once
#include "base/err.h"

#define CHECKPOINT_SOFT 8192 /* pages of 1 KiB in the WAL */
#define CHECKPOINT_HARD (32 * 1024)
#define CHECKPOINT_AGE_S 5

struct checkpointer;
int checkpointer_start(const char *path, struct checkpointer **out, struct err *err);
/* Joins the thread; NULL is fine. */
void checkpointer_stop(struct checkpointer *c);
/* The writer has committed; the WAL has this many pages. Writer's thread. */
void checkpointer_note(struct checkpointer *c, int pages);
