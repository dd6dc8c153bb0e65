// SPDX-License-Identifier: Apache-2.0
/* bpf/exec_sessions.h - the sessions whose execs the kernel checks (exec_layout.h). */
#pragma once
#include "base/err.h"
#include "bpf/exec_layout.h"
#include <sys/types.h>

/* For the stub, which started init in a PID namespace of its own: from now on the kernel kills
 * every process of the namespace, except for init, that executes a program without a want. *wants
 * is the session's own map, for the warden; the caller owns it. Needs CAP_BPF. */
int exec_sessions_add(int sessions, pid_t init, struct exec_session_key *key, int *wants,
		      struct err *err);
/* The session has ended. An entry that is not there is fine. */
void exec_sessions_remove(int sessions, const struct exec_session_key *key);
