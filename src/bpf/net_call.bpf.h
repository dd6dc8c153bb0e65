// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/net_call.bpf.h - records of calls, for net_refuse and net_unix; for kernel programs alone. */
#pragma once
#include "bpf/net_layout.h"
#include "bpf/task_ids.bpf.h"
#include <stdbool.h>

struct session_calls {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, NET_CALLS_BYTES);
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, NET_SESSIONS_MAX);
	__type(key, __u64);
	__array(values, struct session_calls);
} calls SEC(".maps");

/* Reserves a record, with time and process filled in. False if the session has no ring. *call stays
 * NULL if the ring is full. */
static __always_inline bool net_call_new(__u64 netns, struct net_call **call)
{
	void *ring = bpf_map_lookup_elem(&calls, &netns);
	struct task_ids ids;
	struct net_call *c;

	if (ring == NULL)
		return false;
	current_ids(&ids);
	c = bpf_ringbuf_reserve(ring, sizeof(*c), 0);
	*call = c;
	if (c == NULL)
		return true;
	__builtin_memset(c, 0, sizeof(*c));
	c->time = bpf_ktime_get_boot_ns();
	c->start = ids.start;
	c->pid = ids.pid;
	c->tid = ids.tid;
	return true;
}
