// SPDX-License-Identifier: Apache-2.0
/* test_process/test_process.h - a process of a session that only tests have.
 *
 * It shows what a process gets by its row of the process table. A test stands in for the processes
 * that it would intercept: the test connects to the abstract socket
 * "agentsh-test-process-SESSION_ID" (SOCK_SEQPACKET) and sends
 *
 *     ask PID OPERATION PATH    the process PID wants to do this to a file
 *     allow N, deny N           the approver's answer to the question N, counted from 1
 *
 * The test process attributes the operation to a command, asks its gate and sends "N pending", and
 * "N allow COMMAND_ID" or "N deny COMMAND_ID" when it is decided. Built with -Dtest_processes=true
 * only. */
#pragma once
#include "process/process_self.h"

extern const struct process_program test_process;
