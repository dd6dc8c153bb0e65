// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The kernel's side of the exec check: compares each program that a session starts with the
 * warden's want (exec_layout.h), and kills the process before its first instruction if they differ
 * or if there is no want.
 *
 * sched_process_exec runs in the process that called execve, after the new program has been loaded
 * and the other threads have ended. No process can change the file or argv any more, and no
 * instruction of the new program has run.
 *
 * One program serves all sessions of a server. Process ids are those of the namespace that holds
 * the session's: that is where the server lives, also in a container. */
#include "bpf/exec_layout.h"
#include "bpf/siphash.h"
#include "bpf/task.bpf.h"
#include <bpf/bpf_tracing.h>

#define SIGKILL 9

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
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

SESSION_MAPS(sessions, EXEC_SESSIONS_MAX, struct exec_session_key, struct wants);

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
	struct exec_session_key key;
	__u32 level = 1, process;
	void *wants = find_session(&sessions, task, &key, &level);
	struct exec_record *record;
	union exec_entry *e;
	const __u32 only = 0;

	if (wants == NULL)
		return 0;
	process = pid_at(task->thread_pid, level - 1);
	if (process == 0)
		process = -1; /* a process without an id has no want and is killed */
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
