// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/net_call.bpf.h - records of calls, for net_refuse and net_unix; for kernel programs alone. */
#pragma once
#include "bpf/net_layout.h"
#include "bpf/task_ids.bpf.h"

struct session_calls {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, NET_CALLS_BYTES);
};
SESSION_MAPS(calls, NET_SESSIONS_MAX, __u64, struct session_calls);

/* Reserves a record, with time and process filled in. NULL if the session has no ring. NULL also if
 * the ring is full: this is counted in the entry `lost` of the session's map of rules. */
static __always_inline struct net_call *net_call_new(__u64 netns, void *rules_map, const void *lost)
{
	void *ring = bpf_map_lookup_elem(&calls, &netns);
	struct net_rule *dropped;
	struct task_ids ids;
	struct net_call *c;

	if (ring == NULL)
		return NULL;
	current_ids(&ids);
	c = bpf_ringbuf_reserve(ring, sizeof(*c), 0);
	if (c == NULL) {
		dropped = bpf_map_lookup_elem(rules_map, lost);
		if (dropped != NULL)
			__sync_fetch_and_add(&dropped->count, 1);
		return NULL;
	}
	__builtin_memset(c, 0, sizeof(*c));
	c->time = bpf_ktime_get_boot_ns();
	c->start = ids.start;
	c->pid = ids.pid;
	c->tid = ids.tid;
	return c;
}
