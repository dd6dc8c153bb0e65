// SPDX-License-Identifier: Apache-2.0
/* model/event.h - one noun for everything that is recorded.
 *
 * A producer fills what applies; empty parts are absent in the JSON. Strings are owned by the
 * struct when it came from event_unpack (event_done), borrowed when a producer fills it for
 * journal_append (then never event_done it). */
#pragma once
#include "base/fields.h"
#include "base/json.h"

#define EVENT_SCHEMA 1
/* clang-format off */
#define EVENT_TYPES(X) \
	X(session_created) X(session_state) X(session_updated) X(session_destroyed) \
	X(session_failed) X(command_queued) X(command_started) X(command_finished) \
	X(command_killed) X(command_timeout) X(exec) X(file_open) X(file_read) \
	X(file_write) X(file_create) X(file_delete) X(file_rename) X(file_stat) \
	X(file_chmod) X(file_chown) X(file_truncate) X(file_link) X(file_mknod) \
	X(file_xattr) X(file_soft_deleted) X(dir_create) X(dir_delete) X(dir_list) \
	X(symlink_create) X(symlink_read) X(dns_query) X(net_connect) X(net_close) \
	X(net_blocked) X(unix_connect) X(policy_loaded) X(policy_reload_failed) \
	X(policy_violation) X(approval_requested) X(approval_resolved) X(resource_limit) \
	X(resource_sample) X(terminal_opened) X(terminal_input) X(terminal_signal) \
	X(terminal_closed) X(events_dropped) X(enforcement_failed)
/* clang-format on */

enum event_type {
#define X(name) EVENT_##name,
	EVENT_TYPES(X)
#undef X
		EVENT_TYPE_COUNT
};

struct event {
	uint64_t seq; /* given by the store, 0 before */
	uint32_t schema;
	uint32_t type;	  /* enum event_type */
	uint64_t time_us; /* wall clock */
	char *session_id, *command_id, *agent_id, *request_id, *trace_id;
	uint32_t pid, count; /* count of folded repeats, at least 1 */
	uint64_t latency_us;
	/* decision and policy */
	char *decision, *policy_decision, *policy_effective, *policy_rule, *policy_version;
	/* file */
	char *path, *real_path, *op_flags; /* op_flags: "O_WRONLY|O_TRUNC" */
	uint64_t op_bytes, op_offset;
	/* network */
	char *remote_addr, *protocol, *dns_domain, *dns_type, *dns_from, *tls_sni, *tls_version;
	uint32_t remote_port, local_port;
	uint64_t bytes_sent, bytes_received;
	/* exec */
	char *exec_path, *exec_cwd;
	struct strv exec_argv;
	uint32_t exec_ppid;
	/* session and command */
	char *state_from, *state_to,
		*reason;    /* session_state, session_failed, *_dropped, *_failed */
	char *command_line; /* command_*: for people, cut */
	uint32_t has_exit;  /* 1: the next three apply */
	uint32_t exit_code;
	char *signal; /* "KILL" or NULL */
	uint64_t duration_us;
	/* resource_limit */
	char *limit;	/* the wall: "memory_limit" */
	char *counter;	/* what has grown: "oom_kills" */
	uint64_t value; /* of the counter, since the session began; count is by how much it grew */
	char *policy_name; /* policy_loaded, policy_reload_failed */
	/* a denial, as in an error's body; denied_op NULL: it is none */
	char *denied_op, *denied_target, *denied_reason;
	uint32_t denied_final;
	struct strv alternatives; /* sentences */
};

/* A string for a producer's event, which borrows it and never writes. */
static inline char *event_lend(const char *s)
{
	return (char *)s;
}

#define EVENT_MAX \
	20480 /* packed bytes; longer paths and argv are cut and end in "…#" + 16 hex digits */
extern const struct fields event_fields;

const char *event_type_name(enum event_type t);
int event_type_by_name(const char *s); /* -1 if unknown */
enum event_class { EVENT_CLASS_OTHER, EVENT_CLASS_FILE, EVENT_CLASS_NETWORK, EVENT_CLASS_EXEC };
enum event_class event_class(enum event_type t);
/* Packs into out, cutting what is too long; never over EVENT_MAX. */
void event_pack(const struct event *e, struct buf *out);
/* Lenient about newer fields, strict about all else; unknown type is E_BAD_REQUEST. */
int event_unpack(const void *data, size_t len, struct event *e, struct err *err);
void event_done(struct event *e);
/* The JSON object of INTERFACE.md: the canonical bytes that the chain hashes and clients read. */
void event_format(const struct event *e, struct buf *out);
