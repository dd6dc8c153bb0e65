// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/task_ids.bpf.h - process ids as the server sees them; for kernel programs alone.
 *
 * A server in a container has another PID namespace than the machine. Its processes know the ids of
 * their own namespace, so the programs report these. */
#pragma once
#include "bpf/server_layout.h"
#include <linux/bpf.h>
/* The headers of libbpf use the types of linux/bpf.h. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define PID_LEVELS 33 /* the kernel's MAX_PID_NS_LEVEL is 32 */

/* The members that are used here; libbpf finds their offsets in the running kernel. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct;
struct ns_common {
	unsigned int inum;
};
struct pid_namespace {
	struct ns_common ns;
	struct task_struct *child_reaper;
};
struct upid {
	int nr;
	struct pid_namespace *ns;
};
struct pid {
	unsigned int level;
	struct upid numbers[1];
};
typedef struct {
	__u32 val;
} kuid_t;
struct cred {
	kuid_t uid;
};
struct files_struct;
struct fs_struct;
struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
	const struct cred *cred;
	__u64 start_boottime;
	struct files_struct *files;
	struct fs_struct *fs;
};
#pragma clang attribute pop

const volatile struct server_facts server SEC(SERVER_FACTS);

/* The number of a process or thread at this level of PID namespaces; 0 if it is not visible there.
 */
static __always_inline __u32 pid_at(struct pid *pid, __u32 level)
{
	struct upid u;

	if (level > BPF_CORE_READ(pid, level) ||
	    bpf_core_read(&u, sizeof(u), &pid->numbers[level]) != 0)
		return 0;
	return u.nr;
}

struct task_ids {
	__u32 pid, tid;
	__u64 start;
};

/* The current thread's ids in the server's PID namespace; 0 for a process outside of it. */
static __always_inline void current_ids(struct task_ids *ids)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	const __u32 levels = BPF_CORE_READ(pid, level) + 1;

	ids->pid = ids->tid = 0;
	ids->start = BPF_CORE_READ(leader, start_boottime);
	for (__u32 i = 0; i < PID_LEVELS && i < levels; i++) {
		struct upid u;

		if (bpf_core_read(&u, sizeof(u), &pid->numbers[i]) != 0)
			return;
		if (BPF_CORE_READ(u.ns, ns.inum) != server.pid_namespace)
			continue;
		ids->tid = u.nr;
		ids->pid = pid_at(BPF_CORE_READ(leader, thread_pid), i);
		return;
	}
}
