// SPDX-License-Identifier: Apache-2.0
/* The first entries of rules and paths count lost records. */
#include "bpf/net_layout.h"
#include "bpf/session_maps.h"
#include <linux/bpf.h>

const struct session_map session_owners = {{"agentsh_owners", BPF_MAP_TYPE_LRU_HASH, 0,
					    sizeof(struct net_tuple), sizeof(struct net_owner),
					    NET_OWNERS_MAX}};
const struct session_map session_rules = {
	{"agentsh_rules", BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, sizeof(struct net_rule_key),
	 sizeof(struct net_rule), NET_RULES_MAX},
	&(const struct net_rule_key){.bits = NET_RULE_BITS + NET_ADDRESS_BITS,
				     .protocol = NET_DROPPED},
	&(const struct net_rule){0}};
const struct session_map session_paths = {{"agentsh_paths", BPF_MAP_TYPE_HASH, BPF_F_NO_PREALLOC,
					   sizeof(struct net_path), sizeof(struct net_rule),
					   NET_PATHS_MAX},
					  &(const struct net_path){0},
					  &(const struct net_rule){0}};
const struct session_map session_calls = {
	{"agentsh_calls", BPF_MAP_TYPE_RINGBUF, 0, 0, 0, NET_CALLS_BYTES}};
