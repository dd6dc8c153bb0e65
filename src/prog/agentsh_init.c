// SPDX-License-Identifier: Apache-2.0
/* agentsh-init: PID 1 of a session. Started by the stub with the link, the plan and a socket for
 * its orders as descriptors 3, 4, 5. */
#include "sandbox/sandbox.h"
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	if (getpid() != 1) {
		fputs("agentsh-init: started by agentsh-server only\n", stderr);
		return 2;
	}
	return sandbox_init_main(INIT_LINK_FD, INIT_PLAN_FD, INIT_ORDERS_FD);
}
