// SPDX-License-Identifier: Apache-2.0
/* model/process_table.h - the processes of a session, one row each.
 *
 * The launcher, its pool, the stub, the assignment, the record of a session and the warden read
 * this table. To add a process, add a row here and the directory of its program. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Who starts a process, when, and with which capabilities. */
enum process_start {
	/* The stub executes the program itself, without capabilities, when the sandbox is prepared;
	 * then the program waits for the assignment. There is one such row: the main process. The
	 * launcher watches it; all others are its children. */
	PROCESS_MAIN,
	/* The stub clones it into the namespaces of the session before the session is known. It
	 * builds the inside of the sandbox and drops its capabilities itself. There is one such
	 * row. */
	PROCESS_INSIDE,
	/* The main process forks it at the assignment, outside of the namespaces, without
	 * capabilities. It has a link to the main process, and dies with it. */
	PROCESS_BESIDE,
	/* As BESIDE, but the stub forks it while it prepares the sandbox. The program prepares
	 * itself, gets the assignment by its link, and answers it (struct assignment_part). */
	PROCESS_AHEAD,
};
/* What a session must have so that the process is started. */
enum process_need { PROCESS_NEEDS_NOTHING, PROCESS_NEEDS_FILES };

/* Arguments "KEY=VALUE" of a program (struct process_args). Descriptors are inherited
 * by number; a list has one argument for each entry.
 *  key, member, kind */
#define PROCESS_ARGS(X)                                                                           \
	X(listen, listen_fd, FD)	       /* RUNTIME/sessions/ID.sock, listening */          \
	X(api, api_fd, FD)		       /* the first link to the API process */            \
	X(ring, ring_fd, FD)		       /* of its own events, see event/journal.h */       \
	X(ack, ack_fd, FD)		       /* the same */                                     \
	X(policy, policy_fd, FD)	       /* the sealed snapshot of the session's policy */  \
	X(link, link_fd, FD)		       /* to the main process */                          \
	X(api_uid, api_uid, NUMBER)	       /* of the API process */                           \
	X(log_level, log_level, NUMBER)	       /* enum log_level */                               \
	X(log_format, log_format, NUMBER)      /* enum log_format */                              \
	X(wall, walls, LIST)		       /* raised by launcher and stub, as by wall_pack */ \
	X(counter, counters, LIST)	       /* of the session's cgroup: cgroup_files_format */ \
	X(exec_map, exec_map_fd, FD_OR_NONE)   /* of wants, see bpf/exec_layout.h */              \
	X(exec_link, exec_link_fd, FD_OR_NONE) /* of the kernel's exec check */                   \
	X(process, other, LINKS)	       /* the others: "NAME PID LINK [RING]" */           \
	X(wait, wait_fd, FD)		       /* of the launcher, which sends the assignment */  \
	X(prepared, prepared_fd, FD)	       /* to init, for its part of the assignment */      \
	X(program, programs, LIST)	       /* of a process beside it: "NAME DESCRIPTOR" */    \
	X(fuse, fuse_fd, FD_OR_NONE)	       /* /dev/fuse; without it the program opens it */
enum process_arg {
#define X(key, member, kind) PROCESS_ARG_##key,
	PROCESS_ARGS(X)
#undef X
};
#define PROCESS_ARG(key) (1u << PROCESS_ARG_##key)

#define PROCESS_MAIN_ARGS                                                                \
	(PROCESS_ARG(listen) | PROCESS_ARG(api) | PROCESS_ARG(ring) | PROCESS_ARG(ack) | \
	 PROCESS_ARG(policy) | PROCESS_ARG(api_uid) | PROCESS_ARG(log_level) |           \
	 PROCESS_ARG(log_format) | PROCESS_ARG(wall) | PROCESS_ARG(counter) |            \
	 PROCESS_ARG(exec_map) | PROCESS_ARG(exec_link) | PROCESS_ARG(process))
/* of the main process while it waits */
#define PROCESS_WAITING_ARGS                                                                       \
	(PROCESS_ARG(wait) | PROCESS_ARG(prepared) | PROCESS_ARG(counter) | PROCESS_ARG(process) | \
	 PROCESS_ARG(exec_map) | PROCESS_ARG(exec_link) | PROCESS_ARG(program))
#define PROCESS_BESIDE_ARGS                                                               \
	(PROCESS_ARG(ring) | PROCESS_ARG(ack) | PROCESS_ARG(policy) | PROCESS_ARG(link) | \
	 PROCESS_ARG(log_level) | PROCESS_ARG(log_format))

#define PROCESS_AHEAD_ARGS (PROCESS_ARG(link) | PROCESS_ARG(fuse))

/*  name, program, for people, start, need, whether it has a ring, arguments. The main process is
 *  first; those with a need are last. */
#define PROCESS_TABLE(X)                                                               \
	X(warden, "agentsh-warden", "the warden", MAIN, NOTHING, 1, PROCESS_MAIN_ARGS) \
	X(init, "agentsh-init", "init", INSIDE, NOTHING, 0, 0)                         \
	PROCESS_TABLE_OF_TESTS(X)                                                      \
	X(fs, "agentsh-fs", "the file server", AHEAD, FILES, 1, PROCESS_AHEAD_ARGS)
#ifdef AGENTSH_TEST_PROCESSES
#define PROCESS_TABLE_OF_TESTS(X) \
	X(test, "agentsh-test-process", "the test process", BESIDE, NOTHING, 1, PROCESS_BESIDE_ARGS)
#else
#define PROCESS_TABLE_OF_TESTS(X)
#endif

enum process {
#define X(name, program, people, start, need, ring, args) PROCESS_##name,
	PROCESS_TABLE(X)
#undef X
		PROCESSES
};
enum {
#define X(name, program, people, start, need, ring, args) +(ring)
	PROCESS_RINGS = 0 PROCESS_TABLE(X)
#undef X
};

struct process_row {
	const char *name;    /* in ID.meta and in arguments */
	const char *program; /* beside the running one */
	const char *title;   /* for people. The session fails when the process dies, and the reason
				begins with this. */
	enum process_start start;
	enum process_need need;
	bool ring;     /* it records events, in a ring of its own that has its name */
	unsigned args; /* PROCESS_ARG() of its arguments */
};
extern const struct process_row process_table[PROCESSES];
extern const struct process_row process_waiting; /* the main process, before its assignment */

/* The only row that starts this way; MAIN or INSIDE. */
enum process process_of(enum process_start start);
/* Whether a session has the process; files: its files are served or recorded. */
bool process_used(enum process p, bool files);
/* How many it has, and how many of them have rings. */
size_t process_count(bool files, size_t *rings);
/* The process of a ring, i < PROCESS_RINGS; the main process has the first. */
enum process process_with_ring(size_t i);
