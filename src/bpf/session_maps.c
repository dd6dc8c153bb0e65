// SPDX-License-Identifier: Apache-2.0
#include "bpf/session_maps.h"
#include "base/mem.h"
#include "bpf/bpf_map.h"
#include "bpf/file_layout.h"
#include "bpf/net_layout.h"
#include <errno.h>
#include <linux/bpf.h>

/* The programs have the same shapes; the kernel refuses a map of another one. */
static const struct bpf_map_shape shapes[SESSION_MAPS] = {
	[SESSION_OWNERS] = {"agentsh_owners", BPF_MAP_TYPE_LRU_HASH, 0, sizeof(struct net_tuple),
			    sizeof(struct net_owner), NET_OWNERS_MAX},
	[SESSION_RULES] = {"agentsh_rules", BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC,
			   sizeof(struct net_rule_key), sizeof(struct net_rule), NET_RULES_MAX},
	[SESSION_PATHS] = {"agentsh_paths", BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC,
			   sizeof(struct net_path), sizeof(struct net_rule), NET_PATHS_MAX},
	[SESSION_CALLS] = {"agentsh_calls", BPF_MAP_TYPE_RINGBUF, 0, 0, 0, NET_CALLS_BYTES},
	[SESSION_SLOTS] = {"agentsh_slots", BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, sizeof(uint32_t),
			   sizeof(struct file_slot), FILE_SLOTS_MAX},
	[SESSION_RING] = {"agentsh_ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 0, FILE_RING_BYTES},
};

/* The entries that count lost records. */
static int add_dropped(enum session_map which, int map)
{
	const struct net_rule_key rule = {.bits = NET_RULE_BITS + NET_ADDRESS_BITS,
					  .protocol = NET_DROPPED};
	const struct net_path path = {0};
	const struct net_rule zero = {0};

	if (which == SESSION_RULES)
		return bpf_map_put(map, &rule, &zero);
	return which == SESSION_PATHS ? bpf_map_put(map, &path, &zero) : 0;
}

int session_map_add(enum session_map which, int outer, const void *key, int *map, struct err *err)
{
	int fd = bpf_map_new_shape(&shapes[which]), r = fd;

	if (r >= 0)
		r = add_dropped(which, fd);
	if (r >= 0)
		r = bpf_map_put(outer, key, &fd);
	if (r < 0) {
		mem_cleanup_fd(&fd);
		errno = -r;
		return err_errno(err, E_ENFORCEMENT, shapes[which].name,
				 "cannot register the session for a BPF program");
	}
	*map = fd;
	return 0;
}
