// SPDX-License-Identifier: Apache-2.0
/* shell/capture_in.h - receives shell states from inside the session, only from agentsh-state.
 *
 * The process that connects must be the first process of a running command or its child. Every
 * datagram must come from that pid (SCM_CREDENTIALS), and at the end its program must be the inode
 * of agentsh-state. A few connections are open at a time, each with a deadline, so that none can
 * block the loop. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include "base/loop.h"
#include "spawn/capture.h"
#include <sys/types.h>

#define CAPTURE_CONNECTIONS 8
#define CAPTURE_DEADLINE_MS 2000

/* What a command's shell left; the last one counts. */
struct captured {
	bool taken;
	struct strv env;
	char *cwd;
	char note[160]; /* why the last one that failed was refused, or "" */
};
void captured_done(struct captured *c);

/* The command of which pid is the first process or its child, or NULL. *later: a command that
 * is being started may be the one (a quick shell ends before its leader has reported its start). */
typedef struct captured *capture_owner_fn(pid_t pid, bool *later, void *arg);

struct capture_in;
struct capture_in_setup {
	struct loop *loop;
	int listen_fd;	/* taken */
	bool given;	/* its datagrams bring a connection and the pid at its other end */
	int program_fd; /* O_PATH of agentsh-state, borrowed */
	size_t max;	/* bytes of one capture */
	capture_owner_fn *owner;
	void *arg;
};
int capture_in_open(const struct capture_in_setup *s, struct capture_in **out, struct err *err);
/* A command has started, or failed to: looks again at complete states without an owner. */
void capture_in_settle(struct capture_in *c);
void capture_in_close(struct capture_in *c); /* NULL is fine */
