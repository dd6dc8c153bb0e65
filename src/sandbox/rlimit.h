// SPDX-License-Identifier: Apache-2.0
/* sandbox/rlimit.h - what one process of a command may use: setrlimit(2).
 *
 * init decides once, with the limits it has; a leader applies, for its commands. These
 * bound one process (processes: one user); what a session may use together is cgroup.h's. */
#pragma once
#include "base/err.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#define RLIMIT_NOT_ASKED UINT64_MAX
#define RLIMIT_ROWS_MAX 8

/* RLIMIT_NOT_ASKED leaves one as it is. No hard limit is ever raised. */
struct rlimit_ask {
	uint64_t open_files;
	uint64_t file_bytes;	  /* of the largest file */
	uint64_t locked_bytes;	  /* of memory that cannot be swapped */
	uint64_t processes;	  /* of this uid, in this user namespace */
	uint64_t open_files_soft; /* 0: the one that is there */
};
struct rlimit_plan {
	size_t n;
	struct {
		int resource;
		struct rlimit limit;
	} row[RLIMIT_ROWS_MAX];
};
/* Core dumps, real-time and negative nice values are always shut off. E_ENFORCEMENT, subject
 * "rlimit". */
int rlimit_prepare(const struct rlimit_ask *ask, struct rlimit_plan *out, struct err *err);
/* In a leader, for all its commands: 0 or an errno. */
int rlimit_apply(const struct rlimit_plan *plan);
/* The open files, in the command itself: 0 or an errno; no memory is touched. Descriptors that are
 * on their way in sockets are counted per user, and who has a limit above the count may send more
 * (unix(7)): that must be our processes and no command. */
int rlimit_apply_files(const struct rlimit_plan *plan);
/* In init and whoever else sends descriptors: as many as it may. 0 or an errno. */
int rlimit_raise_files(void);
