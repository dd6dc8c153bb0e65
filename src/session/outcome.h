// SPDX-License-Identifier: Apache-2.0
/* session/outcome.h - what a finished command left: the row's `result`. */
#pragma once
#include "base/json.h"
#include "base/mem.h"

/* What the events of a command say about the network. */
struct network_summary {
	int64_t connections, dns_queries, sent, received, blocked;
	struct strv destinations; /* different ones, a bounded number */
};
void network_summary_done(struct network_summary *sum); /* answer_events.c */

struct outcome {
	bool refused; /* never started: the error is the answer */
	char *error_code, *error_message, *error_path;
	char *error_policy;  /* a denial as a JSON object */
	char *request_id;    /* of an error: the request that submitted the command */
	struct strv similar; /* of a program that was not found: programs with similar names */
	char *working_dir;   /* of the session afterwards */
	char *capture;
	struct strv env_changed, background, warnings;
	int64_t duration_us, cpu_us, maxrss_kb, read_bytes, write_bytes;
	int64_t stdout_kept, stderr_kept;
	int64_t file, network, exec, blocked; /* events, by list */
	struct network_summary net;
};
void outcome_done(struct outcome *o);
void outcome_format(const struct outcome *o, struct buf *out);
int outcome_parse(const char *json, struct outcome *o, struct err *err);
