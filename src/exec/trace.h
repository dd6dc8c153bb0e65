// SPDX-License-Identifier: Apache-2.0
/* exec/trace.h - the exec stop: seize, compare, replace; private to this folder, and only for the
 * thread that seized. x86-64 registers. */
#pragma once
#include "exec/args.h"
#include "exec/image.h"
#include <stdbool.h>
#include <sys/types.h>

/* Whether the host allows to read and trace other processes at all. 0 or an errno. */
int trace_available(void);
/* From now on an exec stops the thread, and the kernel kills it when we end. 0 or an errno. */
int trace_seize(pid_t tid);
/* Whether this thread traces it, dead or alive. */
bool trace_has(pid_t tid);
/* Detaches a stopped thread, with a signal or 0. False: SIGKILL has ended its stop, and it stays
 * our tracee until it is reaped. */
bool trace_detach(pid_t tid, int sig);
/* At an exec stop: the thread id that the caller had before. */
pid_t trace_old_tid(pid_t pid);
/* False: SIGKILL has ended its stop. */
bool trace_is_stopped(pid_t pid);
/* True while it is still inside execve. */
bool trace_is_loading(pid_t tid);
void trace_interrupt(pid_t tid);
/* At the exec stop: the loaded program is this file, and its arguments are those; argv0 counts
 * where no `#!` was followed. */
bool trace_matches(pid_t pid, const struct image *image, const char *argv0,
		   const struct args *args);
/* At the exec stop: makes the process call execve(path, {path, the last ntail arguments}) and lets
 * it go. 0 or an errno. */
int trace_inject(pid_t pid, const char *path, size_t ntail);
