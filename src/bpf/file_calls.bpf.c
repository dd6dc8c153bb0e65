// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* Counts bytes and records path calls of sessions when a system call ends; file_layout.h has the
 * maps. Every process of the machine runs into this program at the end of every system call, so it
 * leaves first by the number of the call, then by the level of the PID namespace, then by the uid.
 *
 * The kernel calls the program with preemption disabled, so no other call on the same CPU uses the
 * scratch entry at the same time. */
#include "bpf/exec_layout.h"
#include "bpf/file_layout.h"
#include "bpf/task_ids.bpf.h"
#include <asm/unistd.h>
#include <bpf/bpf_tracing.h>

#define AT_FDCWD (-100)
#define AT_REMOVEDIR 0x200
#define AT_SYMLINK_NOFOLLOW 0x100
#define O_WRONLY 01 /* these three are the same on all architectures that agentsh runs on */
#define O_CREAT 0100
#define O_TRUNC 01000
#define EPERM 1
#define EBADF 9
#define EACCES 13
#define EROFS 30
#define FMODE_CREATED (1 << 20)
#define FMODE_WRITE 2
#define MAP_SHARED 1 /* also a bit of MAP_SHARED_VALIDATE */
#define MAP_ANONYMOUS 0x20
#define NAME_MAX 255
#define COMPONENTS_MAX (FILE_PATH_MAX / 2)
#define ANCESTORS_MAX 512
#ifndef __NR_fchmodat2 /* newer than the headers of some machines */
#define __NR_fchmodat2 452
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#define __NR_removexattrat 466
#endif
#define CALLS 512 /* a power of two above the largest number in the table */

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 orig_x0;
	__s32 syscallno;
};
#else
struct pt_regs {
	unsigned long r10, r9, r8, dx, si, di, orig_ax;
};
#endif
struct qstr {
	__u32 len;
	const unsigned char *name;
};
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};
struct vfsmount {
	struct dentry *mnt_root;
};
struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};
struct fs_struct {
	struct path root, pwd;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
#pragma clang attribute pop

/* ---- the table of system calls ---- */

enum call_kind { CALL_NONE, CALL_READ, CALL_WRITE, CALL_COPY, CALL_MAP, CALL_PATH };

/* Numbers of arguments are 1 to 6; 0 means none. */
struct call_row {
	__u8 kind;
	__u8 operation;	  /* enum file_operation */
	__u8 from, to;	  /* CALL_COPY: descriptors */
	__u8 dir, path;	  /* dir 0: the current directory */
	__u8 dir2, path2; /* DIR_NONE: a text that is not a path */
	__u8 flags, how;  /* how: pointer to struct open_how, which begins with the flags */
	__u16 fixed;	  /* flags of a call that has no such argument */
};
#define DIR_NONE 7
#define BYTES(k)            \
	{                   \
		.kind = (k) \
	}
#define COPY(in, out)                                        \
	{                                                    \
		.kind = CALL_COPY, .from = (in), .to = (out) \
	}
#define PATH(op, d, p, ...)                                                                \
	{                                                                                  \
		.kind = CALL_PATH, .operation = (op), .dir = (d), .path = (p), __VA_ARGS__ \
	}

static const struct call_row calls[CALLS] = {
	[__NR_read] = BYTES(CALL_READ),
	[__NR_pread64] = BYTES(CALL_READ),
	[__NR_readv] = BYTES(CALL_READ),
	[__NR_preadv] = BYTES(CALL_READ),
	[__NR_preadv2] = BYTES(CALL_READ),
	[__NR_write] = BYTES(CALL_WRITE),
	[__NR_pwrite64] = BYTES(CALL_WRITE),
	[__NR_writev] = BYTES(CALL_WRITE),
	[__NR_pwritev] = BYTES(CALL_WRITE),
	[__NR_pwritev2] = BYTES(CALL_WRITE),
	[__NR_sendfile] = COPY(2, 1),
	[__NR_splice] = COPY(1, 3),
	[__NR_copy_file_range] = COPY(1, 3),
	[__NR_mmap] = BYTES(CALL_MAP),
	[__NR_openat] = PATH(FILE_OPEN, 1, 2, .flags = 3),
	[__NR_openat2] = PATH(FILE_OPEN, 1, 2, .how = 3),
	[__NR_unlinkat] = PATH(FILE_UNLINK, 1, 2, .flags = 3),
	[__NR_renameat2] = PATH(FILE_RENAME, 1, 2, .dir2 = 3, .path2 = 4, .flags = 5),
	[__NR_linkat] = PATH(FILE_LINK, 1, 2, .dir2 = 3, .path2 = 4, .flags = 5),
	[__NR_symlinkat] = PATH(FILE_SYMLINK, 2, 3, .dir2 = DIR_NONE, .path2 = 1),
	[__NR_mkdirat] = PATH(FILE_MKDIR, 1, 2),
	[__NR_mknodat] = PATH(FILE_MKNOD, 1, 2),
	[__NR_fchmodat] = PATH(FILE_CHMOD, 1, 2),
	[__NR_fchmodat2] = PATH(FILE_CHMOD, 1, 2),
	[__NR_fchownat] = PATH(FILE_CHOWN, 1, 2),
	[__NR_truncate] = PATH(FILE_TRUNCATE, 0, 1),
	[__NR_utimensat] = PATH(FILE_UTIMES, 1, 2),
	[__NR_setxattr] = PATH(FILE_XATTR, 0, 1),
	[__NR_lsetxattr] = PATH(FILE_XATTR, 0, 1),
	[__NR_setxattrat] = PATH(FILE_XATTR, 1, 2),
	[__NR_removexattrat] = PATH(FILE_XATTR, 1, 2),
	[__NR_removexattr] = PATH(FILE_XATTR, 0, 1),
	[__NR_lremovexattr] = PATH(FILE_XATTR, 0, 1),
	[__NR_newfstatat] = PATH(FILE_STAT, 1, 2, .flags = 4),
	[__NR_statx] = PATH(FILE_STAT, 1, 2, .flags = 3),
#ifdef __NR_open /* newer architectures have only the calls above */
	[__NR_open] = PATH(FILE_OPEN, 0, 1, .flags = 2),
	[__NR_creat] = PATH(FILE_OPEN, 0, 1, .fixed = O_CREAT | O_WRONLY | O_TRUNC),
	[__NR_unlink] = PATH(FILE_UNLINK, 0, 1),
	[__NR_rmdir] = PATH(FILE_UNLINK, 0, 1, .fixed = AT_REMOVEDIR),
	[__NR_rename] = PATH(FILE_RENAME, 0, 1, .path2 = 2),
	[__NR_renameat] = PATH(FILE_RENAME, 1, 2, .dir2 = 3, .path2 = 4),
	[__NR_link] = PATH(FILE_LINK, 0, 1, .path2 = 2),
	[__NR_symlink] = PATH(FILE_SYMLINK, 0, 2, .dir2 = DIR_NONE, .path2 = 1),
	[__NR_mkdir] = PATH(FILE_MKDIR, 0, 1),
	[__NR_mknod] = PATH(FILE_MKNOD, 0, 1),
	[__NR_chmod] = PATH(FILE_CHMOD, 0, 1),
	[__NR_chown] = PATH(FILE_CHOWN, 0, 1),
	[__NR_lchown] = PATH(FILE_CHOWN, 0, 1),
	[__NR_utime] = PATH(FILE_UTIMES, 0, 1),
	[__NR_utimes] = PATH(FILE_UTIMES, 0, 1),
	[__NR_stat] = PATH(FILE_STAT, 0, 1),
	[__NR_lstat] = PATH(FILE_STAT, 0, 1, .fixed = AT_SYMLINK_NOFOLLOW),
	[__NR_futimesat] = PATH(FILE_UTIMES, 1, 2),
#endif
};

/* ---- maps ---- */

struct session_slots {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, FILE_SLOTS_MAX);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct file_slot));
};
SESSION_MAPS(slots, FILE_SESSIONS_MAX, struct exec_session_key, struct session_slots);

