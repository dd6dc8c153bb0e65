// SPDX-License-Identifier: Apache-2.0
/* base/file_lock.h - a file that one process has to itself. Any process.
 *
 * By a POSIX record lock: forked children do not inherit it, and the kernel names its holder, so
 * that the caller waits for a dying holder and reports a living one. */
#pragma once
#include <sys/types.h>

/* Claims the file, which is open for writing, until this process ends or closes any descriptor of
 * it. Waits up to wait_ms for the end of each holder. -1/errno; EAGAIN: *holder has it (0: a
 * process outside of our PID namespace). */
int file_lock_take(int fd, int wait_ms, pid_t *holder);
