// SPDX-License-Identifier: Apache-2.0
/* One program with all attacks, so that one command tries many: `attacks NAME…`.
 *
 * An attack is a function that runs in a process of its own. It returns 0 if it got what it wanted,
 * else the errno that stopped it. Places on the host (a file, a process, a socket) come as
 * KEY=value lines of a file: the same attack runs against a host's real ones and, as its control,
 * outside. */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct attack {
	const char *name;
	int (*run)(void);
};
/* Each ends with a row without a name. */
extern const struct attack mount_attacks[], file_attacks[], process_attacks[], kernel_attacks[],
	machine_attacks[], socket_attacks[], privilege_attacks[], program_attacks[],
	limit_attacks[], gateway_attacks[];

#define BROKEN 250 /* the attack could not be made: neither done nor refused */

/* The value of a key; ends the attack as BROKEN if there is none. */
const char *place(const char *key);
long place_number(const char *key);

static inline int outcome(long result)
{
	return result == -1 ? errno : 0;
}

/* Opens and closes. */
static inline int try_open(const char *path, int flags)
{
	return outcome(open(path, flags | O_CLOEXEC, 0600));
}

/* Waits for a child: its exit status, or 128 + its signal. */
int status_of(pid_t pid);