struct session_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, FILE_RING_BYTES);
};
SESSION_MAPS(rings, FILE_SESSIONS_MAX, struct exec_session_key, struct session_ring);

#define TEXTS_MAX (4 * FILE_PATH_MAX)
struct scratch_call {
	struct file_call call;
	char text[TEXTS_MAX +
		  FILE_PATH_MAX]; /* the verifier adds the largest text to the largest offset */
	__u32 used;		  /* bytes of text */
	__u64 inside;		  /* a path leads through the record's root, or may do so */
	__u64 root_ino;
	__u32 root_dev;
	char walk[FILE_PATH_MAX + NAME_MAX + 1]; /* a path, written from its end */
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch_call);
} scratch SEC(".maps");

static struct scratch_call *scratch_get(void)
{
	const __u32 only = 0;

	return bpf_map_lookup_elem(&scratch, &only);
}

/* ---- files ---- */

static struct file *file_of(struct task_struct *task, __s32 fd)
{
	struct fdtable *table = task->files->fdt;
	struct file *file = NULL;

	if (fd < 0 || (__u32)fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + fd);
	return file;
}

static __u32 slot_of(const struct file *file)
{
	const __u64 mixed = (__u64)file * 0x9e3779b97f4a7c15;

	return (__u32)(mixed >> 40) % (FILE_SLOTS_MAX - 1) + 1;
}

