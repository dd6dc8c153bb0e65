// SPDX-License-Identifier: Apache-2.0
#include "bpf/exec_sessions.h"
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/session_maps.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define FEW 8	 /* entries that are not worth a sweep */
#define MANY 64	 /* entries for which a client may wait */
#define ONCE 256 /* entries of one call */

void exec_check_close(struct exec_check *check)
{
	for (size_t i = 0; i < CHECK_FDS; i++)
		mem_cleanup_fd(&check->fd[i]);
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

/* file_calls looks at sessions that have slots: they come after the ring. */
static const struct {
	enum check_fd outer;
	enum session_fd fd;
	const struct session_map *map;
} rows[] = {{CHECK_RINGS, SESSION_FD_RING, &session_ring},
	    {CHECK_SLOTS, SESSION_FD_SLOTS, &session_slots},
	    {CHECK_SESSIONS, SESSION_FD_WANTS, &session_wants}};

static int add(const struct exec_check *check, const struct exec_session_key *key,
	       int fd[SESSION_FDS], struct err *err)
{
	const size_t first = fd[SESSION_FD_LINK] != -1 ? 0 : ARRAY_LEN(rows) - 1;
	int r = 0;

	for (size_t i = first; i < ARRAY_LEN(rows) && r == 0; i++)
		r = session_map_add(rows[i].map, check->fd[rows[i].outer], key, &fd[rows[i].fd],
				    err);
	return r;
}

int exec_sessions_add(const struct exec_check *check, pid_t init, bool files, int fd[SESSION_FDS],
		      struct err *err)
{
	const struct exec_session_key key = {namespace_of(init), (uint32_t)init};

	if (key.pid_namespace == 0)
		return err_errno(err, E_ENFORCEMENT, NULL, "cannot read the PID namespace of init");
	/* The kernel would kill the processes of this machine. */
	if (key.pid_namespace == namespace_of(getpid()))
		return err_set(err, E_ENFORCEMENT, NULL,
			       "the session has no PID namespace of its own");
	if (check->sweep)
		exec_sessions_sweep(check);
	fd[SESSION_FD_LINK] = files ? check->fd[CHECK_FILES] : -1;
	if (add(check, &key, fd, err) == 0)
		return 0;
	/* the maps may be full */
	exec_sessions_sweep(check);
	return add(check, &key, fd, err);
}

static void sweep(int sessions)
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

void exec_sessions_sweep(const struct exec_check *check)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (check->fd[rows[i].outer] != -1)
			sweep(check->fd[rows[i].outer]);
}

void exec_sessions_plan(struct exec_check *check, bool idle, size_t alive)
{
	check->sweep =
		check->fd[CHECK_SESSIONS] != -1 && check->ended >= (idle ? FEW : MANY) + alive / 2;
	if (check->sweep) /* what one sweep leaves is for the next one */
		check->ended -= check->ended < ONCE ? check->ended : ONCE;
}
