// SPDX-License-Identifier: Apache-2.0
/* spawn/assignment.h - how a process that has a prepared sandbox gets its session.
 *
 * The stub, a fork of the launcher with the launcher's privileges, prepares the sandbox. Then it
 * gives up its privileges and executes the main process (the warden), which waits for the
 * assignment. So the session does not wait for the start of a program, and what waits has no
 * power. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "model/process_args.h"
#include "sandbox/sandbox.h"
#include <stdbool.h>
#include <sys/types.h>

/* A stub that has prepared its sandbox. */
struct prepared_stub {
	int sock; /* of the launcher */
	pid_t launcher;
	const struct sandbox_plan *plan; /* with the session's uid and gid */
	const int *program;		 /* descriptors, by enum process */
	int exec_map, exec_link;	 /* of the kernel's exec check; -1: none */
	struct process_link ahead;	 /* the process that was started ahead; row NULL: none */
	struct strv counters;		 /* of its group; they stay open at an exec */
	struct sandbox_prepared init;
	int init_link;
};

struct assignment {
	char *session_id;
	struct strv walls;
	uint32_t api_uid, log_level, log_format;
	/* of the file server */
	char *real; /* path of the workspace on the host */
	uint32_t entry_ms, attr_ms, negative_ms, max_readahead, async_read, writeback_cache,
		io_uring;
};
extern const struct fields assignment_fields;
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
/* What a process of PROCESS_AHEAD gets as its assignment, by its link: this, and the descriptors
 * below, and then as many trees as plan.served has besides the workspace. It answers
 * with a struct err and, if its code is E_OK, with the mount whose names "0", "1" and so on are the
 * trees. */
struct assignment_part {
	pid_t init;
};
enum assignment_part_fd {
	PART_TREE,
	PART_POLICY,
	PART_RING,
	PART_ACK,
	PART_PLAN,
	PART_TEXT,
	PART_TRASH, /* -1: the session keeps no trash */
	PART_FDS
};
/* The process: waits for it. False: the session is not needed. fd are the caller's. */
bool assignment_part_receive(int link, struct assignment_part *out, int fd[PART_FDS]);
/* Loads what PART_PLAN and PART_TEXT contain. */
int assignment_part_load(const int fd[PART_FDS], struct sandbox_plan *plan, struct assignment *out,
			 struct err *err);

/* A prepared sandbox sends one of these before it gets its assignment. */
#define ASSIGNMENT_READY 'r'
#define ASSIGNMENT_FAILED 'f'
#define ASSIGNMENT_USERNS 'u' /* before them, with the user namespace of the idmapped mounts */

/* Launcher. */
int assignment_send(int sock, const struct assignment *o, const struct sandbox_plan *plan,
		    const int fd[ASSIGNMENT_FDS], const struct sandbox_trees *view,
		    struct err *err);
/* The second argument of a process that waits, as long as any id: the session's id takes its place.
 */
#define ASSIGNMENT_NAME "agentsh-waiting"
#define ASSIGNMENT_ID ASSIGNMENT_NAME "................................................."
/* Stub, still privileged: starts the process of PROCESS_AHEAD that the plan needs. It has the
 * session's ids and, with a privileged plan, /dev/fuse and CAP_SYS_ADMIN. */
int start_ahead(struct prepared_stub *p, struct err *err);
/* Stub: hands it slots, ring and link of bpf/file_layout.h; fd[0] -1: none. They come before its
 * part of the assignment. */
#define AHEAD_FDS 3
int ahead_pass(const struct process_link *ahead, const int fd[AHEAD_FDS], struct err *err);
/* The process: waits for them. Without BPF fd stays as it is. False: the session is not needed. */
bool ahead_receive(int link, int fd[AHEAD_FDS]);
/* Stub: gives up all power and becomes the main process, which waits. Only returns on failure. */
int assignment_wait(const struct prepared_stub *p, struct err *err);
/* Whether a session with this policy (a sealed snapshot) has file operations about which an
 * approver is asked before the call. */
typedef bool assignment_holds_fn(int policy_fd);
/* Main process: reads its arguments, waits (and sends READY when init is prepared), binds init and
 * starts the processes beside it. *out then has the arguments of MAIN's row. While the process
 * waits its name is ASSIGNMENT_NAME. It ends if the launcher does not need it, or if a step fails.
 * holds NULL: there is no approver. E_BAD_REQUEST: wrong arguments. */
int assignment_await(int argc, char **argv, assignment_holds_fn *holds, struct process_args *out,
		     struct err *err);
/* Stub: waits for the assignment and reports why the sandbox could not be prepared. */
_Noreturn void assignment_refuse(int sock, const struct err *why);

/* n messages with a tree each, or without. trees_send: -1/errno; NULL: none. */
int trees_send(int sock, const struct sandbox_trees *t);
int trees_receive(int sock, size_t n, struct sandbox_trees *out, struct err *err);

/* fdio_recv of one byte. If the peer closed with unread data, the first receive fails with
 * ECONNRESET although its messages are still there: tries once more. */
ssize_t assignment_recv(int sock, char *byte, int *fd, size_t *nfds);
