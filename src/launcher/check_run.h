// SPDX-License-Identifier: Apache-2.0
/* launcher/check_run.h - runs of agentsh-check, one after the other.
 *
 * The launcher parses no policy itself. It reads the files, hands the bytes to a child without any
 * power (check/check.h), and believes an answer only if it is whole: a child that dies, that takes
 * too long or that breaks the protocol leaves an error for each policy that it did not answer. */
#pragma once
#include "launcher/child.h"
#include "link/link.h"
#include "model/limits.h"
#include <stdbool.h>
#include <sys/queue.h>

struct launcher;

/* A policy as agentsh-check answered. */
struct checked {
	struct check_policy is; /* owned */
	struct limits limits;
	int fd; /* the sealed snapshot, owned; -1: the policy failed, is.code says why */
	struct strv covered; /* hashes of what sessions asked for and may have */
	bool stale;	     /* it stayed when its file could not be read again: what depends on the
				configuration may have changed */
};
void checked_done(struct checked *c);
/* The error of the answer, or 0. */
int checked_error(const struct checked *c, struct err *err);

/* Embedded in what waits for an answer. The functions run on the loop. */
struct check_job {
	STAILQ_ENTRY(check_job) next;
	/* Its turn has come: fills ask, and *snapshot (owned) if there is nothing to compile.
	 * False: there is nothing left to ask. */
	bool (*prepare)(struct launcher *l, struct check_job *job, struct check_ask *ask,
			int *snapshot);
	/* got has one entry for each policy, which is freed unless it is taken; n is 0 if nothing
	 * was asked, or if the server stops. Frees the job. */
	void (*done)(struct launcher *l, struct check_job *job, struct checked *got, size_t n);
};
struct checks {
	STAILQ_HEAD(, check_job) jobs; /* the first one runs */
	struct child child;	       /* agentsh-check */
	struct link link;
	struct watch *readable, *deadline;
	struct check_ask ask;
	struct checked *got; /* owned; room for every policy of ask */
	size_t n;	     /* answered */
};

/* Takes the job; it is done later, or at once where no child can be started. */
void check_start(struct launcher *l, struct check_job *job);
void checks_stop(struct launcher *l);
