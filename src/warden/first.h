// SPDX-License-Identifier: Apache-2.0
/* warden/first.h - a command's first exec: decided before init or a leader is asked, recorded
 * before it happens. Every later exec is execs.h's. */
#pragma once
#include "link/msg.h"

struct run;

/* What is to be executed. */
struct first_way {
	int errnum; /* 0; or why nothing is */
	int fd;	    /* the program, borrowed from the run; -1: sp->path leads to it */
};
/* Looks for sp->path, along PATH if it has no slash, in the session's root and asks the policy;
 * changes sp->path and sp->argv to what must be executed so that it is what was decided.
 * E_POLICY_DENIED with the denial, which is recorded. */
int first_decide(struct run *r, struct init_spawn *sp, struct first_way *way, struct err *err);
/* Just before a leader is told: prepares the event, which the exec thread records when the exec
 * comes; where execs are not watched it is recorded now. */
void first_expect(struct run *r);
void first_done(struct run *r);
