// SPDX-License-Identifier: Apache-2.0
#include "api/api.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Started by the launcher: agentsh-api --link-fd N */
int main(int argc, char **argv)
{
	char *end = NULL;
	long fd = argc == 3 && strcmp(argv[1], "--link-fd") == 0 ? strtol(argv[2], &end, 10) : -1;

	if (fd < 3 || end == NULL || *end != '\0') {
		fprintf(stderr, "agentsh-api is started by agentsh-server\n");
		return 2;
	}
	return api_main((int)fd);
}
