// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/task_ids.bpf.h - process ids as the server sees them; for kernel programs alone.
 *
 * A server in a container has another PID namespace than the machine. Its processes know the ids of
 * their own namespace, so the programs report these. */
#pragma once
#include "bpf/server_layout.h"
#include "bpf/task.bpf.h"

const volatile struct server_facts server SEC(SERVER_FACTS);

struct task_ids {
	__u32 pid, tid;
	__u32 level; /* of the server's PID namespace */
	__u64 start;
};

/* The current thread's ids in the server's PID namespace; 0 for a process outside of it. */
static __always_inline void current_ids(struct task_ids *ids)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	const __u32 levels = BPF_CORE_READ(pid, level) + 1;

	ids->pid = ids->tid = ids->level = 0;
	ids->start = BPF_CORE_READ(leader, start_boottime);
	for (__u32 i = 0; i < PID_LEVELS && i < levels; i++) {
		struct upid u;

		if (bpf_core_read(&u, sizeof(u), &pid->numbers[i]) != 0)
			return;
		if (BPF_CORE_READ(u.ns, ns.inum) != server.pid_namespace)
			continue;
		ids->level = i;
		ids->tid = u.nr;
		ids->pid = pid_at(BPF_CORE_READ(leader, thread_pid), i);
		return;
	}
}
