// SPDX-License-Identifier: Apache-2.0
/* event/sink_jsonl.h - events as lines in files: written after the commit, rotated by size and age,
 * reopened on SIGHUP.
 *
 * API process, loop thread. On opening, the seq of the last line (of path.1 if the file is empty)
 * is compared with the store, and later events are written first: a crash between commit and write
 * loses and repeats nothing. A torn last line is cut off. A file that is ahead of the
 * store (a database that was lost) is rotated away. When writing fails, the sink stays behind and
 * catches up from the store: tried every second, and on reopening. */
#pragma once
#include "event/store.h"

struct sink_jsonl;
struct sink_jsonl_config {
	const char *path;
	uint64_t max_bytes; /* a line that would lead past this goes into a new file; 0: never */
	int64_t max_age_ms; /* rotate a file when its first line is older; 0: never */
	unsigned keep;	    /* rotated files kept: path.1 is the newest */
};
/* E_UNAVAILABLE if path cannot be opened or holds something else than events. */
int sink_jsonl_open(struct store *store, const struct clock *clock,
		    const struct sink_jsonl_config *config, struct sink_jsonl **out,
		    struct err *err);
/* For an orderly end: commits, and writes the events that the file lacks. */
void sink_jsonl_finish(struct sink_jsonl *j);
void sink_jsonl_close(struct sink_jsonl *j);
/* Goes on in the file that is at the path now; if that fails, in the old one. */
int sink_jsonl_reopen(struct sink_jsonl *j, struct err *err);
/* Other limits from now on; the path stays. */
void sink_jsonl_limits(struct sink_jsonl *j, const struct sink_jsonl_config *config);
/* Lines that could not be written (disk full); they are written once writing works again. */
uint64_t sink_jsonl_behind(const struct sink_jsonl *j);
