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
/* SECCOMP_EXECS: the listener decides about execve and execveat; else they are allowed.
 * SECCOMP_SHARED: the rows for a session that shares the machine's namespaces as well.
 * SECCOMP_HOLDS, with SECCOMP_EXECS: calls that change a directory or attributes wait
 * there for an approver. */
enum { SECCOMP_EXECS = 1, SECCOMP_SHARED = 2, SECCOMP_HOLDS = 4 };
void seccomp_build(unsigned what, struct seccomp_program *out);

/* Puts the program on the calling thread and all that it starts. With listener_fd the filter has a
 * listener (close-on-exec, owned by the caller); only a fatal signal interrupts a caller that waits
 * for it. E_ENFORCEMENT, subject "seccomp", or "exec_policy" if the listener fails. */
int seccomp_load(const struct sock_filter *code, size_t n, int *listener_fd, struct err *err);

/* ---- the table: which system calls a session may not make, and why ----
 *
 * It is the documentation: docs/seccomp.md is made from it. A call without a row is allowed, but
 * for foreign architectures and calls that are newer than SECCOMP_CALLS_END. */

/* The first number that the table does not know: Linux 6.18 ends with file_setattr, 469. Numbers
 * from 424 on are the same on every architecture. */
#define SECCOMP_CALLS_END 470

enum seccomp_answer {
	SECCOMP_EPERM,
	SECCOMP_ENOSYS,	    /* libc then takes the older call */
	SECCOMP_EOPNOTSUPP, /* as of a file system that has no such thing */
	SECCOMP_NOTIFY,	    /* the warden decides; allowed where the program is built without it */
	SECCOMP_HOLD,	    /* the same, with SECCOMP_HOLDS */
};

#define SECCOMP_TEST_VALUES 4
/* About the low 32 bits of one argument, which is all that the kernel reads of an int: a test of 64
 * bits can be walked around by setting a high one. */
struct seccomp_test {
	uint8_t arg;
	uint8_t none; /* holds if the masked argument differs from every value, else if it is one of
			 them */
	uint8_t nvalues; /* 0: no test */
	uint32_t mask;
	uint32_t value[SECCOMP_TEST_VALUES];
};

#define SECCOMP_TESTS 2
struct seccomp_row {
	const char *name;
	uint32_t number;
	enum seccomp_answer answer;
	const char *when; /* the tests in words; "" without any */
	const char *reason;
	struct seccomp_test test[SECCOMP_TESTS]; /* all must hold */
};
/* The rows of one call stand together. */
extern const struct seccomp_row seccomp_rows[];
extern const size_t seccomp_nrows;
/* More rows for a session that shares the machine's namespaces; they come first. */
extern const struct seccomp_row seccomp_shared_rows[];
extern const size_t seccomp_shared_nrows;

/* For a process of agentsh's own: these calls and no others, which fail with EPERM. It may make
 * threads, but no processes. A call in `tested` is allowed unless the tests of its row hold. */
struct seccomp_allowed {
	const uint32_t *number;
	size_t n;
	const struct seccomp_row *tested;
	size_t ntested;
};
void seccomp_build_allowed(const struct seccomp_allowed *a, struct seccomp_program *out);
