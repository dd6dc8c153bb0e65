// SPDX-License-Identifier: Apache-2.0
/* launcher/launcher.h - the privileged parent of the server.
 *
 * Process agentsh-server, one thread, one loop. It holds the listening sockets, starts and restarts
 * the API child, reads the configuration and the keys, checks by itself who asks for a session,
 * makes sessions and sees them die. It never reads a byte of the network; whatever the API child
 * sends is treated as if an attacker had written it. */
#pragma once
#include "base/err.h"
#include "base/fields.h"
#include <stdbool.h>
#include <sys/types.h>

/* The command line. Strings are owned: launcher_options_done. */
struct launcher_options {
	char *config_path;     /* --config, else AGENTSH_CONFIG, else NULL: the mode's default if it
				  exists */
	struct strv overrides; /* "key=value" of --set and --log-level, in their order */
	bool accept_loss;      /* --accept-loss: go on without what a damaged redo file held */
	bool auto_start; /* --auto: a server that ends when idle, or uses one that runs already */
	int ready_fd;	 /* --ready-fd, or -1 */
	bool help, version;
};
/* Reads flags and AGENTSH_CONFIG. E_BAD_REQUEST names the flag. */
int launcher_options_parse(int argc, char *const argv[], struct launcher_options *out,
			   struct err *err);
void launcher_options_done(struct launcher_options *o);
extern const char launcher_usage[];

/* Runs the server until it is stopped; returns the exit status. It prints or logs its messages. */
int launcher_main(const struct launcher_options *o);
