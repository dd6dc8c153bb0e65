// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "spawn/assignment.h"
#include "warden/warden.h"
#include <string.h>

int main(int argc, char **argv)
{
	const struct process_row *row = &process_table[PROCESS_warden];
	struct process_args args;
	struct err err = {0};
	int r, status;

	log_init(row->program, LOG_INFO, LOG_TEXT, 2);
	/* The stub starts a warden that waits; a test may start one that has its session. */
	r = argc > 1 && strcmp(argv[1], ASSIGNMENT_ID) == 0
		    ? assignment_await(argc, argv, NULL, &args, &err)
		    : process_args_parse(row, argc, argv, &args, &err);
	if (r < 0) {
		log_error("bad arguments", "reason", err.message);
		return 2;
	}
	log_init(row->program, (enum log_level)args.log_level, (enum log_format)args.log_format, 2);
	status = warden_main(&args, NULL);
	process_args_done(&args);
	return status;
}
