// SPDX-License-Identifier: Apache-2.0
/* agentsh-probe-bpf: tries each BPF program for `agentsh doctor`. Run by root, outside of sessions.
 * Prints the same lines as agentsh-probe. */
#include "probe/probe.h"
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], PROBE_RAN) == 0)
		_exit(0);
	for (const struct probe_act *act = probe_bpf_acts; argc == 1 && act->group != NULL; act++)
		probe_try(act, NULL);
	_exit(argc == 1 ? 0 : 2);
}
