// SPDX-License-Identifier: Apache-2.0
/* session/outcome.h - what a finished command left: the column `result` of its row. */
#pragma once
#include "base/json.h"
#include "terminal/stream.h"

/* Lists of operations in an answer. */
enum seen { SEEN_FILE, SEEN_NETWORK, SEEN_EXEC, SEEN_BLOCKED, SEEN_KINDS };

/* What the events of a command say about its operations. */
struct operations {
	int64_t seen[SEEN_KINDS];	 /* by list; an event of folded repeats is as many */
	int64_t file_read, file_written; /* bytes of files, as far as they are known */
	struct network_summary {
		int64_t connections, dns_queries, sent, received, blocked;
		struct strv destinations; /* different ones, a bounded number */
	} net;
};

struct outcome {
	bool refused; /* never started: the error is the answer */
	char *error_code, *error_message, *error_path;
	char *error_policy;  /* a packed denial; of the previous version JSON */
	char *request_id;    /* of an error: the request that submitted the command */
	struct strv similar; /* of a file that was not found: files with similar names */
	char *working_dir;   /* of the session afterwards */
	char *capture;
	struct strv env_changed, background, warnings;
	int64_t duration_us, cpu_us, maxrss_kb, read_bytes, write_bytes;
	struct stream_extent extent[3]; /* by stream, 1 and 2; also while the command runs */
	struct operations ops;		/* also while the command runs */
};
void outcome_done(struct outcome *o);
/* Functions of a column (db_row.h). */
void outcome_format(const void *outcome, struct buf *out);
int outcome_parse(const char *json, void *outcome, struct err *err);
