// SPDX-License-Identifier: Apache-2.0
#include "exec/trace.h"
#include "base/mem.h"
#include "base/proc.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

/* Without a filter both calls fail with ESRCH, because the process does not exist. */
int trace_available(void)
{
	const pid_t missing = INT_MAX;
	struct iovec none = {0};
	char scope = '0';
	cleanup_fd int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, &scope, 1) == 1 && scope == '3')
		return EPERM;
	if (ptrace(PTRACE_SEIZE, missing, NULL, NULL) == -1 && errno != ESRCH)
		return errno;
	if (process_vm_readv(missing, &none, 1, &none, 1, 0) == -1 && errno != ESRCH)
		return errno;
	return 0;
}

bool trace_has(pid_t tid)
{
	static const char field[] = "\nTracerPid:";
	cleanup_fd int fd = caller_open(tid, "status", O_RDONLY);
	char text[4096] = "";
	const char *at = NULL;

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		at = strstr(text, field);
	return at != NULL && atoi(at + strlen(field)) == gettid();
}

enum trace_place trace_where(pid_t tid)
{
	cleanup_fd int fd = caller_open(tid, "syscall", O_RDONLY);
	char text[16] = "";

	if (fd < 0)
		return fd == -ENOENT ? TRACE_ELSEWHERE : TRACE_RUNNING;
	if (read(fd, text, sizeof(text) - 1) <= 0)
		return errno == ESRCH ? TRACE_ELSEWHERE : TRACE_RUNNING;
	if (text[0] == 'r') /* "running" */
		return TRACE_RUNNING;
	return atoi(text) == SYS_execve || atoi(text) == SYS_execveat ? TRACE_LOADING
								      : TRACE_ELSEWHERE;
}

/* ---- comparing ---- */

/* The stream is want, and what args has behind it by its hash alone. */
static bool stream_matches(int fd, const struct buf *want, const struct args *args)
{
	uint8_t chunk[16384], hash[HASH_LEN];
	struct sha256_ctx sum;
	size_t pos = 0, rest = 0;
	ssize_t n;

	sha256_init(&sum);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		const size_t left = want->len - pos;
		const size_t part = (size_t)n < left ? (size_t)n : left;

		if (memcmp(chunk, want->data + pos, part) != 0)
			return false;
		pos += part;
		rest += (size_t)n - part;
		sha256_update(&sum, (size_t)n - part, chunk + part);
	}
	sha256_digest(&sum, sizeof(hash), hash);
	return n == 0 && pos == want->len && rest == args->rest &&
	       (!args->cut || memcmp(hash, args->hash, sizeof(hash)) == 0);
}

enum trace_match trace_compare(pid_t pid, const struct image *image, const char *argv0,
			       const struct args *args)
{
	cleanup_fd int fd = caller_open(pid, "cmdline", O_RDONLY);
	cleanup_buf struct buf want = {0}; /* the new argv begins with it; all of it unless cut */

	if (fd < 0 || proc_exe_is(pid, image->dev, image->ino) != 1)
		return TRACE_OTHER_PROGRAM;
	image_new_argv(image, argv0, args, &want);
	return stream_matches(fd, &want, args) ? TRACE_SAME : TRACE_OTHER_ARGS;
}

/* ---- replacing ---- */

#if defined(__x86_64__)
#define TAIL_MAX 8192	  /* pointers; the kernel gives a new stack 128 KiB of room */
#define USER_CODE_64 0x33 /* %cs of a 64-bit program */
#define RED_ZONE 128

/* mov $59,%eax; syscall; ud2. The number cannot be set as a register: the exec that is ending puts
 * its own result there. Only a failed execve comes to the ud2. */
static const uint8_t call_execve[16] = {0xb8, SYS_execve, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b};

static bool write_bytes(pid_t pid, const void *from, uint64_t to, size_t n)
{
	const struct iovec local = {(void *)(uintptr_t)from, n},
			   remote = {(void *)(uintptr_t)to, n};

	return process_vm_writev(pid, &local, 1, &remote, 1, 0) == (ssize_t)n;
}

/* Below the stack pointer: the new argv, and the path. The arguments stay where they are. */
static bool write_call(pid_t pid, const char *path, size_t ntail, struct user_regs_struct *regs)
{
	const size_t len = strlen(path) + 1;
	cleanup_free uint64_t *argv = mem_resize(NULL, ntail + 2, sizeof(*argv));
	const uint64_t array = (regs->rsp - RED_ZONE - (ntail + 2) * sizeof(*argv)) & ~15ul;
	const uint64_t text = (array - len) & ~15ul;
	uint64_t argc;

	if (caller_read(pid, regs->rsp, &argc, sizeof(argc)) != 0 || ntail > argc)
		return false;
	argv[0] = text;
	argv[ntail + 1] = 0;
	if (caller_read(pid, regs->rsp + 8 * (1 + argc - ntail), argv + 1, 8 * ntail) != 0 ||
	    !write_bytes(pid, argv, array, (ntail + 2) * sizeof(*argv)) ||
	    !write_bytes(pid, path, text, len))
		return false;
	regs->rdi = text;
	regs->rsi = array;
	regs->rdx = regs->rsp + 8 * (argc + 2);
	regs->rsp = text - RED_ZONE;
	return true;
}

int trace_inject(pid_t pid, const char *path, size_t ntail)
{
	struct user_regs_struct regs;

	if (ntail > TAIL_MAX)
		return E2BIG;
	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs) == -1)
		return errno;
	if (regs.cs != USER_CODE_64)
		return ENOTSUP;
	if (!write_call(pid, path, ntail, &regs))
		return EFAULT;
	for (size_t i = 0; i < sizeof(call_execve); i += sizeof(long)) {
		long word;

		memcpy(&word, call_execve + i, sizeof(word));
		if (ptrace(PTRACE_POKETEXT, pid, (void *)(uintptr_t)(regs.rip + i), word) == -1)
			return EFAULT;
	}
	if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) == -1 ||
	    ptrace(PTRACE_CONT, pid, NULL, NULL) == -1)
		return errno;
	return 0;
}
#else
int trace_inject(pid_t pid, const char *path, size_t ntail)
{
	return ENOTSUP;
}
#endif
