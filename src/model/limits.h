// SPDX-License-Identifier: Apache-2.0
/* model/limits.h - what a session may use: one row for each limit.
 *
 * Request, policy, configuration, messages and record hold a struct limits. A new limit is a row
 * here and the code that enforces it. */
#pragma once
#include "base/json.h"
#include "model/wall.h"

#define LIMIT_MS (INT64_C(87600) * 3600 * 1000) /* ten years */
#define LIMIT_MB (INT64_C(1) << 40)
#define LIMIT_BPS (INT64_C(1) << 50)
#define LIMIT_NUMBER (INT64_C(1) << 53) /* every JSON reader keeps it exactly */
#define WALL_none WALLS

/* In a request LIMIT_TIMES stand at the top under their other name, LIMIT_RESOURCES in
 * resource_limits (TWO: under both names), and LIMIT_COUNTS in limits, where 0 is "no limit".
 * The rows have this order in policy snapshots, too: a change of it needs another SNAPSHOT_MAGIC.
 * Type: INT, DURATION (in ms), SHARE
 * (a number, or a part of the machine such as "75%"). The default is that of the configuration; 0
 * there is "no limit" where the lowest is 1. */
/* clang-format off */
	/* name, other name, type, unit, lowest, highest, wall, enforced by, default, help */
#define LIMIT_TIMES(X) \
	X(session_timeout, "timeout", DURATION, "ms", 1, LIMIT_MS, none, SESSION, "4h", \
	  "Longest life of a session.") \
	X(idle_timeout, "idle_timeout", DURATION, "ms", 1, LIMIT_MS, none, SESSION, "30m", \
	  "A session without a command for this time ends.")
#define LIMIT_RESOURCES(X, TWO) \
	TWO(max_memory_mb, "memory_max_mb", SHARE, "MB", 1, LIMIT_MB, memory_limit, CGROUP, "0", \
	  "Memory of a session, its /tmp included (half of it at most); 0 for no limit.") \
	TWO(max_cpu_percent, "cpu_quota_percent", INT, "percent of one CPU", 1, 409600, cpu_limit, CGROUP, "0", \
	  "CPU time of a session in percent of one CPU; 0 for no limit.") \
	X(max_disk_mb, NULL, INT, "MB", 1, LIMIT_MB, disk_limit, SCRATCH, "0", \
	  "Scratch space of a session: /tmp, /var/tmp, /dev/shm and a home that is not kept, together; 0 for 1 GB. Where monitoring.mode is fuse, also what it adds to the workspace, by itself; 0 for no limit of that.") \
	X(max_network_mb, NULL, INT, "MB", 1, LIMIT_MB, network_limit, NAMESPACE, "0", \
	  "What a session may send and receive; 0 for no limit. Nothing leaves a session yet.") \
	X(pids_max, NULL, INT, "processes", 1, INT64_C(1) << 22, pids_limit, CGROUP, "0", \
	  "Most processes and threads of a session; 0 for no limit.") \
	X(command_timeout, NULL, DURATION, "ms", 1, LIMIT_MS, none, WARDEN, "5m", \
	  "Longest run of a command; a session or a request may ask for less.") \
	X(io_read_bps_max, NULL, INT, "bytes per second", 1, LIMIT_BPS, io_limit, CGROUP, "0", \
	  "Bytes a second that a session reads from the workspace's disk; 0 for no limit.") \
	X(io_write_bps_max, NULL, INT, "bytes per second", 1, LIMIT_BPS, io_limit, CGROUP, "0", \
	  "Bytes a second that a session writes to the workspace's disk; 0 for no limit. With cgroup v1 only direct I/O is held.") \
	X(memory_swap_max_mb, NULL, INT, "MB", 0, LIMIT_MB, memory_limit, CGROUP, "0", \
	  "Swap of a session whose memory is limited, besides its memory.") \
	X(cpu_period_us, NULL, INT, "microseconds", 1000, 1000000, none, CGROUP, "100000", \
	  "Over how many microseconds max_cpu_percent is measured.") \
	X(net_bandwidth_mbps, NULL, INT, "megabits per second", 1, 1000000, network_limit, NOTHING, "0", \
	  "Megabits a second that a session sends and that it receives. Refused until the network enforces it.")
