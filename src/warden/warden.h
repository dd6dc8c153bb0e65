// SPDX-License-Identifier: Apache-2.0
/* warden/warden.h - one session, wired together: exec decisions, output, shell state, time-outs,
 * journal.
 *
 * Process agentsh-warden: outside the sandbox, the session's uid, no capabilities, one loop
 * (base/loop.h). Its links: to init (its child), to each leader, to the API child (replaceable: the
 * next server connects to the listener). It keeps every result until the API child acknowledges it;
 * without a server for orphan_timeout it ends the session. */
#pragma once
#include "base/err.h"
#include "link/msg.h"
#include <sys/types.h>

/* Descriptors are inherited by number from the stub: `agentsh-warden SESSION_ID KEY=VALUE…`, parsed
 * by warden_args. */
struct warden_args {
	const char *session_id;
	int listen_fd; /* RUNTIME/sessions/ID.sock, listening; accepts uid 0, api_uid and (user
			  mode) our own uid only */
	int api_fd;    /* first API link */
	int init_fd;   /* link to init */
	int ring_fd, ack_fd;
	int policy_fd; /* the sealed snapshot of its policy */
	pid_t init_pid;
	uid_t api_uid;
	int log_level, log_format; /* enums of base/log.h */
	struct strv walls;	   /* raised by launcher and stub */
	struct strv counters;	   /* cgroup_files_format: of the session's limits */
};
int warden_args_parse(int argc, char **argv, struct warden_args *out, struct err *err);
void warden_args_done(struct warden_args *args);
/* The argv that warden_args_parse understands (for the stub); strv owned by the caller. */
void warden_args_format(const struct warden_args *args, struct strv *argv);
int warden_main(const struct warden_args *args); /* exit status */
