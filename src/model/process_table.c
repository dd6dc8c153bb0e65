// SPDX-License-Identifier: Apache-2.0
#include "model/process_table.h"
#include "base/mem.h"

const struct process_row process_table[PROCESSES] = {
#define X(name, program, people, start, ring, args) \
	{#name, program, people, PROCESS_##start, ring, args},
	PROCESS_TABLE(X)
#undef X
};

const struct process_row process_waiting = {
	"warden", "agentsh-warden", "the warden", PROCESS_MAIN, true, PROCESS_WAITING_ARGS};

enum process process_of(enum process_start start)
{
	size_t i = 0;

	while (i < PROCESSES && process_table[i].start != start)
		i++;
	ensure(i < PROCESSES);
	return (enum process)i;
}

enum process process_with_ring(size_t i)
{
	size_t p = 0;

	while (!process_table[p].ring || i-- > 0)
		p++;
	return (enum process)p;
}
