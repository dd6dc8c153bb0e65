// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The kernel's side of the exec check: compares each program that a session starts with the
 * warden's want (exec_layout.h), and kills the process before its first instruction if they differ
 * or if there is no want.
 *
 * sched_process_exec runs in the process that called execve, after the new program has been loaded
 * and the other threads have ended. No process can change the file or argv any more, and no
 * instruction of the new program has run.
 *
 * One program serves all sessions of a server. It looks for the session by the PID namespaces of
 * the process, from the outermost one inwards. Process ids are those of the namespace that holds
 * the session's: that is where the server lives, also in a container. Process 1 of a session is
 * agentsh-init and is not checked. */
#include "bpf/exec_layout.h"
#include "bpf/siphash.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
/* The headers of libbpf use the types of linux/bpf.h. */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define SIGKILL 9
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
struct mm_struct {
	unsigned long arg_start, arg_end;
};
struct task_struct {
	struct pid *thread_pid;
	struct mm_struct *mm;
	unsigned int ptrace;
};
struct super_block {
	__u32 s_dev;
};
struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};
struct file {
	struct inode *f_inode;
};
struct linux_binprm {
	struct file *file;
	const char *filename;
};
#pragma clang attribute pop

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct wants {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, EXEC_WANTS_MAX);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(union exec_entry));
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, EXEC_SESSIONS_MAX);
	__type(key, struct exec_session_key);
	__array(values, struct wants);
} sessions SEC(".maps");

/* An empty entry; too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(union exec_entry));
} empty SEC(".maps");

struct argv_hash {
	struct siphash hash;
	__u64 at, left;
};

/* Hashes one whole chunk. It has no branch that depends on the length: the kernel verifies a
 * program by following each of its ways. */
static long hash_chunk(__u32 index, void *arg)
{
	struct argv_hash *h = arg;
	__u64 words[EXEC_ARGV_CHUNK / 8];

	if (h->left < sizeof(words) ||
	    bpf_probe_read_user(words, sizeof(words), (void *)h->at) != 0)
		return 1;
	for (__u32 i = 0; i < EXEC_ARGV_CHUNK / 8; i++)
		siphash_word(&h->hash, words[i]);
	h->at += sizeof(words);
	h->left -= sizeof(words);
	return 0;
}

/* Memory that cannot be read does not compare equal. */
static bool argv_equals(const struct exec_want *want, __u64 start, __u64 len)
{
	struct argv_hash h = {.at = start, .left = len};
	__u64 words[EXEC_ARGV_CHUNK / 8] = {0}, rest = 0;

	siphash_start(&h.hash, want->hash_key);
	bpf_loop(EXEC_ARGV_MAX / EXEC_ARGV_CHUNK, hash_chunk, &h, 0);
	if (h.left >= sizeof(words) || bpf_probe_read_user(words, h.left, (void *)h.at) != 0)
		return false;
	for (__u32 i = 0; i < EXEC_ARGV_CHUNK / 8; i++) {
		if (i == h.left / 8) {
			rest = words[i];
			break;
		}
		siphash_word(&h.hash, words[i]);
	}
	return siphash_end(&h.hash, rest, len) == want->argv_hash;
}

/* The session's map, NULL for a process outside of any session. *process: its id as the warden sees
 * it. */
static void *find_session(struct task_struct *task, __u32 *process)
{
	struct pid *pid = task->thread_pid;
	struct upid inner, outer;
	const __u32 level = pid->level;

	for (__u32 i = 1; i < PID_LEVELS && i <= level; i++) {
		struct exec_session_key key;
		struct pid *init;
		void *wants;

		if (bpf_core_read(&inner, sizeof(inner), &pid->numbers[i]) != 0)
			return NULL;
		init = BPF_CORE_READ(inner.ns, child_reaper, thread_pid);
		if (bpf_core_read(&outer, sizeof(outer), &init->numbers[i - 1]) != 0)
			continue;
		key.pid_namespace = BPF_CORE_READ(inner.ns, ns.inum);
		key.init = outer.nr;
		wants = bpf_map_lookup_elem(&sessions, &key);
		if (wants == NULL)
			continue;
		if (inner.nr == 1)
			return NULL;
		/* A process without an id has no want and is killed. */
		if (bpf_core_read(&outer, sizeof(outer), &pid->numbers[i - 1]) != 0)
			outer.nr = -1;
		*process = outer.nr;
		return wants;
	}
	return NULL;
}

static struct exec_record *find_record(void *wants)
{
	const __u32 key = 0;
	union exec_entry *e = bpf_map_lookup_elem(wants, &key);

	return e != NULL ? &e->record : NULL;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec_check, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	const __u64 start = task->mm->arg_start;
	const struct exec_program loaded = {
		.ino = bprm->file->f_inode->i_ino,
		.dev = bprm->file->f_inode->i_sb->s_dev,
		.argv_len = task->mm->arg_end - start,
	};
	__u32 process = 0;
	void *wants = find_session(task, &process);
	struct exec_record *record;
	union exec_entry *e;
	const __u32 only = 0;

	if (wants == NULL)
		return 0;
	record = find_record(wants);
	e = bpf_map_lookup_elem(wants, &process);
	if (e != NULL &&
	    (e->want.state == EXEC_PASS || (e->want.state == EXEC_STOPS && task->ptrace != 0) ||
	     (e->want.state == EXEC_COMPARE && e->want.decided.ino == loaded.ino &&
	      e->want.decided.dev == loaded.dev && e->want.decided.argv_len == loaded.argv_len &&
	      argv_equals(&e->want, start, loaded.argv_len)))) {
		const bool compared = e->want.state == EXEC_COMPARE;

		/* One that the warden has taken away is not counted: it has given the exec up. */
		if (bpf_map_delete_elem(wants, &process) == 0 && compared && record != NULL)
			__sync_fetch_and_add(&record->done, 1);
		return 0;
	}
	if (record != NULL && record->unchecked != 0)
		return 0;
	bpf_send_signal(SIGKILL);
	if (e == NULL) {
		e = bpf_map_lookup_elem(&empty, &only);
		if (e != NULL)
			bpf_map_update_elem(wants, &process, e, BPF_NOEXIST);
		e = bpf_map_lookup_elem(wants, &process);
	}
	if (e != NULL) {
		e->want.loaded = loaded;
		bpf_probe_read_kernel_str(e->want.loaded_path, EXEC_PATH_MAX, bprm->filename);
		e->want.state = EXEC_MISMATCHED;
	}
	if (record != NULL)
		__sync_fetch_and_add(&record->mismatched, 1);
	return 0;
}
