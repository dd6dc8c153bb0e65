// SPDX-License-Identifier: Apache-2.0
/* model/process_args.h - the arguments of a process of a session: "PROGRAM SESSION_ID KEY=VALUE…".
 *
 * The stub or the main process writes them, and the program reads them. Its row of the process
 * table has the keys: each of them once, except for the lists and for descriptors that may be
 * missing (-1). */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "model/process_table.h"
#include <sys/types.h>

/* Another process, as the main process sees it. */
struct process_link {
	const struct process_row *row;
	pid_t pid;
	int fd;	     /* the link to it */
	int ring_fd; /* its ring, to see the head of; 0: none, or not known yet */
};

/* See PROCESS_ARGS. */
struct process_args {
	const char *session_id; /* borrowed */
	int listen_fd, api_fd, ring_fd, ack_fd, policy_fd, link_fd;
	int wait_fd, prepared_fd; /* while it waits */
	int fuse_fd;		  /* -1: none */
	uid_t api_uid;
	int log_level, log_format;
	struct strv walls, counters, programs; /* owned */
	int exec_map_fd, exec_link_fd; /* -1: the kernel does not check the session's execs */
	struct process_link other[PROCESSES];
	size_t nothers;
	/* Of the one that is inside of the namespaces; the parser sets them. */
	int init_fd;
	pid_t init_pid;
};
/* For a program: its own arguments. Descriptors are closed at the next exec from then on.
 * E_BAD_REQUEST. */
int process_args_parse(const struct process_row *row, int argc, char **argv,
		       struct process_args *out, struct err *err);
void process_args_done(struct process_args *args);
/* For the starter: argv of a program, owned by the caller. */
void process_args_format(const struct process_row *row, const struct process_args *args,
			 struct strv *argv);
/* Adds another process of the session. */
void process_args_add(struct process_args *args, const struct process_link *link);
/* The descriptors of a row's arguments stay open at the next exec; also those of the lists. */
int process_args_pass(const struct process_row *row, const struct process_args *args);
