// SPDX-License-Identifier: Apache-2.0
/* sandbox/seccomp_table.h - which system calls a session may not make, and why.
 *
 * The table is the documentation: docs/seccomp.md is made from it. What is in no row is allowed,
 * but for foreign architectures and calls that are newer than SECCOMP_CALLS_END (see seccomp.h). */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The first number that the table does not know: Linux 6.18 ends with file_setattr, 469. Numbers
 * from 424 on are the same on every architecture. */
#define SECCOMP_CALLS_END 470

enum seccomp_answer {
	SECCOMP_EPERM,
	SECCOMP_ENOSYS,	    /* libc then takes the older call */
	SECCOMP_EOPNOTSUPP, /* as of a file system that has no such thing */
	SECCOMP_NOTIFY,	    /* the warden decides; allowed where the program is built without it */
};

#define SECCOMP_TEST_VALUES 4
/* About the low 32 bits of one argument, which is all that the kernel reads of an int: a test of 64
 * bits can be walked around by setting a high one. */
struct seccomp_test {
	uint8_t arg;
	uint8_t none; /* holds if the masked argument is none of the values, else if one of them */
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
