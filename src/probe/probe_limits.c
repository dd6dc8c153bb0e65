// SPDX-License-Identifier: Apache-2.0
/* Acts that use more than the limits of a session. */
#include "probe/probe.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)
#define MEMORY_FACTOR 3
#define MORE_PROCESSES 8
#define SPIN_NS 500000000L
#define SECOND_NS 1000000000L

/* Pages that were swapped out do not count: they are not over the limit. */
static int fill(const void *arg)
{
	const size_t limit = *(const size_t *)arg, size = limit * MEMORY_FACTOR;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t resident = 0;
	FILE *f;

	if (p == MAP_FAILED)
		return errno;
	memset(p, 1, size);
	f = fopen("/proc/self/statm", "re");
	if (f == NULL)
		return errno;
	if (fscanf(f, "%*s %zu", &resident) != 1)
		resident = 0;
	fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE) > 2 * limit ? 0 : ENOMEM;
}

static enum probe_outcome use_memory(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const size_t limit = strtoull(a->memory, NULL, 10) * MIB;

	return probe_child(fill, &limit, detail);
}

static enum probe_outcome use_processes(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const long want = strtol(a->pids, NULL, 10) + MORE_PROCESSES;
	enum probe_outcome outcome;
	long n = 0;
	pid_t *kid = calloc((size_t)want, sizeof(*kid));

	if (kid == NULL)
		return probe_said(-1, detail);
	for (; n < want; n++) {
		kid[n] = fork();
		if (kid[n] == 0)
			for (;;)
				pause();
		if (kid[n] == -1)
			break;
	}
	outcome = probe_said(n < want ? -1 : 0, detail);
	while (n-- > 0) {
		kill(kid[n], SIGKILL);
		waitpid(kid[n], NULL, 0);
	}
	free(kid);
	return outcome;
}

static long nanoseconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * SECOND_NS + t.tv_nsec;
}

/* The first and the last period are not whole: they can give a little more than the share. */
static enum probe_outcome use_cpu(const struct probe_args *a, char detail[PROBE_DETAIL])
{
	const long limit = strtol(a->cpu, NULL, 10);
	const long begin = nanoseconds(CLOCK_MONOTONIC);
	const long cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
	long wall, used;

	while (nanoseconds(CLOCK_MONOTONIC) - begin < SPIN_NS)
		;
	wall = nanoseconds(CLOCK_MONOTONIC) - begin;
	used = (nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 100 / wall;
	snprintf(detail, PROBE_DETAIL, "got %ld %% of one CPU", used);
	return used > 2 * limit ? PROBE_DONE : PROBE_REFUSED;
}

#define NEEDS(name) offsetof(struct probe_args, name)
const struct probe_act probe_limits[] = {
	{"memory_limit", "use three times the memory", use_memory, NEEDS(memory)},
	{"pids_limit", "start more processes", use_processes, NEEDS(pids)},
	{"cpu_limit", "use twice the CPU time", use_cpu, NEEDS(cpu)},
	{NULL},
};