/* The same without FUSE. */
static struct file_bytes *bytes_of_opened(void *session, struct file *file)
{
	const __u32 index = slot_of(file);
	struct file_slot *slot = bpf_map_lookup_elem(session, &index);

	/* another file may have the address by now */
	return slot != NULL && slot->bytes.file == (__u64)file &&
			       slot->bytes.ino == BPF_CORE_READ(file, f_inode, i_ino)
		       ? &slot->bytes
		       : NULL;
}

/* The counts of an open file, NULL if it is not counted. fuse_dev 0: there is no FUSE mount. */
static struct file_bytes *bytes_of(struct task_struct *task, void *session, __u32 fuse_dev,
				   __s32 fd)
{
	struct file *file = file_of(task, fd);
	struct file_slot *slot;
	__u64 handle = 0;
	__u32 index;
	char *of_fuse;

	if (file == NULL)
		return NULL;
	if (fuse_dev == 0)
		return bytes_of_opened(session, file);
	if (BPF_CORE_READ(file, f_inode, i_sb, s_dev) != fuse_dev)
		return NULL;
	of_fuse = BPF_CORE_READ(file, private_data);
	if (server.fuse_file_handle == 0 ||
	    bpf_probe_read_kernel(&handle, sizeof(handle), of_fuse + server.fuse_file_handle) !=
		    0 ||
	    handle == 0 || handle >= FILE_SLOTS_MAX)
		return NULL;
	index = handle;
	slot = bpf_map_lookup_elem(session, &index);
	return slot != NULL ? &slot->bytes : NULL;
}

struct session_of {
	void *slots;
	struct exec_session_key key;
	__u32 level; /* of its PID namespace */
};

struct finished_call {
	const struct call_row *row;
	__u64 arg[8]; /* 1 to 6 */
	__s64 result;
};

static void count_bytes(struct task_struct *task, void *session, __u32 dev,
			const struct finished_call *f)
{
	const bool copies = f->row->kind == CALL_COPY;
	const __s32 from = f->arg[copies ? f->row->from & 7 : 1];
	const __s32 to = f->arg[copies ? f->row->to & 7 : 1];
	struct file_bytes *b;
	struct file *file;
	bool writes;

	if (f->result <= 0 || (f->row->kind == CALL_MAP && (f->arg[4] & MAP_ANONYMOUS) != 0))
		return;
	if (f->row->kind == CALL_MAP) {
		file = file_of(task, f->arg[5]);
		b = bytes_of(task, session, dev, f->arg[5]);
		/* mprotect may allow later what mmap did not ask for */
		writes = (f->arg[4] & MAP_SHARED) != 0 &&
			 (BPF_CORE_READ(file, f_mode) & FMODE_WRITE) != 0;
		if (b != NULL)
			b->mapped |= FILE_MAPPED_READ | (writes ? FILE_MAPPED_WRITE : 0);
		return;
	}
	if (f->row->kind != CALL_WRITE) {
		b = bytes_of(task, session, dev, from);
		if (b != NULL)
			__sync_fetch_and_add(&b->read, f->result);
	}
	if (f->row->kind != CALL_READ) {
		b = bytes_of(task, session, dev, to);
		if (b != NULL)
			__sync_fetch_and_add(&b->written, f->result);
	}
}

