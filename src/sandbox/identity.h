// SPDX-License-Identifier: Apache-2.0
/* sandbox/identity.h - who a process is and what it may: uids, groups, capabilities; private to
 * this folder. */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct identity {
	uint32_t uid, gid;
	bool change; /* take uid, gid and no supplementary groups; else only capabilities are
			dropped */
};
/* Locks the securebits, takes the ids, drops every capability in every set. *bounded tells whether
 * the bounding set could be emptied as well (it needs CAP_SETPCAP). E_ENFORCEMENT names the call.
 */
int identity_take(const struct identity *who, bool *bounded, struct err *err);
int identity_no_new_privs(struct err *err);
/* In a child that may share its memory: takes the ids, with nothing of the power of the old. 0 or
 * errno. */
int identity_become(const struct identity *who);
/* In a child before exec: lets the capabilities that init needs survive the exec of a process that
 * is not uid 0. 0 or errno; no memory is touched besides the stack, since the child may share it.
 */
int identity_keep_caps(void);
