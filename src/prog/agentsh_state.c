// SPDX-License-Identifier: Apache-2.0
/* agentsh-state: a session's shell runs it as its last act; it sends the environment and the
 * working directory to the warden. */
#include "spawn/capture.h"
#include <unistd.h>

int main(void)
{
	return capture_send_main(environ);
}