/* ---- paths ---- */

struct path_walk {
	struct dentry *dentry, *root_dentry;
	struct vfsmount *mnt, *root_mnt;
	__u32 at; /* begin of the path in scratch_call.walk */
	bool done;
};

/* Adds the name of one directory before what is there. */
static long walk_up(__u32 index, void *arg)
{
	struct path_walk *w = arg;
	struct dentry *dentry = w->dentry, *parent = BPF_CORE_READ(dentry, d_parent);
	struct vfsmount *mnt = w->mnt;
	struct scratch_call *s = scratch_get();
	struct mount *mount = (void *)((char *)mnt - bpf_core_field_offset(struct mount, mnt));
	const unsigned char *name;
	__u32 len, at;

	if (s == NULL || w->done)
		return 1;
	w->done = dentry == w->root_dentry && mnt == w->root_mnt;
	if (!w->done && (dentry == parent || dentry == BPF_CORE_READ(mnt, mnt_root))) {
		if (((BPF_CORE_READ(dentry, d_inode, i_ino) ^ s->root_ino) |
		     (BPF_CORE_READ(dentry, d_inode, i_sb, s_dev) ^ s->root_dev)) == 0)
			s->inside = 1; /* in a map, or the verifier would follow both ways */
		w->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		w->done = mount == BPF_CORE_READ(mount, mnt_parent);
		mount = BPF_CORE_READ(mount, mnt_parent);
		w->mnt = (void *)((char *)mount + bpf_core_field_offset(struct mount, mnt));
		return 0;
	}
	len = BPF_CORE_READ(dentry, d_name.len);
	name = BPF_CORE_READ(dentry, d_name.name);
	at = w->at - len;
	if (w->done || len > NAME_MAX || at >= FILE_PATH_MAX || at < 1)
		return 1;
	bpf_probe_read_kernel(s->walk + at, len, name);
	if (len != BPF_CORE_READ(dentry, d_name.len) || name != BPF_CORE_READ(dentry, d_name.name))
		return 0; /* it is being renamed: once more */
	s->walk[at - 1] = '/';
	w->at = at - 1;
	w->dentry = parent;
	return 0;
}

/* Adds n bytes of text to the record; returns how many it added, or -errno. */
static long add_text(struct scratch_call *s, const char *from, __u32 n, bool user)
{
	const __u32 at = s->used;
	long got;

	if (at > TEXTS_MAX || n > FILE_PATH_MAX)
		return 0;
	if (user)
		got = bpf_probe_read_user_str(s->text + at, n, from) - 1;
	else
		got = bpf_probe_read_kernel(s->text + at, n, from) == 0 ? n : 0;
	if (got < 0 || got > FILE_PATH_MAX)
		return -1;
	s->used = at + got;
	return got;
}

static __u32 add_path(struct task_struct *task, struct scratch_call *s, const struct path *path)
{
	struct path_walk w = {.at = FILE_PATH_MAX};

	w.dentry = BPF_CORE_READ(path, dentry);
	w.mnt = BPF_CORE_READ(path, mnt);
	w.root_dentry = BPF_CORE_READ(task, fs, root.dentry);
	w.root_mnt = BPF_CORE_READ(task, fs, root.mnt);
	bpf_loop(COMPONENTS_MAX, walk_up, &w, 0);
	if (!w.done)
		s->call.cut |= FILE_CUT_BASE;
	if (w.done && w.at == FILE_PATH_MAX) {
		s->walk[FILE_PATH_MAX - 1] = '/'; /* the root itself */
		w.at--;
	}
	if (w.at > FILE_PATH_MAX)
		return 0;
	return add_text(s, s->walk + w.at, FILE_PATH_MAX - w.at, false);
}

