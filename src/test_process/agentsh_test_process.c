// SPDX-License-Identifier: Apache-2.0
/* agentsh-test-process: only in builds with -Dtest_processes=true. */
#include "base/log.h"
#include "test_process/test_process.h"
#include <signal.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
	const struct process_row *row = &process_table[PROCESS_test];
	struct process_args args;
	struct err err = {0};
	int status;

	signal(SIGPIPE, SIG_IGN);
	log_init(row->program, LOG_INFO, LOG_TEXT, 2);
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    process_args_parse(row, argc, argv, &args, &err) < 0) {
		log_error("cannot start", "reason", err.message);
		return 2;
	}
	log_init(row->program, (enum log_level)args.log_level, (enum log_format)args.log_format, 2);
	status = test_process_main(&args);
	process_args_done(&args);
	return status;
}
