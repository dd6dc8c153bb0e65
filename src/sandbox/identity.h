// SPDX-License-Identifier: Apache-2.0
/* sandbox/identity.h - ids and capabilities of the child that becomes init. It shares the stub's
 * memory, so it only makes system calls. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct identity {
	uint32_t uid, gid;
	bool change; /* take uid, gid and no supplementary groups; else only capabilities are
			dropped */
};
/* Takes the ids, and loses every capability of the old ones. 0 or errno. */
int identity_become(const struct identity *who);
/* Before exec: lets the capabilities that init needs survive the exec of a process that is not uid
 * 0. 0 or errno. */
int identity_keep_caps(void);
