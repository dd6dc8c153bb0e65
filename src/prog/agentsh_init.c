// SPDX-License-Identifier: Apache-2.0
/* agentsh-init: PID 1 of a session that has a PID namespace, the ancestor of all its processes
 * anyway. Started by the stub with the link, the plan and a socket for
 * its assignment as descriptors 3, 4, 5.
 *
 * Commands of a session run the same program by the names als, acat and so on: two static programs
 * would contain libc twice. */
#include "acmd/acmd.h"
#include "sandbox/sandbox.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(acmd_base(argv[0]), "agentsh-init") != 0)
		return acmd_main(argc, argv, environ, STDOUT_FILENO);
	if (fcntl(INIT_PLAN_FD, F_GET_SEALS) <= 0) { /* only a plan is sealed */
		fputs("agentsh-init: started by agentsh-server only\n", stderr);
		return 2;
	}
	return sandbox_init_main(INIT_LINK_FD, INIT_PLAN_FD, INIT_ASSIGNMENT_FD);
}
