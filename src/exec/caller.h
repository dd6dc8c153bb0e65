// SPDX-License-Identifier: Apache-2.0
/* exec/caller.h - the calling process as /proc and its memory show it; private to this folder.
 *
 * Every function takes the caller's thread id. The id belongs to the caller while its notification
 * is valid: call listener_valid() after the last read. */
#pragma once
#include "exec/args.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

pid_t caller_tracer(pid_t tid); /* the thread that traces it; 0: none, -1 if gone */
/* For args_memory_init; arg is a pid_t *. */
int caller_page(void *arg, uint64_t page, uint8_t out[EXEC_PAGE]);
/* Link of /proc/TID/NAME ("cwd", "exe", "fd/3") as text; 0 or an errno. */
int caller_link(pid_t tid, const char *name, char *out, size_t n);
/* Opens /proc/TID/NAME; a descriptor or -errno. */
int caller_open(pid_t tid, const char *name, int flags);
