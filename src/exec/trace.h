// SPDX-License-Identifier: Apache-2.0
/* exec/trace.h - the exec stop, for the thread that seized; private to this folder. */
#pragma once
#include "exec/args.h"
#include "exec/image.h"
#include <stdbool.h>
#include <sys/types.h>

/* Whether the host allows to read and trace other processes at all. 0 or an errno. */
int trace_available(void);
/* Whether this thread traces it, dead or alive. */
bool trace_has(pid_t tid);
/* RUNNING: it is on a processor, or must not be looked at. ELSEWHERE: also if it is gone. */
enum trace_place { TRACE_LOADING, TRACE_RUNNING, TRACE_ELSEWHERE };
/* Whether a thread is inside execve. */
enum trace_place trace_where(pid_t tid);
/* At the exec stop: whether program and arguments are these; argv0 counts where no `#!` was
 * followed. */
enum trace_match { TRACE_SAME, TRACE_OTHER_PROGRAM, TRACE_OTHER_ARGS };
enum trace_match trace_compare(pid_t pid, const struct image *image, const char *argv0,
			       const struct args *args);
/* At the exec stop: makes the process call execve(path, {path, the last ntail arguments}) and lets
 * it go. 0 or an errno. */
int trace_inject(pid_t pid, const char *path, size_t ntail);