#define LIMIT_COUNTS(X) \
	X(max_commands, NULL, INT, "commands", 1, LIMIT_NUMBER, none, SESSION, "0", \
	  "Most commands of a session; 0 for no limit.") \
	X(max_file_ops, NULL, INT, "operations", 1, LIMIT_NUMBER, file_rules, FUSE, "0", \
	  "Most recorded operations on files; 0 for no limit. They are counted where monitoring.mode is not native; where the kernel records (ebpf, hybrid) the one that is above the limit has happened.") \
	X(max_net_ops, NULL, INT, "operations", 1, LIMIT_NUMBER, network_rules, RULES, "0", \
	  "Most network operations; 0 for no limit. Nothing counts them yet.")
#define LIMIT_LIST(X) LIMIT_TIMES(X) LIMIT_RESOURCES(X, X) LIMIT_COUNTS(X)
/* clang-format on */
enum limit {
#define X(name, ...) LIMIT_##name,
	LIMIT_LIST(X)
#undef X
		LIMITS
};
/* Walls that control groups raise. */
#define CGROUP_WALLS                                                        \
	(UINT64_C(1) << WALL_memory_limit | UINT64_C(1) << WALL_cpu_limit | \
	 UINT64_C(1) << WALL_pids_limit | UINT64_C(1) << WALL_io_limit)
enum limit_type { LIMIT_INT, LIMIT_DURATION, LIMIT_SHARE };
enum limit_by {
	LIMIT_BY_SESSION,   /* the API process */
	LIMIT_BY_WARDEN,    /* ends a command */
	LIMIT_BY_CGROUP,    /* the kernel's control groups */
	LIMIT_BY_SCRATCH,   /* the size of the session's own file system */
	LIMIT_BY_NAMESPACE, /* the session's own network */
	LIMIT_BY_FUSE,	    /* the session's file server */
	LIMIT_BY_RULES,	    /* nothing yet; a policy that has it is loaded, with a warning */
	LIMIT_BY_NOTHING    /* refused everywhere */
};
struct limit_row {
	const char *name;  /* in a policy and in the configuration */
	const char *other; /* the same limit by another name; NULL */
	const char *field; /* in a request: "resource_limits.pids_max" */
	enum limit_type type;
	const char *unit;
	int64_t low, high;
	enum wall wall; /* WALLS: none */
	enum limit_by by;
	const char *help;
};
extern const struct limit_row limit_rows[LIMITS];

/* All zero: nothing is limited. */
struct limits {
	int64_t value[LIMITS]; /* 0: not set, unless it was given and the lowest is 0 */
	bool given[LIMITS];    /* by a reader of text; a 0 too */
};
bool limits_has(const struct limits *l, enum limit i);
void limits_narrow(struct limits *l, const struct limits *by); /* lowers l to by */
/* Removes the limits from asked that are wider than now. Their fields are added to capped. */
void limits_drop_wider(struct limits *asked, const struct limits *now, struct strv *capped);
/* Turns shares into numbers: parts of so many MB. 0: unknown, they stay. A number above the
 * highest becomes the highest. */
void limits_resolve(struct limits *l, int64_t share_mb);
/* A session with limited memory also has limited swap: at most the server's, 0 by default. */
void limits_add_swap(struct limits *l, const struct limits *server);
/* The limits of a session that asks for these. All shares become numbers first. The fields of
 * lowered limits are added to capped (may be NULL). */
void limits_choose(struct limits *asked, const struct limits *server, const struct limits *policy,
		   int64_t share_mb, struct strv *capped);
/* 1 << WALL_… of the limits that are set. A share is left out: a session may be made without that
 * wall. */
uint64_t limits_walls(const struct limits *l);
/* Why a session cannot have the limit, for people; NULL: it can. fuse: its workspace is a FUSE
 * mount. */
const char *limit_unenforceable(enum limit i, bool fuse);
/* E_ENFORCEMENT with the wall of the first limit that a session cannot have; else 0. */
int limits_enforceable(const struct limits *l, bool fuse, struct err *err);
/* Text for messages, "pids_max=5"; an unknown name is E_BAD_REQUEST. */
void limits_pack(const struct limits *l, struct strv *out);
int limits_unpack(struct limits *l, const struct strv *in, struct err *err);
