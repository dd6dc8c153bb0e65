// SPDX-License-Identifier: Apache-2.0
/* test_process/test_process.h - a process of a session that only tests have.
 *
 * It shows that a row of the process table is all that a process needs: it is started for each
 * session, writes events to its own ring, maps the actor table and ends with the session. Built
 * with -Dtest_processes=true only. */
#pragma once
#include "model/process_args.h"

int test_process_main(const struct process_args *args); /* exit status */
