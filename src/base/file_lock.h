// SPDX-License-Identifier: Apache-2.0
/* base/file_lock.h - a file that one process has to itself. Any process.
 *
 * By a POSIX record lock: forked children do not inherit it, and the kernel names its holder, so
 * that a holder that is just dying is waited for and a living one is told of. */
#pragma once
#include <sys/types.h>

/* Claims the file, which is open for writing, until this process ends or closes any descriptor of
 * it. Waits up to wait_ms for the end of each holder. -1/errno; EAGAIN: *holder has it (0: nobody
 * knows who). */
int file_lock_take(int fd, int wait_ms, pid_t *holder);
