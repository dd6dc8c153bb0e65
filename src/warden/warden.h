// SPDX-License-Identifier: Apache-2.0
/* warden/warden.h - one session, wired together: exec decisions, output, shell state, time-outs,
 * journal.
 *
 * Process agentsh-warden: outside the sandbox, the session's uid, no capabilities, one loop
 * (base/loop.h). Its links: to init (its child), to each leader, to the API child (replaceable: the
 * next server connects to the listener). It keeps every result until the API child acknowledges it;
 * without a server for orphan_timeout it ends the session. */
#pragma once
#include "model/process_args.h"
#include <stdbool.h>

struct gate_approver;

/* For assignment_await, where there is an approver. */
bool warden_holds(int policy_fd);
/* The listener of args accepts uid 0, api_uid and (user mode) our own uid only. approver may be
 * NULL: then an approve of the policy is a denial. Returns the exit status. */
int warden_main(const struct process_args *args, const struct gate_approver *approver);
