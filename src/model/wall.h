// SPDX-License-Identifier: Apache-2.0
/* model/wall.h - the walls between a session and the machine, and their state.
 *
 * The function that sets up a wall writes its entry; the configuration never does. */
#pragma once
#include "base/fields.h"
#include "base/json.h"

/* clang-format off */
#define WALL_LIST(X) \
	X(user_namespace) X(mount_namespace) X(pid_namespace) X(net_namespace) \
	X(ipc_namespace) X(uts_namespace) X(cgroup_namespace) X(capabilities) \
	X(no_new_privs) X(seccomp) X(landlock) X(exec_policy) X(file_rules) \
	X(network_rules) X(memory_limit) X(cpu_limit) X(pids_limit) X(io_limit) \
	X(disk_limit) X(network_limit) X(env_filter) X(process_separation)
/* clang-format on */

enum wall {
#define X(name) WALL_##name,
	WALL_LIST(X)
#undef X
		WALLS
};
enum wall_state { WALL_ABSENT, WALL_UP, WALL_PARTIAL, WALL_UNAVAILABLE };

/* One entry per wall; starts all ABSENT with the detail "not asked for". */
struct wall_report {
	struct {
		enum wall_state state;
		char detail[200];
	} wall[WALLS];
};

/* In a list of walls that may be missing, this word means all walls that are namespaces. */
#define WALL_NAMESPACES "namespaces"
/* Whether a list has the name of the wall or that word. */
bool wall_listed(const struct strv *list, enum wall w);

const char *wall_name(enum wall w);
const char *wall_state_name(enum wall_state s);
void wall_report_init(struct wall_report *r);
void wall_set(struct wall_report *r, enum wall w, enum wall_state s, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Writes "wall\tstate\tdetail" strings for links and the store, for the entries that were set. */
void wall_pack(const struct wall_report *r, struct strv *out);
/* Merges packed entries into r; fails with E_BAD_REQUEST for an unknown wall or state. */
int wall_unpack(struct wall_report *r, const struct strv *in, struct err *err);
/* Writes the JSON array `enforcement`. */
void wall_format(const struct wall_report *r, struct jw *w);