/* Adds the directory that a relative argument begins from, and the argument. */
static void add_argument(struct task_struct *task, struct scratch_call *s,
			 const struct finished_call *f, __u32 which)
{
	const __u8 dir = which == 1 ? f->row->dir2 : f->row->dir;
	const __u8 path = which == 1 ? f->row->path2 : f->row->path;
	const char *text = (const char *)f->arg[path & 7];
	const __s32 fd = dir == 0 ? AT_FDCWD : (__s32)f->arg[dir & 7];
	struct file *file;
	__u32 base = 0;
	char first = 0;
	long argument;

	bpf_probe_read_user(&first, sizeof(first), text);
	s->inside |= dir != DIR_NONE && first == '/';
	if (dir != DIR_NONE && first != '/' && fd == AT_FDCWD) {
		base = add_path(task, s, &task->fs->pwd);
	} else if (dir != DIR_NONE && first != '/') {
		file = file_of(task, fd);
		if (file != NULL)
			base = add_path(task, s, &file->f_path);
		else if (f->result != -EBADF) /* another thread has closed it */
			s->call.cut |= FILE_CUT_BASE;
	}
	argument = add_text(s, text, FILE_PATH_MAX, true);
	if (argument < 0 && text != NULL) /* the call itself may have taken it away */
		s->call.cut |= FILE_CUT_UNREAD << (which & 1);
	if (argument == FILE_PATH_MAX - 1)
		s->call.cut |= FILE_CUT_ARGUMENT;
	s->call.path[which & 1].base_len = base;
	s->call.path[which & 1].argument_len = argument > 0 ? argument : 0;
}

struct ancestor_walk {
	struct task_struct *task;
	__u32 level; /* of the session's PID namespace */
	bool done;
};

static long walk_to_top(__u32 index, void *arg)
{
	struct ancestor_walk *w = arg;
	struct task_struct *task = w->task;
	struct task_struct *parent = BPF_CORE_READ(task, real_parent, group_leader);

	w->done = pid_at(BPF_CORE_READ(parent, thread_pid), w->level) == 1;
	if (w->done)
		return 1;
	w->task = parent;
	return 0;
}

/* The leader of the process's command. */
static __u32 top_of(struct task_struct *task, __u32 session_level, __u32 server_level)
{
	struct ancestor_walk w = {.task = task, .level = session_level};

	bpf_loop(ANCESTORS_MAX, walk_to_top, &w, 0);
	task = w.task;
	return w.done ? pid_at(BPF_CORE_READ(task, thread_pid), server_level) : 0;
}

/* The file is counted from now on. */
static void count_opened(struct scratch_call *s, void *slots_of_session, struct file *file)
{
	const __u32 index = slot_of(file);
	struct file_slot *slot = bpf_map_lookup_elem(slots_of_session, &index);

	if (slot == NULL)
		return;
	s->call.slot = index;
	s->call.before = slot->bytes;
	s->call.exact = slot->bytes.file == (__u64)file;
	slot->bytes = (struct file_bytes){
		.opens = s->call.before.opens + 1, .file = (__u64)file, .ino = s->call.ino};
}

static void record_call(struct task_struct *task, const struct session_of *session,
			struct file_record *record, const struct finished_call *f)
{
	const struct call_row *row = f->row;
	const bool refused = f->result == -EACCES || f->result == -EPERM || f->result == -EROFS;
	const __u32 want = f->result >= 0 ? FILE_WANT_DONE
			   : refused	  ? FILE_WANT_REFUSED
					  : FILE_WANT_FAILED;
	struct scratch_call *s = scratch_get();
	struct file *file = NULL;
	struct task_ids ids;
	void *ring;
	__u64 flags;
	__u32 used;

