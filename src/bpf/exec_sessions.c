// SPDX-License-Identifier: Apache-2.0
#include "bpf/exec_sessions.h"
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define FEW 8	 /* entries that are not worth a sweep */
#define MANY 64	 /* entries for which a client may wait */
#define ONCE 256 /* entries of one call */

void exec_check_close(struct exec_check *check)
{
	mem_cleanup_fd(&check->sessions);
	mem_cleanup_fd(&check->link);
	*check = EXEC_CHECK_NONE;
}

/* The number of a process's PID namespace; 0: the process has gone, errno says how. */
static uint32_t namespace_of(pid_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat(path, &st) == 0 ? (uint32_t)st.st_ino : 0;
}

static int add(int sessions, const struct exec_session_key *key, int map)
{
	const uint32_t record = 0;
	const union exec_entry zero = {0};
	int r = bpf_map_put(map, &record, &zero);

	if (r == 0)
		r = bpf_map_put(sessions, key, &map);
	if (r == -E2BIG) {
		exec_sessions_sweep(sessions);
		r = bpf_map_put(sessions, key, &map);
	}
	return r;
}

int exec_sessions_add(const struct exec_check *check, pid_t init, int *wants, struct err *err)
{
	const struct exec_session_key key = {namespace_of(init), (uint32_t)init};
	cleanup_fd int map = -1;
	int r;

	if (key.pid_namespace == 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "cannot read the PID namespace of init");
	/* The kernel would kill the processes of this machine. */
	if (key.pid_namespace == namespace_of(getpid()))
		return err_set(err, E_ENFORCEMENT, NULL,
			       "the session has no PID namespace of its own");
	if (check->sweep)
		exec_sessions_sweep(check->sessions);
	map = bpf_map_new("agentsh_wants", sizeof(uint32_t), sizeof(union exec_entry),
			  EXEC_WANTS_MAX);
	r = map < 0 ? map : add(check->sessions, &key, map);
	if (r < 0) {
		errno = -r;
		return err_errno(err, E_ENFORCEMENT, NULL,
				 "cannot register the session for the kernel's exec check");
	}
	*wants = take_fd(map);
	return 0;
}

void exec_sessions_sweep(int sessions)
{
	struct exec_session_key gone[ONCE], key;
	uint32_t n = 0;

	for (int r = bpf_map_next(sessions, NULL, &key); r == 0 && n < ONCE;
	     r = bpf_map_next(sessions, &key, &key)) {
		errno = 0;
		if (namespace_of((pid_t)key.init) != key.pid_namespace &&
		    (errno == 0 || errno == ENOENT || errno == ESRCH))
			gone[n++] = key;
	}
	bpf_map_drop_all(sessions, gone, sizeof(*gone), n);
}

void exec_sessions_plan(struct exec_check *check, bool idle, size_t alive)
{
	check->sweep = check->sessions != -1 && check->ended >= (idle ? FEW : MANY) + alive / 2;
	if (check->sweep) /* what one sweep leaves is for the next one */
		check->ended -= check->ended < ONCE ? check->ended : ONCE;
}
