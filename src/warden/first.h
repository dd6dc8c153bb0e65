// SPDX-License-Identifier: Apache-2.0
/* warden/first.h - a command's first exec: decided before init or a leader is asked, recorded when
 * it has happened. Every later exec is execs.h's. */
#pragma once
#include "link/msg.h"

struct run;

/* Looks up what sp would execute in the session's root and asks the policy. A redirect changes
 * sp->path. E_POLICY_DENIED with the denial, which is recorded; what is not found is left to the
 * kernel to say. */
int first_decide(struct run *r, struct init_spawn *sp, struct err *err);
void first_record(struct run *r); /* it has been executed */
void first_done(struct run *r);
