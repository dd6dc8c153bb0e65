// SPDX-License-Identifier: Apache-2.0
/* launcher/child.h - children of the launcher, by their pidfds. Private to launcher/. */
#pragma once
#include "base/err.h"
#include "base/loop.h"
#include <signal.h>
#include <sys/types.h>

struct launcher;

struct child {
	pid_t pid; /* 0: there is none */
	int pidfd; /* owned */
	struct watch *death;
};
#define CHILD_NONE ((struct child){.pidfd = -1})

/* Takes what fork returned; a pid below 0 is its failure. After a failure there is no child. */
int child_open(struct child *c, pid_t pid, struct err *err);
/* Forks a program that has none of the launcher's power: the uid (of a root server's child), no
 * capability, the log as stderr, and a link to the launcher, whose end *link the caller owns. */
int child_start(struct child *c, const struct launcher *l, const char *name, int program, uid_t uid,
		int *link, struct err *err);
/* Has fn called at the child's end. */
int child_watch(struct child *c, struct loop *loop, watch_fn *fn, void *arg, struct err *err);
void child_kill(const struct child *c);
/* Collects a child that has ended. False: it lives. */
bool child_ended(struct child *c, siginfo_t *si);
/* Kills the child, if there is one, and collects it. */
void child_end(struct child *c, siginfo_t *si);
/* Lets go of it, whether it lives or not. */
void child_forget(struct child *c);
/* Text for people of a wait status (si_code, si_status); who: "the warden". */
void death_reason(const char *who, const siginfo_t *si, char *out, size_t n);
