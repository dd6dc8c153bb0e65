// SPDX-License-Identifier: Apache-2.0
/* agentsh-probe: what `agentsh doctor` runs inside a session. */
#include "probe/probe.h"
#include <unistd.h>

int main(int argc, char **argv)
{
	/* Without what a library does at its end: a leak checker would trace us, which is refused.
	 */
	_exit(probe_main(argc, argv));
}
