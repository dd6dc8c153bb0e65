// SPDX-License-Identifier: Apache-2.0
/* agentsh-test-process: only in builds with -Dtest_processes=true. */
#include "test_process/test_process.h"

int main(int argc, char **argv)
{
	return process_run(&process_table[PROCESS_test], &test_process, argc, argv);
}
