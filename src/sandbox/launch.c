// SPDX-License-Identifier: Apache-2.0
/* From a leader to a command. The child shares the leader's memory until its exec, so everything
 * that needs memory is made before, and the child makes system calls only. clone(2) and not clone3:
 * a filter lets the latter fail (seccomp cannot read its flags).
 *
 * Who asks has looked for the program already: there is one exec, of a path that nobody can change
 * or of a descriptor. Two secrets go where a system call has no argument any more: the session's
 * with the clone (sandbox/seccomp.h), the command's key with the exec, by which the warden knows
 * it. The child begins by forgetting the first: while it loads its program its registers can be
 * read in /proc. The second is worth nothing by then. */
#include "base/mem.h"
#include "sandbox/leader.h"
#include "sandbox/seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>

#define STACK_BYTES (64 * 1024)

struct launch {
	const struct launch_ask *what;
	char *const *envp;
	struct launch_failure *failure; /* errnum stays 0 once the exec has worked */
};

static int fail(struct launch *l, enum spawn_stage stage)
{
	*l->failure = (struct launch_failure){stage, errno};
	return 127;
}

static void execute(const struct launch *l)
{
	const struct init_spawn *ask = l->what->spawn;

	if (l->what->program >= 0)
		syscall(SYS_execveat, l->what->program, "", ask->argv.v, l->envp, AT_EMPTY_PATH,
			ask->key);
	else
		syscall(SYS_execve, ask->path, ask->argv.v, l->envp, 0L, 0L, ask->key);
}

static int child(void *arg)
{
	struct launch *l = arg;
	const struct init_spawn *ask = l->what->spawn;
	sigset_t none;

	if ((ask->new_session ? setsid() : setpgid(0, 0)) == -1)
		return fail(l, SPAWN_STAGE_FORK);
	if (ask->cwd != NULL && chdir(ask->cwd) < 0)
		return fail(l, SPAWN_STAGE_CWD);
	for (int i = 0; i < 3; i++)
		if (dup2(l->what->fd[i], i) == -1)
			return fail(l, SPAWN_STAGE_STDIO);
	if ((errno = rlimit_apply_files(&l->what->walls->limits)) != 0)
		return fail(l, SPAWN_STAGE_LIMITS);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execute(l);
	return fail(l, SPAWN_STAGE_EXEC);
}

/* clone(2) whose child calls child(l) on a stack of its own and ends with what that returns; the
 * result is the kernel's. The secret is read into its register and nowhere else. */
static long clone_child(struct launch *l, const uint64_t *secret)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
#if defined(__x86_64__)
	register long flags __asm__("rdi") = SECCOMP_OWN_CLONE;
	register char *top __asm__("rsi") = stack + STACK_BYTES;
	register long none1 __asm__("rdx") = 0;
	register long none2 __asm__("r10") = 0;
	register long none3 __asm__("r8") = 0;
	register int (*fn)(void *) __asm__("r12") = child;
	register struct launch *arg __asm__("r13") = l;
	long r = SYS_clone;

	__asm__ volatile("mov (%[secret]), %%r9\n\t"
			 "syscall\n\t"
			 "xor %%r9d, %%r9d\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %[arg], %%rdi\n\t"
			 "call *%[fn]\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[leave], %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "+a"(r), "+r"(flags), "+r"(top)
			 : "r"(none1), "r"(none2), "r"(none3), [fn] "r"(fn), [arg] "r"(arg),
			   [secret] "r"(secret), [leave] "i"(SYS_exit)
			 : "rcx", "r9", "r11", "memory", "cc");
	return r;
#elif defined(__aarch64__)
	register long r __asm__("x0") = SECCOMP_OWN_CLONE;
	register char *top __asm__("x1") = stack + STACK_BYTES;
	register long none1 __asm__("x2") = 0;
	register long none2 __asm__("x3") = 0;
	register long none3 __asm__("x4") = 0;
	register long number __asm__("x8") = SYS_clone;
	register int (*fn)(void *) __asm__("x20") = child;
	register struct launch *arg __asm__("x21") = l;

	__asm__ volatile("ldr x5, [%[secret]]\n\t"
			 "svc #0\n\t"
			 "mov x5, #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, #0\n\t"
			 "mov x0, %[arg]\n\t"
			 "blr %[fn]\n\t"
			 "mov x8, %[leave]\n\t"
			 "svc #0\n\t"
			 "brk #0\n"
			 "1:"
			 : "+r"(r), "+r"(top), "+r"(number)
			 : "r"(none1), "r"(none2), "r"(none3), [fn] "r"(fn), [arg] "r"(arg),
			   [secret] "r"(secret), [leave] "i"(SYS_exit)
			 : "x5", "x30", "memory", "cc");
	return r;
#endif
}

pid_t launch_command(const struct launch_ask *what, struct launch_failure *failure)
{
	static char *const empty[] = {NULL};
	const struct init_spawn *ask = what->spawn;
	struct launch l = {what, ask->env.n > 0 ? ask->env.v : empty, failure};
	long pid;

	*failure = (struct launch_failure){SPAWN_STAGE_EXEC, EINVAL};
	if (ask->argv.n == 0 || ask->path == NULL || ask->path[0] == '\0')
		return -1;
	failure->errnum = 0;
	pid = clone_child(&l, &what->walls->secret);
	if (pid < 0)
		*failure = (struct launch_failure){SPAWN_STAGE_FORK, (int)-pid};
	return failure->errnum != 0 ? -1 : (pid_t)pid;
}
