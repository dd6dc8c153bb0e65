// SPDX-License-Identifier: Apache-2.0
/* bpf/exec_wants.h - the warden's side of the exec check: what it wants to see loaded, and what the
 * kernel program found (exec_layout.h).
 *
 * A warden holds the map of its own session, and a link to the program, so that the program checks
 * as long as the warden lives. One thread at a time. */
#pragma once
#include "bpf/exec_layout.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct exec_wants;
/* Takes both descriptors. Draws the key of the hashes. */
struct exec_wants *exec_wants_open(int map, int link);
void exec_wants_close(struct exec_wants *w); /* NULL is fine */
/* 0, or a negative errno: the kernel program may not check any more. */
int exec_wants_check(const struct exec_wants *w);

/* For a session without an exec policy, and without a struct exec_wants: the kernel lets all of its
 * programs run. 0 or a negative errno. */
int exec_wants_let_all(int map);

struct exec_decision {
	const char *path; /* longer than EXEC_PATH_MAX: cut */
	dev_t dev;
	ino_t ino;
	const void *argv; /* each argument with its final zero byte */
	size_t argv_len;
};
/* The next exec of a process must load this. 0 or a negative errno; -E2BIG: the map is full. */
int exec_wants_put(struct exec_wants *w, pid_t pid, const struct exec_decision *d);
/* The next exec of a process may load anything. The same results. */
int exec_wants_pass(struct exec_wants *w, pid_t pid);
/* The next exec of a process may load anything if its thread is traced. The same results. */
int exec_wants_stop(struct exec_wants *w, pid_t pid);
/* 0 or a negative errno; -ENOENT: it is used up. */
int exec_wants_get(const struct exec_wants *w, pid_t pid, struct exec_want *out);
/* False: it was used up before. */
bool exec_wants_drop(struct exec_wants *w, pid_t pid);
/* The next entry after *pid; begin with 0. False: there are no more. */
bool exec_wants_next(const struct exec_wants *w, pid_t *pid, struct exec_want *out);
/* The session's counters. A negative errno if they cannot be read. */
int exec_wants_record(const struct exec_wants *w, struct exec_record *out);
