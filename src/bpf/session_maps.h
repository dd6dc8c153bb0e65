// SPDX-License-Identifier: Apache-2.0
/* bpf/session_maps.h - the maps that a session has of its own: net_layout.h and file_layout.h. */
#pragma once
#include "base/err.h"

/* object           outer map  key */
enum session_map {
	SESSION_OWNERS, /* net_owner   owners     network namespace cookie (uint64_t) */
	SESSION_RULES,	/* net_refuse  rules      the same */
	SESSION_PATHS,	/* net_unix    paths      the same */
	SESSION_CALLS,	/* net_refuse and net_unix, calls: the same */
	SESSION_SLOTS,	/* file_calls  slots      struct exec_session_key */
	SESSION_RING,	/* file_calls  rings      the same */
	SESSION_MAPS
};
/* Makes a map and enters it into the outer map: from now on the program looks at the session. The
 * caller owns *map. Needs CAP_BPF. To end it, drop the key from the outer map. */
int session_map_add(enum session_map which, int outer, const void *key, int *map, struct err *err);
