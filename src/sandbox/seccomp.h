// SPDX-License-Identifier: Apache-2.0
/* sandbox/seccomp.h - the wall of system calls: a program made from seccomp_table.c, and its
 * loading.
 *
 * Besides the table: a call of another architecture or of x32 kills the process; a call that is
 * newer than the table fails with ENOSYS, as on the kernel that the table was written for.
 * Building is pure. Loading is a raw system call, for agentsh-init: the last thing before READY,
 * behind no_new_privs. It holds for every process that init starts. */
#pragma once
#include "base/err.h"
#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECCOMP_PROGRAM_MAX 768
struct seccomp_program {
	size_t n;
	struct sock_filter code[SECCOMP_PROGRAM_MAX];
};
/* SECCOMP_EXECS: execve and execveat are asked of the listener; else they are allowed.
 * SECCOMP_SHARED: the rows for a session that shares the machine's namespaces as well. */
enum { SECCOMP_EXECS = 1, SECCOMP_SHARED = 2 };
void seccomp_build(unsigned what, struct seccomp_program *out);

/* Puts the program on the calling thread and all that it starts. With listener_fd the filter has a
 * listener (close-on-exec, owned by the caller), whose waiting callers only a fatal signal
 * interrupts. E_ENFORCEMENT, subject "seccomp", or "exec_policy" where the listener is what cannot
 * be had. */
int seccomp_load(const struct sock_filter *code, size_t n, int *listener_fd, struct err *err);
