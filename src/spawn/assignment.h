// SPDX-License-Identifier: Apache-2.0
/* spawn/assignment.h - how a stub, which has prepared a sandbox, gets its session.
 *
 * The stub is a fork of the launcher, with the launcher's privileges, and reads only what the
 * launcher sends. It gives up its privileges before it executes the warden. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "model/process_table.h"
#include "sandbox/sandbox.h"
#include <stdbool.h>
#include <sys/types.h>

/* A stub that waits for its assignment. */
struct waiting_stub {
	int sock;   /* of the launcher */
	int userns; /* owned; goes with ASSIGNMENT_READY; -1: none */
	struct sandbox_prepared init;
};

struct assignment {
	char *session_id;
	struct strv walls;
	uint32_t api_uid, log_level, log_format;
};
enum assignment_fd {
	ASSIGNMENT_LISTEN,
	ASSIGNMENT_API,
	ASSIGNMENT_TREE,
	ASSIGNMENT_RING,
	ASSIGNMENT_ACK,
	ASSIGNMENT_POLICY,
	ASSIGNMENT_REPORT, /* for reports; closed without an error report: success */
	ASSIGNMENT_LOCK,   /* held until the session can be found */
	/* Of each ring but the main process's: the ring to write, the ack, the ring to read. */
	ASSIGNMENT_OTHERS,
	ASSIGNMENT_FDS = ASSIGNMENT_OTHERS + 3 * (PROCESS_RINGS - 1)
};
struct assignment_report {
	enum process process;
	pid_t pid;	/* of that process, which was started */
	struct err err; /* code != 0: the end, without a process */
};
/* A stub sends one of these before it gets its assignment. */
#define ASSIGNMENT_READY 'r'
#define ASSIGNMENT_FAILED 'f'

/* Launcher. */
int assignment_send(int sock, const struct assignment *o, const struct sandbox_plan *plan,
		    const int fd[ASSIGNMENT_FDS], const struct sandbox_trees *view,
		    struct err *err);
/* Stub: waits (and sends READY when init is prepared), binds init and becomes the session's user.
 * Returns only on success; else the process ends. While it waits its name is ASSIGNMENT_NAME. fd
 * stay open, except TREE and LOCK. */
#define ASSIGNMENT_NAME "agentsh-waiting"
void assignment_apply(const struct waiting_stub *w, struct assignment *o, int fd[ASSIGNMENT_FDS]);
/* Stub: reports a process that it has started. */
int assignment_tell(int report_fd, enum process process, pid_t pid, struct err *err);
/* Waits for the assignment and reports why the sandbox could not be prepared; or, after
 * assignment_apply, why a process cannot start. */
_Noreturn void assignment_refuse(int sock, const struct err *why);
_Noreturn void assignment_give_up(int report_fd, const struct err *why);

/* n messages with a tree each, or without. trees_send: -1/errno; NULL: none. */
int trees_send(int sock, const struct sandbox_trees *t);
int trees_receive(int sock, size_t n, struct sandbox_trees *out, struct err *err);

/* fdio_recv of one byte. If the peer closed with unread data, the first receive fails with
 * ECONNRESET although its messages are still there: tries once more. */
ssize_t assignment_recv(int sock, char *byte, int *fd, size_t *nfds);
