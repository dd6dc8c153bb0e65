// SPDX-License-Identifier: Apache-2.0
/* agentsh-server: the launcher. */
#include "launcher/launcher.h"
#include <stdio.h>

int main(int argc, char **argv)
{
	struct launcher_options options;
	struct err err = {0};
	int status = 0;

	if (launcher_options_parse(argc, argv, &options, &err) < 0) {
		fprintf(stderr, "agentsh-server: %s\n%s", err.message, launcher_usage);
		return err_row(err.code)->exit;
	}
	if (options.help)
		fputs(launcher_usage, stdout);
	else if (options.version)
		puts("agentsh-server " AGENTSH_VERSION);
	else
		status = launcher_main(&options);
	launcher_options_done(&options);
	return status;
}
