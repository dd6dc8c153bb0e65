// SPDX-License-Identifier: Apache-2.0
#include "bpf/exec_sessions.h"
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

int exec_sessions_add(int sessions, pid_t init, struct exec_session_key *key, int *wants,
		      struct err *err)
{
	const uint32_t record = 0;
	const union exec_entry zero = {0};
	struct exec_session_key k = {.init = (uint32_t)init};
	char path[64];
	struct stat st;
	int map, r;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)init);
	if (stat(path, &st) < 0)
		return err_errno(err, E_ENFORCEMENT, path, "%s", path);
	k.pid_namespace = (uint32_t)st.st_ino;
	map = bpf_map_new("agentsh_wants", sizeof(record), sizeof(zero), EXEC_WANTS_MAX);
	r = map < 0 ? map : bpf_map_put(map, &record, &zero);
	if (r == 0)
		r = bpf_map_put(sessions, &k, &map);
	if (r < 0) {
		mem_cleanup_fd(&map);
		errno = -r;
		return err_errno(err, E_ENFORCEMENT, NULL,
				 "cannot register the session for the kernel's exec check");
	}
	*key = k;
	*wants = map;
	return 0;
}

void exec_sessions_remove(int sessions, const struct exec_session_key *key)
{
	bpf_map_drop(sessions, key);
}
