// SPDX-License-Identifier: Apache-2.0
/* bpf/testkit/bpf_testkit.h - the exec check in the kernel, and a PID namespace whose process 1
 * starts programs on request, as a session's init does.
 *
 * Needs root and a kernel that takes the program. Every function fails the running cmocka test. */
#pragma once
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include "bpf/bpf_load.h"
#include "bpf/exec_layout.h"
#include <stdbool.h>
#include <sys/types.h>

/* Loads and attaches the exec check; skips the test where it cannot be had. */
void bpf_kit_load(struct exec_check *check);

struct bpf_kit_session {
	pid_t init;
	int sock;  /* to init */
	int wants; /* after bpf_kit_add */
};

/* Starts process 1 of a new PID namespace. */
void bpf_kit_start(struct bpf_kit_session *s);
/* Registers it: from now on its processes are checked. */
void bpf_kit_add(struct bpf_kit_session *s, const struct exec_check *check);
/* Starts a process in the namespace, or in one more namespace inside of it. It waits for
 * bpf_kit_exec. Returns its id as the test sees it. */
pid_t bpf_kit_fork(struct bpf_kit_session *s, bool nested);
/* Lets the process execute this program. Returns its wait status. */
int bpf_kit_exec(struct bpf_kit_session *s, const char *path, const char *const argv[]);
/* Ends every process of the namespace. */
void bpf_kit_end(struct bpf_kit_session *s);

/* A want to compare with: the file of this path, and this argv. */
void bpf_kit_want(struct exec_want *want, const char *path, const char *const argv[]);