	if ((record->record & want) == 0 || s == NULL ||
	    (row->operation == FILE_STAT &&
	     (want == FILE_WANT_DONE || (record->record & FILE_WANT_STAT) == 0)))
		return;
	ring = bpf_map_lookup_elem(&rings, &session->key);
	if (ring == NULL)
		return;
	current_ids(&ids);
	flags = row->flags != 0 ? f->arg[row->flags & 7] : row->fixed;
	if (row->how != 0)
		bpf_probe_read_user(&flags, sizeof(flags), (void *)f->arg[row->how & 7]);
	s->call = (struct file_call){
		.time = bpf_ktime_get_boot_ns(),
		.start = ids.start,
		.pid = ids.pid,
		.tid = ids.tid,
		.top = top_of(BPF_CORE_READ(task, group_leader), session->level, ids.level),
		.result = f->result,
		.flags = flags,
		.operation = row->operation,
		.path_source = FILE_PATH_ARGUMENT,
	};
	s->used = 0;
	s->inside = record->root_ino == 0 || refused;
	s->root_ino = record->root_ino;
	s->root_dev = record->root_dev;
	if (row->operation == FILE_OPEN && f->result >= 0)
		file = file_of(task, f->result);
	if (file != NULL) {
		s->call.path_source = FILE_PATH_RESOLVED;
		s->call.ino = BPF_CORE_READ(file, f_inode, i_ino);
		s->call.dev = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
		s->call.created = (BPF_CORE_READ(file, f_mode) & FMODE_CREATED) != 0;
		s->call.path[0].base_len = add_path(task, s, &file->f_path);
	} else {
		add_argument(task, s, f, 0);
		if (row->path2 != 0)
			add_argument(task, s, f, 1);
	}
	if (!s->inside && (s->call.cut & ~FILE_CUT_ARGUMENT) == 0)
		return;
	if (file != NULL && record->count_opened)
		count_opened(s, session->slots, file);
	used = s->used;
	if (used > TEXTS_MAX)
		return;
	if (bpf_ringbuf_output(ring, s, sizeof(s->call) + used, 0) == 0)
		__sync_fetch_and_add(&record->recorded, 1);
	else
		__sync_fetch_and_add(&record->dropped, 1);
}

/* ---- the program ---- */

static void read_arguments(const struct pt_regs *regs, struct finished_call *f)
{
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
	f->arg[1] = regs->orig_x0; /* regs[0] is the result */
	f->arg[2] = regs->regs[1];
	f->arg[3] = regs->regs[2];
	f->arg[4] = regs->regs[3];
	f->arg[5] = regs->regs[4];
	f->arg[6] = regs->regs[5];
#else
	f->arg[1] = regs->di;
	f->arg[2] = regs->si;
	f->arg[3] = regs->dx;
	f->arg[4] = regs->r10;
	f->arg[5] = regs->r8;
	f->arg[6] = regs->r9;
#endif
}

/* Returns 1 for a process of a session. Not inlined: processes outside of sessions must not pay for
 * its stack. */
static __noinline int finished(struct task_struct *task, struct pt_regs *regs, __u32 number,
			       long result)
{
	const __u32 first = 0;
	struct finished_call f = {.result = result};
	struct session_of of = {.level = 0};
	struct file_slot *slot;
	void *session = find_session(&slots, task, &of.key, &of.level);

	if (session == NULL || number >= CALLS)
		return 0;
	slot = bpf_map_lookup_elem(session, &first);
	if (slot == NULL)
		return 0;
	of.slots = session;
	f.row = &calls[number];
	read_arguments(regs, &f);
	if (f.row->kind == CALL_PATH)
		record_call(task, &of, &slot->record, &f);
	else if (slot->record.fuse_dev != 0 || slot->record.count_opened)
		count_bytes(task, session, slot->record.fuse_dev, &f);
	return 1;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(file_calls, struct pt_regs *regs, long result)
{
#if defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
	const __u64 number = regs->syscallno;
#else
	const __u64 number = regs->orig_ax;
#endif
	struct task_struct *task;
	__u32 uid;

	if (number >= CALLS || calls[number].kind == CALL_NONE)
		return 0;
	task = (void *)bpf_get_current_task_btf();
	if (task->thread_pid->level == 0)
		return 0;
	uid = task->cred->uid.val;
	return uid >= server.uid_first && uid <= server.uid_last
		       ? finished(task, regs, number, result)
		       : 0;
}
