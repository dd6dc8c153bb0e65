// SPDX-License-Identifier: Apache-2.0
/* exec/maps.h - whether memory of another process is its own; private to this folder. */
#pragma once
#include "exec/fixed.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mapping {
	uint64_t start, end, inode;
	dev_t dev;
	bool shared;
	char name[4096];
};

/* True if each of these pages is private to the process: anonymous, or of a file that the session
 * cannot write. Holds while only the process itself can change its memory. */
bool maps_private(pid_t tid, const uint64_t *page, unsigned n, struct fixed_names *names);
/* The mapping of a page in the text of /proc/PID/maps, for kernels before 6.11. 0, ENOENT, or
 * EPROTO: not such a text. */
int maps_find(const char *text, uint64_t page, struct mapping *m);
