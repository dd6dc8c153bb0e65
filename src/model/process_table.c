// SPDX-License-Identifier: Apache-2.0
#include "model/process_table.h"
#include "base/mem.h"

const struct process_row process_table[PROCESSES] = {
#define X(name, program, people, start, need, ring, args) \
	{#name, program, people, PROCESS_##start, PROCESS_NEEDS_##need, ring, args},
	PROCESS_TABLE(X)
#undef X
};

const struct process_row process_waiting = {
	"warden", "agentsh-warden",    "the warden", PROCESS_MAIN, PROCESS_NEEDS_NOTHING,
	true,	  PROCESS_WAITING_ARGS};

enum process process_of(enum process_start start)
{
	size_t i = 0;

	while (i < PROCESSES && process_table[i].start != start)
		i++;
	ensure(i < PROCESSES);
	return (enum process)i;
}

bool process_used(enum process p, bool files)
{
	return files || process_table[p].need != PROCESS_NEEDS_FILES;
}

size_t process_count(bool files, size_t *rings)
{
	size_t n = 0;

	*rings = 0;
	for (size_t p = 0; p < PROCESSES; p++)
		if (process_used((enum process)p, files)) {
			n++;
			*rings += process_table[p].ring;
		}
	return n;
}

enum process process_with_ring(size_t i)
{
	size_t p = 0;

	while (!process_table[p].ring || i-- > 0)
		p++;
	return (enum process)p;
}
