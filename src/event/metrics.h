// SPDX-License-Identifier: Apache-2.0
/* event/metrics.h - counters, gauges and histograms in Prometheus' text format. One table. API
 * process, loop thread. */
#pragma once
#include "base/buf.h"
#include "model/event.h"
#include <stdint.h>

#define METRIC_LIST(X)                                                                           \
	X(UP, gauge, "agentsh_up", "1 while the server answers")                                 \
	X(STORE_WRITABLE, gauge, "agentsh_store_writable",                                       \
	  "0 while the database cannot be written: nothing new is begun")                        \
	X(SESSIONS_ACTIVE, gauge, "agentsh_sessions_active", "sessions that have not ended")     \
	X(EVENTS, counter, "agentsh_events_total", "events stored")                              \
	X(EVENTS_DROPPED, counter, "agentsh_events_dropped_total", "events lost to a full ring") \
	X(EVENTS_JSONL_BEHIND, gauge, "agentsh_events_jsonl_behind",                             \
	  "events stored but not yet in the JSONL file")                                         \
	X(EVENTS_FOLDED, counter, "agentsh_events_folded_total",                                 \
	  "repeats of an operation that are a count in an event")                                \
	X(COMMANDS, counter, "agentsh_commands_total", "commands started")                       \
	X(OUTPUT_BYTES, counter, "agentsh_output_throughput_bytes_total",                        \
	  "bytes of command output kept")                                                        \
	X(POLICY_VIOLATIONS, counter, "agentsh_policy_violations_total",                         \
	  "operations that policy refused")                                                      \
	X(CAPTURES_REFUSED, counter, "agentsh_captures_refused_total",                           \
	  "shell states that were refused or not readable, and dropped")                         \
	X(FUSE_REQUESTS, counter, "agentsh_fuse_requests_total",                                 \
	  "FUSE requests of sessions, counted at the end of each command")                       \
	X(FUSE_REQUEST_US, counter, "agentsh_fuse_request_microseconds_total",                   \
	  "time that they took; divided by their number: the mean latency")                      \
	X(FUSE_PARKED, counter, "agentsh_fuse_parked_total",                                     \
	  "FUSE requests that waited without holding a worker")                                  \
	X(FUSE_CACHE_HITS, counter, "agentsh_fuse_cache_hits_total",                             \
	  "directories that a FUSE request found open")                                          \
	X(REQUESTS, counter, "agentsh_http_requests_total", "HTTP requests answered")            \
	X(REQUEST_ERRORS, counter, "agentsh_http_request_errors_total",                          \
	  "HTTP requests answered with 4xx or 5xx")                                              \
	X(API_RESTARTS, counter, "agentsh_api_restarts_total",                                   \
	  "starts of the API process seen by the store")

enum metric {
#define X(name, kind, text, help) METRIC_##name,
	METRIC_LIST(X)
#undef X
		METRICS
};
/* What became of an exec: agentsh_execs_total{outcome="…"}. */
enum metric_exec {
	METRIC_EXEC_VERIFIED,
	METRIC_EXEC_REFUSED,
	METRIC_EXEC_MISMATCHED,
	METRIC_EXEC_FAILED,
	METRIC_EXEC_OUTCOMES
};
enum metric_histogram { METRIC_SESSION_DURATION, METRIC_COMMAND_LATENCY, METRIC_HISTOGRAMS };
struct metrics;
struct metrics *metrics_new(void);
void metrics_free(struct metrics *m);
void metrics_add(struct metrics *m, enum metric id, uint64_t n);
void metrics_set(struct metrics *m, enum metric id, int64_t v);
void metrics_raise(struct metrics *m, enum metric id, int64_t v); /* never lowers it */
void metrics_observe(struct metrics *m, enum metric_histogram id, double seconds);
/* An event of `count` operations: agentsh_events_by_type_total{type="…"}, the total, and for
 * operations on files agentsh_file_operations_total{kind="…",decision="allow"|"deny"}. */
void metrics_event(struct metrics *m, enum event_type type, uint32_t count, bool denied);
void metrics_execs(struct metrics *m, enum metric_exec outcome, uint64_t n);
void metrics_format(const struct metrics *m, struct buf *out);
