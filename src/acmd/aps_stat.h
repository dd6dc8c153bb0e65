// SPDX-License-Identifier: Apache-2.0
/* acmd/aps_stat.h - reads a line of /proc/PID/stat; private to this folder. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct process_stat {
	int pid, ppid;
	char state, name[64];
	unsigned threads;
	uint64_t ticks;	  /* of CPU time */
	uint64_t started; /* ticks after the boot */
	int64_t pages;
};
/* False if it is not such a line. The name may contain anything. */
bool process_stat_parse(const char *text, struct process_stat *out);
