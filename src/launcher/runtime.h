// SPDX-License-Identifier: Apache-2.0
/* launcher/runtime.h - RUNTIME, the state directory, their locks and the listening sockets. Private
 * to launcher/. */
#pragma once
#include "base/err.h"
#include "config/config.h"
#include <sys/types.h>

struct runtime {
	char *runtime, *socket;
	int runtime_fd, lock_fd, sessions_fd;
	int claim_fd;	     /* of the state directory */
	int unix_fd, tcp_fd; /* listening; tcp_fd -1: none */
	char *http;	     /* "127.0.0.1:8080" as bound, or NULL */
	dev_t socket_dev;
	ino_t socket_ino;
};
#define RUNTIME_NONE                         \
	((struct runtime){.runtime_fd = -1,  \
			  .lock_fd = -1,     \
			  .sessions_fd = -1, \
			  .claim_fd = -1,    \
			  .unix_fd = -1,     \
			  .tcp_fd = -1})
/* Makes and opens RUNTIME. E_FORBIDDEN if others could change what lies in it. */
int runtime_open(const struct config *c, bool privileged, struct runtime *p, struct err *err);
/* Takes RUNTIME/server.lock. While another process has it, waits up to timeout_ms: with auto_start
 * until the server that has it answers on its socket (*other); else only while that server is dead
 * and a child that it had just forked keeps the lock. E_CONFLICT "already running (pid N)",
 * E_UNAVAILABLE. */
int runtime_take(struct runtime *p, bool auto_start, int timeout_ms, bool *other, struct err *err);
/* With the lock: RUNTIME/sessions and the state directory, which belongs to the API child. */
int runtime_prepare(const struct config *c, bool privileged, struct runtime *p, struct err *err);
/* After runtime_prepare: claims the state directory. E_CONFLICT if another server has it; *other is
 * then the socket of that one, NULL if that is not known. */
int runtime_claim(const struct config *c, bool privileged, struct runtime *p, char **other,
		  struct err *err);
/* Opens or makes a file of the state directory with the rights of the directory's owner: a link
 * that the owner has put there leads nowhere else. -1/errno. */
int runtime_state_file(const char *path, bool privileged, uid_t owner);
/* With the lock: binds and listens. */
int runtime_listen(const struct config *c, bool privileged, struct runtime *p, struct err *err);
/* As open, with the rights of another user for files, if the server is privileged: setfsuid takes
 * root's capabilities for files away meanwhile. -1/errno. */
int open_as(const char *path, int flags, bool privileged, uid_t uid, gid_t gid);
/* Removes the socket, if it is ours, and closes everything. */
void runtime_done(struct runtime *p);
