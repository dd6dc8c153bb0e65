// SPDX-License-Identifier: Apache-2.0
/* bpf/exec_check_link.h - agentsh-bpf, as the launcher sees it: what it needs and what it sends. */
#pragma once
#include "bpf/exec_sessions.h"
#include <linux/capability.h>
#include <stdint.h>

/* To load programs, to read the kernel's memory with them, and to attach those for sockets. */
#define BPF_CAPS \
	(UINT64_C(1) << CAP_BPF | UINT64_C(1) << CAP_PERFMON | UINT64_C(1) << CAP_NET_ADMIN)
/* E_ENFORCEMENT: this process has lost one of them, and cannot give it to a child. */
int bpf_caps_check(struct err *err);

/* Sends the check, or why it cannot be had. */
int exec_check_send(int link_fd, const struct exec_check *check, const struct err *why);
/* Waits for it, and closes the link. E_ENFORCEMENT: the reason of agentsh-bpf, or it did
 * not answer in time. E_UNAVAILABLE: it has ended without an answer. E_BAD_REQUEST: it sent another
 * message. */
int exec_check_receive(int link_fd, int timeout_ms, struct exec_check *out, struct err *err);
