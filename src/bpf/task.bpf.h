// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* bpf/task.bpf.h - types of the kernel, and the session of a process; for kernel programs alone. */
#pragma once
#include "bpf/exec_layout.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
/* The headers of libbpf use the types of linux/bpf.h. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define PID_LEVELS 33 /* the kernel's MAX_PID_NS_LEVEL is 32 */

/* The members that the programs use; libbpf finds their offsets in the running kernel. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct;
struct ns_common {
	unsigned int inum;
};
struct pid_namespace {
	struct ns_common ns;
	struct task_struct *child_reaper;
	struct pid_namespace *parent;
	unsigned int level;
};
struct nsproxy {
	struct pid_namespace *pid_ns_for_children;
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
struct mm_struct {
	unsigned long arg_start, arg_end;
};
struct task_struct {
	struct task_struct *group_leader, *real_parent;
	struct pid *thread_pid;
	const struct cred *cred;
	__u64 start_boottime;
	struct mm_struct *mm;
	struct files_struct *files;
	struct fs_struct *fs;
	struct nsproxy *nsproxy;
	unsigned int ptrace;
};
struct super_block {
	__u32 s_dev;
};
struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};
struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};
struct file {
	unsigned int f_mode;
	void *private_data;
	struct inode *f_inode;
	struct path f_path;
};
#pragma clang attribute pop

/* A map of a server, with a map of type `inner` for each session. */
#define SESSION_MAPS(name, most, key_type, inner)        \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS); \
		__uint(map_flags, BPF_F_NO_PREALLOC);    \
		__uint(max_entries, most);               \
		__type(key, key_type);                   \
		__array(values, inner);                  \
	} name SEC(".maps")

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

/* What `sessions` (SESSION_MAPS by exec_session_key) has of the session, which is looked for by the
 * PID namespaces of the process; of several the outermost one counts. NULL for a process outside of
 * any session, and for process 1 of one: that is agentsh-init. *level: of the session's namespace.
 *
 * The namespace for the children of a process is its own one, or below that. It is reached by
 * pointers whose types the verifier knows, which costs less than copying each of them. */
static __always_inline void *find_session(void *sessions, struct task_struct *task,
					  struct exec_session_key *key, __u32 *level)
{
	struct pid_namespace *ns = task->nsproxy->pid_ns_for_children;
	struct exec_session_key at;
	void *found = NULL;

	for (__u32 i = 1; i < PID_LEVELS && ns->level > 0; i++) {
		struct pid *init = ns->child_reaper->thread_pid;
		void *session;

		at.pid_namespace = ns->ns.inum;
		at.init = pid_at(init, ns->level - 1);
		session = bpf_map_lookup_elem(sessions, &at);
		if (session != NULL) {
			found = init != task->thread_pid ? session : NULL;
			*key = at;
			*level = ns->level;
		}
		ns = ns->parent;
	}
	return found;
}
