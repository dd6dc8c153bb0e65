// SPDX-License-Identifier: Apache-2.0
/* agentsh-probe: the program that `agentsh doctor` runs in a session. */
#include "probe/probe.h"
#include <unistd.h>

int main(int argc, char **argv)
{
	/* No exit handlers: a leak checker would trace this process, which the session refuses. */
	_exit(probe_main(argc, argv));
}
