// SPDX-License-Identifier: Apache-2.0
/* agentsh: the command line. The launcher runs the same program as agentsh-check, with the
 * descriptor of its link as the last argument: both compile policies, and one file is smaller than
 * two. */
#include "check/check.h"
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	/* _exit leaves out what libraries do at their end: the filter refuses most of it. */
	if (argc == 3 && strcmp(argv[0], "agentsh-check") == 0)
		_exit(check_main(atoi(argv[2])));
	return cli_main(argc, argv);
}
