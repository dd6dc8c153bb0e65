// SPDX-License-Identifier: Apache-2.0
/* bpf/session_maps.h - the maps that a session has of its own: exec_layout.h, file_layout.h and
 * net_layout.h. */
#pragma once
#include "base/err.h"
#include "bpf/bpf_map.h"

/* The program has the same shape; the kernel refuses a map of another one. */
struct session_map {
	struct bpf_map_shape shape;
	const void *key, *value; /* of its first entry, the record; NULL: none */
};
/* object           outer map  key */
extern const struct session_map session_wants; /* exec_check  sessions   struct exec_session_key */
extern const struct session_map session_slots; /* file_calls  slots      the same */
extern const struct session_map session_ring;  /* file_calls  rings      the same */
/* net_maps.c */
extern const struct session_map
	session_owners;			       /* net_owner   owners     network namespace cookie */
extern const struct session_map session_rules; /* net_refuse  rules      the same */
extern const struct session_map session_paths; /* net_unix    paths      the same */
extern const struct session_map session_calls; /* net_refuse and net_unix, calls: the same */

/* Makes a map and enters it into the outer map: from now on the program looks at the session. The
 * caller owns *map. Needs CAP_BPF. To end it, drop the key from the outer map. */
int session_map_add(const struct session_map *m, int outer, const void *key, int *map,
		    struct err *err);
