// SPDX-License-Identifier: Apache-2.0
/* check/check.h - parses policies for the launcher, in a process without any power.
 *
 * Process agentsh-check, one thread, short-lived: the launcher starts it without capabilities, with
 * a uid of its own and with limits of time and memory, and sends it one check_ask (link/msg.h). It
 * compiles the policies, sends one check_policy with a sealed snapshot for each, and ends. */
#pragma once

/* Serves one check_ask on the link; the exit status. Takes the descriptor. */
int check_main(int link_fd);
