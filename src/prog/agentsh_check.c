// SPDX-License-Identifier: Apache-2.0
/* agentsh-check: parses policies for the launcher. Started with its link as descriptor 3. */
#include "base/log.h"
#include "check/check.h"
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINK_FD 3

int main(void)
{
	int type = 0;

	if (getsockopt(LINK_FD, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof(type)}) < 0 ||
	    type != SOCK_SEQPACKET) {
		fputs("agentsh-check: started by agentsh-server only\n", stderr);
		return 2;
	}
	log_init("agentsh-check", LOG_INFO, LOG_TEXT, STDERR_FILENO);
	/* Without what a library does at its end: the filter refuses most of it. */
	_exit(check_main(LINK_FD));
}
