// SPDX-License-Identifier: Apache-2.0
/* prog/bare.h - the entry and the system calls of a program without libc. Such a program has no
 * thread area, so it is built without the stack protector, and nothing may call libc (meson.build
 * links it with -nostdlib). Other architectures than the two here use libc's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

/* Returns the exit code. */
int bare_main(int argc, char *const argv[], char *const env[]);

#if defined(__x86_64__)
/* The result, or -errno. */
static inline long bare_call(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return r;
}
__asm__(".text\n.globl _start\n.type _start, @function\n"
	"_start: xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall bare_start\nhlt\n");
#elif defined(__aarch64__)
static inline long bare_call(long nr, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
}
__asm__(".text\n.globl _start\n.type _start, %function\n"
	"_start: mov x29, #0\nmov x30, #0\nmov x0, sp\nbl bare_start\nbrk #1\n");
#else
#include <errno.h>
#include <unistd.h>

static inline long bare_call(long nr, long a, long b, long c, long d, long e)
{
	const long r = syscall(nr, a, b, c, d, e);

	return r == -1 ? -errno : r;
}
int main(int argc, char *argv[], char *env[])
{
	return bare_main(argc, argv, env);
}
#define BARE_LIBC
#endif

#ifndef BARE_LIBC
/* What the kernel puts on the stack: argc, argv, NULL, the environment, NULL. */
__attribute__((used, noreturn)) static void bare_start(long *stack)
{
	const int argc = (int)stack[0];
	char *const *argv = (char *const *)(stack + 1);

	for (;;)
		bare_call(SYS_exit_group, bare_main(argc, argv, argv + argc + 1), 0, 0, 0, 0);
}
#endif

static inline size_t bare_length(const char *s)
{
	size_t n = 0;

	while (s[n] != '\0')
		n++;
	return n;
}

static inline bool bare_begins(const char *s, const char *with)
{
	while (*with != '\0' && *s == *with)
		s++, with++;
	return *with == '\0';
}
