// SPDX-License-Identifier: Apache-2.0
/* launcher/child.h - children of the launcher, by their pidfds. Private to launcher/. */
#pragma once
#include "base/err.h"
#include "base/loop.h"
#include <signal.h>
#include <sys/types.h>

struct launcher;

struct child {
	pid_t pid; /* 0: no child */
	int pidfd; /* owned */
	struct watch *death;
};
#define CHILD_NONE ((struct child){.pidfd = -1})

/* For a child: signals as a program expects them; /dev/null and the log as stdio. False: errno. */
bool child_begin(const struct launcher *l);
/* Takes the result of fork. After a failure c is CHILD_NONE. */
int child_open(struct child *c, pid_t pid, struct err *err);
/* Forks a program (PROGRAM_…) without the launcher's power: it has this uid (if root started the
 * server), no capability except for those that PROGRAM_BPF needs, the log as stderr, and a link to
 * the launcher. The caller owns *link, our end. */
int child_start(struct child *c, const struct launcher *l, size_t program, uid_t uid, int *link,
		struct err *err);
/* The loop calls fn when the child ends. */
int child_watch(struct child *c, struct loop *loop, watch_fn *fn, void *arg, struct err *err);
void child_kill(const struct child *c);
/* Collects a child that has ended. False: it lives. */
bool child_ended(struct child *c, siginfo_t *si);
/* Kills the child, if there is one, and collects it. */
void child_end(struct child *c, siginfo_t *si);
/* Frees the struct; the process goes on. */
void child_forget(struct child *c);
/* A wait status (si_code, si_status) as a sentence; who: "the warden". */
void death_reason(const char *who, const siginfo_t *si, char *out, size_t n);
