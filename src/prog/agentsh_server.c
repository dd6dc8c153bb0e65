// SPDX-License-Identifier: Apache-2.0
/* agentsh-server: the launcher. */
#include "launcher/launcher.h"
#include "warden/warden.h"
#include <stdio.h>

static void warden_argv(const struct launcher_warden *w, struct strv *argv)
{
	const struct warden_args args = {
		.session_id = w->session_id,
		.listen_fd = w->listen_fd,
		.api_fd = w->api_fd,
		.init_fd = w->init_fd,
		.ring_fd = w->ring_fd,
		.ack_fd = w->ack_fd,
		.policy_fd = w->policy_fd,
		.init_pid = w->init_pid,
		.api_uid = w->api_uid,
		.walls = *w->walls,
		.counters = *w->counters,
		.log_level = w->log_level,
		.log_format = w->log_format,
	};

	warden_args_format(&args, argv);
}

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
		status = launcher_main(&options, warden_argv);
	launcher_options_done(&options);
	return status;
}
