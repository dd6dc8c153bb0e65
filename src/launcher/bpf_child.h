// SPDX-License-Identifier: Apache-2.0
/* launcher/bpf_child.h - agentsh-bpf, which loads the kernel's exec check when the server starts,
 * hands it to the launcher and ends. Private to launcher/. */
#pragma once
#include "bpf/exec_sessions.h"
#include "launcher/child.h"

struct launcher;

struct bpf_child {
	struct child child;
	int link;
	struct exec_check check; /* what it loaded */
	struct err why;		 /* that it could not be started */
};
/* Starts it, unless sandbox.bpf is off. */
void bpf_child_start(struct launcher *l);
/* Waits for its answer. The descriptors stay until the launcher ends. E_ENFORCEMENT: sandbox.bpf is
 * required and cannot be had. */
int bpf_child_collect(struct launcher *l, struct err *err);
