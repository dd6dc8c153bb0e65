// SPDX-License-Identifier: Apache-2.0
/* agentsh-bpf: loads the programs that the kernel runs for a server, sends their descriptors to the
 * launcher and ends. Started by the launcher with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN alone:
 * agentsh-bpf --link-fd N */
#include "bpf/bpf_load.h"
#include "bpf/bpf_programs.h"
#include "bpf/exec_check_link.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	struct exec_check check = EXEC_CHECK_NONE;
	struct check_wanted wanted;
	struct err err = {0};
	char *end = NULL;
	long fd = argc == 3 && strcmp(argv[1], "--link-fd") == 0 ? strtol(argv[2], &end, 10) : -1;

	if (fd < 3 || end == NULL || *end != '\0') {
		fprintf(stderr, "agentsh-bpf is started by agentsh-server\n");
		return 2;
	}
	if (!exec_check_asked((int)fd, &wanted))
		return 1;
	if (exec_check_load(&exec_check_image, &check, &err) == 0 && wanted.files != 0)
		file_calls_load(&wanted, &check, &err);
	return exec_check_send((int)fd, &check, &err) < 0;
}
