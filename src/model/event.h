// SPDX-License-Identifier: Apache-2.0
/* model/event.h - an event: everything that is recorded has this form.
 *
 * A producer fills what applies; empty parts are absent in the JSON. Strings are owned by the
 * struct when it came from event_unpack (event_done), borrowed when a producer fills it for
 * journal_append (then never event_done it). */
#pragma once
#include "base/fields.h"
#include "base/json.h"

#define EVENT_SCHEMA 1
/* Name, number and class. Rings and wardens of other versions have types as numbers: a new type
 * takes the next number, and the row of a type that is no longer recorded stays. */
/* clang-format off */
#define EVENT_TYPES(X) \
	X(session_created, 0, OTHER) X(session_state, 1, OTHER) X(session_updated, 2, OTHER) \
	X(session_destroyed, 3, OTHER) X(session_failed, 4, OTHER) X(command_queued, 5, OTHER) \
	X(command_started, 6, OTHER) X(command_finished, 7, OTHER) X(command_killed, 8, OTHER) \
	X(command_timeout, 9, OTHER) X(exec, 10, EXEC) X(file_open, 11, FILE) \
	X(file_read, 12, FILE) X(file_write, 13, FILE) X(file_create, 14, FILE) \
	X(file_delete, 15, FILE) X(file_rename, 16, FILE) X(file_stat, 17, FILE) \
	X(file_chmod, 18, FILE) X(file_chown, 19, FILE) X(file_truncate, 20, FILE) \
	X(file_link, 21, FILE) X(file_mknod, 22, FILE) X(file_xattr, 23, FILE) \
	X(file_soft_deleted, 24, FILE) X(dir_create, 25, FILE) X(dir_delete, 26, FILE) \
	X(dir_list, 27, FILE) X(symlink_create, 28, FILE) X(symlink_read, 29, FILE) \
	X(dns_query, 30, NETWORK) X(net_connect, 31, NETWORK) X(net_close, 32, NETWORK) \
	X(net_blocked, 33, NETWORK) X(unix_connect, 34, NETWORK) X(policy_loaded, 35, OTHER) \
	X(policy_reload_failed, 36, OTHER) X(policy_violation, 37, OTHER) \
	X(approval_requested, 38, OTHER) X(approval_resolved, 39, OTHER) \
	X(resource_limit, 40, OTHER) X(resource_sample, 41, OTHER) X(terminal_opened, 42, OTHER) \
	X(terminal_input, 43, OTHER) X(terminal_signal, 44, OTHER) X(terminal_closed, 45, OTHER) \
	X(events_dropped, 46, OTHER) X(enforcement_failed, 47, OTHER) X(unknown, 48, OTHER)
/* clang-format on */

enum event_type {
#define X(name, number, class) EVENT_##name = (number),
	EVENT_TYPES(X)
#undef X
		EVENT_TYPE_COUNT
};
enum event_class { EVENT_CLASS_OTHER, EVENT_CLASS_FILE, EVENT_CLASS_NETWORK, EVENT_CLASS_EXEC };

/* The numbers of a file operation that are known. A number that is not 0 is known without its bit:
 * older versions have no bits. MAPPED: the file was also read or written as memory, which no number
 * counts. */
enum event_has {
	EVENT_HAS_BYTES = 1,
	EVENT_HAS_OFFSET = 2,
	EVENT_HAS_SIZES = 4,
	EVENT_MAPPED = 8,
	EVENT_PATH_ARGUMENT = 16, /* the path is the caller's argument */
};

/* The rule of a refusal for which no rule and no list is the reason: modes of the file, a mount. */
#define EVENT_KERNEL_RULE "kernel"

struct event {
	uint64_t seq; /* given by the store, 0 before */
	uint32_t schema;
	uint32_t type;	      /* enum event_type */
	uint32_t type_number; /* EVENT_unknown: the number that a newer producer gave the type */
	uint64_t time_us;     /* wall clock */
	char *session_id, *command_id, *agent_id, *request_id, *trace_id;
	uint32_t pid, count; /* count of folded repeats, at least 1 */
	uint64_t latency_us;
	/* decision and policy */
	char *decision, *policy_decision, *policy_effective, *policy_rule, *policy_version;
	/* file */
	char *path, *real_path, *op_flags; /* op_flags: "O_WRONLY|O_TRUNC" */
	char *op_to;			   /* the second path of a rename, link or symlink */
	uint32_t op_has;		   /* bit set of enum event_has */
	uint32_t op_error; /* errno of an operation that failed; 0: it did not fail */
	uint64_t op_bytes, op_offset;
	char *file_type; /* MIME type */
	uint64_t size_before, size_after;
	/* network */
	char *remote_addr, *protocol, *dns_domain, *dns_type, *dns_from, *tls_sni, *tls_version;
	uint32_t remote_port, local_port;
	uint64_t bytes_sent, bytes_received;
	/* exec */
	char *exec_path, *exec_cwd;
	struct strv exec_argv;
	uint32_t exec_ppid;
	char *exec_verified; /* by what the loaded program was compared: "bpf", "stop", "initial" */
	char *exec_loaded; /* policy_violation: the program that was loaded instead of exec_path */
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
	char *counter;	/* the counter that has grown: "oom_kills" */
	uint64_t value; /* of the counter, since the session began; count is by how much it grew */
	char *policy_name; /* policy_loaded, policy_reload_failed */
	/* a denial, as in the body of an error; denied_op NULL: not a denial */
	char *denied_op, *denied_target, *denied_reason;
	uint32_t denied_final;
	struct strv alternatives; /* sentences */
	uint32_t approved;	  /* 1: an approver allowed it */
	char *approval_id;	  /* an approver was asked */
	char *denied_error;	  /* E_APPROVAL_DENIED, E_APPROVAL_TIMEOUT: it refused */
};

/* A string for a producer's event, which borrows it and never writes. */
static inline char *event_lend(const char *s)
{
	return (char *)s;
}

#define EVENT_MAX \
	24576 /* packed bytes; longer paths and argv are cut and end in "…#" + 16 hex digits */
extern const struct fields event_fields;

const char *event_type_name(enum event_type t);
int event_type_by_name(const char *s); /* -1 if unknown */
enum event_class event_class(enum event_type t);
uint64_t event_types_of(enum event_class class); /* bit set of 1<<enum event_type */
/* Packs into out, with long values cut; never over EVENT_MAX. */
void event_pack(const struct event *e, struct buf *out);
/* Lenient about newer fields and types (EVENT_unknown), strict about all else. */
int event_unpack(const void *data, size_t len, struct event *e, struct err *err);
void event_done(struct event *e);
/* The JSON object of docs/api.md: the canonical bytes that the chain hashes and clients read. */
void event_format(const struct event *e, struct buf *out);
